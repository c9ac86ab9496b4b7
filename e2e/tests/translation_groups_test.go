//go:build lab && long

package tests

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	asgtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/castoff-sh/castoff/e2e/harbor"
	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/nodegroup"
)

// fleet makes node groups without instances, and finds out what the engine launches in their stead.
type fleet struct {
	asg     *autoscaling.Client
	ec2     *ec2.Client
	eks     *eks.Client
	ssm     *ssm.Client
	groups  *nodegroup.Client
	cluster inventory.Cluster

	subnets       []string
	securityGroup string
	images        map[string]string
}

// The images by name, as AWS publishes them.
var publishedImages = map[string]string{
	"al2023":       "/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/standard/recommended/image_id",
	"al2023-arm":   "/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/arm64/standard/recommended/image_id",
	"bottlerocket": "/aws/service/bottlerocket/aws-k8s-1.36/x86_64/latest/image_id",
}

func newFleet(ctx context.Context, t *testing.T, k *karpenter) *fleet {
	t.Helper()
	cfg, err := config.LoadDefaultConfig(ctx, config.WithRegion("us-east-1"), config.WithBaseEndpoint(k.lab.Simulator),
		config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider("harbor-admin", "secret", "")))
	must(t, err)
	f := &fleet{asg: autoscaling.NewFromConfig(cfg), ec2: ec2.NewFromConfig(cfg), eks: eks.NewFromConfig(cfg), ssm: ssm.NewFromConfig(cfg), images: map[string]string{}}
	f.groups = nodegroup.New(f.asg, f.eks, f.ec2, iam.NewFromConfig(cfg), harbor.Cluster)
	f.cluster, err = f.groups.Cluster(ctx)
	must(t, err)
	known, err := f.groups.List(ctx, harbor.General)
	must(t, err)
	general := known[slices.IndexFunc(known, func(g inventory.NodeGroup) bool { return g.Name == harbor.General })]
	f.subnets, f.securityGroup = general.Subnets, general.LaunchTemplate.SecurityGroups[0]
	for name, parameter := range publishedImages {
		out, err := f.ssm.GetParameter(ctx, &ssm.GetParameterInput{Name: &parameter})
		must(t, err)
		f.images[name] = *out.Parameter.Value
	}
	own, err := f.ec2.RegisterImage(ctx, &ec2.RegisterImageInput{
		Name: aws.String("acme-base-2026"), Architecture: ec2types.ArchitectureValuesX8664, RootDeviceName: aws.String("/dev/xvda"),
	})
	must(t, err)
	f.images["own"] = *own.ImageId
	return f
}

// oldGroups are one of each kind that people have.
func (f *fleet) oldGroups() map[string]oldGroup {
	return map[string]oldGroup{
		"volumes": {
			reason: "two volumes of different kinds, open metadata, detailed monitoring and kubelet settings of nodeadm",
			template: f.template("al2023", "m5.large", f.nodeConfig("maxPods: 42\n      kubeReserved: {cpu: 150m, memory: 600Mi}\n      evictionHard: {memory.available: 300Mi}", "team=a", ""), func(d *ec2types.RequestLaunchTemplateData) {
				d.BlockDeviceMappings = []ec2types.LaunchTemplateBlockDeviceMappingRequest{
					{DeviceName: aws.String("/dev/xvda"), Ebs: &ec2types.LaunchTemplateEbsBlockDeviceRequest{VolumeSize: aws.Int32(120), VolumeType: ec2types.VolumeTypeGp3, Iops: aws.Int32(4000), Throughput: aws.Int32(250), Encrypted: aws.Bool(true), DeleteOnTermination: aws.Bool(true)}},
					{DeviceName: aws.String("/dev/xvdb"), Ebs: &ec2types.LaunchTemplateEbsBlockDeviceRequest{VolumeSize: aws.Int32(200), VolumeType: ec2types.VolumeTypeIo2, Iops: aws.Int32(3000), Encrypted: aws.Bool(true), DeleteOnTermination: aws.Bool(false)}},
				}
				d.MetadataOptions.HttpTokens, d.MetadataOptions.HttpPutResponseHopLimit = ec2types.LaunchTemplateHttpTokensStateOptional, aws.Int32(3)
				d.Monitoring = &ec2types.LaunchTemplatesMonitoringRequest{Enabled: aws.Bool(true)}
			}),
			joins: true, maxPods: 42, labels: map[string]string{"team": "a"},
		},
		"bootstrap": {
			reason:   "an image of one's own that calls bootstrap.sh, with labels, a taint and a number of pods in its arguments",
			template: f.template("own", "m5.xlarge", "#!/bin/bash\nset -e\necho acme > /etc/acme\n/etc/eks/bootstrap.sh harbor --use-max-pods false --kubelet-extra-args '--max-pods=30 --node-labels=team=b,disk=fast --register-with-taints=dedicated=b:NoSchedule'\n"),
			joins:    true, maxPods: 30, labels: map[string]string{"team": "b", "disk": "fast"},
			taints: []corev1.Taint{{Key: "dedicated", Value: "b", Effect: corev1.TaintEffectNoSchedule}},
		},
		"bottlerocket": {
			reason: "TOML settings, those that Karpenter does not own among them",
			template: f.template("bottlerocket", "m5.large", "[settings.kubernetes]\ncluster-name = \"harbor\"\nmax-pods = 58\n\n[settings.kubernetes.node-labels]\nteam = \"c\"\n\n[settings.kernel.sysctl]\n\"vm.max_map_count\" = \"262144\"\n", func(d *ec2types.RequestLaunchTemplateData) {
				d.BlockDeviceMappings = append(d.BlockDeviceMappings, ec2types.LaunchTemplateBlockDeviceMappingRequest{
					DeviceName: aws.String("/dev/xvdb"), Ebs: &ec2types.LaunchTemplateEbsBlockDeviceRequest{VolumeSize: aws.Int32(80), VolumeType: ec2types.VolumeTypeGp3, Encrypted: aws.Bool(true), DeleteOnTermination: aws.Bool(true)},
				})
			}),
			userData: []string{"vm.max_map_count", "262144", "max-pods = 58"},
		},
		"arm": {
			reason:   "another architecture, and interfaces in place of security groups",
			template: f.template("al2023-arm", "m6g.large", f.nodeConfig("maxPods: 29", "team=d", ""), f.interfaces),
			joins:    true, maxPods: 29, labels: map[string]string{"team": "d", corev1.LabelArchStable: "arm64"},
		},
		"spot": {
			reason:   "a mixed group of spot instances with weights",
			template: f.template("al2023", "m5.large", f.nodeConfig("maxPods: 29", "team=e", "")),
			mixed:    []asgtypes.LaunchTemplateOverrides{{InstanceType: aws.String("m5.large"), WeightedCapacity: aws.String("1")}, {InstanceType: aws.String("m5.xlarge"), WeightedCapacity: aws.String("2")}},
			spot:     &asgtypes.InstancesDistribution{OnDemandBaseCapacity: aws.Int32(0), OnDemandPercentageAboveBaseCapacity: aws.Int32(0)},
			joins:    true, labels: map[string]string{"team": "e"},
		},
		"managed": {
			reason: "a managed group without a template of its own",
			managed: &eks.CreateNodegroupInput{
				InstanceTypes: []string{"m5.large"}, AmiType: ekstypes.AMITypesAl2023X8664Standard, DiskSize: aws.Int32(70), Labels: map[string]string{"team": "f"},
				Taints: []ekstypes.Taint{{Key: aws.String("dedicated"), Value: aws.String("f"), Effect: ekstypes.TaintEffectNoSchedule}},
			},
			joins: true, labels: map[string]string{"team": "f"}, taints: []corev1.Taint{{Key: "dedicated", Value: "f", Effect: corev1.TaintEffectNoSchedule}},
		},
	}
}

func (f *fleet) template(image, instanceType, userData string, changes ...func(*ec2types.RequestLaunchTemplateData)) *ec2types.RequestLaunchTemplateData {
	d := &ec2types.RequestLaunchTemplateData{
		ImageId: aws.String(f.images[image]), InstanceType: ec2types.InstanceType(instanceType), SecurityGroupIds: []string{f.securityGroup},
		UserData:           aws.String(base64.StdEncoding.EncodeToString([]byte(userData))),
		IamInstanceProfile: &ec2types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: aws.String("harbor-node")},
		MetadataOptions: &ec2types.LaunchTemplateInstanceMetadataOptionsRequest{
			HttpEndpoint: ec2types.LaunchTemplateInstanceMetadataEndpointStateEnabled, HttpTokens: ec2types.LaunchTemplateHttpTokensStateRequired,
			HttpPutResponseHopLimit: aws.Int32(2), HttpProtocolIpv6: ec2types.LaunchTemplateInstanceMetadataProtocolIpv6Disabled,
			InstanceMetadataTags: ec2types.LaunchTemplateInstanceMetadataTagsStateDisabled, // the default; Karpenter always says it
		},
		BlockDeviceMappings: []ec2types.LaunchTemplateBlockDeviceMappingRequest{{
			DeviceName: aws.String("/dev/xvda"), Ebs: &ec2types.LaunchTemplateEbsBlockDeviceRequest{VolumeSize: aws.Int32(50), VolumeType: ec2types.VolumeTypeGp3, Encrypted: aws.Bool(true), DeleteOnTermination: aws.Bool(true)},
		}},
	}
	for _, change := range changes {
		change(d)
	}
	return d
}

func (f *fleet) interfaces(d *ec2types.RequestLaunchTemplateData) {
	d.SecurityGroupIds = nil
	d.NetworkInterfaces = []ec2types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{{
		DeviceIndex: aws.Int32(0), AssociatePublicIpAddress: aws.Bool(false), Groups: []string{f.securityGroup}, DeleteOnTermination: aws.Bool(true),
	}}
}

// nodeConfig is user data for nodeadm, with a script beside it.
func (f *fleet) nodeConfig(kubelet, labels, taints string) string {
	return strings.NewReplacer("ENDPOINT", f.cluster.Endpoint, "AUTHORITY", f.cluster.CABundle, "CIDR", f.cluster.ServiceCIDR, "KUBELET", kubelet, "LABELS", labels, "TAINTS", taints).Replace(
		`MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="//"

--//
Content-Type: text/x-shellscript; charset="us-ascii"

#!/bin/bash
sysctl -w net.core.somaxconn=4096

--//
Content-Type: application/node.eks.aws

apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster: {name: harbor, apiServerEndpoint: ENDPOINT, certificateAuthority: AUTHORITY, cidr: CIDR}
  kubelet:
    flags: [--node-labels=LABELS]
    config:
      KUBELET
      registerWithTaints: [TAINTS]

--//--
`)
}

// create makes the group, without instances.
func (f *fleet) create(ctx context.Context, t *testing.T, name string, old oldGroup) {
	t.Helper()
	if old.managed != nil {
		in := old.managed
		in.ClusterName, in.NodegroupName, in.Subnets, in.NodeRole = aws.String(harbor.Cluster), &name, f.subnets, aws.String("arn:aws:iam::123456789012:role/harbor-node")
		in.ScalingConfig = &ekstypes.NodegroupScalingConfig{MinSize: aws.Int32(0), MaxSize: aws.Int32(4), DesiredSize: aws.Int32(0)}
		_, err := f.eks.CreateNodegroup(ctx, in)
		must(t, err)
		NewWithT(t).Eventually(func() ekstypes.NodegroupStatus {
			out, err := f.eks.DescribeNodegroup(ctx, &eks.DescribeNodegroupInput{ClusterName: in.ClusterName, NodegroupName: &name})
			if err != nil || out.Nodegroup == nil {
				return "" // reads lag behind
			}
			return out.Nodegroup.Status
		}).WithContext(ctx).WithTimeout(time.Minute).WithPolling(500 * time.Millisecond).Should(Equal(ekstypes.NodegroupStatusActive))
		return
	}
	made, err := f.ec2.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{LaunchTemplateName: &name, LaunchTemplateData: old.template})
	must(t, err)
	in := &autoscaling.CreateAutoScalingGroupInput{
		AutoScalingGroupName: &name, MinSize: aws.Int32(0), MaxSize: aws.Int32(4), DesiredCapacity: aws.Int32(0), VPCZoneIdentifier: aws.String(strings.Join(f.subnets, ",")),
	}
	from := &asgtypes.LaunchTemplateSpecification{LaunchTemplateId: made.LaunchTemplate.LaunchTemplateId, Version: aws.String("$Default")}
	if old.mixed == nil {
		in.LaunchTemplate = from
	} else {
		in.MixedInstancesPolicy = &asgtypes.MixedInstancesPolicy{LaunchTemplate: &asgtypes.LaunchTemplate{LaunchTemplateSpecification: from, Overrides: old.mixed}, InstancesDistribution: old.spot}
	}
	_, err = f.asg.CreateAutoScalingGroup(ctx, in)
	must(t, err)
}

// list reads the groups as castoff does, once reads show them all.
func (f *fleet) list(ctx context.Context, t *testing.T, names []string) (mine []inventory.NodeGroup) {
	t.Helper()
	NewWithT(t).Eventually(func() ([]string, error) {
		all, err := f.groups.List(ctx, names...)
		mine = slices.DeleteFunc(all, func(g inventory.NodeGroup) bool {
			return !slices.Contains(names, g.Name) || (g.Managed == nil && g.LaunchTemplate.ImageID == "")
		})
		var seen []string
		for _, g := range mine {
			seen = append(seen, g.Name)
		}
		return seen, err
	}).WithContext(ctx).WithTimeout(time.Minute).WithPolling(500 * time.Millisecond).Should(ConsistOf(names))
	return mine
}

// launchedWith is the data of the launch template that the engine made for the pool.
func (f *fleet) launchedWith(ctx context.Context, t *testing.T, pool string) *ec2types.ResponseLaunchTemplateData {
	t.Helper()
	templates, err := f.ec2.DescribeLaunchTemplates(ctx, &ec2.DescribeLaunchTemplatesInput{Filters: []ec2types.Filter{{Name: aws.String("tag:karpenter.k8s.aws/ec2nodeclass"), Values: []string{pool}}}})
	must(t, err)
	if len(templates.LaunchTemplates) == 0 {
		t.Fatalf("the engine made no launch template for %s", pool)
	}
	versions, err := f.ec2.DescribeLaunchTemplateVersions(ctx, &ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: templates.LaunchTemplates[0].LaunchTemplateId})
	must(t, err)
	return versions.LaunchTemplateVersions[0].LaunchTemplateData
}

// answered is a request's template data as EC2 would show it.
func answered(t *testing.T, d *ec2types.RequestLaunchTemplateData) *ec2types.ResponseLaunchTemplateData {
	t.Helper()
	b, err := json.Marshal(d)
	must(t, err)
	out := &ec2types.ResponseLaunchTemplateData{}
	must(t, json.Unmarshal(b, out))
	return out
}

func plain(t *testing.T, userData *string) string {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(aws.ToString(userData))
	must(t, err)
	return string(b)
}

func sortedNames(groups map[string]oldGroup) []string { return slices.Sorted(maps.Keys(groups)) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
