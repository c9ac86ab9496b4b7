package plan

import (
	"testing"
	"time"

	"github.com/awslabs/operatorpkg/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// canary adds the trial of a pool's EC2NodeClass, that began so long ago.
func (s *scene) canary(pool string, age time.Duration, change func(*inventory.Canary)) *scene {
	c := inventory.Canary{Pool: pool, NodePool: true, Pod: true, Node: true, Since: noon.Add(-age)}
	change(&c)
	return s.with(func(w *World) { w.Engine.Canaries = append(w.Engine.Canaries, c) })
}

func running(*inventory.Canary) {}

// triedBy is a world in which batch passed and general is as change says.
func triedBy(change func(*scene)) *scene {
	s := aWorld().engineInstalled()
	delete(s.w.Engine.NodeClasses[0].Annotations, v1alpha1.AnnotationCanaryPassed)
	change(s)
	return s
}

func installs(actions []string, blockers ...string) decided {
	return decided{phase: v1alpha1.PhaseInstalling, actions: actions, blockers: blockers}
}

func TestInstallingAWSAndEngine(t *testing.T) {
	ready := func(change func(*inventory.Engine)) *scene {
		return aWorld().prepared().awsReady().with(func(w *World) { change(&w.Engine) })
	}
	run(t, map[string]step{
		"AWSFirst": {
			reason: "an engine that starts without its identities ends at once, so the queue and the roles come first",
			world:  aWorld().prepared(),
			want:   wantInstalling,
			says:   "Missing: queue, rules.",
		},
		"QueueConflict": {
			reason: "a queue of that name that is somebody else's is left alone, and a human is asked; the roles go on",
			world: aWorld().prepared().with(func(w *World) {
				w.Interruption.Conflict = "queue test belongs to another stack: rename it"
			}),
			want: installs([]string{"EnsureIdentity identity"}, "Block QueueConflict queue/test", "Wait IdentityNotReady role/nodes"),
			says: "rename it",
		},
		"IdentityConflict": {
			reason: "a role that does not fit is not overwritten",
			world:  aWorld().prepared().awsReady().with(func(w *World) { w.Identity.Conflict = "role nodes trusts somebody else" }),
			want: installs([]string{"InstallCRDs engine"}, "Block IdentityConflict role/nodes",
				"Wait CRDsNotReady customresourcedefinition"),
		},
		"CRDs": {
			reason: "the definitions come before the release that serves them",
			world:  ready(func(*inventory.Engine) {}),
			want:   installs([]string{"InstallCRDs engine"}, "Wait CRDsNotReady customresourcedefinition"),
		},
		"CRDForeign": {
			reason: "definitions that another Karpenter owns are not replaced under it",
			world:  ready(func(e *inventory.Engine) { e.CRDForeign = "nodepools.karpenter.sh is of Helm release karp" }),
			want:   installs(nil, "Block CRDForeign customresourcedefinition"),
			says:   "of Helm release karp",
		},
		"Release": {
			reason: "the release follows",
			world:  ready(func(e *inventory.Engine) { e.CRDsCurrent = true }),
			want:   installs([]string{"InstallEngine engine"}, "Wait ReleaseNotCurrent release/karpenter"),
		},
		"ReleaseFailed": {
			reason: "a failed release is tried again, and Helm's words are shown",
			world: ready(func(e *inventory.Engine) {
				e.CRDsCurrent, e.Release, e.ReleaseMessage = true, inventory.ReleaseFailed, "timed out"
			}),
			want: installs([]string{"InstallEngine engine"}, "Wait ReleaseNotCurrent release/karpenter"),
			says: "Failed. timed out",
		},
		"ReleaseForeign": {
			reason: "a release of that name from another chart is somebody's",
			world:  ready(func(e *inventory.Engine) { e.CRDsCurrent, e.Release = true, inventory.ReleaseForeign }),
			want:   installs(nil, "Block ReleaseForeign release/karpenter"),
		},
		"NoPods": {
			reason: "a Deployment that nobody has looked at yet is not Ready",
			world:  ready(func(e *inventory.Engine) { e.CRDsCurrent, e.ReleaseCurrent = true, true }),
			want:   installs(nil, "Wait EngineNotReady deployment/karpenter"),
		},
		"OnePodOfTwo": {
			reason: "both replicas have to be Ready before the first node is asked of it",
			world: ready(func(e *inventory.Engine) {
				e.CRDsCurrent, e.ReleaseCurrent, e.Replicas, e.ReadyReplicas, e.DeploymentMessage = true, true, 2, 1, "image cannot be pulled"
			}),
			want: installs(nil, "Wait EngineNotReady deployment/karpenter"),
			says: "image cannot be pulled",
		},
		"NodeClasses": {
			reason: "then every pool gets its EC2NodeClass, and none a NodePool",
			world:  aWorld().prepared().awsReady().engineRunning(),
			want:   installs([]string{"EnsureNodeClass general", "EnsureNodeClass batch"}),
		},
	})
}

func TestInstallingCanary(t *testing.T) {
	run(t, map[string]step{
		"NodeClassIsNew": {
			reason: "Karpenter has to have looked at the EC2NodeClass before one node of it is asked for",
			world:  triedBy(func(s *scene) { s.w.Engine.NodeClasses[0].Status.Conditions = nil }),
			want:   installs(nil, "Wait NodeClassNotReady ec2nodeclass/general"),
			says:   "Karpenter has not finished",
		},
		"NodeClassIsWrong": {
			reason: "what Karpenter says of a wrong EC2NodeClass is said in the Migration",
			world: triedBy(func(s *scene) {
				nc := &s.w.Engine.NodeClasses[0]
				nc.StatusConditions().SetFalse("SubnetsReady", "SubnetsNotFound", "SubnetSelector did not match")
			}),
			want: installs(nil, "Wait NodeClassNotReady ec2nodeclass/general"),
			says: "SubnetSelector did not match",
		},
		"Start": {
			reason: "a Ready EC2NodeClass is tried with one node",
			world:  triedBy(func(*scene) {}),
			want:   installs([]string{"StartCanary general"}),
		},
		"StartAgain": {
			reason: "a canary whose pod somebody deleted is started once more",
			world: triedBy(func(s *scene) {
				s.canary("general", time.Minute, func(c *inventory.Canary) { c.Pod = false })
			}),
			want: installs([]string{"StartCanary general"}),
		},
		"Running": {
			reason: "a node takes a minute or two to come",
			world:  triedBy(func(s *scene) { s.canary("general", canaryPatience, running) }),
			want:   installs(nil, "Wait CanaryRunning ec2nodeclass/general"),
		},
		"Failed": {
			reason: "after ten minutes a human is asked, with AWS's own words, and Karpenter stops trying",
			world: triedBy(func(s *scene) {
				s.canary("general", canaryPatience+time.Second, func(c *inventory.Canary) { c.Message = "UnauthorizedOperation: ec2:RunInstances" })
			}),
			want: installs([]string{"EndCanary general"}, "Block CanaryFailed ec2nodeclass/general"),
			says: "UnauthorizedOperation",
		},
		"Ran": {
			reason: "the proof is kept on the EC2NodeClass, and the canary goes",
			world: triedBy(func(s *scene) {
				s.canary("general", time.Hour, func(c *inventory.Canary) { c.PodRan = true })
			}),
			want: installs([]string{"MarkCanaryPassed general spec-of-general", "EndCanary general"}),
		},
		"Leaving": {
			reason: "a canary's node is waited for: one more node must not stay behind",
			world: aWorld().engineInstalled().canary("general", time.Minute, func(c *inventory.Canary) {
				c.NodePool, c.Pod = false, false
			}),
			want: installs([]string{"EndCanary general"}, "Wait CanaryLeaving ec2nodeclass/general"),
		},
		"EditedSince": {
			reason: "an EC2NodeClass that was edited after its canary is tried again",
			world:  aWorld().engineInstalled().with(func(w *World) { w.Engine.NodeClassHashes["general"] = "another spec" }),
			want:   installs([]string{"StartCanary general"}),
		},
		"NewTarget": {
			reason: "a new target, for example after an upgrade of castoff, is written",
			world: aWorld().engineInstalled().with(func(w *World) {
				t := aTarget("general")
				t.NodeClass.Annotations[v1alpha1.AnnotationTargetHash] = "new"
				w.Targets["general"] = t
			}),
			want: installs([]string{"EnsureNodeClass general"}),
		},
		"NotTranslated": {
			reason: "a pool that cannot be expressed stops before anything serves it",
			world:  aWorld().engineInstalled().with(func(w *World) { delete(w.Targets, "batch") }),
			want:   installs(nil, "Block NotTranslated pool/batch"),
		},
		"OneBlocksOneActs": {
			reason: "one pool's failed canary does not keep the other's from being tried",
			world: triedBy(func(s *scene) {
				s.canary("general", time.Hour, running)
				delete(s.w.Engine.NodeClasses[1].Annotations, v1alpha1.AnnotationCanaryPassed)
			}),
			want: installs([]string{"EndCanary general", "StartCanary batch"}, "Block CanaryFailed ec2nodeclass/general"),
		},
	})
}

func TestInstallingOnceServed(t *testing.T) {
	run(t, map[string]step{
		"EngineIsDown": {
			reason: "with no engine pod Ready nothing is evicted, and the phase stays the furthest",
			world: aWorld().shifting().draining("general-0", 2).with(func(w *World) {
				w.Engine.ReadyReplicas, w.Engine.DeploymentMessage = 0, "CrashLoopBackOff."
			}),
			want: decided{phase: v1alpha1.PhaseShifting, blockers: []string{"Wait EngineNotReady deployment/karpenter"}},
			says: "CrashLoopBackOff. castoff evicts nothing",
		},
		"EngineIsDownForLong": {
			reason: "Cluster Autoscaler's Lease outlasts an outage of the engine",
			world: aWorld().shifting().with(func(w *World) { w.Engine.ReadyReplicas = 0 }).withAutoscaler(func(a *inventory.Autoscaler) {
				a.LeaseRenewed = noon.Add(-leaseRenewal)
			}),
			want: decided{phase: v1alpha1.PhaseShifting, actions: []string{"HoldLease kube-system/cluster-autoscaler"},
				blockers: []string{"Wait EngineNotReady deployment/karpenter"}},
		},
		"EngineHasOnePod": {
			reason: "one Ready pod of two serves",
			world:  aWorld().shifting().draining("general-0", 2).with(func(w *World) { w.Engine.ReadyReplicas = 1 }),
			want: decided{phase: v1alpha1.PhaseShifting, actions: []string{"EvictPods general-0 general", "BeginDrain general-1"},
				blockers: []string{"Wait Draining node/general-0"}},
		},
		"AccessIsAnothers": {
			reason: "what cannot be mended is named, and what is served goes on",
			world: aWorld().handedOver().with(func(w *World) {
				w.Identity.Ready, w.Identity.Conflict = false, "taken"
				w.Interruption.Ready, w.Interruption.Conflict = false, "taken"
			}),
			want: decided{phase: v1alpha1.PhaseShifting, actions: []string{"SetGroupSize general 0/10/3"},
				blockers: []string{"Warn IdentityConflict role/nodes", "Warn QueueConflict queue/test"}},
		},
		"EngineIsAnOlderOne": {
			reason: "a release that castoff would upgrade is left while it serves pools",
			world: aWorld().handedOver().with(func(w *World) {
				w.Engine.ReleaseCurrent, w.Engine.Release = false, inventory.ReleaseDeployed
			}),
			want: decided{phase: v1alpha1.PhaseShifting, actions: []string{"SetGroupSize general 0/10/3"}},
		},
		"ClassGone": {
			reason: "a class that somebody deleted under a NodePool that serves is made again: it could launch nothing",
			world:  aWorld().handedOver().with(func(w *World) { w.Engine.NodeClasses = w.Engine.NodeClasses[1:] }),
			want: decided{phase: v1alpha1.PhaseShifting, actions: []string{"EnsureNodeClass general", "SetGroupSize general 0/10/3"},
				blockers: []string{"Warn NodeClassGone ec2nodeclass/general"}},
		},
		"NoTarget": {
			reason: "what could not be translated cannot be made again",
			world:  aWorld().handedOver().with(func(w *World) { w.Engine.NodeClasses, w.Targets = nil, nil }),
			want:   decided{phase: v1alpha1.PhaseHandingOver, blockers: []string{"Block NotTranslated pool/general", "Block NotTranslated pool/batch"}},
		},
	})
}

func TestWhyNot(t *testing.T) {
	is := func(kind string, verdict metav1.ConditionStatus, reason, message string) status.Condition {
		return status.Condition{Type: kind, Status: verdict, Reason: reason, Message: message}
	}
	cases := map[string]struct {
		reason     string
		conditions []status.Condition
		want       string
	}{
		"Nothing": {"nobody has spoken", nil, "Karpenter has not finished looking at it."},
		"Unknown": {"nobody has looked at it yet", []status.Condition{is("SubnetsReady", metav1.ConditionUnknown, "AwaitingReconciliation", "object is awaiting reconciliation")},
			"Karpenter has not finished looking at it."},
		"OneIsWrong": {"Ready only names what is wrong; the condition itself says why",
			[]status.Condition{is("SubnetsReady", metav1.ConditionFalse, "SubnetsNotFound", "none matches"), is("AMIsReady", metav1.ConditionTrue, "AMIsReady", ""),
				is("Ready", metav1.ConditionFalse, "UnhealthyDependents", "SubnetsReady=False")},
			"SubnetsReady is False, SubnetsNotFound: none matches"},
		"TwoAreWrong": {"whoever mends one should not find the next one afterwards",
			[]status.Condition{is("SubnetsReady", metav1.ConditionFalse, "SubnetsNotFound", "none matches"), is("AMIsReady", metav1.ConditionFalse, "AMINotFound", "no image")},
			"SubnetsReady is False, SubnetsNotFound: none matches; AMIsReady is False, AMINotFound: no image"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := whyNot(tc.conditions); got != tc.want {
				t.Errorf("%s: whyNot() = %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}

// An instance that runs and does not join ends the canary by time-out, before any node of the user's is touched.
func TestCase_C070_CanaryThatDoesNotJoinIsEndedBeforeAnyCordon(t *testing.T) {
	const joined = "NodeClaim castoff-canary-general-1: instance running, node not registered: Registered: Node not registered with cluster"
	failed := func(ago time.Duration, hash string, change func(*scene)) *scene {
		return triedBy(func(s *scene) {
			s.w.Engine.NodeClasses[0].Annotations[v1alpha1.AnnotationCanaryFailed] = hash + " " + noon.Add(-ago).Format(time.RFC3339) + " " + joined
			change(s)
		})
	}
	nothing := func(*scene) {}
	run(t, map[string]step{
		"TimeOut": {
			reason: "it is ended, and why is said; nothing is cordoned",
			world: triedBy(func(s *scene) {
				s.canary("general", canaryPatience+time.Second, func(c *inventory.Canary) { c.Message = joined })
			}),
			want: installs([]string{"EndCanary general"}, "Block CanaryFailed ec2nodeclass/general"),
			says: "instance running, node not registered",
		},
		"Remembered": {
			reason: "once it is gone it is not begun again at once: every try is an instance",
			world:  failed(time.Minute, "spec-of-general", nothing),
			want:   installs(nil, "Block CanaryFailed ec2nodeclass/general"),
			says:   "instance running, node not registered",
		},
		"LeftOver": {
			reason: "what was not deleted yet is, after a crash in between too",
			world:  failed(time.Minute, "spec-of-general", func(s *scene) { s.canary("general", time.Hour, running) }),
			want:   installs([]string{"EndCanary general"}, "Block CanaryFailed ec2nodeclass/general"),
		},
		"LaterAgain": {
			reason: "the cause may lie where castoff does not look, so it tries by itself",
			world:  failed(canaryRest+time.Second, "spec-of-general", nothing),
			want:   installs([]string{"StartCanary general"}),
		},
		"Edited": {
			reason: "another spec is tried at once",
			world:  failed(time.Minute, "an older spec", nothing),
			want:   installs([]string{"StartCanary general"}),
		},
		"Scribble": {
			reason: "an annotation that is none of castoff's is no failure",
			world: triedBy(func(s *scene) {
				s.w.Engine.NodeClasses[0].Annotations[v1alpha1.AnnotationCanaryFailed] = "spec-of-general yesterday"
			}),
			want: installs([]string{"StartCanary general"}),
		},
	})
}

func TestFailedCanaryIsRememberedWithItsCause(t *testing.T) {
	w := triedBy(func(s *scene) { s.canary("general", canaryPatience+time.Second, running) })
	for _, a := range Next(aMigration().build(), w.w, noon).Actions {
		if end, ok := a.(EndCanary); ok {
			if want := (EndCanary{Pool: "general", Hash: "spec-of-general", Failed: "Karpenter does not say why."}); end != want {
				t.Errorf("%+v, want %+v", end, want)
			}
			return
		}
	}
	t.Error("the canary is not ended")
}
