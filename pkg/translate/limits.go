package translate

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// limits are what the groups could grow to: their largest sizes, all of the largest type. Sizes of a group with weights are units,
// of which a node is as many as its type weighs. Without limits a NodePool grows until the account's quota ends it.
func (p *pool) limits() karpv1.Limits {
	var cpus, mebibytes float64
	for _, g := range p.groups {
		p.noteUnknownTypes(g)
		cpu, memory, ok := unit(g)
		if !ok {
			p.note(g, fmt.Sprintf("maxSize %d", g.Max), "A NodePool is limited by resources, not by a number of nodes, and what the group's instance types have is not known; none is set.",
				"Set spec.limits on the NodePool to what you are ready to pay for.")
			return nil
		}
		cpus, mebibytes = cpus+cpu*float64(g.Max), mebibytes+memory*float64(g.Max)
	}
	if cpus == 0 { // a limit of zero stops a NodePool
		p.note(p.first(), "maxSize 0", "The pool's groups may have no node at all; the NodePool has no limit.", "Set spec.limits on the NodePool to what you are ready to pay for.")
		return nil
	}
	return karpv1.Limits{
		corev1.ResourceCPU:    *resource.NewQuantity(int64(math.Ceil(cpus)), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(int64(math.Ceil(mebibytes))<<20, resource.BinarySI),
	}
}

// noteUnknownTypes lists the types of a group that EC2 does not describe in the region: the group cannot launch them either. Where it
// describes none of the group's, they were not asked about, or the limits say so.
func (p *pool) noteUnknownTypes(g inventory.NodeGroup) {
	if len(g.Types) == 0 {
		return
	}
	for _, name := range typesOf(g) {
		known := slices.ContainsFunc(g.Types, func(t inventory.InstanceType) bool { return t.Name == name })
		if name != "" && !known {
			p.note(g, "instance type "+name, "EC2 does not know it in this region: neither the group nor Karpenter can launch one.", "Take it out of the group, or correct its name.")
		}
	}
}

// unit is the most that one unit of the group's size can be, in vCPUs and MiB; false where a type is not known.
func unit(g inventory.NodeGroup) (cpus, mebibytes float64, ok bool) {
	facts := map[string]inventory.InstanceType{}
	for _, t := range g.Types {
		facts[t.Name] = t
	}
	for _, name := range typesOf(g) {
		if name == "" {
			continue
		}
		t, known := facts[name]
		if !known || t.VCPUs < 1 || t.MemoryMiB < 1 {
			return 0, 0, false
		}
		weight := weightOf(g, t)
		cpus, mebibytes = max(cpus, float64(t.VCPUs)/weight), max(mebibytes, float64(t.MemoryMiB)/weight)
		ok = true
	}
	return cpus, mebibytes, ok
}

// weightOf is how many units of the group's size an instance of the type is.
func weightOf(g inventory.NodeGroup, t inventory.InstanceType) float64 {
	switch g.CapacityUnit {
	case "vcpu":
		return float64(t.VCPUs)
	case "memory-mib":
		return float64(t.MemoryMiB)
	}
	if g.MixedInstances != nil {
		for _, o := range g.MixedInstances.Overrides {
			if w, err := strconv.ParseUint(o.Weight, 10, 31); err == nil && w > 0 && o.InstanceType == t.Name {
				return float64(w)
			}
		}
	}
	return 1
}
