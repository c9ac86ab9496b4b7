package main

import (
	"context"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/charts"
)

// admit judges a Migration, as YAML, by its definition, as the API server does when it is created: the schema, the keys of its
// lists, and the rules between fields. It returns what the API server would store: the Migration with its defaults and without a
// status. It asks no cluster: castoff need not be installed for it. The error names every field.
func admit(ctx context.Context, manifest []byte) (*v1alpha1.Migration, error) {
	o, err := judged(ctx, manifest)
	if err != nil {
		return nil, err
	}
	m := &v1alpha1.Migration{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o, m); err != nil {
		return nil, fmt.Errorf("reading the Migration: %w", err)
	}
	return m, nil
}

// judged is the manifest with its defaults, as JSON has it.
func judged(ctx context.Context, manifest []byte) (map[string]any, error) {
	props, err := migrationSchema()
	if err != nil {
		return nil, err
	}
	structural, err := schema.NewStructural(props)
	if err != nil {
		return nil, fmt.Errorf("reading the definition of a Migration: %w", err)
	}
	validator, _, err := validation.NewSchemaValidator(props)
	if err != nil {
		return nil, fmt.Errorf("reading the definition of a Migration: %w", err)
	}
	b, err := yaml.YAMLToJSON(manifest)
	if err != nil {
		return nil, fmt.Errorf("reading the Migration: %w", err)
	}
	var o map[string]any
	if err := json.Unmarshal(b, &o); err != nil { // Kubernetes' own: whole numbers are no floats, which the rules tell apart
		return nil, fmt.Errorf("reading the Migration: %w", err)
	}
	delete(o, "status") // the API server drops it
	defaulting.Default(o, structural)
	errs := validation.ValidateCustomResource(nil, o, validator)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, structural, o)...)
	if len(errs) == 0 { // the rules are written for objects of the schema's shape
		broken, _ := cel.NewValidator(structural, true, celconfig.PerCallLimit).Validate(ctx, nil, structural, o, nil, celconfig.RuntimeCELCostBudget)
		errs = append(errs, broken...)
	}
	return o, errs.ToAggregate()
}

// migrationSchema is the schema of the one version that is planned for.
func migrationSchema() (*apiextensions.JSONSchemaProps, error) {
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(charts.MigrationCRD(), &crd); err != nil {
		return nil, fmt.Errorf("reading the definition of a Migration: %w", err)
	}
	for _, v := range crd.Spec.Versions {
		if v.Name != v1alpha1.GroupVersion.Version || v.Schema == nil {
			continue
		}
		var out apiextensions.JSONSchemaProps
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v.Schema.OpenAPIV3Schema, &out, nil); err != nil {
			return nil, fmt.Errorf("reading the definition of a Migration: %w", err)
		}
		return &out, nil
	}
	return nil, fmt.Errorf("the definition of a Migration has no version %s", v1alpha1.GroupVersion.Version)
}
