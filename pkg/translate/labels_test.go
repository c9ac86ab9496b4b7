package translate

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

const (
	nodeConfig = `MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="//"

--//
Content-Type: application/node.eks.aws

apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster:
    name: prod
    apiServerEndpoint: https://example.com
  kubelet:
    flags:
    - --node-labels=tier=mem,disk=fast
    - "--register-with-taints=tier=mem:NoSchedule"
    config:
      registerWithTaints:
      - {key: disk, value: fast, effect: NoExecute}
      - {key: alone, effect: PreferNoSchedule}
--//
Content-Type: text/x-shellscript; charset="us-ascii"

#!/bin/bash
# nothing but a comment
--//--
`
	eksScript = `MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="//"

--//
Content-Type: text/x-shellscript; charset="us-ascii"
#!/bin/bash
set -ex
B64_CLUSTER_CA=Q0E=
API_SERVER_URL=https://example.com
K8S_CLUSTER_DNS_IP=172.20.0.10
/etc/eks/bootstrap.sh prod --kubelet-extra-args '--node-labels=eks.amazonaws.com/nodegroup=mng --max-pods=29' --b64-cluster-ca $B64_CLUSTER_CA --apiserver-endpoint $API_SERVER_URL --dns-cluster-ip $K8S_CLUSTER_DNS_IP --use-max-pods false

--//--
`
	bottlerocket = `# joined by Terraform
[settings.kubernetes]
cluster-name = "prod"
api-server = "https://example.com"
max-pods = 58

[settings.kubernetes.node-labels]
"tier" = "mem"
disk = 'fast'

[settings.kubernetes.node-taints]
tier = "mem:NoSchedule"
"disk" = ["fast:NoExecute", "slow:PreferNoSchedule"]

[settings.host-containers.admin]
enabled = true
`
)

func taints(s ...string) []corev1.Taint {
	var out []corev1.Taint
	for i := 0; i < len(s); i += 3 {
		out = append(out, corev1.Taint{Key: s[i], Value: s[i+1], Effect: corev1.TaintEffect(s[i+2])})
	}
	return out
}

func bootstrap(arguments string) string {
	return "#!/bin/bash\n/etc/eks/bootstrap.sh prod " + arguments + "\n"
}

func TestLabelsAndTaints(t *testing.T) {
	tag := func(key, value string) inventory.Tag {
		return inventory.Tag{Key: "k8s.io/cluster-autoscaler/node-template/" + key, Value: value}
	}
	labelled := func(labels map[string]string) inventory.NodeGroup {
		return managed("AL2023_x86_64_STANDARD", "1.33.0-20260114", func(g *inventory.NodeGroup) { g.Managed.Labels = labels })
	}
	cases := map[string]struct {
		reason string
		groups []inventory.NodeGroup
		labels map[string]string
		taints []corev1.Taint
		listed []string
	}{
		"Nothing": {
			reason: "a group without any",
			groups: []inventory.NodeGroup{plain()},
		},
		"Bootstrap": {
			reason: "both flags, quoted as a whole",
			groups: []inventory.NodeGroup{plain(withUserData(bootstrap("--kubelet-extra-args '--node-labels=a=1,b=2 --register-with-taints=k=v:NoSchedule,x=:NoExecute'")))},
			labels: map[string]string{"a": "1", "b": "2"},
			taints: taints("k", "v", "NoSchedule", "x", "", "NoExecute"),
		},
		"BootstrapDoubleQuotes": {
			reason: "quoted each for itself",
			groups: []inventory.NodeGroup{plain(withUserData(bootstrap(`--kubelet-extra-args "--node-labels='a=1' --register-with-taints=\"k=v:NoSchedule\""`)))},
			labels: map[string]string{"a": "1"},
			taints: taints("k", "v", "NoSchedule"),
		},
		"BootstrapBlank": {
			reason: "a blank in place of =",
			groups: []inventory.NodeGroup{plain(withUserData(bootstrap("--kubelet-extra-args=\"--node-labels a=1\"")))},
			labels: map[string]string{"a": "1"},
		},
		"BootstrapLines": {
			reason: "a call of several lines",
			groups: []inventory.NodeGroup{plain(withUserData("#!/bin/bash\nset -o xtrace\n/etc/eks/bootstrap.sh prod \\\n  --b64-cluster-ca Q0E= \\\n  --kubelet-extra-args '--node-labels=a=1'\n"))},
			labels: map[string]string{"a": "1"},
		},
		"BootstrapOthers": {
			reason: "what else it sets is named",
			groups: []inventory.NodeGroup{plain(withUserData(bootstrap("--use-max-pods false --kubelet-extra-args '--max-pods=110 --node-labels=a=1 --v=4' --enable-docker-bridge true")))},
			labels: map[string]string{"a": "1"},
			listed: []string{"userData --v=4", "userData --enable-docker-bridge=true"},
		},
		"BootstrapFlagWithoutValue": {
			reason: "a flag is no other flag's value",
			groups: []inventory.NodeGroup{plain(withUserData(bootstrap("--switch --kubelet-extra-args '--node-labels=a=1'")))},
			labels: map[string]string{"a": "1"},
			listed: []string{"userData --switch"},
		},
		"BootstrapMalformed": {
			reason: "what is neither label nor taint is named",
			groups: []inventory.NodeGroup{plain(withUserData(bootstrap("--kubelet-extra-args '--node-labels=a --register-with-taints=k=v,x=y:Never'")))},
			listed: []string{"userData label a", "userData taint k=v", "userData taint x=y:Never"},
		},
		"BootstrapVariable": {
			reason: "what a script works out, nobody can read",
			groups: []inventory.NodeGroup{plain(withUserData(bootstrap("--kubelet-extra-args '--node-labels=zone=$ZONE'")))},
			listed: []string{"label zone"},
		},
		"Script": {
			reason: "commands are kept; those that followed the join are named, since they precede it now",
			groups: []inventory.NodeGroup{plain(withUserData("#!/bin/bash\nyum install -y nfs-utils\n/etc/eks/bootstrap.sh prod\nsysctl -w x=1\n"))},
			listed: []string{"userData"},
		},
		"NodeConfig": {
			reason: "flags and registerWithTaints of a NodeConfig in a MIME archive",
			groups: []inventory.NodeGroup{plain(withUserData(nodeConfig))},
			labels: map[string]string{"tier": "mem", "disk": "fast"},
			taints: taints("tier", "mem", "NoSchedule", "disk", "fast", "NoExecute", "alone", "", "PreferNoSchedule"),
		},
		"NodeConfigOthers": {
			reason: "everything else of a NodeConfig is kept",
			groups: []inventory.NodeGroup{plain(withUserData("apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  containerd: {config: x}\n  kubelet:\n    config: {maxPods: 110, registerWithTaints: many}\n    flags: [--v=4]\n---\napiVersion: node.eks.aws/v1alpha1\nspec:\n  instance: {localStorage: {strategy: RAID0}}\n"))},
		},
		"NodeConfigInScript": {
			reason: "a script that writes one is a script",
			groups: []inventory.NodeGroup{plain(withUserData("#!/bin/bash\ncat <<E >/etc/x\napiVersion: node.eks.aws/v1alpha1\nE\n"))},
		},
		"Bottlerocket": {
			reason: "labels and taints, in the order of their keys",
			groups: []inventory.NodeGroup{plain(withUserData(bottlerocket), template(func(lt *inventory.LaunchTemplate) { lt.Image.Name = "bottlerocket-aws-k8s-1.33" }))},
			labels: map[string]string{"tier": "mem", "disk": "fast"},
			taints: taints("disk", "fast", "NoExecute", "disk", "slow", "PreferNoSchedule", "tier", "mem", "NoSchedule"),
		},
		"BrokenArchive": {
			reason: "cloud-init takes an archive without an end, too",
			groups: []inventory.NodeGroup{plain(withUserData("MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n\n--//\nContent-Type: text/x-shellscript\n\ncurl example.com\n"))},
		},
		"EKSOwnTemplate": {
			reason: "EKS's own user data is Karpenter's, too: labels are carried, nothing is listed",
			groups: []inventory.NodeGroup{managed("AL2_x86_64", "1.32.1-20250101", withUserData(eksScript))},
		},
		"SelfManagedLikeEKS": {
			reason: "the same in a template of the user's",
			groups: []inventory.NodeGroup{plain(withUserData(eksScript))},
		},
		"Tags": {
			reason: "as Cluster Autoscaler reads them at size zero",
			groups: []inventory.NodeGroup{plain(tagged(tag("label/tier", "mem"), tag("taint/tier", "mem:NoSchedule"), tag("taint/x", ":NoExecute")))},
			labels: map[string]string{"tier": "mem"},
			taints: taints("tier", "mem", "NoSchedule", "x", "", "NoExecute"),
		},
		"TagsOthers": {
			reason: "its tuning of the group is listed",
			groups: []inventory.NodeGroup{plain(tagged(tag("resources/ephemeral-storage", "100G"), tag("autoscaling-options/scaledownunneededtime", "1m"), tag("taint/x", "NoSchedule")))},
			listed: []string{"tag k8s.io/cluster-autoscaler/node-template/resources/ephemeral-storage", "tag k8s.io/cluster-autoscaler/node-template/taint/x=NoSchedule"},
		},
		"SameEverywhere": {
			reason: "the usual case: all three sources agree",
			groups: []inventory.NodeGroup{managed("AL2_x86_64", "1.32.1-20250101", tagged(tag("label/tier", "mem"), tag("taint/tier", "mem:NoSchedule")), withUserData(bootstrap("--kubelet-extra-args '--node-labels=tier=mem --register-with-taints=tier=mem:NoSchedule'")),
				func(g *inventory.NodeGroup) {
					now := metav1.Now()
					g.Managed.Labels = map[string]string{"tier": "mem"}
					g.Managed.Taints = []corev1.Taint{{Key: "tier", Value: "mem", Effect: corev1.TaintEffectNoSchedule, TimeAdded: &now}}
				})},
			labels: map[string]string{"tier": "mem"},
			taints: taints("tier", "mem", "NoSchedule"),
		},
		"SourcesDisagree": {
			reason: "EKS before user data before tags, and the loser is listed",
			groups: []inventory.NodeGroup{managed("AL2_x86_64", "1.32.1-20250101", tagged(tag("label/tier", "c"), tag("taint/k", "c:NoSchedule")), withUserData(bootstrap("--kubelet-extra-args '--node-labels=tier=b --register-with-taints=k=b:NoSchedule'")),
				func(g *inventory.NodeGroup) {
					g.Managed.Labels, g.Managed.Taints = map[string]string{"tier": "a"}, taints("k", "a", "NoSchedule")
				})},
			labels: map[string]string{"tier": "a"},
			taints: taints("k", "a", "NoSchedule"),
			listed: []string{"label tier=b", "taint k=b:NoSchedule", "label tier=c", "taint k=c:NoSchedule"},
		},
		"OneKeyTwoEffects": {
			reason: "a key may have a taint of each effect",
			groups: []inventory.NodeGroup{plain(withUserData(bootstrap("--kubelet-extra-args '--register-with-taints=k=v:NoSchedule,k=v:NoExecute'")))},
			taints: taints("k", "v", "NoSchedule", "k", "v", "NoExecute"),
		},
		"InvalidTaints": {
			reason: "what the API server or Karpenter would refuse is listed",
			groups: []inventory.NodeGroup{managed("AL2_x86_64", "1.32.1-20250101", func(g *inventory.NodeGroup) {
				g.Managed.Taints = taints("a b", "v", "NoSchedule", "k", "v w", "NoSchedule", "k", "v", "", "", "v", "NoSchedule", "fine", "", "NoSchedule")
			})},
			taints: taints("fine", "", "NoSchedule"),
			listed: []string{"taint a b=v:NoSchedule", "taint k=v w:NoSchedule", "taint k=v:", "taint =v:NoSchedule"},
		},
		"WellKnown": {
			reason: "Karpenter sets these itself",
			groups: []inventory.NodeGroup{labelled(map[string]string{"topology.kubernetes.io/zone": "us-east-1a", "karpenter.k8s.aws/instance-cpu": "4", "mine": "x"})},
			labels: map[string]string{"mine": "x"},
			listed: []string{"label karpenter.k8s.aws/instance-cpu", "label topology.kubernetes.io/zone"},
		},
		"Restricted": {
			reason: "Karpenter's domains, and the one label that is the node's own",
			groups: []inventory.NodeGroup{labelled(map[string]string{
				"karpenter.sh/x": "1", "a.karpenter.sh/x": "1", "karpenter.k8s.aws/x": "1", "kubernetes.io/hostname": "n"})},
			listed: []string{"label a.karpenter.sh/x", "label karpenter.k8s.aws/x", "label karpenter.sh/x", "label kubernetes.io/hostname"},
		},
		"RestrictedByEnding": {
			reason: "the definition refuses every domain that ends so, and keys without a slash, too",
			groups: []inventory.NodeGroup{labelled(map[string]string{"mykarpenter.sh/x": "1", "karpenter.sh": "1"})},
			listed: []string{"label karpenter.sh", "label mykarpenter.sh/x"},
		},
		"Kubernetes": {
			reason: "labels of Kubernetes' domains are taken since Karpenter 1.9",
			groups: []inventory.NodeGroup{labelled(map[string]string{"node.kubernetes.io/role": "x", "node-role.kubernetes.io/mem": ""})},
			labels: map[string]string{"node.kubernetes.io/role": "x", "node-role.kubernetes.io/mem": ""},
		},
		"Invalid": {
			reason: "no valid key, no valid value",
			groups: []inventory.NodeGroup{labelled(map[string]string{"a/b/c": "1", "-a": "1", "v": "a b"})},
			listed: []string{"label -a", "label a/b/c", "label v"},
		},
		"TwoGroups": {
			reason: "all nodes of a pool get the labels and taints of all its groups, and that is said",
			groups: []inventory.NodeGroup{plain(), plain(named("b"), withUserData(bootstrap("--kubelet-extra-args '--node-labels=a=1 --register-with-taints=k=v:NoSchedule'")))},
			labels: map[string]string{"a": "1"},
			taints: taints("k", "v", "NoSchedule"),
			listed: []string{"taints", "label keys"},
		},
		"TwoGroupsDisagree": {
			reason: "the first group's value wins",
			groups: []inventory.NodeGroup{plain(tagged(tag("label/a", "1"))), plain(named("b"), tagged(tag("label/a", "2")))},
			labels: map[string]string{"a": "1"},
			listed: []string{"label a=2"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			target := translated(t, tc.groups...)
			if diff := cmp.Diff(tc.labels, labelsOf(target), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: labels: -want +got\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.taints, target.NodePool.Spec.Template.Spec.Taints, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: taints: -want +got\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.listed, fields(target), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: listed: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

// What a group says goes first; the caller's own slices and maps are never written to.
func TestInputIsLeftAlone(t *testing.T) {
	group := func() inventory.NodeGroup {
		return managed("AL2023_x86_64_STANDARD", "1.33.0-20260114", withUserData(nodeConfig), tagged(inventory.Tag{Key: "b"}, inventory.Tag{Key: "a"}),
			func(g *inventory.NodeGroup) {
				g.Managed.Labels, g.Managed.Taints = map[string]string{"x": "y"}, append(make([]corev1.Taint, 0, 8), taints("k", "v", "NoSchedule")...)
			})
	}
	got := group()
	translated(t, got)
	if diff := cmp.Diff(group(), got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestTaintsOfNodesThatNothingExplainsAreListed(t *testing.T) {
	listed := func(change ...func(*inventory.NodeGroup)) bool {
		target := translated(t, plain(append(change, func(g *inventory.NodeGroup) { g.Tainted = true })...))
		return slices.ContainsFunc(target.NotCarried, func(n inventory.NotCarried) bool { return n.Field == "node taints" })
	}
	if !listed() {
		t.Error("a hand tainted every node, and Karpenter's will take everybody's pods: nobody hears of it")
	}
	if listed(withUserData("#!/bin/bash\n/etc/eks/bootstrap.sh prod --kubelet-extra-args '--register-with-taints=dedicated=a:NoSchedule'")) {
		t.Error("the taint that the user data registers is carried over")
	}
}
