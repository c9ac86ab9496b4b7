package watcher

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
)

// shop has three pods of web on node a, b and c of group general, and a budget with a floor of two.
func shop(more ...seen) []seen {
	return append([]seen{
		{0, twoGroups}, {0, instance("a", "general")}, {0, instance("b", "general")}, {0, instance("c", "general")},
		{0, node("a")}, {0, node("b")}, {0, node("c")},
		{0, pod("web", "web-a", "a")}, {0, pod("web", "web-b", "b")}, {0, pod("web", "web-c", "c")}, {0, budget("web", 2)},
	}, more...)
}

func TestPDBViolations(t *testing.T) {
	evict := func(at float64, user, name, node string) []seen {
		return []seen{{at, audit(at, user, "evict", name)}, {at, pod("web", name, node, leaving(at))}}
	}
	cases := map[string]struct {
		reason string
		story  []seen
		want   int
	}{
		"WithinTheFloor": {reason: "Two of three stay.", story: evict(1, castoffUser, "web-a", "a")},
		"BelowTheFloor": {
			reason: "The second of three is one too many.",
			story:  append(evict(1, castoffUser, "web-a", "a"), evict(2, castoffUser, "web-b", "b")...), want: 1,
		},
		"EachMomentCounts": {
			reason: "Every further pod counts.",
			story:  append(append(evict(1, castoffUser, "web-a", "a"), evict(2, castoffUser, "web-b", "b")...), evict(3, castoffUser, "web-c", "c")...), want: 2,
		},
		"ReplacementFirst": {
			reason: "With a replacement Ready in between the floor holds.",
			story:  append(append(evict(1, castoffUser, "web-a", "a"), seen{2, pod("web", "web-d", "c")}), evict(3, castoffUser, "web-b", "b")...),
		},
		"AuditComesLate": {
			reason: "The audit log may tell of an eviction after the watch does.",
			story: append(evict(1, castoffUser, "web-a", "a"),
				seen{2, pod("web", "web-b", "b", leaving(2))}, seen{3, audit(2, castoffUser, "evict", "web-b")}), want: 1,
		},
		"ContainerFails": {
			reason: "A container that fails is nobody's disruption.",
			story:  append(evict(1, castoffUser, "web-a", "a"), seen{2, pod("web", "web-b", "b", unready)}),
		},
		"ContainerFailsAndIsDeletedLater": {
			reason: "What becomes of the pod a minute later has nothing to do with it.",
			story: append(evict(1, castoffUser, "web-a", "a"), seen{2, pod("web", "web-b", "b", unready)},
				seen{59, audit(59, "admin", "delete", "web-b")}, seen{59, Gone{pod("web", "web-b", "b", unready)}}),
		},
		"VanishesUnasked": {
			reason: "A pod that goes at once, and nobody asked for it, is a disruption that nobody owns up to.",
			story:  append(evict(1, castoffUser, "web-a", "a"), seen{2, Gone{pod("web", "web-b", "b")}}), want: 1,
		},
		"Rollout": {
			reason: "A Deployment that rolls is not bound by budgets.",
			story: []seen{{1, audit(1, "system:serviceaccount:kube-system:replicaset-controller", "delete", "web-a")}, {1, pod("web", "web-a", "a", leaving(1))},
				{2, audit(2, "system:serviceaccount:kube-system:replicaset-controller", "delete", "web-b")}, {2, pod("web", "web-b", "b", leaving(2))}},
		},
		"DeletedByHand": {
			reason: "A delete is a disruption, whoever asks.",
			story: []seen{{1, audit(1, "admin", "delete", "web-a")}, {1, pod("web", "web-a", "a", leaving(1))},
				{2, audit(2, "admin", "delete", "web-b")}, {2, pod("web", "web-b", "b", leaving(2))}}, want: 1,
		},
		"KubeletsOwnDelete": {
			reason: "The kubelet's last delete does not hide who began.",
			story: append(evict(1, castoffUser, "web-a", "a"), seen{2, audit(2, castoffUser, "evict", "web-b")}, seen{2, pod("web", "web-b", "b", leaving(2))},
				seen{3, audit(3, "lab:reaper", "delete", "web-b")}, seen{3, Gone{pod("web", "web-b", "b", leaving(2))}}), want: 1,
		},
		"NodeEnds": {
			reason: "Pods on an instance that ends are dead at that moment, though still called Ready.",
			story:  []seen{{1, endedBy("crude", instance("a", "general"))}, {1, endedBy("crude", instance("b", "general"))}}, want: 1,
		},
		"NodeEndsWatchFirst": {
			reason: "The same when the pods' watch tells it before the simulator does.",
			story: []seen{{1, pod("web", "web-a", "a", unready)}, {1.2, pod("web", "web-b", "b", unready)},
				{1.3, endedBy("crude", instance("a", "general"))}, {1.3, endedBy("crude", instance("b", "general"))}}, want: 1,
		},
		"OtherApp": {
			reason: "A budget counts only what it selects.",
			story:  []seen{{1, pod("db", "db-a", "a")}, {2, audit(2, castoffUser, "evict", "db-a")}, {2, Gone{pod("db", "db-a", "a")}}},
		},
		"NotReadyBefore": {
			reason: "Evicting what was not Ready takes nothing away.",
			story: append(evict(1, castoffUser, "web-a", "a"), seen{2, pod("web", "web-d", "b", unready)},
				seen{3, audit(3, castoffUser, "evict", "web-d")}, seen{3, Gone{pod("web", "web-d", "b", unready)}}),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			report := tell(t, 60, shop(tc.story...)...)
			if report.PDBViolations != tc.want {
				t.Errorf("%s\nPDBViolations = %d, want %d: %v", tc.reason, report.PDBViolations, tc.want, report.Details())
			}
		})
	}
}

func TestInstancesEndedUndrained(t *testing.T) {
	end := seen{5, endedBy("castoff autoscaling.TerminateInstanceInAutoScalingGroup", instance("a", "general"))}
	cases := map[string]struct {
		reason string
		story  []seen
		want   int
	}{
		"Drained": {
			reason: "A pod that is gone is no loss.",
			story:  []seen{{1, audit(1, castoffUser, "evict", "web-a")}, {2, audit(2, "lab:reaper", "delete", "web-a")}, {2, Gone{pod("web", "web-a", "a")}}, end},
		},
		"WatchTellsLate": {
			reason: "The audit log's time decides, when the watch tells of the pod's end after the instance's.",
			story:  []seen{{1, audit(1, castoffUser, "evict", "web-a")}, end, {5.1, audit(4.9, "lab:reaper", "delete", "web-a")}, {5.2, Gone{pod("web", "web-a", "a")}}},
		},
		"GraceCutShort": {
			reason: "A pod still in its grace period is on its node.",
			story:  []seen{{4, audit(4, castoffUser, "evict", "web-a")}, {4, pod("web", "web-a", "a", leaving(4))}, end, {6, audit(6, "lab:reaper", "delete", "web-a")}, {6, Gone{pod("web", "web-a", "a")}}},
			want:   1,
		},
		"Undrained": {reason: "A pod on it is lost.", story: []seen{end}, want: 1},
		"TwiceTold": {reason: "An instance ends once.", story: []seen{end, {6, endedBy("x", instance("a", "general"))}}, want: 1},
		"DaemonOnly": {
			reason: "DaemonSet pods, mirrors and finished pods may go with their node.",
			story: []seen{{1, Gone{pod("web", "web-a", "a")}}, {1, daemonPod("agent-a", "a")}, {1, pod("job", "job-1", "a", inPhase(corev1.PodSucceeded))},
				{1, pod("static", "static-1", "a", func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} })}, end},
		},
		"Placeholder": {
			reason: "Nor does a placeholder count.",
			story:  []seen{{1, Gone{pod("web", "web-a", "a")}}, {1, pod("p", "p-1", "a", labelled(v1alpha1.LabelPlaceholder, "general"))}, end},
		},
		"Karpenters": {
			reason: "Karpenter drains its own instances; only node groups are judged.",
			story:  []seen{{1, instance("k", "")}, {1, node("k")}, {1, pod("db", "db-1", "k")}, {2, endedBy("karpenter", instance("k", ""))}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			report := tell(t, 60, shop(tc.story...)...)
			if report.InstancesEndedUndrained != tc.want {
				t.Errorf("%s\nInstancesEndedUndrained = %d, want %d: %v", tc.reason, report.InstancesEndedUndrained, tc.want, report.Details())
			}
		})
	}
}

func TestUndrainedNamesThePod(t *testing.T) {
	details := tell(t, 60, shop(seen{5, endedBy("alice autoscaling.SetDesiredCapacity", instance("b", "general"))})...).Details()
	if len(details) != 1 || !strings.Contains(details[0], "shop/web-b") || !strings.Contains(details[0], "alice") {
		t.Errorf("details = %v, want the pod and who ended the instance", details)
	}
}

// back is the way back of the shop: its pods run on Karpenter's node k, and claim c stands for it.
func back(more ...seen) []seen {
	return append([]seen{
		{0, twoGroups}, {0, instance("k", "")}, {0, node("k")}, {0, instance("a", "general")}, {0, node("a")}, {0, claim("c", "k")},
		{0, pod("web", "web-1", "k")}, {0, pod("web", "web-2", "k")}, {0, pod("web", "web-3", "a")}, {0, budget("web", 2)},
	}, more...)
}

// TestDrainsOfKarpentersNodes judges the way back as the way forward.
func TestDrainsOfKarpentersNodes(t *testing.T) {
	const engine = "system:serviceaccount:kube-system:karpenter"
	gone := func(at float64, names ...string) (story []seen) {
		for _, name := range names {
			story = append(story, seen{at, audit(at, castoffUser, "evict", name)}, seen{at + 0.1, audit(at+0.1, "lab:reaper", "delete", name)}, seen{at + 0.1, Gone{pod("web", name, "k")}})
		}
		return story
	}
	deleted := func(at float64, user string) []seen {
		return []seen{{at, audit(at, user, "delete", "c", of("nodeclaims", ""))}, {at, claim("c", "k", goingSince(at))}}
	}
	type counts struct{ Budgets, Deleted, Undrained int }
	cases := map[string]struct {
		reason string
		story  []seen
		want   counts
	}{
		"Drained": {
			reason: "One by one, each replaced before the next, and the NodeClaim when nothing is left.",
			story: slices.Concat(gone(1, "web-1"), []seen{{2, pod("web", "web-4", "a")}}, gone(3, "web-2"), []seen{{4, daemonPod("agent-k", "k")}},
				deleted(5, castoffUser)),
		},
		"BelowTheFloor": {
			reason: "A budget holds on Karpenter's nodes too.",
			story:  []seen{{1, audit(1, castoffUser, "evict", "web-1")}, {1, pod("web", "web-1", "k", leaving(1))}, {2, audit(2, castoffUser, "evict", "web-2")}, {2, pod("web", "web-2", "k", leaving(2))}},
			want:   counts{Budgets: 1},
		},
		"PodDeleted": {
			reason: "So does the Eviction API.",
			story:  []seen{{1, audit(1, castoffUser, "delete", "web-1")}}, want: counts{Deleted: 1},
		},
		"ClaimDeletedUndrained": {
			reason: "To delete the NodeClaim of a node with pods leaves the drain to Karpenter, which knows nobody's policies.",
			story:  deleted(1, castoffUser), want: counts{Undrained: 1},
		},
		"AuditComesLate": {
			reason: "The audit log may tell it after the watch.",
			story:  []seen{{1, claim("c", "k", goingSince(1))}, {1.5, audit(1, castoffUser, "delete", "c", of("nodeclaims", ""))}}, want: counts{Undrained: 1},
		},
		"ByItsNodePool": {
			reason: "NodeClaims that the garbage collector takes, because somebody deleted their NodePool, were not drained either.",
			story:  deleted(1, "system:serviceaccount:kube-system:generic-garbage-collector"), want: counts{Undrained: 1},
		},
		"ByKarpenter": {
			reason: "Karpenter deletes a NodeClaim first and drains then: that is its own affair.",
			story:  deleted(1, engine),
		},
		"PodsWatchTellsLate": {
			reason: "A pod whose end the watch tells after the NodeClaim's was gone when the audit log says so.",
			story: slices.Concat([]seen{{1, pod("web", "web-4", "a")}, {1, audit(1, castoffUser, "evict", "web-1")}, {1, audit(1, castoffUser, "evict", "web-2")}, {2, audit(2, "lab:reaper", "delete", "web-1")}, {2, audit(2, "lab:reaper", "delete", "web-2")}},
				deleted(3, castoffUser), []seen{{3.1, Gone{pod("web", "web-1", "k")}}, {3.1, Gone{pod("web", "web-2", "k")}}}),
		},
		"Canary": {
			reason: "castoff's own pod is its own.",
			story:  slices.Concat(gone(1, "web-1"), []seen{{2, pod("web", "web-4", "a")}}, gone(3, "web-2"), []seen{{4, pod("canary", "canary", "k", labelled(v1alpha1.LabelCanary, "general"))}}, deleted(5, castoffUser)),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			report := tell(t, 60, back(tc.story...)...)
			got := counts{report.PDBViolations, report.PodsDeletedByCastoff, report.InstancesEndedUndrained}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\n-want +got:\n%s%v", tc.reason, diff, report.Details())
			}
		})
	}
}

// TestBegin breaks everything there is, and begins anew.
func TestBegin(t *testing.T) {
	j := judgeOf(t, back(
		seen{1, audit(1, castoffUser, "delete", "web-1")}, seen{1, pod("web", "web-1", "k", leaving(1))}, seen{1, pod("web", "web-2", "k", leaving(1))},
		seen{2, claim("c", "k", goingSince(2))}, seen{3, endedBy("crude", instance("a", "general"))}, seen{3, daemonSet()}, seen{3, nodePool("general")}, seen{4, Gone{nodePool("general")}},
	)...)
	before := j.Report(second(60))
	if before.PDBViolations == 0 || before.PodsDeletedByCastoff == 0 || before.InstancesEndedUndrained != 2 || before.DaemonPodsMissing == 0 || before.UnservedSeconds != 56 || before.CastoffAPICalls.Kubernetes != 1 {
		t.Fatalf("the story breaks too little to show anything: %+v", before)
	}
	j.Begin(second(60))
	if broken := j.Report(second(70)).Broken(); len(broken) > 0 {
		t.Errorf("what was before the account began is not in it: %v", broken)
	}
	after := j.Report(second(85))
	if after.Seconds != 25 || after.UnservedSeconds != 25 || after.CastoffAPICalls.Kubernetes != 0 || len(after.Details()) != 0 {
		t.Errorf("what lasts is measured anew: %+v, details %v", after, after.Details())
	}
}
