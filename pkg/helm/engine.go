package helm

import (
	"cmp"
	"maps"
	"strconv"
	"strings"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/charts"
)

const (
	// EngineRelease is the name of the engine's release: upstream's, so that upstream's chart can take it over.
	EngineRelease = "karpenter"
	// EngineNamespace is where the engine runs unless charts/castoff was told otherwise; castoff has rights in that one only.
	EngineNamespace = "kube-system"
)

// Engine is what castoff decides about the built-in engine; the chart's defaults are the rest.
type Engine struct {
	// Namespace defaults to EngineNamespace.
	Namespace string
	// Image is a full reference, name:tag or name:tag@digest.
	Image       string
	ClusterName string
	// ClusterEndpoint is optional; without it the engine asks eks:DescribeCluster.
	ClusterEndpoint string
	// InterruptionQueue is the queue's name, not its URL; empty turns interruption handling off.
	InterruptionQueue string
	// Region is optional where the pods can reach the instance metadata service.
	Region string
	// RoleARN is set for IRSA only; EKS Pod Identity needs none.
	RoleARN string
	// NodeSelector keeps the engine in the home group.
	NodeSelector map[string]string
	// ReservedENIs is how many network interfaces of a node pods get no address from; 0 is the chart's default.
	ReservedENIs int64
	// Values go over the chart's and castoff's, by the chart's names: what the user wrote in the Migration. The cluster's name and
	// the queue's stay castoff's, which made the one for the other.
	Values map[string]any
	// Remote is upstream's chart in place of the embedded one; it brings its own image.
	Remote *RemoteChart
}

// Release is the engine as a Helm release of the embedded chart, or of the remote one.
func (e Engine) Release() Release {
	fixed := map[string]any{"settings": map[string]any{"clusterName": e.ClusterName, "interruptionQueue": e.InterruptionQueue}}
	settings := map[string]any{}
	setUnlessEmpty(settings, "clusterEndpoint", e.ClusterEndpoint)
	if e.ReservedENIs > 0 {
		settings["reservedENIs"] = strconv.FormatInt(e.ReservedENIs, 10)
	}
	values := map[string]any{"settings": settings, "controller": e.controller()}
	if e.Remote != nil {
		fixed[additionalLabels] = map[string]any{v1alpha1.TagManagedBy: v1alpha1.TagManagedByValue}
	}
	if e.RoleARN != "" {
		values["serviceAccount"] = map[string]any{"annotations": map[string]any{"eks.amazonaws.com/role-arn": e.RoleARN}}
	}
	if len(e.NodeSelector) > 0 {
		values["nodeSelector"] = e.NodeSelector
	}
	r := Release{Name: EngineRelease, Namespace: cmp.Or(e.Namespace, EngineNamespace), Remote: e.Remote, Values: merge(merge(values, e.Values), fixed)}
	if e.Remote == nil {
		r.Chart = charts.Provisioner()
	}
	return r
}

// controller says what runs. Upstream's chart knows its own image, and asks for no resources: a Karpenter that is pushed off its
// node launches nothing.
func (e Engine) controller() map[string]any {
	values := map[string]any{}
	if e.Remote == nil {
		values["image"] = imageValues(e.Image)
	} else {
		values["resources"] = map[string]any{
			"requests": map[string]any{"cpu": "1", "memory": "1Gi"}, "limits": map[string]any{"memory": "1Gi"},
		}
	}
	if e.Region != "" {
		values["env"] = []any{map[string]any{"name": "AWS_REGION", "value": e.Region}}
	}
	return values
}

func setUnlessEmpty(values map[string]any, key, value string) {
	if value != "" {
		values[key] = value
	}
}

// imageValues splits an image reference as the chart wants it. A port in the registry's name is no tag.
func imageValues(reference string) map[string]any {
	name, digest, _ := strings.Cut(reference, "@")
	values := map[string]any{}
	if i := strings.LastIndex(name, ":"); i > strings.LastIndex(name, "/") {
		name, values["tag"] = name[:i], name[i+1:]
	}
	setUnlessEmpty(values, "repository", name)
	setUnlessEmpty(values, "digest", digest)
	return values
}

// merge lays over on base, table by table; base is not changed.
func merge(base, over map[string]any) map[string]any {
	result := maps.Clone(base)
	for key, value := range over {
		below, isTable := result[key].(map[string]any)
		above, overTable := value.(map[string]any)
		if isTable && overTable {
			value = merge(below, above)
		}
		result[key] = value
	}
	return result
}
