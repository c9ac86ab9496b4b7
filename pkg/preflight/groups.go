package preflight

import (
	"fmt"
	"slices"
	"strings"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// The checks of node groups.
const (
	CheckGroupBusy          = "NodeGroupBusy"
	CheckGroupUnhealthy     = "NodeGroupUnhealthy"
	CheckTerminateSuspended = "TerminateSuspended"
	CheckInstancesRetained  = "InstancesRetained"
	CheckLifecycleHook      = "LifecycleHook"
	CheckWarmPool           = "WarmPool"
	CheckScaleInProtection  = "ScaleInProtection"
	CheckDeletionProtection = "DeletionProtection"
	CheckOwnedInCode        = "NodeGroupOwnedInCode"
	CheckNotTranslated      = "NotTranslated"
	CheckNotCarried         = "NotCarriedOver"
)

func more(n int) string { return fmt.Sprintf(" and %d more", n) }

// ofGroups asks about every group that is to migrate; a finding without a check is none.
func ofGroups(in Input, ask func(g inventory.NodeGroup) inventory.Finding) []inventory.Finding {
	var out []inventory.Finding
	for _, g := range in.Groups {
		pool := poolOfGroup(in, g.Name)
		if pool == "" {
			continue
		}
		if f := ask(g); f.Check != "" {
			f.Pool = pool
			out = append(out, f)
		}
	}
	return out
}

func object(g inventory.NodeGroup) string { return "nodegroup/" + g.Name }

// groupBusy: an instance refresh or an EKS update replaces instances in its own order, in the middle of castoff's drains.
func groupBusy(in Input) []inventory.Finding {
	return ofGroups(in, func(g inventory.NodeGroup) inventory.Finding {
		switch {
		case g.InstanceRefresh != "":
			return block(CheckGroupBusy, object(g), "An instance refresh is "+g.InstanceRefresh+". Wait for its end, or cancel it.")
		case g.Managed == nil:
		case g.Managed.Status == "UPDATING" && !g.Suspends("AZRebalance"):
			// Once castoff has quieted the group, the update is castoff's own: EKS calls a change of size an update, too.
			return block(CheckGroupBusy, object(g), "EKS is updating the node group. castoff goes on when that is done.")
		case g.Managed.Status == "CREATING" || g.Managed.Status == "DELETING":
			return block(CheckGroupBusy, object(g), "EKS is "+strings.ToLower(g.Managed.Status)+" the node group. Wait for the end of that, or leave the group out of spec.pools.")
		}
		return inventory.Finding{}
	})
}

// groupUnhealthy: a group that cannot launch is no way back, and one whose health EKS complains of may refuse the changes that castoff
// has to make.
func groupUnhealthy(in Input) []inventory.Finding {
	return ofGroups(in, func(g inventory.NodeGroup) inventory.Finding {
		switch {
		case g.Managed != nil && len(g.Managed.HealthIssues) > 0:
			return warn(CheckGroupUnhealthy, object(g), "EKS reports "+three(g.Managed.HealthIssues)+" (status "+g.Managed.Status+"). The way back needs a group that can launch nodes: mend it first. aws eks describe-nodegroup says more.")
		case g.LaunchError != "":
			return warn(CheckGroupUnhealthy, object(g), "Its last launch failed ("+g.LaunchError+"). The way back needs a group that can launch nodes: mend it first.")
		}
		return inventory.Finding{}
	})
}

// terminateSuspended: Auto Scaling ends nothing in such a group, so drained instances would stay, and be paid for, while castoff waits.
func terminateSuspended(in Input) []inventory.Finding {
	return ofGroups(in, func(g inventory.NodeGroup) inventory.Finding {
		if !g.Suspends("Terminate") {
			return inventory.Finding{}
		}
		return block(CheckTerminateSuspended, object(g), "Its process Terminate is suspended, so castoff could end no drained instance. Resume it: aws autoscaling resume-processes --auto-scaling-group-name "+g.AutoScalingGroup+" --scaling-processes Terminate.")
	})
}

// instancesRetained: with such a policy an instance whose termination hook was abandoned is taken out of the group and runs on; its
// node stays too, empty and cordoned.
func instancesRetained(in Input) []inventory.Finding {
	return ofGroups(in, func(g inventory.NodeGroup) inventory.Finding {
		if !g.RetainsInstances {
			return inventory.Finding{}
		}
		return warn(CheckInstancesRetained, object(g), "Its instance lifecycle policy retains instances whose termination hook is abandoned: they leave the group and run on, and castoff does not look for them. Complete the hook with CONTINUE, or take the policy off.")
	})
}

// eksHooks end so; EKS gives them to every managed node group and completes them itself.
const eksHooks = "-LC-Hook"

// lifecycleHooks: an instance that castoff ends stays in Terminating:Wait until its hook is completed or times out, so each node takes
// as long as that, and somebody has to go on completing it.
func lifecycleHooks(in Input) []inventory.Finding {
	return ofGroups(in, func(g inventory.NodeGroup) inventory.Finding {
		var names []string
		for _, h := range g.LifecycleHooks {
			own := g.Managed != nil && strings.HasSuffix(h.Name, eksHooks)
			if h.Transition == "autoscaling:EC2_INSTANCE_TERMINATING" && !own {
				names = append(names, fmt.Sprintf("%s (%d s)", h.Name, h.HeartbeatSeconds))
			}
		}
		if len(names) == 0 {
			return inventory.Finding{}
		}
		return warn(CheckLifecycleHook, object(g), "An ended instance waits in Terminating:Wait for "+three(names)+" or until somebody completes it. Keep whatever completes it running to the end (node-termination-handler, a Lambda function); Karpenter's nodes know no such hook.")
	})
}

// warmPool: Auto Scaling fills a warm pool up to the group's max as the group shrinks, with new instances that begin to join the
// cluster before they are stopped; and what is in it is paid for. Karpenter has no counterpart.
func warmPool(in Input) []inventory.Finding {
	return ofGroups(in, func(g inventory.NodeGroup) inventory.Finding {
		if !g.WarmPool {
			return inventory.Finding{}
		}
		return warn(CheckWarmPool, object(g), "It has a warm pool, whose stopped instances are paid for. castoff suspends Launch before it drains, so that Auto Scaling does not fill the pool up while the group shrinks, and leaves the pool for the way back. At the end remove it: aws autoscaling delete-warm-pool --auto-scaling-group-name "+g.AutoScalingGroup+".")
	})
}

// scaleInProtection: it holds back a scale-in by Auto Scaling, not an end by instance ID, which is what castoff does. Whoever protected
// the instance may expect otherwise.
func scaleInProtection(in Input) []inventory.Finding {
	return ofGroups(in, func(g inventory.NodeGroup) inventory.Finding {
		var ids []string
		for _, i := range g.Instances {
			if i.Protected {
				ids = append(ids, i.ID)
			}
		}
		if len(ids) == 0 {
			return inventory.Finding{}
		}
		return warn(CheckScaleInProtection, object(g), "Instances are protected from scale-in: "+three(ids)+". That does not hold castoff back: it drains them and ends them by their ID. To keep one, leave the group out of spec.pools; to keep a pod running, annotate it karpenter.sh/do-not-disrupt.")
	})
}

// deletionProtection: the deletion at the very end would fail, days after everybody has gone home.
func deletionProtection(in Input) []inventory.Finding {
	return ofGroups(in, func(g inventory.NodeGroup) inventory.Finding {
		if g.DeletionProtection != "prevent-all-deletion" {
			return inventory.Finding{}
		}
		return warn(CheckDeletionProtection, object(g), "Auto Scaling protects the group from deletion. castoff empties it and cannot delete it; spec.decommission.mode Delete would fail. Take the protection off if it is to go.")
	})
}

// ownedInCode: the next run of whoever keeps the group in code sets its sizes and policies back, in the middle of the migration: nodes
// that castoff emptied come back, and Cluster Autoscaler's tags too.
func ownedInCode(in Input) []inventory.Finding {
	return ofGroups(in, func(g inventory.NodeGroup) inventory.Finding {
		owner := g.Owner()
		if owner == "" {
			return inventory.Finding{}
		}
		return warn(CheckOwnedInCode, object(g), owner+" keeps this group: its next run would set back what castoff changes, and castoff never deletes the group. Let it not run on the group meanwhile; kubectl castoff plan prints the edits to make there at the end.")
	})
}

func groupNamed(in Input, name string) (inventory.NodeGroup, bool) {
	i := slices.IndexFunc(in.Groups, func(g inventory.NodeGroup) bool { return g.Name == name })
	if i < 0 {
		return inventory.NodeGroup{}, false
	}
	return in.Groups[i], true
}

func groupsOf(in Input, p inventory.Pool) []inventory.NodeGroup {
	var out []inventory.NodeGroup
	for _, name := range p.NodeGroups {
		if g, ok := groupNamed(in, name); ok {
			out = append(out, g)
		}
	}
	return out
}

func poolOfGroup(in Input, group string) string {
	for _, p := range in.Pools {
		if slices.Contains(p.NodeGroups, group) {
			return p.Name
		}
	}
	return ""
}

// nothingToDo is the advice about a setting that nobody misses, such as a tag that AWS sets itself.
const nothingToDo = "Nothing."

// notCarried: a setting that is lost without a word is found out by whoever is on call.
func notCarried(in Input) []inventory.Finding {
	var out []inventory.Finding
	for _, p := range in.Pools {
		var fields []string
		for _, n := range in.Targets[p.Name].NotCarried {
			if n.Do != nothingToDo {
				fields = append(fields, n.NodeGroup+": "+n.Field)
			}
		}
		if len(fields) > 0 {
			f := warn(CheckNotCarried, "pool/"+p.Name, "Not carried over to Karpenter: "+three(fields)+". The plan (kubectl castoff plan) says why, and what to do about each.")
			f.Pool = p.Name
			out = append(out, f)
		}
	}
	return out
}

// NotTranslated is the finding of a pool that no NodePool can be made of.
func NotTranslated(pool string, err error) inventory.Finding {
	f := block(CheckNotTranslated, "pool/"+pool, err.Error())
	f.Pool = pool
	return f
}
