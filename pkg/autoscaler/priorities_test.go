package autoscaler

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func TestPriorities(t *testing.T) {
	const good = "10: ['.*spot.*']\n50: ['^general$', memory]\n"
	of := func(namespace, text string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "cluster-autoscaler-priority-expander"}, Data: map[string]string{"priorities": text}}
	}
	priority := []string{"--expander=least-waste,priority"}
	tests := map[string]struct {
		reason string
		args   []string
		have   *corev1.ConfigMap
		want   map[int32][]string
		note   string
	}{
		"Read":       {"by the groups' names", priority, of("kube-system", good), map[int32][]string{10: {".*spot.*"}, 50: {"^general$", "memory"}}, ""},
		"Elsewhere":  {"in the namespace that Cluster Autoscaler was told", append(priority, "--namespace=scaling"), of("scaling", good), map[int32][]string{10: {".*spot.*"}, 50: {"^general$", "memory"}}, ""},
		"NotInUse":   {"another expander does not ask for it", []string{"--expander=least-waste"}, of("kube-system", good), nil, ""},
		"Nothing":    {"nor does the default", nil, of("kube-system", good), nil, ""},
		"Missing":    {"Cluster Autoscaler goes on without it, and so does castoff", priority, of("default", good), nil, "there is none"},
		"NoYAML":     {"a text that is none", priority, of("kube-system", "10: ["), nil, "is no map of numbers"},
		"NoNumbers":  {"names are no priorities", priority, of("kube-system", "high: [a]"), nil, "is no map of numbers"},
		"NoLists":    {"a list is asked for", priority, of("kube-system", "10: a"), nil, "is no map of numbers"},
		"Expression": {"one that is none spoils all of them", priority, of("kube-system", good+"60: ['(']"), nil, "priority 60"},
		"Empty":      {"no priorities are none", priority, of("kube-system", ""), nil, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := fake.NewClientBuilder().WithObjects(tc.have, deployment("kube-system", "scaler", image, args(tc.args...))).Build()
			found, err := New(c, c, clock).Find(t.Context())
			if err != nil || len(found) != 1 {
				t.Fatalf("%s: want one Cluster Autoscaler, got %v, %v", tc.reason, found, err)
			}
			if diff := cmp.Diff(tc.want, found[0].Priorities); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
			if notes := strings.Join(found[0].Notes, " "); (notes != "") != (tc.note != "") || !strings.Contains(notes, tc.note) {
				t.Errorf("%s: want a note with %q, got %q", tc.reason, tc.note, notes)
			}
		})
	}
}

// TestPrioritiesThatCannotBeRead: a right that is missing costs a weight; an answer that fails is asked for again, for the weight
// must not come and go.
func TestPrioritiesThatCannotBeRead(t *testing.T) {
	tests := map[string]struct {
		reason string
		err    error
		note   string
	}{
		"Forbidden": {"a chart that is older", apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "x", errors.New("no")), "castoff may not get it"},
		"Fails":     {"the API server is slow", apierrors.NewInternalError(errors.New("etcd")), ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := fake.NewClientBuilder().WithObjects(deployment("kube-system", "scaler", image, args("--expander=priority"))).WithInterceptorFuncs(interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, k client.ObjectKey, o client.Object, opts ...client.GetOption) error {
					if k.Name == prioritiesConfigMap {
						return tc.err
					}
					return c.Get(ctx, k, o, opts...)
				},
			}).Build()
			found, err := New(c, c, clock).Find(t.Context())
			if tc.note == "" {
				if !errors.Is(err, tc.err) {
					t.Errorf("%s: want the error, got %v", tc.reason, err)
				}
				return
			}
			if err != nil || len(found) != 1 || !strings.Contains(strings.Join(found[0].Notes, " "), tc.note) {
				t.Errorf("%s: want a note with %q, got %+v, %v", tc.reason, tc.note, found, err)
			}
		})
	}
}
