package controllers

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/helm"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// recordedReleases remembers what was asked of it.
type recordedReleases struct {
	Releases
	asked []helm.Release
	// gone: the chart's registry does not answer.
	gone bool
}

func (r *recordedReleases) ObserveCRDs(ctx context.Context, want helm.Release) ([]helm.CRD, error) {
	r.asked = append(r.asked, want)
	if r.gone && want.Remote != nil {
		return nil, &helm.PullError{Chart: want.Remote.String(), Err: errors.New("connection refused")}
	}
	return r.Releases.ObserveCRDs(ctx, want)
}

func (r *recordedReleases) ApplyCRDs(ctx context.Context, want helm.Release) error {
	r.asked = append(r.asked, want)
	return r.Releases.ApplyCRDs(ctx, want)
}

func (r *recordedReleases) Observe(ctx context.Context, want helm.Release) (helm.State, error) {
	r.asked = append(r.asked, want)
	return r.Releases.Observe(ctx, want)
}

func (r *recordedReleases) Apply(ctx context.Context, want helm.Release) (helm.State, error) {
	r.asked = append(r.asked, want)
	return r.Releases.Apply(ctx, want)
}

func (r *recordedReleases) Uninstall(ctx context.Context, want helm.Release) error {
	r.asked = append(r.asked, want)
	return r.Releases.Uninstall(ctx, want)
}

// federated is the port of an identity whose controller role is for IAM roles for service accounts.
type federated struct{ Identity }

func (f federated) Observe(ctx context.Context, c inventory.Cluster, extra []string) (inventory.Identity, error) {
	i, err := f.Identity.Observe(ctx, c, extra)
	i.WebIdentity, i.ControllerRoleARN = true, "arn:aws:iam::123456789012:role/karpenter"
	return i, err
}

func fromChart(m *v1alpha1.Migration) {
	m.Spec.Provisioner = v1alpha1.Provisioner{
		Source: v1alpha1.SourceChart, Values: &runtime.RawExtension{Raw: []byte(`{"logLevel":"debug","settings":{"batchMaxDuration":"20s"}}`)},
		Chart: v1alpha1.ProvisionerChart{Repository: "oci://mirror.example.com/karpenter/karpenter", Version: "1.14.1", Digest: "sha256:00"},
	}
}

func TestSourceChart(t *testing.T) {
	w := newWorld(t)
	releases := &recordedReleases{}
	w.spoil = func(r *Reconciler) {
		releases.Releases = r.Observer.Ports.Releases
		r.Observer.Ports.Releases, r.Observer.Ports.Identity = releases, federated{r.Observer.Ports.Identity}
	}
	migrate(t, w, fromChart)
	w.user(rollBack)
	if err := w.drive(isRolledBack, mostLooks); err != nil {
		t.Fatal(err)
	}
	if w.calls["Apply"] == 0 || w.calls["Uninstall"] == 0 || len(w.broken) > 0 {
		t.Errorf("calls %v; %v", w.calls, w.broken)
	}
	want := helm.RemoteChart{Repository: "oci://mirror.example.com/karpenter/karpenter", Version: "1.14.1", Digest: "sha256:00"}
	for _, r := range releases.asked {
		if r.Remote == nil || r.Chart != nil || *r.Remote != want {
			t.Fatalf("asked for %+v", r)
		}
		settings, _ := r.Values["settings"].(map[string]any)
		if r.Values["logLevel"] != "debug" || settings["batchMaxDuration"] != "20s" || settings["clusterName"] != "test" {
			t.Fatalf("values %v", r.Values)
		}
		if account, _ := r.Values["serviceAccount"].(map[string]any); account == nil {
			t.Fatalf("the ServiceAccount does not name the role: %v", r.Values)
		}
	}
}

// TestRegistryIsGone: a look goes on without the chart, and so does whatever depends on looks.
func TestRegistryIsGone(t *testing.T) {
	w := newWorld(t)
	w.settled.Ready, w.identity.Ready, w.crds, w.rel = true, true, true, true
	apply(t, w, fromChart)
	releases := &recordedReleases{gone: true}
	w.spoil = func(r *Reconciler) {
		releases.Releases = r.Observer.Ports.Releases
		r.Observer.Ports.Releases = releases
	}
	got, err := w.reconciler().Observer.Observe(t.Context(), get(t, w))
	if err != nil {
		t.Fatal(err)
	}
	if e := got.Engine; e.CRDsCurrent || !e.CRDs || e.Release != inventory.ReleaseDeployed {
		t.Errorf("engine: CRDs %t, current %t, release %s; want castoff's own by the embedded definitions, and not known to be current", e.CRDs, e.CRDsCurrent, e.Release)
	}
}

func TestValuesThatAreNoObject(t *testing.T) {
	w := newWorld(t)
	apply(t, w, func(m *v1alpha1.Migration) {
		m.Spec.Provisioner.Values = &runtime.RawExtension{Raw: []byte(`"text"`)} // the API server refuses it; a file for plan -f may have it
	})
	got, err := w.reconciler().Observer.Observe(t.Context(), get(t, w))
	if err != nil {
		t.Fatal(err)
	}
	if got.Engine.Release != inventory.ReleaseFailed || !strings.Contains(got.Engine.ReleaseMessage, "spec.provisioner.values is no object") {
		t.Errorf("release %s: %s", got.Engine.Release, got.Engine.ReleaseMessage)
	}
}

// othersKarpenter shows the world's engine as somebody else's Deployment.
type othersKarpenter struct {
	Provisioner
	change func(*inventory.Karpenter)
}

func (p othersKarpenter) Observe(ctx context.Context) (inventory.Engine, error) {
	e, err := p.Provisioner.Observe(ctx)
	k := inventory.Karpenter{
		Namespace: "karpenter", Name: "karpenter", ServiceAccount: "engine", Version: "1.12.0", ClusterName: "test", InterruptionQueue: "theirs",
		Replicas: e.Replicas, ReadyReplicas: e.ReadyReplicas,
	}
	if p.change != nil {
		p.change(&k)
	}
	e.Others, e.Foreign, e.Replicas, e.ReadyReplicas = []inventory.Karpenter{k}, []string{"karpenter/karpenter"}, 0, 0
	return e, err
}

// othersQueue is a queue of somebody else's.
type othersQueue struct{ Interruption }

func (othersQueue) Observe(_ context.Context, c inventory.Cluster) (inventory.Interruption, error) {
	return inventory.Interruption{QueueName: c.Provided.Queue, Ready: true}, nil
}

// othersRoles are roles of somebody else's; where they are looked for is remembered.
type othersRoles struct {
	Identity
	seen *[]inventory.Provided
}

func (r othersRoles) Observe(_ context.Context, c inventory.Cluster, _ []string) (inventory.Identity, error) {
	*r.seen = append(*r.seen, c.Provided)
	return inventory.Identity{NodeRole: c.Provided.NodeRole, ControllerRole: c.Provided.ControllerRole, Ready: true}, nil
}

func existing(m *v1alpha1.Migration) {
	m.Spec.Provisioner = v1alpha1.Provisioner{
		Source: v1alpha1.SourceExisting, Queue: v1alpha1.QueueExisting, QueueName: "theirs",
		Identity: v1alpha1.IdentityExisting, NodeRole: "nodes", ControllerRole: "karpenter",
	}
}

// others is a world with a Karpenter of somebody else's.
func others(t *testing.T, change func(*inventory.Karpenter)) (*world, *[]inventory.Provided) {
	t.Helper()
	w := newWorld(t)
	w.rel, w.crds = true, true
	seen := &[]inventory.Provided{}
	w.spoil = func(r *Reconciler) {
		p := &r.Observer.Ports
		p.Provisioner, p.Interruption, p.Identity = othersKarpenter{p.Provisioner, change}, othersQueue{p.Interruption}, othersRoles{p.Identity, seen}
	}
	return w, seen
}

// TestCase_C086_AnAdoptedKarpenterStays is the last clause: whoever was there before the migration is there after it, whichever way
// it went.
func TestCase_C086_AnAdoptedKarpenterStays(t *testing.T) {
	w, seen := others(t, nil)
	migrate(t, w, existing)
	for _, pool := range testPools {
		if !w.serves(pool) {
			t.Errorf("pool %s is not served", pool)
		}
	}
	w.user(rollBack)
	if err := w.drive(isRolledBack, mostLooks); err != nil {
		t.Fatal(err)
	}
	never := []string{"Apply", "ApplyCRDs", "Uninstall", "RemoveCRDs", "EnsureInterruption", "RemoveInterruption", "EnsureIdentity", "RemoveIdentity", "Observe release", "Observe CRDs"}
	for _, call := range never {
		if n := w.calls[call]; n > 0 {
			t.Errorf("%d times %s: castoff has nothing to do with it", n, call)
		}
	}
	if !w.rel || !w.crds || len(w.engine.NodePools)+len(w.engine.NodeClasses) > 0 || len(w.broken) > 0 {
		t.Errorf("Karpenter %t, definitions %t, %d NodePools and %d EC2NodeClasses of castoff's left; %v", w.rel, w.crds, len(w.engine.NodePools), len(w.engine.NodeClasses), w.broken)
	}
	want := inventory.Provided{Engine: true, Queue: "theirs", NodeRole: "nodes", ControllerRole: "karpenter", Namespace: "karpenter", ServiceAccount: "engine"}
	for _, got := range *seen {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("roles were looked for with -want +got\n%s", diff)
		}
	}
}

func TestExistingThatDoesNotFit(t *testing.T) {
	w, _ := others(t, func(k *inventory.Karpenter) { k.Version = "0.37.0" })
	apply(t, w, existing)
	m := look(t, w, w.reconciler())
	told := ""
	for _, b := range m.Status.Blockers {
		if b.Severity == v1alpha1.SeverityBlock {
			told += b.Reason + ": " + b.Message + "\n"
		}
	}
	if !strings.Contains(told, "ExistingKarpenter") || !strings.Contains(told, "version 0.37.0") || strings.Contains(told, "ForeignKarpenter") || m.Status.Phase != v1alpha1.PhaseAssessing {
		t.Errorf("phase %s, blocked by\n%s", m.Status.Phase, told)
	}
	if got := effects(w); len(got) != 0 {
		t.Errorf("it wrote %v", got)
	}
}

// TestProvisionerIsLookedAtAnew: what the user names is another thing, whatever was seen of the first.
func TestProvisionerIsLookedAtAnew(t *testing.T) {
	w, o, asked := counted(t)
	apply(t, w, func(*v1alpha1.Migration) {})
	m := get(t, w)
	for range 2 {
		if _, err := o.Observe(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	before := asked["interruption"]
	m.Spec.Provisioner.Queue, m.Spec.Provisioner.QueueName = v1alpha1.QueueExisting, "theirs"
	if _, err := o.Observe(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if before != 1 || asked["interruption"] != 2 {
		t.Errorf("the queue was looked at %d times, then %d; want 1 and 2", before, asked["interruption"])
	}
}
