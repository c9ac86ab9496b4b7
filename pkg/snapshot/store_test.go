package snapshot

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// forge replaces a Secret's content, as nobody should; it is immutable, so by deleting it.
func forge(t *testing.T, secret corev1.Secret, data map[string][]byte) {
	t.Helper()
	if err := cluster.Client.Delete(t.Context(), &secret); err != nil {
		t.Fatalf("deleting %s: %v", secret.Name, err)
	}
	if data == nil {
		return
	}
	fresh := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: secret.Namespace, Name: secret.Name, Labels: secret.Labels}, Data: data}
	if err := cluster.Client.Create(t.Context(), fresh); err != nil {
		t.Fatalf("creating %s: %v", secret.Name, err)
	}
}

func TestLoadRefusesWhatItCannotTrust(t *testing.T) {
	tests := map[string]struct {
		reason     string
		index      bool
		data       map[string][]byte
		wantDigest bool
		wantFormat bool
		wantSays   string
	}{
		"GroupEdited": {
			reason: "a size that was changed in between is not what was there before castoff",
			data:   map[string][]byte{groupKey: []byte("group: {name: batch, desired: 400}\n")}, wantDigest: true, wantSays: "digest",
		},
		"GroupMissing":  {reason: "a deleted Secret is not an empty group", wantDigest: true, wantSays: "missing"},
		"GroupEmpty":    {reason: "no key", data: map[string][]byte{"x": nil}, wantFormat: true, wantSays: "no key nodegroup.yaml"},
		"GroupNotGzip":  {reason: "a damaged archive", data: map[string][]byte{groupKey + gzipped: []byte("x")}, wantFormat: true, wantSays: "unpacking"},
		"IndexNotYAML":  {reason: "no YAML", index: true, data: map[string][]byte{indexKey: []byte("\t{")}, wantFormat: true, wantSays: "cannot be read"},
		"IndexNoKey":    {reason: "no key", index: true, data: map[string][]byte{"x": nil}, wantFormat: true, wantSays: "no key snapshot.yaml"},
		"FromTheFuture": {reason: "a later castoff's", index: true, data: map[string][]byte{indexKey: []byte("format: 99\n")}, wantFormat: true, wantSays: "format is 99"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			ns := namespace(t)
			store := New(cluster.Client, cluster.Client, ns)
			if _, err := store.Save(t.Context(), "prod", harbor(group("batch", 4))); err != nil {
				t.Fatalf("Save: %v", err)
			}
			for name, secret := range secrets(t, ns) {
				if (name == indexName("prod")) == tc.index {
					forge(t, secret, tc.data)
				}
			}
			got, _, err := store.Load(t.Context(), "prod")
			if got != nil || err == nil {
				t.Fatalf("%s: got %v, %v", tc.reason, got, err)
			}
			_, isDigest := errors.AsType[*DigestError](err)
			_, isFormat := errors.AsType[*FormatError](err)
			if isDigest != tc.wantDigest || isFormat != tc.wantFormat || inventory.ClassOf(err) != inventory.ClassTerminal {
				t.Errorf("%s: %T (%s): %v", tc.reason, err, inventory.ClassOf(err), err)
			}
			if !strings.Contains(err.Error(), tc.wantSays) || !strings.Contains(err.Error(), ns+"/castoff-snapshot-prod") {
				t.Errorf("the error does not name the Secret or the reason %q: %v", tc.wantSays, err)
			}
		})
	}
}

func TestSaveRefusesAnIndexThatIsNone(t *testing.T) {
	ns := namespace(t)
	stranger := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: indexName("prod")}, Data: map[string][]byte{"password": []byte("x")}}
	if err := cluster.Client.Create(t.Context(), stranger); err != nil {
		t.Fatalf("creating: %v", err)
	}
	_, err := New(cluster.Client, cluster.Client, ns).Save(t.Context(), "prod", harbor())
	if _, ok := errors.AsType[*FormatError](err); !ok || inventory.ClassOf(err) != inventory.ClassTerminal {
		t.Errorf("want a terminal *FormatError, got %v", err)
	}
}

// thousand is a group of a thousand nodes with the labels that EKS nodes have.
func thousand() inventory.GroupSnapshot {
	g := group("huge", 1000)
	g.Nodes = nil
	for i := range 1000 {
		labels := map[string]string{}
		for j := range 25 {
			labels[fmt.Sprintf("feature.node.kubernetes.io/cpu-model-%02d", j)] = fmt.Sprintf("value-%d-%d", i, j)
		}
		id := fmt.Sprintf("i-%017x", i*7919)
		g.Group.Instances = append(g.Group.Instances, inventory.Instance{ID: id, Type: "m5.2xlarge", Zone: "us-east-1a", Lifecycle: "InService", Healthy: true})
		g.Nodes = append(g.Nodes, inventory.NodeSnapshot{Name: fmt.Sprintf("ip-10-0-%d-%d.ec2.internal", i/250, i%250), InstanceID: id, Zone: "us-east-1a", Labels: labels})
	}
	return g
}

func TestAThousandNodesFit(t *testing.T) {
	ns := namespace(t)
	store := New(cluster.Client, cluster.Client, ns)
	snapshot := harbor(thousand(), group("small", 2))
	saved, err := store.Save(t.Context(), "prod", snapshot)
	if err != nil {
		t.Fatalf("Save: %v", err)
	}
	packed := 0
	for name, secret := range secrets(t, ns) {
		for key, value := range secret.Data {
			if strings.HasSuffix(key, gzipped) {
				packed++
			}
			if len(value) > compressAbove {
				t.Errorf("%s/%s has %d bytes", name, key, len(value))
			}
		}
	}
	if packed != 1 {
		t.Errorf("want the huge group alone compressed, got %d", packed)
	}
	got, digest, err := store.Load(t.Context(), "prod")
	if err != nil || digest != saved {
		t.Fatalf("Load: %q, %v", digest, err)
	}
	got.Digests = nil
	if diff := cmp.Diff(loaded(snapshot), got); diff != "" {
		t.Errorf("-saved +loaded:\n%s", diff)
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

func TestErrorsSayWhatToDo(t *testing.T) {
	tests := map[string]struct {
		reason string
		err    error
		want   []string
	}{
		"Missing":  {"which group, and where to get it from", &DigestError{Secret: "a/b", Group: "batch", Want: "0123456789abcdef"}, []string{"a/b", "batch", "missing", "backup"}},
		"Replaced": {"both digests, short", &DigestError{Secret: "a/b", Group: "batch", Want: "0123456789abcdef", Got: "fedcba9876543210"}, []string{"has 0123456789ab;", "digest fedcba987654 "}},
		"Format":   {"who can read it", &FormatError{Secret: "a/b", Reason: "its format is 99"}, []string{"a/b", "99", "run the castoff that wrote it"}},
		"Exists":   {"which one counts", &ExistsError{Secret: "a/b", SHA256: "0123456789abcdef"}, []string{"a/b", "0123456789ab", "load that one"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			for _, want := range tc.want {
				if !strings.Contains(tc.err.Error(), want) {
					t.Errorf("%s: %q is missing in %q", tc.reason, want, tc.err)
				}
			}
		})
	}
}
