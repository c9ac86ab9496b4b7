package awssim

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/google/go-cmp/cmp"

	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
)

// clustered is a simulator with cluster "harbor" and the IAM roles "node" and "app".
type clustered struct {
	*scaled
	eks *eks.Client
}

func roleARN(name string) *string { return aws.String("arn:aws:iam::" + accountID + ":role/" + name) }

func newClustered(t *testing.T, mode types.AuthenticationMode) *clustered {
	t.Helper()
	s := newScaled(t)
	s.Advance(time.Second)
	roles := iam.NewFromConfig(s.cfg)
	for _, name := range []string{"node", "app"} {
		_, err := roles.CreateRole(ctx, &iam.CreateRoleInput{RoleName: aws.String(name), AssumeRolePolicyDocument: aws.String("{}")})
		ok(t, err)
	}
	c := &clustered{s, eks.NewFromConfig(s.cfg)}
	_, err := c.eks.CreateCluster(ctx, &eks.CreateClusterInput{
		Name: aws.String("harbor"), Version: aws.String("1.34"), RoleArn: roleARN("cluster"), ResourcesVpcConfig: &types.VpcConfigRequest{SubnetIds: []string{"subnet-a", "subnet-b", "subnet-c"}},
		AccessConfig: &types.CreateAccessConfigRequest{AuthenticationMode: mode}, Tags: map[string]string{tagEndpoint: "https://127.0.0.1:6443", tagCA: "Q0E="},
	})
	ok(t, err)
	return c
}

func (c *clustered) nodegroup(t *testing.T, name string, z sizes, change func(*eks.CreateNodegroupInput)) {
	t.Helper()
	in := &eks.CreateNodegroupInput{
		ClusterName: aws.String("harbor"), NodegroupName: aws.String(name), NodeRole: roleARN("node"), Subnets: []string{"subnet-a", "subnet-b", "subnet-c"},
		InstanceTypes: []string{"m5.large", "c5.large"}, ScalingConfig: z.scalingConfig(),
	}
	if change != nil {
		change(in)
	}
	_, err := c.eks.CreateNodegroup(ctx, in)
	ok(t, err)
	c.settle()
}

func (c *clustered) ng(t *testing.T, name string) types.Nodegroup {
	t.Helper()
	out, err := c.eks.DescribeNodegroup(ctx, &eks.DescribeNodegroupInput{ClusterName: aws.String("harbor"), NodegroupName: &name})
	ok(t, err)
	return *out.Nodegroup
}

// asg is the Auto Scaling group of a node group.
func (c *clustered) asg(t *testing.T, name string) astypes.AutoScalingGroup {
	t.Helper()
	out, err := c.as.DescribeAutoScalingGroups(ctx, &autoscaling.DescribeAutoScalingGroupsInput{Filters: []astypes.Filter{{Name: aws.String("tag:eks:nodegroup-name"), Values: []string{name}}}})
	ok(t, err)
	if len(out.AutoScalingGroups) != 1 {
		t.Fatalf("%d Auto Scaling groups of node group %s, want 1", len(out.AutoScalingGroups), name)
	}
	return out.AutoScalingGroups[0]
}

func (c *clustered) count(t *testing.T, name string) map[string]int {
	t.Helper()
	n := map[string]int{}
	for _, i := range c.asg(t, name).Instances {
		n[string(i.LifecycleState)]++
	}
	return n
}

func (c *clustered) nodes(t *testing.T) (live []simapi.Instance) {
	t.Helper()
	all, err := simapi.NewClient(aws.ToString(c.cfg.BaseEndpoint)).Instances(ctx)
	ok(t, err)
	return slices.DeleteFunc(all, func(i simapi.Instance) bool { return i.State != "running" })
}

func TestCluster(t *testing.T) {
	c := newClustered(t, types.AuthenticationModeApi)
	out, err := c.eks.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: aws.String("harbor")})
	ok(t, err)
	cl := out.Cluster
	got := []string{
		aws.ToString(cl.Endpoint), aws.ToString(cl.CertificateAuthority.Data), aws.ToString(cl.Version), string(cl.Status), string(cl.AccessConfig.AuthenticationMode),
		aws.ToString(cl.KubernetesNetworkConfig.ServiceIpv4Cidr), aws.ToString(cl.ResourcesVpcConfig.VpcId), aws.ToString(cl.Arn),
	}
	want := []string{"https://127.0.0.1:6443", "Q0E=", "1.34", "ACTIVE", "API", "10.100.0.0/16", "vpc-1", "arn:aws:eks:us-east-1:123456789012:cluster/harbor"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if aws.ToBool(cl.ComputeConfig.Enabled) || !strings.HasPrefix(aws.ToString(cl.Identity.Oidc.Issuer), "https://oidc.eks.us-east-1.amazonaws.com/id/") {
		t.Errorf("auto mode %v, issuer %q", aws.ToBool(cl.ComputeConfig.Enabled), aws.ToString(cl.Identity.Oidc.Issuer))
	}
	_, err = c.eks.TagResource(ctx, &eks.TagResourceInput{ResourceArn: cl.Arn, Tags: map[string]string{tagEndpoint: "https://127.0.0.1:7443"}})
	ok(t, err)
	out, err = c.eks.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: aws.String("harbor")})
	ok(t, err)
	if got := aws.ToString(out.Cluster.Endpoint); got != "https://127.0.0.1:7443" {
		t.Errorf("endpoint is %s, want it to follow its tag", got)
	}
	_, err = c.eks.CreateCluster(ctx, &eks.CreateClusterInput{Name: aws.String("auto"), RoleArn: roleARN("cluster"), ComputeConfig: &types.ComputeConfigRequest{Enabled: aws.Bool(true)}, ResourcesVpcConfig: &types.VpcConfigRequest{SubnetIds: []string{"subnet-a"}}})
	ok(t, err)
	out, err = c.eks.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: aws.String("auto")})
	ok(t, err)
	if !aws.ToBool(out.Cluster.ComputeConfig.Enabled) || out.Cluster.AccessConfig.AuthenticationMode != types.AuthenticationModeConfigMap {
		t.Errorf("auto mode %v, authentication %s; want true and the API's default", aws.ToBool(out.Cluster.ComputeConfig.Enabled), out.Cluster.AccessConfig.AuthenticationMode)
	}
	list, err := c.eks.ListClusters(ctx, &eks.ListClustersInput{})
	ok(t, err)
	if diff := cmp.Diff([]string{"auto", "harbor"}, list.Clusters); diff != "" {
		t.Errorf("list: -want +got\n%s", diff)
	}
	_, err = c.eks.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: aws.String("none")})
	wantCode(t, err, "ResourceNotFoundException", "a cluster that does not exist")
	_, err = c.eks.CreateCluster(ctx, &eks.CreateClusterInput{Name: aws.String("harbor"), RoleArn: roleARN("cluster"), ResourcesVpcConfig: &types.VpcConfigRequest{SubnetIds: []string{"subnet-a"}}})
	wantCode(t, err, "ResourceInUseException", "a name in use")
}

func TestNodegroupOwnsAnAutoScalingGroup(t *testing.T) {
	c := newClustered(t, types.AuthenticationModeApi)
	c.nodegroup(t, "batch", sizes{1, 5, 3}, func(in *eks.CreateNodegroupInput) {
		in.CapacityType, in.Labels = types.CapacityTypesSpot, map[string]string{"pool": "batch"}
		in.Taints = []types.Taint{{Key: aws.String("batch"), Value: aws.String("true"), Effect: types.TaintEffectNoSchedule}}
	})
	n := c.ng(t, "batch")
	g := c.asg(t, "batch")
	if n.Status != types.NodegroupStatusActive || len(n.Resources.AutoScalingGroups) != 1 || aws.ToString(n.Resources.AutoScalingGroups[0].Name) != aws.ToString(g.AutoScalingGroupName) {
		t.Fatalf("node group is %s with %+v, want ACTIVE with its Auto Scaling group %s", n.Status, n.Resources, aws.ToString(g.AutoScalingGroupName))
	}
	if !strings.HasPrefix(aws.ToString(g.AutoScalingGroupName), "eks-batch-") || !aws.ToBool(g.CapacityRebalance) {
		t.Errorf("group %s, Capacity Rebalancing %v; want eks-batch-<uuid> and true for spot", aws.ToString(g.AutoScalingGroupName), aws.ToBool(g.CapacityRebalance))
	}
	tags := map[string]string{}
	for _, x := range g.Tags {
		tags[aws.ToString(x.Key)] = aws.ToString(x.Value)
	}
	want := map[string]string{"eks:cluster-name": "harbor", "eks:nodegroup-name": "batch", "k8s.io/cluster-autoscaler/enabled": "true", "k8s.io/cluster-autoscaler/harbor": "owned", "kubernetes.io/cluster/harbor": "owned"}
	if diff := cmp.Diff(want, tags); diff != "" {
		t.Errorf("group tags: -want +got\n%s", diff)
	}
	lt, err := ec2.NewFromConfig(c.cfg).DescribeLaunchTemplateVersions(ctx, &ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: g.MixedInstancesPolicy.LaunchTemplate.LaunchTemplateSpecification.LaunchTemplateId})
	ok(t, err)
	data := lt.LaunchTemplateVersions[0].LaunchTemplateData
	text, err := base64.StdEncoding.DecodeString(aws.ToString(data.UserData))
	ok(t, err)
	if !strings.Contains(string(text), "name: harbor") || len(data.SecurityGroupIds) != 1 {
		t.Errorf("user data %q, security groups %v; want the cluster's", text, data.SecurityGroupIds)
	}
	nodes := c.nodes(t)
	if len(nodes) != 3 {
		t.Fatalf("%d nodes, want 3", len(nodes))
	}
	for _, i := range nodes {
		labels := map[string]string{"pool": "batch", "eks.amazonaws.com/nodegroup": "batch", "eks.amazonaws.com/capacityType": "SPOT", "eks.amazonaws.com/nodegroup-image": i.ImageID}
		if diff := cmp.Diff(labels, i.Labels); diff != "" {
			t.Errorf("labels: -want +got\n%s", diff)
		}
		if diff := cmp.Diff([]simapi.Taint{{Key: "batch", Value: "true", Effect: "NoSchedule"}}, i.Taints); diff != "" {
			t.Errorf("taints: -want +got\n%s", diff)
		}
		if i.Cluster != "harbor" || i.NodeGroup != "batch" || !i.Spot || !i.RoleAuthorised || i.RoleARN != *roleARN("node") {
			t.Errorf("node is %+v, want a spot node of harbor's batch whose role may join", i)
		}
	}
}

func TestCreateNodegroupRefuses(t *testing.T) {
	c := newClustered(t, types.AuthenticationModeApi)
	c.nodegroup(t, "one", sizes{0, 2, 0}, nil)
	cases := map[string]struct {
		reason string
		change func(*eks.CreateNodegroupInput)
		want   string
	}{
		"Cluster":  {"the cluster exists", func(in *eks.CreateNodegroupInput) { in.ClusterName = aws.String("none") }, "ResourceNotFoundException"},
		"Twice":    {"names are unique", func(in *eks.CreateNodegroupInput) { in.NodegroupName = aws.String("one") }, "ResourceInUseException"},
		"MaxZero":  {"max is one at least", func(in *eks.CreateNodegroupInput) { in.ScalingConfig = sizes{}.scalingConfig() }, "InvalidParameterException"},
		"MinAbove": {"min is not above desired", func(in *eks.CreateNodegroupInput) { in.ScalingConfig = sizes{2, 3, 1}.scalingConfig() }, "InvalidParameterException"},
		"Desired":  {"nor desired above max", func(in *eks.CreateNodegroupInput) { in.ScalingConfig = sizes{0, 3, 4}.scalingConfig() }, "InvalidParameterException"},
		"Role":     {"the role exists", func(in *eks.CreateNodegroupInput) { in.NodeRole = roleARN("none") }, "InvalidParameterException"},
		"Image":    {"there is an image of that type", func(in *eks.CreateNodegroupInput) { in.AmiType = types.AMITypesAl2X8664 }, "InvalidParameterException"},
		"Template": {"the launch template exists", func(in *eks.CreateNodegroupInput) {
			in.LaunchTemplate = &types.LaunchTemplateSpecification{Id: aws.String("lt-2")}
		}, "InvalidParameterException"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			in := &eks.CreateNodegroupInput{ClusterName: aws.String("harbor"), NodegroupName: aws.String("new" + name), NodeRole: roleARN("node"), Subnets: []string{"subnet-a"}}
			tc.change(in)
			_, err := c.eks.CreateNodegroup(ctx, in)
			wantCode(t, err, tc.want, tc.reason)
		})
	}
	list, err := c.eks.ListNodegroups(ctx, &eks.ListNodegroupsInput{ClusterName: aws.String("harbor")})
	ok(t, err)
	if diff := cmp.Diff([]string{"one"}, list.Nodegroups); diff != "" {
		t.Errorf("what was refused is not there: -want +got\n%s", diff)
	}
}

func TestNodegroupWithItsOwnLaunchTemplate(t *testing.T) {
	c := newClustered(t, types.AuthenticationModeApi)
	c.nodegroup(t, "own", sizes{0, 2, 1}, func(in *eks.CreateNodegroupInput) {
		in.InstanceTypes, in.LaunchTemplate = nil, &types.LaunchTemplateSpecification{Name: aws.String("nodes"), Version: aws.String("2")}
	})
	n := c.ng(t, "own")
	if n.AmiType != types.AMITypesCustom || aws.ToString(n.LaunchTemplate.Id) != "lt-1" || n.DiskSize != nil {
		t.Errorf("node group shows AMI type %s, template %+v; want CUSTOM and lt-1", n.AmiType, n.LaunchTemplate)
	}
	i := c.nodes(t)[0]
	if i.Type != "m5.xlarge" || i.ImageID != "ami-1" || i.Labels["eks.amazonaws.com/sourceLaunchTemplateVersion"] != "2" {
		t.Errorf("node %+v, want what the template says", i)
	}
}

func (c *clustered) scale(t *testing.T, name string, z sizes) types.Update {
	t.Helper()
	out, err := c.eks.UpdateNodegroupConfig(ctx, &eks.UpdateNodegroupConfigInput{ClusterName: aws.String("harbor"), NodegroupName: &name, ScalingConfig: z.scalingConfig()})
	ok(t, err)
	return *out.Update
}

func TestUpdateNodegroupConfig(t *testing.T) {
	c := newClustered(t, types.AuthenticationModeApi)
	c.nodegroup(t, "batch", sizes{1, 5, 2}, func(in *eks.CreateNodegroupInput) {
		in.Labels = map[string]string{"a": "1", "b": "2"}
		in.Taints = []types.Taint{{Key: aws.String("x"), Effect: types.TaintEffectNoSchedule}}
	})
	update := func(in *eks.UpdateNodegroupConfigInput) error {
		in.ClusterName, in.NodegroupName = aws.String("harbor"), aws.String("batch")
		_, err := c.eks.UpdateNodegroupConfig(ctx, in)
		return err
	}
	for reason, z := range map[string]sizes{"max zero": {0, 0, 0}, "min above desired": {3, 5, 2}, "desired above max": {0, 1, 2}} {
		wantCode(t, update(&eks.UpdateNodegroupConfigInput{ScalingConfig: z.scalingConfig()}), "InvalidParameterException", reason)
	}
	u := c.scale(t, "batch", sizes{0, 5, 3})
	if n := c.ng(t, "batch"); n.Status != types.NodegroupStatusUpdating || u.Status != types.UpdateStatusInProgress {
		t.Errorf("node group is %s, update %s; want both under way", n.Status, u.Status)
	}
	wantCode(t, update(&eks.UpdateNodegroupConfigInput{ScalingConfig: sizes{0, 5, 1}.scalingConfig()}), "ResourceInUseException", "one update at a time")
	c.settle()
	d, err := c.eks.DescribeUpdate(ctx, &eks.DescribeUpdateInput{Name: aws.String("harbor"), NodegroupName: aws.String("batch"), UpdateId: u.Id})
	ok(t, err)
	if d.Update.Status != types.UpdateStatusSuccessful || len(c.nodes(t)) != 3 {
		t.Errorf("update is %s with %d nodes, want Successful with 3", d.Update.Status, len(c.nodes(t)))
	}
	ok(t, update(&eks.UpdateNodegroupConfigInput{
		Labels: &types.UpdateLabelsPayload{AddOrUpdateLabels: map[string]string{"a": "9"}, RemoveLabels: []string{"b"}},
		Taints: &types.UpdateTaintsPayload{AddOrUpdateTaints: []types.Taint{{Key: aws.String("y"), Effect: types.TaintEffectNoExecute}}, RemoveTaints: []types.Taint{{Key: aws.String("x"), Effect: types.TaintEffectNoSchedule}}},
	}))
	c.settle()
	i := c.nodes(t)[0]
	if _, b := i.Labels["b"]; i.Labels["a"] != "9" || b || len(i.Taints) != 1 || i.Taints[0].Key != "y" || i.Taints[0].Effect != "NoExecute" {
		t.Errorf("node has labels %v and taints %v", i.Labels, i.Taints)
	}
	list, err := c.eks.ListUpdates(ctx, &eks.ListUpdatesInput{Name: aws.String("harbor"), NodegroupName: aws.String("batch")})
	ok(t, err)
	if len(list.UpdateIds) != 2 {
		t.Errorf("%d updates, want 2", len(list.UpdateIds))
	}
}

func TestDescribeNodegroupFollowsDesired(t *testing.T) {
	c := newClustered(t, types.AuthenticationModeApi)
	c.nodegroup(t, "batch", sizes{0, 5, 1}, nil)
	_, err := c.as.SetDesiredCapacity(ctx, &autoscaling.SetDesiredCapacityInput{AutoScalingGroupName: c.asg(t, "batch").AutoScalingGroupName, DesiredCapacity: aws.Int32(3)})
	ok(t, err)
	if n := aws.ToInt32(c.ng(t, "batch").ScalingConfig.DesiredSize); n != 3 {
		t.Errorf("desired size is %d, want what the Auto Scaling group has", n)
	}
}

// EKS drains what it shrinks, but not for longer than fifteen minutes, whatever a PodDisruptionBudget says.
func TestNodegroupShrunkByEKSEndsNodesAfterFifteenMinutes(t *testing.T) {
	c := newClustered(t, types.AuthenticationModeApi)
	c.nodegroup(t, "batch", sizes{0, 5, 3}, nil)
	c.scale(t, "batch", sizes{0, 5, 1})
	c.settle()
	if diff := cmp.Diff(map[string]int{"InService": 1, "Terminating:Wait": 2}, c.count(t, "batch")); diff != "" {
		t.Fatalf("while EKS drains: -want +got\n%s", diff)
	}
	c.Advance(14 * time.Minute)
	var held []string
	for _, i := range c.asg(t, "batch").Instances {
		if i.LifecycleState == astypes.LifecycleStateTerminatingWait {
			held = append(held, *i.InstanceId)
		}
	}
	if len(held) != 2 {
		t.Fatalf("%d instances wait, want 2", len(held))
	}
	_, err := c.as.CompleteLifecycleAction(ctx, &autoscaling.CompleteLifecycleActionInput{AutoScalingGroupName: c.asg(t, "batch").AutoScalingGroupName, LifecycleHookName: aws.String(terminateHook), InstanceId: &held[0], LifecycleActionResult: aws.String(resultContinue)})
	ok(t, err)
	c.settle()
	if diff := cmp.Diff(map[string]int{"InService": 1, "Terminating:Wait": 1}, c.count(t, "batch")); diff != "" {
		t.Fatalf("a drained node goes at once: -want +got\n%s", diff)
	}
	c.Advance(time.Minute)
	c.settle()
	if diff := cmp.Diff(map[string]int{"InService": 1}, c.count(t, "batch")); diff != "" {
		t.Errorf("after fifteen minutes: -want +got\n%s", diff)
	}
}

func TestNodeEndedByNameGoesAtOnce(t *testing.T) {
	c := newClustered(t, types.AuthenticationModeApi)
	c.nodegroup(t, "batch", sizes{0, 5, 2}, nil)
	id := c.nodes(t)[0].ID
	_, err := c.as.TerminateInstanceInAutoScalingGroup(ctx, &autoscaling.TerminateInstanceInAutoScalingGroupInput{InstanceId: &id, ShouldDecrementDesiredCapacity: aws.Bool(true)})
	ok(t, err)
	c.settle()
	if diff := cmp.Diff(map[string]int{"InService": 1}, c.count(t, "batch")); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestUpdateNodegroupVersionReplacesNodes(t *testing.T) {
	c := newClustered(t, types.AuthenticationModeApi)
	c.nodegroup(t, "batch", sizes{0, 5, 2}, func(in *eks.CreateNodegroupInput) { in.Version = aws.String("1.33") })
	before := c.nodes(t)
	_, err := c.eks.UpdateNodegroupVersion(ctx, &eks.UpdateNodegroupVersionInput{ClusterName: aws.String("harbor"), NodegroupName: aws.String("batch"), Version: aws.String("1.34")})
	ok(t, err)
	for range 4 {
		c.Advance(15 * time.Minute)
		c.settle()
	}
	n := c.ng(t, "batch")
	if n.Status != types.NodegroupStatusActive || aws.ToString(n.Version) != "1.34" || !strings.HasPrefix(aws.ToString(n.ReleaseVersion), "1.34") {
		t.Errorf("node group is %s at %s (%s), want ACTIVE at 1.34", n.Status, aws.ToString(n.Version), aws.ToString(n.ReleaseVersion))
	}
	after := c.nodes(t)
	if len(after) != 2 {
		t.Fatalf("%d nodes, want 2", len(after))
	}
	for _, i := range after {
		if i.ImageID == before[0].ImageID {
			t.Errorf("%s still runs the old image", i.ID)
		}
	}
}

func TestDeleteNodegroup(t *testing.T) {
	c := newClustered(t, types.AuthenticationModeApiAndConfigMap)
	c.nodegroup(t, "one", sizes{0, 5, 2}, nil)
	c.nodegroup(t, "two", sizes{0, 5, 1}, nil)
	del := func(name string) {
		t.Helper()
		_, err := c.eks.DeleteNodegroup(ctx, &eks.DeleteNodegroupInput{ClusterName: aws.String("harbor"), NodegroupName: &name})
		ok(t, err)
		c.settle()
	}
	del("one")
	if diff := cmp.Diff(map[string]int{"Terminating:Wait": 2}, c.count(t, "one")); diff != "" {
		t.Fatalf("all are drained at once: -want +got\n%s", diff)
	}
	if n := c.ng(t, "one"); n.Status != types.NodegroupStatusDeleting {
		t.Errorf("node group is %s, want DELETING", n.Status)
	}
	c.Advance(5 * time.Minute)
	c.settle()
	_, err := c.eks.DescribeNodegroup(ctx, &eks.DescribeNodegroupInput{ClusterName: aws.String("harbor"), NodegroupName: aws.String("one")})
	wantCode(t, err, "ResourceNotFoundException", "five minutes later it is gone")
	groups, err := c.as.DescribeAutoScalingGroups(ctx, &autoscaling.DescribeAutoScalingGroupsInput{})
	ok(t, err)
	if len(groups.AutoScalingGroups) != 1 {
		t.Errorf("%d Auto Scaling groups left, want the other one's", len(groups.AutoScalingGroups))
	}
	if nodes := c.nodes(t); len(nodes) != 1 || !nodes[0].RoleAuthorised || len(c.removedRoles()) != 0 {
		t.Errorf("nodes %+v, removed %v; want the role to stay while another group uses it", nodes, c.removedRoles())
	}
	del("two")
	c.Advance(5 * time.Minute)
	c.settle()
	if diff := cmp.Diff([]simapi.RoleRemoved{{Cluster: "harbor", RoleARN: *roleARN("node")}}, c.removedRoles()); diff != "" {
		t.Errorf("the last group's role: -want +got\n%s", diff)
	}
	_, err = c.eks.DescribeAccessEntry(ctx, &eks.DescribeAccessEntryInput{ClusterName: aws.String("harbor"), PrincipalArn: roleARN("node")})
	wantCode(t, err, "ResourceNotFoundException", "the access entry that EKS made goes with it")
	_, err = c.eks.DeleteCluster(ctx, &eks.DeleteClusterInput{Name: aws.String("harbor")})
	ok(t, err)
}

// removedRoles are the node roles that EKS let go of, as the side door tells them.
func (c *clustered) removedRoles() (out []simapi.RoleRemoved) {
	do(c.Server, func() {
		for _, e := range c.Server.stream {
			if e.RoleRemoved != nil {
				out = append(out, *e.RoleRemoved)
			}
		}
	})
	return out
}

// A role that other nodes share loses its access with the last node group that used it.
func TestDeletedNodegroupTakesTheRoleOfOthers(t *testing.T) {
	c := newClustered(t, types.AuthenticationModeConfigMap)
	c.nodegroup(t, "one", sizes{0, 5, 0}, nil)
	c.sharedProfile(t)
	c.create(t, 0, 2, 1, func(in *autoscaling.CreateAutoScalingGroupInput) {
		in.LaunchTemplate.Version = aws.String("$Latest")
		in.Tags = []astypes.Tag{{Key: aws.String("kubernetes.io/cluster/harbor"), Value: aws.String("owned"), PropagateAtLaunch: aws.Bool(true)}}
	})
	if i := c.nodes(t)[0]; !i.RoleAuthorised || i.NodeGroup != "" || i.Cluster != "harbor" {
		t.Fatalf("self-managed node %+v, want its shared role to be let in", i)
	}
	_, err := c.eks.DeleteNodegroup(ctx, &eks.DeleteNodegroupInput{ClusterName: aws.String("harbor"), NodegroupName: aws.String("one")})
	ok(t, err)
	c.settle()
	if i := c.nodes(t)[0]; i.RoleAuthorised {
		t.Error("the role may still join, want its aws-auth row gone")
	}
	if diff := cmp.Diff([]simapi.RoleRemoved{{Cluster: "harbor", RoleARN: *roleARN("node")}}, c.removedRoles()); diff != "" {
		t.Errorf("the cluster's aws-auth must lose the row too: -want +got\n%s", diff)
	}
}

// sharedProfile adds a version to the launch template whose instances have the role "node".
func (c *clustered) sharedProfile(t *testing.T) {
	t.Helper()
	roles := iam.NewFromConfig(c.cfg)
	_, err := roles.CreateInstanceProfile(ctx, &iam.CreateInstanceProfileInput{InstanceProfileName: aws.String("shared")})
	ok(t, err)
	_, err = roles.AddRoleToInstanceProfile(ctx, &iam.AddRoleToInstanceProfileInput{InstanceProfileName: aws.String("shared"), RoleName: aws.String("node")})
	ok(t, err)
	_, err = ec2.NewFromConfig(c.cfg).CreateLaunchTemplateVersion(ctx, &ec2.CreateLaunchTemplateVersionInput{LaunchTemplateId: aws.String("lt-1"), SourceVersion: aws.String("1"),
		LaunchTemplateData: &ec2types.RequestLaunchTemplateData{IamInstanceProfile: &ec2types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: aws.String("shared")}}})
	ok(t, err)
}

func TestNodegroupWhoseGroupWasDeleted(t *testing.T) {
	c := newClustered(t, types.AuthenticationModeApi)
	c.nodegroup(t, "one", sizes{0, 5, 0}, nil)
	_, err := c.as.DeleteAutoScalingGroup(ctx, &autoscaling.DeleteAutoScalingGroupInput{AutoScalingGroupName: c.asg(t, "one").AutoScalingGroupName})
	ok(t, err)
	if n := c.ng(t, "one"); n.Status != types.NodegroupStatusDegraded || n.Health.Issues[0].Code != types.NodegroupIssueCodeAutoScalingGroupNotFound {
		t.Errorf("node group is %s with %+v, want DEGRADED for its missing group", n.Status, n.Health)
	}
	_, err = c.eks.DeleteNodegroup(ctx, &eks.DeleteNodegroupInput{ClusterName: aws.String("harbor"), NodegroupName: aws.String("one")})
	ok(t, err)
	c.settle()
	list, err := c.eks.ListNodegroups(ctx, &eks.ListNodegroupsInput{ClusterName: aws.String("harbor")})
	ok(t, err)
	if len(list.Nodegroups) != 0 {
		t.Errorf("node groups %v are left", list.Nodegroups)
	}
}

func TestUpdateNodegroupConfigPutsTagsBack(t *testing.T) {
	c := newClustered(t, types.AuthenticationModeApi)
	c.nodegroup(t, "one", sizes{0, 5, 0}, nil)
	before := c.asg(t, "one")
	_, err := c.as.DeleteTags(ctx, &autoscaling.DeleteTagsInput{Tags: []astypes.Tag{{ResourceId: before.AutoScalingGroupName, ResourceType: aws.String(taggedResource), Key: aws.String("k8s.io/cluster-autoscaler/enabled")}}})
	ok(t, err)
	c.scale(t, "one", sizes{0, 4, 0})
	c.settle()
	if diff := cmp.Diff(len(before.Tags), len(c.asg(t, "one").Tags)); diff != "" {
		t.Errorf("tags: -want +got\n%s", diff)
	}
}

func TestAccessEntries(t *testing.T) {
	c := newClustered(t, types.AuthenticationModeApi)
	create := func(in *eks.CreateAccessEntryInput) error {
		in.ClusterName = aws.String("harbor")
		_, err := c.eks.CreateAccessEntry(ctx, in)
		return err
	}
	ok(t, create(&eks.CreateAccessEntryInput{PrincipalArn: roleARN("node"), Type: aws.String("EC2_LINUX"), Tags: map[string]string{"by": "castoff"}}))
	wantCode(t, create(&eks.CreateAccessEntryInput{PrincipalArn: roleARN("node"), Type: aws.String("EC2_LINUX")}), "ResourceInUseException", "one per principal")
	wantCode(t, create(&eks.CreateAccessEntryInput{PrincipalArn: aws.String("node")}), "InvalidParameterException", "a principal is an ARN")
	wantCode(t, create(&eks.CreateAccessEntryInput{PrincipalArn: roleARN("x"), Type: aws.String("EC2_LINUX"), Username: aws.String("me")}), "InvalidParameterException", "EKS names nodes")
	ok(t, create(&eks.CreateAccessEntryInput{PrincipalArn: roleARN("admin"), KubernetesGroups: []string{"ops"}}))
	out, err := c.eks.DescribeAccessEntry(ctx, &eks.DescribeAccessEntryInput{ClusterName: aws.String("harbor"), PrincipalArn: roleARN("node")})
	ok(t, err)
	if x := out.AccessEntry; aws.ToString(x.Type) != "EC2_LINUX" || !slices.Equal(x.KubernetesGroups, []string{"system:nodes"}) || x.Tags["by"] != "castoff" {
		t.Errorf("entry is %+v, want one for Linux nodes", x)
	}
	list, err := c.eks.ListAccessEntries(ctx, &eks.ListAccessEntriesInput{ClusterName: aws.String("harbor")})
	ok(t, err)
	if diff := cmp.Diff([]string{*roleARN("admin"), *roleARN("node")}, list.AccessEntries); diff != "" {
		t.Errorf("list: -want +got\n%s", diff)
	}
	do(c.Server, func() {
		if e := c.Server.eks; !e.authorised("harbor", *roleARN("node")) || e.authorised("harbor", *roleARN("admin")) {
			t.Error("want nodes of EC2_LINUX entries let in, and of STANDARD ones not")
		}
	})
	_, err = c.eks.DeleteAccessEntry(ctx, &eks.DeleteAccessEntryInput{ClusterName: aws.String("harbor"), PrincipalArn: roleARN("node")})
	ok(t, err)
	_, err = c.eks.DeleteAccessEntry(ctx, &eks.DeleteAccessEntryInput{ClusterName: aws.String("harbor"), PrincipalArn: roleARN("node")})
	wantCode(t, err, "ResourceNotFoundException", "deleted already")

	old := newClustered(t, types.AuthenticationModeConfigMap)
	_, err = old.eks.ListAccessEntries(ctx, &eks.ListAccessEntriesInput{ClusterName: aws.String("harbor")})
	wantCode(t, err, "InvalidRequestException", "a cluster that knows only aws-auth")
}

func TestPodIdentityAssociations(t *testing.T) {
	c := newClustered(t, types.AuthenticationModeApi)
	create := func(account, role string) (*eks.CreatePodIdentityAssociationOutput, error) {
		return c.eks.CreatePodIdentityAssociation(ctx, &eks.CreatePodIdentityAssociationInput{ClusterName: aws.String("harbor"), Namespace: aws.String("kube-system"), ServiceAccount: &account, RoleArn: roleARN(role)})
	}
	made, err := create("karpenter", "app")
	ok(t, err)
	_, err = create("karpenter", "node")
	wantCode(t, err, "ResourceInUseException", "one per ServiceAccount")
	_, err = create("other", "none")
	wantCode(t, err, "InvalidParameterException", "the role exists")
	_, err = create("other", "app")
	ok(t, err)
	list, err := c.eks.ListPodIdentityAssociations(ctx, &eks.ListPodIdentityAssociationsInput{ClusterName: aws.String("harbor"), Namespace: aws.String("kube-system"), ServiceAccount: aws.String("karpenter")})
	ok(t, err)
	if len(list.Associations) != 1 || aws.ToString(list.Associations[0].AssociationId) != aws.ToString(made.Association.AssociationId) {
		t.Errorf("listed are %+v, want karpenter's", list.Associations)
	}
	if status := c.credentials(t, "karpenter"); status != http.StatusOK {
		t.Errorf("the pod's credentials: %d, want 200", status)
	}
	_, err = c.eks.UpdatePodIdentityAssociation(ctx, &eks.UpdatePodIdentityAssociationInput{ClusterName: aws.String("harbor"), AssociationId: made.Association.AssociationId, RoleArn: roleARN("node")})
	ok(t, err)
	got, err := c.eks.DescribePodIdentityAssociation(ctx, &eks.DescribePodIdentityAssociationInput{ClusterName: aws.String("harbor"), AssociationId: made.Association.AssociationId})
	ok(t, err)
	if aws.ToString(got.Association.RoleArn) != *roleARN("node") {
		t.Errorf("role is %s after the update", aws.ToString(got.Association.RoleArn))
	}
	_, err = c.eks.DeletePodIdentityAssociation(ctx, &eks.DeletePodIdentityAssociationInput{ClusterName: aws.String("harbor"), AssociationId: made.Association.AssociationId})
	ok(t, err)
	if status := c.credentials(t, "karpenter"); status != http.StatusNotFound {
		t.Errorf("the pod's credentials after deletion: %d, want 404", status)
	}
	_, err = c.eks.DeletePodIdentityAssociation(ctx, &eks.DeletePodIdentityAssociationInput{ClusterName: aws.String("harbor"), AssociationId: made.Association.AssociationId})
	wantCode(t, err, "ResourceNotFoundException", "deleted already")
}

// credentials asks as the pod of a ServiceAccount in kube-system and returns the HTTP status.
func (c *clustered) credentials(t *testing.T, account string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, aws.ToString(c.cfg.BaseEndpoint)+simapi.PathIdentity, nil)
	ok(t, err)
	claims := base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"system:serviceaccount:kube-system:` + account + `"}`))
	req.Header.Set("Authorization", "e30."+claims+".x")
	resp, err := http.DefaultClient.Do(req)
	ok(t, err)
	ok(t, resp.Body.Close())
	return resp.StatusCode
}

func TestAddons(t *testing.T) {
	c := newClustered(t, types.AuthenticationModeApi)
	out, err := c.eks.DescribeAddon(ctx, &eks.DescribeAddonInput{ClusterName: aws.String("harbor"), AddonName: aws.String(podIdentityAddon)})
	ok(t, err)
	if out.Addon.Status != types.AddonStatusActive {
		t.Errorf("%s is %s, want ACTIVE", podIdentityAddon, out.Addon.Status)
	}
	_, err = c.eks.DeleteAddon(ctx, &eks.DeleteAddonInput{ClusterName: aws.String("harbor"), AddonName: aws.String(podIdentityAddon)})
	ok(t, err)
	_, err = c.eks.DescribeAddon(ctx, &eks.DescribeAddonInput{ClusterName: aws.String("harbor"), AddonName: aws.String(podIdentityAddon)})
	wantCode(t, err, "ResourceNotFoundException", "deleted")
	_, err = c.eks.CreateAddon(ctx, &eks.CreateAddonInput{ClusterName: aws.String("harbor"), AddonName: aws.String("vpc-cni")})
	ok(t, err)
	_, err = c.eks.CreateAddon(ctx, &eks.CreateAddonInput{ClusterName: aws.String("harbor"), AddonName: aws.String("vpc-cni")})
	wantCode(t, err, "ResourceInUseException", "there already")
	list, err := c.eks.ListAddons(ctx, &eks.ListAddonsInput{ClusterName: aws.String("harbor")})
	ok(t, err)
	if diff := cmp.Diff([]string{"vpc-cni"}, list.Addons); diff != "" {
		t.Errorf("list: -want +got\n%s", diff)
	}
}

func TestTagsOfEKSResources(t *testing.T) {
	c := newClustered(t, types.AuthenticationModeApi)
	c.nodegroup(t, "one", sizes{0, 2, 0}, func(in *eks.CreateNodegroupInput) { in.Tags = map[string]string{"old": "1"} })
	made, err := c.eks.CreatePodIdentityAssociation(ctx, &eks.CreatePodIdentityAssociationInput{ClusterName: aws.String("harbor"), Namespace: aws.String("a"), ServiceAccount: aws.String("b"), RoleArn: roleARN("app"), Tags: map[string]string{"old": "1"}})
	ok(t, err)
	entry, err := c.eks.CreateAccessEntry(ctx, &eks.CreateAccessEntryInput{ClusterName: aws.String("harbor"), PrincipalArn: roleARN("app"), Tags: map[string]string{"old": "1"}})
	ok(t, err)
	for what, arn := range map[string]*string{"node group": c.ng(t, "one").NodegroupArn, "association": made.Association.AssociationArn, "access entry": entry.AccessEntry.AccessEntryArn} {
		_, err := c.eks.TagResource(ctx, &eks.TagResourceInput{ResourceArn: arn, Tags: map[string]string{"new": "2"}})
		ok(t, err)
		_, err = c.eks.UntagResource(ctx, &eks.UntagResourceInput{ResourceArn: arn, TagKeys: []string{"old"}})
		ok(t, err)
		out, err := c.eks.ListTagsForResource(ctx, &eks.ListTagsForResourceInput{ResourceArn: arn})
		ok(t, err)
		if diff := cmp.Diff(map[string]string{"new": "2"}, out.Tags); diff != "" {
			t.Errorf("%s: -want +got\n%s", what, diff)
		}
	}
	_, err = c.eks.ListTagsForResource(ctx, &eks.ListTagsForResourceInput{ResourceArn: aws.String("arn:aws:eks:us-east-1:123456789012:cluster/none")})
	wantCode(t, err, "NotFoundException", "a resource that does not exist")
}

func TestEKSReadsLag(t *testing.T) {
	c := newClustered(t, types.AuthenticationModeApi)
	do(c.Server, func() { c.settings.Lag = 5 * time.Second })
	_, err := c.eks.CreateAccessEntry(ctx, &eks.CreateAccessEntryInput{ClusterName: aws.String("harbor"), PrincipalArn: roleARN("app")})
	ok(t, err)
	describe := func() error {
		_, err := c.eks.DescribeAccessEntry(ctx, &eks.DescribeAccessEntryInput{ClusterName: aws.String("harbor"), PrincipalArn: roleARN("app")})
		return err
	}
	wantCode(t, describe(), "ResourceNotFoundException", "right after it was made")
	c.Advance(5 * time.Second)
	ok(t, describe())
}

func TestNodegroupWithoutCapacityFails(t *testing.T) {
	c := newClustered(t, types.AuthenticationModeApi)
	do(c.Server, func() { c.faults.add(simapi.Fault{Code: "InsufficientInstanceCapacity", InstanceType: "m5.large"}) })
	c.nodegroup(t, "one", sizes{1, 2, 1}, func(in *eks.CreateNodegroupInput) { in.InstanceTypes = []string{"m5.large"} })
	if n := c.ng(t, "one"); n.Status != types.NodegroupStatusCreating {
		t.Errorf("node group is %s without an instance, want CREATING", n.Status)
	}
	c.Advance(25 * time.Minute)
	if n := c.ng(t, "one"); n.Status != types.NodegroupStatusCreateFailed || n.Health.Issues[0].Code != types.NodegroupIssueCodeAsgInstanceLaunchFailures {
		t.Errorf("node group is %s with %+v, want CREATE_FAILED for its launches", n.Status, n.Health)
	}
}
