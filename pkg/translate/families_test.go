package translate

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// kind is an instance type of one network card and the least that every test has.
func kind(name string, change ...func(*inventory.InstanceType)) inventory.InstanceType {
	t := inventory.InstanceType{Name: name, Architecture: "amd64", VCPUs: 2, MemoryMiB: 8192, NetworkCards: 1, BandwidthMbps: 750}
	for _, c := range change {
		c(&t)
	}
	return t
}

func family(name string, types ...inventory.InstanceType) inventory.InstanceFamily {
	return inventory.InstanceFamily{Name: name, Types: types}
}

// of is a group of these types, of which EC2 says this.
func of(types ...inventory.InstanceType) inventory.NodeGroup {
	return managed("AL2023_x86_64_STANDARD", "1.33.0-20260114", func(g *inventory.NodeGroup) {
		g.Types, g.Managed.InstanceTypes = types, nil
		for _, t := range types {
			g.Managed.InstanceTypes = append(g.Managed.InstanceTypes, t.Name)
		}
	})
}

// widenedTo is the target of the groups with the families that the user named.
func widenedTo(t *testing.T, families []inventory.InstanceFamily, groups ...inventory.NodeGroup) inventory.Target {
	t.Helper()
	target, err := Pool(cluster, inventory.Pool{Name: "general", Families: families}, groups, "KarpenterNodeRole-prod")
	if err != nil {
		t.Fatal(err)
	}
	validates(t, target)
	return target
}

func TestWhatATypeLacksToStandForAnother(t *testing.T) {
	gpu := func(n int64, name string) func(*inventory.InstanceType) {
		return func(t *inventory.InstanceType) { t.Accelerators = map[string]int64{name: n} }
	}
	disk := func(gb int64) func(*inventory.InstanceType) {
		return func(t *inventory.InstanceType) { t.LocalStorageGB = gb }
	}
	network := func(efa bool, cards, mbps int64) func(*inventory.InstanceType) {
		return func(t *inventory.InstanceType) { t.EFA, t.NetworkCards, t.BandwidthMbps = efa, cards, mbps }
	}
	arm := func(t *inventory.InstanceType) { t.Architecture = "arm64" }
	cpus := func(n int64) func(*inventory.InstanceType) {
		return func(t *inventory.InstanceType) { t.VCPUs = n }
	}
	memory := func(n int64) func(*inventory.InstanceType) {
		return func(t *inventory.InstanceType) { t.MemoryMiB = n }
	}
	cases := map[string]struct {
		reason       string
		candidate, t inventory.InstanceType
		want         string
	}{
		"Same":          {"the next generation", kind("m6i.large"), kind("m5.large"), ""},
		"More":          {"more of everything serves as well", kind("x.large", cpus(4), memory(16384), disk(75), network(true, 2, 9000)), kind("m5.large"), ""},
		"Arm":           {"images and programs are built for one of the two", kind("m7g.large", arm), kind("m5.large"), "m7g.large is arm64, m5.large is amd64"},
		"FewerCPUs":     {"pods that fill the old type would not fit", kind("x.large", cpus(1)), kind("m5.large"), "x.large has 1 vCPUs, m5.large has 2"},
		"LessMemory":    {"nor would these", kind("c5.large", memory(4096)), kind("m5.large"), "c5.large has 4096 MiB of memory, m5.large has 8192"},
		"SameGPU":       {"as many of the same", kind("g4ad.large", gpu(1, "NVIDIA T4")), kind("g4dn.large", gpu(1, "NVIDIA T4")), ""},
		"OtherGPU":      {"what runs on the one need not run on the other", kind("g5.large", gpu(1, "NVIDIA A10G")), kind("g4dn.large", gpu(1, "NVIDIA T4")), "g5.large has 1 NVIDIA A10G, g4dn.large has 1 NVIDIA T4"},
		"MoreGPUs":      {"pods that ask for one would share a node that costs four", kind("x.large", gpu(4, "NVIDIA T4")), kind("g4dn.large", gpu(1, "NVIDIA T4")), "x.large has 4 NVIDIA T4, g4dn.large has 1 NVIDIA T4"},
		"NoGPU":         {"pods that ask for one would wait", kind("m5.large"), kind("g4dn.large", gpu(1, "NVIDIA T4")), "m5.large has no accelerator, g4dn.large has 1 NVIDIA T4"},
		"GPUForNothing": {"nobody asked for one, and it has to be paid", kind("g4dn.large", gpu(1, "NVIDIA T4")), kind("m5.large"), "g4dn.large has 1 NVIDIA T4, m5.large has no accelerator"},
		"Disk":          {"the same disks", kind("m6id.large", disk(118)), kind("m5d.large", disk(75)), ""},
		"NoDisk":        {"the kubelet's and the pods' files lie on it", kind("m6i.large"), kind("m5d.large", disk(75)), "m6i.large has 0 GB of local storage, m5d.large has 75"},
		"SmallerDisk":   {"and need the room", kind("x.large", disk(50)), kind("m5d.large", disk(75)), "x.large has 50 GB of local storage, m5d.large has 75"},
		"NoEFA":         {"what pods talk over is gone", kind("m6i.large"), kind("c5n.large", network(true, 1, 750)), "m6i.large takes no Elastic Fabric Adapter, c5n.large does"},
		"FewerCards":    {"the EC2NodeClass may name interfaces of the second card", kind("m6i.large"), kind("p.large", network(false, 2, 750)), "m6i.large has 1 network cards, p.large has 2"},
		"SlowerNetwork": {"a group of network types was chosen for its network", kind("m6i.large"), kind("m5n.large", network(false, 1, 2100)), "m6i.large has 750 Mbit/s of steady network, m5n.large has 2100"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := lacks(tc.candidate, tc.t); got != tc.want {
				t.Errorf("%s: %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}

func TestInstanceFamilies(t *testing.T) {
	xlarge := func(t *inventory.InstanceType) { t.VCPUs, t.MemoryMiB, t.BandwidthMbps = 4, 16384, 1250 }
	weak := func(t *inventory.InstanceType) { t.BandwidthMbps = 390 }
	m5, m5x := kind("m5.large"), kind("m5.xlarge", xlarge)
	m6i := family("m6i", kind("m6i.large"), kind("m6i.xlarge", xlarge), kind("m6i.metal", xlarge))
	cases := map[string]struct {
		reason   string
		groups   []inventory.NodeGroup
		families []inventory.InstanceFamily
		want     string
		// because is what is said of families that add nothing, by what the note has to say.
		because []string
	}{
		"None": {
			reason: "nobody asked: exactly the group's own",
			groups: []inventory.NodeGroup{of(m5, m5x)},
			want:   "m5.large m5.xlarge",
		},
		"SameSizes": {
			reason:   "only the sizes that the group has, of every family",
			groups:   []inventory.NodeGroup{of(m5)},
			families: []inventory.InstanceFamily{m6i, family("m7i", kind("m7i.large"), kind("m7i.2xlarge", xlarge))},
			want:     "m5.large m6i.large m7i.large",
		},
		"EachForItsOwn": {
			reason:   "of two sizes one is too weak: the other is added, and nothing is to be said",
			groups:   []inventory.NodeGroup{of(m5, m5x)},
			families: []inventory.InstanceFamily{family("flex", kind("flex.large", weak), kind("flex.xlarge", xlarge))},
			want:     "flex.xlarge m5.large m5.xlarge",
		},
		"OwnFamily": {
			reason:   "the family that the group has adds none of its own sizes twice, and that is not a mistake",
			groups:   []inventory.NodeGroup{of(m5)},
			families: []inventory.InstanceFamily{family("m5", m5, m5x)},
			want:     "m5.large",
		},
		"TwoGroups": {
			reason:   "the types of all groups of the pool can be stood for",
			groups:   []inventory.NodeGroup{of(m5), of(m5x)},
			families: []inventory.InstanceFamily{m6i},
			want:     "m5.large m5.xlarge m6i.large m6i.xlarge",
		},
		"UnknownFamily": {
			reason:   "a slip of the pen is said, not guessed at",
			groups:   []inventory.NodeGroup{of(m5)},
			families: []inventory.InstanceFamily{family("m66i"), m6i},
			want:     "m5.large m6i.large",
			because:  []string{"m66i: EC2 has no such family"},
		},
		"NoSuchSize": {
			reason:   "there is no 24xlarge of everything",
			groups:   []inventory.NodeGroup{of(m5)},
			families: []inventory.InstanceFamily{family("u", kind("u.metal"))},
			want:     "m5.large",
			because:  []string{"u: it has none of their sizes"},
		},
		"OtherArchitecture": {
			reason:   "Graviton for an x86 image would be chosen first, for its price, and would not start",
			groups:   []inventory.NodeGroup{of(m5)},
			families: []inventory.InstanceFamily{family("m7g", kind("m7g.large", func(t *inventory.InstanceType) { t.Architecture = "arm64" }))},
			want:     "m5.large",
			because:  []string{"m7g: m7g.large is arm64, m5.large is amd64"},
		},
		"UnknownFacts": {
			reason:   "castoff does not guess what a type has that EC2 did not describe",
			groups:   []inventory.NodeGroup{of(inventory.InstanceType{Name: "m5.large"})},
			families: []inventory.InstanceFamily{m6i},
			want:     "m5.large",
			because:  []string{"m6i: what m5.large has is not known"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			target := widenedTo(t, tc.families, tc.groups...)
			if got := strings.Join(requirement(target, corev1.LabelInstanceTypeStable), " "); got != tc.want {
				t.Errorf("%s: types %s, want %s", tc.reason, got, tc.want)
			}
			var said []string
			for _, n := range target.NotCarried {
				if name, ok := strings.CutPrefix(n.Field, "instanceFamilies "); ok {
					said = append(said, name+": "+strings.TrimPrefix(n.Reason, "It adds no instance type to the pool: "))
				}
			}
			if len(said) != len(tc.because) {
				t.Fatalf("%s: said %q, want %q", tc.reason, said, tc.because)
			}
			for i, want := range tc.because {
				if !strings.HasPrefix(said[i], want) {
					t.Errorf("%s: said %q, want %q", tc.reason, said[i], want)
				}
			}
		})
	}
}

// Types that are added change neither what the pool may cost at most, nor where its pods may run, nor the nodes' class.
func TestFamiliesChangeNothingButTheTypes(t *testing.T) {
	group := of(kind("m5.large"))
	wide := widenedTo(t, []inventory.InstanceFamily{family("r6i", kind("r6i.large", func(t *inventory.InstanceType) { t.MemoryMiB = 16384 }))}, group)
	narrow := translated(t, group)
	if diff := cmp.Diff(narrow.NodePool.Spec.Limits, wide.NodePool.Spec.Limits); diff != "" {
		t.Errorf("limits: -narrow +wide\n%s", diff)
	}
	if diff := cmp.Diff(narrow.NodeClass, wide.NodeClass); diff != "" {
		t.Errorf("a canary proved the class; adding a type must not ask for another: -narrow +wide\n%s", diff)
	}
	narrow.NodePool.Spec.Template.Spec.Requirements[0].Values = []string{"m5.large", "r6i.large"}
	if diff := cmp.Diff(narrow.NodePool.Spec, wide.NodePool.Spec); diff != "" {
		t.Errorf("all but the instance types: -narrow +wide\n%s", diff)
	}
	if narrow.NodePool.Annotations[annotationGroups] != wide.NodePool.Annotations[annotationGroups] {
		t.Error("the node groups are others")
	}
}
