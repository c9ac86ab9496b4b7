package controllers

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/drain"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

const (
	testCA  = "-----BEGIN CERTIFICATE-----\ntest\n-----END CERTIFICATE-----"
	testLag = 6 * time.Second
	// tick is how finely time passes.
	tick = 500 * time.Millisecond
	// roomOfNode is how many evictable pods a node has room for; podsOfNode is how many it has at first.
	roomOfNode, podsOfNode = 5, 3
	// mostUnserved is for how long a pool may be without a scaler at a change of hands.
	mostUnserved = 5 * time.Second
)

// world is a cluster and an AWS account in memory. Reads of AWS lag behind writes, Cluster Autoscaler and Karpenter do what
// they do, and every broken promise is written down at the moment it is broken.
type world struct {
	t   *testing.T
	now time.Time
	c   *store

	groups  map[string]*inventory.NodeGroup
	history []frame // what AWS reads show, oldest first
	lag     time.Duration
	born    map[string]time.Time // when an instance that is not a Ready node yet was launched
	endings map[string]time.Time // when an instance that ends is gone
	ids     int                  // instances launched so far

	pods     map[string]int // evictable pods by node
	held     map[string]int // placeholders by legacy node
	homeless map[string]int // pods without a node, by pool
	only     only           // a Deployment with one pod

	ca      inventory.Autoscaler
	scaler  scaler
	engine  inventory.Engine // NodePools and NodeClasses
	claims  []claim
	orphans []string             // instances of Karpenter's without a NodeClaim
	gone    time.Time            // when the pods of an engine that was uninstalled are gone
	started map[string]time.Time // canaries
	leaving map[string]time.Time // when a canary's node is gone

	settled    inventory.Interruption
	identity   inventory.Identity
	crds, rel  bool
	handlers   []inventory.TerminationHandler
	snapshot   *inventory.Snapshot
	sha        string // digest of the snapshot as it is read
	saved      string // the snapshot as it was saved
	permission inventory.PermissionState
	policies   map[string][]string // managed policies by role
	monitoring monitoring

	broken   []string
	unserved map[string]time.Duration // for how long a pool has had no scaler, this time
	longest  time.Duration            // the longest of those times
	patience time.Duration            // how long a pool may be without one here
	inFlight bool                     // a write that was begun before the user changed direction
	before   func()                   // called before every look
	unrest   func()                   // what Auto Scaling does by itself, at every tick
	spoil    func(*Reconciler)        // makes a bad controller of a new process
	writes   int                      // effects so far, of every port and of the status
	calls    map[string]int
	hook     func(name string, after bool) error
	fault    func(call string) error // an error in place of an answer
	mu       sync.Mutex              // guards fault and monitoring: looks ask in parallel
}

// frame is the groups at a moment.
type frame struct {
	at     time.Time
	groups []inventory.NodeGroup
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		t: t, now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), lag: testLag, patience: mostUnserved,
		groups: map[string]*inventory.NodeGroup{}, born: map[string]time.Time{}, endings: map[string]time.Time{},
		pods: map[string]int{}, held: map[string]int{}, homeless: map[string]int{}, started: map[string]time.Time{}, leaving: map[string]time.Time{},
		calls: map[string]int{}, unserved: map[string]time.Duration{}, permission: inventory.PermissionAllowed, sha: testSHA,
	}
	w.ca = inventory.Autoscaler{
		Deployment: types.NamespacedName{Namespace: "kube-system", Name: "cluster-autoscaler"}, Image: "cluster-autoscaler:v1.33.0",
		Replicas: 1, StatusReplicas: 1, Pods: 1, LeaderElect: true, Discovery: []string{"k8s.io/cluster-autoscaler/enabled"},
		Lease: types.NamespacedName{Namespace: "kube-system", Name: "cluster-autoscaler"}, LeaseHolder: "ca-0", LeaseRenewed: w.now,
	}
	w.scaler.leads = true
	w.c = newStore()
	w.wire()
	w.addGroup("general", 3, false)
	w.only = newOnly("i-general-1")
	w.addGroup("batch", 2, true)
	w.addGroup("system", 2, true)
	w.groups["system"].Tags = nil // CA leaves the home alone
	w.groups["general"].ScalingPolicies = []inventory.ScalingPolicy{{Name: "cpu", Type: "TargetTrackingScaling", Enabled: true, Active: true}}
	w.groups["general"].ScheduledActions = []inventory.ScheduledAction{{Name: "night", Recurrence: "0 20 * * *"}}
	w.groups["batch"].CapacityRebalance = true
	w.scan()
	w.record()
	return w
}

// fork is the same world once more, at this moment, without the process that runs in it. What is shared is never changed in
// place.
func (w *world) fork(t *testing.T) *world {
	f := &world{
		t: t, now: w.now, lag: w.lag, ids: w.ids, ca: w.ca, scaler: w.scaler, engine: w.engine, claims: slices.Clone(w.claims), orphans: w.orphans, gone: w.gone,
		settled: w.settled, identity: w.identity, crds: w.crds, rel: w.rel, handlers: slices.Clone(w.handlers), snapshot: w.snapshot, sha: w.sha, saved: w.saved,
		permission: w.permission, policies: w.policies, monitoring: w.monitoring, broken: slices.Clone(w.broken), longest: w.longest, patience: w.patience, writes: w.writes,
		groups: map[string]*inventory.NodeGroup{}, history: slices.Clone(w.history), born: maps.Clone(w.born), endings: maps.Clone(w.endings),
		pods: maps.Clone(w.pods), held: maps.Clone(w.held), homeless: maps.Clone(w.homeless), started: maps.Clone(w.started), leaving: maps.Clone(w.leaving),
		unserved: maps.Clone(w.unserved), calls: maps.Clone(w.calls), c: w.c.fork(), only: w.only.fork(),
	}
	f.scaler.idle = maps.Clone(w.scaler.idle)
	f.wire()
	for name, g := range w.groups {
		c := copyGroup(*g)
		f.groups[name] = &c
	}
	f.engine.NodePools, f.engine.NodeClasses = slices.Clone(w.engine.NodePools), slices.Clone(w.engine.NodeClasses)
	return f
}

// wire lets the store's calls fail, and its writes of a status be effects.
func (w *world) wire() {
	w.c.around = func(write func() error) error { return w.effect("status", write) }
	w.c.aside = func(write func() error) error { return w.point("object", write) }
	w.c.fault = func(verb string, o any) error {
		if w.fault == nil {
			return nil
		}
		return w.read(verb + " " + kindOf(o))
	}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) breaks(format string, a ...any) {
	if s := fmt.Sprintf(format, a...); !slices.Contains(w.broken, s) {
		w.broken = append(w.broken, s)
	}
}

// effects is how many effects were made so far, the writes of the status aside.
func (w *world) effects() int { return w.writes - w.calls["status"] }

// read may give an error in place of an answer.
func (w *world) read(call string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fault == nil {
		return nil
	}
	return w.fault(call)
}

// effect makes one write: the hook may stop the process before or after it, or lose its answer. After it every promise is
// looked at.
func (w *world) effect(name string, do func() error) error {
	w.writes++
	w.calls[name]++
	return w.point(name, do)
}

// point is a moment at which something is written.
func (w *world) point(name string, do func() error) error {
	if w.hook != nil {
		if err := w.hook(name, false); err != nil {
			return err
		}
	}
	if err := w.read(name); err != nil {
		return err
	}
	err := do()
	w.inFlight = false
	if err != nil {
		return err
	}
	w.judge()
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

// advance lets time pass.
func (w *world) advance(d time.Duration) {
	for d > 0 {
		step := min(d, tick)
		d -= step
		w.now = w.now.Add(step)
		if w.unrest != nil {
			w.unrest()
		}
		for _, name := range slices.Sorted(maps.Keys(w.groups)) {
			w.tickGroup(w.groups[name])
		}
		w.tickScaler()
		w.tickKarpenter()
		w.tickOnly()
		w.schedule()
		w.judge()
		w.countUnserved(step)
	}
	w.record()
}

// judge looks at what may never be, at no moment.
func (w *world) judge() {
	w.judgeOnly()
	w.judgeGate()
	for _, pool := range testPools {
		if w.scales(pool) && w.serves(pool) {
			w.breaks("pool %s is served by Cluster Autoscaler and by Karpenter", pool)
		}
	}
	if !w.scaler.leads {
		return
	}
	for _, n := range w.nodes() {
		_, scaled := n.Labels[v1alpha1.LabelScaler]
		cordoned := n.Annotations[v1alpha1.AnnotationCordonedBy] != ""
		if pool := w.poolOf(n); n.Labels["group"] != "" && w.scales(pool) && (scaled || cordoned || tainted(n, v1alpha1.TaintLegacy)) {
			w.breaks("node %s is fenced while Cluster Autoscaler leads", n.Name)
		}
	}
}

var testPools = []string{"general", "batch"}

// countUnserved measures for how long a pool has no scaler: Cluster Autoscaler does not lead with its group listed, and no
// Ready NodePool serves it.
func (w *world) countUnserved(d time.Duration) {
	for _, pool := range testPools {
		if w.scales(pool) || w.serves(pool) {
			w.unserved[pool] = 0
			continue
		}
		w.unserved[pool] += d
		w.longest = max(w.longest, w.unserved[pool])
		if w.unserved[pool] > w.patience {
			w.breaks("pool %s has no scaler for more than %s", pool, w.patience)
		}
	}
}

// halts says that the user asked for no more evictions: the migration is paused or deleted, and not on its way back.
func (w *world) halts() bool {
	o, ok := w.c.peek("Migration//prod").(*v1alpha1.Migration)
	return ok && o.Spec.OnPause != v1alpha1.OnPauseRollBack && (o.Spec.Paused || o.DeletionTimestamp != nil)
}

// reconciler is a new process: nothing is remembered but what is in the world.
func (w *world) reconciler() *Reconciler {
	p := ports{w}
	clock := func() time.Time { return w.now }
	r := &Reconciler{
		Recorder: events.NewFakeRecorder(10000), Options: Options{Namespace: "castoff-system"},
		Observer: &Observer{
			Client: w.c, Live: w.c, Clock: clock, CABundle: []byte(testCA),
			NodeGroupsOf: func(string) NodeGroups { return p },
			Ports: Ports{
				Interruption: interruptionPort{w}, Identity: identityPort{w}, Autoscalers: p, Provisioner: provisionerPort{w},
				Releases: releasesPort{w}, Drainer: drainerPort{w, drain.New(w.c, w.c, clock)}, Snapshots: p, Gates: gatePort{w},
			},
		},
	}
	if w.spoil != nil {
		w.spoil(r)
	}
	return r
}

// nodes are all nodes, as they are stored: to be looked at, not to be changed.
func (w *world) nodes() []*corev1.Node {
	var out []*corev1.Node
	for _, o := range w.c.every("Node") {
		if n, ok := o.(*corev1.Node); ok {
			out = append(out, n)
		}
	}
	return out
}

func (w *world) node(name string) *corev1.Node {
	n, _ := w.c.peek("Node//" + name).(*corev1.Node)
	return n
}

// addNode makes a node; ready says whether its kubelet is.
func (w *world) addNode(name, instance string, labels map[string]string, ready bool) {
	labels = maps.Clone(labels)
	labels[corev1.LabelTopologyZone], labels[corev1.LabelHostname] = "a", name
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: labels, CreationTimestamp: metav1.NewTime(w.now)},
		Spec:       corev1.NodeSpec{ProviderID: "aws:///a/" + instance},
	}
	setReady(n, ready)
	w.c.put(n)
}

func setReady(n *corev1.Node, ready bool) {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
}

func (w *world) removeNode(name string) {
	w.c.remove("Node//" + name)
	delete(w.pods, name)
	w.loseOnly(name)
}

// poolOf is the pool of a node, of a legacy group or of Karpenter.
func (w *world) poolOf(n *corev1.Node) string {
	if n == nil {
		return ""
	}
	if g := n.Labels["group"]; g != "" {
		return g
	}
	return n.Labels[v1alpha1.LabelPool]
}

func tainted(n *corev1.Node, key string) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
}

// schedule gives pods without a node one that has room: the emptiest, of those that Kubernetes would take.
func (w *world) schedule() {
	for _, pool := range testPools {
		for w.homeless[pool] > 0 {
			best := w.roomiest(pool)
			if best == "" {
				break
			}
			w.homeless[pool]--
			w.pods[best]++
			w.bindOnly(pool, best)
		}
	}
	w.showPending()
}

func (w *world) roomiest(pool string) string {
	best := ""
	for _, n := range w.nodes() {
		open := nodeReady(n) && !n.Spec.Unschedulable && !slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
			return t.Key == v1alpha1.TaintLegacy && t.Effect == corev1.TaintEffectNoSchedule
		})
		if w.poolOf(n) != pool || !open || w.pods[n.Name] >= roomOfNode || w.ends(n.Name) {
			continue
		}
		if best == "" || w.pods[n.Name] < w.pods[best] {
			best = n.Name
		}
	}
	return best
}

// showPending keeps as many Pod objects without a node as there are homeless pods.
func (w *world) showPending() {
	owner := true
	for _, pool := range testPools {
		have := w.c.every("Pod")
		have = slices.DeleteFunc(have, func(o client.Object) bool { return o.GetLabels()["pool"] != pool })
		for i := len(have); i < w.homeless[pool]; i++ {
			w.ids++
			w.c.put(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: fmt.Sprintf("%s-%d", pool, w.ids), Labels: map[string]string{"pool": pool},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: pool, Controller: &owner}},
			}})
		}
		for i := w.homeless[pool]; i < len(have); i++ {
			w.c.remove(keyOf(have[i]))
		}
	}
}
