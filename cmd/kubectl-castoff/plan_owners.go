package main

import (
	"fmt"
	"strings"

	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/plan"
)

// edit is what the owner of a node group has to change, so that the next apply does not undo the migration.
type edit struct {
	NodeGroup string `json:"nodeGroup"`
	Owner     string `json:"owner"`
	// Before the migration starts, so that sizes stay as castoff sets them; After it, when the group is at its end size.
	Before string `json:"before"`
	After  string `json:"after"`
}

// edits are those for the groups of the pools that somebody else keeps.
func edits(w plan.World) []edit {
	var out []edit
	for _, p := range w.Pools {
		for _, g := range groupsOf(p, w.Groups) {
			owner := g.Owner()
			if owner == "" {
				continue
			}
			e := editOf(owner, w.Cluster.Name, g)
			e.NodeGroup, e.Owner = g.Name, owner
			out = append(out, e)
		}
	}
	return out
}

func editOf(owner, cluster string, g inventory.NodeGroup) edit {
	lower := strings.ToLower(owner)
	switch {
	case strings.HasPrefix(lower, "terraform"):
		return terraform(g)
	case strings.HasPrefix(lower, "cloudformation"):
		return cloudFormation(owner, g)
	case strings.HasPrefix(lower, "eksctl"):
		return eksctl(cluster, g)
	}
	sizes := "min 0, max 0, desired 0"
	if g.Managed != nil {
		sizes = "min 0, max 1, desired 0"
	}
	return edit{
		Before: fmt.Sprintf("Keep %s from applying the group's sizes and suspended processes.", owner),
		After:  fmt.Sprintf("Set the group to %s where it is defined, and then remove it there. castoff does not delete it.", sizes),
	}
}

// terraform's provider has no way to keep one attribute but lifecycle.ignore_changes.
func terraform(g inventory.NodeGroup) edit {
	if g.Managed != nil {
		return edit{
			Before: "resource \"aws_eks_node_group\" \"NAME\" { # " + g.Name + "\n  lifecycle {\n    ignore_changes = [scaling_config]\n  }\n}",
			After: "resource \"aws_eks_node_group\" \"NAME\" { # " + g.Name + "\n  scaling_config {\n    min_size     = 0\n    max_size     = 1\n    desired_size = 0\n  }\n}\n" +
				"# and when the retention is over, remove the resource: castoff does not delete it",
		}
	}
	before := "resource \"aws_autoscaling_group\" \"NAME\" { # " + g.AutoScalingGroup + "\n  lifecycle {\n    ignore_changes = [\n" +
		"      min_size, max_size, desired_capacity, suspended_processes,\n      max_instance_lifetime, capacity_rebalance, tag,\n    ]\n  }\n}"
	return edit{
		Before: strings.Join(append([]string{before}, schedules(g)...), "\n"),
		After: "resource \"aws_autoscaling_group\" \"NAME\" { # " + g.AutoScalingGroup + "\n  min_size         = 0\n  max_size         = 0\n  desired_capacity = 0\n}\n" +
			"# and when the retention is over, remove the resource: castoff does not delete it",
	}
}

// schedules names what scales the group besides Cluster Autoscaler: resources of their own, which an apply would bring back.
func schedules(g inventory.NodeGroup) []string {
	var out []string
	for _, s := range g.ScheduledActions {
		out = append(out, "# remove the aws_autoscaling_schedule \""+s.Name+"\": castoff removes the action")
	}
	for _, p := range g.ScalingPolicies {
		out = append(out, "# set enabled = false on the aws_autoscaling_policy \""+p.Name+"\": castoff disables it")
	}
	return out
}

func cloudFormation(owner string, g inventory.NodeGroup) edit {
	resource := "NodeGroup"
	if id, ok := g.Tag("aws:cloudformation:logical-id"); ok {
		resource = id
	}
	e := edit{Before: "Do not update the " + strings.TrimSuffix(strings.TrimPrefix(owner, "CloudFormation ("), ")") + " while the migration runs: an update of the group sets its sizes back."}
	if g.Managed != nil {
		e.After = "Resources:\n  " + resource + ": # " + g.Name + "\n    Properties:\n      ScalingConfig: {MinSize: 0, MaxSize: 1, DesiredSize: 0}"
	} else {
		e.After = "Resources:\n  " + resource + ": # " + g.Name + "\n    Properties:\n      MinSize: \"0\"\n      MaxSize: \"0\"\n      DesiredCapacity: \"0\""
	}
	e.After += "\n# and when the retention is over, remove the resource: castoff does not delete it"
	return e
}

func eksctl(cluster string, g inventory.NodeGroup) edit {
	name, list, most := g.Name, "nodeGroups", 0
	if g.Managed != nil {
		list, most = "managedNodeGroups", 1
		if n, ok := g.Managed.Tags["alpha.eksctl.io/nodegroup-name"]; ok {
			name = n
		}
	}
	if n, ok := g.Tag("alpha.eksctl.io/nodegroup-name"); ok {
		name = n
	}
	return edit{
		Before: "Do not run eksctl scale, upgrade or delete on the node group while the migration runs.",
		After:  fmt.Sprintf("%s:\n- name: %s\n  minSize: 0\n  maxSize: %d\n  desiredCapacity: 0\n# and when the retention is over: eksctl delete nodegroup --cluster %s --name %s", list, name, most, cluster, name),
	}
}
