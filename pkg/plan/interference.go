package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

const (
	// mostMends is how often castoff undoes one change of somebody else's. One more time would be a fight with whoever makes it.
	mostMends = 3
	// fightWindow is within what time changes count together: a tool that is run once a day fights with nobody.
	fightWindow = time.Hour
	// toldFor is for how long a change that was undone is shown.
	toldFor = 30 * time.Second
	// joinPatience is for how long a launched instance is waited for to become a node: real ones take one to two minutes.
	joinPatience = 10 * time.Minute
	// lastLaunch is for how long after a hand-over an instance may come that Cluster Autoscaler had asked for.
	lastLaunch = 2 * time.Minute

	processInstanceRefresh = "InstanceRefresh"
)

// The reasons of what somebody, or AWS itself, does to a group or node that castoff took over.
const (
	// reasonSetBack: what castoff set on a group was set back.
	reasonSetBack = "SetBack"
	// reasonUncordoned: a node that castoff fenced was opened.
	reasonUncordoned = "NodeUncordoned"
	// reasonJoining: an instance that nobody but its group asked for is on its way to be a node.
	reasonJoining = "NodesJoining"
	// reasonJoinedLate: nodes came after the hand-over.
	reasonJoinedLate = "NodesJoinedLate"
	// CheckRefreshHeld: an instance refresh waits for castoff to let it go on. The way back asks before it does.
	CheckRefreshHeld = "InstanceRefreshHeld"
)

// undoes is the entry of what castoff itself sets the other way on the way back, and forth again.
func undoes(id string) string {
	kind, target, _ := strings.Cut(id, "/")
	for _, pair := range [][2]string{
		{kindSuspendProcesses, kindResumeProcesses}, {kindSuspendLaunch, kindResumeLaunch}, {kindDisablePolicies, kindEnablePolicies}, {kindDeleteScheduledActions, kindPutScheduledActions},
		{kindHideGroup, kindShowGroup},
	} {
		switch kind {
		case pair[0]:
			return pair[1] + "/" + target
		case pair[1]:
			return pair[0] + "/" + target
		}
	}
	return ""
}

// countAgain is how often an effect was brought about when it is asked for again. Of settings of a group only those count that were
// set back to what they had been, not those that castoff itself moves on from. What was not seen may have been set back before it
// could be, so it counts too, unless the call failed.
func countAgain(op v1alpha1.Operation, detail string, now time.Time) int32 {
	switch {
	case !settable(op):
	case op.Attempts == 0, op.StartTime == nil, !sameAim(op, detail):
		return 1
	case now.Sub(op.StartTime.Time) > fightWindow:
		return 2 // the first time in this hour
	}
	if op.DoneTime != nil || settable(op) && op.Error == "" {
		return op.Attempts + 1
	}
	return op.Attempts
}

// settable entries are settings of a group that anybody may set back.
func settable(op v1alpha1.Operation) bool {
	switch kindOf(op) {
	case kindSetGroupSize, kindSetRebalance, kindSetLifetime:
		return true
	}
	return undoes(op.ID) != ""
}

// sameAim says that the same is wanted again. Of processes any counts; of sizes min and max do, for desired follows the instances;
// of policies and schedules, which may be too many for one call, those that were asked for before.
func sameAim(op v1alpha1.Operation, detail string) bool {
	switch kindOf(op) {
	case kindSetGroupSize:
		limits := func(s string) string { return s[:max(strings.LastIndex(s, "/"), 0)] }
		return limits(op.Detail) == limits(detail)
	case kindSetRebalance, kindSetLifetime:
		return op.Detail == detail
	case kindSuspendProcesses, kindResumeProcesses, kindSuspendLaunch, kindResumeLaunch:
		return true
	}
	return shares(op.Detail, detail)
}

func shares(a, b string) bool {
	have := strings.Split(a, separator)
	return slices.ContainsFunc(strings.Split(b, separator), func(name string) bool { return slices.Contains(have, name) })
}

// mends is how often castoff has brought this about that somebody set back, this time included; 0: nobody did.
func (l ledger) mends(a Ledgered, now time.Time) int32 {
	kind, target, detail := a.Entry()
	op, ok := l.entry(kind, target)
	if !ok || !settable(op) || waits(op, now) {
		return 0
	}
	return countAgain(op, detail, now) - 1
}

// fights says that to do it once more would be a fight.
func (l ledger) fights(a Ledgered, now time.Time) bool { return l.mends(a, now) > mostMends }

// refuse says why castoff leaves an effect that was set back too often.
func refuse(groups []inventory.NodeGroup, a Ledgered) v1alpha1.Blocker {
	kind, target, detail := a.Entry()
	object, owner := behind(groups, target)
	return v1alpha1.Blocker{Severity: v1alpha1.SeverityBlock, Reason: reasonSetBack, Object: object, Message: fmt.Sprintf(
		"Somebody%s %s, again and again: castoff set it right %d times within an hour and does not fight over it. Nothing is evicted until it is right, and castoff tries again when it has been left alone for an hour: %s.",
		owner, whatWasDone(kind, detail), mostMends, byHand(kind, target, detail))}
}

// tellMended shows for a while what was set back and set right; before is the ledger as it was. How often is in status.operations for as
// long as the entry is there. A call that is repeated once because it was lost is nobody's doing.
func tellMended(led, before ledger, l look) []v1alpha1.Blocker {
	var out []v1alpha1.Blocker
	for _, op := range led {
		if !settable(op) || op.Attempts < 2 || op.StartTime == nil || l.now.Sub(op.StartTime.Time) >= toldFor {
			continue
		}
		object, owner := behind(l.Groups, targetOf(op))
		last, _ := before.entry(kindOf(op), targetOf(op))
		setBack := last.DoneTime != nil && !last.StartTime.Equal(op.StartTime)
		if op.Attempts == 2 && !setBack && !l.shows(reasonSetBack, object) {
			continue
		}
		out = append(out, mended(object, owner, kindOf(op), op.Detail, op.Attempts-1))
	}
	return out
}

// mended says that castoff sets something right for that time.
func mended(object, owner, kind, detail string, time int32) v1alpha1.Blocker {
	return v1alpha1.Blocker{Severity: v1alpha1.SeverityWarn, Reason: reasonSetBack, Object: object, Message: fmt.Sprintf(
		"Somebody%s %s. castoff sets it right, time %d of %d, and evicts nothing until it is.", owner, whatWasDone(kind, detail), time, mostMends)}
}

// split gives an entry's kind and target.
func split(id string) (kind, target string) {
	kind, target, _ = strings.Cut(id, "/")
	return kind, target
}

// shows says that the last status had this blocker.
func (l look) shows(reason, object string) bool {
	return slices.ContainsFunc(l.m.Status.Blockers, func(b v1alpha1.Blocker) bool { return b.Reason == reason && b.Object == object })
}

// behind names the group behind an Auto Scaling group, and in brackets who else keeps it.
func behind(groups []inventory.NodeGroup, asg string) (object, owner string) {
	for _, g := range groups {
		if g.AutoScalingGroup != asg {
			continue
		}
		if o := g.Owner(); o != "" {
			owner = " (" + o + " keeps this group)"
		}
		return "nodegroup/" + g.Name, owner
	}
	return "nodegroup/" + asg, ""
}

// whatWasDone is what somebody did, in the words of who undoes it.
func whatWasDone(kind, detail string) string {
	names := strings.ReplaceAll(detail, separator, ", ")
	switch kind {
	case kindSuspendProcesses, kindSuspendLaunch:
		return "resumed processes of the group that castoff had suspended: " + names
	case kindResumeProcesses, kindResumeLaunch:
		return "suspended processes of the group that castoff had resumed: " + names
	case kindDisablePolicies:
		return "enabled scaling policies of the group that castoff had disabled: " + names
	case kindEnablePolicies:
		return "disabled scaling policies of the group that castoff had enabled: " + names
	case kindDeleteScheduledActions:
		return "made scheduled actions of the group again that castoff had deleted: " + names
	case kindPutScheduledActions:
		return "deleted scheduled actions of the group that castoff had made again: " + names
	case kindSetRebalance:
		return "switched the group's Capacity Rebalancing, which castoff has at " + detail
	case kindSetLifetime:
		return "set the group's maximum instance lifetime, which castoff has at " + detail + " s"
	}
	return "set the group's sizes, which castoff has at min/max/desired " + detail
}

// byHand is the command that sets a group right.
func byHand(kind, asg, detail string) string {
	names := strings.ReplaceAll(detail, separator, " ")
	update := "aws autoscaling update-auto-scaling-group --auto-scaling-group-name " + asg
	switch kind {
	case kindSuspendProcesses, kindSuspendLaunch:
		return "aws autoscaling suspend-processes --auto-scaling-group-name " + asg + " --scaling-processes " + names
	case kindResumeProcesses, kindResumeLaunch:
		return "aws autoscaling resume-processes --auto-scaling-group-name " + asg + " --scaling-processes " + names
	case kindSetRebalance:
		if detail == strconv.FormatBool(false) {
			return update + " --no-capacity-rebalance"
		}
		return update + " --capacity-rebalance"
	case kindSetLifetime:
		return update + " --max-instance-lifetime " + detail
	case kindSetGroupSize:
		minimum, rest, _ := strings.Cut(detail, "/")
		maximum, _, _ := strings.Cut(rest, "/")
		return "set min " + minimum + " and max " + maximum + " where the sizes are defined"
	}
	return "set it where it is defined"
}

// handedOver is when the pool changed hands; zero while it has not.
func (l look) handedOver(pool string) time.Time {
	for _, w := range l.m.Status.Waves {
		if slices.Contains(w.Pools, pool) && w.ServedTime != nil {
			return w.ServedTime.Time
		}
	}
	return time.Time{}
}

// lateInstances are those of a group that the snapshot does not have, and that are not on their way out.
func lateInstances(l look, g inventory.NodeGroup) []inventory.Instance {
	recorded, ok := l.Snapshot.Group(g.Name)
	if !ok {
		return nil
	}
	known := make(map[string]bool, len(recorded.Group.Instances))
	for _, i := range recorded.Group.Instances {
		known[i.ID] = true
	}
	return slices.DeleteFunc(slices.Clone(g.Instances), func(i inventory.Instance) bool { return leaving(i) || known[i.ID] })
}

// mend sets a group right, unless somebody has set it back too often while the group is harmless: one that is empty, or whose
// policies and schedules are idle because their process is suspended. Else the ledger refuses, and nothing goes on.
func mend(o *outcome, led ledger, l look, g inventory.NodeGroup, a Ledgered) {
	harmless := g.Empty() && g.Desired == 0
	switch a.(type) {
	case DisablePolicies:
		harmless = g.Suspends("AlarmNotification", "ScheduledActions") // the latter for predictive scaling
	case DeleteScheduledActions:
		harmless = g.Suspends("ScheduledActions")
	}
	kind, target, detail := a.Entry()
	_, owner := behind(l.Groups, g.AutoScalingGroup)
	if !harmless || !led.fights(a, l.now) {
		o.act(a)
		_, asked := led.entry(kind, target)
		if reverse, _ := led.entry(split(undoes(kind + "/" + target))); handingOverReached(l) && !asked && reverse.ID == "" {
			o.blockers = append(o.blockers, mended("nodegroup/"+g.Name, owner, kind, detail, 1)) // it was as castoff wants it before castoff came
		}
		return
	}
	o.warn(reasonSetBack, "nodegroup/"+g.Name, fmt.Sprintf("Somebody%s %s. castoff set it right %d times within an hour and leaves it now: it can do no harm there.",
		owner, whatWasDone(kind, detail), mostMends))
}

// renewals are those of Leases that castoff holds, whatever else waits: a block that lasts longer than a Lease's record would let a
// Cluster Autoscaler that waits for it lead.
func renewals(l look, actions []Action) []Action {
	var out []Action
	for _, a := range l.Autoscalers {
		if l.Snapshot == nil || l.OtherMigration != "" || !a.LeaderElect || !manages(a, l) || !renewalDue(a, l.now) || slices.ContainsFunc(actions, func(x Action) bool {
			return x == Action(HoldLease{Lease: a.Lease}) || x == Action(LetGoLease{Lease: a.Lease})
		}) {
			continue
		}
		out = append(out, HoldLease{Lease: a.Lease})
	}
	return out
}

// ownScaling names the groups of pools that Karpenter serves and that Auto Scaling may change the size of by itself, and why.
func ownScaling(l look) []string {
	var out []string
	for _, p := range l.pools {
		if np, ok := nodePool(l, p.Name); !ok || stopped(np) {
			continue
		}
		for _, g := range p.groups {
			out = append(out, ownScalingOf(l, p, g)...)
		}
	}
	return out
}

func ownScalingOf(l look, p pool, g inventory.NodeGroup) []string {
	var out []string
	if !g.Suspends("AlarmNotification") {
		for _, s := range g.ScalingPolicies {
			if s.Active {
				out = append(out, g.Name+" (scaling policy "+s.Name+")")
			}
		}
	}
	if !g.Suspends("ScheduledActions") {
		for _, s := range g.ScheduledActions {
			out = append(out, g.Name+" (scheduled action "+s.Name+")")
		}
	}
	since := l.handedOver(p.Name)
	if n := joining(l, g); n > 0 && !rollsBack(l.m) && !since.IsZero() && l.now.Sub(since) > lastLaunch {
		out = append(out, fmt.Sprintf("%s (desired size %d: %s)", g.Name, g.Desired, inventory.Count(n, "instance on its way", "instances on their way")))
	}
	return out
}

// awaitJoining holds evictions back while a group is about to get a node: the pods that were evicted meanwhile could land on it
// before it is fenced. An instance that never becomes one is not waited for without end.
func awaitJoining(o *outcome, l look) bool {
	held := false
	for _, p := range l.pools {
		if _, served := nodePool(l, p.Name); !served {
			continue
		}
		for _, g := range p.groups {
			n := joining(l, g)
			if n == 0 {
				continue
			}
			object := "nodegroup/" + g.Name
			if l.waited(reasonJoining, object) >= joinPatience {
				continue // tellLate says so
			}
			o.wait(reasonJoining, object, fmt.Sprintf("The group is about to get %s that castoff did not ask for. Nothing is evicted until all are there, and fenced: pods could land on them. Then they are drained like the rest.", inventory.Count(n, "node")))
			held = true
		}
	}
	return held
}

// joining counts the nodes that a group is about to have and that castoff does not know yet.
func joining(l look, g inventory.NodeGroup) int {
	awaited := map[string]bool{}
	for _, i := range lateInstances(l, g) {
		awaited[i.ID] = true
	}
	for _, n := range l.Nodes {
		if len(awaited) > 0 && (n.Ready || l.now.Sub(n.Created) > joinPatience) {
			delete(awaited, n.InstanceID)
		}
	}
	n := len(awaited)
	if !g.Suspends(processLaunch) {
		n += missing(g)
	}
	return n
}

// missing is how many instances a group lacks of what it desires; 0 where that counts other things, or they cannot be launched.
func missing(g inventory.NodeGroup) int {
	weighted := g.CapacityUnit != "" && g.CapacityUnit != "units" || g.MixedInstances != nil &&
		slices.ContainsFunc(g.MixedInstances.Overrides, func(o inventory.Override) bool { return o.Weight != "" })
	if weighted || g.LaunchError != "" {
		return 0
	}
	return max(0, int(g.Desired)-len(g.Instances))
}

// cause is what AWS says of the group's last scaling activity.
func cause(g inventory.NodeGroup) string {
	if g.ScalingCause == "" {
		return ""
	}
	return " Auto Scaling says: " + strings.TrimSuffix(g.ScalingCause, ".") + "."
}

// tellLate names what came to the groups after their hand-over, and what asks for more: nodes, sizes, an instance refresh.
func tellLate(o *outcome, l look) {
	for _, p := range l.pools {
		since := l.handedOver(p.Name)
		for _, g := range p.groups {
			if completedReached(l) {
				endMaxOf(o, l, g)
			}
			if g.InstanceRefreshHeld != "" {
				tellRefresh(o, g)
			}
			if missing(g) > 0 && g.Suspends(processLaunch) && !g.Empty() && !slices.ContainsFunc(g.Instances, leaving) {
				foreignSetting(o, g, fmt.Sprintf("its desired size is %d, with %s. The process Launch is suspended, so none comes", g.Desired, inventory.Count(len(g.Instances), "instance")))
			}
			late, coming := lateNodes(l, p, g, since), joining(l, g)
			if object := "nodegroup/" + g.Name; coming > 0 && l.waited(reasonJoining, object) >= joinPatience {
				o.warn(reasonJoining, object, fmt.Sprintf("The group was about to get %d nodes that castoff did not ask for. They have not come for %s, so castoff goes on without them.", coming, joinPatience))
			}
			if since.IsZero() {
				continue
			}
			if len(late)+coming == 0 {
				continue
			}
			what := fmt.Sprintf("Since the pool was handed over its group has got %s, and is about to get %d.", inventory.Count(len(late), "node"), coming)
			if len(late) > 0 {
				what += " Here: " + some(late) + "."
			}
			o.warn(reasonJoinedLate, "nodegroup/"+g.Name, what+" They are fenced when they join, and drained like the rest."+cause(g))
		}
	}
}

func lateNodes(l look, p pool, g inventory.NodeGroup, since time.Time) []string {
	recorded, _ := l.Snapshot.Group(g.Name)
	known := indexOf(recorded.Nodes)
	var late []string
	for _, n := range p.nodes {
		if n.Group == g.Name && n.Created.After(since) && !known.has(n) {
			late = append(late, n.Name)
		}
	}
	return late
}

// tellRefresh names an instance refresh that somebody started. It is neither cancelled nor waited for: its process is suspended,
// so that it replaces nothing, and it is not castoff's.
func tellRefresh(o *outcome, g inventory.NodeGroup) {
	o.warn(CheckRefreshHeld, "nodegroup/"+g.Name, "Somebody started an instance refresh of the group: "+g.InstanceRefreshHeld+
		". The process InstanceRefresh is suspended, so it replaces nothing; castoff does not cancel it, and on the way back it would go on. "+cancelRefresh(g))
}

func cancelRefresh(g inventory.NodeGroup) string {
	return "To cancel it: aws autoscaling cancel-instance-refresh --auto-scaling-group-name " + g.AutoScalingGroup
}

// holdsRefresh says that the group's instance refresh stays held on the way back, until it is over or the user lets it go on: it would
// replace the nodes to which the pods have just come back, drained or not.
func holdsRefresh(o *outcome, l look, g inventory.NodeGroup) bool {
	object := "nodegroup/" + g.Name
	if g.InstanceRefreshHeld == "" || l.accepts(CheckRefreshHeld, object) {
		return false
	}
	o.block(CheckRefreshHeld, object, "Somebody started an instance refresh of the group during the migration: "+g.InstanceRefreshHeld+". It goes on when castoff resumes the process InstanceRefresh, and replaces the nodes that the pods came back to. "+
		cancelRefresh(g)+". To let it go on: accept the risk "+CheckRefreshHeld+" for "+object+" in spec.acceptedRisks.")
	return true
}

// reopened says that somebody opened a node after castoff had fenced it so often as it may, and names it.
func reopened(o *outcome, n inventory.Node) bool {
	const object = "node/"
	fences, _ := strconv.Atoi(n.Annotations[v1alpha1.AnnotationFences])
	switch {
	case fences > mostMends:
		o.block(reasonUncordoned, object+n.Name, fmt.Sprintf("Somebody opened the node for new pods again, after castoff had closed it %d times, and castoff does not fight over it. "+
			"Nothing is evicted until it is closed: find out who does it (a bot that uncordons?), then kubectl cordon %s", fences, n.Name))
		return true
	case fences > 0:
		o.warn(reasonUncordoned, object+n.Name, fmt.Sprintf("Somebody opened the node for new pods. castoff closes it again, time %d of %d, and evicts nothing until it is; pods that came are drained with it.", fences, mostMends))
	}
	return false
}
