package translate

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

var update = flag.Bool("update", false, "write the golden files of testdata/pools instead of comparing with them")

// Node groups as people have them, from end to end. Each golden file is what somebody would commit, and what the plan lists.
func TestPoolsAsPeopleHaveThem(t *testing.T) {
	cases := map[string]struct {
		reason string
		pool   inventory.Pool
		groups []inventory.NodeGroup
	}{
		"bottlerocket": {
			reason: "a managed node group of Bottlerocket with settings, a data volume, taints, and labels of EKS and of the settings",
			groups: []inventory.NodeGroup{managed("BOTTLEROCKET_x86_64", "1.51.0-47438798", withUserData(
				"[settings.kubernetes]\napi-server = \"https://x\"\ncluster-name = \"prod\"\ncluster-certificate = \"Q0E=\"\nmax-pods = 58\n"+
					"[settings.kubernetes.node-labels]\nteam = \"search\"\n[settings.kubernetes.eviction-hard]\n\"memory.available\" = \"15%\"\n"+
					"[settings.ntp]\ntime-servers = [\"169.254.169.123\"]\n[settings.host-containers.admin]\nenabled = true\n"),
				template(func(lt *inventory.LaunchTemplate) {
					lt.ID, lt.ImageID, lt.Image, lt.InstanceType, lt.Asked = "lt-1", "", nil, "", "$Default"
					lt.BlockDevices = []inventory.BlockDevice{{DeviceName: "/dev/xvda", SizeGiB: 4, Type: "gp3"}, {DeviceName: "/dev/xvdb", SizeGiB: 200, Type: "gp3", ThroughputMiBs: 500, Encrypted: ptr.To(true)}}
				}),
				func(g *inventory.NodeGroup) {
					g.Managed.OwnLaunchTemplate, g.Managed.Labels, g.Managed.Taints = true, map[string]string{"tier": "index"}, taints("search", "only", "NoExecute")
				})},
		},
		"windows": {
			reason: "a group of Windows nodes, joined by PowerShell",
			groups: []inventory.NodeGroup{plain(image(winImage), withUserData("<powershell>\nAdd-MpPreference -ExclusionPath C:\\data\n"+
				"& $EKSBootstrapScriptFile -EKSClusterName prod -KubeletExtraArgs '--node-labels=os=win --register-with-taints=os=win:NoSchedule'\n</powershell>\n"),
				template(func(lt *inventory.LaunchTemplate) {
					lt.BlockDevices = []inventory.BlockDevice{{DeviceName: "/dev/sda1", SizeGiB: 120, Type: "gp3"}}
				}))},
		},
		"gpu-reserved": {
			reason: "GPUs by a capacity reservation, with two network cards and the instance store as one disk",
			groups: []inventory.NodeGroup{plain(image(al2023Image), withUserData("apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  instance:\n    localStorage: {strategy: RAID0}\n  kubelet:\n    config: {maxPods: 64}\n    flags: ['--node-labels=accelerator=a100', '--register-with-taints=nvidia.com/gpu=present:NoSchedule']\n"),
				template(func(lt *inventory.LaunchTemplate) {
					lt.InstanceType, lt.CapacityReservation, lt.PlacementGroup = "p4d.24xlarge", "cr-0123456789abcdef0", "close"
					lt.NetworkInterfaces = []inventory.NetworkInterface{{Type: "efa"}, {Card: 1, Device: 1, Type: "efa-only"}}
				}),
				func(g *inventory.NodeGroup) {
					g.Types = []inventory.InstanceType{{Name: "p4d.24xlarge", Architecture: "amd64", VCPUs: 96, MemoryMiB: 1152 << 10}}
					g.NodeLabels = map[string]string{"accelerator": "a100", "set-by": "a-controller"}
				})},
		},
		"launch-configuration": {
			reason: "an old group: a launch configuration, security groups by name, spot, no metadata options, scaled by policies",
			groups: []inventory.NodeGroup{plain(image(al2Image), withUserData(eksScript), template(func(lt *inventory.LaunchTemplate) {
				lt.Version, lt.Asked, lt.Configuration, lt.SecurityGroups, lt.Spot, lt.Metadata = "", "", "old", []string{"default", "sg-9"}, true, nil
				lt.KeyName, lt.EBSOptimized = "ops", ptr.To(false)
			}), func(g *inventory.NodeGroup) {
				g.ScalingPolicies, g.LifecycleHooks, g.WarmPool = make([]inventory.ScalingPolicy, 2), make([]inventory.LifecycleHook, 1), true
			})},
		},
		"zones": {
			reason: "three groups, one a zone, that Cluster Autoscaler balances, with its settings",
			pool: inventory.Pool{Scaling: &inventory.Scaling{Weight: 50, Flags: map[string]string{
				"expander": "priority", "balance-similar-node-groups": "true", "scale-down-unneeded-time": "5m", "max-drain-parallelism": "2", "max-empty-bulk-delete": "20", "scale-down-utilization-threshold": "0.7",
			}}},
			groups: []inventory.NodeGroup{
				managed("AL2023_x86_64_STANDARD", "1.33.0-20260114", func(g *inventory.NodeGroup) { g.Name, g.Subnets, g.Min = "general-a", []string{"subnet-a"}, 1 }),
				managed("AL2023_x86_64_STANDARD", "1.33.0-20260114", func(g *inventory.NodeGroup) { g.Name, g.Subnets, g.Max = "general-b", []string{"subnet-b"}, 8 }),
				managed("AL2023_x86_64_STANDARD", "1.33.0-20260114", func(g *inventory.NodeGroup) { g.Name, g.Subnets = "general-c", []string{"subnet-c"} }),
			},
		},
		"widened": {
			reason: "spot of one type, with the families that the user named",
			pool:   inventory.Pool{Families: []inventory.InstanceFamily{family("m6i", kind("m6i.large")), family("m7i", kind("m7i.large"), kind("m7i.xlarge")), family("t3", kind("t3.large", func(t *inventory.InstanceType) { t.BandwidthMbps = 512 }))}},
			groups: []inventory.NodeGroup{of(kind("m5.large"))},
		},
	}
	cases["widened"].groups[0].Managed.CapacityType = "SPOT"
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.pool.Name = "general"
			target, err := Pool(cluster, tc.pool, tc.groups, "KarpenterNodeRole-prod")
			if err != nil {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			validates(t, target)
			merges(t, target)
			golden(t, filepath.Join("testdata", "pools", name+".yaml"), "# "+tc.reason+"\n"+written(t, target))
		})
	}
}

// written is a target as a person would read it: both objects' specs, and what was listed as comments.
func written(t *testing.T, target inventory.Target) string {
	t.Helper()
	var out strings.Builder
	out.WriteString("# NodePool\n" + asYAML(t, target.NodePool.Spec) + "---\n# EC2NodeClass\n" + asYAML(t, target.NodeClass.Spec))
	for _, n := range target.NotCarried {
		out.WriteString("# " + n.NodeGroup + ", " + n.Field + ": " + n.Reason + " " + n.Do + "\n")
	}
	return out.String()
}

// golden compares with a file; go test ./pkg/translate -update writes it.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s: -want +got; -update after looking at it\n%s", file, diff)
	}
}
