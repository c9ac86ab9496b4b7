package helm

import (
	"context"
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// RemoveCRDs deletes the engine's CRDs that castoff made (CRD.Made), and no other. Deleting a CRD deletes its objects, and a
// NodePool takes its nodes along: so none is deleted while an object of any of these kinds is left, which the error names; it
// is one to try again. It does not wait until they are gone, and may be repeated. An object that is made between the look and
// the deletion is lost: whoever calls it has stopped castoff's own writes before.
func (c *Client) RemoveCRDs(ctx context.Context) error {
	wanted, err := EngineCRDs()
	if err != nil {
		return err
	}
	var made []*apiextensionsv1.CustomResourceDefinition
	for _, want := range wanted {
		got, err := c.getCRD(ctx, want.Name)
		if err != nil {
			return err
		}
		if !classifyCRD(want, got).Made() || got.DeletionTimestamp != nil {
			continue
		}
		if err := c.unused(ctx, got); err != nil {
			return err
		}
		made = append(made, got)
	}
	for _, crd := range made {
		// If somebody took it over since it was read, it is theirs.
		options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &crd.UID, ResourceVersion: &crd.ResourceVersion}}
		if err := c.crds.Delete(ctx, crd.Name, options); err != nil && !apierrors.IsNotFound(err) {
			return classed(fmt.Errorf("deleting CRD %s: %w", crd.Name, err))
		}
	}
	return nil
}

// unused fails while there is an object of the kind. One that the API server never served has none.
func (c *Client) unused(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) error {
	if !established(crd) {
		return nil
	}
	resource := schema.GroupVersionResource{Group: crd.Spec.Group, Version: servedVersion(crd), Resource: crd.Spec.Names.Plural}
	list, err := c.objects.Resource(resource).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return classed(fmt.Errorf("looking for objects of CRD %s: %w", crd.Name, err))
	}
	for _, object := range list.Items {
		return fmt.Errorf("CRD %s is kept: %s %s still exists; it is deleted once no such object is left",
			crd.Name, crd.Spec.Names.Kind, strings.TrimPrefix(object.Namespace+"/"+object.Name, "/"))
	}
	return nil
}

// servedVersion is any version that is served: all of them show the same objects.
func servedVersion(crd *apiextensionsv1.CustomResourceDefinition) string {
	for _, version := range crd.Spec.Versions {
		if version.Served {
			return version.Name
		}
	}
	return ""
}
