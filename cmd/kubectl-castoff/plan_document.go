package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/cost"
	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/plan"
)

// document is the plan: for machines as it is, for people as text.
type document struct {
	Cluster string `json:"cluster"`
	// Migration is the one in the cluster that this is a plan of; nil where a file was given, or there is none.
	Migration *of `json:"migration,omitempty"`
	// Underway is a Migration of the cluster that has begun where the plan is of a file: it is then as if nothing had been.
	Underway string        `json:"underway,omitempty"`
	Home     string        `json:"home"`
	Verdict  *cost.Verdict `json:"verdict,omitempty"`
	// Handovers are the waves in which the pools change hands.
	Handovers plan.Handovers `json:"handovers,omitzero"`
	Pools     []poolPlan     `json:"pools"`
	// Cost is all pools together; CostUnknown says why there is none.
	Cost        *cost.Estimate `json:"cost,omitempty"`
	CostUnknown string         `json:"costUnknown,omitempty"`
	// NotCounted are the pools that have no NodePool to count with, or one that names no instance types.
	NotCounted []string            `json:"notCounted,omitempty"`
	Region     string              `json:"region,omitempty"`
	Findings   []inventory.Finding `json:"findings,omitempty"`
	Edits      []edit              `json:"edits,omitempty"`
}

// elsewhere says that the cluster is not on AWS: there is a verdict, and nothing else.
func (d document) elsewhere() bool { return d.Verdict != nil && d.Region == "" }

type poolPlan struct {
	Name       string           `json:"name"`
	NodeGroups []string         `json:"nodeGroups"`
	Nodes      int              `json:"nodes"`
	Target     inventory.Target `json:"target"`
	// Types are those that the NodePool may launch, with what is known of their prices.
	Types []inventory.InstanceType `json:"instanceTypes,omitempty"`
	Cost  *cost.Estimate           `json:"cost,omitempty"`
}

// handoversOf are the planned ones, or those that the snapshot recorded.
func handoversOf(w plan.World) plan.Handovers {
	h := w.Handovers
	if len(h.Waves) == 0 {
		for _, pools := range w.Waves {
			h.Waves = append(h.Waves, plan.Wave{Pools: pools})
		}
	}
	return h
}

// document gathers the plan into d. What it costs is left out where it cannot be known, and why is said; all else is there without.
func (a *app) document(ctx context.Context, c client.Client, d document, m *v1alpha1.Migration, w plan.World, now time.Time) (document, error) {
	d.Cluster, d.Home, d.Region, d.Findings, d.Edits = m.Spec.ClusterName, w.Home, w.Cluster.Region, w.Findings, edits(w)
	for _, p := range w.Pools {
		d.Pools = append(d.Pools, poolPlan{Name: p.Name, NodeGroups: p.NodeGroups, Nodes: len(nodesOf(p, w.Nodes)), Target: w.Targets[p.Name]})
	}
	d.Handovers = handoversOf(w)
	var err error
	if d.Migration == nil {
		if d.Underway, err = underway(ctx, c, w.Cluster.Name); err != nil {
			return d, unreadable(err)
		}
	}
	if len(d.Pools) > 0 && !d.Migration.over() {
		pods, err := runningPods(ctx, c)
		if err != nil {
			return d, unreadable(err)
		}
		a.estimate(ctx, &d, m, w, pods)
	}
	if d.Verdict = d.Migration.verdict(); d.Verdict == nil {
		v := cost.Judge(cost.Situation{Now: now, Pools: w.Pools, Nodes: legacy(w), Targets: w.Targets, Findings: w.Findings, Total: d.Cost})
		d.Verdict = &v
	}
	return d, nil
}

// estimate adds what the pools cost.
func (a *app) estimate(ctx context.Context, d *document, m *v1alpha1.Migration, w plan.World, pods []cost.Pod) {
	var types []string
	for _, p := range w.Pools {
		types = append(types, cost.Types(groupsOf(p, w.Groups), w.Targets[p.Name])...)
	}
	slices.Sort(types)
	prices, err := a.prices(ctx, w.Cluster, slices.Compact(types))
	if err != nil {
		d.CostUnknown = unknown(err)
		return
	}
	var all []cost.Estimate
	for i, p := range w.Pools {
		if len(cost.Types(nil, w.Targets[p.Name])) == 0 {
			d.NotCounted = append(d.NotCounted, p.Name)
			continue
		}
		pool := cost.PoolOf(p.Name, groupsOf(p, w.Groups), w.Nodes, pods, w.Targets[p.Name], prices)
		pool.Batch = batch(m.Spec.Strategy.MaxUnavailableNodes, d.Pools[i].Nodes)
		e := cost.Of(pool)
		all = append(all, e)
		d.Pools[i].Cost, d.Pools[i].Types = &e, offered(w.Targets[p.Name], prices)
	}
	if len(all) > 0 {
		total := cost.Sum(all)
		d.Cost = &total
	}
}

// unknown says why there are no prices, and how to get them.
func unknown(err error) string {
	if a := action(err); a != "" && refused(err) {
		return fmt.Sprintf("Your AWS credentials may not call %s. For prices they need ec2:DescribeInstanceTypes, ec2:DescribeSpotPriceHistory and pricing:GetProducts, which only read.", a)
	}
	return fmt.Sprintf("The prices could not be read: %v.", err)
}

// batch is how many nodes of a pool are drained at once: spec.strategy.maxUnavailableNodes, by default 10 %, rounded up.
func batch(v *intstr.IntOrString, nodes int) int {
	tenth := intstr.FromString("10%")
	if v == nil {
		v = &tenth
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(v, nodes, true)
	if err != nil {
		return 1
	}
	return max(n, 1)
}

// offered are the instance types that a target's NodePool may launch, by name.
func offered(t inventory.Target, prices cost.Prices) []inventory.InstanceType {
	var out []inventory.InstanceType
	for _, name := range cost.Types(nil, t) {
		kind := prices[name]
		kind.Name = name
		out = append(out, kind)
	}
	return out
}

func groupsOf(p inventory.Pool, groups []inventory.NodeGroup) []inventory.NodeGroup {
	var out []inventory.NodeGroup
	for _, g := range groups {
		if slices.Contains(p.NodeGroups, g.Name) {
			out = append(out, g)
		}
	}
	return out
}

func nodesOf(p inventory.Pool, nodes []inventory.Node) []inventory.Node {
	var out []inventory.Node
	for _, n := range nodes {
		if slices.Contains(p.NodeGroups, n.Group) {
			out = append(out, n)
		}
	}
	return out
}

// legacy are the nodes of all pools.
func legacy(w plan.World) []inventory.Node {
	var out []inventory.Node
	for _, p := range w.Pools {
		out = append(out, nodesOf(p, w.Nodes)...)
	}
	return out
}

// providerIDs of some nodes. A cluster that does not let them be listed is asked for again, with the error, by what comes next.
func providerIDs(ctx context.Context, c client.Client) []string {
	var nodes corev1.NodeList
	if err := c.List(ctx, &nodes, client.Limit(200)); err != nil {
		return nil
	}
	var ids []string
	for _, n := range nodes.Items {
		ids = append(ids, n.Spec.ProviderID)
	}
	return ids
}
