package translate

import (
	"strings"
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

func TestPoolWhole(t *testing.T) {
	cases := map[string]struct {
		reason    string
		group     inventory.NodeGroup
		nodePool  string
		nodeClass string
		// notCarried is field: reason do, one a line.
		notCarried string
	}{
		"LaunchTemplate": {
			reason: "everything that a self-managed group usually has",
			group: plain(tagged(inventory.Tag{Key: "team", Value: "shop", Propagate: true}, inventory.Tag{Key: "aws:x", Value: "y", Propagate: true},
				inventory.Tag{Key: "k8s.io/cluster-autoscaler/enabled", Value: "true"}),
				withUserData("#!/bin/bash\n/etc/eks/bootstrap.sh prod --kubelet-extra-args '--node-labels=tier=mem --register-with-taints=tier=mem:NoSchedule'\n"),
				template(func(lt *inventory.LaunchTemplate) {
					lt.Image.Name = "amazon-eks-node-1.33-v20260114"
					lt.Tags = map[string]string{"cost": "42"}
					lt.KeyName, lt.DetailedMonitoring, lt.AssociatePublicIP, lt.PlacementGroup = "ops", ptr.To(true), ptr.To(false), "close"
					lt.BlockDevices = []inventory.BlockDevice{{DeviceName: "/dev/xvda", SizeGiB: 100, Type: "gp3", IOPS: 4000, ThroughputMiBs: 250,
						Encrypted: ptr.To(true), KMSKey: "key-1", DeleteOnTermination: ptr.To(true)}}
				}),
				func(g *inventory.NodeGroup) { g.Min, g.MaxInstanceLifetime = 1, 604800 }),
			nodePool: `disruption:
  budgets:
  - nodes: 10%
  consolidateAfter: 10m
  consolidationPolicy: WhenEmptyOrUnderutilized
limits:
  cpu: "10"
  memory: 40Gi
template:
  metadata:
    labels:
      tier: mem
  spec:
    expireAfter: 168h0m0s
    nodeClassRef:
      group: karpenter.k8s.aws
      kind: EC2NodeClass
      name: general
    requirements:
    - key: node.kubernetes.io/instance-type
      operator: In
      values:
      - m5.large
    - key: karpenter.sh/capacity-type
      operator: In
      values:
      - on-demand
    - key: kubernetes.io/os
      operator: In
      values:
      - linux
    - key: kubernetes.io/arch
      operator: In
      values:
      - amd64
    taints:
    - effect: NoSchedule
      key: tier
      value: mem
`,
			nodeClass: `amiFamily: AL2
amiSelectorTerms:
- id: ami-1
associatePublicIPAddress: false
blockDeviceMappings:
- deviceName: /dev/xvda
  ebs:
    deleteOnTermination: true
    encrypted: true
    iops: 4000
    kmsKeyID: key-1
    throughput: 250
    volumeSize: 100Gi
    volumeType: gp3
detailedMonitoring: true
metadataOptions:
  httpEndpoint: enabled
  httpProtocolIPv6: disabled
  httpPutResponseHopLimit: 2
  httpTokens: required
placementGroupSelector:
  name: close
role: KarpenterNodeRole-prod
securityGroupSelectorTerms:
- id: sg-1
subnetSelectorTerms:
- id: subnet-a
- id: subnet-b
tags:
  cost: "42"
  team: shop
`,
			notCarried: `tag aws:x: The key is reserved: AWS, EKS or Karpenter sets it where it is needed. Nothing.
keyName ops: Karpenter launches without an SSH key. Use SSM Session Manager, or add the key in spec.userData.
minSize 1: A NodePool has no least number of nodes: empty ones go. Run low-priority placeholder pods if spare capacity is needed.
`,
		},
		"MixedInstances": {
			reason: "spot and on-demand, several types, weights, types by attributes",
			group: plain(func(g *inventory.NodeGroup) {
				g.MixedInstances = &inventory.MixedInstances{
					Overrides:    []inventory.Override{{InstanceType: "m5.xlarge", Weight: "2"}, {InstanceType: "m5.large", Weight: "1"}, {Requirements: true, Types: []string{"c5.large", "m5.large"}}},
					OnDemandBase: 1, OnDemandPercentage: 20, SpotStrategy: "lowest-price", OnDemandStrategy: "prioritized", SpotMaxPrice: "0.05",
				}
				g.CapacityRebalance = true
			}),
			nodePool: `disruption:
  budgets:
  - nodes: 10%
  consolidateAfter: 10m
  consolidationPolicy: WhenEmptyOrUnderutilized
limits:
  cpu: "10"
  memory: 40Gi
template:
  metadata: {}
  spec:
    expireAfter: Never
    nodeClassRef:
      group: karpenter.k8s.aws
      kind: EC2NodeClass
      name: general
    requirements:
    - key: node.kubernetes.io/instance-type
      operator: In
      values:
      - c5.large
      - m5.large
      - m5.xlarge
    - key: karpenter.sh/capacity-type
      operator: In
      values:
      - spot
      - on-demand
    - key: kubernetes.io/os
      operator: In
      values:
      - linux
    - key: kubernetes.io/arch
      operator: In
      values:
      - amd64
`,
			nodeClass: `amiFamily: AL2023
amiSelectorTerms:
- id: ami-1
metadataOptions:
  httpEndpoint: enabled
  httpProtocolIPv6: disabled
  httpPutResponseHopLimit: 2
  httpTokens: required
role: KarpenterNodeRole-prod
securityGroupSelectorTerms:
- id: sg-1
subnetSelectorTerms:
- id: subnet-a
- id: subnet-b
`,
			notCarried: `mixedInstancesPolicy.instancesDistribution: Karpenter chooses between spot and on-demand by price and availability; it keeps neither a base nor a percentage (base 1, 20% on-demand above it). Make a second NodePool for on-demand with a weight, or spread by karpenter.sh/capacity-type.
spotMaxPrice 0.05: Karpenter never pays more than the on-demand price, and knows no other bound. Nothing, or restrict the instance types.
spotAllocationStrategy lowest-price: Karpenter asks for price-capacity-optimized. Nothing.
onDemandAllocationStrategy prioritized: Karpenter launches the cheapest type that fits. Restrict the instance types if the order matters.
weight 2 of m5.xlarge: Karpenter counts what pods ask for, not weights. Nothing.
instanceRequirements: The NodePool has the 2 instance types that fit today; types to come are not added. Replace the list by requirements on karpenter.k8s.aws labels.
capacityRebalance: Karpenter acts on spot interruption warnings, not on rebalance recommendations. Nothing.
`,
		},
		"Managed": {
			reason: "a managed node group on spot, with EKS's own template, labels and taints",
			group: managed("AL2023_x86_64_STANDARD", "1.33.0-20260114", func(g *inventory.NodeGroup) {
				g.Managed.CapacityType, g.Managed.DiskSizeGiB = "SPOT", 50
				g.Managed.Labels = map[string]string{"tier": "batch"}
				g.Managed.Taints = []corev1.Taint{{Key: "batch", Effect: corev1.TaintEffectPreferNoSchedule}}
				g.LaunchTemplate.SecurityGroups = nil
				g.LaunchTemplate.InstanceType = ""
			}),
			nodePool: `disruption:
  budgets:
  - nodes: 10%
  consolidateAfter: 10m
  consolidationPolicy: WhenEmptyOrUnderutilized
limits:
  cpu: "10"
  memory: 40Gi
template:
  metadata:
    labels:
      eks.amazonaws.com/capacityType: SPOT
      eks.amazonaws.com/nodegroup: mng
      tier: batch
  spec:
    expireAfter: Never
    nodeClassRef:
      group: karpenter.k8s.aws
      kind: EC2NodeClass
      name: general
    requirements:
    - key: node.kubernetes.io/instance-type
      operator: In
      values:
      - m5.large
      - m6i.large
    - key: karpenter.sh/capacity-type
      operator: In
      values:
      - spot
    - key: kubernetes.io/os
      operator: In
      values:
      - linux
    - key: kubernetes.io/arch
      operator: In
      values:
      - amd64
    taints:
    - effect: PreferNoSchedule
      key: batch
`,
			nodeClass: `amiFamily: AL2023
amiSelectorTerms:
- alias: al2023@v20260114
blockDeviceMappings:
- deviceName: /dev/xvda
  ebs:
    deleteOnTermination: true
    volumeSize: 50Gi
    volumeType: gp3
metadataOptions:
  httpEndpoint: enabled
  httpProtocolIPv6: disabled
  httpPutResponseHopLimit: 2
  httpTokens: required
role: KarpenterNodeRole-prod
securityGroupSelectorTerms:
- id: sg-cluster
subnetSelectorTerms:
- id: subnet-a
- id: subnet-b
`,
			notCarried: ``,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := translated(t, tc.group)
			if diff := cmp.Diff(tc.nodePool, asYAML(t, got.NodePool.Spec)); diff != "" {
				t.Errorf("%s: NodePool: -want +got\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.nodeClass, asYAML(t, got.NodeClass.Spec)); diff != "" {
				t.Errorf("%s: EC2NodeClass: -want +got\n%s", tc.reason, diff)
			}
			var listed strings.Builder
			for _, n := range got.NotCarried {
				listed.WriteString(n.Field + ": " + n.Reason + " " + n.Do + "\n")
			}
			if diff := cmp.Diff(tc.notCarried, listed.String()); diff != "" {
				t.Errorf("%s: not carried over: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func TestOwnMetadata(t *testing.T) {
	got := translated(t, plain())
	want := map[string]string{v1alpha1.LabelPool: "general", v1alpha1.LabelCluster: "prod"}
	for _, o := range []interface {
		GetName() string
		GetLabels() map[string]string
		GetAnnotations() map[string]string
	}{&got.NodePool, &got.NodeClass} {
		if diff := cmp.Diff(want, o.GetLabels()); diff != "" {
			t.Errorf("labels of %T: -want +got\n%s", o, diff)
		}
		if o.GetName() != "general" || o.GetAnnotations()[v1alpha1.AnnotationTargetHash] == "" {
			t.Errorf("%T is named %q and has annotations %v", o, o.GetName(), o.GetAnnotations())
		}
	}
	if got.Pool != "general" {
		t.Errorf("target of pool %q", got.Pool)
	}
}

// EKS allows names of 100 characters, and names that end in a hyphen; a label value is shorter and does not.
func TestClusterNameThatIsNoLabel(t *testing.T) {
	for _, name := range []string{strings.Repeat("a", 64), "prod-", "prod_"} {
		target, err := Pool(inventory.Cluster{Name: name}, inventory.Pool{Name: "general"}, []inventory.NodeGroup{plain()}, "role")
		if err != nil {
			t.Fatal(err)
		}
		validates(t, target)
		if v, ok := target.NodePool.Labels[v1alpha1.LabelCluster]; ok {
			t.Errorf("cluster %s: label %q", name, v)
		}
	}
}

func TestErrors(t *testing.T) {
	cases := map[string]struct {
		reason string
		groups []inventory.NodeGroup
		role   string
		want   string
	}{
		"NoGroups": {
			reason: "a pool of groups that are gone",
			role:   "role",
			want:   "pool general has no node group that exists: name one in spec.pools",
		},
		"Empty": {
			reason: "nothing known of the group",
			groups: []inventory.NodeGroup{{}},
			role:   "role",
			want:   "pool general: no instance type could be read from node groups [asg]: check their launch templates",
		},
		"NoImage": {
			reason: "an image that nobody names",
			groups: []inventory.NodeGroup{plain(template(func(lt *inventory.LaunchTemplate) { lt.ImageID, lt.Image = "", nil }))},
			role:   "role",
			want:   `pool general: node group asg has no image that castoff can read: its launch template names none, and EKS's AMI type "" is not known`,
		},
		"UnknownAMIType": {
			reason: "EKS has a new type",
			groups: []inventory.NodeGroup{managed("AL2030_x86_64", "1.40.0-20300101", template(func(lt *inventory.LaunchTemplate) { lt.ImageID = "" }))},
			role:   "role",
			want:   `pool general: node group mng has no image that castoff can read: its launch template names none, and EKS's AMI type "AL2030_x86_64" is not known`,
		},
		"NoSubnet": {
			reason: "an EC2NodeClass without subnets is refused by its definition",
			groups: []inventory.NodeGroup{plain(func(g *inventory.NodeGroup) { g.Subnets = []string{""} })},
			role:   "role",
			want:   "pool general: no subnet could be read from node group asg: check its Auto Scaling group",
		},
		"NoRole": {
			reason: "nor is one without a role",
			groups: []inventory.NodeGroup{plain()},
			want:   "pool general: its nodes have no IAM role",
		},
		"WindowsAndLinux": {
			reason: "Linux nodes would not run its pods",
			groups: []inventory.NodeGroup{plain(), managed("WINDOWS_CORE_2022_x86_64", "1.33-2026.01.14")},
			role:   "role",
			want:   "pool general: of node groups asg and mng one runs Windows and one Linux: put them into pools of their own",
		},
		"OddKubelet": {
			reason: "a NodeConfig that nodeadm would not take",
			groups: []inventory.NodeGroup{plain(withUserData("apiVersion: node.eks.aws/v1alpha1\nspec: {kubelet: [1]}"))},
			role:   "role",
			want:   "pool general: the user data of node group asg cannot be carried over: spec.kubelet of its NodeConfig is not as nodeadm takes it. Mend it in a new version of the launch template, or leave the group to Cluster Autoscaler",
		},
		"NoText": {
			reason: "what is no text cannot be merged",
			groups: []inventory.NodeGroup{plain(withUserData("\x1f\x8b\x08\x00"))},
			role:   "role",
			want:   "pool general: the user data of node group asg cannot be carried over: it is not text. Mend it in a new version of the launch template, or leave the group to Cluster Autoscaler",
		},
		"OtherKind": {
			reason: "Bottlerocket's settings on Amazon Linux do nothing",
			groups: []inventory.NodeGroup{plain(withUserData(bottlerocket))},
			role:   "role",
			want:   "pool general: the user data of node group asg is not of the kind that an image of family AL2023 reads: its nodes start without it today. Mend it in a new version of the launch template",
		},
		"TemplateIsGone": {
			reason: "types of the overrides alone make no node",
			groups: []inventory.NodeGroup{plain(mixed(0, 100, inventory.Override{InstanceType: "m5.large"}), func(g *inventory.NodeGroup) {
				g.LaunchTemplate = inventory.LaunchTemplate{ID: "lt-1", Name: "nodes", Asked: "7"}
			})},
			role: "role",
			want: "pool general: node group asg cannot be translated: its launch template lt-1 nodes has no version 7; name one that exists",
		},
		"ConfigurationIsGone": {
			reason: "nor does a name",
			groups: []inventory.NodeGroup{plain(func(g *inventory.NodeGroup) { g.LaunchTemplate = inventory.LaunchTemplate{Configuration: "old"} })},
			role:   "role",
			want:   "pool general: node group asg cannot be translated: its launch configuration old does not exist; give the group a launch template",
		},
		"UserDataIsGone": {
			reason: "labels and settings would go with it, and every node be replaced",
			groups: []inventory.NodeGroup{plain(template(func(lt *inventory.LaunchTemplate) { lt.ID, lt.UserDataSHA256 = "lt-1", "00" }))},
			role:   "role",
			want:   "pool general: node group asg cannot be translated: the user data of version 3 of launch template lt-1, with which the migration began, is no longer the one in force; set the group back to that version until the migration is over",
		},
		"MovingImage": {
			reason: "a parameter's image changes behind the back",
			groups: []inventory.NodeGroup{plain(template(func(lt *inventory.LaunchTemplate) { lt.ImageID, lt.Image = "resolve:ssm:/x", nil }))},
			role:   "role",
			want:   "pool general: node group asg launches the image resolve:ssm:/x, which is another one from time to time: name the image's id in a new version of its launch template",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := Pool(cluster, inventory.Pool{Name: "general", NodeGroups: []string{"asg"}}, tc.groups, tc.role)
			if err == nil {
				t.Fatal(tc.reason + ": no error")
			}
			if diff := cmp.Diff(tc.want, err.Error()); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
			if c := inventory.ClassOf(err); c != inventory.ClassTerminal {
				t.Errorf("class %s: only a human can mend this", c)
			}
		})
	}
	bare := plain(template(func(lt *inventory.LaunchTemplate) { lt.SecurityGroups = nil }))
	_, err := Pool(inventory.Cluster{}, inventory.Pool{Name: "general"}, []inventory.NodeGroup{bare}, "role")
	want := "pool general: neither node group asg nor the cluster has a security group: add one to the launch template"
	if err == nil || err.Error() != want {
		t.Errorf("no security group: got %v, want %s", err, want)
	}
}

func TestHashIsStable(t *testing.T) {
	group := func() inventory.NodeGroup {
		return plain(template(func(lt *inventory.LaunchTemplate) {
			lt.Tags = map[string]string{"a": "1", "b": "2", "c": "3", "d": "4", "aws:a": "", "aws:b": "", "aws:c": ""}
		}), withUserData("#!/bin/bash\n/etc/eks/bootstrap.sh prod --kubelet-extra-args '--node-labels=a=1,b=2,c=3,kubernetes.io/hostname=x,karpenter.sh/y=z'"))
	}
	first := translated(t, group())
	for range 50 {
		again, err := Pool(cluster, inventory.Pool{Name: "general"}, []inventory.NodeGroup{group()}, "KarpenterNodeRole-prod")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(first.NodeClass.Annotations, again.NodeClass.Annotations); diff != "" {
			t.Fatalf("the same group has another hash: -first +again\n%s", diff)
		}
		if diff := cmp.Diff(first.NotCarried, again.NotCarried); diff != "" {
			t.Fatalf("the same group has another list, so the status would be written again and again: -first +again\n%s", diff)
		}
	}
	other := translated(t, plain(template(func(lt *inventory.LaunchTemplate) { lt.ImageID = "ami-2" })))
	if first.NodeClass.Annotations[v1alpha1.AnnotationTargetHash] == other.NodeClass.Annotations[v1alpha1.AnnotationTargetHash] {
		t.Error("another image has the same hash")
	}
	if first.NodePool.Annotations[v1alpha1.AnnotationTargetHash] == other.NodePool.Annotations[v1alpha1.AnnotationTargetHash] {
		t.Error("other labels have the same hash")
	}
}

// The order in which AWS lists things means nothing.
func TestOrderOfListsMeansNothing(t *testing.T) {
	tags := []inventory.Tag{{Key: "a", Value: "1", Propagate: true}, {Key: "k8s.io/cluster-autoscaler/node-template/taint/x", Value: "v:NoSchedule"}, {Key: "k8s.io/cluster-autoscaler/node-template/taint/y", Value: "v:NoSchedule"}}
	forward := plain(tagged(tags...), func(g *inventory.NodeGroup) { g.Subnets = []string{"subnet-1", "subnet-2"} })
	backward := plain(tagged(tags[2], tags[1], tags[0]), func(g *inventory.NodeGroup) { g.Subnets = []string{"subnet-2", "subnet-1"} })
	if diff := cmp.Diff(translated(t, forward).NodePool.Annotations, translated(t, backward).NodePool.Annotations); diff != "" {
		t.Errorf("NodePool: -forward +backward\n%s", diff)
	}
	if diff := cmp.Diff(translated(t, forward).NodeClass.Annotations, translated(t, backward).NodeClass.Annotations); diff != "" {
		t.Errorf("EC2NodeClass: -forward +backward\n%s", diff)
	}
}

func TestAMI(t *testing.T) {
	type image struct{ Terms, Family string }
	own := func(g *inventory.NodeGroup) { g.Managed.OwnLaunchTemplate = true }
	noImage := template(func(lt *inventory.LaunchTemplate) { lt.ImageID, lt.Image = "", nil })
	imageName := func(name string) func(*inventory.NodeGroup) {
		return template(func(lt *inventory.LaunchTemplate) { lt.Image = &inventory.Image{Name: name} })
	}
	custom := []string{"imageId ami-1"}
	cases := map[string]struct {
		reason string
		groups []inventory.NodeGroup
		want   image
		listed []string
	}{
		"AL2023": {
			reason: "the release as an alias, never @latest",
			groups: []inventory.NodeGroup{managed("AL2023_ARM_64_STANDARD", "1.33.0-20260114")},
			want:   image{"al2023@v20260114", awsv1.AMIFamilyAL2023},
		},
		"AL2": {
			reason: "the release as an alias",
			groups: []inventory.NodeGroup{managed("AL2_x86_64", "1.32.1-20250101")},
			want:   image{"al2@v20250101", awsv1.AMIFamilyAL2},
		},
		"AL2GPU": {
			reason: "every variant of the family",
			groups: []inventory.NodeGroup{managed("AL2_x86_64_GPU", "1.32.1-20250101")},
			want:   image{"al2@v20250101", awsv1.AMIFamilyAL2},
		},
		"Bottlerocket": {
			reason: "its version comes first",
			groups: []inventory.NodeGroup{managed("BOTTLEROCKET_x86_64", "1.51.0-47438798")},
			want:   image{"bottlerocket@v1.51.0", awsv1.AMIFamilyBottlerocket},
		},
		"OwnTemplateWithoutImage": {
			reason: "EKS chooses the image, so the release says which",
			groups: []inventory.NodeGroup{managed("AL2023_x86_64_STANDARD", "1.33.0-20260114", own, noImage)},
			want:   image{"al2023@v20260114", awsv1.AMIFamilyAL2023},
		},
		"OwnTemplateWithImage": {
			reason: "the user chose the image",
			groups: []inventory.NodeGroup{managed("CUSTOM", "ami-1", own)},
			want:   image{"ami-1", awsv1.AMIFamilyAL2023},
		},
		"ReleaseUnknown": {
			reason: "a release that is not written as EKS does",
			groups: []inventory.NodeGroup{managed("AL2023_x86_64_STANDARD", "latest")},
			want:   image{"ami-1", awsv1.AMIFamilyAL2023},
		},
		"ByNameAL2": {
			reason: "EKS's own image for Amazon Linux 2",
			groups: []inventory.NodeGroup{plain(imageName("amazon-eks-gpu-node-1.32-v20250101"))},
			want:   image{"ami-1", awsv1.AMIFamilyAL2},
		},
		"ByNameBottlerocket": {
			reason: "Bottlerocket's",
			groups: []inventory.NodeGroup{plain(imageName("bottlerocket-aws-k8s-1.33-x86_64-v1.51.0-47438798"))},
			want:   image{"ami-1", awsv1.AMIFamilyBottlerocket},
		},
		"ByUserDataAL2": {
			reason: "an image of one's own that joins like Amazon Linux 2",
			groups: []inventory.NodeGroup{plain(imageName("golden"), withUserData("#!/bin/bash\n/etc/eks/bootstrap.sh prod"))},
			want:   image{"ami-1", awsv1.AMIFamilyAL2},
		},
		"ByUserDataAL2023": {
			reason: "or like Amazon Linux 2023",
			groups: []inventory.NodeGroup{plain(imageName("golden"), withUserData("apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig"))},
			want:   image{"ami-1", awsv1.AMIFamilyAL2023},
		},
		"ByUserDataBottlerocket": {
			reason: "or like Bottlerocket",
			groups: []inventory.NodeGroup{plain(imageName("golden"), withUserData("[settings.kubernetes]\ncluster-name = \"prod\""))},
			want:   image{"ami-1", awsv1.AMIFamilyBottlerocket},
		},
		"Custom": {
			reason: "nobody knows how it joins, so it is listed",
			groups: []inventory.NodeGroup{plain(imageName("golden"))},
			want:   image{"ami-1", awsv1.AMIFamilyCustom},
			listed: custom,
		},
		"ImageIsGone": {
			reason: "EC2 does not describe deregistered images",
			groups: []inventory.NodeGroup{plain(template(func(lt *inventory.LaunchTemplate) { lt.Image = nil }))},
			want:   image{"ami-1", awsv1.AMIFamilyCustom},
			listed: custom,
		},
		"SameImages": {
			reason: "one image of two groups is one term",
			groups: []inventory.NodeGroup{plain(), plain(named("b"))},
			want:   image{"ami-1", awsv1.AMIFamilyAL2023},
		},
		"TwoImages": {
			reason: "Karpenter would start the newest for both",
			groups: []inventory.NodeGroup{plain(), plain(named("b"), template(func(lt *inventory.LaunchTemplate) { lt.ImageID = "ami-2" }))},
			want:   image{"ami-1 ami-2", awsv1.AMIFamilyAL2023},
			listed: []string{"AMI"},
		},
		"TwoReleases": {
			reason: "an EC2NodeClass has one alias",
			groups: []inventory.NodeGroup{managed("AL2023_x86_64_STANDARD", "1.33.0-20260114"), managed("AL2023_x86_64_STANDARD", "1.33.0-20251201", named("b"))},
			want:   image{"al2023@v20260114", awsv1.AMIFamilyAL2023},
			listed: []string{"AMI"},
		},
		"AliasAndImage": {
			reason: "nor can it have an alias and an id",
			groups: []inventory.NodeGroup{managed("AL2023_x86_64_STANDARD", "1.33.0-20260114"), plain(named("b"))},
			want:   image{"al2023@v20260114", awsv1.AMIFamilyAL2023},
			listed: []string{"AMI"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			target := translated(t, tc.groups...)
			var terms []string
			for _, a := range target.NodeClass.Spec.AMISelectorTerms {
				terms = append(terms, a.Alias+a.ID)
			}
			got := image{strings.Join(terms, " "), ptr.Deref(target.NodeClass.Spec.AMIFamily, "")}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.listed, fields(target)); diff != "" {
				t.Errorf("%s: listed: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func TestRequirements(t *testing.T) {
	mixed := func(base, percentage int32) inventory.NodeGroup {
		return plain(func(g *inventory.NodeGroup) {
			g.MixedInstances = &inventory.MixedInstances{OnDemandBase: base, OnDemandPercentage: percentage}
		})
	}
	arch := func(a string) func(*inventory.NodeGroup) {
		return template(func(lt *inventory.LaunchTemplate) { lt.Image.Architecture = a })
	}
	spot := template(func(lt *inventory.LaunchTemplate) { lt.Spot = true })
	distribution, oneSpot := []string{"mixedInstancesPolicy.instancesDistribution"}, []string{"spot with one instance type"}
	capacity := karpv1.CapacityTypeLabelKey
	cases := map[string]struct {
		reason string
		groups []inventory.NodeGroup
		key    string
		want   []string
		listed []string
	}{
		"OnDemand": {
			reason: "the default of a template",
			groups: []inventory.NodeGroup{plain()},
			key:    capacity,
			want:   []string{"on-demand"},
		},
		"SpotTemplate": {
			reason: "the template asks for spot",
			groups: []inventory.NodeGroup{plain(spot)},
			key:    capacity,
			want:   []string{"spot"},
			listed: oneSpot,
		},
		"AllSpot": {
			reason: "a policy without any on-demand",
			groups: []inventory.NodeGroup{mixed(0, 0)},
			key:    capacity,
			want:   []string{"spot"},
			listed: oneSpot,
		},
		"AllOnDemand": {
			reason: "a policy without any spot",
			groups: []inventory.NodeGroup{mixed(0, 100)},
			key:    capacity,
			want:   []string{"on-demand"},
		},
		"BaseOfAllDemand": {
			reason: "a base adds nothing to all",
			groups: []inventory.NodeGroup{mixed(2, 100)},
			key:    capacity,
			want:   []string{"on-demand"},
		},
		"Base": {
			reason: "a base of on-demand, spot above it",
			groups: []inventory.NodeGroup{mixed(2, 0)},
			key:    capacity,
			want:   []string{"spot", "on-demand"},
			listed: append(distribution, oneSpot...),
		},
		"Percentage": {
			reason: "a mix",
			groups: []inventory.NodeGroup{mixed(0, 50)},
			key:    capacity,
			want:   []string{"spot", "on-demand"},
			listed: append(distribution, oneSpot...),
		},
		"GroupsUnlike": {
			reason: "one on spot, one not: the mix is Karpenter's choice from now on",
			groups: []inventory.NodeGroup{plain(), plain(named("b"), spot)},
			key:    capacity,
			want:   []string{"spot", "on-demand"},
			listed: append([]string{"capacity type"}, oneSpot...),
		},
		"CapacityBlock": {
			reason: "reserved capacity is not in this version",
			groups: []inventory.NodeGroup{managed("AL2023_x86_64_NVIDIA", "1.33.0-20260114", func(g *inventory.NodeGroup) { g.Managed.CapacityType = "CAPACITY_BLOCK" })},
			key:    capacity,
			want:   []string{"on-demand"},
			listed: []string{"capacityType CAPACITY_BLOCK"},
		},
		"Arm": {
			reason: "EC2's word is Kubernetes' word",
			groups: []inventory.NodeGroup{plain(arch("arm64"))},
			key:    corev1.LabelArchStable,
			want:   []string{"arm64"},
		},
		"ArchUnknown": {
			reason: "the instance types decide",
			groups: []inventory.NodeGroup{plain(arch(""))},
			key:    corev1.LabelArchStable,
			want:   []string{"amd64"},
		},
		"BothArchs": {
			reason: "the first group's would shut out the other's types",
			groups: []inventory.NodeGroup{plain(arch("arm64")), plain(named("b"), arch("x86_64"))},
			key:    corev1.LabelArchStable,
			want:   []string{"amd64", "arm64"},
			listed: []string{"architecture"},
		},
		"OneArchUnknown": {
			reason: "the types of the other group say it",
			groups: []inventory.NodeGroup{plain(arch("arm64")), plain(named("b"), arch(""), template(func(lt *inventory.LaunchTemplate) { lt.InstanceType = "r6g.xlarge" }))},
			key:    corev1.LabelArchStable,
			want:   []string{"arm64"},
		},
		"Dedicated": {
			reason: "hardware that nobody shares",
			groups: []inventory.NodeGroup{plain(template(func(lt *inventory.LaunchTemplate) { lt.Tenancy = "dedicated" }))},
			key:    awsv1.LabelInstanceTenancy,
			want:   []string{"dedicated"},
		},
		"DefaultTenancy": {
			reason: "spelled out, it is still the default",
			groups: []inventory.NodeGroup{plain(template(func(lt *inventory.LaunchTemplate) { lt.Tenancy = "default" }))},
			key:    awsv1.LabelInstanceTenancy,
		},
		"Host": {
			reason: "Karpenter does not launch there",
			groups: []inventory.NodeGroup{plain(template(func(lt *inventory.LaunchTemplate) { lt.Tenancy = "host" }))},
			key:    awsv1.LabelInstanceTenancy,
			listed: []string{"tenancy host"},
		},
		"TypesOfAllGroups": {
			reason: "each zone's group may have its own",
			groups: []inventory.NodeGroup{plain(), plain(named("b"), template(func(lt *inventory.LaunchTemplate) { lt.InstanceType = "c5.large" }))},
			key:    corev1.LabelInstanceTypeStable,
			want:   []string{"c5.large", "m5.large"},
		},
		"TypeOfTemplate": {
			reason: "a policy without overrides launches the template's",
			groups: []inventory.NodeGroup{mixed(0, 100)},
			key:    corev1.LabelInstanceTypeStable,
			want:   []string{"m5.large"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			target := translated(t, tc.groups...)
			if diff := cmp.Diff(tc.want, requirement(target, tc.key)); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.listed, fields(target)); diff != "" {
				t.Errorf("%s: listed: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}
