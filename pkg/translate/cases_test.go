package translate

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// The situations that people who run Cluster Autoscaler or Karpenter reported in public, by their number in the list of cases.

func mustQuantity(t *testing.T, of karpv1.Limits, name corev1.ResourceName, want string) {
	t.Helper()
	if got := of[name]; got.Cmp(resource.MustParse(want)) != 0 {
		t.Errorf("limit of %s is %s, want %s", name, got.String(), want)
	}
}

func mixed(base, percentage int32, overrides ...inventory.Override) func(*inventory.NodeGroup) {
	return func(g *inventory.NodeGroup) {
		g.MixedInstances = &inventory.MixedInstances{OnDemandBase: base, OnDemandPercentage: percentage, Overrides: overrides}
	}
}

// $Default and $Latest are resolved where the template is read (pkg/nodegroup); here instances of another version are named.
func TestCase_C011_InstancesOfAnotherVersionAreNamed(t *testing.T) {
	g := plain(template(func(lt *inventory.LaunchTemplate) {
		lt.ID, lt.Version, lt.Asked, lt.ImageID = "lt-1", "3", "$Default", "ami-3"
	}),
		func(g *inventory.NodeGroup) {
			g.Instances = []inventory.Instance{{ID: "i-1", TemplateVersion: "3"}, {ID: "i-2", TemplateVersion: "2"}, {ID: "i-3", TemplateVersion: "2"}, {ID: "i-4"}}
		})
	target := translated(t, g)
	if diff := cmp.Diff([]awsv1.AMISelectorTerm{{ID: "ami-3"}}, target.NodeClass.Spec.AMISelectorTerms); diff != "" {
		t.Errorf("the version in force says the image: -want +got\n%s", diff)
	}
	if diff := cmp.Diff([]string{"launch template version $Default", "instances of version 2"}, fields(target)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if got := target.NotCarried[1].Reason; !strings.HasPrefix(got, "2 of 4 instances") {
		t.Errorf("the reason says %q, want how many", got)
	}
}

func TestCase_C013_LimitsCountUnitsNotNodes(t *testing.T) {
	types := []inventory.InstanceType{
		{Name: "c5.2xlarge", VCPUs: 8, MemoryMiB: 16384}, {Name: "c5a.2xlarge", VCPUs: 8, MemoryMiB: 16384},
		{Name: "c5.4xlarge", VCPUs: 16, MemoryMiB: 32768}, {Name: "c5a.4xlarge", VCPUs: 16, MemoryMiB: 32768},
	}
	weighted := func(weights ...string) inventory.NodeGroup {
		var overrides []inventory.Override
		for i, w := range weights {
			overrides = append(overrides, inventory.Override{InstanceType: types[i].Name, Weight: w})
		}
		return plain(mixed(0, 100, overrides...), func(g *inventory.NodeGroup) { g.Max, g.Types = 10, types })
	}
	countedIn := func(unit string) inventory.NodeGroup {
		g := weighted("", "", "", "")
		g.CapacityUnit = unit
		return g
	}
	cases := map[string]struct {
		reason      string
		group       inventory.NodeGroup
		cpu, memory string
	}{
		"Weights": {"ten units of eight", weighted("1", "1", "2", "2"), "80", "160Gi"},
		"Uneven":  {"the type that has most for a unit", weighted("3", "3", "4", "4"), "40", "80Gi"},
		"None":    {"without weights a unit is a node, the largest", weighted("", "", "", ""), "160", "320Gi"},
		"VCPUs":   {"a group whose size is a number of vCPUs", countedIn("vcpu"), "10", "20Gi"},
		"Memory":  {"or of MiB", countedIn("memory-mib"), "1", "10Mi"},
		"Odd":     {"what is no weight counts one, as for Auto Scaling", weighted("x", "0", "-1", "1"), "160", "320Gi"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			target := translated(t, tc.group)
			mustQuantity(t, target.NodePool.Spec.Limits, corev1.ResourceCPU, tc.cpu)
			mustQuantity(t, target.NodePool.Spec.Limits, corev1.ResourceMemory, tc.memory)
			if diff := cmp.Diff([]string{"c5.2xlarge", "c5.4xlarge", "c5a.2xlarge", "c5a.4xlarge"}, requirement(target, corev1.LabelInstanceTypeStable)); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func TestLimitsThatAreNotKnown(t *testing.T) {
	cases := map[string]struct {
		reason string
		change func(*inventory.NodeGroup)
		listed string
	}{
		"UnknownType": {"EC2 does not know the type, so nobody knows how much it is", func(g *inventory.NodeGroup) { g.Types = nil }, "maxSize 5"},
		"MaxZero":     {"a limit of zero would stop the NodePool", func(g *inventory.NodeGroup) { g.Max = 0 }, "maxSize 0"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			target := translated(t, plain(tc.change))
			if target.NodePool.Spec.Limits != nil {
				t.Errorf("%s: limits are %v, want none", tc.reason, target.NodePool.Spec.Limits)
			}
			if diff := cmp.Diff([]string{tc.listed}, fields(target)); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
	both := translated(t, plain(), plain(named("b"), func(g *inventory.NodeGroup) { g.Max = 3 }))
	mustQuantity(t, both.NodePool.Spec.Limits, corev1.ResourceCPU, "16")
}

func TestCase_C016_CapacityTypes(t *testing.T) {
	types := []inventory.Override{{InstanceType: "m5.large"}, {InstanceType: "m6i.large"}}
	spotTemplate := template(func(lt *inventory.LaunchTemplate) { lt.Spot = true })
	ofManaged := func(capacity string) inventory.NodeGroup {
		return managed("AL2023_x86_64_STANDARD", "1.33.0-20260114", func(g *inventory.NodeGroup) { g.Managed.CapacityType = capacity })
	}
	cases := map[string]struct {
		reason string
		group  inventory.NodeGroup
		want   []string
		listed []string
	}{
		"AllSpot":     {"base 0, 0%", plain(mixed(0, 0, types...)), []string{"spot"}, nil},
		"AllOnDemand": {"base 0, 100%", plain(mixed(0, 100, types...)), []string{"on-demand"}, nil},
		"Base":        {"base 2, 0%: neither is kept, and that is said", plain(mixed(2, 0, types...)), []string{"spot", "on-demand"}, []string{"mixedInstancesPolicy.instancesDistribution"}},
		"Template":    {"the template asks for spot", plain(spotTemplate), []string{"spot"}, []string{"spot with one instance type"}},
		"ManagedSpot": {"EKS's word", ofManaged("SPOT"), []string{"spot"}, nil},
		"Managed":     {"EKS's word", ofManaged("ON_DEMAND"), []string{"on-demand"}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			target := translated(t, tc.group)
			if diff := cmp.Diff(tc.want, requirement(target, karpv1.CapacityTypeLabelKey)); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.listed, fields(target)); diff != "" {
				t.Errorf("%s: listed: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func TestCase_C018_NamesAndLabelsAreValid(t *testing.T) {
	long := strings.Repeat("Prod Workers/eu (blue) ", 12)[:255]
	for _, name := range []string{"eks-node-application-engineering-staging-general-purpose-xlarge-spot", "Prod Workers/eu (blue)", long} {
		for _, g := range []inventory.NodeGroup{plain(named(name)), managed("AL2023_x86_64_STANDARD", "1.33.0-20260114", named(name))} {
			target := translated(t, g)
			for k, v := range target.NodePool.Spec.Template.Labels {
				if problems := validation.IsValidLabelValue(v); len(problems) > 0 {
					t.Errorf("label %s=%s: %v", k, v, problems)
				}
			}
			if got := target.NodePool.Annotations[annotationGroups]; got != name {
				t.Errorf("the full name is kept as %q, want %q", got, name)
			}
		}
	}
	for _, bad := range []string{"", "Upper", "a_b", strings.Repeat("a", 64), "-a"} {
		if _, err := Pool(cluster, inventory.Pool{Name: bad}, []inventory.NodeGroup{plain()}, "role"); inventory.ClassOf(err) != inventory.ClassTerminal {
			t.Errorf("pool name %q: error %v, want a terminal one", bad, err)
		}
	}
}

func TestCase_C025_ExpiryIsAlwaysSaid(t *testing.T) {
	for lifetime, want := range map[int32]string{604800: "168h0m0s", 0: "Never"} {
		target := translated(t, plain(func(g *inventory.NodeGroup) { g.MaxInstanceLifetime = lifetime }))
		got, err := target.NodePool.Spec.Template.Spec.ExpireAfter.MarshalJSON()
		if err != nil || strings.Trim(string(got), `"`) != want {
			t.Errorf("lifetime %d: expireAfter is %s (%v), want %s", lifetime, got, err, want)
		}
	}
}

func TestCase_C062_MetadataIsAlwaysSaid(t *testing.T) {
	options := func(m *inventory.Metadata) inventory.NodeGroup {
		return plain(template(func(lt *inventory.LaunchTemplate) { lt.Metadata = m }))
	}
	silent := managed("AL2_x86_64", "1.32.1-20250101", template(func(lt *inventory.LaunchTemplate) { lt.Metadata = nil }))
	cases := map[string]struct {
		reason string
		group  inventory.NodeGroup
		want   string
	}{
		"Kept":     {"exactly what the template says", options(&inventory.Metadata{Endpoint: "enabled", HopLimit: 2, Tokens: "optional"}), "enabled/2/optional"},
		"Disabled": {"an endpoint that is off stays off", options(&inventory.Metadata{Endpoint: "disabled", HopLimit: 1, Tokens: "required"}), "disabled/1/required"},
		"Farthest": {"64 is the most that EC2 takes", options(&inventory.Metadata{HopLimit: 64, Tokens: "required"}), "enabled/64/required"},
		"Zero":     {"0 is no hop limit but silence", options(&inventory.Metadata{HopLimit: 0, Tokens: "required"}), "enabled/2/required"},
		"Managed":  {"EKS gives its nodes two hops", silent, "enabled/2/optional"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m := translated(t, tc.group).NodeClass.Spec.MetadataOptions
			got := *m.HTTPEndpoint + "/" + resource.NewQuantity(*m.HTTPPutResponseHopLimit, resource.DecimalSI).String() + "/" + *m.HTTPTokens
			if got != tc.want {
				t.Errorf("%s: got %s, want %s", tc.reason, got, tc.want)
			}
		})
	}
}

func TestCase_C064_SecurityGroupsByID(t *testing.T) {
	of := func(ids ...string) inventory.NodeGroup {
		return plain(template(func(lt *inventory.LaunchTemplate) { lt.SecurityGroups = ids }))
	}
	cases := map[string]struct {
		reason string
		group  inventory.NodeGroup
		want   []awsv1.SecurityGroupSelectorTerm
	}{
		"Template": {"the template's own, all of them, and never by tag", of("sg-node", "sg-extra"), []awsv1.SecurityGroupSelectorTerm{{ID: "sg-extra"}, {ID: "sg-node"}}},
		"Cluster":  {"without any, the cluster's", of(), []awsv1.SecurityGroupSelectorTerm{{ID: "sg-cluster"}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, translated(t, tc.group).NodeClass.Spec.SecurityGroupSelectorTerms); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func TestCase_C066_BottlerocketSettings(t *testing.T) {
	rocket := func(userData string) inventory.NodeGroup {
		return plain(template(func(lt *inventory.LaunchTemplate) { lt.Image.Name = "bottlerocket-aws-k8s-1.33-x86_64" }), withUserData(userData))
	}
	target := translated(t, rocket(`[settings.kubernetes]
api-server = "https://example.com"
cluster-certificate = "Q0E="
cluster-name = "prod"
max-pods = "100"
registry-qps = 10
no-such-setting = true
[settings.kubernetes.node-labels]
team = "a"
[settings.host-containers.admin]
enabled = true
`))
	if got := target.NodeClass.Spec.Kubelet; got == nil || ptr.Deref(got.MaxPods, 0) != 100 {
		t.Errorf("kubelet is %v, want maxPods 100", got)
	}
	if got := labelsOf(target)["team"]; got != "a" {
		t.Errorf("label team is %q, want a", got)
	}
	if diff := cmp.Diff([]string{"userData settings.kubernetes.no-such-setting"}, fields(target)); diff != "" {
		t.Errorf("what Karpenter would drop is listed: -want +got\n%s", diff)
	}
	kept := ptr.Deref(target.NodeClass.Spec.UserData, "")
	for _, gone := range []string{"api-server", "cluster-certificate", "cluster-name", "max-pods", "team", "no-such-setting"} {
		if strings.Contains(kept, gone) {
			t.Errorf("%s is still in the user data:\n%s", gone, kept)
		}
	}
	for _, stays := range []string{"registry-qps = 10", "enabled = true"} {
		if !strings.Contains(kept, stays) {
			t.Errorf("%s is gone from the user data:\n%s", stays, kept)
		}
	}
	for reason, bad := range map[string]string{"a script": "#!/bin/bash\nyum update -y\n", "half a setting": "[settings.kubernetes\nx = 1"} {
		if _, err := Pool(cluster, inventory.Pool{Name: "general"}, []inventory.NodeGroup{rocket(bad)}, "role"); inventory.ClassOf(err) != inventory.ClassTerminal {
			t.Errorf("%s on Bottlerocket: error %v, want a terminal one", reason, err)
		}
	}
}

// Reserved interfaces for custom networking are a setting of the engine, not of the pool.
func TestCase_C068_MaxPodsAreKept(t *testing.T) {
	cases := map[string]struct {
		reason   string
		userData string
		want     int32
	}{
		"PrefixDelegation": {"as the flag says", bootstrap("--use-max-pods false --kubelet-extra-args '--max-pods=110'"), 110},
		"NotCounted":       {"without a flag it is the kubelet's own default", bootstrap("--use-max-pods false"), 110},
		"Counted":          {"Karpenter counts addresses as bootstrap.sh does", bootstrap("--use-max-pods true"), 0},
		"NodeConfig":       {"nodeadm's word", "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {kubelet: {config: {maxPods: 58}}}\n", 58},
		"Variable":         {"what only the node works out is listed, not guessed", bootstrap("--kubelet-extra-args --max-pods=$MAX"), 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			k := translated(t, plain(withUserData(tc.userData))).NodeClass.Spec.Kubelet
			var got int32
			if k != nil {
				got = ptr.Deref(k.MaxPods, 0)
			}
			if got != tc.want {
				t.Errorf("%s: maxPods is %d, want %d", tc.reason, got, tc.want)
			}
		})
	}
}

func TestCase_C072_ImagesArePinned(t *testing.T) {
	own := plain(template(func(lt *inventory.LaunchTemplate) { lt.ImageID = "ami-9" }))
	cases := map[string]struct {
		reason string
		group  inventory.NodeGroup
		term   awsv1.AMISelectorTerm
		family string
	}{
		"AL2023":       {"the release's date", managed("AL2023_x86_64_STANDARD", "1.31.2-20241121"), awsv1.AMISelectorTerm{Alias: "al2023@v20241121"}, "AL2023"},
		"Bottlerocket": {"Bottlerocket's own version", managed("BOTTLEROCKET_ARM_64", "1.26.1-943d9a41"), awsv1.AMISelectorTerm{Alias: "bottlerocket@v1.26.1"}, "Bottlerocket"},
		"Own":          {"an id, with the family that starts it", own, awsv1.AMISelectorTerm{ID: "ami-9"}, "AL2023"},
		"Windows":      {"an alias of Windows cannot be pinned, the image itself can", managed("WINDOWS_CORE_2022_x86_64", "1.33-2026.01.14"), awsv1.AMISelectorTerm{ID: "ami-1"}, "Windows2022"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			spec := translated(t, tc.group).NodeClass.Spec
			if diff := cmp.Diff([]awsv1.AMISelectorTerm{tc.term}, spec.AMISelectorTerms); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
			if got := ptr.Deref(spec.AMIFamily, ""); got != tc.family {
				t.Errorf("%s: family is %s, want %s", tc.reason, got, tc.family)
			}
		})
	}
	for version, blocks := range map[string]bool{"1.32": false, "1.33": true, "1.34": true, "": false} {
		_, err := Pool(inventory.Cluster{Name: "prod", Version: version, SecurityGroup: "sg-1"}, inventory.Pool{Name: "general"}, []inventory.NodeGroup{managed("AL2_x86_64", "1.32.1-20250101")}, "role")
		if (inventory.ClassOf(err) == inventory.ClassTerminal) != blocks || (err == nil) == blocks {
			t.Errorf("Amazon Linux 2 on Kubernetes %q: error %v, want one: %v", version, err, blocks)
		}
	}
}

func TestCase_C075_StartupTaints(t *testing.T) {
	cases := map[string]struct {
		key     string
		startup bool
	}{
		"Cilium":            {"node.cilium.io/agent-not-ready", true},
		"EBS":               {"ebs.csi.aws.com/agent-not-ready", true},
		"EFS":               {"efs.csi.aws.com/agent-not-ready", true},
		"ClusterAutoscaler": {"startup-taint.cluster-autoscaler.kubernetes.io/x", true},
		"Ignored":           {"ignore-taint.cluster-autoscaler.kubernetes.io/x", true},
		"Lasting":           {"dedicated", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			want := taints(tc.key, "true", "NoExecute")
			spec := translated(t, managed("AL2023_x86_64_STANDARD", "1.33.0-20260114", func(g *inventory.NodeGroup) { g.Managed.Taints = want })).NodePool.Spec.Template.Spec
			in, out := spec.Taints, spec.StartupTaints
			if tc.startup {
				in, out = out, in
			}
			if diff := cmp.Diff(want, in); diff != "" || len(out) > 0 {
				t.Errorf("startup %v: -want +got\n%s, and in the other list %v", tc.startup, diff, out)
			}
		})
	}
}

// That each selector of a workload is satisfied is for the preflight; here the labels are there to be selected by.
func TestCase_C077_LabelsOfEKSThatStayTrue(t *testing.T) {
	mng := func(name, capacity string) inventory.NodeGroup {
		return managed("AL2023_x86_64_STANDARD", "1.33.0-20260114", named(name), func(g *inventory.NodeGroup) { g.Managed.CapacityType = capacity })
	}
	cases := map[string]struct {
		reason string
		groups []inventory.NodeGroup
		want   map[string]string
		listed []string
	}{
		"One":         {"one group is one label", []inventory.NodeGroup{mng("ng-a", "ON_DEMAND")}, map[string]string{labelNodeGroup: "ng-a", labelCapacityType: "ON_DEMAND"}, nil},
		"Two":         {"two have no name in common", []inventory.NodeGroup{mng("ng-a", "SPOT"), mng("ng-b", "SPOT")}, map[string]string{labelCapacityType: "SPOT"}, nil},
		"TwoUnlike":   {"nor a capacity type", []inventory.NodeGroup{mng("ng-a", "ON_DEMAND"), mng("ng-b", "SPOT")}, nil, []string{"capacity type"}},
		"SelfManaged": {"EKS labels no others", []inventory.NodeGroup{plain()}, nil, nil},
		"InUserData": {"what EKS's own user data says of the launch is over",
			[]inventory.NodeGroup{managed("AL2_x86_64", "1.32.1-20250101", withUserData(bootstrap("--kubelet-extra-args '--node-labels=eks.amazonaws.com/nodegroup-image=ami-1,eks.amazonaws.com/nodegroup=mng'")))},
			map[string]string{labelNodeGroup: "mng", labelCapacityType: "ON_DEMAND"}, []string{"label eks.amazonaws.com/nodegroup-image"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			target := translated(t, tc.groups...)
			if diff := cmp.Diff(tc.want, target.NodePool.Spec.Template.Labels, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.listed, fields(target)); diff != "" {
				t.Errorf("%s: listed: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func TestCase_C080_TagsDescribeNodesTheyDoNotLabelThem(t *testing.T) {
	tags := tagged(inventory.Tag{Key: tagLabel + "team", Value: "b"}, inventory.Tag{Key: tagLabel + "ghost", Value: "1"}, inventory.Tag{Key: tagLabel + "example.com/x", Value: "y"},
		inventory.Tag{Key: tagTemplate + "resources/cpu", Value: "4"})
	group := func(nodes map[string]string) inventory.NodeGroup {
		return managed("AL2023_x86_64_STANDARD", "1.33.0-20260114", tags, func(g *inventory.NodeGroup) {
			g.Managed.Labels, g.NodeLabels = map[string]string{"team": "a"}, nodes
		})
	}
	resources := "tag " + tagTemplate + "resources/cpu"
	cases := map[string]struct {
		reason string
		group  inventory.NodeGroup
		want   map[string]string
		listed []string
	}{
		"Nodes": {"what no node has is stale", group(map[string]string{"team": "a", "kubernetes.io/arch": "amd64"}), map[string]string{"team": "a"},
			[]string{"tag " + tagLabel + "example.com/x=y", "tag " + tagLabel + "ghost=1", "tag " + tagLabel + "team=b", resources}},
		"NoNodes": {"without nodes EKS's word comes first, the tags' second", group(nil), map[string]string{"team": "a", "ghost": "1", "example.com/x": "y"},
			[]string{resources, "label team=b"}},
		"ByHand": {"a label that nothing explains is named", group(map[string]string{"team": "a", "ghost": "1", "example.com/x": "y", "by": "hand", "topology.ebs.csi.aws.com/zone": "a"}),
			map[string]string{"team": "a", "ghost": "1", "example.com/x": "y"}, []string{"tag " + tagLabel + "team=b", resources, "node label by=hand"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			target := translated(t, tc.group)
			if diff := cmp.Diff(tc.want, labelsOf(target)); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.listed, fields(target)); diff != "" {
				t.Errorf("%s: listed: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func TestCase_C081_TaintsOfAllSources(t *testing.T) {
	// EKS's own words (NO_SCHEDULE, …) are translated where the node group is read (pkg/nodegroup).
	g := managed("AL2023_x86_64_STANDARD", "1.33.0-20260114",
		tagged(inventory.Tag{Key: tagTaint + "dedicated", Value: "true:NoSchedule"}, inventory.Tag{Key: tagTaint + "blank", Value: ":NoSchedule"}, inventory.Tag{Key: tagTaint + "nosplit", Value: "some_value"}),
		func(g *inventory.NodeGroup) {
			g.Managed.Taints = taints("dedicated", "true", "NoSchedule", "dedicated", "true", "NoExecute", "soft", "", "PreferNoSchedule")
		})
	target := translated(t, g)
	want := taints("dedicated", "true", "NoSchedule", "dedicated", "true", "NoExecute", "soft", "", "PreferNoSchedule", "blank", "", "NoSchedule")
	if diff := cmp.Diff(want, target.NodePool.Spec.Template.Spec.Taints); diff != "" {
		t.Errorf("each once, a key with two effects twice: -want +got\n%s", diff)
	}
	if diff := cmp.Diff([]string{"tag " + tagTaint + "nosplit=some_value"}, fields(target)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestCase_C083_ArchitectureIsAlwaysSaid(t *testing.T) {
	arch := func(image, instanceType string) inventory.NodeGroup {
		return plain(template(func(lt *inventory.LaunchTemplate) { lt.Image.Architecture, lt.InstanceType = image, instanceType }))
	}
	cases := map[string]struct {
		reason string
		group  inventory.NodeGroup
		want   []string
	}{
		"Image":        {"the image says it", arch("x86_64", "m5.large"), []string{"amd64"}},
		"ImageArm":     {"the image says it", arch("arm64", "r6g.xlarge"), []string{"arm64"}},
		"TypeByEC2":    {"or EC2, of the type", arch("", "r6g.xlarge"), []string{"arm64"}},
		"Graviton":     {"or its name", arch("", "c7gn.large"), []string{"arm64"}},
		"GravitonI":    {"or its name", arch("", "is4gen.large"), []string{"arm64"}},
		"A1":           {"the first of its kind", arch("", "a1.large"), []string{"arm64"}},
		"GraphicsG4dn": {"a g before the number is for graphics", arch("", "g4dn.xlarge"), []string{"amd64"}},
		"GraphicsG5g":  {"with a g after it, for both", arch("", "g5g.xlarge"), []string{"arm64"}},
		"HighMemory":   {"names with a dash", arch("", "u-6tb1.56xlarge"), []string{"amd64"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			target := translated(t, tc.group)
			if diff := cmp.Diff(tc.want, requirement(target, corev1.LabelArchStable)); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff([]string{"linux"}, requirement(target, corev1.LabelOSStable)); diff != "" {
				t.Errorf("%s: the system: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func TestCase_C093_NothingFloats(t *testing.T) {
	pinned := regexp.MustCompile(`^(ami-.+|[a-z0-9]+@v.+)$`)
	for _, g := range []inventory.NodeGroup{
		plain(), managed("AL2023_x86_64_STANDARD", "1.33.0-20260114"), managed("AL2_ARM_64", "1.32.1-20250101"), managed("BOTTLEROCKET_x86_64", "1.51.0-47438798"),
		managed("AL2023_x86_64_STANDARD", "latest"), managed("WINDOWS_FULL_2019_x86_64", "1.33-2026.01.14"),
	} {
		target := translated(t, g)
		for _, term := range target.NodeClass.Spec.AMISelectorTerms {
			if !pinned.MatchString(term.Alias + term.ID) {
				t.Errorf("%+v is another image tomorrow", term)
			}
		}
		if diff := cmp.Diff([]karpv1.Budget{{Nodes: "10%"}}, target.NodePool.Spec.Disruption.Budgets); diff != "" {
			t.Errorf("drift is bounded: -want +got\n%s", diff)
		}
	}
}

// castoff asks for no minValues: the number of types is what the groups had and the user added. One spot type is said to be few.
func TestCase_C095_NoMinValuesThatTheListCannotHold(t *testing.T) {
	spot := func(types ...inventory.InstanceType) inventory.NodeGroup {
		g := of(types...)
		g.Managed.CapacityType = "SPOT"
		return g
	}
	m5, m6i := kind("m5.large"), []inventory.InstanceFamily{family("m6i", kind("m6i.large"))}
	tooFew := "spot with one instance type"
	cases := map[string]struct {
		reason   string
		groups   []inventory.NodeGroup
		families []inventory.InstanceFamily
		want     []string
	}{
		"One":           {"spot capacity of one type runs out", []inventory.NodeGroup{spot(m5)}, nil, []string{tooFew}},
		"Three":         {"the group's own", []inventory.NodeGroup{spot(m5, kind("m6i.large"), kind("m5a.large"))}, nil, nil},
		"Widened":       {"types that the user added count", []inventory.NodeGroup{spot(m5)}, m6i, nil},
		"WidenedByNone": {"a family that adds none does not", []inventory.NodeGroup{spot(m5)}, []inventory.InstanceFamily{family("m9z")}, []string{tooFew, "instanceFamilies m9z"}},
		"OnDemand":      {"on-demand capacity of one type is the rule", []inventory.NodeGroup{of(m5)}, nil, nil},
		"TwoGroups":     {"what counts is what the NodePool may launch", []inventory.NodeGroup{spot(m5), spot(kind("m5a.large"))}, nil, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			target := widenedTo(t, tc.families, tc.groups...)
			got := fields(target)
			slices.Sort(got)
			slices.Sort(tc.want)
			if !slices.Equal(got, tc.want) {
				t.Errorf("%s: listed %q, want %q", tc.reason, got, tc.want)
			}
			for _, r := range target.NodePool.Spec.Template.Spec.Requirements {
				if r.MinValues != nil && (*r.MinValues > len(r.Values) || *r.MinValues < 1 || *r.MinValues > 50) {
					t.Errorf("%s wants %d of %d values", r.Key, *r.MinValues, len(r.Values))
				}
			}
		})
	}
}
