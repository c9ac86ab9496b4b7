package snapshot

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

var taken = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)

// harbor is a small cluster's snapshot.
func harbor(groups ...inventory.GroupSnapshot) *inventory.Snapshot {
	return &inventory.Snapshot{
		Format: inventory.SnapshotFormat, Cluster: "harbor", Taken: taken, Migration: "a-uid", Home: "system",
		Pools: []inventory.Pool{{Name: "general", NodeGroups: []string{"general"}}},
		Autoscalers: []inventory.Autoscaler{{
			Deployment: types.NamespacedName{Namespace: "kube-system", Name: "cluster-autoscaler"}, Replicas: 1, LeaderElect: true,
		}},
		PendingPods: 2,
		Groups:      groups,
	}
}

func group(name string, desired int32) inventory.GroupSnapshot {
	return inventory.GroupSnapshot{
		Group: inventory.NodeGroup{
			Name: name, AutoScalingGroup: name, Min: 1, Max: 9, Desired: desired,
			LaunchTemplate: inventory.LaunchTemplate{ID: "lt-1", UserData: "SECRET-TOKEN=1", UserDataSHA256: "abc"},
			ScalingPolicies: []inventory.ScalingPolicy{{
				Name: "cpu", Type: "TargetTrackingScaling", Enabled: true, Definition: map[string]any{"TargetValue": 50.5},
			}},
			ScheduledActions: []inventory.ScheduledAction{{Name: "nightly", Desired: &desired}},
		},
		Nodes: []inventory.NodeSnapshot{{
			Name: name + "-1", InstanceID: "i-1", Labels: map[string]string{"team": "a"},
			Taints: []corev1.Taint{{Key: "dedicated", Value: name, Effect: corev1.TaintEffectNoSchedule}}, Unschedulable: true,
		}},
	}
}

func secrets(t *testing.T, namespace string) map[string]corev1.Secret {
	t.Helper()
	list := new(corev1.SecretList)
	if err := cluster.Client.List(t.Context(), list, client.InNamespace(namespace)); err != nil {
		t.Fatalf("listing Secrets: %v", err)
	}
	byName := map[string]corev1.Secret{}
	for _, secret := range list.Items {
		byName[secret.Name] = secret
	}
	return byName
}

// loaded is what Load is to give for what was saved: digests filled in, user data left out.
func loaded(s *inventory.Snapshot) *inventory.Snapshot {
	want := *s
	want.Groups = nil
	for _, g := range s.Groups {
		g.Group.LaunchTemplate.UserData = ""
		want.Groups = append(want.Groups, g)
	}
	want.Pools = slices.Clone(s.Pools)
	for i := range want.Pools {
		want.Pools[i].Families = nil // the spec's word at every look: whoever is on call may widen a pool
	}
	return &want
}

func TestSaveThenLoadGivesTheSame(t *testing.T) {
	store := New(cluster.Client, cluster.Client, namespace(t))
	snapshot := harbor(group("batch", 4), group("General Purpose/1", 6))

	saved, err := store.Save(t.Context(), "prod", snapshot)
	if err != nil {
		t.Fatalf("Save: %v", err)
	}
	got, digest, err := store.Load(t.Context(), "prod")
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	if digest != saved || len(saved) != 64 {
		t.Errorf("digests differ: saved %q, loaded %q", saved, digest)
	}
	if len(got.Digests) != 2 {
		t.Errorf("want a digest for each group, got %v", got.Digests)
	}
	got.Digests = nil
	want := loaded(harbor(group("General Purpose/1", 6), group("batch", 4))) // by name
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-saved +loaded:\n%s", diff)
	}
	if snapshot.Digests != nil {
		t.Errorf("Save must not change what it was given")
	}
}

func TestSecretsAreReadableImmutableAndLabelled(t *testing.T) {
	ns := namespace(t)
	if _, err := New(cluster.Client, cluster.Client, ns).Save(t.Context(), "prod", harbor(group("batch", 4))); err != nil {
		t.Fatalf("Save: %v", err)
	}
	all := secrets(t, ns)
	if len(all) != 2 {
		t.Fatalf("want an index and one group, got %d Secrets", len(all))
	}
	for name, secret := range all {
		if secret.Labels[v1alpha1.LabelCluster] != "harbor" || secret.Labels[v1alpha1.LabelMigration] != "a-uid" {
			t.Errorf("%s has the labels %v", name, secret.Labels)
		}
		for key, value := range secret.Data {
			if !strings.HasSuffix(key, ".yaml") {
				t.Errorf("%s/%s is not readable", name, key)
			}
			if strings.Contains(string(value), "SECRET-TOKEN") {
				t.Errorf("%s/%s holds user data:\n%s", name, key, value)
			}
		}
		secret.Data["more"] = []byte("x")
		if err := cluster.Client.Update(t.Context(), &secret); !apierrors.IsInvalid(err) {
			t.Errorf("%s could be changed: %v", name, err)
		}
	}
	body := string(all["castoff-snapshot-prod"].Data[indexKey])
	if !strings.Contains(body, "cluster: harbor\n") || strings.Contains(body, "groups:") {
		t.Errorf("the index is to hold everything but the groups:\n%s", body)
	}
}

func TestSaveAgain(t *testing.T) {
	tests := map[string]struct {
		reason     string
		first      *inventory.Snapshot
		second     *inventory.Snapshot
		wantExists bool
	}{
		"TheSame": {
			reason: "a crash after the index repeats the Save, which is done",
			first:  harbor(group("batch", 4)), second: harbor(group("batch", 4)),
		},
		"AnotherGroup": {
			reason: "the world changed after the first Save: the first is nearer to what was before castoff",
			first:  harbor(group("batch", 4)), second: harbor(group("batch", 3)), wantExists: true,
		},
		"MoreGroups": {
			reason: "a second leader that sees more does not replace the first one's",
			first:  harbor(group("batch", 4)), second: harbor(group("batch", 4), group("memory", 1)), wantExists: true,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			ns := namespace(t)
			store := New(cluster.Client, cluster.Client, ns)
			first, err := store.Save(t.Context(), "prod", tc.first)
			if err != nil {
				t.Fatalf("first Save: %v", err)
			}
			before := secrets(t, ns)

			second, err := store.Save(t.Context(), "prod", tc.second)
			var exists *ExistsError
			if errors.As(err, &exists) != tc.wantExists {
				t.Fatalf("%s: error %v", tc.reason, err)
			}
			if tc.wantExists && exists.SHA256 != first {
				t.Errorf("the error names digest %s, the first Save gave %s", exists.SHA256, first)
			}
			if !tc.wantExists && (err != nil || second != first) {
				t.Errorf("second Save: %q, %v, want %q", second, err, first)
			}
			if diff := cmp.Diff(before, secrets(t, ns)); diff != "" {
				t.Errorf("%s: -before +after:\n%s", tc.reason, diff)
			}
			if _, digest, err := store.Load(t.Context(), "prod"); err != nil || digest != first {
				t.Errorf("Load: %q, %v, want %q", digest, err, first)
			}
		})
	}
}

func TestSweepLeavesOthersAlone(t *testing.T) {
	ns := namespace(t)
	store := New(cluster.Client, cluster.Client, ns)
	other := harbor(group("batch", 4))
	other.Migration = "another-uid"
	for name, snapshot := range map[string]*inventory.Snapshot{"prod-eu": other, "prod": harbor(group("batch", 4))} {
		if _, err := store.Save(t.Context(), name, snapshot); err != nil {
			t.Fatalf("Save %s: %v", name, err)
		}
	}
	for _, name := range []string{"prod", "prod-eu"} {
		if _, digest, err := store.Load(t.Context(), name); err != nil || digest == "" {
			t.Errorf("Load %s: %q, %v", name, digest, err)
		}
	}
}

func TestLosingTheRaceForTheIndex(t *testing.T) {
	ns := namespace(t)
	winner := New(cluster.Client, cluster.Client, ns)
	withWatch, err := client.NewWithWatch(cluster.Config, client.Options{})
	if err != nil {
		t.Fatalf("building a client: %v", err)
	}
	var first string
	overtaken := interceptor.NewClient(withWatch, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.CreateOption) error {
			if object.GetName() == indexName("prod") && first == "" {
				digest, err := winner.Save(ctx, "prod", harbor(group("batch", 4)))
				if err != nil {
					return err
				}
				first = digest
			}
			return c.Create(ctx, object, opts...)
		},
	})
	_, err = New(overtaken, cluster.Client, ns).Save(t.Context(), "prod", harbor(group("batch", 1)))
	exists, ok := errors.AsType[*ExistsError](err)
	if !ok || exists.SHA256 != first {
		t.Fatalf("want *ExistsError with %s, got %v", first, err)
	}
	got, digest, err := winner.Load(t.Context(), "prod")
	if err != nil || digest != first {
		t.Fatalf("Load: %q, %v", digest, err)
	}
	if g, _ := got.Group("batch"); g.Group.Desired != 4 {
		t.Errorf("the loser damaged the winner's group: desired %d", g.Group.Desired)
	}
}

func TestErrorsAreClassed(t *testing.T) {
	resource := schema.GroupResource{Resource: "secrets"}
	tests := map[string]struct {
		err  error
		want inventory.Class
		says string
	}{
		"Throttled": {apierrors.NewTooManyRequests("slow down", 1), inventory.ClassThrottled, "busy"},
		"Forbidden": {apierrors.NewForbidden(resource, "x", errors.New("no")), inventory.ClassTerminal, "must allow the verb"},
		"Other":     {apierrors.NewInternalError(errors.New("etcd")), inventory.ClassRetry, "castoff-snapshot-prod"},
	}
	calls := map[string]func(*interceptor.Funcs, error){
		"get": func(f *interceptor.Funcs, err error) {
			f.Get = func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
				return err
			}
		},
		"create": func(f *interceptor.Funcs, err error) {
			f.Create = func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return err }
		},
		"list": func(f *interceptor.Funcs, err error) {
			f.List = func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return err }
		},
	}
	for name, tc := range tests {
		for verb, fail := range calls {
			t.Run(name+"/"+verb, func(t *testing.T) {
				funcs := interceptor.Funcs{}
				fail(&funcs, tc.err)
				c := fake.NewClientBuilder().WithInterceptorFuncs(funcs).Build()
				_, err := New(c, c, "castoff-system").Save(t.Context(), "prod", harbor(group("batch", 4)))
				if inventory.ClassOf(err) != tc.want || !errors.Is(err, tc.err) {
					t.Errorf("want %s wrapping %v, got %s: %v", tc.want, tc.err, inventory.ClassOf(err), err)
				}
				if err != nil && (!strings.Contains(err.Error(), verb+" secrets") || (verb != "list" && !strings.Contains(err.Error(), tc.says))) {
					t.Errorf("the error names neither call nor remedy: %v", err)
				}
			})
		}
	}
}

func TestLabelValue(t *testing.T) {
	long := strings.Repeat("a", 62)
	tests := map[string]struct{ reason, name, want string }{
		"Plain":        {"most names are label values", "prod-eu_1", "prod-eu_1"},
		"TrailingDash": {"EKS allows it, labels do not", "prod-", "prod-" + sum([]byte("prod-"))[:8]},
		"TooLong":      {"EKS allows 100, labels 63", long + "bcd", long[:54] + "-" + sum([]byte(long + "bcd"))[:8]},
		"CutAtADash":   {"the cut may end in what a label must not", strings.Repeat("-a", 40), strings.Repeat("-a", 27) + "-" + sum([]byte(strings.Repeat("-a", 40)))[:8]},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := labelValue(tc.name)
			if got != tc.want || len(got) > 63 {
				t.Errorf("%s: got %q (%d), want %q", tc.reason, got, len(got), tc.want)
			}
		})
	}
}

func TestStoreRefusesWhatNoSecretHolds(t *testing.T) {
	noise := make([]byte, 4<<20)
	state := uint64(1)
	for i := range noise { // does not compress
		state = state*6364136223846793005 + 1442695040888963407
		noise[i] = byte(state >> 56)
	}
	if _, err := store(groupKey, noise); err == nil || !strings.Contains(err.Error(), "split the node group") {
		t.Errorf("want an error that says what to do, got %v", err)
	}
}
