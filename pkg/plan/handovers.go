package plan

import (
	"slices"
	"strings"
	"time"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// Handovers is the plan of the changes of hands: the waves, and why they are not smaller than all pools at once where nothing but that would do.
type Handovers struct {
	Waves []Wave `json:"waves"`
	// Single says why all pools change hands at once though no workload joins all of them; empty where that is not so.
	Single string `json:"single,omitempty"`
}

// Names are the pools of each wave.
func (h Handovers) Names() [][]string {
	var out [][]string
	for _, w := range h.Waves {
		out = append(out, w.Pools)
	}
	return out
}

// HandoversOf plans the changes of hands: the smallest waves that no workload straddles, if every Cluster Autoscaler can let go of one
// and keep another, and be seen to.
func HandoversOf(spec v1alpha1.MigrationSpec, pools []inventory.Pool, groups []inventory.NodeGroup, autoscalers []inventory.Autoscaler, waves []Wave, now time.Time) Handovers {
	h := Handovers{Waves: waves}
	if len(waves) < 2 {
		return h
	}
	if h.Single = inseparable(spec, pools, groups, autoscalers, waves, now); h.Single != "" {
		all := Wave{}
		for _, p := range pools {
			all.Pools = append(all.Pools, p.Name)
		}
		for _, w := range waves {
			all.Joins = append(all.Joins, w.Joins...)
		}
		h.Waves = []Wave{all}
	}
	return h
}

// inseparable says why the waves cannot change hands one after the other.
func inseparable(spec v1alpha1.MigrationSpec, pools []inventory.Pool, groups []inventory.NodeGroup, autoscalers []inventory.Autoscaler, waves []Wave, now time.Time) string {
	if spec.Strategy.Waves == v1alpha1.WavesSingle {
		return "spec.strategy.waves is Single"
	}
	running := 0
	for _, a := range autoscalers {
		mine := managedWaves(a, pools, groups, waves)
		if a.Stopped() || mine == 0 {
			continue
		}
		running++
		if mine < 2 {
			continue // it is stopped when that one changes hands
		}
		if now.Sub(a.StatusTime) > statusFresh {
			return a.Object() + " has written no status for a minute (ConfigMap cluster-autoscaler-status), and nothing else would show that it has let go of some groups and not of others"
		}
		for _, g := range groups {
			if slices.Contains(a.Static, g.AutoScalingGroup) {
				return a.Object() + " names " + g.AutoScalingGroup + " in its arguments (--nodes), so that it can only let go of all groups at once, by being stopped"
			}
			if _, hides := a.FoundBy(g); a.Manages(g) && !hides {
				return a.Object() + " finds " + g.Name + " by tags that castoff may not take off, because they have other uses or nothing else says whose the group is (" + strings.Join(a.Discovery, "; ") + ")"
			}
		}
	}
	if running == 0 {
		return "no Cluster Autoscaler runs that would keep the others meanwhile"
	}
	return ""
}

// managedWaves counts the waves of which it scales a group.
func managedWaves(a inventory.Autoscaler, pools []inventory.Pool, groups []inventory.NodeGroup, waves []Wave) int {
	n := 0
	for _, w := range waves {
		for _, p := range pools {
			if slices.Contains(w.Pools, p.Name) && slices.ContainsFunc(groups, func(g inventory.NodeGroup) bool { return slices.Contains(p.NodeGroups, g.Name) && a.Manages(g) }) {
				n++
				break
			}
		}
	}
	return n
}
