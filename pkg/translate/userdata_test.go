package translate

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	karpbootstrap "github.com/aws/karpenter-provider-aws/pkg/providers/amifamily/bootstrap"
	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

func archived(mediaType, content string) string {
	return "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n\n--//\nContent-Type: " + mediaType + "\n\n" + content + "\n--//--\n"
}

// image gives a group an image of the family.
func image(name string) func(*inventory.NodeGroup) {
	return template(func(lt *inventory.LaunchTemplate) { lt.Image.Name = name })
}

const (
	al2Image    = "amazon-eks-node-1.32-v20250101"
	al2023Image = "amazon-eks-node-al2023-x86_64-standard-1.33-v20260114"
	rocketImage = "bottlerocket-aws-k8s-1.33-x86_64-v1.51.0"
	winImage    = "Windows_Server-2022-English-Core-EKS_Optimized-1.33-2026.01.14"
)

func TestUserDataIsKeptButForTheJoin(t *testing.T) {
	cases := map[string]struct {
		reason, image, in, want string
	}{
		"OnlyTheJoin": {
			reason: "nothing is left of a script that only joins", image: al2Image,
			in: "#!/bin/bash\nset -o xtrace\n# the join\n/etc/eks/bootstrap.sh prod --b64-cluster-ca \"$B64_CLUSTER_CA\"\n",
		},
		"Script": {
			reason: "the call goes, a command that does nothing stands for it", image: al2Image,
			in:   "#!/bin/bash\nyum install -y nfs-utils\nsudo /etc/eks/bootstrap.sh prod \\\n  --kubelet-extra-args '--node-labels=a=1'\necho done\n",
			want: archived(typeScript, "#!/bin/bash\nyum install -y nfs-utils\n: # Karpenter joins the cluster\necho done"),
		},
		"InAnIf": {
			reason: "an if without a command would be no script", image: al2Image,
			in:   "#!/bin/bash\nif true; then\n  /etc/eks/bootstrap.sh prod || exit 1\nfi\n",
			want: archived(typeScript, "#!/bin/bash\nif true; then\n: || exit 1\nfi"),
		},
		"CloudConfig": {
			reason: "Karpenter would take a bare one for a NodeConfig", image: al2023Image,
			in:   "#cloud-config\npackages: [nfs-utils]\n",
			want: archived(typeCloud, "#cloud-config\npackages: [nfs-utils]"),
		},
		"Archive": {
			reason: "parts stay in their order, with their types; the one that only joins goes", image: al2Image,
			in: "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"==B==\"\n\n--==B==\nContent-Type: text/cloud-config\n\n#cloud-config\n--==B==\nContent-Type: text/x-shellscript\n\n#!/bin/sh\necho hi\n" +
				"--==B==\nContent-Type: text/x-shellscript\n\n#!/bin/sh\n/etc/eks/bootstrap.sh prod\n--==B==--\n",
			want: "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n\n--//\nContent-Type: text/cloud-config\n\n#cloud-config\n--//\nContent-Type: text/x-shellscript\n\n#!/bin/sh\necho hi\n--//--\n",
		},
		"Base64Part": {
			reason: "Terraform's cloudinit_config encodes parts", image: al2Image,
			in: "Content-Type: multipart/mixed; boundary=\"B\"\nMIME-Version: 1.0\n\n--B\nContent-Transfer-Encoding: base64\nContent-Type: text/x-shellscript\nMime-Version: 1.0\n\n" +
				base64.StdEncoding.EncodeToString([]byte("#!/bin/sh\necho hi\n/etc/eks/bootstrap.sh prod\n")) + "\n--B--\n",
			want: archived("text/x-shellscript", "#!/bin/sh\necho hi\n: # Karpenter joins the cluster"),
		},
		"Nested": {
			reason: "an archive in an archive is one", image: al2Image,
			in:   archived(`multipart/mixed; boundary="in"`, "--in\nContent-Type: text/x-shellscript\n\n#!/bin/sh\necho hi\n--in--"),
			want: archived("text/x-shellscript", "#!/bin/sh\necho hi"),
		},
		"NodeConfigOnlyTheJoin": {
			reason: "Karpenter writes cluster, labels and taints itself", image: al2023Image,
			in: nodeConfig,
		},
		"NodeConfig": {
			reason: "what spec.kubelet has no place for stays in the NodeConfig", image: al2023Image,
			in:   "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  cluster: {name: prod}\n  containerd: {config: x}\n  kubelet:\n    config: {maxPods: 58, shutdownGracePeriod: 30s}\n    flags: [\"--v=4\", \"--node-labels=a=1\"]\n",
			want: archived(typeNodeConfig, "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  containerd:\n    config: x\n  kubelet:\n    config:\n      shutdownGracePeriod: 30s\n    flags:\n    - --v=4"),
		},
		"Windows": {
			reason: "Karpenter writes the tags and the call", image: winImage,
			in:   "<powershell>\n[string]$EKSBinDir = \"$env:ProgramFiles\\Amazon\\EKS\"\n[string]$EKSBootstrapScriptName = 'Start-EKSBootstrap.ps1'\n[string]$EKSBootstrapScriptFile = \"$EKSBinDir\\$EKSBootstrapScriptName\"\nSet-TimeZone UTC\n& $EKSBootstrapScriptFile -EKSClusterName \"prod\" -KubeletExtraArgs \"--node-labels=a=1\" 3>&1 4>&1 5>&1 6>&1\n</powershell>\n",
			want: "Set-TimeZone UTC\n",
		},
		"WindowsOnlyTheJoin": {
			reason: "nothing is left", image: winImage,
			in: "<powershell>\n& \"C:\\Program Files\\Amazon\\EKS\\Start-EKSBootstrap.ps1\" -EKSClusterName prod\n</powershell>",
		},
		"Custom": {
			reason: "an image of one's own gets what it always got", image: "golden",
			in: "#!/bin/sh\n/opt/join prod\n", want: "#!/bin/sh\n/opt/join prod\n",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			target := translated(t, plain(image(tc.image), withUserData(tc.in)))
			if diff := cmp.Diff(tc.want, ptr.Deref(target.NodeClass.Spec.UserData, "")); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
			merges(t, target)
		})
	}
}

// merges asks Karpenter's own code to make the user data of an instance from the target.
func merges(t *testing.T, target inventory.Target) string {
	t.Helper()
	spec := target.NodeClass.Spec
	options := karpbootstrap.Options{
		ClusterName: "prod", ClusterEndpoint: "https://example.com", CABundle: ptr.To("Q0E="), ClusterCIDR: ptr.To("10.100.0.0/16"), KubeletConfig: spec.Kubelet,
		Labels: target.NodePool.Spec.Template.Labels, Taints: target.NodePool.Spec.Template.Spec.Taints, CustomUserData: spec.UserData, InstanceStorePolicy: spec.InstanceStorePolicy,
	}
	if options.KubeletConfig == nil {
		options.KubeletConfig = &awsv1.KubeletConfiguration{}
	}
	var b karpbootstrap.Bootstrapper
	switch family := ptr.Deref(spec.AMIFamily, ""); family {
	case awsv1.AMIFamilyAL2:
		b = karpbootstrap.EKS{Options: options}
	case awsv1.AMIFamilyAL2023:
		b = karpbootstrap.Nodeadm{Options: options}
	case awsv1.AMIFamilyBottlerocket:
		b = karpbootstrap.Bottlerocket{Options: options}
	case awsv1.AMIFamilyCustom:
		b = karpbootstrap.Custom{Options: options}
	default:
		b = karpbootstrap.Windows{Options: options}
	}
	encoded, err := b.Script(t.Context())
	if err != nil {
		t.Fatalf("Karpenter refuses the user data: %v\n%s", err, ptr.Deref(spec.UserData, ""))
	}
	out, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(out), bootstrapScript+" "); n > 1 {
		t.Errorf("the instance joins %d times:\n%s", n, out)
	}
	return string(out)
}

// What castoff reads back from what Karpenter makes is what it read from the group: nothing is lost on the way.
func TestUserDataComesBackThroughKarpenter(t *testing.T) {
	cases := map[string]struct{ image, in string }{
		"Bootstrap": {al2Image, bootstrap("--use-max-pods false --kubelet-extra-args '--max-pods=58 --node-labels=a=1,b=2 --register-with-taints=k=v:NoSchedule --eviction-hard=memory.available<5%,nodefs.available<10% --kube-reserved=cpu=100m,memory=1Gi'")},
		"NodeConfig": {al2023Image, "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  kubelet:\n    config:\n      maxPods: 58\n      systemReserved: {cpu: 100m}\n      evictionSoft: {memory.available: 500Mi}\n      evictionSoftGracePeriod: {memory.available: 1m30s}\n      clusterDNS: [169.254.20.10]\n" +
			"      registerWithTaints: [{key: k, value: v, effect: NoSchedule}]\n    flags: [--node-labels=a=1]\n  instance: {localStorage: {strategy: RAID0}}\n"},
		"Bottlerocket": {rocketImage, bottlerocket},
		"Windows":      {winImage, "<powershell>\n& $EKSBootstrapScriptFile -EKSClusterName prod -DNSClusterIP 10.100.0.10 -KubeletExtraArgs '--max-pods=20 --node-labels=a=1'\n</powershell>"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			want := readUserData(tc.in)
			target := translated(t, plain(image(tc.image), withUserData(tc.in)))
			got := readUserData(merges(t, target))
			if got.broken != "" {
				t.Fatalf("what Karpenter makes cannot be read: %s", got.broken)
			}
			for what, pair := range map[string][2]any{"labels": {want.labels, got.labels}, "kubelet": {want.kubelet, got.kubelet}, "RAID 0": {want.raid0, got.raid0}, "taints": {len(want.taints), len(got.taints)}} {
				if diff := cmp.Diff(pair[0], pair[1]); diff != "" {
					t.Errorf("%s: -read +read back\n%s", what, diff)
				}
			}
		})
	}
}

func TestUserDataThatCannotBeTakenApart(t *testing.T) {
	cases := map[string]struct{ reason, image, in, want string }{
		"Binary":       {"no text", al2Image, "\x1f\x8b\x00", "it is not text"},
		"Latin1":       {"no UTF-8", al2Image, "#!/bin/sh\necho caf\xe9", "it is not text"},
		"CallInside":   {"a call inside of a command", al2Image, "#!/bin/sh\nnohup /etc/eks/bootstrap.sh prod &\n", "it calls /etc/eks/bootstrap.sh in a way that castoff cannot take out"},
		"NoBoundary":   {"an archive without a boundary", al2Image, "MIME-Version: 1.0\nContent-Type: multipart/mixed\n\n--x\n", "the MIME archive names no boundary, or holds archives in archives in archives"},
		"BadType":      {"a header that is none", al2Image, "MIME-Version: 1.0\nContent-Type: ;;\n\n", `the MIME header Content-Type ";;" cannot be read`},
		"BadBase64":    {"a part that is no base64", al2Image, archived("text/x-shellscript\nContent-Transfer-Encoding: base64", "!!!"), "a part of the MIME archive is no base64"},
		"Boundary":     {"a line that would end a part", al2Image, "#!/bin/sh\ncat <<E\n--//\nE\n", "it has a line that begins with --//"},
		"NoYAML":       {"a NodeConfig that is no YAML", al2023Image, archived(typeNodeConfig, "a: [1"), "its NodeConfig is no YAML"},
		"SpecIsNumber": {"a NodeConfig of another shape", al2023Image, "apiVersion: node.eks.aws/v1alpha1\nspec: 3", "spec of its NodeConfig is no object"},
		"NoTOML":       {"settings that are no TOML", rocketImage, "[settings.kubernetes]\nx = ", "its settings of Bottlerocket are no TOML"},
		"Batch":        {"Karpenter writes PowerShell around it", winImage, "<script>\necho hi\n</script>", "it has no <powershell> block, and Karpenter takes no other"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := Pool(cluster, inventory.Pool{Name: "general"}, []inventory.NodeGroup{plain(image(tc.image), withUserData(tc.in))}, "role")
			if inventory.ClassOf(err) != inventory.ClassTerminal || err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: error is %v, want a terminal one with %q", tc.reason, err, tc.want)
			}
		})
	}
}

func TestKubeletSettings(t *testing.T) {
	cases := map[string]struct {
		reason string
		flags  string
		want   string
		listed []string
	}{
		"All": {
			reason: "every flag that an EC2NodeClass has a place for",
			flags: "--max-pods=58 --pods-per-core=4 --system-reserved=cpu=100m,memory=1Gi --kube-reserved=pid=1000 --eviction-hard=memory.available<5%,nodefs.available<1Gi --eviction-soft=memory.available<10% " +
				"--eviction-soft-grace-period=memory.available=1m --eviction-max-pod-grace-period=60 --image-gc-high-threshold=85 --image-gc-low-threshold=80 --cpu-cfs-quota=false --cluster-dns=169.254.20.10",
			want: "clusterDNS:\n- 169.254.20.10\ncpuCFSQuota: false\nevictionHard:\n  memory.available: 5%\n  nodefs.available: 1Gi\nevictionMaxPodGracePeriod: 60\nevictionSoft:\n  memory.available: 10%\nevictionSoftGracePeriod:\n  memory.available: 1m0s\n" +
				"imageGCHighThresholdPercent: 85\nimageGCLowThresholdPercent: 80\nkubeReserved:\n  pid: \"1000\"\nmaxPods: 58\npodsPerCore: 4\nsystemReserved:\n  cpu: 100m\n  memory: 1Gi\n",
		},
		"Refused": {
			reason: "what the definition would refuse is listed",
			flags:  "--max-pods=-1 --pods-per-core=x --system-reserved=gpu=1 --kube-reserved=cpu=-1 --eviction-hard=memory.available<200% --image-gc-high-threshold=101 --eviction-soft=allocatableMemory.available<1Gi",
			want:   "null\n",
			listed: []string{"userData --max-pods=-1", "userData --pods-per-core=x", "userData --system-reserved=gpu=1", "userData --kube-reserved=cpu=-1", "userData --eviction-hard=memory.available<200%", "userData --image-gc-high-threshold=101", "userData --eviction-soft=allocatableMemory.available<1Gi"},
		},
		"Pairs": {
			reason: "a soft threshold and its time go together, and collection ends below where it starts",
			flags:  "--eviction-soft=memory.available<1Gi --eviction-soft-grace-period=nodefs.available=1m --image-gc-high-threshold=50 --image-gc-low-threshold=50",
			want:   "null\n",
			listed: []string{"userData evictionSoft memory.available", "userData evictionSoftGracePeriod nodefs.available", "userData imageGCHighThresholdPercent and imageGCLowThresholdPercent"},
		},
		"None": {
			reason: "a place for nothing is no place",
			flags:  "--v=2",
			want:   "null\n",
			listed: []string{"userData --v=2"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			target := translated(t, plain(image(al2Image), withUserData(bootstrap("--kubelet-extra-args '"+tc.flags+"'"))))
			if diff := cmp.Diff(tc.want, asYAML(t, target.NodeClass.Spec.Kubelet)); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.listed, fields(target)); diff != "" {
				t.Errorf("%s: listed: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func TestShellWords(t *testing.T) {
	cases := map[string]struct {
		in   string
		want []string
		tail string
	}{
		"Blanks":      {" a  b\tc\n", []string{"a", "b", "c"}, ""},
		"Single":      {`'a b' c`, []string{"a b", "c"}, ""},
		"Double":      {`"a 'b'" "c\"d"`, []string{"a 'b'", `c"d`}, ""},
		"Glued":       {`--x='a b'"c"d`, []string{"--x=a bcd"}, ""},
		"Empty":       {`a '' b`, []string{"a", "", "b"}, ""},
		"Escaped":     {`a\ b`, []string{"a b"}, ""},
		"Operator":    {"a && b", []string{"a"}, "&& b"},
		"Redirection": {"a 2>&1", []string{"a", "2"}, ">&1"},
		"Comment":     {"a # b", []string{"a"}, ""},
		"Open":        {`a "b c`, []string{"a", "b c"}, ""},
		"LastEscape":  {`a\`, []string{`a\`}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, tail := shellWords(tc.in, '\\', operators)
			if diff := cmp.Diff(tc.want, got); diff != "" || tail != tc.tail {
				t.Errorf("-want +got\n%s, tail %q, want %q", diff, tail, tc.tail)
			}
		})
	}
}

// seeds are the checked-in samples of user data.
func seeds(tb testing.TB) []string {
	tb.Helper()
	files, err := filepath.Glob("testdata/userdata/*")
	if err != nil || len(files) == 0 {
		tb.Fatalf("no samples in testdata/userdata: %v", err)
	}
	var out []string
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			tb.Fatal(err)
		}
		out = append(out, string(b))
	}
	return out
}

// FuzzReadUserData: whatever it is, it is read without a panic, and what is kept no longer joins, and reads the same again.
func FuzzReadUserData(f *testing.F) {
	for _, s := range append(seeds(f), nodeConfig, eksScript, bottlerocket, bootstrap("--kubelet-extra-args '--node-labels=a=1'"), "", "--", "[settings") {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		u := readUserData(s)
		for _, taint := range u.taints {
			if taint.Key == "" || !knownEffect(taint.Effect) {
				t.Errorf("the taint %v was read from %q", taint, s)
			}
		}
		if u.broken != "" || u.form == formWindows {
			return
		}
		again := readUserData(u.written())
		if again.broken != "" {
			t.Fatalf("what was kept cannot be read again: %s\n%q\n%q", again.broken, s, u.written())
		}
		if len(again.labels) > 0 || len(again.taints) > 0 || again.spec() != nil {
			t.Errorf("labels %v, taints %v, kubelet %v were lifted out of %q and left in %q", again.labels, again.taints, again.spec(), s, u.written())
		}
	})
}

// FuzzShellWords: no byte is read twice.
func FuzzShellWords(f *testing.F) {
	for _, s := range []string{`a 'b c' "d\"e" f\ g`, "a && b", `"`, `\`, "#"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		words, tail := shellWords(s, '\\', operators)
		n := len(tail)
		for _, w := range words {
			n += len(w)
		}
		if n > len(s) {
			t.Errorf("%d bytes became %d: %q, %q", len(s), n, words, tail)
		}
	})
}
