package translate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// The flags of Cluster Autoscaler that a NodePool has a place for (Cluster Autoscaler's FAQ, "What are the parameters to CA?"). The
// table is docs/reference/translation.md.
const (
	flagScaleDown   = "scale-down-enabled"
	flagUnneeded    = "scale-down-unneeded-time"
	flagThreshold   = "scale-down-utilization-threshold"
	flagParallel    = "max-scale-down-parallelism"
	flagEmptyBulk   = "max-empty-bulk-delete" // the older name of what it does to empty nodes
	flagDrained     = "max-drain-parallelism"
	optionUnneeded  = "scaledownunneededtime" // as a tag of a group
	defaultUnneeded = "10m"
)

// flagsOfItsOwn say how Cluster Autoscaler itself runs, or what another setting carries: they end with it.
var flagsOfItsOwn = []string{
	"address", "alsologtostderr", "aws-use-static-instance-list", "cloud-config", "cloud-provider", "cluster-name", "config-map-name", "expander", "feature-gates",
	"kube-api-content-type", "kube-client-burst", "kube-client-qps", "kubeconfig", "kubernetes", "leader-elect", "leader-elect-lease-duration",
	"leader-elect-renew-deadline", "leader-elect-resource-lock", "leader-elect-resource-name", "leader-elect-resource-namespace", "leader-elect-retry-period",
	"logtostderr", "max-inactivity", "max-failing-time", "namespace", "node-group-auto-discovery", "nodes", "profiling", "scan-interval", "skip-log-headers",
	"status-config-map-name", "stderrthreshold", "user-agent", "v", "vmodule", "write-status-configmap", "emit-per-nodegroup-metrics", "logging-format",
	flagScaleDown, flagUnneeded, flagParallel, flagEmptyBulk, flagDrained,
}

// advice for flags that have no counterpart.
var advice = map[string]string{
	flagThreshold:                     "Nothing: Karpenter removes a node whose pods fit elsewhere for less, however full it is. Set consolidationPolicy: WhenEmpty to remove empty ones only.",
	"scale-down-delay-after-add":      "Nothing: consolidateAfter counts from the last pod that came or went.",
	"scale-down-unready-time":         "Turn Karpenter's node repair on (feature gate NodeRepair).",
	"skip-nodes-with-local-storage":   "Annotate the pods that must stay with karpenter.sh/do-not-disrupt: \"true\".",
	"skip-nodes-with-system-pods":     "Annotate the pods that must stay with karpenter.sh/do-not-disrupt: \"true\", or give them a PodDisruptionBudget.",
	"balance-similar-node-groups":     "Spread the workloads: topologySpreadConstraints over topology.kubernetes.io/zone.",
	"expendable-pods-priority-cutoff": "Karpenter launches for pods of every priority: delete placeholder pods below the cutoff.",
	"max-nodes-total":                 "Set spec.limits on each NodePool.",
	"cores-total":                     "Set spec.limits.cpu on each NodePool.",
	"memory-total":                    "Set spec.limits.memory on each NodePool.",
	"max-graceful-termination-sec":    "Set terminationGracePeriod in the NodePool's template, which bounds every drain.",
}

// disruption is when nodes go: after the time for which Cluster Autoscaler leaves a node unneeded, and as many at once as it takes.
func (p *pool) disruption() karpv1.Disruption {
	p.remainderOfFlags()
	out := karpv1.Disruption{
		ConsolidateAfter: p.consolidateAfter(), ConsolidationPolicy: karpv1.ConsolidationPolicyWhenEmptyOrUnderutilized, Budgets: p.budgets(),
	}
	if v, ok := p.flag(flagScaleDown); ok && v == "false" {
		out.ConsolidationPolicy, out.ConsolidateAfter = karpv1.ConsolidationPolicyWhenEmpty, karpv1.MustParseNillableDuration(never)
	}
	return out
}

func (p *pool) flag(name string) (string, bool) {
	if p.scaling == nil {
		return "", false
	}
	v, ok := p.scaling.Flags[name]
	return v, ok
}

// consolidateAfter is the group's own time, in its tag, before the flag, before the flag's default.
func (p *pool) consolidateAfter() karpv1.NillableDuration {
	written := defaultUnneeded
	if v, ok := p.flag(flagUnneeded); ok {
		written = v
	}
	for _, t := range p.first().Tags {
		if strings.EqualFold(t.Key, tagOptions+optionUnneeded) {
			written = t.Value
		}
	}
	d, err := time.ParseDuration(written)
	if err != nil || d < 0 {
		p.note(p.first(), flagUnneeded+" "+written, "It is no duration; the NodePool has Cluster Autoscaler's default of "+defaultUnneeded+".", "Set consolidateAfter on the NodePool.")
		d, _ = time.ParseDuration(defaultUnneeded)
	}
	return karpv1.MustParseNillableDuration(inWholeUnits(d))
}

// inWholeUnits writes a duration as a NodePool takes it: no fractions, no zeros.
func inWholeUnits(d time.Duration) string {
	d = d.Round(time.Second)
	switch {
	case d%time.Minute != 0 || d == 0:
		return fmt.Sprintf("%ds", int64(d.Seconds()))
	case d%time.Hour != 0:
		return fmt.Sprintf("%dm", int64(d.Minutes()))
	}
	return fmt.Sprintf("%dh", int64(d.Hours()))
}

// budgets are Karpenter's own default unless Cluster Autoscaler was told how many nodes may go at once. A lone budget with reasons
// would leave the other reasons without bounds, so that each has one.
func (p *pool) budgets() []karpv1.Budget {
	empty, hasEmpty := p.count(flagParallel, flagEmptyBulk)
	drained, hasDrained := p.count(flagDrained)
	if !hasEmpty && !hasDrained {
		return []karpv1.Budget{{Nodes: tenth}}
	}
	return []karpv1.Budget{
		{Nodes: empty, Reasons: []karpv1.DisruptionReason{karpv1.DisruptionReasonEmpty}},
		{Nodes: drained, Reasons: []karpv1.DisruptionReason{karpv1.DisruptionReasonUnderutilized}},
		{Nodes: tenth, Reasons: []karpv1.DisruptionReason{karpv1.DisruptionReasonDrifted}},
	}
}

const tenth = "10%"

func (p *pool) count(flags ...string) (string, bool) {
	for _, f := range flags {
		if v, ok := p.flag(f); ok {
			if n, err := strconv.ParseUint(v, 10, 31); err == nil {
				return strconv.FormatUint(n, 10), true
			}
			p.note(p.first(), "--"+f+"="+v, "It is no number.", "Set spec.disruption.budgets on the NodePool.")
		}
	}
	return tenth, false
}

// remainderOfFlags lists the flags of Cluster Autoscaler that a NodePool has no place for.
func (p *pool) remainderOfFlags() {
	if p.scaling == nil {
		return
	}
	for _, name := range sortedKeys(p.scaling.Flags) {
		if slices.Contains(flagsOfItsOwn, name) {
			continue
		}
		do, ok := advice[name]
		if !ok {
			do = "Read in Cluster Autoscaler's FAQ what it does, and whether you need it."
		}
		p.note(inventory.NodeGroup{Name: p.first().Name}, "Cluster Autoscaler --"+name+"="+p.scaling.Flags[name], "A NodePool has no such setting.", do)
	}
}

// weight follows the priority expander; nil where none is set.
func (p *pool) weight() *int32 {
	if p.scaling == nil || p.scaling.Weight < 1 {
		return nil
	}
	weight := min(p.scaling.Weight, 100)
	return &weight
}
