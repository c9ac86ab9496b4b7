package plan

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// dropPace is how often Cluster Autoscaler's status is looked at while it is to drop a group: from then on nobody scales the group until
// its NodePool is Ready.
const dropPace = time.Second

// hidden says that castoff took the group's discovery tags off.
func hidden(g inventory.NodeGroup) bool {
	_, ok := g.Tag(v1alpha1.TagHandedOver)
	return ok
}

// keeps says that a Cluster Autoscaler scales pools of a wave that has not changed hands: it goes on, and lets the pools of this wave
// go by their tags.
func keeps(a inventory.Autoscaler, l look) bool {
	return slices.ContainsFunc(l.waves, func(w wave) bool {
		other := l.only(w)
		return w.name != l.wave && scalesNow(a, other) && !handed(other)
	})
}

// heldSizes says that a managed node group keeps its sizes for now: it is hidden from a Cluster Autoscaler that runs, and EKS may put the
// tags of a group back with every update of it.
func heldSizes(l look, g inventory.NodeGroup) bool {
	return g.Managed != nil && hidden(g) && slices.ContainsFunc(l.Autoscalers, func(a inventory.Autoscaler) bool { return !a.Stopped() && keeps(a, l) })
}

// lowerBeforeHiding sets the min of managed node groups before their tags are taken off, for the same reason. Their nodes are Cluster
// Autoscaler's for a minute more, and it needs ten to end one.
func lowerBeforeHiding(o *outcome, l look) {
	if !slices.ContainsFunc(l.Autoscalers, func(a inventory.Autoscaler) bool { return manages(a, l) && keeps(a, l) }) {
		return
	}
	for _, p := range l.pools {
		for _, g := range p.groups {
			if g.Managed != nil && !hidden(g) {
				lowerMin(o, l, g)
			}
		}
	}
}

// letGo hides the wave's groups from a Cluster Autoscaler that goes on with others, and says whether it was seen to have dropped them:
// its status, which it writes at every scan, is fresh, lists what it keeps and none of these. It drops a group within a minute and a half
// of the tags' end, and serves it until then.
func letGo(o *outcome, led *ledger, l look, a inventory.Autoscaler) bool {
	gone := true
	for _, p := range l.pools {
		_, served := nodePool(l, p.Name)
		for _, g := range p.groups {
			switch {
			case a.Manages(g):
				hide(o, led, a, g)
				gone = false
			case a.Stopped(): // by its user: it will not find the group when it is back
			case a.Lists(g):
				o.wait("AutoscalerLettingGo", "nodegroup/"+g.Name, "Its discovery tags are off, and "+a.Object()+" scales it until it has noticed, which takes a minute or so.")
				gone = false
			case !served && !tells(a, l):
				o.wait("AutoscalerSilent", a.Object(), "It is to let go of "+g.Name+", and its status (ConfigMap cluster-autoscaler-status), which would tell that it has, was written "+written(a)+
					". castoff waits until it is written again.")
				gone = false
			}
		}
	}
	if !gone {
		o.until = l.now.Add(dropPace)
	}
	return gone
}

func written(a inventory.Autoscaler) string {
	if a.StatusTime.IsZero() {
		return "never"
	}
	return "at " + a.StatusTime.UTC().Format(time.RFC3339)
}

// tells says that a Cluster Autoscaler's status is to be believed: it is fresh, and lists the groups that it keeps.
func tells(a inventory.Autoscaler, l look) bool {
	if l.now.Sub(a.StatusTime) > statusFresh {
		return false
	}
	for _, w := range l.waves {
		for _, p := range w.pools {
			if slices.ContainsFunc(p.groups, func(g inventory.NodeGroup) bool { return a.Manages(g) && !a.Lists(g) }) {
				return false
			}
		}
	}
	return true
}

// hide takes off the tags by which it finds the group, at most as often as a Cluster Autoscaler is stopped: whoever puts them back a
// second time means it, or has a tool that does.
func hide(o *outcome, led *ledger, a inventory.Autoscaler, g inventory.NodeGroup) {
	keys, hides := a.FoundBy(g)
	switch tried := led.attempts(kindHideGroup, g.AutoScalingGroup); {
	case !hides:
		o.block(v1alpha1.ReasonTwoScalers, "nodegroup/"+g.Name, a.Object()+" scales the group by its arguments, and not only by tags of Cluster Autoscaler's own, since the waves were planned. "+
			"castoff waits, and evicts nothing of the wave, until it does not: take the group out of its arguments, or set spec.strategy.waves to Single, and Cluster Autoscaler is stopped for good.")
	case tried >= mostStops:
		o.block(v1alpha1.ReasonTwoScalers, "nodegroup/"+g.Name, "Somebody put the tags "+strings.Join(keys, ", ")+" back on its Auto Scaling group each of the "+strconv.Itoa(int(tried))+
			" times that castoff took them off, and "+a.Object()+" scales it again. castoff does not fight over them, and evicts nothing of the wave until they are off: take them off where they are defined.")
	default:
		o.wait("AutoscalerLettingGo", "nodegroup/"+g.Name, "The tags by which "+a.Object()+" finds it are being taken off: "+strings.Join(keys, ", ")+".")
		o.act(HideGroup{Group: g.AutoScalingGroup, Keys: keys})
	}
}

// showGroups gives the tags back that castoff took off. A Cluster Autoscaler that runs would take its time to see them, or see them at
// once, so it is stopped first, as for a hand-over: seconds without it, and never two.
func showGroups(o *outcome, led *ledger, l look) {
	var actions []Action
	for _, p := range l.pools {
		for _, g := range p.groups {
			if recorded, ok := l.Snapshot.Group(g.Name); ok && hidden(g) {
				actions = append(actions, ShowGroup{Group: g.AutoScalingGroup, Tags: recorded.Group.DiscoveryTags()})
			}
		}
	}
	if len(actions) == 0 {
		return
	}
	for _, a := range l.Autoscalers {
		if manages(a, l) && !a.Stopped() {
			releaseOne(o, led, a)
		}
	}
	if o.idle() {
		l.wave, l.waves = "", nil // all of them are on their way back: none is kept
		for _, hold := range holdLeases(l).actions {
			o.act(hold)
			o.wait("AutoscalerStopping", "migration/"+l.m.Name, "Cluster Autoscaler is stopped, and its Lease is being taken, so that whoever starts it before the groups have their tags starts a standby.")
		}
		if len(o.actions) == 0 {
			o.act(actions...)
		}
	}
}
