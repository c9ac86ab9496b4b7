package provisioner

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

func asJSON(t *testing.T, value any) string {
	t.Helper()
	data, err := json.MarshalIndent(value, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestDefaultedIsWhatTheAPIServerKeeps is why comparing comes to rest.
func TestDefaultedIsWhatTheAPIServerKeeps(t *testing.T) {
	pools := map[string]func(*karpv1.NodePool){
		"Minimal": func(*karpv1.NodePool) {},
		"Budgets": func(p *karpv1.NodePool) {
			p.Spec.Disruption = karpv1.Disruption{
				ConsolidateAfter: karpv1.MustParseNillableDuration("30s"),
				Budgets:          []karpv1.Budget{{Nodes: "0", Reasons: []karpv1.DisruptionReason{"Underutilized", "Drifted"}}, {Nodes: "10%"}},
			}
		},
		"Full": func(p *karpv1.NodePool) {
			p.Spec.Limits = karpv1.Limits{"cpu": resource.MustParse("1500m"), "memory": resource.MustParse("1024Mi")}
			p.Spec.Weight = ptr.To[int32](10)
			p.Spec.Template.Spec.ExpireAfter = karpv1.MustParseNillableDuration("48h")
			p.Spec.Template.Spec.TerminationGracePeriod = &metav1.Duration{Duration: time.Hour}
			p.Spec.Template.Spec.StartupTaints = []corev1.Taint{{Key: "node.cilium.io/agent-not-ready", Effect: "NoExecute"}}
		},
	}
	for name, change := range pools {
		t.Run("NodePool/"+name, func(t *testing.T) {
			pool := nodePool("general")
			change(pool)
			want, err := defaulted(pool.Spec, nodePoolSchema)
			if err != nil {
				t.Fatal(err)
			}
			create(t, pool)
			if diff := cmp.Diff(asJSON(t, want), asJSON(t, read(t, new(karpv1.NodePool), "", "general").Spec)); diff != "" {
				t.Errorf("-defaulted +stored:\n%s", diff)
			}
		})
	}
	classes := map[string]func(*awsv1.EC2NodeClass){
		"Minimal": func(*awsv1.EC2NodeClass) {},
		"HalfTheMetadataOptions": func(c *awsv1.EC2NodeClass) {
			c.Spec.MetadataOptions = &awsv1.MetadataOptions{HTTPPutResponseHopLimit: ptr.To[int64](2)}
		},
		"Disks": func(c *awsv1.EC2NodeClass) {
			c.Spec.BlockDeviceMappings = []*awsv1.BlockDeviceMapping{{DeviceName: ptr.To("/dev/xvda"),
				EBS: &awsv1.BlockDevice{VolumeSize: ptr.To(resource.MustParse("100Gi")), VolumeType: ptr.To("gp3")}}}
			c.Spec.Tags = map[string]string{"team": "a"}
		},
	}
	for name, change := range classes {
		t.Run("EC2NodeClass/"+name, func(t *testing.T) {
			class := nodeClass("general")
			change(class)
			before := NodeClassHash(class)
			want, err := defaulted(class.Spec, nodeClassSchema)
			if err != nil {
				t.Fatal(err)
			}
			create(t, class)
			stored := read(t, new(awsv1.EC2NodeClass), "", "general")
			if diff := cmp.Diff(asJSON(t, want), asJSON(t, stored.Spec)); diff != "" {
				t.Errorf("-defaulted +stored:\n%s", diff)
			}
			if after := NodeClassHash(stored); after != before || len(after) != 32 {
				t.Errorf("the hash changed by being stored: %s, %s", before, after)
			}
		})
	}
}

func TestNodeClassHash(t *testing.T) {
	one, other, relabelled := nodeClass("general"), nodeClass("general"), nodeClass("general")
	other.Spec.Role = "another"
	relabelled.Labels["team"], relabelled.Status.InstanceProfile = "a", "x"
	if NodeClassHash(one) == NodeClassHash(other) {
		t.Error("another role is another spec")
	}
	if NodeClassHash(one) != NodeClassHash(relabelled) {
		t.Error("the hash is the spec's alone")
	}
	if NodeClassHash(nil) != "" {
		t.Error("nothing has no hash")
	}
}

func TestFillKnowsBrokenSchemas(t *testing.T) {
	broken := &apiextensionsv1.JSONSchemaProps{Properties: map[string]apiextensionsv1.JSONSchemaProps{
		"list": {Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{
			Properties: map[string]apiextensionsv1.JSONSchemaProps{"x": {Default: &apiextensionsv1.JSON{Raw: []byte("{")}}},
		}}},
		"open": {Items: &apiextensionsv1.JSONSchemaPropsOrArray{}},
	}}
	if err := fill(broken, map[string]any{"list": []any{map[string]any{}}}); err == nil || !strings.Contains(err.Error(), "default of x") {
		t.Errorf("want an error that names the property, got %v", err)
	}
	if err := fill(broken, map[string]any{"open": []any{map[string]any{}}}); err != nil {
		t.Errorf("a list of anything has no defaults, got %v", err)
	}
	if _, err := specSchema([]byte("{")); err == nil {
		t.Error("want an error for what is no definition")
	}
	if _, err := specSchema([]byte("metadata: {name: x}")); err == nil {
		t.Error("want an error for a definition without versions")
	}
}

// ensureBoth makes a NodePool and its EC2NodeClass.
func ensureBoth(t *testing.T, pool *karpv1.NodePool, class *awsv1.EC2NodeClass) {
	t.Helper()
	c := in("default")
	if err := c.EnsureNodeClass(t.Context(), class); err != nil {
		t.Fatalf("EnsureNodeClass: %v", err)
	}
	if err := c.EnsureNodePool(t.Context(), pool); err != nil {
		t.Fatalf("EnsureNodePool: %v", err)
	}
}

func TestEnsure(t *testing.T) {
	pool, class := nodePool("general"), nodeClass("general")
	ensureBoth(t, pool, class)
	t.Cleanup(func() { remove(t, pool); remove(t, class) })
	if pool.ResourceVersion != "" || class.ResourceVersion != "" {
		t.Error("what was given must not be changed")
	}

	// Karpenter and a user leave their marks, and the user one that castoff undoes.
	have := read(t, new(karpv1.NodePool), "", "general")
	have.Annotations = map[string]string{"karpenter.sh/nodepool-hash": "1"}
	have.Labels["team"] = "b"
	have.Spec.Weight = ptr.To[int32](50)
	if err := cluster.Client.Update(t.Context(), have); err != nil {
		t.Fatal(err)
	}

	pool.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "0"}}
	pool.Labels["castoff.sh/cluster"] = "harbor"
	class.Spec.Tags = map[string]string{"x": "y"}
	class.Annotations = map[string]string{"note": "z"}
	ensureBoth(t, pool, class)

	have = read(t, new(karpv1.NodePool), "", "general")
	wantLabels := map[string]string{"castoff.sh/pool": "general", "castoff.sh/cluster": "harbor", "team": "b"}
	if diff := cmp.Diff(wantLabels, have.Labels); diff != "" {
		t.Errorf("labels: -want +got:\n%s", diff)
	}
	if have.Annotations["karpenter.sh/nodepool-hash"] != "1" || have.Spec.Weight != nil || have.Spec.Disruption.Budgets[0].Nodes != "0" {
		t.Errorf("want the spec exactly, and others' annotations kept: %v, %+v", have.Annotations, have.Spec)
	}
	haveClass := read(t, new(awsv1.EC2NodeClass), "", "general")
	if haveClass.Spec.Tags["x"] != "y" || haveClass.Annotations["note"] != "z" {
		t.Errorf("the EC2NodeClass was not updated: %+v", haveClass)
	}

	ensureBoth(t, pool, class)
	if got := read(t, new(karpv1.NodePool), "", "general"); got.ResourceVersion != have.ResourceVersion {
		t.Error("the NodePool was written though nothing differs")
	}
	if got := read(t, new(awsv1.EC2NodeClass), "", "general"); got.ResourceVersion != haveClass.ResourceVersion {
		t.Error("the EC2NodeClass was written though nothing differs")
	}
}

func TestEnsureWritesNothingWhereNothingDiffers(t *testing.T) {
	pool := nodePool("general")
	create(t, pool.DeepCopy())
	withWatch, err := client.NewWithWatch(cluster.Config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	writes := 0
	counting := interceptor.NewClient(withWatch, interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			writes++
			return c.Update(ctx, o, opts...)
		},
	})
	if err := with(counting, "default").EnsureNodePool(t.Context(), pool); err != nil || writes != 0 {
		t.Errorf("want no call that writes, got %d, %v", writes, err)
	}
}

func TestEnsureRefuses(t *testing.T) {
	t.Run("WhatIsNotCastoffs", func(t *testing.T) {
		theirs, theirClass := nodePool("general"), nodeClass("general")
		theirs.Labels, theirClass.Labels = nil, nil
		theirs.Spec.Weight = ptr.To[int32](50)
		create(t, theirs)
		create(t, theirClass)
		for name, err := range map[string]error{
			"nodepools.karpenter.sh general":           in("default").EnsureNodePool(t.Context(), nodePool("general")),
			"ec2nodeclasses.karpenter.k8s.aws general": in("default").EnsureNodeClass(t.Context(), nodeClass("general")),
		} {
			foreign, ok := errors.AsType[*ForeignError](err)
			if !ok || foreign.Object != name || inventory.ClassOf(err) != inventory.ClassTerminal {
				t.Errorf("want a terminal *ForeignError for %s, got %v", name, err)
			}
		}
		if got := read(t, new(karpv1.NodePool), "", "general"); ptr.Deref(got.Spec.Weight, 0) != 50 || len(got.Labels) != 0 {
			t.Errorf("it was overwritten: %+v", got)
		}
	})
	t.Run("WhatItWouldNotKnowAgain", func(t *testing.T) {
		unlabelled := nodePool("general")
		unlabelled.Labels = nil
		if err := in("default").EnsureNodePool(t.Context(), unlabelled); err == nil || !strings.Contains(err.Error(), "castoff.sh/pool") {
			t.Errorf("want an error that names the label, got %v", err)
		}
	})
	t.Run("WhatKarpenterRefuses", func(t *testing.T) {
		invalid := nodePool("general")
		invalid.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "many"}}
		err := in("default").EnsureNodePool(t.Context(), invalid)
		if inventory.ClassOf(err) != inventory.ClassTerminal || !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "budgets") {
			t.Errorf("want a terminal error that names the field, got %v", err)
		}
	})
	t.Run("WhatIsBeingDeleted", func(t *testing.T) {
		leaving := nodePool("general")
		leaving.Finalizers = []string{"example.com/wait"}
		create(t, leaving)
		if err := cluster.Client.Delete(t.Context(), leaving); err != nil {
			t.Fatal(err)
		}
		err := in("default").EnsureNodePool(t.Context(), nodePool("general"))
		if err == nil || inventory.ClassOf(err) != inventory.ClassRetry {
			t.Errorf("want an error that is tried again, got %v", err)
		}
		free := read(t, new(karpv1.NodePool), "", "general")
		free.Finalizers = nil
		if err := cluster.Client.Update(t.Context(), free); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("ToLoseAnothersWrite", func(t *testing.T) {
		create(t, nodePool("general"))
		withWatch, err := client.NewWithWatch(cluster.Config, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		racing := interceptor.NewClient(withWatch, interceptor.Funcs{
			Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
				other := read(t, new(karpv1.NodePool), "", "general")
				other.Labels["team"] = "b"
				if err := c.Update(ctx, other); err != nil {
					return err
				}
				return c.Update(ctx, o, opts...)
			},
		})
		want := nodePool("general")
		want.Spec.Weight = ptr.To[int32](1)
		err = with(racing, "default").EnsureNodePool(t.Context(), want)
		if !apierrors.IsConflict(err) || inventory.ClassOf(err) != inventory.ClassRetry {
			t.Errorf("want a conflict that is tried again, got %v", err)
		}
		if got := read(t, new(karpv1.NodePool), "", "general"); got.Labels["team"] != "b" || got.Spec.Weight != nil {
			t.Errorf("the other's write was lost: %+v", got)
		}
	})
}
