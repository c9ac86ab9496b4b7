package bridge

import (
	"encoding/base64"
	"strings"
	"testing"

	karpenterv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/aws/karpenter-provider-aws/pkg/providers/amifamily/bootstrap"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
)

const completeNodeConfig = `
apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster:
    name: harbor
    apiServerEndpoint: https://127.0.0.1:6443
    certificateAuthority: Y2E=
    cidr: 10.100.0.0/16
  kubelet:
    config:
      maxPods: 58
      registerWithTaints:
      - {key: team, value: data, effect: NoSchedule}
    flags:
    - --node-labels=pool=memory,team=data
`

const archive = `MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="BOUNDARY"

--BOUNDARY
Content-Type: text/x-shellscript; charset="us-ascii"

#!/bin/bash
echo "it's only" a word about disks
--BOUNDARY
Content-Type: application/node.eks.aws

NODECONFIG
--BOUNDARY--
`

func TestParseUserData(t *testing.T) {
	dataTaint := []corev1.Taint{{Key: "team", Value: "data", Effect: corev1.TaintEffectNoSchedule}}
	fromNodeConfig := registration{cluster: "harbor", labels: map[string]string{"pool": "memory", "team": "data"}, taints: dataTaint, maxPods: 58}
	cases := map[string]struct {
		reason string
		text   string
		want   registration
	}{
		"Empty": {
			reason: "a managed node group's template needs no user data",
			want:   registration{},
		},
		"NodeConfig": {
			reason: "nodeadm reads plain YAML",
			text:   completeNodeConfig,
			want:   fromNodeConfig,
		},
		"Archive": {
			reason: "the usual form for AL2023, a script beside it does no harm",
			text:   strings.Replace(archive, "NODECONFIG", completeNodeConfig, 1),
			want:   fromNodeConfig,
		},
		"ArchiveWithBase64Part": {
			reason: "cloud-init decodes parts",
			text: strings.NewReplacer("Content-Type: application/node.eks.aws\n", "Content-Type: application/node.eks.aws\nContent-Transfer-Encoding: base64\n",
				"NODECONFIG", base64.StdEncoding.EncodeToString([]byte(completeNodeConfig))).Replace(archive),
			want: fromNodeConfig,
		},
		"LaterNodeConfigWins": {
			reason: "nodeadm merges documents; labels add up, taints are replaced",
			text: completeNodeConfig + `---
apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  kubelet:
    config: {registerWithTaints: [{key: late, effect: NoExecute}]}
    flags: ['--node-labels="late=yes"']
`,
			want: registration{
				cluster: "harbor", labels: map[string]string{"pool": "memory", "team": "data", "late": "yes"},
				taints: []corev1.Taint{{Key: "late", Effect: corev1.TaintEffectNoExecute}}, maxPods: 58,
			},
		},
		"Bootstrap": {
			reason: "AL2's script, quoted and continued as launch templates have it",
			text: `#!/bin/bash
set -ex
# /etc/eks/bootstrap.sh wrong
export CLUSTER=harbor
/etc/eks/bootstrap.sh "${CLUSTER}" --use-max-pods false \
  --kubelet-extra-args '--node-labels=pool=general,team=data --register-with-taints=team=data:NoSchedule,gone:NoExecute --max-pods=17' || exit 1
`,
			want: registration{
				cluster: "harbor", labels: map[string]string{"pool": "general", "team": "data"}, maxPods: 17,
				taints: append(dataTaint, corev1.Taint{Key: "gone", Effect: corev1.TaintEffectNoExecute}),
			},
		},
		"BootstrapWithEqualsAndSpaces": {
			reason: "flags may have their value as the next word; the name may come last",
			text:   "#!/bin/sh\n/etc/eks/bootstrap.sh --kubelet-extra-args=\"--node-labels pool=x\" --b64-cluster-ca Y2E= harbor\n",
			want:   registration{cluster: "harbor", labels: map[string]string{"pool": "x"}},
		},
		"ScriptWithoutBootstrap": {
			reason: "joins nothing, which is the caller's to judge",
			text:   "#!/bin/sh\necho 'never closed\n",
			want:   registration{},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := parseUserData(tc.text)
			if err != nil {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(registration{}), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestParseUserDataRefusesWhatIsBroken(t *testing.T) {
	cases := map[string]struct {
		reason string
		text   string
		want   string
	}{
		"NotYAML":    {"neither a script nor YAML", "hello: [", "NodeConfig"},
		"OtherKind":  {"cloud-config joins nothing", "users: [default]", "kind"},
		"NoCA":       {"nodeadm refuses a cluster without its CA", strings.Replace(completeNodeConfig, "certificateAuthority: Y2E=", "", 1), "certificateAuthority"},
		"NoEndpoint": {"nodeadm refuses a cluster without its endpoint", strings.Replace(completeNodeConfig, "apiServerEndpoint: https://127.0.0.1:6443", "", 1), "apiServerEndpoint"},
		"NoName":     {"bootstrap.sh needs one", "#!/bin/sh\n/etc/eks/bootstrap.sh --use-max-pods false\n", "cluster name"},
		"OpenQuote":  {"the shell would wait for ever", "#!/bin/sh\n/etc/eks/bootstrap.sh harbor --kubelet-extra-args '--max-pods=5\n", "quote"},
		"BadLabel":   {"the kubelet does not start", "#!/bin/sh\n/etc/eks/bootstrap.sh harbor --kubelet-extra-args --node-labels=pool\n", "key=value"},
		"BadTaint":   {"the kubelet does not start", "#!/bin/sh\n/etc/eks/bootstrap.sh harbor --kubelet-extra-args --register-with-taints=a=b:Never\n", "key=value:Effect"},
		"BadMaxPods": {"the kubelet does not start", "#!/bin/sh\n/etc/eks/bootstrap.sh harbor --kubelet-extra-args --max-pods=many\n", "max-pods"},
		"NoBoundary": {"not an archive", "Content-Type: text/plain\n\nhello", "multipart"},
		"BadHeader":  {"not a header", "MIME-Version: 1.0\nbroken", "MIME"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := parseUserData(tc.text)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: want an error that mentions %q, got %v", tc.reason, tc.want, err)
			}
		})
	}
}

// The user data that real Karpenter writes is the one that matters.
func TestParseUserDataOfKarpenter(t *testing.T) {
	cidr, ca, custom := "10.100.0.0/16", base64.StdEncoding.EncodeToString([]byte("ca")), "#!/bin/bash\necho hello\n"
	options := bootstrap.Options{
		ClusterName: "harbor", ClusterEndpoint: "https://127.0.0.1:6443", ClusterCIDR: &cidr, CABundle: &ca, CustomUserData: &custom, KubeletConfig: &karpenterv1.KubeletConfiguration{},
		Labels: map[string]string{"karpenter.sh/nodepool": "general", "karpenter.sh/capacity-type": "spot", "karpenter.k8s.aws/ec2nodeclass": "general", "team": "data"},
		Taints: []corev1.Taint{
			{Key: "karpenter.sh/unregistered", Effect: corev1.TaintEffectNoExecute},
			{Key: "team", Value: "data", Effect: corev1.TaintEffectNoSchedule},
		},
	}
	want := registration{cluster: "harbor", labels: options.Labels, taints: options.Taints}
	for name, bootstrapper := range map[string]bootstrap.Bootstrapper{"AL2023": bootstrap.Nodeadm{Options: options}, "AL2": bootstrap.EKS{Options: options}} {
		t.Run(name, func(t *testing.T) {
			encoded, err := bootstrapper.Script(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			text, err := base64.StdEncoding.DecodeString(encoded)
			if err != nil {
				t.Fatal(err)
			}
			got, err := parseUserData(string(text))
			if err != nil {
				t.Fatalf("%v in:\n%s", err, text)
			}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(registration{})); diff != "" {
				t.Errorf("(-want +got):\n%s\nof:\n%s", diff, text)
			}
		})
	}
}

func TestShellWords(t *testing.T) {
	cases := map[string]struct {
		line string
		want []string
	}{
		"Blanks":       {"  a \t b ", []string{"a", "b"}},
		"Quotes":       {`a 'b c' "d e"f ''`, []string{"a", "b c", "d ef", ""}},
		"Backslash":    {`a\ b "c\"d" 'e\f'`, []string{"a b", `c"d`, `e\f`}},
		"NestedQuotes": {`'--node-labels="a=b"'`, []string{`--node-labels="a=b"`}},
		"Nothing":      {"", nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := shellWords(tc.line)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	for _, open := range []string{`'a`, `"a`, `a "b' c`} {
		if _, err := shellWords(open); err == nil {
			t.Errorf("%s: want an error for an open quote", open)
		}
	}
}

func FuzzParseUserData(f *testing.F) {
	for _, seed := range []string{"", completeNodeConfig, archive, "#!/bin/sh\n/etc/eks/bootstrap.sh harbor --kubelet-extra-args '--node-labels=a=b'\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := parseUserData(text) // must not panic, whatever AWS returns
		if err == nil && strings.HasPrefix(r.cluster, "--") {
			t.Errorf("a flag was taken for the cluster's name: %q", r.cluster)
		}
	})
}
