package controllers

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// meddler interferes from the first eviction on, every five seconds, and ends after some rounds.
type meddler struct {
	act, undo func(*world)

	began, last time.Time
	rounds      int
	over        bool
	passes      int  // when it began
	late        int  // passes since, while it lasted
	named       bool // SingleScaler was False at a look of those
}

const meddles = 6

func (d *meddler) watch(w *world) {
	before := w.before
	w.before = func() {
		if before != nil {
			before()
		}
		if !d.began.IsZero() && !d.over {
			c := singleScaler(w.migration())
			d.named = d.named || c.Status == metav1.ConditionFalse
			d.late = w.calls["Pass"] - d.passes
		}
		switch {
		case d.over || w.calls["Pass"] == 0 || !d.last.IsZero() && w.now.Sub(d.last) < 5*time.Second:
		case d.rounds == meddles:
			d.over = true
			d.undo(w)
		default:
			if d.began.IsZero() {
				d.began, d.passes = w.now, w.calls["Pass"]
			}
			d.rounds, d.last = d.rounds+1, w.now
			d.act(w)
		}
	}
}

func TestNobodyWhoInterferesIsFought(t *testing.T) {
	theirs := karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}}
	drop := func(w *world, name string) {
		w.engine.NodePools = slices.DeleteFunc(slices.Clone(w.engine.NodePools), func(np karpv1.NodePool) bool { return np.Name == name })
	}
	cases := map[string]struct {
		reason    string
		act, undo func(*world)
		said      string // severity, reason and object of a blocker
		call      string // what castoff does about it
		most      int    // and how often at most, in thirty seconds
		harmless  bool
		mended    bool // between two rounds all is well
	}{
		"Karpenter": {
			reason: "a second one is waited out",
			act: func(w *world) {
				w.engine.Others = []inventory.Karpenter{{Namespace: "karpenter", Name: "karpenter", Replicas: 1, ChangedBy: "helm"}}
			},
			undo: func(w *world) { w.engine.Others = nil },
			said: "Block ForeignKarpenter deployment/karpenter/karpenter",
		},
		"Lease": {
			reason: "taken back twice, and then waited out",
			act: func(w *world) {
				w.ca.LeaseHolder, w.ca.LeaseRenewed, w.ca.LeaseDuration = "somebody", w.now, time.Hour
			},
			undo: func(w *world) { w.ca.LeaseHolder = "" },
			said: "Block LeaseTaken lease/kube-system/cluster-autoscaler",
			call: "HoldLease", most: 4, // once at the hand-over, and once when it is over
		},
		"NodePool": {
			reason: "made again twice, and then once a minute",
			act:    func(w *world) { drop(w, "general") },
			undo:   func(*world) {},
			said:   "Block NodePoolDeleted nodepool/general",
			call:   "EnsureNodePool", most: 4, mended: true, // of two pools, at the hand-over
		},
		"ANodePoolThatTakesNothing": {
			reason: "is nobody's business",
			act:    func(w *world) { drop(w, "theirs"); w.engine.NodePools = append(w.engine.NodePools, theirs) },
			undo:   func(w *world) { drop(w, "theirs") },
			call:   "EnsureNodePool", most: 4, harmless: true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			d := &meddler{act: tc.act, undo: tc.undo}
			d.watch(w)
			told := said(w)
			apply(t, w)
			if err := w.drive(func(*world) bool { return d.over }, mostLooks); err != nil {
				t.Fatal(err)
			}
			if tc.call != "" && w.calls[tc.call] > tc.most {
				t.Errorf("%s: %d calls of %s in %d rounds, want %d at most", tc.reason, w.calls[tc.call], tc.call, d.rounds, tc.most)
			}
			if d.named == tc.harmless || (d.late > 0) != tc.harmless && !tc.mended {
				t.Errorf("%s: SingleScaler named it %t; %d passes over nodes beside it", tc.reason, d.named, d.late)
			}
			if tc.said != "" && told[tc.said] == "" {
				t.Errorf("%s: %q is not said, but %v", tc.reason, tc.said, told)
			}
			if err := w.drive(isCompleted, mostLooks); err != nil { // by itself
				t.Fatal(err)
			}
			wrong := slices.DeleteFunc(rightEnd(w, get(t, w)), func(s string) bool { return strings.Contains(s, "has no scaler for") && tc.mended })
			if len(wrong) > 0 {
				t.Errorf("%s:\n%s", tc.reason, strings.Join(wrong, "\n"))
			}
		})
	}
}

// TestATheftIsMendedAcrossCrashes: a process that ends right after it took a Lease back, or made a NodePool again, is followed by one that
// counts on.
func TestATheftIsMendedAcrossCrashes(t *testing.T) {
	cases := map[string]struct {
		act  func(*world)
		undo func(*world)
		call string
		most int
	}{
		"Lease": {
			func(w *world) {
				w.ca.LeaseHolder, w.ca.LeaseRenewed, w.ca.LeaseDuration = "somebody", w.now, time.Hour
			},
			func(w *world) { w.ca.LeaseHolder = "" }, "HoldLease", 4,
		},
		"NodePool": {
			func(w *world) {
				w.engine.NodePools = slices.DeleteFunc(slices.Clone(w.engine.NodePools), func(np karpv1.NodePool) bool { return np.Name == "general" })
			},
			func(*world) {}, "EnsureNodePool", 4,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			d := &meddler{act: tc.act, undo: tc.undo}
			d.watch(w)
			w.hook = func(call string, after bool) error {
				if call == tc.call && after && !d.began.IsZero() && !d.over {
					panic(crash{})
				}
				return nil
			}
			apply(t, w, func(m *v1alpha1.Migration) { m.Spec.Strategy.Surge = v1alpha1.SurgeNone })
			if err := w.drive(func(*world) bool { return d.over }, mostLooks); err != nil {
				t.Fatal(err)
			}
			if w.calls[tc.call] > tc.most {
				t.Errorf("%d calls of %s in %d rounds, want %d at most", w.calls[tc.call], tc.call, d.rounds, tc.most)
			}
			if err := w.drive(isCompleted, mostLooks); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestKnownBadFightsOverALease: a controller whose ledger forgets how often it took a Lease back, or made a NodePool again, does so every
// time, which is what the tests above would see.
func TestKnownBadFightsOverALease(t *testing.T) {
	cases := map[string]struct {
		act  func(*world)
		undo func(*world)
		call string
		most int // that the tests above allow
	}{
		"Lease": {
			func(w *world) {
				w.ca.LeaseHolder, w.ca.LeaseRenewed, w.ca.LeaseDuration = "somebody", w.now, time.Hour
			},
			func(w *world) { w.ca.LeaseHolder = "" }, "HoldLease", 4,
		},
		"NodePool": {
			func(w *world) {
				w.engine.NodePools = slices.DeleteFunc(slices.Clone(w.engine.NodePools), func(np karpv1.NodePool) bool { return np.Name == "general" })
			},
			func(*world) {}, "EnsureNodePool", 4,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			d := &meddler{act: tc.act, undo: tc.undo}
			d.watch(w)
			before := w.before
			w.before = func() {
				before()
				m := w.migration().DeepCopy()
				for i := range m.Status.Operations {
					m.Status.Operations[i].Attempts = min(m.Status.Operations[i].Attempts, 1)
				}
				w.c.put(m)
			}
			apply(t, w)
			if err := w.drive(func(*world) bool { return d.over }, mostLooks); err != nil {
				t.Fatal(err)
			}
			if w.calls[tc.call] <= tc.most {
				t.Errorf("it is not noticed: %d calls of %s in %d rounds", w.calls[tc.call], tc.call, d.rounds)
			}
		})
	}
}
