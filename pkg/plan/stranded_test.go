package plan

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// strand makes pods wait for a node beside those that waited before, each with a volume of its name on that node's disk.
func (s *scene) strand(host string, names ...string) *scene {
	return s.with(func(w *World) {
		w.PendingPods += len(names)
		for _, name := range names {
			w.Stranded = append(w.Stranded, inventory.StrandedPod{
				Pod: types.NamespacedName{Namespace: "shop", Name: name}, Claim: types.NamespacedName{Namespace: "shop", Name: "data-" + name},
				Volume: "pv-" + name, Hosts: []string{host},
			})
		}
	})
}

func TestStrandedPodsHoldNothing(t *testing.T) {
	accepting := func(volume string) migrationOf {
		return aMigration().accepts("LocalVolume", "persistentvolume/"+volume)
	}
	goesOn := func(blockers ...string) decided {
		return shifts([]string{"EvictPods general-0 general", "BeginDrain general-1"}, append([]string{"Wait Draining node/general-0"}, blockers...)...)
	}
	waits := shifts([]string{"EvictPods general-0 general"}, "Wait Draining node/general-0", "Wait PodsPending pool/general")
	drained := func() *scene { return aWorld().shifting().draining("general-0", 1) }
	run(t, map[string]step{
		"Accepted": {
			reason: "it waits for its user, who is told what to do, and the next drain begins", migration: accepting("pv-db-0"),
			world: drained().strand("general-0", "db-0"), want: goesOn("Warn PodStranded pod/shop/db-0"), says: "kubectl -n shop delete pvc/data-db-0 pod/db-0",
		},
		"NodeGone": {
			reason: "the node may have ended meanwhile", migration: accepting("pv-db-0"),
			world: drained().strand("long-gone", "db-0"), want: goesOn("Warn PodStranded pod/shop/db-0"),
		},
		"AnotherVolume": {
			reason: "of this one nobody said that it may be lost", migration: accepting("pv-other"),
			world: drained().strand("general-0", "db-0"), want: waits,
		},
		"NodeInService": {
			reason: "its node takes pods: it waits for something else", migration: accepting("pv-db-0"),
			world: drained().strand("stays", "db-0").with(func(w *World) { w.Nodes = append(w.Nodes, inventory.Node{Name: "stays", Ready: true}) }), want: waits,
		},
		"HostName": {
			reason: "volumes have host names, which need not be the nodes'", migration: accepting("pv-db-0"),
			world: drained().strand("ip-1", "db-0").with(func(w *World) {
				w.Nodes = append(w.Nodes, inventory.Node{Name: "stays", Ready: true, Labels: map[string]string{"kubernetes.io/hostname": "ip-1"}})
			}), want: waits,
		},
		"Others": {
			reason: "pods that wait for room hold the next drain, whatever else is stranded", migration: accepting("pv-db-0"),
			world: drained().strand("general-0", "db-0").with(func(w *World) { w.PendingPods++ }),
			want:  shifts([]string{"EvictPods general-0 general"}, "Wait Draining node/general-0", "Wait PodsPending pool/general", "Warn PodStranded pod/shop/db-0"), says: "1 pod more",
		},
		"Many": {
			reason: "three are named, and the rest counted", migration: accepting("pv-a").accepts("LocalVolume", "persistentvolume/pv-b").accepts("LocalVolume", "persistentvolume/pv-c").accepts("LocalVolume", "persistentvolume/pv-d").accepts("LocalVolume", "persistentvolume/pv-e"),
			world: drained().strand("general-0", "a", "b", "c", "d", "e"),
			want:  goesOn("Warn PodStranded pod/shop/a", "Warn PodStranded pod/shop/b", "Warn PodStranded pod/shop/c", "Warn PodStranded pods"), says: "2 more pods wait",
		},
	})
}

// TestStrandedNeedsNoSnapshot: before there is a baseline nobody is homeless.
func TestStrandedNeedsNoSnapshot(t *testing.T) {
	w := aWorld().strand("general-0", "db-0").build()
	w.Snapshot = nil
	if l := newLook(aMigration().accepts("LocalVolume", "persistentvolume/pv-db-0").m, w, noon); l.homeless() != 0 {
		t.Errorf("%d homeless without a snapshot", l.homeless())
	}
}
