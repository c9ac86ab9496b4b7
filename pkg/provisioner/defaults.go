package provisioner

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sync"

	awsapis "github.com/aws/karpenter-provider-aws/pkg/apis"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// The schemas of spec, from the definitions that castoff installs.
var (
	nodePoolSchema  = sync.OnceValues(func() (*apiextensionsv1.JSONSchemaProps, error) { return specSchema(awsapis.NodePoolCRD) })
	nodeClassSchema = sync.OnceValues(func() (*apiextensionsv1.JSONSchemaProps, error) { return specSchema(awsapis.EC2NodeClassCRD) })
)

func specSchema(definition []byte) (*apiextensionsv1.JSONSchemaProps, error) {
	crd := new(apiextensionsv1.CustomResourceDefinition)
	if err := yaml.Unmarshal(definition, crd); err != nil {
		return nil, fmt.Errorf("decoding an embedded CRD: %w", err)
	}
	for _, version := range crd.Spec.Versions {
		if version.Storage && version.Schema != nil && version.Schema.OpenAPIV3Schema != nil {
			spec := version.Schema.OpenAPIV3Schema.Properties["spec"]
			return &spec, nil
		}
	}
	return nil, fmt.Errorf("embedded CRD %s: no stored version has a schema", crd.Name)
}

// defaulted gives the spec as the API server would keep it, so that comparing it with what is there comes to rest.
func defaulted[T any](spec T, schema func() (*apiextensionsv1.JSONSchemaProps, error)) (T, error) {
	var result T
	s, err := schema()
	if err != nil {
		return result, err
	}
	var tree map[string]any
	if err := convert(spec, &tree); err != nil {
		return result, err
	}
	if err := fill(s, tree); err != nil {
		return result, err
	}
	return result, convert(tree, &result)
}

// fill sets what is missing to the schema's defaults, parents first: a default may bring fields that have defaults of their own.
func fill(schema *apiextensionsv1.JSONSchemaProps, value any) error {
	switch v := value.(type) {
	case map[string]any:
		for name, property := range schema.Properties {
			if v[name] == nil && property.Default != nil {
				var byDefault any
				if err := json.Unmarshal(property.Default.Raw, &byDefault); err != nil {
					return fmt.Errorf("decoding the default of %s: %w", name, err)
				}
				v[name] = byDefault
			}
			if err := fill(&property, v[name]); err != nil {
				return err
			}
		}
	case []any:
		if schema.Items == nil || schema.Items.Schema == nil {
			return nil
		}
		for _, item := range v {
			if err := fill(schema.Items.Schema, item); err != nil {
				return err
			}
		}
	}
	return nil
}

func convert(from, to any) error {
	data, err := json.Marshal(from)
	if err != nil {
		return fmt.Errorf("encoding %T: %w", from, err)
	}
	if err := json.Unmarshal(data, to); err != nil {
		return fmt.Errorf("decoding %T: %w", to, err)
	}
	return nil
}

// NodeClassHash is a digest of the EC2NodeClass's spec, the same before and after the API server filled its defaults in. Empty
// for nil.
func NodeClassHash(class *awsv1.EC2NodeClass) string {
	if class == nil {
		return ""
	}
	spec, err := defaulted(class.Spec, nodeClassSchema)
	if err != nil {
		spec = class.Spec // the embedded definition is the same for whoever compares
	}
	data, err := json.Marshal(spec)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}
