package snapshot

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// forge replaces a Secret, as nobody should; it is immutable, so by deleting it.
func forge(t *testing.T, secret corev1.Secret, change func(*corev1.Secret)) {
	t.Helper()
	if err := cluster.Client.Delete(t.Context(), &secret); err != nil {
		t.Fatalf("deleting %s: %v", secret.Name, err)
	}
	if change == nil {
		return
	}
	fresh := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: secret.Namespace, Name: secret.Name, Labels: secret.Labels},
		Immutable:  secret.Immutable, Data: secret.Data,
	}
	change(fresh)
	if err := cluster.Client.Create(t.Context(), fresh); err != nil {
		t.Fatalf("creating %s: %v", secret.Name, err)
	}
}

// holding replaces the content.
func holding(key, value string) func(*corev1.Secret) {
	return func(s *corev1.Secret) { s.Data = map[string][]byte{key: []byte(value)} }
}

// edited replaces a part of the content, as an editor would.
func edited(key, old, fresh string) func(*corev1.Secret) {
	return func(s *corev1.Secret) {
		s.Data = map[string][]byte{key: []byte(strings.ReplaceAll(string(s.Data[key]), old, fresh))}
	}
}

func foreign(s *corev1.Secret) { s.Labels = map[string]string{"app": "somebody-elses"} }

func mutable(s *corev1.Secret) { s.Immutable = nil }

// kind is the name of the error's type among those that say how a snapshot is damaged.
func kind(err error) string {
	for cause := err; cause != nil; cause = errors.Unwrap(cause) {
		if name := fmt.Sprintf("%T", cause); strings.HasPrefix(name, "*snapshot.") {
			return strings.TrimPrefix(name, "*snapshot.")
		}
	}
	return ""
}

func TestLoadRefusesWhatItCannotTrust(t *testing.T) {
	tests := map[string]struct {
		reason string
		index  bool
		change func(*corev1.Secret)
		want   string
		says   []string // besides the Secret's name
	}{
		"GroupEdited": {
			reason: "a size that was changed in between is not what was there before castoff",
			change: edited(groupKey, "desired: 4", "desired: 400"), want: "DigestError", says: []string{"group batch", "digest", "restore it from a backup"},
		},
		"GroupMissing":  {reason: "a deleted Secret is not an empty group", want: "MissingError", says: []string{"group batch", "missing", "backup"}},
		"GroupForeign":  {reason: "somebody else's Secret took the name", change: foreign, want: "ForeignError", says: []string{"not castoff's", "castoff.sh/migration", "move the Secret away"}},
		"GroupMutable":  {reason: "as recorded, but not for long", change: mutable, want: "MutableError", says: []string{"can be edited", "kubectl patch secret -n", `'{"immutable":true}'`}},
		"GroupEmpty":    {reason: "no key", change: holding("x", ""), want: "FormatError", says: []string{"no key nodegroup.yaml", "backup"}},
		"GroupNotGzip":  {reason: "a damaged archive", change: holding(groupKey+gzipped, "x"), want: "FormatError", says: []string{"unpacking", "backup"}},
		"GroupWorst":    {reason: "what is damaged twice is told by the worse", change: func(s *corev1.Secret) { holding(groupKey, "group: {}\n")(s); mutable(s) }, want: "DigestError"},
		"IndexForeign":  {reason: "somebody else's Secret took the name", index: true, change: foreign, want: "ForeignError", says: []string{"not castoff's"}},
		"IndexMutable":  {reason: "as recorded, but not for long", index: true, change: mutable, want: "MutableError", says: []string{"castoff-snapshot-prod --type=merge"}},
		"IndexNotYAML":  {reason: "no YAML", index: true, change: holding(indexKey, "\t{"), want: "FormatError", says: []string{"cannot be read", "backup"}},
		"IndexNoKey":    {reason: "no key", index: true, change: holding("x", ""), want: "FormatError", says: []string{"no key snapshot.yaml"}},
		"FromTheFuture": {reason: "a later castoff's", index: true, change: edited(indexKey, "format: 1", "format: 99"), want: "VersionError", says: []string{"format is 99", "reads 1", "run the castoff that wrote it"}},
		"NoFormat":      {reason: "not even a number", index: true, change: holding(indexKey, "cluster: harbor\n"), want: "VersionError", says: []string{"format is 0"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			store, ns, _ := damaged(t, tc.index, tc.change)
			got, digest, err := store.Load(t.Context(), "prod")
			if got != nil && digest != "" && err == nil {
				t.Fatalf("%s: it was believed", tc.reason)
			}
			if kind(err) != tc.want || inventory.ClassOf(err) != inventory.ClassTerminal {
				t.Errorf("%s: want a terminal %s, got %s %T: %v", tc.reason, tc.want, inventory.ClassOf(err), err, err)
			}
			for _, says := range append(tc.says, ns+"/castoff-snapshot-prod") {
				if err != nil && !strings.Contains(err.Error(), says) {
					t.Errorf("the error does not say %q: %v", says, err)
				}
			}
		})
	}
}

// damaged saves a snapshot and changes its index or its group.
func damaged(t *testing.T, index bool, change func(*corev1.Secret)) (store *Store, ns, digest string) {
	t.Helper()
	ns = namespace(t)
	store = New(cluster.Client, cluster.Client, ns)
	digest, err := store.Save(t.Context(), "prod", harbor(group("batch", 4)))
	if err != nil {
		t.Fatalf("Save: %v", err)
	}
	for name, secret := range secrets(t, ns) {
		if (name == indexName("prod")) == index {
			forge(t, secret, change)
		}
	}
	return store, ns, digest
}

func TestDigestAndVerify(t *testing.T) {
	tests := map[string]struct {
		reason   string
		change   func(*corev1.Secret)
		want     string // of Digest; "same" is that of Save
		wantErr  string // of Digest
		wantSays string // of Verify
		verify   string // its error
	}{
		"Untouched": {reason: "restored from a backup, it is the same", change: func(*corev1.Secret) {}, want: "same"},
		"Gone":      {reason: "a snapshot that is not there has no digest", verify: "IndexError", wantSays: "is missing; restore it from a backup"},
		"Edited": {
			reason: "Digest tells it as it is, Verify that it is another", change: edited(indexKey, "home: system", "home: batch"),
			want: "other", verify: "IndexError", wantSays: "where the Migration's status has",
		},
		"Future": {
			reason: "its version matters to who reads it, its digest already tells that it is another", change: edited(indexKey, "format: 1", "format: 2"),
			want: "other", verify: "IndexError", wantSays: "delete it and restore it",
		},
		"Foreign": {reason: "no digest of what is not ours", change: foreign, wantErr: "ForeignError", verify: "ForeignError", wantSays: "not castoff's"},
		"Mutable": {reason: "it may be another a moment later", change: mutable, want: "same", wantErr: "MutableError", verify: "MutableError", wantSays: "can be edited"},
		"NoKey":   {reason: "nothing to digest", change: holding("x", ""), wantErr: "FormatError", verify: "FormatError", wantSays: "cannot be read"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			store, _, saved := damaged(t, true, tc.change)
			got, err := store.Digest(t.Context(), "prod")
			if kind(err) != tc.wantErr || (tc.wantErr == "" && err != nil) {
				t.Errorf("%s: Digest gives %v, want %q", tc.reason, err, tc.wantErr)
			}
			want := map[string]bool{"": got == "", "same": got == saved, "other": len(got) == 64 && got != saved}
			if !want[tc.want] {
				t.Errorf("%s: Digest gives %q, Save gave %q, want %q", tc.reason, got, saved, tc.want)
			}
			err = store.Verify(t.Context(), "prod", saved)
			if kind(err) != tc.verify || (tc.verify == "" && err != nil) {
				t.Errorf("%s: Verify gives %v, want %q", tc.reason, err, tc.verify)
			}
			if tc.verify != "" && (inventory.ClassOf(err) != inventory.ClassTerminal || !strings.Contains(err.Error(), tc.wantSays)) {
				t.Errorf("%s: %s error %v, want terminal and %q", tc.reason, inventory.ClassOf(err), err, tc.wantSays)
			}
		})
	}
}

func TestDigestIsOneRead(t *testing.T) {
	store, _, saved := damaged(t, true, func(*corev1.Secret) {})
	reads := &countingReader{Reader: cluster.Client}
	store.live = reads
	if got, err := store.Digest(t.Context(), "prod"); err != nil || got != saved {
		t.Errorf("Digest: %q, %v, want %q", got, err, saved)
	}
	if reads.gets != 1 {
		t.Errorf("Digest made %d reads: it is asked before every step of the way back", reads.gets)
	}
}

func TestSaveRefusesNamesThatAreTaken(t *testing.T) {
	_, digest, err := encode(fold(group("batch", 4)))
	if err != nil {
		t.Fatal(err)
	}
	body, _, err := encode(fold(group("batch", 4)))
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		reason string
		name   string
		labels map[string]string
		data   map[string][]byte
		fixed  bool
		want   string
	}{
		"Index":        {"a stranger's Secret has the index's name", indexName("prod"), nil, map[string][]byte{"password": []byte("x")}, true, "ForeignError"},
		"IndexDamaged": {"castoff's, but without content", indexName("prod"), map[string]string{"castoff.sh/migration": "a-uid"}, nil, true, "FormatError"},
		"Group":        {"a stranger's Secret has a group's name: told now, not when it is needed", groupName("prod", "batch", digest), nil, map[string][]byte{"password": []byte("x")}, true, "ForeignError"},
		"GroupMutable": {"the right content, but not for long", groupName("prod", "batch", digest), nil, map[string][]byte{groupKey: body}, false, "MutableError"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			ns := namespace(t)
			taken := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: tc.name, Labels: tc.labels}, Data: tc.data, Immutable: ptr.To(tc.fixed)}
			if err := cluster.Client.Create(t.Context(), taken); err != nil {
				t.Fatalf("creating: %v", err)
			}
			_, err := New(cluster.Client, cluster.Client, ns).Save(t.Context(), "prod", harbor(group("batch", 4)))
			if kind(err) != tc.want || inventory.ClassOf(err) != inventory.ClassTerminal {
				t.Errorf("%s: want a terminal %s, got %v", tc.reason, tc.want, err)
			}
			if _, there := secrets(t, ns)[indexName("prod")]; there != (tc.name == indexName("prod")) {
				t.Errorf("%s: an index names what castoff does not own", tc.reason)
			}
		})
	}
}

func TestAGroupThatGoesWhileItIsWritten(t *testing.T) {
	there := apierrors.NewAlreadyExists(schema.GroupResource{Resource: "secrets"}, "x")
	c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return there },
	}).Build()
	_, err := New(c, c, "castoff-system").Save(t.Context(), "prod", harbor(group("batch", 4)))
	if err == nil || inventory.ClassOf(err) != inventory.ClassRetry || !strings.Contains(err.Error(), "is gone") {
		t.Errorf("a sweep of another leader's is no damage: want an error to try again, got %s %v", inventory.ClassOf(err), err)
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	tests := map[string]struct {
		reason string
		err    error
		want   []string
	}{
		"Missing":  {"which group, and where to get it from", &MissingError{Secret: "a/b", Group: "batch"}, []string{"a/b", "batch", "missing", "backup"}},
		"Replaced": {"both digests, short", &DigestError{Secret: "a/b", Group: "batch", Want: "0123456789abcdef", Got: "fedcba9876543210"}, []string{"has 0123456789ab;", "digest fedcba987654 ", "backup"}},
		"Index":    {"both digests, short", &IndexError{Secret: "a/b", Want: "0123456789abcdef", Got: "fedcba9876543210"}, []string{"a/b", "status has 0123456789ab;", "digest fedcba987654 ", "backup"}},
		"NoIndex":  {"where to get it from", &IndexError{Secret: "a/b", Want: "0123456789abcdef"}, []string{"a/b", "index", "missing", "backup"}},
		"Format":   {"what is wrong with it", &FormatError{Secret: "a/b", Err: errors.New("it has no key x")}, []string{"a/b", "no key x", "backup"}},
		"Version":  {"who can read it", &VersionError{Secret: "a/b", Got: 99, Want: 1}, []string{"a/b", "99", "run the castoff that wrote it"}},
		"Foreign":  {"it may be castoff's after all", &ForeignError{Secret: "a/b"}, []string{"a/b", "backup", "move the Secret away"}},
		"Mutable":  {"the command", &MutableError{Namespace: "a", Name: "b"}, []string{"Secret a/b,", `kubectl patch secret -n a b --type=merge -p '{"immutable":true}'`}},
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
