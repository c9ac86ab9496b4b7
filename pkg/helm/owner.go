package helm

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Keys by which the tools of the field mark what is theirs.
const (
	helmName      = "meta.helm.sh/release-name"      // https://helm.sh/docs/topics/charts_tips_and_tricks
	helmNamespace = "meta.helm.sh/release-namespace" // the same
	managedBy     = "app.kubernetes.io/managed-by"   // https://kubernetes.io/docs/reference/labels-annotations-taints

	fieldManager = "castoff"
)

// markers are keys whose value names the object's owner in a deployment tool.
var markers = []struct{ key, tool string }{
	{"argocd.argoproj.io/tracking-id", "Argo CD application"},
	{"argocd.argoproj.io/instance", "Argo CD application"},
	{"kustomize.toolkit.fluxcd.io/name", "Flux Kustomization"},
	{"helm.toolkit.fluxcd.io/name", "Flux HelmRelease"},
	{"addonmanager.kubernetes.io/mode", "the add-on manager in mode"},
}

// ownedBy says whether an object carries the marks that Helm puts on those of the release.
func ownedBy(obj metav1.Object, r Release) bool {
	notes := obj.GetAnnotations()
	return obj.GetLabels()[managedBy] == "Helm" && notes[helmName] == r.Name && notes[helmNamespace] == r.Namespace
}

// owner names who an object belongs to, as far as it tells: a Helm release, a deployment tool, or who wrote it first.
func owner(obj metav1.Object) string {
	labels, notes := obj.GetLabels(), obj.GetAnnotations()
	if name := notes[helmName]; name != "" {
		return "Helm release " + notes[helmNamespace] + "/" + name
	}
	for _, marker := range markers {
		for _, value := range []string{notes[marker.key], labels[marker.key]} {
			if value != "" {
				return marker.tool + " " + value
			}
		}
	}
	if value := labels[managedBy]; value != "" {
		return value
	}
	for _, entry := range obj.GetManagedFields() {
		if entry.Manager != "" {
			return "whoever applied it with " + entry.Manager
		}
	}
	return "an unknown owner"
}

// people are field managers that stand for nobody in particular: a person with kubectl, or Helm where it installs what it does
// not own (a chart's folder crds: https://helm.sh/docs/chart_best_practices/custom_resource_definitions).
var people = []string{"kubectl", "helm", "before-first-apply"}

// unowned says that nobody claims the object: no release, no deployment tool, and nobody but a person wrote it.
func unowned(obj metav1.Object) bool {
	labels, notes := obj.GetLabels(), obj.GetAnnotations()
	if notes[helmName] != "" || labels[managedBy] != "" {
		return false
	}
	for _, marker := range markers {
		if notes[marker.key] != "" || labels[marker.key] != "" {
			return false
		}
	}
	return !slices.ContainsFunc(obj.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		name, _, _ := strings.Cut(entry.Manager, "-")
		return entry.Subresource == "" && !slices.Contains(people, name) && !slices.Contains(people, entry.Manager)
	})
}
