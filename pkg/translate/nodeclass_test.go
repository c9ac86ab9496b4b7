package translate

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/utils/ptr"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

func ids(prefix string, n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("%s-%02d", prefix, i))
	}
	return out
}

func TestNodeClassFields(t *testing.T) {
	devices := func(d ...inventory.BlockDevice) inventory.NodeGroup {
		return plain(template(func(lt *inventory.LaunchTemplate) { lt.BlockDevices = d }))
	}
	groupsOf := func(ids ...string) inventory.NodeGroup {
		return plain(template(func(lt *inventory.LaunchTemplate) { lt.SecurityGroups = ids }))
	}
	metadata := func(m *inventory.Metadata, change ...func(*inventory.NodeGroup)) inventory.NodeGroup {
		return plain(append(change, template(func(lt *inventory.LaunchTemplate) { lt.Metadata = m }))...)
	}
	al2 := template(func(lt *inventory.LaunchTemplate) { lt.Image.Name = "amazon-eks-node-1.32" })
	placed := func(name string) inventory.NodeGroup {
		return plain(template(func(lt *inventory.LaunchTemplate) { lt.PlacementGroup = name }))
	}
	tags := func(own map[string]string, of ...inventory.Tag) inventory.NodeGroup {
		return plain(tagged(of...), template(func(lt *inventory.LaunchTemplate) { lt.Tags = own }))
	}
	disk := func(amiType, release string) inventory.NodeGroup {
		return managed(amiType, release, func(g *inventory.NodeGroup) { g.Managed.DiskSizeGiB = 80 })
	}
	cases := map[string]struct {
		reason string
		groups []inventory.NodeGroup
		// field of the spec, as YAML.
		field  func(inventory.Target) any
		want   string
		listed []string
	}{
		"SubnetsOfAllGroups": {
			reason: "a group per zone is one pool",
			groups: []inventory.NodeGroup{plain(), plain(named("b"), func(g *inventory.NodeGroup) { g.Subnets = []string{"subnet-c", "subnet-a"} })},
			field:  subnetsOf,
			want:   "- id: subnet-a\n- id: subnet-b\n- id: subnet-c\n",
		},
		"Subnets31": {
			reason: "an EC2NodeClass takes thirty; the rest is named",
			groups: []inventory.NodeGroup{plain(func(g *inventory.NodeGroup) { g.Subnets = ids("subnet", 31) })},
			field:  func(t inventory.Target) any { return len(t.NodeClass.Spec.SubnetSelectorTerms) },
			want:   "30\n",
			listed: []string{"1 of 31 subnets"},
		},
		"SecurityGroups": {
			reason: "the template's own",
			groups: []inventory.NodeGroup{groupsOf("sg-2", "sg-1", "sg-2")},
			field:  securityGroupsOf,
			want:   "- id: sg-1\n- id: sg-2\n",
		},
		"SecurityGroupsNone": {
			reason: "EKS gives the cluster's to nodes without any",
			groups: []inventory.NodeGroup{groupsOf()},
			field:  securityGroupsOf,
			want:   "- id: sg-cluster\n",
		},
		"SecurityGroupsByName": {
			reason: "old launch configurations have names",
			groups: []inventory.NodeGroup{groupsOf("default")},
			field:  securityGroupsOf,
			want:   "- name: default\n",
		},
		"SecurityGroupsOfAll": {
			reason: "the pool's nodes get those of all groups, and that is said",
			groups: []inventory.NodeGroup{groupsOf("sg-1"), plain(named("b"), template(func(lt *inventory.LaunchTemplate) { lt.SecurityGroups = []string{"sg-2"} }))},
			field:  securityGroupsOf,
			want:   "- id: sg-1\n- id: sg-2\n",
			listed: []string{"security groups"},
		},
		"DiskFromSnapshot": {
			reason: "a snapshot says the size",
			groups: []inventory.NodeGroup{devices(inventory.BlockDevice{DeviceName: "/dev/xvda", SnapshotID: "snap-1"})},
			field:  devicesOf,
			want:   "- deviceName: /dev/xvda\n  ebs:\n    snapshotID: snap-1\n",
		},
		"DiskWithoutSize": {
			reason: "the definition wants a size where the image had it",
			groups: []inventory.NodeGroup{devices(inventory.BlockDevice{DeviceName: "/dev/xvda", Encrypted: ptr.To(true)})},
			field:  devicesOf,
			want:   "- deviceName: /dev/xvda\n  ebs:\n    encrypted: true\n    volumeSize: 20Gi\n",
			listed: []string{"blockDeviceMappings /dev/xvda"},
		},
		"DiskTiB": {
			reason: "1,024 GiB are written 1Ti",
			groups: []inventory.NodeGroup{devices(inventory.BlockDevice{DeviceName: "/dev/xvda", SizeGiB: 1024})},
			field:  devicesOf,
			want:   "- deviceName: /dev/xvda\n  ebs:\n    volumeSize: 1Ti\n",
		},
		"TwoDisks": {
			reason: "each in its place",
			groups: []inventory.NodeGroup{devices(inventory.BlockDevice{DeviceName: "/dev/xvda", SizeGiB: 20}, inventory.BlockDevice{DeviceName: "/dev/xvdb", SizeGiB: 500, Type: "st1", DeleteOnTermination: ptr.To(false)})},
			field:  devicesOf,
			want:   "- deviceName: /dev/xvda\n  ebs:\n    volumeSize: 20Gi\n- deviceName: /dev/xvdb\n  ebs:\n    deleteOnTermination: false\n    volumeSize: 500Gi\n    volumeType: st1\n",
		},
		"InstanceStore": {
			reason: "a mapping that needs none",
			groups: []inventory.NodeGroup{devices(inventory.BlockDevice{DeviceName: "/dev/sdb", Virtual: "ephemeral0"})},
			field:  devicesOf,
			want:   "null\n",
			listed: []string{"blockDeviceMappings /dev/sdb"},
		},
		"ManagedDisk": {
			reason: "a node group's disk size is its root volume's",
			groups: []inventory.NodeGroup{disk("AL2_x86_64", "1.32.1-20250101")},
			field:  devicesOf,
			want:   "- deviceName: /dev/xvda\n  ebs:\n    deleteOnTermination: true\n    volumeSize: 80Gi\n    volumeType: gp3\n",
		},
		"ManagedDiskBottlerocket": {
			reason: "Bottlerocket's is the second volume",
			groups: []inventory.NodeGroup{disk("BOTTLEROCKET_x86_64", "1.51.0-47438798")},
			field:  devicesOf,
			want:   "- deviceName: /dev/xvdb\n  ebs:\n    deleteOnTermination: true\n    volumeSize: 80Gi\n    volumeType: gp3\n",
		},
		"Metadata": {
			reason: "what the template says, to the letter",
			groups: []inventory.NodeGroup{metadata(&inventory.Metadata{Endpoint: "disabled", IPv6: "enabled", HopLimit: 3, Tokens: "optional"})},
			field:  metadataOf,
			want:   "httpEndpoint: disabled\nhttpProtocolIPv6: enabled\nhttpPutResponseHopLimit: 3\nhttpTokens: optional\n",
		},
		"MetadataHalf": {
			reason: "what is silent is what EC2 does for Amazon Linux 2023",
			groups: []inventory.NodeGroup{metadata(&inventory.Metadata{Tokens: "optional"})},
			field:  metadataOf,
			want:   "httpEndpoint: enabled\nhttpProtocolIPv6: disabled\nhttpPutResponseHopLimit: 2\nhttpTokens: optional\n",
		},
		"MetadataSilent": {
			reason: "Karpenter's own default would break pods that use one hop more",
			groups: []inventory.NodeGroup{metadata(nil)},
			field:  metadataOf,
			want:   "httpEndpoint: enabled\nhttpProtocolIPv6: disabled\nhttpPutResponseHopLimit: 2\nhttpTokens: required\n",
			listed: []string{"metadataOptions"},
		},
		"MetadataSilentAL2": {
			reason: "or tokens that old images do not ask for",
			groups: []inventory.NodeGroup{metadata(nil, al2)},
			field:  metadataOf,
			want:   "httpEndpoint: enabled\nhttpProtocolIPv6: disabled\nhttpPutResponseHopLimit: 1\nhttpTokens: optional\n",
			listed: []string{"metadataOptions"},
		},
		"MetadataTags": {
			reason: "an EC2NodeClass has no such option",
			groups: []inventory.NodeGroup{metadata(&inventory.Metadata{HopLimit: 2, Tokens: "required", Tags: "enabled"})},
			field:  metadataOf,
			want:   "httpEndpoint: enabled\nhttpProtocolIPv6: disabled\nhttpPutResponseHopLimit: 2\nhttpTokens: required\n",
			listed: []string{"metadataOptions.instanceMetadataTags"},
		},
		"PlacementGroup": {
			reason: "by name",
			groups: []inventory.NodeGroup{placed("close")},
			field:  placementOf,
			want:   "name: close\n",
		},
		"PlacementGroupLikeAnID": {
			reason: "a name may begin as ids do",
			groups: []inventory.NodeGroup{placed("pg-web-1")},
			field:  placementOf,
			want:   "name: pg-web-1\n",
		},
		"UnknownVolumeType": {
			reason: "the definition would refuse it",
			groups: []inventory.NodeGroup{devices(inventory.BlockDevice{DeviceName: "/dev/xvda", SizeGiB: 20, Type: "gp9"})},
			field:  devicesOf,
			want:   "- deviceName: /dev/xvda\n  ebs:\n    volumeSize: 20Gi\n",
			listed: []string{"blockDeviceMappings /dev/xvda volumeType gp9"},
		},
		"PlacementGroupID": {
			reason: "by id, where the template has no name",
			groups: []inventory.NodeGroup{placed("pg-0123456789abcdef0")},
			field:  placementOf,
			want:   "id: pg-0123456789abcdef0\n",
		},
		"Tags": {
			reason: "the template's, and the group's that propagate; the template's own value wins",
			groups: []inventory.NodeGroup{tags(map[string]string{"a": "1"}, inventory.Tag{Key: "a", Value: "2", Propagate: true}, inventory.Tag{Key: "b", Value: "3", Propagate: true}, inventory.Tag{Key: "c", Value: "4"})},
			field:  tagsOf,
			want:   "a: \"1\"\nb: \"3\"\n",
			listed: []string{"tag a=2"},
		},
		"TagsReserved": {
			reason: "each is set by somebody else where it is needed",
			groups: []inventory.NodeGroup{tags(map[string]string{"aws:ec2": "", "eks:cluster-name": "prod", "kubernetes.io/cluster/prod": "owned", "kubernetes.io/clusters": "x", "karpenter.sh/nodepool": "x", "karpenter.k8s.aws/x": "y"},
				inventory.Tag{Key: "k8s.io/cluster-autoscaler/enabled", Propagate: true})},
			field:  tagsOf,
			want:   "null\n",
			listed: []string{"tag aws:ec2", "tag eks:cluster-name", "tag karpenter.k8s.aws/x", "tag karpenter.sh/nodepool", "tag kubernetes.io/cluster/prod", "tag kubernetes.io/clusters", "tag k8s.io/cluster-autoscaler/enabled"},
		},
		"TagWithoutKey": {
			reason: "no tag at all",
			groups: []inventory.NodeGroup{tags(map[string]string{"": "x"})},
			field:  tagsOf,
			want:   "null\n",
			listed: []string{"tag "},
		},
		"TagsOfAllGroups": {
			reason: "no group's tag is lost",
			groups: []inventory.NodeGroup{tags(map[string]string{"a": "1"}), plain(named("b"), tagged(inventory.Tag{Key: "b", Value: "2", Propagate: true}))},
			field:  tagsOf,
			want:   "a: \"1\"\nb: \"2\"\n",
		},
		"Monitoring": {
			reason: "detailed monitoring costs, and somebody looks at it",
			groups: []inventory.NodeGroup{plain(template(func(lt *inventory.LaunchTemplate) { lt.DetailedMonitoring = ptr.To(true) }))},
			field:  func(t inventory.Target) any { return t.NodeClass.Spec.DetailedMonitoring },
			want:   "true\n",
		},
		"PublicIP": {
			reason: "false is not the same as silent",
			groups: []inventory.NodeGroup{plain(template(func(lt *inventory.LaunchTemplate) { lt.AssociatePublicIP = ptr.To(false) }))},
			field:  func(t inventory.Target) any { return t.NodeClass.Spec.AssociatePublicIPAddress },
			want:   "false\n",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			target := translated(t, tc.groups...)
			if diff := cmp.Diff(tc.want, asYAML(t, tc.field(target))); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.listed, fields(target), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: listed: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func subnetsOf(t inventory.Target) any        { return t.NodeClass.Spec.SubnetSelectorTerms }
func securityGroupsOf(t inventory.Target) any { return t.NodeClass.Spec.SecurityGroupSelectorTerms }
func devicesOf(t inventory.Target) any        { return t.NodeClass.Spec.BlockDeviceMappings }
func metadataOf(t inventory.Target) any       { return t.NodeClass.Spec.MetadataOptions }
func placementOf(t inventory.Target) any      { return t.NodeClass.Spec.PlacementGroupSelector }
func tagsOf(t inventory.Target) any           { return t.NodeClass.Spec.Tags }

// Every setting that the target cannot express is listed, with what to do.
func TestRemainder(t *testing.T) {
	cases := map[string]struct {
		reason string
		group  inventory.NodeGroup
		want   []string
	}{
		"Nothing": {
			reason: "a plain group",
			group:  plain(),
		},
		"KeyName": {
			reason: "no key pair",
			group:  plain(template(func(lt *inventory.LaunchTemplate) { lt.KeyName = "ops" })),
			want:   []string{"keyName ops"},
		},
		"CapacityReservation": {
			reason: "a preference has no place in an EC2NodeClass",
			group:  plain(template(func(lt *inventory.LaunchTemplate) { lt.CapacityReservation = "open" })),
			want:   []string{"capacityReservation open"},
		},
		"EBSOptimizedFalse": {
			reason: "it cannot be turned off",
			group:  plain(template(func(lt *inventory.LaunchTemplate) { lt.EBSOptimized = ptr.To(false) })),
			want:   []string{"ebsOptimized false"},
		},
		"EBSOptimizedTrue": {
			reason: "Karpenter does so anyway",
			group:  plain(template(func(lt *inventory.LaunchTemplate) { lt.EBSOptimized = ptr.To(true) })),
		},
		"Other": {
			reason: "what castoff does not know is named by AWS's own name",
			group:  plain(template(func(lt *inventory.LaunchTemplate) { lt.Other = []string{"CpuOptions", "Placement.HostId"} })),
			want:   []string{"launchTemplate.CpuOptions", "launchTemplate.Placement.HostId"},
		},
		"Latest": {
			reason: "the template is followed no more",
			group:  plain(template(func(lt *inventory.LaunchTemplate) { lt.Asked = "$Latest" })),
			want:   []string{"launch template version $Latest"},
		},
		"Default": {
			reason: "nor is its default version",
			group:  plain(template(func(lt *inventory.LaunchTemplate) { lt.Asked = "$Default" })),
			want:   []string{"launch template version $Default"},
		},
		"Hooks": {
			reason: "they do not run",
			group:  plain(func(g *inventory.NodeGroup) { g.LifecycleHooks = make([]inventory.LifecycleHook, 2) }),
			want:   []string{"2 lifecycle hooks"},
		},
		"WarmPool": {
			reason: "no stopped instances",
			group:  plain(func(g *inventory.NodeGroup) { g.WarmPool = true }),
			want:   []string{"warmPool"},
		},
		"Policies": {
			reason: "size follows pods alone",
			group: plain(func(g *inventory.NodeGroup) {
				g.ScalingPolicies, g.ScheduledActions = make([]inventory.ScalingPolicy, 1), make([]inventory.ScheduledAction, 2)
			}),
			want: []string{"3 scaling policies and scheduled actions"},
		},
		"Protected": {
			reason: "no Auto Scaling group, no scale-in",
			group:  plain(func(g *inventory.NodeGroup) { g.NewInstancesProtected = true }),
			want:   []string{"newInstancesProtectedFromScaleIn"},
		},
		"Minimum": {
			reason: "no least number of nodes",
			group:  plain(func(g *inventory.NodeGroup) { g.Min = 2 }),
			want:   []string{"minSize 2"},
		},
		"WeightOne": {
			reason: "a weight of one is none",
			group: plain(func(g *inventory.NodeGroup) {
				g.MixedInstances = &inventory.MixedInstances{Overrides: []inventory.Override{{InstanceType: "m5.large", Weight: "1"}}, OnDemandPercentage: 100}
			}),
		},
		"KarpentersOwnStrategies": {
			reason: "what Karpenter does anyway",
			group: plain(func(g *inventory.NodeGroup) {
				g.MixedInstances = &inventory.MixedInstances{SpotStrategy: "price-capacity-optimized", OnDemandStrategy: "lowest-price", OnDemandPercentage: 100}
			}),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			target := translated(t, tc.group)
			if diff := cmp.Diff(tc.want, fields(target), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
			for _, n := range target.NotCarried {
				if n.NodeGroup != "asg" || n.Reason == "" || n.Do == "" {
					t.Errorf("%+v has to say of which group, why, and what to do", n)
				}
			}
		})
	}
}

// Groups of a pool are alike but for zone and size; where they are not, that is listed.
func TestDifferences(t *testing.T) {
	second := func(change ...func(*inventory.NodeGroup)) inventory.NodeGroup {
		return plain(append([]func(*inventory.NodeGroup){named("b")}, change...)...)
	}
	lt := template
	cases := map[string]struct {
		reason string
		second inventory.NodeGroup
		want   []string
	}{
		"Alike": {
			reason: "nothing to say",
			second: second(),
		},
		"ZoneAndSize": {
			reason: "groups per zone differ in just that",
			second: second(func(g *inventory.NodeGroup) { g.Subnets, g.Zones, g.Desired = []string{"subnet-z"}, []string{"z"}, 9 }),
		},
		"SamePointees": {
			reason: "what pointers point at counts",
			second: second(lt(func(lt *inventory.LaunchTemplate) {
				lt.Metadata = &inventory.Metadata{Endpoint: "enabled", HopLimit: 2, Tokens: "required"}
			})),
		},
		"Disks": {
			reason: "one EC2NodeClass has one set of disks",
			second: second(lt(func(lt *inventory.LaunchTemplate) {
				lt.BlockDevices = []inventory.BlockDevice{{DeviceName: "/dev/xvda", SizeGiB: 9}}
			})),
			want: []string{"blockDeviceMappings"},
		},
		"Metadata": {
			reason: "and one set of options",
			second: second(lt(func(lt *inventory.LaunchTemplate) { lt.Metadata = nil })),
			want:   []string{"metadataOptions"},
		},
		"PublicIP": {
			reason: "set and silent are not the same",
			second: second(lt(func(lt *inventory.LaunchTemplate) { lt.AssociatePublicIP = ptr.To(true) })),
			want:   []string{"associatePublicIpAddress"},
		},
		"Monitoring": {
			reason: "one value",
			second: second(lt(func(lt *inventory.LaunchTemplate) { lt.DetailedMonitoring = ptr.To(true) })),
			want:   []string{"monitoring"},
		},
		"Tenancy": {
			reason: "one requirement",
			second: second(lt(func(lt *inventory.LaunchTemplate) { lt.Tenancy = "dedicated" })),
			want:   []string{"placement.tenancy"},
		},
		"Placement": {
			reason: "one placement group",
			second: second(lt(func(lt *inventory.LaunchTemplate) { lt.PlacementGroup = "close" })),
			want:   []string{"placement.groupName"},
		},
		"Lifetime": {
			reason: "one expireAfter",
			second: second(func(g *inventory.NodeGroup) { g.MaxInstanceLifetime = 86400 }),
			want:   []string{"maxInstanceLifetime"},
		},
		"DiskSize": {
			reason: "a managed group beside one that is not",
			second: second(func(g *inventory.NodeGroup) {
				g.Managed = &inventory.ManagedNodeGroup{AMIType: "CUSTOM", DiskSizeGiB: 20, OwnLaunchTemplate: true}
			}),
			want: []string{"diskSize"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, fields(translated(t, plain(), tc.second)), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}
