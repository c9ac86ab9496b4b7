package translate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// widened adds, of the families that the user named, the types that can stand for one of the groups' own: the same size, with
// nothing less. A family that adds nothing is listed with the reason: whoever named it counts on it.
func (p *pool) widened(own []string, families []inventory.InstanceFamily) []string {
	all := slices.Clone(own)
	for _, family := range families {
		added, why := p.standIns(family, own)
		if len(added) == 0 {
			p.note(p.first(), "instanceFamilies "+family.Name, "It adds no instance type to the pool: "+why+".", "Name a family whose types have what the pool's have, or take it out of the list.")
		}
		all = append(all, added...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// standIns are the family's types that can stand for one of the pool's own; why says what the last one lacks where none can.
func (p *pool) standIns(family inventory.InstanceFamily, own []string) (names []string, why string) {
	why = "EC2 has no such family in this region"
	if len(family.Types) > 0 {
		why = "it has none of their sizes"
	}
	for _, name := range own {
		for _, candidate := range family.Types {
			if size(candidate.Name) != size(name) {
				continue
			}
			t, known := p.facts(name)
			lacking := "what " + name + " has is not known"
			if known {
				lacking = lacks(candidate, t)
			}
			if lacking == "" {
				names = append(names, candidate.Name)
			} else {
				why = lacking
			}
		}
	}
	return names, why
}

// size is the part of an instance type's name after its family: 2xlarge.
func size(instanceType string) string {
	_, after, _ := strings.Cut(instanceType, ".")
	return after
}

// facts is what EC2 says of a type that the pool's groups launch.
func (p *pool) facts(name string) (inventory.InstanceType, bool) {
	for _, g := range p.groups {
		if i := slices.IndexFunc(g.Types, func(t inventory.InstanceType) bool { return t.Name == name }); i >= 0 {
			return g.Types[i], g.Types[i].VCPUs > 0 && g.Types[i].MemoryMiB > 0
		}
	}
	return inventory.InstanceType{}, false
}

// lacks says what a type does not have of what another one has, empty where it can stand for it. The network is measured by what
// it carries without bursts: a burst is gone when the pods of a busy node need it.
func lacks(candidate, t inventory.InstanceType) string {
	less := func(what string, have, want int64) string {
		return fmt.Sprintf("%s has %d %s, %s has %d", candidate.Name, have, what, t.Name, want)
	}
	switch {
	case candidate.Architecture != t.Architecture:
		return fmt.Sprintf("%s is %s, %s is %s", candidate.Name, candidate.Architecture, t.Name, t.Architecture)
	case candidate.VCPUs < t.VCPUs:
		return less("vCPUs", candidate.VCPUs, t.VCPUs)
	case candidate.MemoryMiB < t.MemoryMiB:
		return less("MiB of memory", candidate.MemoryMiB, t.MemoryMiB)
	case !maps.Equal(candidate.Accelerators, t.Accelerators):
		return fmt.Sprintf("%s has %s, %s has %s", candidate.Name, devices(candidate.Accelerators), t.Name, devices(t.Accelerators))
	case candidate.LocalStorageGB < t.LocalStorageGB:
		return less("GB of local storage", candidate.LocalStorageGB, t.LocalStorageGB)
	case t.EFA && !candidate.EFA:
		return fmt.Sprintf("%s takes no Elastic Fabric Adapter, %s does", candidate.Name, t.Name)
	case candidate.NetworkCards < t.NetworkCards:
		return less("network cards", candidate.NetworkCards, t.NetworkCards)
	case candidate.BandwidthMbps < t.BandwidthMbps:
		return less("Mbit/s of steady network", candidate.BandwidthMbps, t.BandwidthMbps)
	}
	return ""
}

// devices names accelerators: "1 NVIDIA T4".
func devices(accelerators map[string]int64) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(accelerators)) {
		out = append(out, fmt.Sprintf("%d %s", accelerators[name], name))
	}
	if len(out) == 0 {
		return "no accelerator"
	}
	return strings.Join(out, " and ")
}
