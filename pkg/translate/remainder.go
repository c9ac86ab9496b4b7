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
		p.remainderOfMixedInstances(g)
		p.remainderOfGroup(g)
	}
}

func (p *pool) remainderOfTemplate(g inventory.NodeGroup) {
	lt := g.LaunchTemplate
	if lt.KeyName != "" {
		p.note(g, "keyName "+lt.KeyName, "Karpenter launches without an SSH key.", "Use SSM Session Manager, or add the key in spec.userData.")
	}
	if lt.CapacityReservation != "" && !reserved(g) {
		p.note(g, "capacityReservation "+lt.CapacityReservation, "An EC2NodeClass selects reservations by id or tag, and has neither preferences nor resource groups.", "Add capacityReservationSelectorTerms and the capacity type reserved by hand if the nodes are to use reservations.")
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
	if g.Managed == nil || g.Managed.OwnLaunchTemplate { // else the user data is EKS's own, and Karpenter writes the same
		p.remainderOfUserData(g)
	}
	if lt.Asked == "$Latest" || lt.Asked == "$Default" {
		p.note(g, "launch template version "+lt.Asked, "The EC2NodeClass is made from version "+lt.Version+" and does not follow the template.", "Change the EC2NodeClass where you changed the template.")
	}
	for _, field := range lt.Other {
		if strings.HasPrefix(field, "tagSpecifications[") {
			p.note(g, "launchTemplate."+field, "Karpenter gives volumes and interfaces the tags of their instance, and no others.", "Add the tag to the EC2NodeClass's spec.tags if all may carry it.")
			continue
		}
		p.note(g, "launchTemplate."+field, "castoff does not know this setting.", "Check whether the nodes need it, and set it in the EC2NodeClass by hand.")
	}
}

func (p *pool) remainderOfMixedInstances(g inventory.NodeGroup) {
	m := g.MixedInstances
	if m == nil {
		return
	}
	if m.SpotMaxPrice != "" {
		p.note(g, "spotMaxPrice "+m.SpotMaxPrice, "Karpenter never pays more than the on-demand price, and knows no other bound.", "Nothing, or restrict the instance types.")
	}
	if m.SpotStrategy != "" && m.SpotStrategy != "price-capacity-optimized" {
		p.note(g, "spotAllocationStrategy "+m.SpotStrategy, "Karpenter asks for price-capacity-optimized.", "Nothing.")
	}
	if m.OnDemandStrategy != "" && m.OnDemandStrategy != "lowest-price" {
		p.note(g, "onDemandAllocationStrategy "+m.OnDemandStrategy, "Karpenter launches the cheapest type that fits.", "Restrict the instance types if the order matters.")
	}
	for _, o := range m.Overrides {
		if o.Weight != "" && o.Weight != "1" {
			p.note(g, "weight "+o.Weight+" of "+o.InstanceType, "Karpenter counts what pods ask for, not weights.", "Nothing.")
		}
		if o.Requirements {
			p.note(g, "instanceRequirements", fmt.Sprintf("The NodePool has the %d instance types that fit today; types to come are not added.", len(o.Types)), "Replace the list by requirements on karpenter.k8s.aws labels.")
		}
	}
}

// skew lists instances that were launched from another version of the template than the one that the target is made of.
func (p *pool) skew(g inventory.NodeGroup) {
	others := map[string]int{}
	for _, i := range g.Instances {
		if i.TemplateVersion != "" && i.TemplateVersion != g.LaunchTemplate.Version {
			others[i.TemplateVersion]++
		}
	}
	for _, version := range sortedKeys(others) {
		p.note(g, "instances of version "+version, fmt.Sprintf("%d of %s launched from version %s of the launch template; the EC2NodeClass is made from version %s.", others[version], inventory.Count(len(g.Instances), "instance was", "instances were"), version, g.LaunchTemplate.Version),
			"Compare the versions: aws ec2 describe-launch-template-versions --launch-template-id "+g.LaunchTemplate.ID+".")
	}
}

func (p *pool) remainderOfGroup(g inventory.NodeGroup) {
	p.skew(g)
	if g.Managed != nil && g.Managed.CapacityType == "CAPACITY_BLOCK" && !reserved(g) {
		p.note(g, "capacityType CAPACITY_BLOCK", "The launch template names no reservation; the NodePool launches on-demand.", "Add capacityReservationSelectorTerms and the capacity type reserved by hand, or leave the group to Cluster Autoscaler.")
	}
	if g.Managed != nil && g.Managed.Repair {
		p.note(g, "nodeRepairConfig", "EKS repairs the nodes of its own groups only.", "Turn Karpenter's node repair on (feature gate NodeRepair).")
	}
	if g.CapacityRebalance {
		p.note(g, "capacityRebalance", "Karpenter acts on spot interruption warnings, not on rebalance recommendations.", "Nothing.")
	}
	if n := len(g.ScalingPolicies) + len(g.ScheduledActions); n > 0 {
		p.note(g, fmt.Sprintf("%d scaling policies and scheduled actions", n), "Karpenter launches for pods that wait, for nothing else.", "Scale the workloads at those times instead of the nodes.")
	}
	if g.NewInstancesProtected {
		p.note(g, "newInstancesProtectedFromScaleIn", "Karpenter's instances are in no Auto Scaling group.", "Annotate pods that must not be moved with karpenter.sh/do-not-disrupt.")
	}
	if g.Min > 0 {
		p.note(g, fmt.Sprintf("minSize %d", g.Min), "A NodePool has no least number of nodes: empty ones go.", "Run low-priority placeholder pods if spare capacity is needed.")
	}
	if len(g.LifecycleHooks) > 0 {
		p.note(g, fmt.Sprintf("%d lifecycle hooks", len(g.LifecycleHooks)), "Karpenter's instances are in no Auto Scaling group, so its lifecycle hooks do not run.", "Move what they do to a DaemonSet or to EventBridge.")
	}
	if g.WarmPool {
		p.note(g, "warmPool", "Karpenter keeps no stopped instances.", "Nothing; measure how long a node takes to be Ready.")
	}
	if len(p.types) == 1 {
		if spot, _ := capacityOf(g); spot {
			p.note(g, "spot with one instance type", "Spot capacity of one type runs out, and Karpenter then has no other to launch; it asks for five at least.", "Name families that the workloads can run on in spec.pools[].instanceFamilies.")
		}
	}
}

func (p *pool) remainderOfUserData(g inventory.NodeGroup) {
	u := readUserData(g.LaunchTemplate.UserData)
	if u.late {
		p.note(g, "userData", "It has commands after those that join the cluster; Karpenter runs all of the user data before the join.",
			"Check that they do not need the kubelet, or move what they do to a DaemonSet.")
	}
	for _, setting := range u.rest {
		p.note(g, "userData "+setting, "Neither an EC2NodeClass nor a NodePool has a place for it, or the value is none that they take.", "Nothing, unless the nodes need it: then see spec.kubelet and spec.userData of the EC2NodeClass.")
	}
}
