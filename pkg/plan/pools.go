package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// The findings of Pools.
const (
	CheckNoHome            = "NoHome"
	CheckNoNodeGroup       = "NoNodeGroup"
	CheckNodeGroupNotFound = "NodeGroupNotFound"
	CheckHomeInPool        = "HomeInPool"
	CheckGroupInTwoPools   = "NodeGroupInTwoPools"
	CheckPoolsNotNamed     = "PoolsNotNamed"
)

// maxName is the longest name of a NodePool that can be a label value (Kubernetes, "Labels and Selectors").
const maxName = 63

// Pools works out which group stays, and which groups become which pool: as the spec says, else every group that a Cluster
// Autoscaler manages but the home, groups equal but for zone together. Findings say what stands in the way.
func Pools(spec v1alpha1.MigrationSpec, groups []inventory.NodeGroup, autoscalers []inventory.Autoscaler) (home string, pools []inventory.Pool, findings []inventory.Finding) {
	home, f := homeOf(spec, groups, autoscalers)
	if f != nil {
		findings = append(findings, *f)
	}
	if len(spec.Pools) > 0 {
		pools, named := namedPools(spec.Pools, groups, home)
		return home, pools, append(findings, named...)
	}
	managed := managedGroups(groups, autoscalers, home)
	switch {
	case len(groups) == 0:
		findings = append(findings, block(CheckNoNodeGroup, "cluster/"+spec.ClusterName, "No node group of this cluster was found: no managed node group, and no Auto Scaling group tagged kubernetes.io/cluster/"+spec.ClusterName+". Tag the groups, or name them in spec.pools."))
	case len(autoscalers) == 0:
		findings = append(findings, block(CheckPoolsNotNamed, "cluster/"+spec.ClusterName, "No Cluster Autoscaler was found, so castoff does not know which groups are to migrate: name them in spec.pools."))
	case len(managed) == 0:
		findings = append(findings, block(CheckNoNodeGroup, "cluster/"+spec.ClusterName, "Cluster Autoscaler manages no group but the home: name the groups in spec.pools, or check its discovery tags."))
	}
	return home, alike(managed), findings
}

func block(check, object, message string) inventory.Finding {
	return inventory.Finding{Check: check, Severity: v1alpha1.SeverityBlock, Object: object, Message: message}
}

// homeOf returns the group that stays. By default that is an untainted on-demand group of at least one node, first one that
// Cluster Autoscaler leaves alone, then one that may have two nodes, then the smallest by its max size: what runs the cluster usually
// sits apart and is small. How many nodes there are just now has no say in it, or the home would change while somebody reads the plan.
func homeOf(spec v1alpha1.MigrationSpec, groups []inventory.NodeGroup, autoscalers []inventory.Autoscaler) (string, *inventory.Finding) {
	if spec.Home != nil {
		if _, ok := group(groups, spec.Home.NodeGroup); !ok {
			f := block(CheckNodeGroupNotFound, "nodegroup/"+spec.Home.NodeGroup, "spec.home names a node group that does not exist. Groups of this cluster: "+names(groups)+".")
			return spec.Home.NodeGroup, &f
		}
		return spec.Home.NodeGroup, nil
	}
	var fit []inventory.NodeGroup
	for _, g := range groups {
		inPool := slices.ContainsFunc(spec.Pools, func(p v1alpha1.Pool) bool { return slices.Contains(p.NodeGroups, g.Name) })
		if !inPool && onDemand(g) && !tainted(g) && g.Desired > 0 {
			fit = append(fit, g)
		}
	}
	if len(fit) < 1 || (len(fit) == len(groups) && len(groups) == 1) {
		f := block(CheckNoHome, "cluster/"+spec.ClusterName, "No group can be the home of Karpenter, CoreDNS and castoff: that needs an untainted on-demand group that does not migrate. Make one of two nodes, and name it in spec.home.nodeGroup.")
		return "", &f
	}
	best := slices.MinFunc(fit, func(a, b inventory.NodeGroup) int {
		return cmp.Or(cmp.Compare(managers(a, autoscalers), managers(b, autoscalers)), cmp.Compare(min(b.Max, enough), min(a.Max, enough)), cmp.Compare(a.Max, b.Max), cmp.Compare(a.Name, b.Name))
	})
	return best.Name, nil
}

// enough nodes for two replicas of the engine, which do not share one.
const enough = 2

func managers(g inventory.NodeGroup, autoscalers []inventory.Autoscaler) int {
	n := 0
	for _, a := range autoscalers {
		if a.Manages(g) {
			n++
		}
	}
	return n
}

func onDemand(g inventory.NodeGroup) bool {
	switch {
	case g.Managed != nil && g.Managed.CapacityType != "" && g.Managed.CapacityType != "ON_DEMAND":
		return false
	case g.MixedInstances != nil && g.MixedInstances.OnDemandPercentage < 100:
		return false
	}
	return !g.LaunchTemplate.Spot
}

// tainted goes by what EKS and the template tag for Cluster Autoscaler say; a self-managed group's own taints are only in
// its user data, which is not read here.
func tainted(g inventory.NodeGroup) bool {
	if g.Tainted {
		return true
	}
	if g.Managed != nil && len(g.Managed.Taints) > 0 {
		return true
	}
	if strings.Contains(g.LaunchTemplate.UserData, "register-with-taints") {
		return true
	}
	return slices.ContainsFunc(g.Tags, func(t inventory.Tag) bool {
		return strings.HasPrefix(t.Key, "k8s.io/cluster-autoscaler/node-template/taint/")
	})
}

// namedPools checks the pools that the user named.
func namedPools(spec []v1alpha1.Pool, groups []inventory.NodeGroup, home string) (pools []inventory.Pool, findings []inventory.Finding) {
	owner := map[string]string{}
	for _, p := range spec {
		pools = append(pools, inventory.Pool{Name: p.Name, NodeGroups: slices.Clone(p.NodeGroups)})
		for _, name := range p.NodeGroups {
			f := inventory.Finding{}
			_, found := group(groups, name)
			switch {
			case !found:
				f = block(CheckNodeGroupNotFound, "nodegroup/"+name, "spec.pools["+p.Name+"] names a node group that does not exist. Groups of this cluster: "+names(groups)+".")
			case name == home:
				f = block(CheckHomeInPool, "nodegroup/"+name, "The group is the home and in pool "+p.Name+": Karpenter must not run on nodes that go away. Take it out of the pool, or name another home.")
			case owner[name] != "":
				f = block(CheckGroupInTwoPools, "nodegroup/"+name, "The group is in pools "+owner[name]+" and "+p.Name+": a node belongs to one pool.")
			}
			owner[name] = p.Name
			if f.Check != "" {
				f.Pool = p.Name
				findings = append(findings, f)
			}
		}
	}
	return pools, findings
}

func managedGroups(groups []inventory.NodeGroup, autoscalers []inventory.Autoscaler, home string) []inventory.NodeGroup {
	var out []inventory.NodeGroup
	for _, g := range groups {
		if g.Name != home && managers(g, autoscalers) > 0 {
			out = append(out, g)
		}
	}
	return out
}

// alike puts groups that differ only in zone and size into one pool. Their order is kept.
func alike(groups []inventory.NodeGroup) []inventory.Pool {
	byShape := map[string][]string{}
	var shapes []string
	for _, g := range groups {
		s := shape(g)
		if byShape[s] == nil {
			shapes = append(shapes, s)
		}
		byShape[s] = append(byShape[s], g.Name)
	}
	var pools []inventory.Pool
	taken := map[string]bool{}
	for _, s := range shapes {
		members := byShape[s]
		pools = append(pools, inventory.Pool{Name: unique(poolName(members), taken), NodeGroups: members})
	}
	return pools
}

// shape is everything that a node of the group is, as far as a workload could see it, in a comparable form.
func shape(g inventory.NodeGroup) string {
	lt := g.LaunchTemplate
	lt.ID, lt.Name, lt.Version, lt.Asked, lt.Tags = "", "", "", "", nil
	var labels map[string]string
	var taints []corev1.Taint
	var managed []any
	if m := g.Managed; m != nil {
		labels, taints = m.Labels, m.Taints
		managed = []any{m.AMIType, m.CapacityType, m.InstanceTypes, m.DiskSizeGiB, m.NodeRole}
	}
	var templates []inventory.Tag
	for _, t := range g.Tags {
		if strings.HasPrefix(t.Key, "k8s.io/cluster-autoscaler/node-template/") {
			templates = append(templates, t)
		}
	}
	lt.SecurityGroups = slices.Sorted(slices.Values(lt.SecurityGroups))
	slices.SortFunc(templates, func(a, b inventory.Tag) int { return cmp.Compare(a.Key, b.Key) })
	b, err := json.Marshal([]any{lt, g.MixedInstances, labels, taints, managed, templates})
	if err != nil {
		return g.Name // cannot be compared: a pool of its own
	}
	return string(b)
}

// poolName is the groups' common beginning, or the first one's name.
func poolName(groups []string) string {
	name := groups[0]
	for _, g := range groups[1:] {
		for !strings.HasPrefix(g, name) {
			name = name[:len(name)-1]
		}
	}
	name = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, name)
	name = strings.Trim(name[:min(len(name), maxName)], "-")
	if name == "" {
		return "pool"
	}
	return name
}

func unique(name string, taken map[string]bool) string {
	out := name
	for i := 2; taken[out]; i++ {
		suffix := fmt.Sprintf("-%d", i)
		out = strings.TrimRight(name[:min(len(name), maxName-len(suffix))], "-") + suffix
	}
	taken[out] = true
	return out
}

func names(groups []inventory.NodeGroup) string {
	var out []string
	for _, g := range groups {
		out = append(out, g.Name)
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, ", ")
}
