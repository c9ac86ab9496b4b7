package preflight

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// The checks of versions.
const (
	CheckKubernetesVersion = "KubernetesVersion"
	CheckStoredVersions    = "StoredVersions"
)

// BuiltInVersion is the version of the Karpenter that is part of castoff.
const BuiltInVersion = "1.14.1"

// version is major, minor and patch.
type version [3]int

func (v version) String() string { return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2]) }

// minimums are the oldest Karpenter that knows each minor version of Kubernetes 1.x (Karpenter's documentation, "Compatibility",
// compatibility matrix). Karpenter ends at once on a Kubernetes that it does not know.
var minimums = map[int]version{
	26: {0, 28}, 27: {0, 28}, 28: {0, 31}, 29: {0, 34}, 30: {0, 37}, 31: {1, 0, 5}, 32: {1, 2}, 33: {1, 5}, 34: {1, 6}, 35: {1, 9}, 36: {1, 13},
}

// written is how versions are: 1.32, 1.32+, v1.32.0-eks-5ca49cb.
var written = regexp.MustCompile(`^v?(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?(?:$|[-+])`)

func parseVersion(s string) (v version, ok bool) {
	m := written.FindStringSubmatch(s)
	if m == nil {
		return v, false
	}
	for i, part := range m[1:] {
		v[i], _ = strconv.Atoi(part) // at most four digits, or none
	}
	return v, true
}

// kubernetesVersion: Karpenter panics at its start on a Kubernetes that it does not know, with everything else installed already
// and the pools about to change hands.
func kubernetesVersion(in Input) []inventory.Finding {
	if in.Cluster.Version == "" || in.EngineVersion == "" {
		return nil
	}
	object := "cluster/" + in.Cluster.Name
	kubernetes, ok := parseVersion(in.Cluster.Version)
	engine, known := parseVersion(in.EngineVersion)
	if !ok || !known {
		return []inventory.Finding{block(CheckKubernetesVersion, object, "Whether Karpenter "+in.EngineVersion+" runs on Kubernetes "+in.Cluster.Version+
			" cannot be told, because one of the two is no version such as 1.32 or v1.2.0. Name it so, or accept KubernetesVersion for "+object+" if you know that it does.")}
	}
	newest := slices.Max(slices.Collect(maps.Keys(minimums)))
	oldest := slices.Min(slices.Collect(maps.Keys(minimums)))
	minimum, listed := minimums[kubernetes[1]]
	listed = listed && kubernetes[0] == 1
	switch {
	case !listed && kubernetes[0] == 1 && kubernetes[1] < oldest:
		return []inventory.Finding{block(CheckKubernetesVersion, object, fmt.Sprintf("Karpenter %s needs Kubernetes 1.%d or newer, and the cluster has %s. Upgrade the cluster first.", engine, oldest, in.Cluster.Version))}
	case !listed:
		return []inventory.Finding{block(CheckKubernetesVersion, object, fmt.Sprintf("The cluster has Kubernetes %s, which this castoff does not know: the newest that its Karpenter was tried with is 1.%d, and Karpenter ends at once on one that it does not know. Upgrade castoff, or accept KubernetesVersion for %s.", in.Cluster.Version, newest, object))}
	case slices.Compare(engine[:], minimum[:]) < 0:
		return []inventory.Finding{block(CheckKubernetesVersion, object, fmt.Sprintf("Kubernetes %s needs Karpenter %s or newer, and %s is to run here: it would end at once. Use %s or newer.", in.Cluster.Version, minimum, engine, minimum))}
	}
	return nil
}

// storedVersions: the API server refuses definitions without a version in which it once stored objects
// ("status.storedVersions[0]: Invalid value"), so an old Karpenter's v1beta1 stops the installation halfway. castoff never deletes
// a definition to get past that: every NodePool, and with it every node, would go too.
func storedVersions(in Input) []inventory.Finding {
	var out []inventory.Finding
	for _, name := range slices.Sorted(maps.Keys(in.Engine.DroppedVersions)) {
		out = append(out, block(CheckStoredVersions, "customresourcedefinition/"+name,
			"Objects of it were stored as "+three(in.Engine.DroppedVersions[name])+", which Karpenter's definition no longer has, so the API server would refuse that. Store them anew: kubectl get "+
				name+" -o yaml | kubectl replace -f -, and then say so: kubectl patch customresourcedefinition "+name+
				` --subresource=status --type=merge -p '{"status":{"storedVersions":["v1"]}}'. If v1 is not served yet, upgrade that Karpenter to 1.0 first. Delete nothing: NodePools take their nodes along.`))
	}
	return out
}
