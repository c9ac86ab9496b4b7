// Package v1alpha1 is castoff's vocabulary: the Migration resource, its phases, and the reasons of its conditions.
// It imports apimachinery only, so that every other package may import it.
//
// +kubebuilder:object:generate=true
// +groupName=castoff.sh
package v1alpha1
