package helm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	awsapis "github.com/aws/karpenter-provider-aws/pkg/apis"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coreapis "sigs.k8s.io/karpenter/pkg/apis"
	"sigs.k8s.io/yaml"
)

// crdDigest is an annotation on castoff's CRDs: the digest of what was asked for. The API server may drop fields it does not
// know, so comparing what came back would never come to rest on an old one.
const crdDigest = "castoff.sh/definition-digest"

// crdAdopted is an annotation on a CRD that nobody owned when castoff found it: it is kept up to date, and never removed.
const crdAdopted = "castoff.sh/adopted"

// CRDStatus is what observation makes of one of the engine's CRDs.
type CRDStatus string

const (
	// CRDMissing means that it does not exist; ApplyCRDs makes it.
	CRDMissing CRDStatus = "Missing"
	// CRDCurrent means that it serves what the engine needs, whoever owns it.
	CRDCurrent CRDStatus = "Current"
	// CRDOutdated means that castoff made it from another version; ApplyCRDs brings it up to date.
	CRDOutdated CRDStatus = "Outdated"
	// CRDUnowned means that it differs, that nobody owns it (a Karpenter that is gone left it), and that castoff's would lose
	// nothing of it; ApplyCRDs adopts it in place, and its objects stay.
	CRDUnowned CRDStatus = "Unowned"
	// CRDForeign means that somebody else's differs from what the engine needs; it is left alone.
	CRDForeign CRDStatus = "Foreign"
)

// CRD is the state of one of the engine's CRDs.
type CRD struct {
	Name   string
	Status CRDStatus
	// Owner is empty if castoff made or adopted it, or it is missing.
	Owner string
	// Adopted says that castoff found it.
	Adopted bool
	// Established says that the API server serves it.
	Established bool
	// Dropped are versions in which objects may be stored and that the engine's definition does not have: the API server refuses a
	// definition without them (Kubernetes, "Versions in CustomResourceDefinitions").
	Dropped []string
}

// Made says that castoff made it, in whatever version, and nobody took it over: RemoveCRDs would take it away.
func (c CRD) Made() bool { return c.Status != CRDMissing && c.Owner == "" && !c.Adopted }

// EngineCRDs are the definitions that the built-in engine needs, from the bytes its modules embed, marked as castoff's. They are
// no part of a Helm release: uninstalling one would delete every NodePool, and with them every node.
func EngineCRDs() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	sources := [][]byte{awsapis.NodePoolCRD, awsapis.NodeClaimCRD, awsapis.NodeOverlayCRD, awsapis.EC2NodeClassCRD, coreapis.CapacityBufferCRD}
	crds := make([]*apiextensionsv1.CustomResourceDefinition, 0, len(sources))
	for _, source := range sources {
		crd, err := decodeCRD(source)
		if err != nil {
			return nil, fmt.Errorf("decoding an embedded CRD: %w", err)
		}
		crds = append(crds, crd)
	}
	return crds, nil
}

func decodeCRD(source []byte) (*apiextensionsv1.CustomResourceDefinition, error) {
	crd := new(apiextensionsv1.CustomResourceDefinition)
	if err := yaml.Unmarshal(source, crd); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(source)
	crd.Labels = withKey(crd.Labels, managedBy, fieldManager)
	crd.Annotations = withKey(crd.Annotations, crdDigest, hex.EncodeToString(sum[:]))
	return crd, nil
}

// definitions are the CRDs that a release's engine needs: those of its chart, if it comes with its own.
func (c *Client) definitions(ctx context.Context, r Release) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	if r.Remote == nil {
		return EngineCRDs()
	}
	loaded, err := c.loaded(ctx, r)
	if err != nil {
		return nil, err
	}
	var crds []*apiextensionsv1.CustomResourceDefinition
	for _, object := range loaded.CRDObjects() {
		crd, err := decodeCRD(object.File.Data)
		if err != nil {
			return nil, fmt.Errorf("release %s: decoding %s of its chart: %w", r, object.Filename, err)
		}
		crds = append(crds, crd)
	}
	if len(crds) == 0 {
		return EngineCRDs()
	}
	return crds, nil
}

func withKey(m map[string]string, key, value string) map[string]string {
	if m == nil {
		m = map[string]string{}
	}
	m[key] = value
	return m
}

// ObserveCRDs says in what state each of the CRDs is that the release's engine needs. It costs one call for each and writes
// nothing. Errors: *PullError if they come with a chart that cannot be had, or the cluster's.
func (c *Client) ObserveCRDs(ctx context.Context, r Release) ([]CRD, error) {
	wanted, err := c.definitions(ctx, r)
	if err != nil {
		return nil, classed(err)
	}
	return c.observeCRDs(ctx, wanted)
}

func (c *Client) observeCRDs(ctx context.Context, wanted []*apiextensionsv1.CustomResourceDefinition) ([]CRD, error) {
	states := make([]CRD, 0, len(wanted))
	for _, want := range wanted {
		got, err := c.getCRD(ctx, want.Name)
		if err != nil {
			return nil, err
		}
		states = append(states, classifyCRD(want, got))
	}
	return states, nil
}

// getCRD gives nil for one that does not exist.
func (c *Client) getCRD(ctx context.Context, name string) (*apiextensionsv1.CustomResourceDefinition, error) {
	got, err := c.crds.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, classed(fmt.Errorf("reading CRD %s: %w", name, err))
	}
	return got, nil
}

// classifyCRD judges what the cluster has; got is nil if it has none.
func classifyCRD(want, got *apiextensionsv1.CustomResourceDefinition) CRD {
	state := CRD{Name: want.Name, Status: CRDMissing}
	if got == nil {
		return state
	}
	state.Established = established(got)
	for _, stored := range got.Status.StoredVersions {
		if !slices.ContainsFunc(want.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == stored }) {
			state.Dropped = append(state.Dropped, stored)
		}
	}
	ours := got.Labels[managedBy] == fieldManager && got.Annotations[helmName] == ""
	if !ours {
		state.Owner = owner(got)
	}
	state.Adopted = ours && got.Annotations[crdAdopted] != ""
	switch {
	case ours && got.Annotations[crdDigest] == want.Annotations[crdDigest]:
		state.Status = CRDCurrent
	case ours:
		state.Status = CRDOutdated
	case equality.Semantic.DeepEqual(got.Spec.Versions, want.Spec.Versions):
		state.Status = CRDCurrent
	case unowned(got) && covers(want, got):
		state.Status = CRDUnowned
	default:
		state.Status = CRDForeign
	}
	return state
}

// covers says that everything that the cluster's definition knows is in the wanted one too: a later version's is not taken back
// to an earlier one, whose fields would be dropped from every object.
func covers(want, got *apiextensionsv1.CustomResourceDefinition) bool {
	for _, have := range got.Spec.Versions {
		i := slices.IndexFunc(want.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == have.Name })
		switch {
		case i < 0 && slices.Contains(got.Status.StoredVersions, have.Name):
			return false
		case i < 0 || have.Schema == nil || want.Spec.Versions[i].Schema == nil:
		case !knows(want.Spec.Versions[i].Schema.OpenAPIV3Schema, have.Schema.OpenAPIV3Schema):
			return false
		}
	}
	return true
}

// knows says that every property of the one schema is in the other.
func knows(wide, narrow *apiextensionsv1.JSONSchemaProps) bool {
	if narrow == nil || wide == nil {
		return narrow == nil
	}
	for name, property := range narrow.Properties {
		if other, ok := wide.Properties[name]; !ok || !knows(&other, &property) {
			return false
		}
	}
	if narrow.Items == nil || narrow.Items.Schema == nil {
		return true
	}
	return wide.Items != nil && knows(wide.Items.Schema, narrow.Items.Schema)
}

func established(crd *apiextensionsv1.CustomResourceDefinition) bool {
	return slices.ContainsFunc(crd.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
	})
}

// ApplyCRDs makes the CRDs of the release's engine that are missing, adopts those that nobody owns, and brings castoff's own up
// to date; it does not wait until they are Established. None is ever deleted, so objects stay. A CRD of another owner that
// differs is left alone and reported by a *ForeignError, after the others were made.
func (c *Client) ApplyCRDs(ctx context.Context, r Release) error {
	wanted, err := c.definitions(ctx, r)
	if err != nil {
		return classed(err)
	}
	states, err := c.observeCRDs(ctx, wanted)
	if err != nil {
		return err
	}
	var foreign []error
	for i, state := range states {
		if state.Adopted || state.Status == CRDUnowned {
			wanted[i].Annotations[crdAdopted] = "true"
		}
		switch state.Status {
		case CRDMissing:
			// Not forced: if somebody made it since, they keep it and the next observation says so.
			err = c.applyCRD(ctx, wanted[i], false)
		case CRDOutdated, CRDUnowned:
			err = c.applyCRD(ctx, wanted[i], true)
		case CRDForeign:
			foreign = append(foreign, &ForeignError{Object: "CRD " + state.Name, Owner: state.Owner})
		}
		if err != nil {
			return err
		}
	}
	return classed(errors.Join(foreign...))
}

// applyCRD uses server-side apply for the first write too: fields that a later version drops are then dropped in the cluster.
func (c *Client) applyCRD(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition, force bool) error {
	body := struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        map[string]any                               `json:"metadata"`
		Spec            apiextensionsv1.CustomResourceDefinitionSpec `json:"spec"`
	}{
		TypeMeta: metav1.TypeMeta{APIVersion: apiextensionsv1.SchemeGroupVersion.String(), Kind: "CustomResourceDefinition"},
		Metadata: map[string]any{"name": crd.Name, "labels": crd.Labels, "annotations": crd.Annotations},
		Spec:     crd.Spec,
	}
	patch, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encoding CRD %s: %w", crd.Name, err)
	}
	options := metav1.PatchOptions{FieldManager: fieldManager, Force: &force}
	if _, err := c.crds.Patch(ctx, crd.Name, types.ApplyPatchType, patch, options); err != nil {
		return classed(fmt.Errorf("applying CRD %s: %w", crd.Name, err))
	}
	return nil
}
