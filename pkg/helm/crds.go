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

// CRDStatus is what observation makes of one of the engine's CRDs.
type CRDStatus string

const (
	// CRDMissing means that it does not exist; ApplyCRDs makes it.
	CRDMissing CRDStatus = "Missing"
	// CRDCurrent means that it serves what the engine needs, whoever owns it.
	CRDCurrent CRDStatus = "Current"
	// CRDOutdated means that castoff made it from another version; ApplyCRDs brings it up to date.
	CRDOutdated CRDStatus = "Outdated"
	// CRDForeign means that somebody else made it and it differs from what the engine needs; it is left alone.
	CRDForeign CRDStatus = "Foreign"
)

// CRD is the state of one of the engine's CRDs.
type CRD struct {
	Name   string
	Status CRDStatus
	// Owner is empty if castoff made it or it is missing.
	Owner string
	// Established says that the API server serves it.
	Established bool
}

// Made says that castoff made it, in whatever version, and nobody took it over: RemoveCRDs would take it away.
func (c CRD) Made() bool { return c.Status != CRDMissing && c.Owner == "" }

// EngineCRDs are the definitions that the built-in engine needs, from the bytes its modules embed, marked as castoff's. They are
// no part of a Helm release: uninstalling one would delete every NodePool, and with them every node.
func EngineCRDs() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	sources := [][]byte{awsapis.NodePoolCRD, awsapis.NodeClaimCRD, awsapis.NodeOverlayCRD, awsapis.EC2NodeClassCRD, coreapis.CapacityBufferCRD}
	crds := make([]*apiextensionsv1.CustomResourceDefinition, 0, len(sources))
	for _, source := range sources {
		crd := new(apiextensionsv1.CustomResourceDefinition)
		if err := yaml.Unmarshal(source, crd); err != nil {
			return nil, fmt.Errorf("decoding an embedded CRD: %w", err)
		}
		sum := sha256.Sum256(source)
		crd.Labels = withKey(crd.Labels, managedBy, fieldManager)
		crd.Annotations = withKey(crd.Annotations, crdDigest, hex.EncodeToString(sum[:]))
		crds = append(crds, crd)
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

// ObserveCRDs says in what state each of the engine's CRDs is. It costs one call for each and writes nothing.
func (c *Client) ObserveCRDs(ctx context.Context) ([]CRD, error) {
	wanted, err := EngineCRDs()
	if err != nil {
		return nil, err
	}
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
	ours := got.Labels[managedBy] == fieldManager && got.Annotations[helmName] == ""
	if !ours {
		state.Owner = owner(got)
	}
	switch {
	case ours && got.Annotations[crdDigest] == want.Annotations[crdDigest]:
		state.Status = CRDCurrent
	case ours:
		state.Status = CRDOutdated
	case equality.Semantic.DeepEqual(got.Spec.Versions, want.Spec.Versions):
		state.Status = CRDCurrent
	default:
		state.Status = CRDForeign
	}
	return state
}

func established(crd *apiextensionsv1.CustomResourceDefinition) bool {
	return slices.ContainsFunc(crd.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
	})
}

// ApplyCRDs makes the engine's CRDs that are missing and brings castoff's own up to date; it does not wait until they are
// Established. A CRD of another owner that differs is left alone and reported by a *ForeignError, after the others were made.
func (c *Client) ApplyCRDs(ctx context.Context) error {
	wanted, err := EngineCRDs()
	if err != nil {
		return err
	}
	states, err := c.ObserveCRDs(ctx)
	if err != nil {
		return err
	}
	var foreign []error
	for i, state := range states {
		switch state.Status {
		case CRDMissing:
			// Not forced: if somebody made it since, they keep it and the next observation says so.
			err = c.applyCRD(ctx, wanted[i], false)
		case CRDOutdated:
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
