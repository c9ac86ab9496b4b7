package plan

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// groupOf builds a node group that Cluster Autoscaler manages, of one on-demand node.
func groupOf(name string, change ...func(*inventory.NodeGroup)) inventory.NodeGroup {
	g := inventory.NodeGroup{Name: name, AutoScalingGroup: name, Max: 10, Desired: 1, Tags: []inventory.Tag{{Key: caKey, Value: "true"}}}
	g.LaunchTemplate.InstanceType = "m5.large"
	for _, f := range change {
		f(&g)
	}
	return g
}

func managedBy(capacityType string, taints ...corev1.Taint) func(*inventory.NodeGroup) {
	return func(g *inventory.NodeGroup) {
		g.Managed = &inventory.ManagedNodeGroup{CapacityType: capacityType, Taints: taints}
	}
}

func ofType(instanceType string) func(*inventory.NodeGroup) {
	return func(g *inventory.NodeGroup) { g.LaunchTemplate.InstanceType = instanceType }
}

func ofSize(n int32) func(*inventory.NodeGroup) {
	return func(g *inventory.NodeGroup) { g.Desired = n }
}

func unmanaged(g *inventory.NodeGroup) { g.Tags = nil }

func tagged(key string) func(*inventory.NodeGroup) {
	return func(g *inventory.NodeGroup) { g.Tags = append(g.Tags, inventory.Tag{Key: key}) }
}

func specOf(home string, pools ...v1alpha1.Pool) v1alpha1.MigrationSpec {
	s := v1alpha1.MigrationSpec{ClusterName: "test", Pools: pools}
	if home != "" {
		s.Home = &v1alpha1.Home{NodeGroup: home}
	}
	return s
}

func poolOf(name string, groups ...string) inventory.Pool {
	return inventory.Pool{Name: name, NodeGroups: groups}
}

// checks are the findings' checks and objects.
func checks(findings []inventory.Finding) []string {
	var out []string
	for _, f := range findings {
		out = append(out, f.Check+" "+f.Object)
	}
	return out
}

func upTo(most int32) func(*inventory.NodeGroup) {
	return func(g *inventory.NodeGroup) { g.Max = most }
}

func TestHome(t *testing.T) {
	ca := []inventory.Autoscaler{anAutoscaler("ca")}
	noSchedule := corev1.Taint{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule}
	cases := map[string]struct {
		reason string
		spec   v1alpha1.MigrationSpec
		groups []inventory.NodeGroup
		want   string
		checks []string
	}{
		"Unmanaged":      {"a group that Cluster Autoscaler leaves alone comes first, however large", specOf(""), []inventory.NodeGroup{groupOf("a"), groupOf("b", unmanaged, ofSize(9))}, "b", nil},
		"Smallest":       {"then the one that may never be large", specOf(""), []inventory.NodeGroup{groupOf("a", upTo(9)), groupOf("b", upTo(3))}, "b", nil},
		"NotByCount":     {"how many nodes there are just now changes nothing: the home would change while somebody reads the plan", specOf(""), []inventory.NodeGroup{groupOf("a", upTo(9), ofSize(1)), groupOf("b", upTo(3), ofSize(3))}, "b", nil},
		"RoomForTwo":     {"one that can never have two nodes has no room for two replicas", specOf(""), []inventory.NodeGroup{groupOf("a", upTo(1)), groupOf("b", upTo(3))}, "b", nil},
		"TaintedNodes":   {"a taint that only the nodes show", specOf(""), []inventory.NodeGroup{groupOf("a", func(g *inventory.NodeGroup) { g.Tainted = true }), groupOf("b", upTo(99))}, "b", nil},
		"ByName":         {"then by name, so that the answer is always the same", specOf(""), []inventory.NodeGroup{groupOf("b"), groupOf("a")}, "a", nil},
		"NotEmpty":       {"an empty group runs nothing", specOf(""), []inventory.NodeGroup{groupOf("a", ofSize(0)), groupOf("b")}, "b", nil},
		"NotTainted":     {"Karpenter and CoreDNS do not tolerate the user's taints", specOf(""), []inventory.NodeGroup{groupOf("a", managedBy("ON_DEMAND", noSchedule)), groupOf("b", ofSize(5))}, "b", nil},
		"NotTaintTagged": {"a template tag for Cluster Autoscaler names a taint", specOf(""), []inventory.NodeGroup{groupOf("a", tagged("k8s.io/cluster-autoscaler/node-template/taint/gpu")), groupOf("b", ofSize(5))}, "b", nil},
		"NotTaintByUserData": {"user data that registers taints", specOf(""), []inventory.NodeGroup{groupOf("a", func(g *inventory.NodeGroup) {
			g.LaunchTemplate.UserData = "--kubelet-extra-args --register-with-taints=gpu=true:NoSchedule"
		}), groupOf("b", ofSize(5))}, "b", nil},
		"NotSpot":      {"a spot node may go at any time", specOf(""), []inventory.NodeGroup{groupOf("a", managedBy("SPOT")), groupOf("b", ofSize(5))}, "b", nil},
		"NotSpotByLT":  {"spot by the launch template", specOf(""), []inventory.NodeGroup{groupOf("a", func(g *inventory.NodeGroup) { g.LaunchTemplate.Spot = true }), groupOf("b", ofSize(5))}, "b", nil},
		"NotSpotMixed": {"spot by a mixed instances policy", specOf(""), []inventory.NodeGroup{groupOf("a", func(g *inventory.NodeGroup) { g.MixedInstances = &inventory.MixedInstances{OnDemandPercentage: 50} }), groupOf("b", ofSize(5))}, "b", nil},
		"MixedOnDemand": {"a mixed instances policy that is on demand alone will do", specOf(""), []inventory.NodeGroup{groupOf("a", func(g *inventory.NodeGroup) {
			g.MixedInstances = &inventory.MixedInstances{OnDemandPercentage: 100}
		}), groupOf("b", ofSize(5))}, "a", nil},
		"NotInAPool":    {"a group that the user wants migrated does not stay", specOf("", v1alpha1.Pool{Name: "p", NodeGroups: []string{"a"}}), []inventory.NodeGroup{groupOf("a"), groupOf("b", ofSize(5))}, "b", nil},
		"Named":         {"the user's word counts", specOf("a"), []inventory.NodeGroup{groupOf("a", managedBy("SPOT")), groupOf("b")}, "a", nil},
		"NamedMissing":  {"a name that does not exist is said, with those that do", specOf("c"), []inventory.NodeGroup{groupOf("a"), groupOf("b")}, "c", []string{"NodeGroupNotFound nodegroup/c"}},
		"NoneFits":      {"without a home Karpenter would run on what it ends", specOf(""), []inventory.NodeGroup{groupOf("a", managedBy("SPOT")), groupOf("b", ofSize(0))}, "", []string{"NoHome cluster/test"}},
		"OnlyOne":       {"one group cannot both stay and migrate", specOf(""), []inventory.NodeGroup{groupOf("a")}, "", []string{"NoHome cluster/test"}},
		"OnlyOneWithCA": {"nor can it when it is the only one that fits a named pool", specOf("", v1alpha1.Pool{Name: "p", NodeGroups: []string{"a"}}), []inventory.NodeGroup{groupOf("a")}, "", []string{"NoHome cluster/test"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, f := homeOf(tc.spec, tc.groups, ca)
			var findings []inventory.Finding
			if f != nil {
				findings = append(findings, *f)
			}
			if diff := cmp.Diff(tc.checks, checks(findings)); diff != "" || got != tc.want {
				t.Errorf("%s: home %q, want %q; findings -want, +got:\n%s", tc.reason, got, tc.want, diff)
			}
		})
	}
}

func TestPools(t *testing.T) {
	ca := []inventory.Autoscaler{anAutoscaler("ca")}
	home := groupOf("system", unmanaged)
	named := func(pools ...v1alpha1.Pool) v1alpha1.MigrationSpec { return specOf("", pools...) }
	cases := map[string]struct {
		reason string
		spec   v1alpha1.MigrationSpec
		groups []inventory.NodeGroup
		ca     []inventory.Autoscaler
		want   []inventory.Pool
		checks []string
	}{
		"Default":        {"every group that Cluster Autoscaler manages, but the home", specOf(""), []inventory.NodeGroup{groupOf("a"), home, groupOf("b", ofType("c5.large"))}, ca, []inventory.Pool{poolOf("a", "a"), poolOf("b", "b")}, nil},
		"HomeIsManaged":  {"the home stays even if Cluster Autoscaler manages it", specOf("a"), []inventory.NodeGroup{groupOf("a"), groupOf("b", ofType("c5.large"))}, ca, []inventory.Pool{poolOf("b", "b")}, nil},
		"AlikeButZone":   {"groups equal but for zone and size are one pool", specOf(""), []inventory.NodeGroup{groupOf("web-a", ofSize(3)), groupOf("web-b"), groupOf("web-c", ofSize(0)), home}, ca, []inventory.Pool{poolOf("web", "web-a", "web-b", "web-c")}, nil},
		"Named":          {"the user's pools are taken as they are", named(v1alpha1.Pool{Name: "p", NodeGroups: []string{"a", "b"}}), []inventory.NodeGroup{groupOf("a"), groupOf("b", ofType("c5.large")), home}, ca, []inventory.Pool{poolOf("p", "a", "b")}, nil},
		"NamedWithoutCA": {"and need no Cluster Autoscaler", named(v1alpha1.Pool{Name: "p", NodeGroups: []string{"a"}}), []inventory.NodeGroup{groupOf("a"), home}, nil, []inventory.Pool{poolOf("p", "a")}, nil},
		"NamedMissing":   {"a group that does not exist is named", named(v1alpha1.Pool{Name: "p", NodeGroups: []string{"x"}}), []inventory.NodeGroup{home}, ca, []inventory.Pool{poolOf("p", "x")}, []string{"NoHome cluster/test", "NodeGroupNotFound nodegroup/x"}},
		"NamedHome":      {"the home cannot migrate", specOf("a", v1alpha1.Pool{Name: "p", NodeGroups: []string{"a"}}), []inventory.NodeGroup{groupOf("a"), home}, ca, []inventory.Pool{poolOf("p", "a")}, []string{"HomeInPool nodegroup/a"}},
		"NamedTwice": {"a node belongs to one pool", named(v1alpha1.Pool{Name: "p", NodeGroups: []string{"a"}}, v1alpha1.Pool{Name: "q", NodeGroups: []string{"a"}}), []inventory.NodeGroup{groupOf("a"), home, groupOf("b")}, ca,
			[]inventory.Pool{poolOf("p", "a"), poolOf("q", "a")}, []string{"NodeGroupInTwoPools nodegroup/a"}},
		"NoGroup":      {"a cluster of Fargate alone, or of untagged groups", specOf(""), nil, ca, nil, []string{"NoHome cluster/test", "NoNodeGroup cluster/test"}},
		"NoCA":         {"without Cluster Autoscaler castoff does not guess what is to migrate", specOf(""), []inventory.NodeGroup{groupOf("a"), groupOf("b")}, nil, nil, []string{"PoolsNotNamed cluster/test"}},
		"NothingLeft":  {"Cluster Autoscaler manages none but the home", specOf("a"), []inventory.NodeGroup{groupOf("a"), home}, ca, nil, []string{"NoNodeGroup cluster/test"}},
		"NamedBoth":    {"every finding is shown at once", specOf("c", v1alpha1.Pool{Name: "p", NodeGroups: []string{"x"}}), []inventory.NodeGroup{home}, ca, []inventory.Pool{poolOf("p", "x")}, []string{"NodeGroupNotFound nodegroup/c", "NodeGroupNotFound nodegroup/x"}},
		"UniqueNames":  {"two shapes whose groups begin alike get two names", specOf(""), []inventory.NodeGroup{groupOf("web-a"), groupOf("web-b"), groupOf("web", ofType("c5.large")), home}, ca, []inventory.Pool{poolOf("web", "web-a", "web-b"), poolOf("web-2", "web")}, nil},
		"OrderIsKept":  {"the order is the groups'", specOf(""), []inventory.NodeGroup{groupOf("z"), groupOf("a", ofType("c5.large")), home}, ca, []inventory.Pool{poolOf("z", "z"), poolOf("a", "a")}, nil},
		"OfSpecialUse": {"a tainted or spot group migrates as well as any", specOf(""), []inventory.NodeGroup{groupOf("gpu", managedBy("ON_DEMAND", corev1.Taint{Key: "gpu"})), groupOf("spot", managedBy("SPOT")), home}, ca, []inventory.Pool{poolOf("gpu", "gpu"), poolOf("spot", "spot")}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, got, findings := Pools(tc.spec, tc.groups, tc.ca)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: pools -want, +got:\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.checks, checks(findings)); diff != "" {
				t.Errorf("%s: findings -want, +got:\n%s", tc.reason, diff)
			}
			for _, f := range findings {
				if f.Severity != v1alpha1.SeverityBlock || f.Message == "" {
					t.Errorf("%s: a finding without a home or a pool blocks, and says what to do: %+v", tc.reason, f)
				}
			}
		})
	}
}

func TestMissingGroupNamesThoseThatExist(t *testing.T) {
	_, _, findings := Pools(specOf("system", v1alpha1.Pool{Name: "p", NodeGroups: []string{"x"}}), []inventory.NodeGroup{groupOf("system"), groupOf("web")}, nil)
	if len(findings) != 1 || !strings.Contains(findings[0].Message, "Groups of this cluster: system, web.") || findings[0].Pool != "p" {
		t.Errorf("whoever mistyped a name wants to see the right ones: %+v", findings)
	}
	if got := names(nil); got != "none" {
		t.Errorf("names(nil) = %q, want none", got)
	}
}

func TestAlike(t *testing.T) {
	cases := map[string]struct {
		reason string
		change func(*inventory.NodeGroup)
		want   bool
	}{
		"Zone":            {"where it is", func(g *inventory.NodeGroup) { g.Zones, g.Subnets = []string{"b"}, []string{"subnet-2"} }, true},
		"Size":            {"how large it is", func(g *inventory.NodeGroup) { g.Min, g.Max, g.Desired = 3, 30, 9 }, true},
		"Template":        {"which template says the same thing", func(g *inventory.NodeGroup) { g.LaunchTemplate.ID, g.LaunchTemplate.Version = "lt-2", "7" }, true},
		"OwnTags":         {"its bookkeeping", tagged("cost-centre"), true},
		"InstanceType":    {"another machine", ofType("c5.large"), false},
		"Image":           {"another image", func(g *inventory.NodeGroup) { g.LaunchTemplate.ImageID = "ami-2" }, false},
		"UserData":        {"another boot", func(g *inventory.NodeGroup) { g.LaunchTemplate.UserDataSHA256 = "2" }, false},
		"Spot":            {"another price", func(g *inventory.NodeGroup) { g.LaunchTemplate.Spot = true }, false},
		"Managed":         {"EKS manages it", managedBy("ON_DEMAND"), false},
		"NodeTemplateTag": {"Cluster Autoscaler was told of a label", tagged("k8s.io/cluster-autoscaler/node-template/label/team"), false},
		"SecurityGroup":   {"another network", func(g *inventory.NodeGroup) { g.LaunchTemplate.SecurityGroups = []string{"sg-2"} }, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := len(alike([]inventory.NodeGroup{groupOf("a"), groupOf("b", tc.change)})) == 1
			if got != tc.want {
				t.Errorf("%s: one pool %v, want %v", tc.reason, got, tc.want)
			}
		})
	}
	labelled := groupOf("c", managedBy("ON_DEMAND"))
	labelled.Managed.Labels = map[string]string{"team": "shop"}
	if got := alike([]inventory.NodeGroup{groupOf("b", managedBy("ON_DEMAND")), labelled}); len(got) != 2 {
		t.Errorf("a managed node group's labels are what workloads select: %v", got)
	}
	const label = "k8s.io/cluster-autoscaler/node-template/label/"
	one, other := groupOf("a", tagged(label+"x"), tagged(label+"y")), groupOf("b", tagged(label+"y"), tagged(label+"x"))
	one.LaunchTemplate.SecurityGroups, other.LaunchTemplate.SecurityGroups = []string{"sg-1", "sg-2"}, []string{"sg-2", "sg-1"}
	if got := alike([]inventory.NodeGroup{one, other}); len(got) != 1 {
		t.Errorf("AWS lists tags and security groups in any order: %v", got)
	}
}

// Kubernetes, "Object Names and IDs": a label of RFC 1123.
var dnsLabel = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

func TestPoolName(t *testing.T) {
	long := strings.Repeat("x", 80)
	cases := map[string]struct {
		reason string
		groups []string
		want   string
	}{
		"One":        {"its own name", []string{"web"}, "web"},
		"Common":     {"what the names begin with", []string{"web-a", "web-b"}, "web"},
		"Nothing":    {"nothing in common", []string{"web", "batch"}, "pool"},
		"UpperCase":  {"no capitals in a DNS label", []string{"Web_Front"}, "web-front"},
		"Unicode":    {"nor anything but ASCII", []string{"wéb"}, "w-b"},
		"CutUnicode": {"a common beginning may end inside a letter", []string{"web-é", "web-è"}, "web"},
		"OnlySigns":  {"nothing is left", []string{"___"}, "pool"},
		"Trimmed":    {"it begins and ends with a letter or digit", []string{"-eks.web."}, "eks-web"},
		"Long":       {"a label has 63 characters", []string{long}, long[:63]},
		"LongTrim":   {"and does not end in a dash", []string{strings.Repeat("x", 62) + "--y"}, strings.Repeat("x", 62)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := poolName(tc.groups)
			if got != tc.want || !dnsLabel.MatchString(got) || len(got) > maxName {
				t.Errorf("%s: poolName() = %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}

func TestUnique(t *testing.T) {
	long := strings.Repeat("x", maxName)
	cases := map[string]struct {
		reason string
		taken  []string
		name   string
		want   string
	}{
		"Free":     {"it stays", nil, "web", "web"},
		"Taken":    {"it gets a number", []string{"web"}, "web", "web-2"},
		"Twice":    {"and the next one", []string{"web", "web-2"}, "web", "web-3"},
		"Long":     {"within 63 characters", []string{long}, long, long[:61] + "-2"},
		"LongDash": {"without two dashes", []string{long[:60] + "-yz"}, long[:60] + "-yz", long[:60] + "-2"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			taken := map[string]bool{}
			for _, n := range tc.taken {
				taken[n] = true
			}
			got := unique(tc.name, taken)
			if got != tc.want || len(got) > maxName || !taken[got] {
				t.Errorf("%s: unique() = %q, want %q, and taken from then on", tc.reason, got, tc.want)
			}
		})
	}
}

func FuzzPoolNames(f *testing.F) {
	f.Add("web-a", "web-b", "Web")
	f.Add("wéb", "\xff\xfe", strings.Repeat("ä", 70))
	f.Fuzz(func(t *testing.T, a, b, c string) {
		if a == "" || b == "" || c == "" || a == b || b == c || a == c {
			return // Auto Scaling refuses both
		}
		seen := map[string]bool{}
		for _, p := range alike([]inventory.NodeGroup{groupOf(a), groupOf(b, ofType("c5.large")), groupOf(c, ofType("r5.large"))}) {
			if !dnsLabel.MatchString(p.Name) || len(p.Name) > maxName || seen[p.Name] {
				t.Errorf("groups %q, %q, %q: pool %q is no name of its own for a NodePool", a, b, c, p.Name)
			}
			seen[p.Name] = true
		}
	})
}
