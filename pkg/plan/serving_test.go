package plan

import (
	"math/rand"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

const theAutoscaler = "deployment/kube-system/cluster-autoscaler"

// lists has the Cluster Autoscaler write a status of that age with those Auto Scaling groups.
func (s *scene) lists(age time.Duration, groups ...string) *scene {
	return s.withAutoscaler(func(a *inventory.Autoscaler) { a.StatusTime, a.Groups = noon.Add(-age), groups })
}

// running has the Cluster Autoscaler run and lead.
func (s *scene) running() *scene {
	return s.withAutoscaler(func(a *inventory.Autoscaler) {
		a.Replicas, a.StatusReplicas, a.Pods, a.LeaseHolder = 1, 1, 1, "cluster-autoscaler-0"
	})
}

// withNodePool changes a pool's NodePool.
func (s *scene) withNodePool(pool string, change func(*karpv1.NodePool)) *scene {
	i := slices.IndexFunc(s.w.Engine.NodePools, func(np karpv1.NodePool) bool { return np.Name == pool })
	change(&s.w.Engine.NodePools[i])
	return s
}

func stopIt(np *karpv1.NodePool) {
	np.Spec.Limits = karpv1.Limits{corev1.ResourceCPU: resource.MustParse("0")}
}

func TestServing(t *testing.T) {
	both := func(general, batch []string) []PoolServing {
		return []PoolServing{{Pool: "general", Scalers: general}, {Pool: "batch", Scalers: batch}}
	}
	ca := []string{theAutoscaler}
	general, batch := []string{"nodepool/general"}, []string{"nodepool/batch"}
	cases := map[string]struct {
		reason string
		world  *scene
		want   []PoolServing
	}{
		"Before":          {"Cluster Autoscaler leads and lists the groups of both", aWorld().lists(5*time.Second, "general", "eks-batch"), both(ca, ca)},
		"WithoutStatus":   {"one that writes no status is taken at its word", aWorld(), both(ca, ca)},
		"OneNotListed":    {"it does not scale what it does not list", aWorld().lists(5*time.Second, "general"), both(ca, nil)},
		"StatusOld":       {"a status that is not written any more proves nothing", aWorld().lists(2*time.Minute, "general", "eks-batch"), both(nil, nil)},
		"StatusAMinute":   {"one of a minute ago still does", aWorld().lists(statusFresh, "general", "eks-batch"), both(ca, ca)},
		"NotElected":      {"a pod that waits for the Lease scales nothing", aWorld().withAutoscaler(func(a *inventory.Autoscaler) { a.LeaseHolder = "" }), both(nil, nil)},
		"NoElection":      {"one without an election scales as soon as it runs", aWorld().withAutoscaler(func(a *inventory.Autoscaler) { a.LeaderElect, a.LeaseHolder = false, "" }), both(ca, ca)},
		"NoPod":           {"no pod, no scaler, whatever was asked for", aWorld().withAutoscaler(func(a *inventory.Autoscaler) { a.Pods = 0 }), both(nil, nil)},
		"Released":        {"in the middle of the hand-over there is none, and that is what is measured", aWorld().released(), both(nil, nil)},
		"Served":          {"Karpenter has taken both", aWorld().served(), both(general, batch)},
		"Standby":         {"a Cluster Autoscaler that runs without its Lease is none", aWorld().served().withAutoscaler(func(a *inventory.Autoscaler) { a.Replicas, a.StatusReplicas, a.Pods = 1, 1, 1 }), both(general, batch)},
		"Completed":       {"nor is anything else different at the end", aWorld().completed(), both(general, batch)},
		"GroupsDeleted":   {"or after the node groups are deleted", aWorld().completed().with(func(w *World) { w.Groups = nil }), both(general, batch)},
		"AutoscalerGone":  {"and Cluster Autoscaler with them", aWorld().completed().with(func(w *World) { w.Autoscalers = nil }), both(general, batch)},
		"NodePoolDeleted": {"a NodePool that was deleted by hand leaves its pool without a scaler", aWorld().completed().with(func(w *World) { w.Engine.NodePools = w.Engine.NodePools[1:] }), both(nil, batch)},
		"Forgotten": {
			"and that stays so where the Cluster Autoscaler is gone as well: it was there once", aWorld().completed().with(func(w *World) { w.Engine.NodePools, w.Autoscalers = nil, nil }), both(nil, nil),
		},
		"NotReady":  {"a NodePool that is not Ready launches nothing", aWorld().served().withNodePool("general", func(np *karpv1.NodePool) { np.Status.Conditions = nil }), both(nil, batch)},
		"Stopped":   {"nor does one that may launch nothing, on the way back", aWorld().served().withNodePool("batch", stopIt), both(general, nil)},
		"Canary":    {"a canary's NodePool serves nobody", aWorld().served().withNodePool("general", func(np *karpv1.NodePool) { np.Labels[v1alpha1.LabelCanary] = "general" }), both(nil, batch)},
		"CameBack":  {"a Cluster Autoscaler that leads beside Karpenter makes two", aWorld().served().running(), both([]string{theAutoscaler, "nodepool/general"}, []string{theAutoscaler, "nodepool/batch"})},
		"LaterWave": {"one that keeps the second pool only makes none", aWorld().served().running().lists(time.Second, "eks-batch").with(func(w *World) { w.Engine.NodePools = w.Engine.NodePools[:1] }), both(general, ca)},
		"TagsOff": {
			"a group whose tags were taken off is scaled until it is listed no more", aWorld().served().running().lists(time.Second, "general").withGroup("general", func(g *inventory.NodeGroup) { g.Tags = nil }),
			both([]string{theAutoscaler, "nodepool/general"}, batch),
		},
		"Second": {
			"two Cluster Autoscalers of different names that both lead are two", aWorld().with(func(w *World) { w.Autoscalers = append(w.Autoscalers, anAutoscaler("other")) }),
			both([]string{theAutoscaler, "deployment/kube-system/other"}, []string{theAutoscaler, "deployment/kube-system/other"}),
		},
		"NeverScaled":   {"nobody misses a scaler that never was", aWorld().with(func(w *World) { w.Autoscalers = nil }), nil},
		"OtherInCharge": {"another Migration acts: its pools are its own", aWorld().with(func(w *World) { w.OtherMigration = "older" }), nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := serving(newLook(aMigration().build(), tc.world.build(), noon))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestServingIsOneOrSaysSo(t *testing.T) {
	cases := map[string]struct {
		scalers          []string
		unserved, double bool
	}{
		"None":  {nil, true, false},
		"One":   {[]string{"a"}, false, false},
		"Two":   {[]string{"a", "b"}, false, true},
		"Three": {[]string{"a", "b", "c"}, false, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := PoolServing{Scalers: tc.scalers}
			if s.Unserved() != tc.unserved || s.DoubleServed() != tc.double {
				t.Errorf("unserved %t, double served %t", s.Unserved(), s.DoubleServed())
			}
		})
	}
}

// TestNextTellsWhoServes: what the decision carries is about the same look as its actions, in every phase and every world.
func TestNextTellsWhoServes(t *testing.T) {
	random := rand.New(rand.NewSource(7))
	for range 200 {
		s := aWorld()
		for _, stage := range []func(*scene) *scene{(*scene).snapshotTaken, (*scene).released, (*scene).served, (*scene).completed} {
			if random.Intn(2) == 0 {
				s = stage(aWorld())
			}
		}
		m := aMigration()
		if random.Intn(2) == 0 {
			m = m.rollBack()
		}
		if diff := cmp.Diff(serving(newLook(m.build(), s.build(), noon)), Next(m.build(), s.build(), noon).Serving); diff != "" {
			t.Fatalf("-serving, +Next().Serving:\n%s", diff)
		}
	}
}
