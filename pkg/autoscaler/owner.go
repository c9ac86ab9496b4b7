package autoscaler

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Keys by which deployment tools mark what they own. The namespace's key may be empty.
var owners = []struct{ tool, name, namespace string }{
	{"Argo CD application", "argocd.argoproj.io/tracking-id", ""}, // application:group/kind:namespace/name
	{"Argo CD application", "argocd.argoproj.io/instance", ""},
	{"Flux Kustomization", "kustomize.toolkit.fluxcd.io/name", "kustomize.toolkit.fluxcd.io/namespace"},
	{"Flux HelmRelease", "helm.toolkit.fluxcd.io/name", "helm.toolkit.fluxcd.io/namespace"},
	{"Helm release", "meta.helm.sh/release-name", "meta.helm.sh/release-namespace"},
}

// owner names who would put the object back, as far as it tells; empty if it does not. A tool that renders Helm's charts comes
// before Helm.
func owner(object metav1.Object) string {
	for _, o := range owners {
		name := mark(object, o.name)
		if name == "" {
			continue
		}
		name, _, _ = strings.Cut(name, ":")
		if namespace := mark(object, o.namespace); namespace != "" {
			name = namespace + "/" + name
		}
		return o.tool + " " + name
	}
	return ""
}

func mark(object metav1.Object, key string) string {
	if value := object.GetAnnotations()[key]; value != "" {
		return value
	}
	return object.GetLabels()[key]
}
