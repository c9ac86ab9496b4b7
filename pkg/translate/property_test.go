package translate

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// dice makes node groups that EC2, Auto Scaling and EKS could hold; seeded, so that a failure comes again.
type dice struct {
	*rand.Rand
	samples []string // of user data
}

func (d dice) pick(s ...string) string { return s[d.IntN(len(s))] }
func (d dice) often() bool             { return d.IntN(3) > 0 }
func (d dice) rarely() bool            { return d.IntN(6) == 0 }

func (d dice) maybe(s ...string) string {
	if d.often() {
		return ""
	}
	return d.pick(s...)
}

func (d dice) flag() *bool {
	if d.often() {
		return nil
	}
	return ptr.To(d.IntN(2) == 0)
}

func (d dice) labels() map[string]string {
	out := map[string]string{}
	for range d.IntN(4) {
		out[d.pick("tier", "example.com/disk", "topology.kubernetes.io/zone", "karpenter.sh/x", "mykarpenter.sh/y", "kubernetes.io/hostname", "-bad", "a/b/c",
			"node.kubernetes.io/role", "eks.amazonaws.com/nodegroup", "karpenter.sh", "karpenter.k8s.aws/instance-cpu", "")] = d.pick("", "a", "b-c", "a b", "-", strings.Repeat("x", 64))
	}
	return out
}

func (d dice) taints() []corev1.Taint {
	var out []corev1.Taint
	for range d.IntN(4) {
		out = append(out, corev1.Taint{Key: d.pick("k", "example.com/k", "a b", ""), Value: d.pick("", "v", "v w", "x/y"),
			Effect: corev1.TaintEffect(d.pick("NoSchedule", "NoExecute", "PreferNoSchedule", "", "Never"))})
	}
	return out
}

func (d dice) tags() []inventory.Tag {
	var out []inventory.Tag
	for range d.IntN(5) {
		out = append(out, inventory.Tag{Key: d.pick("team", "aws:x", "eks:y", "kubernetes.io/cluster/prod", "kubernetes.io/clusterx", "Name", "", tagLabel+"tier", tagLabel+"a b", tagTaint+"k", tagTemplate+"resources/cpu"),
			Value: d.pick("", "a", "v:NoSchedule", ":NoExecute", "v:Never", "owned"), Propagate: d.often()})
	}
	return out
}

func (d dice) devices() []inventory.BlockDevice {
	var out []inventory.BlockDevice
	for i := range d.IntN(3) {
		out = append(out, inventory.BlockDevice{
			DeviceName: fmt.Sprintf("/dev/xvd%c", 'a'+i), SizeGiB: int32(d.IntN(3) * (1 + d.IntN(8192))), Type: d.maybe("gp2", "gp3", "io1", "io2", "st1", "sc1", "standard", "new"),
			IOPS: int32(d.IntN(2) * 3000), ThroughputMiBs: int32(d.IntN(2) * 250), KMSKey: d.maybe("key-1"), SnapshotID: d.maybe("snap-1"),
			Encrypted: d.flag(), DeleteOnTermination: d.flag(), Virtual: d.maybe("ephemeral0"),
		})
	}
	return out
}

func (d dice) userData() string {
	all := []string{"", nodeConfig, eksScript, bottlerocket, "#!/bin/bash\nyum update\n", "MIME-Version: 1.0\nContent-Type: multipart/mixed\n\n--",
		bootstrap("--kubelet-extra-args '--node-labels=tier=z,bad label --register-with-taints=k=v:NoSchedule,=:,x'"), "apiVersion: node.eks.aws/v1alpha1\nspec: 3", "\x00\xff",
		bootstrap("--local-disks raid0 --use-max-pods false --kubelet-extra-args '--eviction-hard=memory.available<5%,x<1 --kube-reserved=cpu=1 --eviction-soft=memory.available<1Gi'"),
		"<powershell>\n& $EKSBootstrapScriptFile -EKSClusterName prod -KubeletExtraArgs '--node-labels=os=win'\necho x\n</powershell>", "<script>echo</script>"}
	all = append(all, d.samples...)
	s := d.pick(all...)
	if d.rarely() && s != "" { // cut anywhere
		s = s[:d.IntN(len(s))]
	}
	return s
}

func (d dice) template() inventory.LaunchTemplate {
	lt := inventory.LaunchTemplate{
		Asked: d.pick("1", "$Latest", "$Default"), Version: "1", InstanceType: d.pick("m5.large", "c5.large", "", "r6g.xlarge"), ImageID: d.pick("ami-1", "ami-2", "ami-3", ""),
		UserData: d.userData(), AssociatePublicIP: d.flag(), BlockDevices: d.devices(), DetailedMonitoring: d.flag(), EBSOptimized: d.flag(), KeyName: d.maybe("ops"),
		Spot: d.rarely(), Tenancy: d.maybe("default", "dedicated", "host"), PlacementGroup: d.maybe("close", "pg-1", "pg-web-1", "pg-0123456789abcdef0"), CapacityReservation: d.maybe("cr-1", "open", "arn:aws:x"), Tags: d.labels(),
	}
	for range d.IntN(3) * d.IntN(2) {
		lt.NetworkInterfaces = append(lt.NetworkInterfaces, inventory.NetworkInterface{Card: int32(d.IntN(2)), Device: int32(d.IntN(2)), Type: d.pick("", "interface", "efa", "efa-only", "new")})
	}
	for range d.IntN(3) {
		lt.SecurityGroups = append(lt.SecurityGroups, d.pick("sg-1", "sg-2", "sg-3", "default", ""))
	}
	if d.often() {
		lt.Image = &inventory.Image{Name: d.pick("amazon-eks-node-al2023-x86_64", "amazon-eks-node-1.32", "bottlerocket-aws", "golden", "", "Windows_Server-2022-x"), Architecture: d.pick("", "arm64", "x86_64")}
	}
	if d.often() {
		lt.Metadata = &inventory.Metadata{Endpoint: d.maybe("enabled", "disabled"), IPv6: d.maybe("enabled", "disabled"), HopLimit: int32(d.IntN(65)), Tokens: d.maybe("required", "optional"), Tags: d.maybe("enabled", "disabled")}
	}
	if d.rarely() {
		lt.Other = []string{"CpuOptions"}
	}
	return lt
}

func (d dice) group(name string) inventory.NodeGroup {
	g := inventory.NodeGroup{
		Name: name, Min: int32(d.IntN(3)), Max: int32(d.IntN(100)), Tags: d.tags(), LaunchTemplate: d.template(), CapacityRebalance: d.rarely(),
		MaxInstanceLifetime: int32(d.IntN(2) * (86400 + d.IntN(31536000-86400))), NewInstancesProtected: d.rarely(), WarmPool: d.rarely(),
		LifecycleHooks: make([]inventory.LifecycleHook, d.IntN(2)), ScalingPolicies: make([]inventory.ScalingPolicy, d.IntN(2)), ScheduledActions: make([]inventory.ScheduledAction, d.IntN(2)),
	}
	if d.often() {
		g.Types, g.CapacityUnit = instanceTypes, d.maybe("vcpu", "memory-mib", "units")
	}
	if d.rarely() {
		g.NodeLabels = d.labels()
	}
	for range d.IntN(3) {
		g.Instances = append(g.Instances, inventory.Instance{TemplateVersion: d.maybe("1", "2")})
	}
	for range d.IntN(12) {
		g.Subnets = append(g.Subnets, fmt.Sprintf("subnet-%d", d.IntN(50)))
	}
	if d.rarely() {
		g.MixedInstances = d.mixedInstances()
	}
	if d.IntN(2) == 0 {
		g.Managed = d.managed()
	}
	return g
}

func (d dice) mixedInstances() *inventory.MixedInstances {
	m := &inventory.MixedInstances{OnDemandBase: int32(d.IntN(3)), OnDemandPercentage: int32(d.IntN(3) * 50), OnDemandStrategy: d.maybe("prioritized", "lowest-price"),
		SpotStrategy: d.maybe("lowest-price", "price-capacity-optimized"), SpotMaxPrice: d.maybe("0.05")}
	for range d.IntN(3) {
		m.Overrides = append(m.Overrides, inventory.Override{InstanceType: d.maybe("m5.xlarge"), Weight: d.maybe("1", "4"), Requirements: d.rarely(), Types: []string{"c5.large", ""}[:d.IntN(3)]})
	}
	return m
}

func (d dice) scaling() *inventory.Scaling {
	if d.often() {
		return nil
	}
	s := &inventory.Scaling{Flags: map[string]string{}, Weight: int32(d.IntN(200))}
	for range d.IntN(4) {
		s.Flags[d.pick(flagScaleDown, flagUnneeded, flagThreshold, flagParallel, flagEmptyBulk, flagDrained, "v", "new")] = d.pick("", "true", "false", "10", "10m", "1h30m5s", "-1", "999999h", "x")
	}
	return s
}

// families are named at random: some that EC2 does not know, some that can stand for nothing.
func (d dice) families() []inventory.InstanceFamily {
	var out []inventory.InstanceFamily
	for range d.IntN(3) * d.IntN(2) {
		f := inventory.InstanceFamily{Name: d.pick("m6i", "m7g", "x")}
		for range d.IntN(4) {
			f.Types = append(f.Types, inventory.InstanceType{
				Name: f.Name + d.pick(".large", ".xlarge", ".metal", ""), Architecture: d.pick("amd64", "arm64", ""), VCPUs: int64(d.IntN(6)), MemoryMiB: int64(d.IntN(40000)),
			})
		}
		out = append(out, f)
	}
	return out
}

func (d dice) managed() *inventory.ManagedNodeGroup {
	return &inventory.ManagedNodeGroup{
		AMIType: d.pick("AL2023_x86_64_STANDARD", "AL2_ARM_64", "BOTTLEROCKET_x86_64", "CUSTOM", "WINDOWS_CORE_2022_x86_64", "NEW", ""), ReleaseVersion: d.pick("1.33.0-20260114", "1.51.0-47438798", "ami-1", "", "-"),
		CapacityType: d.pick("ON_DEMAND", "SPOT", "CAPACITY_BLOCK", ""), InstanceTypes: []string{"m6i.large", ""}[:d.IntN(3)], DiskSizeGiB: int32(d.IntN(2) * 50),
		Labels: d.labels(), Taints: d.taints(), OwnLaunchTemplate: d.IntN(2) == 0,
	}
}

// Whatever AWS answers: no panic; a target that Karpenter takes, or an error that says what to mend.
func TestRandomGroupsTranslateOrSayWhy(t *testing.T) {
	const (
		rounds = 3000
		asked  = 12 // one in so many is shown to the API server
	)
	d := dice{rand.New(rand.NewPCG(20261130, 7)), seeds(t)}
	made := 0
	for round := range rounds {
		var groups []inventory.NodeGroup
		for i := range 1 + d.IntN(3) {
			groups = append(groups, d.group(fmt.Sprintf("g%d", i)))
		}
		families := d.families()
		c := inventory.Cluster{Name: d.pick("prod", strings.Repeat("c", 100)), SecurityGroup: d.pick("sg-cluster", "sg-cluster", "")}
		target, err := Pool(c, inventory.Pool{Name: "general", Scaling: d.scaling(), Families: families}, groups, "role")
		if err != nil {
			if inventory.ClassOf(err) != inventory.ClassTerminal {
				t.Fatalf("round %d: an error that nobody can mend: %v", round, err)
			}
			continue
		}
		made++
		merges(t, target)
		stand(t, groups, families, target)
		if err := target.NodePool.RuntimeValidate(t.Context()); err != nil {
			t.Fatalf("round %d: Karpenter refuses the NodePool: %v", round, err)
		}
		if made%asked == 0 {
			validates(t, target)
		}
		if t.Failed() {
			t.Fatalf("round %d: %+v", round, groups)
		}
	}
	if made < rounds/4 {
		t.Errorf("only %d of %d rounds made a target: the groups are too odd to prove anything", made, rounds)
	}
}

// stand says of each type that the groups do not launch themselves that a named family has it, and that it has what one of theirs has.
func stand(t *testing.T, groups []inventory.NodeGroup, families []inventory.InstanceFamily, target inventory.Target) {
	t.Helper()
	own := map[string]bool{}
	for _, g := range groups {
		for _, name := range typesOf(g) {
			own[name] = true
		}
	}
	for _, name := range requirement(target, corev1.LabelInstanceTypeStable) {
		for _, f := range families {
			own[name] = own[name] || slices.ContainsFunc(f.Types, func(c inventory.InstanceType) bool {
				return c.Name == name && slices.ContainsFunc(instanceTypes, func(o inventory.InstanceType) bool {
					return own[o.Name] && size(o.Name) == size(name) && c.Architecture == o.Architecture && c.VCPUs >= o.VCPUs && c.MemoryMiB >= o.MemoryMiB
				})
			})
		}
		if !own[name] {
			t.Errorf("the NodePool may launch %s, which no group launches and nobody asked for", name)
		}
	}
}

// carriesNothing names fields that describe what exists, not what is to be launched, or that other parts of castoff look after.
var carriesNothing = map[string]string{
	"Name": "identity", "AutoScalingGroup": "identity", "ARN": "identity", "Desired": "what runs now", "Instances": "what runs now (their template's version: TestCase_C011)", "Zones": "follow from the subnets",
	"SuspendedProcesses": "end with the group", "InstanceRefresh": "blocks in the preflight", "LaunchError": "for people",
	"InstanceRefreshHeld": "held back, and named while castoff is at work", "ScalingCause": "for people",
	"DeletionProtection": "the preflight warns of it", "RetainsInstances": "the preflight warns of it",
	"LaunchTemplate.ID": "identity", "LaunchTemplate.Name": "identity", "LaunchTemplate.Version": "identity", "LaunchTemplate.Configuration": "identity",
	"LaunchTemplate.UserDataSHA256": "identity", "LaunchTemplate.InstanceProfile": "the pool's role is castoff's", "LaunchTemplate.Role": "the pool's role is castoff's",
	"LaunchTemplate.Image.ID": "same as imageID", "LaunchTemplate.Image.Owner": "identity", "LaunchTemplate.Image.RootDevice": "follows from the image",
	"Managed.Status": "blocks in the preflight", "Managed.Version": "identity", "Managed.NodeRole": "the pool's role is castoff's", "Managed.Tags": "EKS does not pass them on to instances",
	"Managed.HealthIssues": "for people",
}

// Each field of a node group, when it changes, changes the target or the list, or is named above with a reason. A field that is
// added to the inventory fails here until somebody decides.
func TestEveryFieldIsCarriedOrListed(t *testing.T) {
	selfManaged := plain(withUserData("#!/bin/bash\n/etc/eks/bootstrap.sh prod"), func(g *inventory.NodeGroup) { g.MixedInstances = &inventory.MixedInstances{} },
		template(func(lt *inventory.LaunchTemplate) { lt.Image.Name = "golden" }))
	ownTemplate := managed("AL2_x86_64", "1.32.1-20250101", template(func(lt *inventory.LaunchTemplate) { lt.ImageID, lt.InstanceType = "", "" }))
	eksTemplate := managed("AL2_x86_64", "1.32.1-20250101")
	withImage := plain(template(func(lt *inventory.LaunchTemplate) { lt.Image.Name = "golden" }))
	seen := 0
	for _, path := range leaves(reflect.TypeFor[inventory.NodeGroup](), "") {
		if _, exempt := carriesNothing[path]; exempt {
			continue
		}
		seen++
		changes := false
		for _, base := range []inventory.NodeGroup{selfManaged, ownTemplate, eksTemplate, withImage} {
			changes = changes || differs(t, base, path)
		}
		if !changes {
			t.Errorf("%s can be set and nobody hears of it: carry it over, list it, or say in this test why it does not matter", path)
		}
	}
	if seen < 40 {
		t.Errorf("only %d fields were tried", seen)
	}
}

// differs says whether the target of the group is another one when the field is set to something else.
func differs(t *testing.T, base inventory.NodeGroup, path string) bool {
	t.Helper()
	before, err := Pool(cluster, inventory.Pool{Name: "general"}, []inventory.NodeGroup{base}, "role")
	if err != nil {
		t.Fatal(err)
	}
	changed := clone(base)
	if !set(reflect.ValueOf(&changed).Elem(), strings.Split(path, ".")) {
		return false
	}
	after, err := Pool(cluster, inventory.Pool{Name: "general"}, []inventory.NodeGroup{changed}, "role")
	return err != nil || words(before) != words(after)
}

// clone copies what set may write to.
func clone(g inventory.NodeGroup) inventory.NodeGroup {
	lt := g.LaunchTemplate
	if lt.Image != nil {
		lt.Image = ptr.To(*lt.Image)
	}
	if lt.Metadata != nil {
		lt.Metadata = ptr.To(*lt.Metadata)
	}
	g.LaunchTemplate = lt
	if g.Managed != nil {
		g.Managed = ptr.To(*g.Managed)
	}
	if g.MixedInstances != nil {
		g.MixedInstances = ptr.To(*g.MixedInstances)
	}
	return g
}

// leaves are the paths of all fields; lists and maps are leaves.
func leaves(of reflect.Type, prefix string) []string {
	var out []string
	for i := range of.NumField() {
		f := of.Field(i)
		kind := f.Type
		if kind.Kind() == reflect.Pointer {
			kind = kind.Elem()
		}
		if kind.Kind() == reflect.Struct {
			out = append(out, leaves(kind, prefix+f.Name+".")...)
			continue
		}
		out = append(out, prefix+f.Name)
	}
	return out
}

// samples are values for fields whose type alone does not make a telling one.
var samples = map[string]any{
	"Name": "bottlerocket-aws", "Subnets": []string{"subnet-z"}, "Tags": []inventory.Tag{{Key: "team", Value: "x", Propagate: true}},
	"UserData": "#!/bin/bash\nyum update\n", "SecurityGroups": []string{"sg-z"}, "BlockDevices": []inventory.BlockDevice{{DeviceName: "/dev/xvdz", SizeGiB: 7}},
	"Asked": "$Latest", "Tenancy": "dedicated", "Overrides": []inventory.Override{{InstanceType: "z1d.large"}}, "CapacityType": "SPOT",
	"AMIType": "BOTTLEROCKET_x86_64", "ReleaseVersion": "1.99.9-20991231", "InstanceTypes": []string{"z1d.large"}, "Labels": map[string]string{"z": "z"}, "Taints": taints("z", "z", "NoSchedule"),
	"NetworkInterfaces": []inventory.NetworkInterface{{Type: "interface"}, {Device: 1, Type: "interface"}}, "CapacityUnit": "vcpu", "NodeLabels": map[string]string{"z": "z"},
	"Types": []inventory.InstanceType{{Name: "m5.large", VCPUs: 3, MemoryMiB: 5}, {Name: "m6i.large", VCPUs: 7, MemoryMiB: 9}},
	"IPv6":  "enabled", "Endpoint": "disabled", "Tokens": "optional", "Other": []string{"CpuOptions"}, "Architecture": "arm64", "OwnLaunchTemplate": true,
}

// set gives the field a value that it does not have; false if the way there is a nil pointer.
func set(v reflect.Value, path []string) bool {
	if len(path) > 1 {
		f := v.FieldByName(path[0])
		if f.Kind() == reflect.Pointer {
			if f.IsNil() {
				return false
			}
			f = f.Elem()
		}
		return set(f, path[1:])
	}
	f := v.FieldByName(path[0])
	if sample, ok := samples[path[0]]; ok {
		if s := reflect.ValueOf(sample); s.Type().AssignableTo(f.Type()) {
			f.Set(s)
			return true
		}
	}
	switch f.Kind() {
	case reflect.String:
		f.SetString("enabled")
	case reflect.Bool:
		f.SetBool(!f.Bool())
	case reflect.Int32:
		f.SetInt(f.Int() + 30)
	case reflect.Pointer:
		f.Set(reflect.New(f.Type().Elem())) // *bool to false: set is not the same as silent
	case reflect.Slice:
		f.Set(reflect.MakeSlice(f.Type(), 1, 1))
	case reflect.Map:
		f.Set(reflect.ValueOf(map[string]string{"z": "z"}))
	default:
		panic("no value for " + f.Kind().String())
	}
	return true
}
