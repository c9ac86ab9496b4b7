package cost

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// Advice is what to do about Cluster Autoscaler.
type Advice string

// The advice.
const (
	// Migrate now.
	Migrate Advice = "Migrate"
	// MigrateLater: something has to be mended or decided first.
	MigrateLater Advice = "MigrateLater"
	// Stay on Cluster Autoscaler: the move would win little, or Karpenter cannot serve the cluster.
	Stay Advice = "StayOnClusterAutoscaler"
)

// Verdict is the advice and why.
type Verdict struct {
	Advice  Advice   `json:"advice"`
	Reasons []string `json:"reasons"`
}

const (
	// fewNodes: below it, a person looks after the nodes in less time than Karpenter takes to be understood and kept up to date.
	fewNodes = 10
	// stableFor is how old every node has to be for a group to count as one that does not scale.
	stableFor = 7 * 24 * time.Hour
	// worthwhile is the part of the bill that has to be won, or lost, before it decides anything: the estimate is not better.
	worthwhile = 0.1
)

// Situation is what a verdict rests on.
type Situation struct {
	Now      time.Time
	Pools    []inventory.Pool
	Nodes    []inventory.Node // those of the pools
	Targets  map[string]inventory.Target
	Findings []inventory.Finding
	// Total is the estimate of all pools, nil when no prices could be read.
	Total *Estimate
}

// Judge says whether the move is worth it, and what speaks for and against.
func Judge(s Situation) Verdict {
	unserved, served := s.byTarget()
	var blocked []string
	for _, f := range s.Findings {
		if f.Blocks() {
			blocked = append(blocked, strings.TrimSpace(f.Check+" "+f.Object))
		}
	}
	switch {
	case len(s.Pools) == 0:
		return Verdict{Stay, append([]string{"No node group is left to migrate: Cluster Autoscaler scales none, or only the home."}, count("finding blocks", "findings block", blocked)...)}
	case len(served) == 0:
		return Verdict{Stay, []string{"Karpenter can serve none of the pools: " + listed(unserved) + ". The preflight says why for each."}}
	case len(unserved) > 0 || len(blocked) > 0:
		return s.later(unserved, blocked)
	case s.Total != nil && s.Total.Unplaced > 0:
		return Verdict{MigrateLater, []string{fmt.Sprintf("By the estimate, pods would find no node (%d of them): no instance type of their pool has room for them beside its DaemonSets. Widen the types first, or lower the requests.", s.Total.Unplaced)}}
	case s.fewStable() && s.fits():
		return Verdict{Stay, s.stays()}
	case s.Total != nil && s.Total.Comparable() && s.Total.Change() > worthwhile:
		return Verdict{MigrateLater, []string{
			"The same pods on the NodePools' instance types would cost " + percent(s.Total.Change()) + " more than today. Widen the instance types first, or lower the requests.",
		}}
	}
	return Verdict{Migrate, append([]string{"Every pool has a NodePool, and no check blocks."}, s.money()...)}
}

// byTarget tells the pools apart by whether Karpenter can serve them.
func (s Situation) byTarget() (unserved, served []string) {
	for _, p := range s.Pools {
		if _, ok := s.Targets[p.Name]; ok {
			served = append(served, p.Name)
		} else {
			unserved = append(unserved, p.Name)
		}
	}
	return unserved, served
}

func (s Situation) later(unserved, blocked []string) Verdict {
	var reasons []string
	if len(unserved) > 0 {
		reasons = append(reasons, "Karpenter cannot serve "+listed(unserved)+": mend what the preflight names, or list the other pools in spec.pools and leave these to Cluster Autoscaler.")
	}
	reasons = append(reasons, count("finding blocks", "findings block", blocked)...)
	if s.fewStable() && s.fits() {
		reasons = append(reasons, append([]string{"Staying is worth a thought:"}, s.stays()...)...)
		return Verdict{MigrateLater, reasons}
	}
	return Verdict{MigrateLater, append(reasons, s.money()...)}
}

// fewStable says that the pools are small and did not change for a while.
func (s Situation) fewStable() bool {
	if len(s.Nodes) == 0 || len(s.Nodes) > fewNodes {
		return false
	}
	return !slices.ContainsFunc(s.Nodes, func(n inventory.Node) bool { return n.Created.IsZero() || s.Now.Sub(n.Created) < stableFor })
}

// fits says that nothing worth while would be saved. Without prices nobody knows, and nodes that fit are then not assumed.
func (s Situation) fits() bool {
	return s.Total != nil && s.Total.Comparable() && s.Total.Change() > -worthwhile
}

func (s Situation) stays() []string {
	return []string{
		fmt.Sprintf("The pools have %s, and the youngest is more than %d days old: there is little to scale.", inventory.Count(len(s.Nodes), "node"), int(stableFor.Hours()/24)),
		"They fit: the same pods on the NodePools' instance types would cost " + compared(s.Total.Change()) + ".",
	}
}

func (s Situation) money() []string {
	switch {
	case s.Total == nil || !s.Total.Comparable():
		return []string{"What it would cost is not known, so cost has no say in this."}
	case s.Total.Today.USD() == 0:
		return []string{"The pools have no nodes today, so there is nothing to save yet."}
	}
	return []string{"The same pods on the NodePools' instance types would cost " + compared(s.Total.Change()) + "."}
}

// compared puts a change of the bill in words.
func compared(change float64) string {
	switch {
	case change <= -0.005:
		return percent(-change) + " less than today"
	case change >= 0.005:
		return percent(change) + " more than today"
	}
	return "as much as today"
}

func percent(part float64) string { return fmt.Sprintf("%.0f %%", part*100) }

func count(one, more string, names []string) []string {
	switch len(names) {
	case 0:
		return nil
	case 1:
		return []string{"1 preflight " + one + ": " + names[0] + "."}
	}
	return []string{fmt.Sprintf("%d preflight %s: %s.", len(names), more, listed(names))}
}

// listed names at most three.
func listed(names []string) string {
	if len(names) <= 3 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:3], ", "), len(names)-3)
}
