package state

import (
	"context"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// account reads the AWS side.
type account struct {
	cluster string
	asg     *autoscaling.Client
	alarms  *cloudwatch.Client
	ec2     *ec2.Client
	eks     *eks.Client
	events  *eventbridge.Client
	iam     *iam.Client
	sqs     *sqs.Client
}

func newAccount(cfg aws.Config, cluster string) account {
	return account{
		cluster: cluster, asg: autoscaling.NewFromConfig(cfg), alarms: cloudwatch.NewFromConfig(cfg), ec2: ec2.NewFromConfig(cfg),
		eks: eks.NewFromConfig(cfg), events: eventbridge.NewFromConfig(cfg), iam: iam.NewFromConfig(cfg), sqs: sqs.NewFromConfig(cfg),
	}
}

func (a account) read(ctx context.Context, s *State) error {
	for what, read := range map[string]func(context.Context, *State) error{
		"Auto Scaling groups": a.groups, "policies and schedules": a.policies, "alarms": a.watched, "node groups": a.nodeGroups, "access": a.access,
		"roles": a.roles, "queues and rules": a.interruption, "launch templates and instances": a.machines,
	} {
		if err := read(ctx, s); err != nil {
			return fmt.Errorf("reading %s: %w", what, err)
		}
	}
	return nil
}

func groupObject(name *string) string { return "group " + aws.ToString(name) }

// groups tells instances by their number: which ones they are is what may differ.
func (a account) groups(ctx context.Context, s *State) error {
	pages := autoscaling.NewDescribeAutoScalingGroupsPaginator(a.asg, &autoscaling.DescribeAutoScalingGroupsInput{})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, group := range page.AutoScalingGroups {
			object, counts := groupObject(group.AutoScalingGroupName), map[string]int{}
			for _, instance := range group.Instances {
				counts[fmt.Sprintf("%s protected=%t", instance.LifecycleState, aws.ToBool(instance.ProtectedFromScaleIn))]++
			}
			hooks, err := a.asg.DescribeLifecycleHooks(ctx, &autoscaling.DescribeLifecycleHooksInput{AutoScalingGroupName: group.AutoScalingGroupName})
			if err != nil {
				return err
			}
			for path, value := range map[string]any{"": group, "instances": counts, "hooks": hooks.LifecycleHooks} {
				if err := s.add(object, path, value, "Instances"); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (a account) policies(ctx context.Context, s *State) error {
	policies := autoscaling.NewDescribePoliciesPaginator(a.asg, &autoscaling.DescribePoliciesInput{})
	for policies.HasMorePages() {
		page, err := policies.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, policy := range page.ScalingPolicies {
			if err := s.add(groupObject(policy.AutoScalingGroupName), "policies["+aws.ToString(policy.PolicyName)+"]", policy); err != nil {
				return err
			}
		}
	}
	schedules := autoscaling.NewDescribeScheduledActionsPaginator(a.asg, &autoscaling.DescribeScheduledActionsInput{})
	for schedules.HasMorePages() {
		page, err := schedules.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, action := range page.ScheduledUpdateGroupActions {
			without := []string{"ScheduledActionARN", "Time"} // ARN has an id
			if action.Recurrence != nil {
				without = append(without, "StartTime") // the next time that it acts
			}
			if err := s.add(groupObject(action.AutoScalingGroupName), "schedules["+aws.ToString(action.ScheduledActionName)+"]", action, without...); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a account) watched(ctx context.Context, s *State) error {
	pages := cloudwatch.NewDescribeAlarmsPaginator(a.alarms, &cloudwatch.DescribeAlarmsInput{})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, alarm := range page.MetricAlarms {
			err := s.add("alarm "+aws.ToString(alarm.AlarmName), "", alarm, "AlarmConfigurationUpdatedTimestamp", "StateUpdatedTimestamp",
				"StateTransitionedTimestamp", "StateValue", "StateReason", "StateReasonData")
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (a account) nodeGroups(ctx context.Context, s *State) error {
	list, err := a.eks.ListNodegroups(ctx, &eks.ListNodegroupsInput{ClusterName: &a.cluster})
	if err != nil {
		return err
	}
	for _, name := range list.Nodegroups {
		out, err := a.eks.DescribeNodegroup(ctx, &eks.DescribeNodegroupInput{ClusterName: &a.cluster, NodegroupName: &name})
		if err != nil {
			return err
		}
		if err := s.add("managed node group "+name, "", out.Nodegroup, "ModifiedAt"); err != nil {
			return err
		}
	}
	return nil
}

// access is who may join, and who is whom.
func (a account) access(ctx context.Context, s *State) error {
	entries, err := a.eks.ListAccessEntries(ctx, &eks.ListAccessEntriesInput{ClusterName: &a.cluster})
	if err != nil {
		return err
	}
	for _, principal := range entries.AccessEntries {
		out, err := a.eks.DescribeAccessEntry(ctx, &eks.DescribeAccessEntryInput{ClusterName: &a.cluster, PrincipalArn: &principal})
		if err != nil {
			return err
		}
		if err := s.add("access entry "+principal, "", out.AccessEntry, "AccessEntryArn", "ModifiedAt"); err != nil {
			return err
		}
	}
	associations, err := a.eks.ListPodIdentityAssociations(ctx, &eks.ListPodIdentityAssociationsInput{ClusterName: &a.cluster})
	if err != nil {
		return err
	}
	for _, association := range associations.Associations {
		out, err := a.eks.DescribePodIdentityAssociation(ctx, &eks.DescribePodIdentityAssociationInput{ClusterName: &a.cluster, AssociationId: association.AssociationId})
		if err != nil {
			return err
		}
		object := "pod identity " + aws.ToString(association.Namespace) + "/" + aws.ToString(association.ServiceAccount)
		if err := s.add(object, "", out.Association, "AssociationArn", "AssociationId", "ModifiedAt"); err != nil {
			return err
		}
	}
	return nil
}

func (a account) roles(ctx context.Context, s *State) error {
	roles := iam.NewListRolesPaginator(a.iam, &iam.ListRolesInput{})
	for roles.HasMorePages() {
		page, err := roles.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, role := range page.Roles {
			object := "role " + aws.ToString(role.RoleName)
			inline, err := a.iam.ListRolePolicies(ctx, &iam.ListRolePoliciesInput{RoleName: role.RoleName})
			if err != nil {
				return err
			}
			attached, err := a.iam.ListAttachedRolePolicies(ctx, &iam.ListAttachedRolePoliciesInput{RoleName: role.RoleName})
			if err != nil {
				return err
			}
			for path, value := range map[string]any{"": role, "inline": inline.PolicyNames, "attached": attached.AttachedPolicies} {
				if err := s.add(object, path, value, "RoleLastUsed"); err != nil {
					return err
				}
			}
		}
	}
	profiles := iam.NewListInstanceProfilesPaginator(a.iam, &iam.ListInstanceProfilesInput{})
	for profiles.HasMorePages() {
		page, err := profiles.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, profile := range page.InstanceProfiles {
			if err := s.add("instance profile "+aws.ToString(profile.InstanceProfileName), "", profile, "RoleLastUsed"); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a account) interruption(ctx context.Context, s *State) error {
	queues, err := a.sqs.ListQueues(ctx, &sqs.ListQueuesInput{})
	if err != nil {
		return err
	}
	for _, queue := range queues.QueueUrls {
		if err := s.add("queue "+queue, "", nil); err != nil {
			return err
		}
	}
	rules, err := a.events.ListRules(ctx, &eventbridge.ListRulesInput{})
	if err != nil {
		return err
	}
	for _, rule := range rules.Rules {
		targets, err := a.events.ListTargetsByRule(ctx, &eventbridge.ListTargetsByRuleInput{Rule: rule.Name})
		if err != nil {
			return err
		}
		for path, value := range map[string]any{"": rule, "targets": targets.Targets} {
			if err := s.add("rule "+aws.ToString(rule.Name), path, value); err != nil {
				return err
			}
		}
	}
	return nil
}

// machines are what Karpenter makes in EC2 by itself: launch templates, and instances of no group.
func (a account) machines(ctx context.Context, s *State) error {
	templates := ec2.NewDescribeLaunchTemplatesPaginator(a.ec2, &ec2.DescribeLaunchTemplatesInput{})
	for templates.HasMorePages() {
		page, err := templates.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, template := range page.LaunchTemplates {
			if err := s.add("launch template "+aws.ToString(template.LaunchTemplateName), "", template); err != nil {
				return err
			}
		}
	}
	alive := []string{string(ec2types.InstanceStateNamePending), string(ec2types.InstanceStateNameRunning)}
	instances := ec2.NewDescribeInstancesPaginator(a.ec2, &ec2.DescribeInstancesInput{Filters: []ec2types.Filter{{Name: aws.String("instance-state-name"), Values: alive}}})
	alone := 0
	for instances.HasMorePages() {
		page, err := instances.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, reservation := range page.Reservations {
			for _, instance := range reservation.Instances {
				if !slices.ContainsFunc(instance.Tags, func(t ec2types.Tag) bool { return aws.ToString(t.Key) == "aws:autoscaling:groupName" }) {
					alone++
				}
			}
		}
	}
	return s.add("instances of no group", "count", alone)
}
