package preflight

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

func TestGroups(t *testing.T) {
	hook := func(name, transition string, seconds int32) inventory.LifecycleHook {
		return inventory.LifecycleHook{Name: name, Transition: "autoscaling:EC2_INSTANCE_" + transition, HeartbeatSeconds: seconds}
	}
	managed := func(status string, issues ...string) func(*inventory.NodeGroup) {
		return func(g *inventory.NodeGroup) {
			g.Managed = &inventory.ManagedNodeGroup{Status: status, HealthIssues: issues}
		}
	}
	const object = "nodegroup/general-a"
	cases := map[string]struct {
		reason string
		change func(*inventory.NodeGroup)
		want   []inventory.Finding
	}{
		"Deleting":  {"EKS drains all of its nodes at once", managed("DELETING"), []inventory.Finding{blocks(CheckGroupBusy, object, "general", "EKS is deleting the node group. Wait for the end of that, or leave the group out of spec.pools.")}},
		"Creating":  {"what is not there yet cannot move", managed("CREATING"), []inventory.Finding{blocks(CheckGroupBusy, object, "general", "EKS is creating the node group. Wait for the end of that, or leave the group out of spec.pools.")}},
		"OwnUpdate": {"castoff's own change of sizes is an update, too", func(g *inventory.NodeGroup) { managed("UPDATING")(g); g.SuspendedProcesses = []string{"AZRebalance"} }, nil},
		"Degraded":  {"EKS says what is wrong", managed("DEGRADED", "AsgInstanceLaunchFailures", "Ec2LaunchTemplateNotFound"), []inventory.Finding{warns(CheckGroupUnhealthy, object, "general", "EKS reports AsgInstanceLaunchFailures, Ec2LaunchTemplateNotFound (status DEGRADED). The way back needs a group that can launch nodes: mend it first. aws eks describe-nodegroup says more.")}},
		"NoLaunch":  {"a group that cannot launch is no way back", func(g *inventory.NodeGroup) { g.LaunchError = "InsufficientInstanceCapacity" }, []inventory.Finding{warns(CheckGroupUnhealthy, object, "general", "Its last launch failed (InsufficientInstanceCapacity). The way back needs a group that can launch nodes: mend it first.")}},
		"Terminate": {"nothing would ever end", func(g *inventory.NodeGroup) { g.SuspendedProcesses = []string{"Launch", "Terminate"} }, []inventory.Finding{blocks(CheckTerminateSuspended, object, "general", "Its process Terminate is suspended, so castoff could end no drained instance. Resume it: aws autoscaling resume-processes --auto-scaling-group-name general-asg --scaling-processes Terminate.")}},
		"Launch":    {"castoff suspends that itself", func(g *inventory.NodeGroup) { g.SuspendedProcesses = []string{"Launch", "AZRebalance"} }, nil},
		"Retained":  {"instances would run on outside the group", func(g *inventory.NodeGroup) { g.RetainsInstances = true }, []inventory.Finding{warns(CheckInstancesRetained, object, "general", "Its instance lifecycle policy retains instances whose termination hook is abandoned: they leave the group and run on, and castoff does not look for them. Complete the hook with CONTINUE, or take the policy off.")}},
		"Hook": {"each ended instance waits for it", func(g *inventory.NodeGroup) {
			g.LifecycleHooks = []inventory.LifecycleHook{hook("nth", "TERMINATING", 300), hook("join", "LAUNCHING", 60)}
		}, []inventory.Finding{warns(CheckLifecycleHook, object, "general", "An ended instance waits in Terminating:Wait for nth (300 s) or until somebody completes it. Keep whatever completes it running to the end (node-termination-handler, a Lambda function); Karpenter's nodes know no such hook.")}},
		"LaunchHook": {"what holds new instances is no matter of ending", func(g *inventory.NodeGroup) {
			g.LifecycleHooks = []inventory.LifecycleHook{hook("join", "LAUNCHING", 60)}
		}, nil},
		"EKSHook": {"EKS completes its own", func(g *inventory.NodeGroup) {
			managed("ACTIVE")(g)
			g.LifecycleHooks = []inventory.LifecycleHook{hook("Terminate-LC-Hook", "TERMINATING", 1800)}
		}, nil},
		"NamedAlike": {"only EKS's are EKS's", func(g *inventory.NodeGroup) {
			g.LifecycleHooks = []inventory.LifecycleHook{hook("Terminate-LC-Hook", "TERMINATING", 1800)}
		}, []inventory.Finding{warns(CheckLifecycleHook, object, "general", "An ended instance waits in Terminating:Wait for Terminate-LC-Hook (1800 s) or until somebody completes it. Keep whatever completes it running to the end (node-termination-handler, a Lambda function); Karpenter's nodes know no such hook.")}},
		"WarmPool": {"it costs, and fills up as the group shrinks", func(g *inventory.NodeGroup) { g.WarmPool = true }, []inventory.Finding{warns(CheckWarmPool, object, "general", "It has a warm pool, whose stopped instances are paid for. castoff suspends Launch before it drains, so that Auto Scaling does not fill the pool up while the group shrinks, and leaves the pool for the way back. At the end remove it: aws autoscaling delete-warm-pool --auto-scaling-group-name general-asg.")}},
		"Protected": {"three are named", func(g *inventory.NodeGroup) {
			for _, id := range []string{"i-1", "i-2", "i-3", "i-4"} {
				g.Instances = append(g.Instances, inventory.Instance{ID: id, Protected: true})
			}
		}, []inventory.Finding{warns(CheckScaleInProtection, object, "general", "Instances are protected from scale-in: i-1, i-2, i-3 and 1 more. That does not hold castoff back: it drains them and ends them by their ID. To keep one, leave the group out of spec.pools; to keep a pod running, annotate it karpenter.sh/do-not-disrupt.")}},
		"ToCome":    {"protection of instances to come protects none that is there", func(g *inventory.NodeGroup) { g.NewInstancesProtected = true }, nil},
		"Deletion":  {"it fails days later", func(g *inventory.NodeGroup) { g.DeletionProtection = "prevent-all-deletion" }, []inventory.Finding{warns(CheckDeletionProtection, object, "general", "Auto Scaling protects the group from deletion. castoff empties it and cannot delete it; spec.decommission.mode Delete would fail. Take the protection off if it is to go.")}},
		"ForceOnly": {"castoff deletes empty groups, without force", func(g *inventory.NodeGroup) { g.DeletionProtection = "prevent-force-deletion" }, nil},
		"Terraform": {"the next apply sets it back", func(g *inventory.NodeGroup) { g.Tags = []inventory.Tag{{Key: "ManagedBy", Value: "terraform"}} }, []inventory.Finding{warns(CheckOwnedInCode, object, "general", "Terraform keeps this group: its next run would set back what castoff changes, and castoff never deletes the group. Let it not run on the group meanwhile; kubectl castoff plan prints the edits to make there at the end.")}},
		"UsersWord": {"so says the user", func(g *inventory.NodeGroup) { g.Tags = []inventory.Tag{{Key: "castoff.sh/owner", Value: "Pulumi"}} }, []inventory.Finding{warns(CheckOwnedInCode, object, "general", "Pulumi keeps this group: its next run would set back what castoff changes, and castoff never deletes the group. Let it not run on the group meanwhile; kubectl castoff plan prints the edits to make there at the end.")}},
		"MixedFamily": {"weights and more types are nothing to warn of", func(g *inventory.NodeGroup) {
			g.MixedInstances = &inventory.MixedInstances{OnDemandPercentage: 100, Overrides: []inventory.Override{{InstanceType: "m5.large", Weight: "2"}}}
		}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			own := func(in *Input) { in.Groups[0].AutoScalingGroup = "general-asg" }
			if diff := cmp.Diff(tc.want, Run(sound(own, group(tc.change)), nil)); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
			if got := Run(sound(own, func(in *Input) { tc.change(&in.Groups[1]) }), nil); len(got) > 0 {
				t.Errorf("%s: the home stays, and of it is said %+v", tc.reason, got)
			}
		})
	}
}
