package inventory

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Keys by which deployment tools mark what they own. The namespace's key may be empty. A tool that renders Helm's charts, or
// installs them as releases, comes before Helm: it is who would put the object back.
var owners = []struct{ tool, name, namespace string }{
	{OwnerArgoCD, "argocd.argoproj.io/tracking-id", ""}, // application:group/kind:namespace/name
	{OwnerArgoCD, "argocd.argoproj.io/instance", ""},
	{OwnerKustomization, "kustomize.toolkit.fluxcd.io/name", "kustomize.toolkit.fluxcd.io/namespace"},
	{OwnerHelmRelease, "helm.toolkit.fluxcd.io/name", "helm.toolkit.fluxcd.io/namespace"},
	{OwnerFleet, "objectset.rio.cattle.io/id", ""},
	{OwnerKapp, "kapp.k14s.io/app", ""},
	{OwnerHelm, "meta.helm.sh/release-name", "meta.helm.sh/release-namespace"},
}

// managedBy is Kubernetes' recommended label for the tool (Kubernetes, "Recommended Labels"). It says less than a tool's own mark,
// and charts that were rendered and applied by hand bear it too: still, whoever has the text may apply it again.
const managedBy = "app.kubernetes.io/managed-by"

// OwnerOf names who would put the object back, as far as it tells; empty if it does not.
func OwnerOf(object metav1.Object) string {
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
	if by := metav1.GetControllerOf(object); by != nil { // an operator's own object
		return by.Kind + " " + by.Name
	}
	if tool := object.GetLabels()[managedBy]; tool != "" {
		return tool + " (label " + managedBy + ")"
	}
	return ""
}

func mark(object metav1.Object, key string) string {
	if value := object.GetAnnotations()[key]; value != "" {
		return value
	}
	return object.GetLabels()[key]
}

// FieldManager is the name under which castoff writes to Kubernetes.
const FieldManager = "castoff"

// ManagerOf is the field manager that wrote the object last, its status aside; empty where the object does not tell, or where castoff
// itself did (Kubernetes, "Server-Side Apply", managers).
func ManagerOf(object metav1.Object) string {
	var last metav1.ManagedFieldsEntry
	for _, e := range object.GetManagedFields() {
		if e.Subresource == "status" || e.Time == nil || last.Time != nil && e.Time.Before(last.Time) {
			continue
		}
		last = e
	}
	if last.Manager == FieldManager {
		return ""
	}
	return last.Manager
}

// ByWhom says who put an object there, for the middle of a sentence: who owns it, and the field manager that wrote it. Empty if nothing
// tells.
func ByWhom(owner, manager string) string {
	switch {
	case owner != "" && manager != "":
		return " by " + owner + " (field manager " + manager + ")"
	case owner != "":
		return " by " + owner
	case manager != "":
		return " by field manager " + manager
	}
	return ""
}
