package provisioner

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/utils/ptr"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// oldest is the oldest Karpenter that is adopted: before, its API refuses labels of kubernetes.io in a NodePool, which node
// groups carry (its upgrade guide, 1.9).
var oldest = version.MustParseGeneric("1.9.0")

// Adopt takes the one Karpenter that is there for the engine. What keeps it from serving is among the Misfits, and where there
// is not exactly one that is so.
func Adopt(e inventory.Engine, c inventory.Cluster) inventory.Engine {
	others := e.Others
	ours := e.Replicas > 0
	e.Adopted, e.Foreign = true, nil
	// Nobody is to install anything, before or after: in these two words a Migration knows of nothing to do.
	e.Release, e.ReleaseCurrent, e.CRDsCurrent = inventory.ReleaseDeployed, true, true
	e.Replicas, e.ReadyReplicas, e.DeploymentMessage = 0, 0, ""
	switch {
	case ours:
		e.Misfits = []string{"the Karpenter that runs here is castoff's own: set spec.provisioner.source to BuiltIn, or remove that one"}
		return e
	case len(others) == 0:
		e.Misfits = []string{"no Deployment of Karpenter's is in any namespace: install it, or set spec.provisioner.source to BuiltIn"}
		return e
	case len(others) > 1:
		e.Misfits = []string{fmt.Sprintf("%d Deployments of Karpenter's are here (%s), and they launch for one pod each: remove all but one", len(others), names(others))}
		return e
	}
	k := others[0]
	e.Replicas, e.ReadyReplicas, e.DeploymentMessage = k.Replicas, k.ReadyReplicas, k.Message
	e.Misfits = misfits(k, c)
	return e
}

// ServiceAccount is that of the Karpenter that was adopted; empty if none was.
func ServiceAccount(e inventory.Engine) (namespace, name string) {
	if !e.Adopted || len(e.Others) != 1 {
		return "", ""
	}
	return e.Others[0].Namespace, e.Others[0].ServiceAccount
}

func names(others []inventory.Karpenter) string {
	var out []string
	for _, k := range others {
		out = append(out, k.Namespace+"/"+k.Name)
	}
	return strings.Join(out, ", ")
}

// misfits holds a Karpenter against the cluster and the queue that it is to work with.
func misfits(k inventory.Karpenter, c inventory.Cluster) []string {
	var out []string
	have, err := version.ParseGeneric(k.Version)
	switch {
	case err != nil:
		out = append(out, fmt.Sprintf("neither the label app.kubernetes.io/version nor the image's tag tells the version of Karpenter %s/%s: set the label", k.Namespace, k.Name))
	case have.LessThan(oldest):
		out = append(out, fmt.Sprintf("Karpenter %s/%s is version %s, castoff needs %s or later: upgrade it", k.Namespace, k.Name, k.Version, oldest))
	}
	if k.SettingsHidden {
		return out // set in a way that the Deployment does not tell
	}
	if k.ClusterName != c.Name {
		out = append(out, fmt.Sprintf("Karpenter %s/%s works for cluster %q, not for %q: set settings.clusterName of its chart", k.Namespace, k.Name, k.ClusterName, c.Name))
	}
	if k.InterruptionQueue != c.Provided.Queue {
		out = append(out, fmt.Sprintf("Karpenter %s/%s reads queue %q, and spec.provisioner says %q: correct one of them", k.Namespace, k.Name, k.InterruptionQueue, c.Provided.Queue))
	}
	return out
}

// readOther is what adopting a Karpenter needs to know of its Deployment.
func readOther(deployment *appsv1.Deployment) inventory.Karpenter {
	pod := deployment.Spec.Template.Spec
	k := inventory.Karpenter{
		Namespace: deployment.Namespace, Name: deployment.Name, ServiceAccount: pod.ServiceAccountName,
		Replicas: ptr.Deref(deployment.Spec.Replicas, 1), ReadyReplicas: deployment.Status.ReadyReplicas,
		Owner: inventory.OwnerOf(deployment), ChangedBy: inventory.ManagerOf(deployment),
	}
	if k.ReadyReplicas < k.Replicas {
		k.Message = fmt.Sprintf("%d of %d replicas of %s/%s are ready", k.ReadyReplicas, k.Replicas, k.Namespace, k.Name)
	}
	k.Version = deployment.Labels["app.kubernetes.io/version"]
	if len(pod.Containers) == 0 {
		return k
	}
	first := pod.Containers[0]
	if name, _, _ := strings.Cut(first.Image, "@"); k.Version == "" {
		if i := strings.LastIndex(name, ":"); i > strings.LastIndex(name, "/") {
			k.Version = name[i+1:]
		}
	}
	k.Version = strings.TrimPrefix(k.Version, "v")
	k.ClusterName, k.InterruptionQueue, k.SettingsHidden = settings(first)
	return k
}

// settings reads Karpenter's environment. Flags and what comes from elsewhere may say otherwise.
func settings(c corev1.Container) (cluster, queue string, hidden bool) {
	hidden = len(c.EnvFrom) > 0 || len(c.Args) > 0
	for _, env := range c.Env {
		switch env.Name {
		case "CLUSTER_NAME":
			cluster, hidden = env.Value, hidden || env.ValueFrom != nil
		case "INTERRUPTION_QUEUE":
			queue, hidden = env.Value, hidden || env.ValueFrom != nil
		}
	}
	return cluster, queue, hidden
}
