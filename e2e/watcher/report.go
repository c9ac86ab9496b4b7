package watcher

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Report is what became of a migration, from the audit log, the simulator and the watcher's own watches.
type Report struct {
	// Phase is the Migration's phase, the one thing taken from castoff.
	Phase string `json:"phase"`
	// Seconds from the Migration's creation to its completion, or to the report while it runs.
	Seconds float64 `json:"seconds"`
	// PodsOnLegacyNodes counts unfinished pods, DaemonSets' and mirror pods aside, on nodes of the groups that migrate.
	PodsOnLegacyNodes int `json:"podsOnLegacyNodes"`
	// PodsNotReady counts unfinished pods that are not Ready, wherever they are.
	PodsNotReady int `json:"podsNotReady"`
	// PDBViolations counts moments in which a voluntary disruption took a budget below its floor.
	PDBViolations int `json:"pdbViolations"`
	// PodsDeletedByCastoff counts pods deleted without the Eviction API by castoff's ServiceAccount, its own pods aside.
	PodsDeletedByCastoff int `json:"podsDeletedByCastoff"`
	// InstancesEndedUndrained counts instances of node groups that ended with an evictable pod on them, whoever ended them,
	// and NodeClaims that somebody else than Karpenter deleted with an evictable pod on their node.
	InstancesEndedUndrained int `json:"instancesEndedUndrained"`
	// DaemonPodsMissing counts the times a Ready node was without a DaemonSet's pod for longer than Limits.DaemonSettle.
	DaemonPodsMissing int `json:"daemonPodsMissing"`
	NodeClaims        int `json:"nodeClaims"`
	// Groups are the node groups, the home left out; a managed one under the name EKS gives it.
	Groups     map[string]GroupSize `json:"groups"`
	CAReplicas int32                `json:"caReplicas"`
	// UnservedSeconds is the time without any scaler, of the pool that was longest without one.
	UnservedSeconds float64 `json:"unservedSeconds"`
	// DoubleServedSeconds is the time with two scalers, of the pool that had two for longest.
	DoubleServedSeconds float64  `json:"doubleServedSeconds"`
	CastoffAPICalls     APICalls `json:"castoffApiCalls"`

	details []string
	atRest  []string
	limits  Limits
	managed map[string]bool // groups whose maximum EKS keeps at 1 or more
}

// GroupSize is the size of a node group.
type GroupSize struct {
	Min     int32 `json:"min"`
	Max     int32 `json:"max"`
	Desired int32 `json:"desired"`
}

// APICalls counts requests that castoff made.
type APICalls struct {
	Kubernetes int `json:"kubernetes"`
	AWS        int `json:"aws"`
}

// Limits say where a figure becomes a broken promise.
type Limits struct {
	// Unserved is how long a pool may be without a scaler. Default 30 s.
	Unserved time.Duration
	// DaemonSettle is how long a node may be without a DaemonSet's pod. Default 30 s: start, roll and grace period.
	DaemonSettle time.Duration
}

func (l Limits) withDefaults() Limits {
	if l.Unserved == 0 {
		l.Unserved = 30 * time.Second
	}
	if l.DaemonSettle == 0 {
		l.DaemonSettle = 30 * time.Second
	}
	return l
}

// Phases at the ends of the two ways.
const (
	completed  = "Completed"
	rolledBack = "RolledBack"
)

// Broken names the promises that were broken on the way and that nothing can mend.
func (r Report) Broken() []string {
	var b sayings
	b.say(r.PDBViolations > 0, "PodDisruptionBudgets were broken %d times", r.PDBViolations)
	b.say(r.PodsDeletedByCastoff > 0, "castoff deleted %d pods past the Eviction API", r.PodsDeletedByCastoff)
	b.say(r.InstancesEndedUndrained > 0, "%d instances ended with pods on them", r.InstancesEndedUndrained)
	b.say(r.DaemonPodsMissing > 0, "DaemonSets were missing from a Ready node %d times", r.DaemonPodsMissing)
	b.say(r.UnservedSeconds > r.limits.Unserved.Seconds(), "a pool had no scaler for %.1f s, more than %s", r.UnservedSeconds, r.limits.Unserved)
	b.say(r.DoubleServedSeconds > 0, "a pool had two scalers for %.1f s", r.DoubleServedSeconds)
	return b
}

// Violations names every broken promise in words, at the end of a migration: none means that it is completed, that
// nothing is left behind, and that nothing was broken on the way.
func (r Report) Violations() []string {
	var b sayings
	b.say(r.Phase != completed, "the migration is %s, not %s", word(r.Phase, "not there"), completed)
	b.say(r.PodsOnLegacyNodes > 0, "%d pods are on legacy nodes", r.PodsOnLegacyNodes)
	b.say(r.PodsNotReady > 0, "%d pods are not Ready", r.PodsNotReady)
	b.say(r.NodeClaims == 0, "Karpenter runs no node")
	for _, name := range slices.Sorted(maps.Keys(r.Groups)) {
		end := GroupSize{}
		if r.managed[name] {
			end.Max = 1 // EKS keeps it at 1 or more
		}
		b.say(r.Groups[name] != end, "group %s is %s, not %s", name, r.Groups[name], end)
	}
	b.say(r.CAReplicas > 0, "Cluster Autoscaler has %d replicas", r.CAReplicas)
	return slices.Concat(b, r.Broken(), r.atRest)
}

// BackViolations names every broken promise in words, at the end of the way back: none means that it is rolled back, that
// nothing of Karpenter's is left, that nothing was broken since the account began, and that no pool was without a scaler
// for longer than that.
func (r Report) BackViolations(unserved time.Duration) []string {
	r.limits.Unserved = unserved
	var b sayings
	b.say(r.Phase != rolledBack, "the migration is %s, not %s", word(r.Phase, "not there"), rolledBack)
	b.say(r.PodsNotReady > 0, "%d pods are not Ready", r.PodsNotReady)
	b.say(r.NodeClaims > 0, "Karpenter runs %d nodes", r.NodeClaims)
	b.say(r.CAReplicas == 0, "Cluster Autoscaler has no replicas")
	return slices.Concat(b, r.Broken(), r.atRest)
}

// sayings collects sentences that hold.
type sayings []string

func (s *sayings) say(holds bool, format string, args ...any) {
	if holds {
		*s = append(*s, fmt.Sprintf(format, args...))
	}
}

// AtRest names the pools that nobody scales at the moment of the report.
func (r Report) AtRest() []string { return r.atRest }

// Details are the single events behind the figures, oldest first.
func (r Report) Details() []string { return r.details }

// Summary is the report for a screen.
func (r Report) Summary() string {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(table, "  %s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	row("phase", "%s after %.0f s", word(r.Phase, "none"), r.Seconds)
	row("pods", "%d on legacy nodes, %d not Ready", r.PodsOnLegacyNodes, r.PodsNotReady)
	row("disruption", "%d budgets broken, %d pods deleted by castoff, %d instances ended undrained, %d times a DaemonSet pod missing",
		r.PDBViolations, r.PodsDeletedByCastoff, r.InstancesEndedUndrained, r.DaemonPodsMissing)
	row("scalers", "no scaler for %.1f s, two scalers for %.1f s, Cluster Autoscaler at %d, %d NodeClaims",
		r.UnservedSeconds, r.DoubleServedSeconds, r.CAReplicas, r.NodeClaims)
	for _, name := range slices.Sorted(maps.Keys(r.Groups)) {
		row("group "+name, "%s", r.Groups[name])
	}
	row("castoff's calls", "%d to Kubernetes, %d to AWS", r.CastoffAPICalls.Kubernetes, r.CastoffAPICalls.AWS)
	_ = table.Flush() // a strings.Builder takes everything
	return text.String()
}

// String is min/max/desired.
func (g GroupSize) String() string {
	return fmt.Sprintf("%d/%d/%d (min/max/desired)", g.Min, g.Max, g.Desired)
}

func word(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}
