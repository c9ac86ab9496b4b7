package controllers

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// awsPatience is for how long a process has to be free before Auto Scaling acts by it. AWS takes minutes; the double is as quick as
// reads that lag, and castoff's looks, leave time for.
const awsPatience = 25 * time.Second

// mischief is what Auto Scaling would do to a group by itself, if the process for it is not suspended.
type mischief struct {
	process string
	// act is made once the process has been free for awsPatience; it says whether it has had its fill.
	act  func(w *world, g *inventory.NodeGroup) bool
	free time.Time
	done bool
}

// awaits its moment on the group.
func (m *mischief) awaits(w *world, g *inventory.NodeGroup) {
	switch {
	case m.done:
	case g.Suspends(m.process):
		m.free = time.Time{}
	case m.free.IsZero():
		m.free = w.now
	case w.now.Sub(m.free) >= awsPatience:
		m.done = m.act(w, g)
	}
}

// replace ends an instance whether or not it is drained, as AZRebalance, an instance refresh and ReplaceUnhealthy do; the group
// launches another.
func replace(w *world, g *inventory.NodeGroup) bool {
	if i := w.victim(g); i >= 0 {
		w.endInstance(g, i, "AWS")
	}
	return true
}

// during is a moment of a migration: in the hand-over when Karpenter begins to serve, in Shifting the first evictions.
func during(phase v1alpha1.Phase) func(*world) bool {
	return func(w *world) bool {
		m := w.migration()
		switch {
		case m == nil || m.Status.Phase != phase:
			return false
		case phase == v1alpha1.PhaseHandingOver:
			return len(w.engine.NodePools) > 0
		}
		return w.calls["Pass"] > 1
	}
}

// meddle does something at the first look at which it is time, and again at every look after it for as long as it says so.
func meddle(w *world, when func(*world) bool, do func() (again bool)) {
	before, over := w.before, false
	w.before = func() {
		if before != nil {
			before()
		}
		if !over && when(w) {
			over = !do()
			w.record()
		}
	}
}

// drop takes processes out of a group's suspended ones.
func drop(g *inventory.NodeGroup, processes ...string) {
	g.SuspendedProcesses = slices.DeleteFunc(slices.Clone(g.SuspendedProcesses), func(p string) bool { return slices.Contains(processes, p) })
}

// interferes is what somebody does to the group general, once, and what is to be said of it.
type interferes struct {
	reason string
	act    func(*world, *inventory.NodeGroup)
	// aws is what Auto Scaling would make of it if it were left.
	aws *mischief
	// tells is the blocker, and a part of its message.
	tells, message string
	// unsaid are phases in which there is nothing to say.
	unsaid []v1alpha1.Phase
}

var interferences = map[string]interferes{
	"PolicyCreated": {
		reason: "a new policy is named and left: its process is suspended", tells: "Warn ForeignScaling nodegroup/general", message: "somebodys",
		act: func(_ *world, g *inventory.NodeGroup) {
			g.ScalingPolicies = append(g.ScalingPolicies, inventory.ScalingPolicy{Name: "somebodys", Type: "TargetTrackingScaling", Enabled: true, Active: true})
		},
		aws: &mischief{process: "AlarmNotification", act: func(_ *world, g *inventory.NodeGroup) bool { g.Desired = max(g.Min, g.Desired-1); return true }},
	},
	"PolicyEnabled": {
		reason: "a recorded one is disabled again", tells: "Warn SetBack nodegroup/general", message: "cpu",
		act: func(_ *world, g *inventory.NodeGroup) { g.ScalingPolicies[0].Active = true },
	},
	"ScheduleCreated": {
		reason: "a scheduled action likewise", tells: "Warn ForeignScaling nodegroup/general", message: "somebodys",
		act: func(_ *world, g *inventory.NodeGroup) {
			g.ScheduledActions = append(g.ScheduledActions, inventory.ScheduledAction{Name: "somebodys", Recurrence: "0 8 * * *"})
		},
		aws: &mischief{process: "ScheduledActions", act: func(_ *world, g *inventory.NodeGroup) bool { g.Desired = g.Max; return true }},
	},
	"InstanceRefresh": {
		reason: "a refresh that is started replaces nothing while its process is suspended", tells: "Warn InstanceRefreshHeld nodegroup/general", message: "Pending (r-1)",
		act: func(_ *world, g *inventory.NodeGroup) { g.InstanceRefreshHeld = "Pending (r-1)" }, aws: &mischief{process: "InstanceRefresh", act: replace},
	},
	"RefreshAndResumed": {
		reason: "and not where somebody resumes it besides", tells: "Warn SetBack nodegroup/general", message: "InstanceRefresh",
		act: func(_ *world, g *inventory.NodeGroup) {
			g.InstanceRefreshHeld = "Pending (r-1)"
			drop(g, "InstanceRefresh")
		},
		aws: &mischief{process: "InstanceRefresh", act: replace},
	},
	"AZRebalance": {
		reason: "AZRebalance is resumed, and would end an instance to even out the zones", tells: "Warn SetBack nodegroup/general", message: "AZRebalance",
		act: func(_ *world, g *inventory.NodeGroup) { drop(g, "AZRebalance") }, aws: &mischief{process: "AZRebalance", act: replace},
	},
	"Unhealthy": {
		reason: "EC2 finds an instance unhealthy; nobody replaces it, and it is drained like the rest",
		act: func(w *world, g *inventory.NodeGroup) {
			if i := w.victim(g); i >= 0 {
				g.Instances[i].Healthy = false
			}
		},
		aws: &mischief{process: "ReplaceUnhealthy", act: replace},
	},
	"UnhealthyAndResumed": {
		reason: "nor where somebody resumes the process besides", tells: "Warn SetBack nodegroup/general", message: "ReplaceUnhealthy",
		act: func(_ *world, g *inventory.NodeGroup) { drop(g, "ReplaceUnhealthy") }, aws: &mischief{process: "ReplaceUnhealthy", act: replace},
	},
	"AllResumed": {
		reason: "everything at once, as the console does", tells: "Warn SetBack nodegroup/general", message: "ScheduledActions",
		act: func(_ *world, g *inventory.NodeGroup) { g.SuspendedProcesses = nil }, aws: &mischief{process: "AZRebalance", act: replace},
	},
	"CapacityRebalance": {
		reason: "Capacity Rebalancing is switched on, which would replace instances at risk", tells: "Warn SetBack nodegroup/general", message: "Capacity Rebalancing",
		act: func(_ *world, g *inventory.NodeGroup) { g.CapacityRebalance = true },
	},
	"MaxRaised": {
		reason: "a max that somebody raises is theirs", tells: "Warn ForeignSize nodegroup/general", message: "its max is 20",
		act: func(_ *world, g *inventory.NodeGroup) { g.Max = 20 }, unsaid: []v1alpha1.Phase{v1alpha1.PhaseHandingOver, v1alpha1.PhaseShifting}, // it is said when it comes to its end
	},
}

// TestInterference: mid-way and after the end somebody does something to a group once. No undrained node ends, it is named with who
// and what, and the migration comes to its end.
func TestInterference(t *testing.T) {
	for _, phase := range []v1alpha1.Phase{v1alpha1.PhaseHandingOver, v1alpha1.PhaseShifting, v1alpha1.PhaseCompleted} {
		for name, tc := range interferences {
			t.Run(string(phase)+"/"+name, func(t *testing.T) {
				w := newWorld(t)
				w.lag = 2 * time.Second
				told, g := said(w), w.groups["general"]
				var acted bool
				if tc.aws != nil {
					m := *tc.aws
					w.unrest = func() {
						if acted {
							m.awaits(w, g)
						}
					}
				}
				meddle(w, during(phase), func() bool { tc.act(w, g); acted = true; return false })
				apply(t, w)
				if err := w.drive(func(w *world) bool { return acted && isCompleted(w) && quietAgain(w) }, mostLooks); err != nil {
					t.Fatal(err)
				}
				if w.stays(2 * time.Minute); len(w.broken) > 0 || !isCompleted(w) {
					t.Errorf("%s: %v; completed %t", tc.reason, w.broken, isCompleted(w))
				}
				if message := told[tc.tells]; tc.tells != "" && !slices.Contains(tc.unsaid, phase) && !strings.Contains(message, tc.message) {
					t.Errorf("%s: %s says %q, want %q in it; said: %v", tc.reason, tc.tells, message, tc.message, slices.Sorted(maps.Keys(told)))
				}
			})
		}
	}
}

// quietAgain says that nothing is left to be undone.
func quietAgain(w *world) bool {
	g := w.groups["general"]
	return g.Suspends("AZRebalance", "ReplaceUnhealthy", "ScheduledActions", "AlarmNotification", "InstanceRefresh") && !g.CapacityRebalance && w.now.Sub(w.history[len(w.history)-1].at) == 0
}

// stays lets castoff look for so long.
func (w *world) stays(d time.Duration) {
	until := w.now.Add(d)
	_ = w.drive(func(w *world) bool { return w.now.After(until) }, mostLooks) // until the time is over, which is no failure
}

// again is somebody, or a bot, who does something at every look until it is turned off.
type again struct {
	reason string
	bot    func(*world)
	right  func(*world) // somebody sets it right when the bot is off
	tells  string
	// call is what castoff undoes it by, and most is how often it is called in all.
	call string
	most int
}

var bots = map[string]again{
	"Process": {
		reason: "a process that is resumed at once, again and again", tells: "Block SetBack nodegroup/general", call: "SuspendProcesses", most: 3 + 2 + 3, // first of two groups and Launch of both
		bot: func(w *world) { drop(w.groups["general"], "AZRebalance") },
		right: func(w *world) {
			w.groups["general"].SuspendedProcesses = append(w.groups["general"].SuspendedProcesses, "AZRebalance")
		},
	},
	"Rebalance": {
		reason: "Capacity Rebalancing", tells: "Block SetBack nodegroup/batch", call: "SetCapacityRebalance", most: 1 + 3,
		bot: func(w *world) { w.groups["batch"].CapacityRebalance = true }, right: func(w *world) { w.groups["batch"].CapacityRebalance = false },
	},
	"Sizes": {
		reason: "the recorded sizes, as a tool that keeps them would", tells: "Block SetBack nodegroup/general", call: "SetSize", most: 1 + 3 + 2,
		bot: func(w *world) { w.groups["general"].Min = 1 }, right: func(w *world) { w.groups["general"].Min = 0 },
	},
	"Uncordon": {
		reason: "a bot that uncordons", tells: "Block NodeUncordoned node/i-batch-1", call: "Fence", most: 5 + 3,
		bot:   func(w *world) { w.edit("i-batch-1", func(n *corev1.Node) { n.Spec.Unschedulable = false }) },
		right: func(w *world) { w.edit("i-batch-1", func(n *corev1.Node) { n.Spec.Unschedulable = true }) },
	},
}

// TestBotsAreNotFought: castoff undoes it three times, then blocks and evicts nothing; it goes on by itself when it is right.
func TestBotsAreNotFought(t *testing.T) {
	for name, tc := range bots {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.lag = 2 * time.Second
			told, on := said(w), true
			meddle(w, during(v1alpha1.PhaseShifting), func() bool {
				if on {
					tc.bot(w)
				}
				return on
			})
			apply(t, w)
			if err := w.drive(func(*world) bool { return told[tc.tells] != "" }, mostLooks); err != nil {
				t.Fatalf("%v; said %v", err, told)
			}
			evictions, calls := w.calls["Pass"], w.calls[tc.call]
			w.stays(20 * time.Minute)
			if w.calls["Pass"] != evictions || w.calls[tc.call] != calls || calls > tc.most {
				t.Errorf("%s: %d evictions beside it; %d calls of %s, and %d more: want %d at most", tc.reason, w.calls["Pass"]-evictions, calls, tc.call, w.calls[tc.call]-calls, tc.most)
			}
			if !hasCount(w.migration(), name) {
				t.Errorf("%s: the count is not in the status: %+v", tc.reason, w.migration().Status.Operations)
			}
			on = false
			tc.right(w)
			w.record()
			if err := w.drive(isCompleted, mostLooks); err != nil {
				t.Fatal(err)
			}
			if len(w.broken) > 0 {
				t.Errorf("%s: %v", tc.reason, w.broken)
			}
		})
	}
}

// TestKnownBadForgetsTheCount: a controller whose ledger forgets how often it did something fights with a bot for ever, which is what
// TestBotsAreNotFought would see.
func TestKnownBadForgetsTheCount(t *testing.T) {
	for _, name := range []string{"Process", "Rebalance", "Sizes"} {
		t.Run(name, func(t *testing.T) {
			w, tc := newWorld(t), bots[name]
			w.lag = 2 * time.Second
			told := said(w)
			meddle(w, during(v1alpha1.PhaseShifting), func() bool { tc.bot(w); return true })
			meddle(w, func(w *world) bool { return w.migration() != nil }, func() bool {
				m := w.migration().DeepCopy()
				for i := range m.Status.Operations {
					m.Status.Operations[i].Attempts = min(m.Status.Operations[i].Attempts, 1)
				}
				w.c.put(m)
				return true
			})
			apply(t, w)
			if w.stays(20 * time.Minute); w.calls[tc.call] <= tc.most || told[tc.tells] != "" {
				t.Errorf("it is not noticed: %d calls of %s, said %q", w.calls[tc.call], tc.call, told[tc.tells])
			}
		})
	}
}

// TestInterferenceAndACrash: the process ends before and after each of the first writes that follow on an interference.
func TestInterferenceAndACrash(t *testing.T) {
	const writes = 8
	for _, name := range []string{"AllResumed", "RefreshAndResumed", "CapacityRebalance", "PolicyEnabled"} {
		for n := range writes * 2 {
			t.Run(name+"/"+strconv.Itoa(n), func(t *testing.T) {
				w, tc := newWorld(t), interferences[name]
				w.lag = 2 * time.Second
				g, acted, left := w.groups["general"], false, n
				if tc.aws != nil {
					m := *tc.aws
					w.unrest = func() {
						if acted {
							m.awaits(w, g)
						}
					}
				}
				meddle(w, during(v1alpha1.PhaseShifting), func() bool { tc.act(w, g); acted = true; return false })
				w.hook = func(string, bool) error {
					if acted {
						if left--; left == -1 {
							panic(crash{})
						}
					}
					return nil
				}
				m := migrate(t, w)
				if wrong := rightEnd(w, m); len(wrong) > 0 {
					t.Errorf("%s, and a crash: %s", tc.reason, strings.Join(wrong, "\n"))
				}
				for _, b := range m.Status.Blockers {
					if b.Severity == v1alpha1.SeverityBlock {
						t.Errorf("a crash passes for a fight: %+v", b)
					}
				}
			})
		}
	}
}

// hasCount: in the ledger, or for a node, which counts for itself, in the blocker.
func hasCount(m *v1alpha1.Migration, name string) bool {
	if name == "Uncordon" {
		return slices.ContainsFunc(m.Status.Blockers, func(b v1alpha1.Blocker) bool { return strings.Contains(b.Message, strconv.Itoa(4)+" times") })
	}
	return slices.ContainsFunc(m.Status.Operations, func(o v1alpha1.Operation) bool { return o.Attempts == 4 })
}

// TestABotThatIsTurnedOffNeedsNobody: an hour after the last time castoff sets it right itself.
func TestABotThatIsTurnedOffNeedsNobody(t *testing.T) {
	w := newWorld(t)
	w.lag = 2 * time.Second
	told, on, tc := said(w), true, bots["Process"]
	meddle(w, during(v1alpha1.PhaseShifting), func() bool {
		if on {
			tc.bot(w)
		}
		return on
	})
	apply(t, w)
	if err := w.drive(func(*world) bool { return told[tc.tells] != "" }, mostLooks); err != nil {
		t.Fatal(err)
	}
	on = false
	w.stays(70 * time.Minute)
	if err := w.drive(isCompleted, mostLooks); err != nil || len(w.broken) > 0 {
		t.Errorf("%v; %v", err, w.broken)
	}
}

// TestDesiredRaisedByHand: the nodes that come are fenced before anything is evicted beside them, and drained like the rest; on a
// pool that may not launch any more none comes.
func TestDesiredRaisedByHand(t *testing.T) {
	cases := map[string]struct {
		reason, group string
		tells         []string
		nodes         bool
	}{
		"Waiting":  {"the pool waits for its turn, and launches", "general", []string{"Wait NodesJoining nodegroup/general", "Warn NodesJoinedLate nodegroup/general"}, true},
		"Shifting": {"the pool shifts, and launches no more", "batch", []string{"Warn ForeignSize nodegroup/batch"}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			told, g := said(w), w.groups[tc.group]
			var raised time.Time
			meddle(w, during(v1alpha1.PhaseShifting), func() bool { g.Desired += 2; raised = w.now; return false })
			came := map[string]bool{}
			w.hook = func(call string, after bool) error {
				if after || raised.IsZero() {
					return nil
				}
				for _, n := range w.nodes() {
					if n.Labels["group"] == tc.group && n.CreationTimestamp.After(raised) {
						came[n.Name] = true
						if call == "Pass" && !n.Spec.Unschedulable && nodeReady(n) {
							t.Errorf("%s: a pod is evicted while %s is open", tc.reason, n.Name)
						}
					}
				}
				return nil
			}
			m := migrate(t, w)
			if wrong := rightEnd(w, m); len(wrong) > 0 {
				t.Errorf("%s:\n%s", tc.reason, strings.Join(wrong, "\n"))
			}
			for _, tells := range tc.tells {
				if told[tells] == "" {
					t.Errorf("%s: it is not said: %s; %v", tc.reason, tells, slices.Sorted(maps.Keys(told)))
				}
			}
			if (len(came) > 0) != tc.nodes {
				t.Errorf("%s: %d nodes came", tc.reason, len(came))
			}
		})
	}
}

// TestAnInstanceEndsInEC2: its node goes with it. Where the group may not replace it the migration goes on with the others.
func TestAnInstanceEndsInEC2(t *testing.T) {
	for _, group := range []string{"general", "batch"} {
		t.Run(group, func(t *testing.T) {
			w := newWorld(t)
			g := w.groups[group]
			meddle(w, during(v1alpha1.PhaseShifting), func() bool {
				i := slices.IndexFunc(g.Instances, inventory.Instance.InService)
				id := g.Instances[i].ID
				w.homeless[group] += w.pods[id]
				w.pods[id], g.Instances[i].Healthy = 0, false
				w.removeNode(id)
				return false
			})
			m := migrate(t, w)
			if wrong := rightEnd(w, m); len(wrong) > 0 {
				t.Error(strings.Join(wrong, "\n"))
			}
		})
	}
}

// TestRefreshOnTheWayBack: it is held until the user lets it go on, for it would replace the nodes that the pods came back to.
func TestRefreshOnTheWayBack(t *testing.T) {
	accept := func(m *v1alpha1.Migration) {
		m.Spec.AcceptedRisks = []v1alpha1.AcceptedRisk{{Check: "InstanceRefreshHeld", Object: "nodegroup/general", Reason: "we want it"}}
	}
	cases := map[string]func(*world){
		"Cancelled": func(w *world) { w.groups["general"].InstanceRefreshHeld = "" },
		"Accepted":  func(w *world) { w.user(accept) },
	}
	for name, over := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			told, g := said(w), w.groups["general"]
			meddle(w, during(v1alpha1.PhaseShifting), func() bool { g.InstanceRefreshHeld = "Pending (r-1)"; w.user(rollBack); return false })
			apply(t, w)
			const object = "Block InstanceRefreshHeld nodegroup/general"
			if err := w.drive(func(*world) bool { return told[object] != "" }, mostLooks); err != nil {
				t.Fatal(err)
			}
			w.stays(time.Minute)
			if !g.Suspends("InstanceRefresh") || g.Suspends("AZRebalance") || !w.scaler.leads {
				t.Errorf("want all but the refresh given back, and Cluster Autoscaler in charge: %v, leads %t", g.SuspendedProcesses, w.scaler.leads)
			}
			over(w)
			w.record()
			if err := w.drive(isRolledBack, mostLooks); err != nil {
				t.Fatal(err)
			}
			if len(w.broken) > 0 || g.Suspends("InstanceRefresh") {
				t.Errorf("suspended %v; %v", g.SuspendedProcesses, w.broken)
			}
		})
	}
}

// TestAfterTheWayBackTheGroupsAreTheUsers: what they do then is theirs, and castoff writes nothing.
func TestAfterTheWayBackTheGroupsAreTheUsers(t *testing.T) {
	for name, tc := range interferences {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			apply(t, w)
			w.must(w.drive(during(v1alpha1.PhaseShifting), mostLooks))
			w.user(rollBack)
			w.must(w.drive(isRolledBack, mostLooks))
			tc.act(w, w.groups["general"])
			w.record()
			before := w.effects()
			w.stays(20 * time.Minute)
			if w.effects() != before || !isRolledBack(w) {
				t.Errorf("%s: castoff made %d changes; %v", tc.reason, w.effects()-before, w.migration().Status.Blockers)
			}
		})
	}
}
