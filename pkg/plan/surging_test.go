package plan

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

func (b migrationOf) surge(s v1alpha1.SurgeStrategy) migrationOf {
	b.m.Spec.Strategy.Surge = s
	return b
}

// passes are the surges of the passes that are asked for, by node.
func passes(d Decision) map[string]inventory.Surge {
	out := map[string]inventory.Surge{}
	for _, a := range d.Actions {
		if e, ok := a.(EvictPods); ok {
			out[e.Node] = e.Allow.Surge
		}
	}
	return out
}

func TestSurge(t *testing.T) {
	const late = 20 * time.Minute
	back := aWorld().cordoned()
	var karpenters string
	for _, n := range back.w.Nodes {
		if n.Labels["karpenter.sh/nodepool"] != "" {
			karpenters = n.Name
			break
		}
	}
	back.draining(karpenters, 1)
	surges := func(s v1alpha1.SurgeStrategy, whom string) inventory.Surge {
		return inventory.Surge{Strategy: s, For: whom}
	}
	cases := map[string]struct {
		reason    string
		migration migrationOf
		world     *scene
		want      map[string]inventory.Surge
	}{
		"Singletons": {
			"each pass may restart Deployments for this Migration", aMigration().surge(v1alpha1.SurgeSingletons), aWorld().shifting().draining("general-0", 2),
			map[string]inventory.Surge{"general-0": surges(v1alpha1.SurgeSingletons, "uid-1")},
		},
		"All": {
			"all nodes say the same, so that one restart is for all of them", aMigration().surge(v1alpha1.SurgeAll), aWorld().shifting().draining("general-0", 2).draining("general-1", 1),
			map[string]inventory.Surge{"general-0": surges(v1alpha1.SurgeAll, "uid-1"), "general-1": surges(v1alpha1.SurgeAll, "uid-1")},
		},
		"None":    {"nobody asked for it", aMigration().surge(v1alpha1.SurgeNone), aWorld().shifting().draining("general-0", 2), map[string]inventory.Surge{"general-0": {}}},
		"Default": {"a Migration of an earlier version says nothing", aMigration(), aWorld().shifting().draining("general-0", 2), map[string]inventory.Surge{"general-0": {}}},
		"TimeIsOver": {
			"what is left when a node's time is over is evicted after all, and other nodes have theirs", aMigration().surge(v1alpha1.SurgeSingletons),
			aWorld().shifting().draining("general-0", 2).since("general-0", late).draining("general-1", 1),
			map[string]inventory.Surge{"general-0": {}, "general-1": surges(v1alpha1.SurgeSingletons, "uid-1")},
		},
		"TheWayBack": {
			"pods move back by a restart of that direction", aMigration().surge(v1alpha1.SurgeSingletons).rollBack(), back,
			map[string]inventory.Surge{karpenters: surges(v1alpha1.SurgeSingletons, "uid-1/back")},
		},
		"Paused": {"a pause restarts nothing", aMigration().surge(v1alpha1.SurgeAll).paused(), aWorld().shifting().draining("general-0", 2), map[string]inventory.Surge{}},
		"NotDraining": {
			"nothing is restarted for a node whose pods have no room yet", aMigration().surge(v1alpha1.SurgeAll).warmFirst(), aWorld().shifting().warm("general-0", 0, 1), map[string]inventory.Surge{},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, passes(Next(tc.migration.build(), tc.world.build(), noon))); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestSurgeBlockers(t *testing.T) {
	surging := func(pod, workload string) inventory.BlockedPod {
		return inventory.BlockedPod{Pod: types.NamespacedName{Namespace: "shop", Name: pod}, Workload: "deployment/shop/" + workload, Reason: inventory.BlockedSurging, Message: "castoff restarted its Deployment"}
	}
	refused := func(pod string) inventory.BlockedPod {
		return inventory.BlockedPod{Pod: types.NamespacedName{Namespace: "shop", Name: pod}, Workload: "deployment/shop/" + pod, Reason: inventory.BlockedNotSurged, Message: "evicted as usual (chart value drain.surge)"}
	}
	var many []inventory.BlockedPod
	for i := range 5 {
		many = append(many, surging(fmt.Sprintf("pod-%d", i), fmt.Sprintf("web-%d", i)))
	}
	cases := map[string]struct {
		reason  string
		blocked []inventory.BlockedPod
		want    []string
		says    string
	}{
		"OneDeployment": {"the Deployment is what is waited for, whichever pod is left", []inventory.BlockedPod{surging("a", "web"), surging("b", "web")},
			[]string{"Wait Surging deployment/shop/web"}, "Pod shop/a waits: castoff restarted its Deployment. So do shop/b"},
		"Two": {"two are two", []inventory.BlockedPod{surging("a", "web"), surging("b", "api")}, []string{"Wait Surging deployment/shop/web", "Wait Surging deployment/shop/api"}, "Pod shop/a waits"},
		"Many": {"three are named, the rest is counted", many,
			[]string{"Wait Surging deployment/shop/web-0", "Wait Surging deployment/shop/web-1", "Wait Surging deployment/shop/web-2", "Wait Surging node/n"}, "Pod shop/pod-0 waits"},
		"Refused": {"a right that is missing is said once", []inventory.BlockedPod{refused("a"), refused("b"), refused("c")}, []string{"Warn SurgeRefused clusterrole/castoff"},
			"Pod shop/a is evicted as usual (chart value drain.surge). So do shop/b, shop/c"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := DrainBlockers("general", inventory.DrainState{Node: "n", Blocked: tc.blocked})
			if diff := cmp.Diff(tc.want, shown(got)); diff != "" || got[0].Message != tc.says && name != "Two" && name != "Many" {
				t.Errorf("%s: -want +got:\n%s%q", tc.reason, diff, got[0].Message)
			}
		})
	}
	t.Run("OfTwoNodes", func(t *testing.T) {
		one := DrainBlockers("general", inventory.DrainState{Node: "n", Blocked: []inventory.BlockedPod{refused("a")}})
		other := DrainBlockers("general", inventory.DrainState{Node: "m", Blocked: []inventory.BlockedPod{refused("b")}})
		if got := since(append(one, other...), nil, noon); len(got) != 1 {
			t.Errorf("want it said once for all nodes, got %v", shown(got))
		}
	})
}
