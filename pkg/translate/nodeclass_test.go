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
		"SubnetsOfAllGroups": {"a group per zone is one pool", []inventory.NodeGroup{plain(), plain(named("b"), func(g *inventory.NodeGroup) { g.Subnets = []string{"subnet-c", "subnet-a"} })},
			subnetsOf, "- id: subnet-a\n- id: subnet-b\n- id: subnet-c\n", nil},
		"Subnets31": {"an EC2NodeClass takes thirty; the rest is named", []inventory.NodeGroup{plain(func(g *inventory.NodeGroup) { g.Subnets = ids("subnet", 31) })},
			func(t inventory.Target) any { return len(t.NodeClass.Spec.SubnetSelectorTerms) }, "30\n", []string{"1 of 31 subnets"}},
		"SecurityGroups":          {"the template's own", []inventory.NodeGroup{groupsOf("sg-2", "sg-1", "sg-2")}, securityGroupsOf, "- id: sg-1\n- id: sg-2\n", nil},
		"SecurityGroupsNone":      {"EKS gives the cluster's to nodes without any", []inventory.NodeGroup{groupsOf()}, securityGroupsOf, "- id: sg-cluster\n", nil},
		"SecurityGroupsByName":    {"old launch configurations have names", []inventory.NodeGroup{groupsOf("default")}, securityGroupsOf, "- name: default\n", nil},
		"SecurityGroupsOfAll":     {"the pool's nodes get those of all groups, and that is said", []inventory.NodeGroup{groupsOf("sg-1"), plain(named("b"), template(func(lt *inventory.LaunchTemplate) { lt.SecurityGroups = []string{"sg-2"} }))}, securityGroupsOf, "- id: sg-1\n- id: sg-2\n", []string{"security groups"}},
		"DiskFromSnapshot":        {"a snapshot says the size", []inventory.NodeGroup{devices(inventory.BlockDevice{DeviceName: "/dev/xvda", SnapshotID: "snap-1"})}, devicesOf, "- deviceName: /dev/xvda\n  ebs:\n    snapshotID: snap-1\n", nil},
		"DiskWithoutSize":         {"the definition wants a size where the image had it", []inventory.NodeGroup{devices(inventory.BlockDevice{DeviceName: "/dev/xvda", Encrypted: ptr.To(true)})}, devicesOf, "- deviceName: /dev/xvda\n  ebs:\n    encrypted: true\n    volumeSize: 20Gi\n", []string{"blockDeviceMappings /dev/xvda"}},
		"DiskTiB":                 {"1,024 GiB are written 1Ti", []inventory.NodeGroup{devices(inventory.BlockDevice{DeviceName: "/dev/xvda", SizeGiB: 1024})}, devicesOf, "- deviceName: /dev/xvda\n  ebs:\n    volumeSize: 1Ti\n", nil},
		"TwoDisks":                {"each in its place", []inventory.NodeGroup{devices(inventory.BlockDevice{DeviceName: "/dev/xvda", SizeGiB: 20}, inventory.BlockDevice{DeviceName: "/dev/xvdb", SizeGiB: 500, Type: "st1", DeleteOnTermination: ptr.To(false)})}, devicesOf, "- deviceName: /dev/xvda\n  ebs:\n    volumeSize: 20Gi\n- deviceName: /dev/xvdb\n  ebs:\n    deleteOnTermination: false\n    volumeSize: 500Gi\n    volumeType: st1\n", nil},
		"InstanceStore":           {"a mapping that needs none", []inventory.NodeGroup{devices(inventory.BlockDevice{DeviceName: "/dev/sdb", Virtual: "ephemeral0"})}, devicesOf, "null\n", []string{"blockDeviceMappings /dev/sdb"}},
		"ManagedDisk":             {"a node group's disk size is its root volume's", []inventory.NodeGroup{disk("AL2_x86_64", "1.32.1-20250101")}, devicesOf, "- deviceName: /dev/xvda\n  ebs:\n    deleteOnTermination: true\n    volumeSize: 80Gi\n    volumeType: gp3\n", nil},
		"ManagedDiskBottlerocket": {"Bottlerocket's is the second volume", []inventory.NodeGroup{disk("BOTTLEROCKET_x86_64", "1.51.0-47438798")}, devicesOf, "- deviceName: /dev/xvdb\n  ebs:\n    deleteOnTermination: true\n    volumeSize: 80Gi\n    volumeType: gp3\n", nil},
		"Metadata": {"what the template says, to the letter", []inventory.NodeGroup{metadata(&inventory.Metadata{Endpoint: "disabled", IPv6: "enabled", HopLimit: 3, Tokens: "optional"})},
			metadataOf, "httpEndpoint: disabled\nhttpProtocolIPv6: enabled\nhttpPutResponseHopLimit: 3\nhttpTokens: optional\n", nil},
		"MetadataHalf": {"what is silent is what EC2 does for Amazon Linux 2023", []inventory.NodeGroup{metadata(&inventory.Metadata{Tokens: "optional"})},
			metadataOf, "httpEndpoint: enabled\nhttpProtocolIPv6: disabled\nhttpPutResponseHopLimit: 2\nhttpTokens: optional\n", nil},
		"MetadataSilent": {"Karpenter's own default would break pods that use one hop more", []inventory.NodeGroup{metadata(nil)},
			metadataOf, "httpEndpoint: enabled\nhttpProtocolIPv6: disabled\nhttpPutResponseHopLimit: 2\nhttpTokens: required\n", []string{"metadataOptions"}},
		"MetadataSilentAL2": {"or tokens that old images do not ask for", []inventory.NodeGroup{metadata(nil, al2)},
			metadataOf, "httpEndpoint: enabled\nhttpProtocolIPv6: disabled\nhttpPutResponseHopLimit: 1\nhttpTokens: optional\n", []string{"metadataOptions"}},
		"MetadataTags": {"an EC2NodeClass has no such option", []inventory.NodeGroup{metadata(&inventory.Metadata{HopLimit: 2, Tokens: "required", Tags: "enabled"})},
			metadataOf, "httpEndpoint: enabled\nhttpProtocolIPv6: disabled\nhttpPutResponseHopLimit: 2\nhttpTokens: required\n", []string{"metadataOptions.instanceMetadataTags"}},
		"PlacementGroup":   {"by name", []inventory.NodeGroup{placed("close")}, placementOf, "name: close\n", nil},
		"PlacementGroupID": {"by id, where the template has no name", []inventory.NodeGroup{placed("pg-0123")}, placementOf, "id: pg-0123\n", nil},
		"Tags": {"the template's, and the group's that propagate; the template's own value wins", []inventory.NodeGroup{tags(map[string]string{"a": "1"}, inventory.Tag{Key: "a", Value: "2", Propagate: true}, inventory.Tag{Key: "b", Value: "3", Propagate: true}, inventory.Tag{Key: "c", Value: "4"})},
			tagsOf, "a: \"1\"\nb: \"3\"\n", []string{"tag a=2"}},
		"TagsReserved": {"each is set by somebody else where it is needed", []inventory.NodeGroup{tags(map[string]string{"aws:ec2": "", "eks:cluster-name": "prod", "kubernetes.io/cluster/prod": "owned", "kubernetes.io/clusters": "x", "karpenter.sh/nodepool": "x", "karpenter.k8s.aws/x": "y"},
			inventory.Tag{Key: "k8s.io/cluster-autoscaler/enabled", Propagate: true})},
			tagsOf, "null\n", []string{"tag aws:ec2", "tag eks:cluster-name", "tag karpenter.k8s.aws/x", "tag karpenter.sh/nodepool", "tag kubernetes.io/cluster/prod", "tag kubernetes.io/clusters", "tag k8s.io/cluster-autoscaler/enabled"}},
		"TagWithoutKey": {"no tag at all", []inventory.NodeGroup{tags(map[string]string{"": "x"})}, tagsOf, "null\n", []string{"tag "}},
		"TagsOfAllGroups": {"no group's tag is lost", []inventory.NodeGroup{tags(map[string]string{"a": "1"}), plain(named("b"), tagged(inventory.Tag{Key: "b", Value: "2", Propagate: true}))},
			tagsOf, "a: \"1\"\nb: \"2\"\n", nil},
		"Monitoring": {"detailed monitoring costs, and somebody looks at it", []inventory.NodeGroup{plain(template(func(lt *inventory.LaunchTemplate) { lt.DetailedMonitoring = ptr.To(true) }))},
			func(t inventory.Target) any { return t.NodeClass.Spec.DetailedMonitoring }, "true\n", nil},
		"PublicIP": {"false is not the same as silent", []inventory.NodeGroup{plain(template(func(lt *inventory.LaunchTemplate) { lt.AssociatePublicIP = ptr.To(false) }))},
			func(t inventory.Target) any { return t.NodeClass.Spec.AssociatePublicIPAddress }, "false\n", nil},
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
		"Nothing":             {"a plain group", plain(), nil},
		"KeyName":             {"no key pair", plain(template(func(lt *inventory.LaunchTemplate) { lt.KeyName = "ops" })), []string{"keyName ops"}},
		"CapacityReservation": {"reserved capacity is paid for", plain(template(func(lt *inventory.LaunchTemplate) { lt.CapacityReservation = "cr-1" })), []string{"capacityReservation cr-1"}},
		"EBSOptimizedFalse":   {"it cannot be turned off", plain(template(func(lt *inventory.LaunchTemplate) { lt.EBSOptimized = ptr.To(false) })), []string{"ebsOptimized false"}},
		"EBSOptimizedTrue":    {"Karpenter does so anyway", plain(template(func(lt *inventory.LaunchTemplate) { lt.EBSOptimized = ptr.To(true) })), nil},
		"Other":               {"what castoff does not know is named by AWS's own name", plain(template(func(lt *inventory.LaunchTemplate) { lt.Other = []string{"CpuOptions", "Placement.HostId"} })), []string{"launchTemplate.CpuOptions", "launchTemplate.Placement.HostId"}},
		"Latest":              {"the template is followed no more", plain(template(func(lt *inventory.LaunchTemplate) { lt.Asked = "$Latest" })), []string{"launch template version $Latest"}},
		"Default":             {"nor is its default version", plain(template(func(lt *inventory.LaunchTemplate) { lt.Asked = "$Default" })), []string{"launch template version $Default"}},
		"Hooks":               {"they do not run", plain(func(g *inventory.NodeGroup) { g.LifecycleHooks = make([]inventory.LifecycleHook, 2) }), []string{"2 lifecycle hooks"}},
		"WarmPool":            {"no stopped instances", plain(func(g *inventory.NodeGroup) { g.WarmPool = true }), []string{"warmPool"}},
		"Policies": {"size follows pods alone", plain(func(g *inventory.NodeGroup) {
			g.ScalingPolicies, g.ScheduledActions = make([]inventory.ScalingPolicy, 1), make([]inventory.ScheduledAction, 2)
		}), []string{"3 scaling policies and scheduled actions"}},
		"Protected": {"no Auto Scaling group, no scale-in", plain(func(g *inventory.NodeGroup) { g.NewInstancesProtected = true }), []string{"newInstancesProtectedFromScaleIn"}},
		"Minimum":   {"no least number of nodes", plain(func(g *inventory.NodeGroup) { g.Min = 2 }), []string{"minSize 2"}},
		"WeightOne": {"a weight of one is none", plain(func(g *inventory.NodeGroup) {
			g.MixedInstances = &inventory.MixedInstances{Overrides: []inventory.Override{{InstanceType: "m5.large", Weight: "1"}}, OnDemandPercentage: 100}
		}), nil},
		"KarpentersOwnStrategies": {"what Karpenter does anyway", plain(func(g *inventory.NodeGroup) {
			g.MixedInstances = &inventory.MixedInstances{SpotStrategy: "price-capacity-optimized", OnDemandStrategy: "lowest-price", OnDemandPercentage: 100}
		}), nil},
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
		"Alike":       {"nothing to say", second(), nil},
		"ZoneAndSize": {"groups per zone differ in just that", second(func(g *inventory.NodeGroup) { g.Subnets, g.Zones, g.Desired = []string{"subnet-z"}, []string{"z"}, 9 }), nil},
		"SamePointees": {"what pointers point at counts", second(lt(func(lt *inventory.LaunchTemplate) {
			lt.Metadata = &inventory.Metadata{Endpoint: "enabled", HopLimit: 2, Tokens: "required"}
		})), nil},
		"Disks": {"one EC2NodeClass has one set of disks", second(lt(func(lt *inventory.LaunchTemplate) {
			lt.BlockDevices = []inventory.BlockDevice{{DeviceName: "/dev/xvda", SizeGiB: 9}}
		})), []string{"blockDeviceMappings"}},
		"Metadata":   {"and one set of options", second(lt(func(lt *inventory.LaunchTemplate) { lt.Metadata = nil })), []string{"metadataOptions"}},
		"PublicIP":   {"set and silent are not the same", second(lt(func(lt *inventory.LaunchTemplate) { lt.AssociatePublicIP = ptr.To(true) })), []string{"associatePublicIpAddress"}},
		"Monitoring": {"one value", second(lt(func(lt *inventory.LaunchTemplate) { lt.DetailedMonitoring = ptr.To(true) })), []string{"monitoring"}},
		"Tenancy":    {"one requirement", second(lt(func(lt *inventory.LaunchTemplate) { lt.Tenancy = "dedicated" })), []string{"placement.tenancy"}},
		"Placement":  {"one placement group", second(lt(func(lt *inventory.LaunchTemplate) { lt.PlacementGroup = "close" })), []string{"placement.groupName"}},
		"Lifetime":   {"one expireAfter", second(func(g *inventory.NodeGroup) { g.MaxInstanceLifetime = 86400 }), []string{"maxInstanceLifetime"}},
		"DiskSize": {"a managed group beside one that is not", second(func(g *inventory.NodeGroup) {
			g.Managed = &inventory.ManagedNodeGroup{AMIType: "CUSTOM", DiskSizeGiB: 20, OwnLaunchTemplate: true}
		}), []string{"diskSize"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, fields(translated(t, plain(), tc.second)), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}
