package controllers

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/helm"
	"github.com/castoff-sh/castoff/pkg/identity"
	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/nodegroup"
	"github.com/castoff-sh/castoff/pkg/plan"
	"github.com/castoff-sh/castoff/pkg/preflight"
	"github.com/castoff-sh/castoff/pkg/translate"
)

const (
	// lookDeadline bounds one look. What does not answer by then is looked at again later.
	lookDeadline = 30 * time.Second
	// settledFresh is the same for what changes only if somebody works on it: queue, identities, the release, the cluster.
	settledFresh = 5 * time.Minute
	// unsettledFresh is the same while it is not as it should be.
	unsettledFresh = time.Second
)

// Observer reads the world through the ports. It never writes.
type Observer struct {
	Ports Ports
	// Client reads nodes and Migrations from the cache, Live bypasses it: pods are never cached.
	Client client.Client
	Live   client.Reader
	Clock  func() time.Time
	// CABundle is the certificate authority of the API server that castoff talks to, PEM: it proves that spec.clusterName is
	// the cluster castoff runs in.
	CABundle []byte
	// NodeGroupsOf makes the port of a cluster's node groups; Ports.NodeGroups is the one of the cluster last looked at.
	NodeGroupsOf func(cluster string) NodeGroups
	// Engine is how the built-in engine is installed; cluster, queue and home are filled in.
	Engine helm.Engine
	// Rights asks what castoff itself may do in the cluster; nil where who looks is not castoff.
	Rights client.Writer
	// RolesBoundary is the ARN of the permissions boundary of the roles that castoff makes; empty: none.
	RolesBoundary string

	name, home  string // what the memos are about
	provisioner v1alpha1.Provisioner
	// watchPools begins to watch NodePools, whose definition is not there from the start; nil where nobody is to be woken.
	watchPools func() error
	pools      *watched

	cluster      memo[inventory.Cluster]
	groups       groupList
	drains       drainLooks
	interruption memo[inventory.Interruption]
	identity     memo[inventory.Identity]
	release      memo[inventory.Engine]
	permissions  memo[[]inventory.Permission]
	policies     memo[[]string]
	restarts     memo[bool] // denied
	surroundings memo[inventory.Surroundings]
	network      memo[inventory.PodNetwork]
	tagged       memo[[]inventory.SecurityGroup]
	running      memo[inventory.Workloads]
	templates    memo[inventory.Workloads]
	unwell       memo[[]inventory.UnwellPod]
	gates        gateAnswers
	snapshots    snapshotCache
}

// turnTo makes the looks go to this cluster, and to what Karpenter is to be made of there. The name is frozen from the snapshot
// on; before, a user may correct it.
func (o *Observer) turnTo(cluster string, p v1alpha1.Provisioner) {
	if o.name == cluster && equality.Semantic.DeepEqual(o.provisioner, p) {
		return
	}
	o.name, o.provisioner, o.Ports.NodeGroups = cluster, p, o.NodeGroupsOf(cluster)
	o.cluster.forget()
	o.groups.forget()
	o.interruption.forget()
	o.identity.forget()
	o.release.forget()
	o.permissions.forget()
	o.policies.forget()
	o.surroundings.forget()
	o.tagged.forget()
	o.running.forget()
}

// forget makes the next look ask again about what these actions may have changed.
func (o *Observer) forget(actions []plan.Action) {
	for _, a := range actions {
		switch a.(type) {
		case plan.EnsureInterruption, plan.RemoveInterruption:
			o.interruption.forget()
		case plan.EnsureIdentity, plan.RemoveIdentity:
			o.identity.forget()
		case plan.InstallCRDs, plan.InstallEngine, plan.UninstallEngine, plan.RemoveCRDs:
			o.release.forget()
		case plan.DeleteGroup:
			o.groups.forget()
			o.identity.forget() // EKS may take the node role's access along
		}
	}
}

// Observe looks at everything that plan.Next needs to know of, in parallel and with one deadline.
func (o *Observer) Observe(ctx context.Context, m *v1alpha1.Migration) (plan.World, error) {
	ctx, cancel := context.WithTimeout(ctx, lookDeadline)
	defer cancel()
	var w plan.World
	var err error
	if w.OtherMigration, err = o.otherMigration(ctx, m); err != nil || w.OtherMigration != "" {
		return w, err
	}
	o.turnTo(m.Spec.ClusterName, m.Spec.Provisioner)
	if w.Cluster, err = o.observeCluster(ctx); errors.Is(err, nodegroup.ErrClusterNotFound) {
		w.Findings = preflight.Run(preflight.Input{ClusterName: m.Spec.ClusterName}, m.Spec.AcceptedRisks)
		return w, nil
	} else if err != nil {
		return w, err
	}
	w.Cluster.Provided, w.Cluster.RolesBoundary = inventory.ProvidedBy(m.Spec.Provisioner), o.RolesBoundary
	if err := o.observeBase(ctx, m, &w); err != nil {
		return w, err
	}
	findings := o.resolve(m, &w)
	if err := o.observeMore(ctx, m, &w, findings); err != nil {
		return w, err
	}
	w.Candidates, err = o.states(ctx, plan.Candidates(m, w, o.Clock()))
	return w, err
}

func (o *Observer) observeCluster(ctx context.Context) (inventory.Cluster, error) {
	return o.cluster.get(ctx, o.Clock(), always[inventory.Cluster](settledFresh), func(ctx context.Context) (inventory.Cluster, error) {
		c, err := o.Ports.NodeGroups.Cluster(ctx)
		c.Same = len(o.CABundle) > 0 && sameCA(c.CABundle, o.CABundle)
		return c, err
	})
}

// sameCA compares EKS's base64 bundle with the one castoff trusts.
func sameCA(eks string, pem []byte) bool {
	decoded, err := base64.StdEncoding.DecodeString(eks)
	return err == nil && bytes.Equal(bytes.TrimSpace(decoded), bytes.TrimSpace(pem))
}

// observeBase reads what every look needs.
func (o *Observer) observeBase(ctx context.Context, m *v1alpha1.Migration, w *plan.World) error {
	var nodes []inventory.Node
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) { w.Groups, err = o.listGroups(ctx, m); return err })
	g.Go(func() (err error) { w.Autoscalers, err = o.Ports.Autoscalers.Find(ctx); return err })
	g.Go(func() (err error) { w.Interruption, err = o.observeInterruption(ctx, w.Cluster); return err })
	g.Go(func() (err error) { nodes, err = o.nodes(ctx); return err })
	g.Go(func() (err error) { w.PendingPods, err = o.pendingPods(ctx); return err })
	g.Go(func() (err error) { w.Stranded, err = o.strandedPods(ctx, m.Spec.AcceptedRisks); return err })
	g.Go(func() (err error) { w.Placeholders, err = o.Ports.Drainer.Placeholders(ctx); return err })
	g.Go(func() (err error) { w.PodNetwork, err = o.podNetwork(ctx); return err })
	g.Go(func() (err error) { w.Families, err = o.families(ctx, m); return err })
	g.Go(func() error { return o.loadSnapshot(ctx, m, w) })
	if err := g.Wait(); err != nil {
		return err
	}
	w.Nodes = assignGroups(nodes, w.Groups)
	adoptSnapshot(m, w)
	return nil
}

func (o *Observer) observeInterruption(ctx context.Context, c inventory.Cluster) (inventory.Interruption, error) {
	return o.interruption.get(ctx, o.Clock(), func(i inventory.Interruption) time.Duration { return freshness(i.Ready) },
		func(ctx context.Context) (inventory.Interruption, error) { return o.Ports.Interruption.Observe(ctx, c) })
}

func freshness(settled bool) time.Duration {
	if settled {
		return settledFresh
	}
	return unsettledFresh
}

// resolve works out home, pools and targets. From the snapshot on they are what it recorded, so that a change of the world
// does not change what is being done.
func (o *Observer) resolve(m *v1alpha1.Migration, w *plan.World) []inventory.Finding {
	var findings []inventory.Finding
	var source []inventory.NodeGroup
	if s := w.Snapshot; s != nil {
		w.Home, w.Pools, w.Waves = s.Home, s.Pools, s.Waves
		source = recordedGroups(s, w.Groups)
	} else {
		w.Groups = withNodeLabels(w.Groups, w.Nodes)
		source = w.Groups
		w.Home, w.Pools, findings = plan.Pools(m.Spec, w.Groups, w.Autoscalers)
		for i, p := range w.Pools {
			w.Pools[i].Scaling = inventory.ScalingOf(w.Autoscalers, groupsOf(p, w.Groups))
		}
	}
	w.Targets = map[string]inventory.Target{}
	for _, p := range w.Pools {
		groups := groupsOf(p, source)
		if len(groups) == 0 {
			continue
		}
		p.Families = familiesOf(m, p.Name, w.Families)
		t, err := translate.Pool(w.Cluster, p, groups, identity.NodeRole(w.Cluster))
		if err != nil {
			findings = append(findings, preflight.NotTranslated(p.Name, err))
			continue
		}
		w.Targets[p.Name] = t
	}
	return findings
}

// families are those that the user named for any pool, with what EC2 has of them.
func (o *Observer) families(ctx context.Context, m *v1alpha1.Migration) ([]inventory.InstanceFamily, error) {
	var names []string
	for _, p := range m.Spec.Pools {
		names = append(names, p.InstanceFamilies...)
	}
	if len(names) == 0 {
		return nil, nil
	}
	slices.Sort(names)
	return o.Ports.NodeGroups.Families(ctx, slices.Compact(names))
}

// familiesOf are those of one pool, as the spec has them now: they are not frozen.
func familiesOf(m *v1alpha1.Migration, pool string, all []inventory.InstanceFamily) []inventory.InstanceFamily {
	var out []inventory.InstanceFamily
	for _, p := range m.Spec.Pools {
		for _, f := range all {
			if p.Name == pool && slices.Contains(p.InstanceFamilies, f.Name) {
				out = append(out, f)
			}
		}
	}
	return out
}

// withNodeLabels says of each group which labels all of its nodes have, and whether all are tainted: what describes a node group
// elsewhere may be stale. A copy, because the list is kept.
func withNodeLabels(groups []inventory.NodeGroup, nodes []inventory.Node) []inventory.NodeGroup {
	out := slices.Clone(groups)
	for i := range out {
		out[i].NodeLabels = inventory.SharedLabels(nodes, out[i].Name)
		out[i].Tainted = inventory.Tainted(nodes, out[i].Name)
	}
	return out
}

// recordedGroups are the groups of the snapshot. User data is not in it (it may hold secrets), so that comes from AWS: the
// template's version is a number, and a version never changes.
func recordedGroups(s *inventory.Snapshot, now []inventory.NodeGroup) []inventory.NodeGroup {
	out := make([]inventory.NodeGroup, 0, len(s.Groups))
	for _, r := range s.Groups {
		g := r.Group
		for _, n := range now {
			if n.Name == g.Name && n.LaunchTemplate.UserDataSHA256 == g.LaunchTemplate.UserDataSHA256 {
				g.LaunchTemplate.UserData = n.LaunchTemplate.UserData
			}
		}
		out = append(out, g)
	}
	return out
}

func groupsOf(p inventory.Pool, groups []inventory.NodeGroup) []inventory.NodeGroup {
	var out []inventory.NodeGroup
	for _, name := range p.NodeGroups {
		for _, g := range groups {
			if g.Name == name {
				out = append(out, g)
			}
		}
	}
	return out
}

// observeMore reads what depends on the pools: identities, the engine, and what plan.NeedsOf asks for.
func (o *Observer) observeMore(ctx context.Context, m *v1alpha1.Migration, w *plan.World, findings []inventory.Finding) error {
	var err error
	if w.NodePolicies, err = o.nodePolicies(ctx, *w); err != nil {
		return err
	}
	if err := o.observeKarpenter(ctx, w); err != nil {
		return err
	}
	if w.Identity, err = o.observeIdentity(ctx, w.Cluster, w.NodePolicies); err != nil {
		return err
	}
	if err := o.observeEngine(ctx, m, w); err != nil {
		return err
	}
	needs := plan.NeedsOf(m, *w)
	if err := o.observeStraddling(ctx, m, needs, w); err != nil {
		return err
	}
	if err := o.observeDrains(ctx, needs, w); err != nil {
		return err
	}
	if err := o.observeHealth(ctx, m, needs, w); err != nil {
		return err
	}
	if err := o.observeSeldom(ctx, needs, w); err != nil {
		return err
	}
	if !needs.Preflight && !needs.Rivals {
		o.running.forget() // what was read is large, and old by the next time
	}
	if !needs.Preflight {
		return nil
	}
	return o.preflight(ctx, m, w, append(findings, plan.Provided(m, *w)...))
}

// observeSeldom reads what few looks need.
func (o *Observer) observeSeldom(ctx context.Context, needs plan.Needs, w *plan.World) error {
	var err error
	if needs.TerminationHandlers {
		if w.TerminationHandlers, err = o.Ports.Autoscalers.TerminationHandlers(ctx); err != nil {
			return err
		}
	}
	if needs.Launched {
		w.Launched, err = o.Ports.NodeGroups.LaunchedByKarpenter(ctx, w.Cluster)
		if err != nil && inventory.ClassOf(err) != inventory.ClassTerminal { // without the right to look the way back is no shorter
			return err
		}
	}
	if needs.Rivals {
		return o.observeRivals(ctx, w)
	}
	return nil
}

func (o *Observer) observeIdentity(ctx context.Context, c inventory.Cluster, extra []string) (inventory.Identity, error) {
	return o.identity.get(ctx, o.Clock(), func(i inventory.Identity) time.Duration { return freshness(i.Ready) },
		func(ctx context.Context) (inventory.Identity, error) { return o.Ports.Identity.Observe(ctx, c, extra) })
}

func (o *Observer) preflight(ctx context.Context, m *v1alpha1.Migration, w *plan.World, findings []inventory.Finding) error {
	workloads, err := o.workloads(ctx)
	if err != nil {
		return err
	}
	permissions, err := o.permissions.get(ctx, o.Clock(), permissionsFresh, func(ctx context.Context) ([]inventory.Permission, error) {
		return o.Ports.Identity.Check(ctx, w.Cluster)
	})
	if err != nil {
		return fmt.Errorf("checking what castoff may do in AWS: %w", err)
	}
	tagged, err := o.securityGroups(ctx)
	if err != nil {
		return err
	}
	surroundings, err := o.surroundings.get(ctx, o.Clock(), always[inventory.Surroundings](settledFresh), func(ctx context.Context) (inventory.Surroundings, error) {
		return o.Ports.NodeGroups.Surroundings(ctx, w.Cluster, w.Groups)
	})
	if err != nil {
		return fmt.Errorf("looking at quotas, subnets and the like: %w", err)
	}
	w.Findings = preflight.Run(preflight.Input{
		PodNetwork: w.PodNetwork, SecurityGroups: tagged,
		ClusterName: m.Spec.ClusterName, ClusterFound: true, Cluster: w.Cluster, Groups: w.Groups, Nodes: w.Nodes,
		Autoscalers: w.Autoscalers, Engine: w.Engine, Identity: w.Identity, Permissions: permissions, Workloads: workloads,
		Home: w.Home, Pools: w.Pools, Targets: w.Targets, Resolved: findings, CheckedElsewhere: plan.Checks,
		Surroundings: surroundings, Strategy: m.Spec.Strategy, NoRestarts: o.noRestarts(ctx, m.Spec.Strategy), EngineVersion: engineVersion(m, w.Engine), Snapshot: w.Snapshot,
	}, m.Spec.AcceptedRisks)
	if w.Snapshot == nil {
		waves := plan.Waves(w.Pools, w.Targets, w.Nodes, workloads)
		w.Handovers = plan.HandoversOf(m.Spec, w.Pools, w.Groups, w.Autoscalers, waves, o.Clock())
		w.Waves = w.Handovers.Names()
	}
	return nil
}

// engineVersion is the version of Karpenter that is to run; empty where one that is there does not tell.
func engineVersion(m *v1alpha1.Migration, e inventory.Engine) string {
	switch p := m.Spec.Provisioner; {
	case p.Chart.Version != "":
		return p.Chart.Version
	case p.Source != v1alpha1.SourceExisting:
		return preflight.BuiltInVersion
	}
	for _, k := range e.Others {
		return k.Version
	}
	return ""
}

// permissionsFresh asks again soon while something is denied, so that a migration goes on by itself once it is granted.
func permissionsFresh(ps []inventory.Permission) time.Duration {
	for _, p := range ps {
		if p.State == inventory.PermissionDenied {
			return unsettledFresh
		}
	}
	return settledFresh
}

// otherMigration returns the name of an older Migration that has not finished: the one that acts.
func (o *Observer) otherMigration(ctx context.Context, m *v1alpha1.Migration) (string, error) {
	var all v1alpha1.MigrationList
	if err := o.Client.List(ctx, &all); err != nil {
		return "", fmt.Errorf("listing Migrations: %w", err)
	}
	for _, other := range all.Items {
		if other.UID != m.UID && older(&other, m) && other.Status.CompletionTime == nil {
			return other.Name, nil
		}
	}
	return "", nil
}

func older(a, b *v1alpha1.Migration) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.UID < b.UID
}

// homeSelector finds a label that the home's nodes share and no other node has, so that the engine stays there.
func homeSelector(home string, nodes []inventory.Node) map[string]string {
	var shared map[string]string
	for _, n := range nodes {
		if n.Group != home {
			continue
		}
		if shared == nil {
			shared = map[string]string{}
			for k, v := range n.Labels {
				shared[k] = v
			}
		}
		for k, v := range shared {
			if n.Labels[k] != v {
				delete(shared, k)
			}
		}
	}
	for _, n := range nodes {
		if n.Group == home {
			continue
		}
		for k, v := range n.Labels {
			if shared[k] == v {
				delete(shared, k)
			}
		}
	}
	return pickLabel(shared)
}

// pickLabel prefers the node group's own label, then the first by name. Zones, instance types and the like say nothing of a
// group: Karpenter gives them to its own nodes, and the engine must not move onto one.
func pickLabel(labels map[string]string) map[string]string {
	const nodegroup = "eks.amazonaws.com/nodegroup"
	if v, ok := labels[nodegroup]; ok {
		return map[string]string{nodegroup: v}
	}
	best := ""
	for k := range labels {
		_, beta := karpv1.NormalizedLabels[k]
		if k != corev1.LabelHostname && !beta && !karpv1.WellKnownLabels.Has(k) && (best == "" || k < best) {
			best = k
		}
	}
	if best == "" {
		return nil
	}
	return map[string]string{best: labels[best]}
}
