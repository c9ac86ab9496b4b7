package translate

import (
	"fmt"
	"strings"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// remainder lists everything else that a group has and the target cannot express.
func (p *pool) remainder() {
	for _, g := range p.groups {
		p.remainderOfTemplate(g)
		p.remainderOfGroup(g)
	}
}

func (p *pool) remainderOfTemplate(g inventory.NodeGroup) {
	lt := g.LaunchTemplate
	if lt.KeyName != "" {
		p.note(g, "keyName "+lt.KeyName, "Karpenter launches without an SSH key.", "Use SSM Session Manager, or add the key in spec.userData.")
	}
	if lt.CapacityReservation != "" {
		p.note(g, "capacityReservation "+lt.CapacityReservation, "Reserved capacity is not translated in this version.", "Add capacityReservationSelectorTerms and the capacity type reserved by hand.")
	}
	if lt.Tenancy == "host" {
		p.note(g, "tenancy host", "Karpenter does not launch onto dedicated hosts.", "Leave this group to Cluster Autoscaler.")
	}
	if lt.EBSOptimized != nil && !*lt.EBSOptimized {
		p.note(g, "ebsOptimized false", "Karpenter's instances are EBS-optimised wherever the type allows.", "Nothing.")
	}
	if lt.Metadata != nil && lt.Metadata.Tags == "enabled" {
		p.note(g, "metadataOptions.instanceMetadataTags", "An EC2NodeClass cannot turn instance tags in the metadata service on.", "Pods that read tags there need another way.")
	}
	if custom(lt.UserData) {
		p.note(g, "userData", "The user data does more than join the cluster; only its node labels and taints are carried over in this version.",
			"Put the rest into the EC2NodeClass's spec.userData before the hand-over.")
	}
	for _, field := range lt.Other {
		p.note(g, "launchTemplate."+field, "castoff does not know this setting.", "Check whether the nodes need it, and set it in the EC2NodeClass by hand.")
	}
}

func (p *pool) remainderOfGroup(g inventory.NodeGroup) {
	if m := g.MixedInstances; m != nil {
		if m.SpotMaxPrice != "" {
			p.note(g, "spotMaxPrice "+m.SpotMaxPrice, "Karpenter never pays more than the on-demand price, and knows no other bound.", "Nothing, or restrict the instance types.")
		}
		for _, o := range m.Overrides {
			if o.Weight != "" && o.Weight != "1" {
				p.note(g, "weight "+o.Weight+" of "+o.InstanceType, "Karpenter counts what pods ask for, not weights.", "Nothing.")
			}
		}
	}
	if len(g.LifecycleHooks) > 0 {
		p.note(g, fmt.Sprintf("%d lifecycle hooks", len(g.LifecycleHooks)), "Karpenter's instances are in no Auto Scaling group, so its lifecycle hooks do not run.", "Move what they do to a DaemonSet or to EventBridge.")
	}
	if g.WarmPool {
		p.note(g, "warmPool", "Karpenter keeps no stopped instances.", "Nothing; measure how long a node takes to be Ready.")
	}
	p.note(g, fmt.Sprintf("maxSize %d", g.Max), "A NodePool is limited by resources, not by a number of nodes; none is set.", "Set spec.limits on the NodePool to what you are ready to pay for.")
}

// custom says whether user data does anything but join the cluster. Comments, boundaries and the join itself do not count.
func custom(userData string) bool {
	if strings.Contains(userData, "node.eks.aws") && !strings.Contains(userData, "#!/") {
		return false
	}
	for line := range strings.Lines(userData) {
		line = strings.TrimSpace(line)
		switch {
		case line == "", strings.HasPrefix(line, "#"), strings.HasPrefix(line, "--"), strings.HasPrefix(line, "MIME-Version"),
			strings.HasPrefix(line, "Content-"), strings.HasPrefix(line, "set "), strings.Contains(line, "/etc/eks/bootstrap.sh"):
		default:
			return true
		}
	}
	return false
}
