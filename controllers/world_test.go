package controllers

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/helm"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

const (
	testCA  = "-----BEGIN CERTIFICATE-----\ntest\n-----END CERTIFICATE-----"
	testLag = 6 * time.Second
	// testEnding is how long an instance takes to end; its node stays for as long.
	testEnding = 4 * time.Second
)

// world is a cluster and an AWS account in memory. Reads of AWS lag behind writes, CA fights while it runs, and every broken
// promise is written down at the moment it is broken.
type world struct {
	t   *testing.T
	now time.Time
	c   *store

	groups  map[string]*inventory.NodeGroup
	history []frame // what AWS reads show, oldest first
	lag     time.Duration

	pods       map[string]int // evictable pods by node
	homeless   int            // evicted pods that wait for Karpenter
	ca         inventory.Autoscaler
	caLeaves   time.Time // when the last pod of a stopped CA is gone
	engine     inventory.Engine
	settled    inventory.Interruption
	identity   inventory.Identity
	crds, rel  bool
	snapshot   *inventory.Snapshot
	sha        string               // digest of the snapshot as it is read
	started    map[string]time.Time // canaries
	endings    map[string]time.Time // when an instance that ends is gone
	permission inventory.PermissionState
	broken     []string
	writes     int // effects so far, of every port and of the status
	hook       func(name string, after bool) error
	calls      map[string]int
	policies   map[string][]string // managed policies by role
}

// frame is the groups at a moment.
type frame struct {
	at     time.Time
	groups []inventory.NodeGroup
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		t: t, now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), lag: testLag, groups: map[string]*inventory.NodeGroup{},
		pods: map[string]int{}, started: map[string]time.Time{}, endings: map[string]time.Time{}, calls: map[string]int{}, permission: inventory.PermissionAllowed, sha: testSHA,
	}
	w.ca = inventory.Autoscaler{
		Deployment: types.NamespacedName{Namespace: "kube-system", Name: "cluster-autoscaler"}, Image: "cluster-autoscaler:v1.33.0",
		Replicas: 1, StatusReplicas: 1, Pods: 1, LeaderElect: true, Discovery: []string{"k8s.io/cluster-autoscaler/enabled"},
		Lease: types.NamespacedName{Namespace: "kube-system", Name: "cluster-autoscaler"}, LeaseHolder: "ca-0",
	}
	w.c = newStore()
	w.c.around = func(write func() error) error { return w.effect("status", write) }
	w.addGroup("general", 3, false)
	w.addGroup("batch", 2, true)
	w.addGroup("system", 2, true)
	w.groups["system"].Tags = nil // CA leaves the home alone
	w.groups["general"].ScalingPolicies = []inventory.ScalingPolicy{{Name: "cpu", Type: "TargetTrackingScaling", Enabled: true, Active: true}}
	w.groups["general"].ScheduledActions = []inventory.ScheduledAction{{Name: "night", Recurrence: "0 20 * * *"}}
	w.groups["batch"].CapacityRebalance = true
	w.record()
	return w
}

// fork is the same world once more, at this moment, without the process that runs in it. What is shared is never changed in
// place.
func (w *world) fork(t *testing.T) *world {
	f := *w
	f.t, f.hook = t, nil
	f.c = w.c.fork()
	f.c.around = func(write func() error) error { return f.effect("status", write) }
	f.groups = map[string]*inventory.NodeGroup{}
	for name, g := range w.groups {
		c := copyGroup(*g)
		f.groups[name] = &c
	}
	f.history, f.broken = slices.Clone(w.history), slices.Clone(w.broken)
	f.pods, f.started, f.endings, f.calls = maps.Clone(w.pods), maps.Clone(w.started), maps.Clone(w.endings), maps.Clone(w.calls)
	f.engine.NodePools, f.engine.NodeClasses = slices.Clone(w.engine.NodePools), slices.Clone(w.engine.NodeClasses)
	return &f
}

func copyGroup(g inventory.NodeGroup) inventory.NodeGroup {
	g.Instances = slices.Clone(g.Instances)
	g.ScalingPolicies = slices.Clone(g.ScalingPolicies)
	g.ScheduledActions = slices.Clone(g.ScheduledActions)
	g.SuspendedProcesses = slices.Clone(g.SuspendedProcesses)
	return g
}

func (w *world) addGroup(name string, size int32, managed bool) {
	g := &inventory.NodeGroup{
		Name: name, AutoScalingGroup: name, Min: 1, Max: 10, Desired: size, Subnets: []string{"subnet-1"},
		Tags:           []inventory.Tag{{Key: "k8s.io/cluster-autoscaler/enabled", Value: "true"}},
		LaunchTemplate: inventory.LaunchTemplate{InstanceType: "m5.large", ImageID: "ami-" + name, Image: &inventory.Image{ID: "ami-" + name, Name: "amazon-eks-node-al2023-x86_64-standard-1.33-v20261101", Architecture: "x86_64"}, SecurityGroups: []string{"sg-1"}},
	}
	if managed {
		g.AutoScalingGroup = "eks-" + name
		g.Managed = &inventory.ManagedNodeGroup{Status: "ACTIVE", AMIType: "AL2023_x86_64_STANDARD", ReleaseVersion: "1.33.0-20261101", CapacityType: "ON_DEMAND", InstanceTypes: []string{"m5.large"}}
	}
	for i := range size {
		id := fmt.Sprintf("i-%s-%d", name, i)
		g.Instances = append(g.Instances, inventory.Instance{ID: id, Type: "m5.large", Zone: "a", Lifecycle: "InService", Healthy: true})
		labels := map[string]string{"group": name, corev1.LabelTopologyZone: "a"}
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: id, Labels: labels}, Spec: corev1.NodeSpec{ProviderID: "aws:///a/" + id}}
		w.must(w.c.Create(context.Background(), node))
		w.pods[id] = 3
	}
	w.groups[name] = g
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) breaks(format string, a ...any) {
	w.broken = append(w.broken, fmt.Sprintf(format, a...))
}

// effects is how many effects were made so far, the writes of the status aside.
func (w *world) effects() int { return w.writes - w.calls["status"] }

// effect makes one write: the hook may stop the process before or after it, or lose its answer.
func (w *world) effect(name string, do func() error) error {
	w.writes++
	w.calls[name]++
	if w.hook != nil {
		if err := w.hook(name, false); err != nil {
			return err
		}
	}
	if err := do(); err != nil {
		return err
	}
	if w.hook != nil {
		return w.hook(name, true)
	}
	return nil
}

// change is an effect on AWS or on nodes, all of which the snapshot has to come before.
func (w *world) change(name string, do func() error) error {
	if w.snapshot == nil {
		w.breaks("%s before the snapshot", name)
	}
	return w.effect(name, do)
}

// record keeps what AWS shows from now on.
func (w *world) record() {
	f := frame{at: w.now}
	for _, name := range []string{"batch", "general", "system"} {
		f.groups = append(f.groups, copyGroup(*w.groups[name]))
	}
	for len(w.history) > 1 && !w.history[1].at.After(w.now.Add(-w.lag)) {
		w.history = w.history[1:] // nobody sees it any more
	}
	w.history = append(w.history, f)
}

// advance lets time pass: instances end, a stopped CA leaves, Karpenter gives homeless pods a node, CA fights while it runs.
func (w *world) advance(d time.Duration) {
	w.now = w.now.Add(d)
	for _, g := range w.groups {
		g.Instances = slices.DeleteFunc(g.Instances, func(i inventory.Instance) bool {
			if i.InService() || w.now.Before(w.endings[i.ID]) {
				return false
			}
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: i.ID}}
			if err := client.IgnoreNotFound(w.c.Delete(context.Background(), node)); err != nil {
				w.t.Fatal(err)
			}
			return true
		})
		for int(g.Desired) < g.InService() { // AWS chooses a victim
			w.endInstance(g, slices.IndexFunc(g.Instances, inventory.Instance.InService), "AWS")
		}
	}
	if w.ca.Replicas == 0 && !w.now.Before(w.caLeaves) {
		w.ca.StatusReplicas, w.ca.Pods = 0, 0
	}
	w.fight()
	if w.served("general") {
		w.homeless = 0
	}
	w.record()
}

// fight is what a Cluster Autoscaler that still runs does to cordoned groups: it scales them up to their max.
func (w *world) fight() {
	if w.ca.Stopped() {
		return
	}
	for _, p := range w.engine.NodePools {
		w.breaks("NodePool %s beside a running Cluster Autoscaler", p.Name)
	}
	var nodes corev1.NodeList
	w.must(w.c.List(context.Background(), &nodes))
	for _, n := range nodes.Items {
		if n.Spec.Unschedulable || len(n.Spec.Taints) > 0 {
			w.breaks("node %s fenced beside a running Cluster Autoscaler", n.Name)
		}
	}
}

func (w *world) endInstance(g *inventory.NodeGroup, i int, who string) {
	id := g.Instances[i].ID
	if w.pods[id] > 0 {
		w.breaks("%s ended %s with %d evictable pods", who, id, w.pods[id])
	}
	g.Instances[i].Lifecycle, w.endings[id] = "Terminating", w.now.Add(testEnding)
}

func (w *world) served(pool string) bool {
	return slices.ContainsFunc(w.engine.NodePools, func(p karpv1.NodePool) bool { return p.Labels[v1alpha1.LabelPool] == pool })
}

// reconciler is a new process: nothing is remembered but what is in the world.
func (w *world) reconciler() *Reconciler {
	p := ports{w}
	return &Reconciler{
		Recorder: events.NewFakeRecorder(10000), Options: Options{Namespace: "castoff-system"},
		Observer: &Observer{
			Client: w.c, Live: w.c, Clock: func() time.Time { return w.now }, CABundle: []byte(testCA),
			NodeGroupsOf: func(string) NodeGroups { return p },
			Ports: Ports{
				Interruption: interruptionPort{w}, Identity: identityPort{w}, Autoscalers: p, Provisioner: provisionerPort{w},
				Releases: releasesPort{w}, Drainer: drainerPort{w}, Snapshots: p,
			},
		},
	}
}

// ports are the node groups, Cluster Autoscaler and the snapshot.
type ports struct{ w *world }

func (p ports) Cluster(context.Context) (inventory.Cluster, error) {
	return inventory.Cluster{Name: "test", Version: "1.33", CABundle: base64.StdEncoding.EncodeToString([]byte(testCA)), Region: "us-east-1"}, nil
}

func (p ports) List(context.Context, ...string) ([]inventory.NodeGroup, error) {
	shown := p.w.history[0]
	for _, f := range p.w.history {
		if !f.at.After(p.w.now.Add(-p.w.lag)) {
			shown = f
		}
	}
	return shown.groups, nil
}

func (p ports) group(asg string) *inventory.NodeGroup {
	for _, g := range p.w.groups {
		if g.AutoScalingGroup == asg {
			return g
		}
	}
	p.w.t.Fatalf("no group %s", asg)
	return nil
}

func (p ports) DisablePolicies(_ context.Context, g inventory.NodeGroup, names []string) error {
	return p.w.change("DisablePolicies", func() error {
		policies := p.group(g.AutoScalingGroup).ScalingPolicies
		for i := range policies {
			if slices.Contains(names, policies[i].Name) {
				policies[i].Active, policies[i].Enabled = false, false
			}
		}
		return nil
	})
}

func (p ports) DeleteScheduledActions(_ context.Context, asg string, names []string) error {
	return p.w.change("DeleteScheduledActions", func() error {
		g := p.group(asg)
		g.ScheduledActions = slices.DeleteFunc(g.ScheduledActions, func(s inventory.ScheduledAction) bool { return slices.Contains(names, s.Name) })
		return nil
	})
}

func (p ports) SuspendProcesses(_ context.Context, asg string, processes []string) error {
	return p.w.change("SuspendProcesses", func() error {
		g := p.group(asg)
		for _, s := range processes {
			if s == "Terminate" {
				p.w.breaks("Terminate suspended on %s", asg)
			}
			if !slices.Contains(g.SuspendedProcesses, s) {
				g.SuspendedProcesses = append(g.SuspendedProcesses, s)
			}
		}
		return nil
	})
}

func (p ports) SetCapacityRebalance(_ context.Context, asg string, on bool) error {
	return p.w.change("SetCapacityRebalance", func() error { p.group(asg).CapacityRebalance = on; return nil })
}

func (p ports) SetMaxInstanceLifetime(_ context.Context, asg string, seconds int32) error {
	return p.w.change("SetMaxInstanceLifetime", func() error { p.group(asg).MaxInstanceLifetime = seconds; return nil })
}

func (p ports) SetSize(_ context.Context, g inventory.NodeGroup, minimum, maximum, desired int32) error {
	return p.w.change("SetSize", func() error {
		have := p.group(g.AutoScalingGroup)
		if desired < minimum || desired > maximum {
			p.w.breaks("sizes %d/%d/%d of %s", minimum, maximum, desired, g.Name)
		}
		have.Min, have.Max, have.Desired = minimum, maximum, desired
		return nil
	})
}

// EndInstances lowers desired by as many as it was asked for, whether or not they were still there: a repetition that AWS
// would take for a second wish costs an undrained node.
func (p ports) EndInstances(_ context.Context, asg string, ids []string) error {
	return p.w.change("EndInstances", func() error {
		g := p.group(asg)
		if g.Desired-int32(len(ids)) < g.Min {
			return errors.New("ValidationError: desired below min")
		}
		g.Desired -= int32(len(ids))
		for i := range g.Instances {
			if slices.Contains(ids, g.Instances[i].ID) && g.Instances[i].InService() {
				p.w.endInstance(g, i, "castoff")
			}
		}
		return nil
	})
}

func (p ports) Find(context.Context) ([]inventory.Autoscaler, error) {
	return []inventory.Autoscaler{p.w.ca}, nil
}

func (p ports) Stop(context.Context, inventory.Autoscaler) error {
	return p.w.change("Stop", func() error {
		p.w.ca.Replicas, p.w.caLeaves = 0, p.w.now.Add(3*time.Second)
		return nil
	})
}

func (p ports) HoldLease(_ context.Context, _ types.NamespacedName, identity string) error {
	return p.w.change("HoldLease", func() error {
		if !p.w.ca.Stopped() {
			p.w.breaks("Lease taken while Cluster Autoscaler runs")
		}
		p.w.ca.LeaseHolder, p.w.ca.LeaseRenewed = identity, p.w.now
		return nil
	})
}

func (p ports) StripLeftovers(ctx context.Context, node string) error {
	return p.w.change("StripLeftovers", func() error {
		return p.w.patchNode(ctx, node, func(n *corev1.Node) {
			n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key != v1alpha1.TaintLegacy })
		})
	})
}

func (w *world) patchNode(ctx context.Context, name string, mutate func(*corev1.Node)) error {
	n := &corev1.Node{}
	if err := w.c.Get(ctx, types.NamespacedName{Name: name}, n); err != nil {
		return client.IgnoreNotFound(err)
	}
	if n.Annotations == nil {
		n.Annotations = map[string]string{}
	}
	mutate(n)
	return w.c.Update(ctx, n)
}

func (p ports) Save(_ context.Context, _ string, s *inventory.Snapshot) (string, error) {
	return testSHA, p.w.effect("Save", func() error {
		if p.w.snapshot == nil {
			p.w.snapshot = s
		}
		return nil
	})
}

const testSHA = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func (p ports) Load(context.Context, string) (*inventory.Snapshot, string, error) {
	if p.w.snapshot == nil {
		return nil, "", nil
	}
	return p.w.snapshot, p.w.sha, nil
}

type interruptionPort struct{ w *world }

func (p interruptionPort) Observe(context.Context, inventory.Cluster) (inventory.Interruption, error) {
	i := p.w.settled
	i.QueueName = "test"
	return i, nil
}

func (p interruptionPort) Ensure(context.Context, inventory.Cluster) error {
	return p.w.change("EnsureInterruption", func() error { p.w.settled.Ready = true; return nil })
}

type identityPort struct{ w *world }

func (p identityPort) Observe(context.Context, inventory.Cluster, []string) (inventory.Identity, error) {
	i := p.w.identity
	i.NodeRole = "KarpenterNodeRole-test"
	return i, nil
}

func (p identityPort) Ensure(context.Context, inventory.Cluster, []string) error {
	return p.w.change("EnsureIdentity", func() error { p.w.identity.Ready = true; return nil })
}

func (p identityPort) AttachedPolicies(_ context.Context, role string) ([]string, error) {
	return p.w.policies[role], nil
}

func (p identityPort) Check(context.Context, inventory.Cluster) ([]inventory.Permission, error) {
	return []inventory.Permission{{Action: "sqs:CreateQueue", State: p.w.permission}}, nil
}

type releasesPort struct{ w *world }

func (p releasesPort) Observe(context.Context, helm.Release) (helm.State, error) {
	if !p.w.rel {
		return helm.State{Status: helm.NotInstalled}, nil
	}
	return helm.State{Status: helm.Deployed, Current: true}, nil
}

func (p releasesPort) Apply(context.Context, helm.Release) (helm.State, error) {
	return helm.State{}, p.w.change("Apply", func() error { p.w.rel = true; return nil })
}

func (p releasesPort) ObserveCRDs(context.Context) ([]helm.CRD, error) {
	status := helm.CRDMissing
	if p.w.crds {
		status = helm.CRDCurrent
	}
	return []helm.CRD{{Name: "nodepools.karpenter.sh", Status: status, Established: p.w.crds}}, nil
}

func (p releasesPort) ApplyCRDs(context.Context) error {
	return p.w.change("ApplyCRDs", func() error { p.w.crds = true; return nil })
}

type provisionerPort struct{ w *world }

func (p provisionerPort) Observe(context.Context) (inventory.Engine, error) {
	e := p.w.engine
	if p.w.rel {
		e.Replicas, e.ReadyReplicas = 2, 2
	}
	e.Canaries, e.NodeClassHashes = nil, map[string]string{}
	for _, c := range e.NodeClasses {
		e.NodeClassHashes[c.Name] = "hash-of-" + c.Name
	}
	for pool, since := range p.w.started {
		e.Canaries = append(e.Canaries, inventory.Canary{Pool: pool, NodePool: true, Pod: true, Node: true, PodRan: p.w.now.Sub(since) > 4*time.Second, Since: since})
	}
	return e, nil
}

func (p provisionerPort) EnsureNodeClass(_ context.Context, nc *awsv1.EC2NodeClass) error {
	return p.w.change("EnsureNodeClass", func() error {
		c := nc.DeepCopy()
		for _, kind := range []string{"SubnetsReady", "SecurityGroupsReady", "AMIsReady", "InstanceProfileReady", "ValidationSucceeded", "Ready"} {
			c.StatusConditions().SetTrue(kind)
		}
		p.w.engine.NodeClasses = slices.DeleteFunc(p.w.engine.NodeClasses, func(o awsv1.EC2NodeClass) bool { return o.Name == c.Name })
		p.w.engine.NodeClasses = append(p.w.engine.NodeClasses, *c)
		return nil
	})
}

func (p provisionerPort) EnsureNodePool(_ context.Context, np *karpv1.NodePool) error {
	return p.w.change("EnsureNodePool", func() error {
		c := np.DeepCopy()
		for _, kind := range []string{"ValidationSucceeded", "NodeClassReady", "Ready"} {
			c.StatusConditions().SetTrue(kind)
		}
		p.w.engine.NodePools = slices.DeleteFunc(p.w.engine.NodePools, func(o karpv1.NodePool) bool { return o.Name == c.Name })
		p.w.engine.NodePools = append(p.w.engine.NodePools, *c)
		return nil
	})
}

func (p provisionerPort) StartCanary(_ context.Context, pool string, _ *awsv1.EC2NodeClass, _ *karpv1.NodePool, _ metav1.OwnerReference) error {
	return p.w.change("StartCanary", func() error {
		if _, ok := p.w.started[pool]; !ok {
			p.w.started[pool] = p.w.now
		}
		return nil
	})
}

func (p provisionerPort) EndCanary(_ context.Context, pool string) error {
	return p.w.change("EndCanary", func() error { delete(p.w.started, pool); return nil })
}

func (p provisionerPort) MarkCanaryPassed(_ context.Context, pool, hash string) error {
	return p.w.change("MarkCanaryPassed", func() error {
		for i := range p.w.engine.NodeClasses {
			if p.w.engine.NodeClasses[i].Name == pool {
				c := p.w.engine.NodeClasses[i].DeepCopy()
				c.Annotations[v1alpha1.AnnotationCanaryPassed] = hash
				p.w.engine.NodeClasses[i] = *c
			}
		}
		return nil
	})
}

type drainerPort struct{ w *world }

func (p drainerPort) State(ctx context.Context, node string) (inventory.DrainState, error) {
	err := p.w.c.Get(ctx, types.NamespacedName{Name: node}, &corev1.Node{})
	if apierrors.IsNotFound(err) {
		return inventory.DrainState{Node: node}, nil
	}
	return inventory.DrainState{Node: node, Evictable: p.w.pods[node]}, err
}

// Pass evicts one pod: the budgets have room for one at a time.
func (p drainerPort) Pass(ctx context.Context, node string) (inventory.DrainState, error) {
	err := p.w.change("Pass", func() error {
		n := &corev1.Node{}
		if err := p.w.c.Get(ctx, types.NamespacedName{Name: node}, n); err != nil {
			return client.IgnoreNotFound(err)
		}
		if !n.Spec.Unschedulable || n.Annotations[v1alpha1.AnnotationDraining] == "" {
			p.w.breaks("eviction from %s, which is not fenced and draining", node)
		}
		if !p.w.ca.Stopped() {
			p.w.breaks("eviction from %s beside a running Cluster Autoscaler", node)
		}
		if p.w.pods[node] > 0 {
			p.w.pods[node]--
			p.w.homeless++
		}
		return nil
	})
	return inventory.DrainState{Node: node, Evictable: p.w.pods[node]}, err
}

func (p drainerPort) Mark(ctx context.Context, node, pool string) error {
	return p.w.change("Mark", func() error {
		return p.w.patchNode(ctx, node, func(n *corev1.Node) { n.Annotations[v1alpha1.AnnotationLegacy] = pool })
	})
}

func (p drainerPort) Fence(ctx context.Context, node, pool string) error {
	return p.w.change("Fence", func() error {
		if !p.w.served(pool) {
			p.w.breaks("node %s fenced before a NodePool serves %s", node, pool)
		}
		return p.w.patchNode(ctx, node, func(n *corev1.Node) {
			n.Labels[v1alpha1.LabelPool], n.Labels[v1alpha1.LabelScaler] = pool, v1alpha1.ScalerKarpenter
			n.Spec.Unschedulable = true
			n.Annotations[v1alpha1.AnnotationCordonedBy] = v1alpha1.ByCastoff
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: v1alpha1.TaintLegacy, Value: "true", Effect: corev1.TaintEffectPreferNoSchedule})
		})
	})
}

func (p drainerPort) Begin(ctx context.Context, node string) error {
	return p.w.change("Begin", func() error {
		return p.w.patchNode(ctx, node, func(n *corev1.Node) {
			n.Annotations[v1alpha1.AnnotationDraining] = p.w.now.Format(time.RFC3339)
			n.Spec.Taints = []corev1.Taint{{Key: v1alpha1.TaintLegacy, Value: "true", Effect: corev1.TaintEffectNoSchedule}}
		})
	})
}
