package controllers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/helm"
	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/plan"
	"github.com/castoff-sh/castoff/pkg/provisioner"
)

func (o *Observer) nodes(ctx context.Context) ([]inventory.Node, error) {
	var list corev1.NodeList
	if err := o.Client.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	out := make([]inventory.Node, 0, len(list.Items))
	for i := range list.Items {
		out = append(out, nodeOf(&list.Items[i]))
	}
	return out, nil
}

func nodeOf(n *corev1.Node) inventory.Node {
	ready, since := readiness(n)
	return inventory.Node{
		Name: n.Name, UID: n.UID, ResourceVersion: n.ResourceVersion, InstanceID: instanceID(n.Spec.ProviderID),
		Zone: n.Labels[corev1.LabelTopologyZone], Labels: n.Labels, Annotations: n.Annotations, Taints: n.Spec.Taints,
		Unschedulable: n.Spec.Unschedulable, Ready: ready, ReadyChanged: since, Created: n.CreationTimestamp.Time, Allocatable: n.Status.Allocatable,
	}
}

// instanceID is the last part of aws:///us-east-1a/i-0123456789abcdef0.
func instanceID(providerID string) string {
	id := providerID[strings.LastIndexByte(providerID, '/')+1:]
	if !strings.HasPrefix(id, "i-") {
		return ""
	}
	return id
}

func nodeReady(n *corev1.Node) bool { ready, _ := readiness(n); return ready }

// readiness says whether the node is Ready, and since when it is or is not.
func readiness(n *corev1.Node) (ready bool, since time.Time) {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue, c.LastTransitionTime.Time
		}
	}
	return false, n.CreationTimestamp.Time
}

// assignGroups names each node's group by its instance.
func assignGroups(nodes []inventory.Node, groups []inventory.NodeGroup) []inventory.Node {
	owner := map[string]string{}
	for _, g := range groups {
		for _, i := range g.Instances {
			owner[i.ID] = g.Name
		}
	}
	for i := range nodes {
		if nodes[i].InstanceID != "" {
			nodes[i].Group = owner[nodes[i].InstanceID]
		}
	}
	return nodes
}

// pendingPods counts pods that wait for a node.
func (o *Observer) pendingPods(ctx context.Context) (int, error) {
	n := 0
	err := o.eachPod(ctx, func(p *corev1.Pod) {
		if waits(p) {
			n++
		}
	}, client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("spec.nodeName", "")}, client.MatchingLabelsSelector{Selector: notPlaceholders})
	return n, err
}

// loadSnapshot reads the snapshot and holds it against the digest in the status. A snapshot is immutable, so what was
// verified once in this process is not read again.
func (o *Observer) loadSnapshot(ctx context.Context, m *v1alpha1.Migration, w *plan.World) error {
	s, sha, err := o.snapshots.load(ctx, m, o.Ports.Snapshots)
	if err != nil && inventory.ClassOf(err) != inventory.ClassTerminal {
		return fmt.Errorf("reading the snapshot: %w", err)
	}
	want := m.Status.Snapshot
	switch {
	case err != nil:
		w.SnapshotProblem = err.Error()
	case s == nil && want != nil:
		w.SnapshotProblem = "The snapshot " + want.Namespace + "/" + want.Name + " is gone. Without it castoff cannot go back and does nothing more: restore the Secret from a backup."
	case s != nil && want != nil && want.SHA256 != sha:
		w.SnapshotProblem = "The snapshot " + want.Namespace + "/" + want.Name + " is not the one that was taken: its digest differs. Restore the Secret from a backup."
	case s != nil && want == nil && s.Migration != string(m.UID):
		w.Snapshot, w.SnapshotSHA256 = s, sha // adopted where the cluster shows that it still counts
		w.SnapshotProblem = "A snapshot named after this Migration belongs to an earlier one. Keep a copy of its Secrets (label " + v1alpha1.LabelMigration + "=" + s.Migration + ") and delete them, or give this Migration another name."
	default:
		w.Snapshot, w.SnapshotSHA256 = s, sha
	}
	return nil
}

// adoptSnapshot lets a Migration go on from the snapshot of an earlier one of its name, while the cluster bears the marks of that
// one: a snapshot taken now would record castoff's own changes. Once everything was undone an old snapshot is only in the way.
func adoptSnapshot(m *v1alpha1.Migration, w *plan.World) {
	switch {
	case w.Snapshot == nil || w.SnapshotProblem == "":
	case w.Snapshot.Cluster == m.Spec.ClusterName && plan.Marked(w.Nodes, w.Autoscalers):
		w.SnapshotProblem = ""
	default:
		w.Snapshot, w.SnapshotSHA256 = nil, ""
	}
}

// observeKarpenter reads Karpenter's objects and pods.
func (o *Observer) observeKarpenter(ctx context.Context, w *plan.World) error {
	e, err := o.Ports.Provisioner.Observe(ctx)
	if err != nil {
		return err
	}
	if len(e.NodePools) > 0 {
		if err := o.pools.begin(o.watchPools); err != nil {
			return fmt.Errorf("watching NodePools: %w", err)
		}
	}
	if w.Cluster.Provided.Engine {
		e = provisioner.Adopt(e, w.Cluster)
		w.Cluster.Provided.Namespace, w.Cluster.Provided.ServiceAccount = provisioner.ServiceAccount(e)
	}
	w.Engine = e
	return nil
}

// observeEngine reads the release and the CRDs when they may have changed. Of a Karpenter of somebody else's castoff reads neither.
func (o *Observer) observeEngine(ctx context.Context, m *v1alpha1.Migration, w *plan.World) error {
	e := w.Engine
	if e.Adopted {
		return nil
	}
	if e.Replicas == 0 || w.Home != o.home {
		o.release.forget() // its Deployment is gone, or is meant to be elsewhere: what was seen of the release may be over
		o.home = w.Home
	}
	r, err := o.release.get(ctx, o.Clock(), func(e inventory.Engine) time.Duration { return freshness(e.ReleaseCurrent && e.CRDsCurrent) },
		func(ctx context.Context) (inventory.Engine, error) { return o.observeRelease(ctx, m, *w) })
	if err != nil {
		return err
	}
	e.Release, e.ReleaseMessage, e.ReleaseCurrent = r.Release, r.ReleaseMessage, r.ReleaseCurrent
	e.CRDs, e.CRDsCurrent, e.CRDForeign = r.CRDs, r.CRDsCurrent, r.CRDForeign
	w.Engine = e
	return nil
}

// engineRelease is the release for this cluster, as the Migration asks for it: the queue's and the home's names are filled in.
func (o *Observer) engineRelease(m *v1alpha1.Migration, w plan.World) (helm.Release, error) {
	e := o.Engine
	spec := m.Spec.Provisioner
	if spec.Chart.Version != "" {
		e.Remote = &helm.RemoteChart{Repository: spec.Chart.Repository, Version: spec.Chart.Version, Digest: spec.Chart.Digest}
	}
	if spec.Values != nil {
		e.Values = nil // a map is decoded into, and this one is everybody's
		if err := json.Unmarshal(spec.Values.Raw, &e.Values); err != nil {
			return helm.Release{}, inventory.Terminal(fmt.Errorf("spec.provisioner.values is no object: %w", err))
		}
	}
	if w.Identity.WebIdentity {
		e.RoleARN = w.Identity.ControllerRoleARN
	}
	e.ClusterName, e.ClusterEndpoint, e.Region = w.Cluster.Name, w.Cluster.Endpoint, w.Cluster.Region
	e.InterruptionQueue, e.ReservedENIs = w.Interruption.QueueName, w.PodNetwork.ReservedENIs()
	e.NodeSelector = homeSelector(w.Home, w.Nodes)
	return e.Release(), nil
}

func (o *Observer) observeRelease(ctx context.Context, m *v1alpha1.Migration, w plan.World) (inventory.Engine, error) {
	var e inventory.Engine
	r, err := o.engineRelease(m, w)
	if err != nil {
		e.Release, e.ReleaseMessage = inventory.ReleaseFailed, err.Error()
		return e, nil
	}
	if err := o.observeCRDs(ctx, r, &e); err != nil {
		return e, err
	}
	state, err := o.Ports.Releases.Observe(ctx, r)
	var invalid *helm.ValuesError
	if errors.As(err, &invalid) {
		e.Release, e.ReleaseMessage = inventory.ReleaseFailed, invalid.Error()
		return e, nil
	} else if err != nil {
		return e, fmt.Errorf("reading the engine's Helm release: %w", err)
	}
	e.Release, e.ReleaseMessage, e.ReleaseCurrent = releaseState(state)
	return e, nil
}

// observeCRDs goes by the embedded definitions while the chart that brings its own cannot be had: whose they are is known then,
// and whether they are current is not.
func (o *Observer) observeCRDs(ctx context.Context, r helm.Release, e *inventory.Engine) error {
	crds, err := o.Ports.Releases.ObserveCRDs(ctx, r)
	known := true
	if errors.As(err, new(*helm.PullError)) {
		r.Remote, known = nil, false
		crds, err = o.Ports.Releases.ObserveCRDs(ctx, r)
	}
	if err != nil {
		return fmt.Errorf("reading Karpenter's CustomResourceDefinitions: %w", err)
	}
	e.CRDsCurrent = known && len(crds) > 0
	for _, c := range crds {
		if c.Status == helm.CRDForeign {
			e.CRDForeign = "CustomResourceDefinition " + c.Name + " belongs to " + c.Owner + " and differs from what this Karpenter needs. Remove that Karpenter, or hand the definition over."
		}
		e.CRDs = e.CRDs || c.Made()
		if len(c.Dropped) > 0 {
			if e.DroppedVersions == nil {
				e.DroppedVersions = map[string][]string{}
			}
			e.DroppedVersions[c.Name] = c.Dropped
		}
		e.CRDsCurrent = e.CRDsCurrent && c.Status == helm.CRDCurrent && c.Established
	}
	return nil
}

func releaseState(s helm.State) (inventory.ReleaseState, string, bool) {
	switch s.Status {
	case helm.NotInstalled:
		return inventory.ReleaseMissing, s.Reason, false
	case helm.Deployed:
		return inventory.ReleaseDeployed, s.Reason, s.Current
	case helm.Pending:
		return inventory.ReleasePending, fmt.Sprintf("A Helm operation was begun at %s and has not ended; castoff takes it over.", s.Since.UTC().Format(time.RFC3339)), false
	case helm.Foreign:
		return inventory.ReleaseForeign, "What castoff would install is there and belongs to " + s.Owner + " (" + s.Object + "). Two Karpenters in one cluster launch twice for every pod: remove that one.", false
	}
	return inventory.ReleaseFailed, s.Reason, false
}

// nodePolicies are the managed policies of the roles that the migrating groups' nodes have: pods that use the node's own
// credentials live off them. Inline policies are not copied.
func (o *Observer) nodePolicies(ctx context.Context, w plan.World) ([]string, error) {
	return o.policies.get(ctx, o.Clock(), always[[]string](settledFresh), func(ctx context.Context) ([]string, error) {
		var all []string
		for _, role := range nodeRoles(w) {
			attached, err := o.Ports.Identity.AttachedPolicies(ctx, role)
			if err != nil {
				return nil, err
			}
			all = append(all, attached...)
		}
		slices.Sort(all)
		return slices.Compact(all), nil
	})
}

func nodeRoles(w plan.World) []string {
	var roles []string
	for _, p := range w.Pools {
		for _, g := range groupsOf(p, w.Groups) {
			role := g.LaunchTemplate.Role
			if g.Managed != nil {
				role = g.Managed.NodeRole
			}
			if role != "" {
				roles = append(roles, role)
			}
		}
	}
	slices.Sort(roles)
	return slices.Compact(roles)
}
