package plan

import (
	"slices"
	"strconv"
	"time"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// restoreQuieted gives back what kept the groups from being resized behind castoff's back.
func restoreQuieted(o *outcome, led *ledger, l look) {
	for _, p := range l.pools {
		if undone(l, p) {
			continue
		}
		for _, g := range p.groups {
			recorded, ok := l.Snapshot.Group(g.Name)
			if !ok {
				continue
			}
			resumeProcesses(o, *led, l, g, recorded.Group)
			restoreSettings(o, l, g, recorded.Group)
			restorePolicies(o, g, recorded.Group)
			restoreSchedules(o, l, g, recorded.Group)
			awaitEffects(o, *led, l, g)
		}
	}
}

// undone says that nothing of a pool is castoff's any more: its nodes bear no mark, and the mark is the first thing that the way
// forward writes and the last that the way back takes off. What differs from the snapshot from then on is the user's. Marked
// nodes may all have been replaced meanwhile, so the way back goes over everything once, until it has come to its end.
func undone(l look, p pool) bool {
	if rollsBack(l.m) && l.m.Status.CompletionTime == nil {
		return false
	}
	return len(p.nodes) > 0 && !slices.ContainsFunc(p.nodes, func(n inventory.Node) bool { return n.Annotations[v1alpha1.AnnotationLegacy] != "" })
}

// resumeProcesses resumes what castoff suspended. It suspends all that it needs to at once: most of them suspended together are
// its doing, though somebody resumed one since; fewer are where the ledger has their names.
func resumeProcesses(o *outcome, led ledger, l look, g, recorded inventory.NodeGroup) {
	ours := append(led.names(kindSuspendProcesses, g.AutoScalingGroup), led.names(kindSuspendLaunch, g.AutoScalingGroup)...)
	var all, names []string
	for _, p := range append(slices.Clone(quietProcesses), processLaunch) {
		if !g.Suspends(p) || recorded.Suspends(p) || p == processInstanceRefresh && holdsRefresh(o, l, g) {
			continue
		}
		all = append(all, p)
		if slices.Contains(ours, p) {
			names = append(names, p)
		}
	}
	if 2*len(all) > len(quietProcesses) {
		names = all
	}
	if len(names) > 0 {
		o.act(ResumeProcesses{Group: g.AutoScalingGroup, Processes: names})
	}
}

func restoreSettings(o *outcome, l look, g, recorded inventory.NodeGroup) {
	if recorded.CapacityRebalance && !g.CapacityRebalance {
		o.act(SetRebalance{Group: g.AutoScalingGroup, On: true})
	}
	switch {
	case g.MaxInstanceLifetime == recorded.MaxInstanceLifetime:
	case g.MaxInstanceLifetime == 0, acceptsForeignSize(l, g):
		o.act(SetLifetime{Group: g.AutoScalingGroup, Seconds: recorded.MaxInstanceLifetime})
	default:
		foreignSetting(o, g, "its maximum instance lifetime is "+strconv.Itoa(int(g.MaxInstanceLifetime))+" s")
	}
}

func restorePolicies(o *outcome, g, recorded inventory.NodeGroup) {
	var names []string
	for _, r := range recorded.ScalingPolicies {
		i := slices.IndexFunc(g.ScalingPolicies, func(p inventory.ScalingPolicy) bool { return p.Name == r.Name })
		switch {
		case i < 0:
			foreignSetting(o, g, "its scaling policy "+r.Name+" was deleted")
		case r.Active && !g.ScalingPolicies[i].Active:
			names = append(names, r.Name)
		}
	}
	if len(names) > 0 {
		o.act(EnablePolicies{Recorded: recorded, Names: fitting(names)})
	}
}

// restoreSchedules makes the scheduled actions again whose time is not over.
func restoreSchedules(o *outcome, l look, g, recorded inventory.NodeGroup) {
	var actions []inventory.ScheduledAction
	var names []string
	for _, s := range recorded.ScheduledActions {
		switch {
		case hasSchedule(g, s.Name):
		case over(s, l.now):
			o.warn("ScheduleOver", "nodegroup/"+g.Name, "The time of the scheduled action "+s.Name+" has passed meanwhile; it is not made again.")
		default:
			actions, names = append(actions, s), append(names, s.Name)
		}
	}
	if len(actions) > 0 {
		o.act(PutScheduledActions{Group: g.AutoScalingGroup, Actions: actions[:len(fitting(names))]})
	}
}

// over: its end has passed, or it was to act once and that moment has.
func over(s inventory.ScheduledAction, now time.Time) bool {
	return (s.End != nil && s.End.Before(now)) || (s.Recurrence == "" && s.Start != nil && s.Start.Before(now))
}
