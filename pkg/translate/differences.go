package translate

import (
	"encoding/json"
	"slices"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// facet is a setting of which a pool has one: that of its first group.
type facet struct {
	field string
	of    func(inventory.NodeGroup) any
}

var facets = []facet{
	{"blockDeviceMappings", func(g inventory.NodeGroup) any { return g.LaunchTemplate.BlockDevices }},
	{"diskSize", func(g inventory.NodeGroup) any {
		if g.Managed == nil {
			return 0
		}
		return g.Managed.DiskSizeGiB
	}},
	{"metadataOptions", func(g inventory.NodeGroup) any { return g.LaunchTemplate.Metadata }},
	{"associatePublicIpAddress", func(g inventory.NodeGroup) any { return g.LaunchTemplate.AssociatePublicIP }},
	{"monitoring", func(g inventory.NodeGroup) any { return g.LaunchTemplate.DetailedMonitoring }},
	{"placement.tenancy", func(g inventory.NodeGroup) any { return g.LaunchTemplate.Tenancy }},
	{"placement.groupName", func(g inventory.NodeGroup) any { return g.LaunchTemplate.PlacementGroup }},
	{"userData", func(g inventory.NodeGroup) any {
		u := readUserData(g.LaunchTemplate.UserData)
		return []any{u.written(), u.kubelet, u.raid0}
	}},
	{"networkInterfaces", func(g inventory.NodeGroup) any { return g.LaunchTemplate.NetworkInterfaces }},
	{"maxInstanceLifetime", func(g inventory.NodeGroup) any { return g.MaxInstanceLifetime }},
}

// shared are settings of which the pool's nodes get those of all groups.
var shared = []facet{
	{"security groups", func(g inventory.NodeGroup) any { return slices.Sorted(slices.Values(g.LaunchTemplate.SecurityGroups)) }},
	{"taints", func(g inventory.NodeGroup) any {
		alone := &pool{groups: []inventory.NodeGroup{g}}
		_, taints := alone.labelsAndTaints()
		return taints
	}},
	{"label keys", func(g inventory.NodeGroup) any {
		alone := &pool{groups: []inventory.NodeGroup{g}}
		labels, _ := alone.labelsAndTaints()
		delete(labels, labelNodeGroup)
		delete(labels, labelCapacityType)
		return sortedKeys(labels)
	}},
}

// differences lists what the groups of a pool do not have in common: they become one NodePool and one EC2NodeClass.
func (p *pool) differences() {
	first := p.first()
	for _, g := range p.groups[1:] {
		for _, f := range facets {
			if differ(f, g, first) {
				p.note(g, f.field, "It is not that of node group "+first.Name+", which is the one that the pool's EC2NodeClass and NodePool follow.",
					"Put the group into a pool of its own if its nodes need this.")
			}
		}
		for _, f := range shared {
			if differ(f, g, first) {
				p.note(g, f.field, "They are not those of node group "+first.Name+"; the pool's nodes get those of all its groups.",
					"Put the group into a pool of its own if that is too much.")
			}
		}
	}
}

func differ(f facet, a, b inventory.NodeGroup) bool { return words(f.of(a)) != words(f.of(b)) }

// words spells a setting out, so that what pointers point at is compared.
func words(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error() // plain data always marshals
	}
	return string(b)
}
