package controllers

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/helm"
	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/plan"
)

func TestMemo(t *testing.T) {
	start := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	var m memo[int]
	reads := 0
	read := func(context.Context) (int, error) { reads++; return reads, nil }
	fails := func(context.Context) (int, error) { return 0, errors.New("timeout") }
	steps := []struct {
		reason string
		after  time.Duration
		forget bool
		read   func(context.Context) (int, error)
		want   int
		error  bool
	}{
		{reason: "nothing is kept yet, and an error is not", read: fails, error: true},
		{reason: "read", read: read, want: 1},
		{reason: "kept", after: 4 * time.Second, read: fails, want: 1},
		{reason: "no longer fresh", after: 5 * time.Second, read: read, want: 2},
		{reason: "forgotten", after: 6 * time.Second, forget: true, read: read, want: 3},
		{reason: "an error in its place is told", after: 20 * time.Second, read: fails, error: true},
		{reason: "and asked again at once", after: 20 * time.Second, read: read, want: 4},
	}
	for _, s := range steps {
		if s.forget {
			m.forget()
		}
		got, err := m.get(t.Context(), start.Add(s.after), always[int](5*time.Second), s.read)
		if got != s.want || (err != nil) != s.error {
			t.Errorf("%s: %d and %v, want %d", s.reason, got, err, s.want)
		}
	}
}

// asked counts the reads of AWS and Helm.
type asked map[string]int

// askedMu guards every asked: a look reads in parallel.
var askedMu sync.Mutex

func (a asked) count(what string) {
	askedMu.Lock()
	defer askedMu.Unlock()
	a[what]++
}

type countingGroups struct {
	NodeGroups
	asked asked
}

func (c countingGroups) List(ctx context.Context, also ...string) ([]inventory.NodeGroup, error) {
	c.asked.count("groups")
	for _, name := range also {
		c.asked.count("also " + name)
	}
	return c.NodeGroups.List(ctx, also...)
}

func (c countingGroups) Cluster(ctx context.Context) (inventory.Cluster, error) {
	c.asked.count("cluster")
	return c.NodeGroups.Cluster(ctx)
}

type countingInterruption struct {
	Interruption
	asked asked
}

func (c countingInterruption) Observe(ctx context.Context, cl inventory.Cluster) (inventory.Interruption, error) {
	c.asked.count("interruption")
	return c.Interruption.Observe(ctx, cl)
}

type countingIdentity struct {
	Identity
	asked asked
}

func (c countingIdentity) Observe(ctx context.Context, cl inventory.Cluster, extra []string) (inventory.Identity, error) {
	c.asked.count("identity")
	return c.Identity.Observe(ctx, cl, extra)
}

func (c countingIdentity) Check(ctx context.Context, cl inventory.Cluster) ([]inventory.Permission, error) {
	c.asked.count("permissions")
	return c.Identity.Check(ctx, cl)
}

type countingReleases struct {
	Releases
	asked asked
}

func (c countingReleases) Observe(ctx context.Context, r helm.Release) (helm.State, error) {
	c.asked.count("release")
	return c.Releases.Observe(ctx, r)
}

// counted is an Observer of a settled world whose reads are counted.
func counted(t *testing.T) (*world, *Observer, asked) {
	t.Helper()
	w := newWorld(t)
	w.settled.Ready, w.identity.Ready, w.crds, w.rel = true, true, true, true
	o, a := w.reconciler().Observer, asked{}
	o.NodeGroupsOf = func(string) NodeGroups { return countingGroups{ports{w}, a} }
	o.Ports.Interruption = countingInterruption{o.Ports.Interruption, a}
	o.Ports.Identity = countingIdentity{o.Ports.Identity, a}
	o.Ports.Releases = countingReleases{o.Ports.Releases, a}
	return w, o, a
}

func testMigration() *v1alpha1.Migration {
	m := migration()
	m.Spec.ClusterName = "test"
	return m
}

func TestWhatIsAskedAgain(t *testing.T) {
	cases := map[string]struct {
		reason string
		action plan.Action
		want   asked
	}{
		"Nothing":      {reason: "a look right after another asks AWS nothing", want: asked{}},
		"Node":         {reason: "a node's mark changes nothing in AWS", action: plan.MarkNode{}, want: asked{}},
		"Pass":         {reason: "an eviction neither", action: plan.EvictPods{}, want: asked{}},
		"Interruption": {reason: "the queue was made", action: plan.EnsureInterruption{}, want: asked{"interruption": 1}},
		"Identity":     {reason: "the roles were", action: plan.EnsureIdentity{}, want: asked{"identity": 1}},
		"CRDs":         {reason: "the definitions belong to the engine", action: plan.InstallCRDs{}, want: asked{"release": 1}},
		"Engine":       {reason: "the release was installed", action: plan.InstallEngine{}, want: asked{"release": 1}},
		"Size":         {reason: "what a change of a group came to is looked for in its own pace", action: plan.SetGroupSize{}, want: asked{}},
		"End":          {reason: "an end, too", action: plan.EndInstances{}, want: asked{}},
		"Policies":     {reason: "and a policy", action: plan.DisablePolicies{}, want: asked{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, o, a := counted(t)
			if _, err := o.Observe(t.Context(), testMigration()); err != nil {
				t.Fatal(err)
			}
			clear(a)
			if tc.action != nil {
				o.forget([]plan.Action{tc.action})
			}
			if _, err := o.Observe(t.Context(), testMigration()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, a); diff != "" {
				t.Errorf("%s (-want +got)\n%s", tc.reason, diff)
			}
		})
	}
}

func TestHowLongALookIsFresh(t *testing.T) {
	all := asked{"cluster": 1, "groups": 1, "interruption": 1, "identity": 1, "release": 1, "permissions": 1}
	cases := map[string]struct {
		reason string
		spoil  func(*world)
		after  time.Duration
		want   asked
	}{
		"Soon":      {reason: "watches wake the controller more often than AWS needs to be asked", after: 9 * time.Second, want: asked{}},
		"Groups":    {reason: "somebody else may have changed a group", after: 10 * time.Second, want: asked{"groups": 1}},
		"Settled":   {reason: "nobody works on what is settled", after: 4 * time.Minute, want: asked{"groups": 1}},
		"All":       {reason: "but it is looked at", after: 5 * time.Minute, want: all},
		"Unsettled": {reason: "what castoff works on is asked often", spoil: func(w *world) { w.settled.Ready, w.identity.Ready, w.rel = false, false, false }, after: time.Second, want: asked{"interruption": 1, "identity": 1, "release": 1}},
		"Denied":    {reason: "a migration goes on by itself once it may", spoil: func(w *world) { w.permission = inventory.PermissionDenied }, after: time.Second, want: asked{"permissions": 1}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w, o, a := counted(t)
			if tc.spoil != nil {
				tc.spoil(w)
			}
			for range 2 {
				clear(a)
				if _, err := o.Observe(t.Context(), testMigration()); err != nil {
					t.Fatal(err)
				}
				w.now = w.now.Add(tc.after)
			}
			if diff := cmp.Diff(tc.want, a); diff != "" {
				t.Errorf("%s (-want +got)\n%s", tc.reason, diff)
			}
		})
	}
}

func TestAnotherClusterIsLookedAtAnew(t *testing.T) {
	_, o, a := counted(t)
	m := testMigration()
	m.Spec.Home, m.Spec.Pools = &v1alpha1.Home{NodeGroup: "system"}, []v1alpha1.Pool{{Name: "a", NodeGroups: []string{"general"}}}
	for _, name := range []string{"tset", "test"} {
		clear(a)
		m.Spec.ClusterName = name
		if _, err := o.Observe(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	want := asked{"cluster": 1, "groups": 1, "interruption": 1, "identity": 1, "release": 1, "permissions": 1, "also system": 1, "also general": 1}
	if diff := cmp.Diff(want, a); diff != "" {
		t.Errorf("after the name was corrected (-want +got)\n%s", diff)
	}
}

func TestHomeSelector(t *testing.T) {
	node := func(group string, labels map[string]string) inventory.Node {
		return inventory.Node{Group: group, Labels: labels}
	}
	const nodegroup = "eks.amazonaws.com/nodegroup"
	cases := map[string]struct {
		reason string
		nodes  []inventory.Node
		want   map[string]string
	}{
		"NoNodes": {reason: "nothing to choose from"},
		"Nodegroup": {
			reason: "the label that EKS gives comes first", want: map[string]string{nodegroup: "system"},
			nodes: []inventory.Node{node("home", map[string]string{nodegroup: "system", "a": "b"}), node("other", map[string]string{nodegroup: "general"})},
		},
		"Own": {
			reason: "a label that only the home has", want: map[string]string{"role": "system"},
			nodes: []inventory.Node{node("home", map[string]string{"role": "system", "team": "x"}), node("other", map[string]string{"role": "work", "team": "x"})},
		},
		"NotShared": {
			reason: "every node of the home must have it", want: nil,
			nodes: []inventory.Node{node("home", map[string]string{"role": "system"}), node("home", map[string]string{"role": "infra"})},
		},
		"ElsewhereToo": {
			reason: "a node of Karpenter's has no group, and the engine must not move there", want: nil,
			nodes: []inventory.Node{node("home", map[string]string{"role": "system"}), node("", map[string]string{"role": "system"})},
		},
		"WellKnown": {
			reason: "what Karpenter may give to its own nodes tomorrow says nothing of a group", want: map[string]string{"role": "system"},
			nodes: []inventory.Node{node("home", map[string]string{
				corev1.LabelInstanceTypeStable: "m5.large", corev1.LabelInstanceType: "m5.large", corev1.LabelTopologyZone: "a", corev1.LabelHostname: "h",
				corev1.LabelFailureDomainBetaZone: "a", corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux", "beta.kubernetes.io/arch": "amd64", "role": "system",
			})},
		},
		"ByName": {
			reason: "the same choice at every look", want: map[string]string{"a": "1"},
			nodes: []inventory.Node{node("home", map[string]string{"c": "3", "a": "1", "b": "2"})},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, homeSelector("home", tc.nodes)); diff != "" {
				t.Errorf("%s (-want +got)\n%s", tc.reason, diff)
			}
		})
	}
}

func TestSameCA(t *testing.T) {
	encoded := base64.StdEncoding.EncodeToString([]byte(testCA + "\n"))
	cases := map[string]struct {
		reason, eks string
		pem         string
		want        bool
	}{
		"Same":    {reason: "but for a newline at the end", eks: encoded, pem: testCA, want: true},
		"Other":   {reason: "another cluster", eks: encoded, pem: "other"},
		"Garbage": {reason: "no base64 is no certificate", eks: "%%%", pem: testCA},
		"Empty":   {reason: "EKS has none while it creates the cluster", eks: "", pem: testCA},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := sameCA(tc.eks, []byte(tc.pem)); got != tc.want {
				t.Errorf("%s: %t, want %t", tc.reason, got, tc.want)
			}
		})
	}
	w := newWorld(t)
	o := w.reconciler().Observer
	o.turnTo("test", v1alpha1.Provisioner{})
	o.CABundle = nil
	if c, err := o.observeCluster(t.Context()); err != nil || c.Same {
		t.Errorf("without a bundle of its own castoff takes any cluster for its own: %t, %v", c.Same, err)
	}
}

func TestInstanceID(t *testing.T) {
	cases := map[string]struct{ reason, id, want string }{
		"EC2":     {"what the cloud provider writes", "aws:///us-east-1a/i-0123456789abcdef0", "i-0123456789abcdef0"},
		"Bare":    {"older nodes", "i-0123456789abcdef0", "i-0123456789abcdef0"},
		"Fargate": {"no instance of ours", "aws:///us-east-1a/1234/fargate-ip-10-0-0-1.ec2.internal", ""},
		"Empty":   {"a node that has just registered", "", ""},
		"Kwok":    {"another provider", "kwok://node-1", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := instanceID(tc.id); got != tc.want {
				t.Errorf("%s: %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}

func TestAssignGroups(t *testing.T) {
	groups := []inventory.NodeGroup{{Name: "a", Instances: []inventory.Instance{{ID: "i-1"}, {ID: ""}}}, {Name: "b", Instances: []inventory.Instance{{ID: "i-2"}}}}
	nodes := assignGroups([]inventory.Node{{Name: "1", InstanceID: "i-1"}, {Name: "2", InstanceID: "i-2"}, {Name: "3", InstanceID: "i-3"}, {Name: "4"}}, groups)
	var got []string
	for _, n := range nodes {
		got = append(got, n.Name+":"+n.Group)
	}
	if diff := cmp.Diff([]string{"1:a", "2:b", "3:", "4:"}, got); diff != "" {
		t.Errorf("a node without an instance belongs to no group (-want +got)\n%s", diff)
	}
}

func TestNodeOf(t *testing.T) {
	created := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u", ResourceVersion: "7", CreationTimestamp: created, Labels: map[string]string{corev1.LabelTopologyZone: "a"}, Annotations: map[string]string{"x": "y"}},
		Spec:       corev1.NodeSpec{ProviderID: "aws:///a/i-1", Unschedulable: true, Taints: []corev1.Taint{{Key: "k"}}},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
	want := inventory.Node{
		Name: "n", UID: "u", ResourceVersion: "7", InstanceID: "i-1", Zone: "a", Labels: n.Labels, Annotations: n.Annotations,
		Taints: n.Spec.Taints, Unschedulable: true, Ready: true, Created: created.Time,
	}
	if diff := cmp.Diff(want, nodeOf(n)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	n.Status.Conditions[0].Status = corev1.ConditionUnknown
	if nodeOf(n).Ready {
		t.Error("a node whose kubelet is silent is Ready")
	}
}

func TestRecordedGroups(t *testing.T) {
	group := func(name, sha, data string) inventory.NodeGroup {
		return inventory.NodeGroup{Name: name, Desired: 9, LaunchTemplate: inventory.LaunchTemplate{UserDataSHA256: sha, UserData: data}}
	}
	recorded := func(name, sha string) inventory.GroupSnapshot {
		g := group(name, sha, "")
		g.Desired = 3
		return inventory.GroupSnapshot{Group: g}
	}
	cases := map[string]struct {
		reason string
		now    []inventory.NodeGroup
		want   string
	}{
		"Same":    {reason: "user data comes from AWS", now: []inventory.NodeGroup{group("a", "s", "#!/bin/sh")}, want: "#!/bin/sh"},
		"Changed": {reason: "another version's user data is not what was recorded", now: []inventory.NodeGroup{group("a", "t", "evil")}, want: ""},
		"Gone":    {reason: "the group was deleted", now: nil, want: ""},
		"Other":   {reason: "another group's is not taken", now: []inventory.NodeGroup{group("b", "s", "evil")}, want: ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := recordedGroups(&inventory.Snapshot{Groups: []inventory.GroupSnapshot{recorded("a", "s")}}, tc.now)
			if len(got) != 1 || got[0].LaunchTemplate.UserData != tc.want || got[0].Desired != 3 {
				t.Errorf("%s: %+v, want user data %q and the recorded size", tc.reason, got, tc.want)
			}
		})
	}
}

func TestGroupsOf(t *testing.T) {
	groups := []inventory.NodeGroup{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	got := groupsOf(inventory.Pool{NodeGroups: []string{"c", "missing", "a"}}, groups)
	if diff := cmp.Diff([]inventory.NodeGroup{{Name: "c"}, {Name: "a"}}, got); diff != "" {
		t.Errorf("in the pool's order, without what is gone (-want +got)\n%s", diff)
	}
}

func pod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{}, Annotations: map[string]string{}}}
	for _, f := range change {
		f(p)
	}
	return p
}

func TestPendingPods(t *testing.T) {
	cases := map[string]struct {
		reason string
		pod    *corev1.Pod
		want   int
	}{
		"Waiting":     {reason: "no node had room", pod: pod("a"), want: 1},
		"Gated":       {reason: "its owner does not want it scheduled yet", pod: pod("a", func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "x"}} })},
		"Finished":    {reason: "a pod that failed before it had a node wants none", pod: pod("a", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })},
		"Bound":       {reason: "has a node", pod: pod("a", func(p *corev1.Pod) { p.Spec.NodeName = "n" })},
		"Leaving":     {reason: "wants no node any more", pod: pod("a", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} })},
		"Placeholder": {reason: "castoff's own capacity is no workload", pod: pod("a", func(p *corev1.Pod) { p.Labels[v1alpha1.LabelPlaceholder] = "general" })},
		"Daemon": {reason: "waits for room on its own node", pod: pod("a", func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "agent", Controller: ptr.To(true)}}
		})},
		"Replica": {reason: "waits for any node", want: 1, pod: pod("a", func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web", Controller: ptr.To(true)}}
		})},
		"Canary": {reason: "nor is its trial", pod: pod("a", func(p *corev1.Pod) { p.Labels[v1alpha1.LabelCanary] = "general" })},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.must(w.c.Create(t.Context(), tc.pod))
			if got, err := w.reconciler().Observer.pendingPods(t.Context()); err != nil || got != tc.want {
				t.Errorf("%s: %d, %v; want %d", tc.reason, got, err, tc.want)
			}
		})
	}
}

func TestPodsAreReadInPages(t *testing.T) {
	w := newWorld(t)
	w.c.page = 2
	for i := range 5 {
		w.must(w.c.Create(t.Context(), pod(fmt.Sprintf("pod-%d", i), func(p *corev1.Pod) { p.Spec.NodeName = "n" })))
	}
	n := 0
	count := func() error {
		return w.reconciler().Observer.eachPod(t.Context(), func(*corev1.Pod) { n++ })
	}
	if err := count(); err != nil || n != 5 || w.c.pages != 3 {
		t.Errorf("%d pods in %d pages, %v; want 5 in 3", n, w.c.pages, err)
	}
	w.c.refuse = func(_ string, o any) error {
		if _, ok := o.(*corev1.PodList); ok && w.c.pages == 4 {
			return errors.New("timeout")
		}
		return nil
	}
	if err := count(); err == nil {
		t.Error("a page that is missing is not told")
	}
}

func TestWorkloads(t *testing.T) {
	w := newWorld(t)
	owner := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "rs", Controller: new(bool)}
	*owner.Controller = true
	for _, p := range []*corev1.Pod{
		pod("done", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }),
		pod("failed", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }),
		pod("pending"),
		pod("full", func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{owner}
			p.Annotations[corev1.MirrorPodAnnotationKey] = "x"
			p.Spec = corev1.PodSpec{NodeName: "n", NodeSelector: map[string]string{"a": "b"}, Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}, Tolerations: []corev1.Toleration{{Key: "k"}}}
		}),
	} {
		w.must(w.c.Create(t.Context(), p))
	}
	w.must(w.c.Create(t.Context(), &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "budget"}}))
	got, err := w.reconciler().Observer.workloads(t.Context())
	w.must(err)
	want := inventory.Workloads{
		Pending: 1, Budgets: got.Budgets,
		Pods: []inventory.Pod{
			{
				Namespace: "default", Name: "full", Node: "n", Owner: &owner, Mirror: true, Annotations: map[string]string{corev1.MirrorPodAnnotationKey: "x"},
				Shape: &inventory.Shape{NodeSelector: map[string]string{"a": "b"}, Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}, Tolerations: []corev1.Toleration{{Key: "k"}}},
			},
			{Namespace: "default", Name: "pending", Shape: &inventory.Shape{}},
		},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" || len(got.Budgets) != 1 {
		t.Errorf("%d budgets (-want +got)\n%s", len(got.Budgets), diff)
	}
}

func TestOtherMigration(t *testing.T) {
	created := metav1.NewTime(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC))
	earlier, later := metav1.NewTime(created.Add(-time.Second)), metav1.NewTime(created.Add(time.Second))
	cases := map[string]struct {
		reason string
		uid    types.UID
		at     metav1.Time
		done   *metav1.Time
		want   string
	}{
		"Older":    {reason: "the older one acts", uid: "uid-2", at: earlier, want: "other"},
		"Younger":  {reason: "this one does", uid: "uid-0", at: later},
		"Finished": {reason: "a finished one is in nobody's way", uid: "uid-2", at: earlier, done: &created},
		"SameTime": {reason: "in the same second the smaller UID", uid: "uid-0", at: created, want: "other"},
		"SameTie":  {reason: "and only one of the two", uid: "uid-2", at: created},
		"Itself":   {reason: "is not another", uid: "uid-1", at: created},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.must(w.c.Create(t.Context(), &v1alpha1.Migration{
				ObjectMeta: metav1.ObjectMeta{Name: "other", UID: tc.uid, CreationTimestamp: tc.at}, Status: v1alpha1.MigrationStatus{CompletionTime: tc.done},
			}))
			m := migration()
			m.CreationTimestamp = created
			if got, err := w.reconciler().Observer.otherMigration(t.Context(), m); err != nil || got != tc.want {
				t.Errorf("%s: %q, %v; want %q", tc.reason, got, err, tc.want)
			}
		})
	}
}

func TestReleaseState(t *testing.T) {
	since := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	cases := map[string]struct {
		reason  string
		state   helm.State
		want    inventory.ReleaseState
		message string
		current bool
	}{
		"Missing": {reason: "nothing is there", state: helm.State{Status: helm.NotInstalled}, want: inventory.ReleaseMissing},
		"Current": {reason: "as castoff would install it", state: helm.State{Status: helm.Deployed, Current: true}, want: inventory.ReleaseDeployed, current: true},
		"Old":     {reason: "says what differs", state: helm.State{Status: helm.Deployed, Reason: "another chart version"}, want: inventory.ReleaseDeployed, message: "another chart version"},
		"Pending": {reason: "a Helm run that a crash ended", state: helm.State{Status: helm.Pending, Since: since}, want: inventory.ReleasePending, message: "A Helm operation was begun at 2026-11-30T12:00:00Z and has not ended; castoff takes it over."},
		"Foreign": {
			reason: "names the owner", state: helm.State{Status: helm.Foreign, Owner: "Helm release x/y", Object: "Deployment kube-system/karpenter"}, want: inventory.ReleaseForeign,
			message: "What castoff would install is there and belongs to Helm release x/y (Deployment kube-system/karpenter). Two Karpenters in one cluster launch twice for every pod: remove that one.",
		},
		"Failed": {reason: "says why", state: helm.State{Status: helm.Failed, Reason: "no such image"}, want: inventory.ReleaseFailed, message: "no such image"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, message, current := releaseState(tc.state)
			if got != tc.want || message != tc.message || current != tc.current {
				t.Errorf("%s: %s %q %t", tc.reason, got, message, current)
			}
		})
	}
}

func TestEngineReleaseIsFilledIn(t *testing.T) {
	w := newWorld(t)
	o := w.reconciler().Observer
	o.Engine = helm.Engine{Namespace: "kube-system", Image: "ghcr.io/castoff-sh/provisioner:v1"}
	world := plan.World{
		Cluster: inventory.Cluster{Name: "test", Endpoint: "https://x", Region: "us-east-1"}, Interruption: inventory.Interruption{QueueName: "q"}, Home: "system",
		Nodes: []inventory.Node{{Group: "system", Labels: map[string]string{"group": "system"}}},
	}
	release, err := o.engineRelease(&v1alpha1.Migration{}, world)
	if err != nil {
		t.Fatal(err)
	}
	values := release.Values
	want := map[string]any{"clusterName": "test", "clusterEndpoint": "https://x", "interruptionQueue": "q"}
	if diff := cmp.Diff(want, values["settings"]); diff != "" {
		t.Errorf("settings (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"group": "system"}, values["nodeSelector"]); diff != "" {
		t.Errorf("home (-want +got)\n%s", diff)
	}
	if o.Engine.ClusterName != "" {
		t.Error("what one look found is kept for the next")
	}
}
