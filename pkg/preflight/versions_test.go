package preflight

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

func TestBuiltInVersionIsThatOfTheModule(t *testing.T) {
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if want := "github.com/aws/karpenter-provider-aws v" + BuiltInVersion + "\n"; !strings.Contains(string(mod), want) {
		t.Errorf("go.mod does not require %q", strings.TrimSpace(want))
	}
}

func TestParseVersion(t *testing.T) {
	cases := map[string]struct {
		want version
		ok   bool
	}{
		"1.32": {version{1, 32, 0}, true}, "1.32+": {version{1, 32, 0}, true}, "v1.32.0-eks-5ca49cb": {version{1, 32, 0}, true},
		"v1.14.1": {version{1, 14, 1}, true}, "0.37.8": {version{0, 37, 8}, true}, "1.2.0+build": {version{1, 2, 0}, true},
		"": {}, "latest": {}, "1": {}, "1.": {}, "1.32.x": {}, "1.99999": {}, "-1.2": {}, "v": {},
	}
	for written, tc := range cases {
		got, ok := parseVersion(written)
		if got != tc.want && tc.ok || ok != tc.ok {
			t.Errorf("%q is %v, %t; want %v, %t", written, got, ok, tc.want, tc.ok)
		}
	}
}

// A Karpenter ends at its start on a Kubernetes that it does not know.
func TestCase_C102_KarpenterThatKnowsTheClustersKubernetes(t *testing.T) {
	old := func(kubernetes, karpenter, minimum string) []inventory.Finding {
		return []inventory.Finding{blocks(CheckKubernetesVersion, "cluster/prod", "", "Kubernetes "+kubernetes+" needs Karpenter "+minimum+" or newer, and "+karpenter+" is to run here: it would end at once. Use "+minimum+" or newer.")}
	}
	const unknown = "The cluster has Kubernetes %, which this castoff does not know: the newest that its Karpenter was tried with is 1.36, and Karpenter ends at once on one that it does not know. Upgrade castoff, or accept KubernetesVersion for cluster/prod."
	newer := func(kubernetes string) []inventory.Finding {
		return []inventory.Finding{blocks(CheckKubernetesVersion, "cluster/prod", "", strings.Replace(unknown, "%", kubernetes, 1))}
	}
	cases := map[string]struct {
		reason                string
		kubernetes, karpenter string
		want                  []inventory.Finding
	}{
		"TooOld":       {"the case", "1.32", "1.1.1", old("1.32", "1.1.1", "1.2.0")},
		"Equal":        {"the minimum itself will do", "1.32", "1.2.0", nil},
		"ByAPatch":     {"a patch counts", "1.31", "1.0.4", old("1.31", "1.0.4", "1.0.5")},
		"Plus":         {"as EKS's own API server writes it", "1.32+", "1.1.1", old("1.32+", "1.1.1", "1.2.0")},
		"GitVersion":   {"as kubectl version shows it", "v1.32.0-eks-5ca49cb", "v1.2.0", nil},
		"GitVersion2":  {"and too old", "v1.32.0-eks-5ca49cb", "v1.1.1", old("v1.32.0-eks-5ca49cb", "1.1.1", "1.2.0")},
		"Newest":       {"the built-in Karpenter knows all up to here", "1.36", BuiltInVersion, nil},
		"Oldest":       {"and from here", "1.26", BuiltInVersion, nil},
		"Newer":        {"what nobody tried is not said to work", "1.37", BuiltInVersion, newer("1.37")},
		"NextMajor":    {"nor is another major version", "2.0", BuiltInVersion, newer("2.0")},
		"Ancient":      {"a cluster that no Karpenter of today serves", "1.25", BuiltInVersion, []inventory.Finding{blocks(CheckKubernetesVersion, "cluster/prod", "", "Karpenter 1.14.1 needs Kubernetes 1.26 or newer, and the cluster has 1.25. Upgrade the cluster first.")}},
		"NoVersion":    {"a tag that is no version tells nothing", "1.33", "latest", []inventory.Finding{blocks(CheckKubernetesVersion, "cluster/prod", "", "Whether Karpenter latest runs on Kubernetes 1.33 cannot be told, because one of the two is no version such as 1.32 or v1.2.0. Name it so, or accept KubernetesVersion for cluster/prod if you know that it does.")}},
		"NotKnown":     {"a Karpenter that does not tell is judged elsewhere", "1.33", "", nil},
		"ZeroIsBefore": {"0.37 was before 1.0", "1.33", "0.37.8", old("1.33", "0.37.8", "1.5.0")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := Run(sound(func(in *Input) { in.Cluster.Version, in.EngineVersion = tc.kubernetes, tc.karpenter }), nil)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// What an old Karpenter stored stops the installation of a new one halfway, unless it is told before.
func TestCase_C100_ObjectsStoredInAVersionThatIsGone(t *testing.T) {
	cases := map[string]struct {
		reason  string
		dropped map[string][]string
		want    map[string]string // what is said to have been stored, by object
	}{
		"Clean":    {"only v1", nil, map[string]string{}},
		"Beta":     {"the case", map[string][]string{"nodepools.karpenter.sh": {"v1beta1"}, "nodeclaims.karpenter.sh": {"v1beta1"}}, map[string]string{"customresourcedefinition/nodepools.karpenter.sh": "v1beta1", "customresourcedefinition/nodeclaims.karpenter.sh": "v1beta1"}},
		"Alpha":    {"the variant", map[string][]string{"nodepools.karpenter.sh": {"v1alpha5"}}, map[string]string{"customresourcedefinition/nodepools.karpenter.sh": "v1alpha5"}},
		"Upgraded": {"through all of them", map[string][]string{"nodepools.karpenter.sh": {"v1alpha5", "v1beta1"}}, map[string]string{"customresourcedefinition/nodepools.karpenter.sh": "v1alpha5, v1beta1"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := map[string]string{}
			for _, f := range Run(sound(func(in *Input) { in.Engine.DroppedVersions = tc.dropped }), nil) {
				_, rest, _ := strings.Cut(f.Message, "stored as ")
				got[f.Object], _, _ = strings.Cut(rest, ", which")
				if f.Check != CheckStoredVersions || !f.Blocks() {
					t.Errorf("%s is said of it, blocking %t", f.Check, f.Blocks())
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
	got := storedVersions(sound(func(in *Input) {
		in.Engine.DroppedVersions = map[string][]string{"nodepools.karpenter.sh": {"v1beta1"}}
	}))
	want := "Objects of it were stored as v1beta1, which Karpenter's definition no longer has, so the API server would refuse that. Store them anew: kubectl get nodepools.karpenter.sh -o yaml | kubectl replace -f -, and then say so: kubectl patch customresourcedefinition nodepools.karpenter.sh --subresource=status --type=merge -p '{\"status\":{\"storedVersions\":[\"v1\"]}}'. If v1 is not served yet, upgrade that Karpenter to 1.0 first. Delete nothing: NodePools take their nodes along."
	if diff := cmp.Diff(want, got[0].Message); diff != "" {
		t.Errorf("the steps: -want +got:\n%s", diff)
	}
}
