package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/plan"
)

func tagged(managed bool, tags ...string) inventory.NodeGroup {
	g := inventory.NodeGroup{Name: "general", AutoScalingGroup: "general-asg"}
	if managed {
		g.Managed = &inventory.ManagedNodeGroup{}
	}
	for i := 0; i < len(tags); i += 2 {
		g.Tags = append(g.Tags, inventory.Tag{Key: tags[i], Value: tags[i+1]})
	}
	return g
}

func TestEdits(t *testing.T) {
	scheduled := tagged(false, "ManagedBy", "terraform")
	scheduled.ScheduledActions = []inventory.ScheduledAction{{Name: "morning"}}
	scheduled.ScalingPolicies = []inventory.ScalingPolicy{{Name: "cpu"}}
	cases := map[string]struct {
		reason        string
		group         inventory.NodeGroup
		owner         string
		before, after []string // parts
	}{
		"Terraform": {
			reason: "sizes, and what castoff suspends", group: tagged(false, "terraform", "true"), owner: "Terraform",
			before: []string{"aws_autoscaling_group", "# general-asg", "min_size, max_size, desired_capacity, suspended_processes"}, after: []string{"max_size         = 0", "remove the resource"},
		},
		"TerraformManaged": {
			reason: "EKS takes no max of 0", group: tagged(true, "terraform", "true"), owner: "Terraform",
			before: []string{"aws_eks_node_group", "# general\n", "ignore_changes = [scaling_config]"}, after: []string{"max_size     = 1", "desired_size = 0"},
		},
		"TerraformSchedules": {
			reason: "what an apply would bring back is named", group: scheduled, owner: "Terraform",
			before: []string{`aws_autoscaling_schedule "morning"`, `aws_autoscaling_policy "cpu"`}, after: []string{"max_size         = 0"},
		},
		"CloudFormation": {
			reason: "the stack and the resource are known by AWS's own tags", owner: "CloudFormation (stack prod-nodes)",
			group:  tagged(false, "aws:cloudformation:stack-name", "prod-nodes", "aws:cloudformation:logical-id", "Workers"),
			before: []string{"Do not update the stack prod-nodes while"}, after: []string{"  Workers: # general", `MaxSize: "0"`},
		},
		"CloudFormationManaged": {
			reason: "without a logical ID the resource has a placeholder", owner: "CloudFormation (stack prod-nodes)",
			group:  tagged(true, "aws:cloudformation:stack-name", "prod-nodes"),
			before: []string{"stack prod-nodes"}, after: []string{"  NodeGroup: # general", "{MinSize: 0, MaxSize: 1, DesiredSize: 0}"},
		},
		"Eksctl": {
			reason: "eksctl's own name for the group", group: tagged(false, "alpha.eksctl.io/nodegroup-name", "ng-1"), owner: "eksctl (nodegroup ng-1)",
			before: []string{"Do not run eksctl"}, after: []string{"nodeGroups:\n- name: ng-1\n", "maxSize: 0", "eksctl delete nodegroup --cluster prod --name ng-1"},
		},
		"EksctlManaged": {
			reason: "managed groups are in another list", group: tagged(true, "alpha.eksctl.io/nodegroup-name", "ng-1"), owner: "eksctl (nodegroup ng-1)",
			before: []string{"Do not run eksctl"}, after: []string{"managedNodeGroups:\n- name: ng-1\n", "maxSize: 1"},
		},
		"Word": {
			reason: "the user's own word, of a tool that castoff does not know", group: tagged(false, "castoff.sh/owner", "Pulumi"), owner: "Pulumi",
			before: []string{"Keep Pulumi from applying"}, after: []string{"min 0, max 0, desired 0"},
		},
		"WordManaged": {
			reason: "EKS takes no max of 0", group: tagged(true, "castoff.sh/owner", "Crossplane"), owner: "Crossplane",
			before: []string{"Keep Crossplane from applying"}, after: []string{"min 0, max 1, desired 0"},
		},
		"WordTerraform": {
			reason: "the user's word may name a tool that castoff knows", group: tagged(false, "castoff.sh/owner", "terraform, team edge"), owner: "terraform, team edge",
			before: []string{"ignore_changes"}, after: []string{"max_size         = 0"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := plan.World{Cluster: inventory.Cluster{Name: "prod"}, Pools: []inventory.Pool{{Name: "p", NodeGroups: []string{"general"}}}, Groups: []inventory.NodeGroup{tagged(false), tc.group}}
			w.Groups[0].Name = "home"
			got := edits(w)
			if len(got) != 1 || got[0].NodeGroup != "general" || got[0].Owner != tc.owner {
				t.Fatalf("%s: %+v", tc.reason, got)
			}
			for _, part := range tc.before {
				if !strings.Contains(got[0].Before, part) {
					t.Errorf("%s: want %q in %q", tc.reason, part, got[0].Before)
				}
			}
			for _, part := range tc.after {
				if !strings.Contains(got[0].After, part) {
					t.Errorf("%s: want %q in %q", tc.reason, part, got[0].After)
				}
			}
		})
	}
}

func TestNobodysGroupsNeedNoEdits(t *testing.T) {
	w := plan.World{Pools: []inventory.Pool{{Name: "p", NodeGroups: []string{"general", "gone"}}}, Groups: []inventory.NodeGroup{tagged(false)}}
	if diff := cmp.Diff([]edit(nil), edits(w)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
