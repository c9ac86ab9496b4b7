package snapshot

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// Store keeps snapshots as Secrets of one namespace.
type Store struct {
	client    client.Client
	live      client.Reader
	namespace string
}

// New gives a Store. Secrets are read past every cache: castoff has no business holding those of others in memory.
func New(c client.Client, live client.Reader, namespace string) *Store {
	return &Store{client: c, live: live, namespace: namespace}
}

// Save writes a snapshot once and for all, groups first, the index last, and gives the index's digest. Saving the same again is
// done already. *ExistsError means that another snapshot of that name was there first, and stays.
//
// Groups are named by their content, so two writers never touch each other's, and the index decides. What a crash or a loser
// leaves without an index is removed by the Save that wins.
func (s *Store) Save(ctx context.Context, name string, snapshot *inventory.Snapshot) (sha256 string, err error) {
	index := *snapshot
	index.Format = inventory.SnapshotFormat
	index.Digests = map[string]string{}
	groups := make([]*corev1.Secret, 0, len(snapshot.Groups))
	for _, group := range snapshot.Groups {
		body, digest, err := encode(fold(group))
		if err != nil {
			return "", fmt.Errorf("node group %s: %w", group.Group.Name, err)
		}
		secret, err := s.secret(groupName(name, group.Group.Name, digest), groupKey, body, snapshot)
		if err != nil {
			return "", fmt.Errorf("node group %s: %w", group.Group.Name, err)
		}
		index.Digests[group.Group.Name] = digest
		groups = append(groups, secret)
	}
	body, digest, err := encode(index)
	if err != nil {
		return "", err
	}
	secret, err := s.secret(indexName(name), indexKey, body, snapshot)
	if err != nil {
		return "", err
	}
	if err := s.write(ctx, secret, groups); err != nil {
		return "", err
	}
	return digest, nil
}

// write creates what is missing of a snapshot, unless another one has its name.
func (s *Store) write(ctx context.Context, index *corev1.Secret, groups []*corev1.Secret) error {
	existing, err := s.get(ctx, index.Name)
	if err != nil {
		return err
	}
	if existing != nil {
		return s.compare(existing, index)
	}
	for _, group := range groups {
		if err := s.writeGroup(ctx, group); err != nil {
			return err
		}
	}
	err = s.client.Create(ctx, index.DeepCopy())
	if apierrors.IsAlreadyExists(err) {
		return s.write(ctx, index, nil) // somebody else was faster: see what with
	}
	if err != nil {
		return wrap(err, "create", s.path(index.Name))
	}
	return s.sweep(ctx, index, groups)
}

// writeGroup creates a group's Secret. One that is there already was written before a crash, or by a second leader that saw
// the same; anything else would be found too late, when it is needed.
func (s *Store) writeGroup(ctx context.Context, group *corev1.Secret) error {
	err := s.client.Create(ctx, group.DeepCopy())
	if !apierrors.IsAlreadyExists(err) {
		return wrap(err, "create", s.path(group.Name))
	}
	existing, err := s.get(ctx, group.Name)
	if err != nil {
		return err
	}
	if existing == nil {
		return fmt.Errorf("create secrets %s: it was there and is gone, it is tried again", s.path(group.Name))
	}
	if !same(existing.Data, group.Data) {
		return inventory.Terminal(&ForeignError{Secret: s.path(group.Name)})
	}
	return s.trust(existing)
}

// compare says whether the index that is there already is the one that was to be written.
func (s *Store) compare(existing, index *corev1.Secret) error {
	if !ours(existing) {
		return inventory.Terminal(&ForeignError{Secret: s.path(existing.Name)})
	}
	if same(existing.Data, index.Data) {
		return s.trust(existing)
	}
	there, err := text(existing, indexKey)
	if err != nil {
		return inventory.Terminal(&FormatError{Secret: s.path(existing.Name), Err: err})
	}
	return &ExistsError{Secret: s.path(existing.Name), SHA256: sum(there)}
}

// sweep removes the groups of this Migration that the index does not name.
func (s *Store) sweep(ctx context.Context, index *corev1.Secret, groups []*corev1.Secret) error {
	named := map[string]bool{index.Name: true}
	for _, group := range groups {
		named[group.Name] = true
	}
	list := new(corev1.SecretList)
	mine := client.MatchingLabels{v1alpha1.LabelMigration: index.Labels[v1alpha1.LabelMigration]}
	if err := s.live.List(ctx, list, client.InNamespace(s.namespace), mine); err != nil {
		return wrap(err, "list", s.namespace)
	}
	for i := range list.Items {
		left := &list.Items[i]
		if named[left.Name] || !strings.HasPrefix(left.Name, index.Name+"-") {
			continue
		}
		err := s.client.Delete(ctx, left, client.Preconditions{UID: ptr.To(left.UID)})
		if client.IgnoreNotFound(err) != nil {
			return wrap(err, "delete", s.path(left.Name))
		}
	}
	return nil
}

// Digest gives the digest of the index, "" if there is none, for one GET: it tells whether the snapshot still is the one that
// was taken, for the index names every group by digest. Errors are those of Load.
func (s *Store) Digest(ctx context.Context, name string) (sha256 string, err error) {
	secret, err := s.get(ctx, indexName(name))
	if err != nil || secret == nil {
		return "", err
	}
	body, err := s.read(secret, indexKey)
	if err != nil {
		return "", err
	}
	return sum(body), s.trust(secret)
}

// Verify says whether the index is the one of that digest, for one GET. *IndexError means that it is gone or another one; the
// other errors are those of Load.
func (s *Store) Verify(ctx context.Context, name, want string) error {
	got, err := s.Digest(ctx, name)
	if err != nil {
		return err
	}
	if got != want {
		return inventory.Terminal(&IndexError{Secret: s.path(indexName(name)), Want: want, Got: got})
	}
	return nil
}

// Load reads a snapshot and the index's digest; nil and "" if there is none. *ForeignError, *FormatError, *VersionError,
// *MissingError, *DigestError and *MutableError, all terminal, mean that it cannot be read or trusted.
func (s *Store) Load(ctx context.Context, name string) (*inventory.Snapshot, string, error) {
	secret, err := s.get(ctx, indexName(name))
	if err != nil || secret == nil {
		return nil, "", err
	}
	body, err := s.read(secret, indexKey)
	if err != nil {
		return nil, "", err
	}
	snapshot := new(inventory.Snapshot)
	if err := s.decode(secret, body, snapshot); err != nil {
		return nil, "", err
	}
	if snapshot.Format != inventory.SnapshotFormat {
		return nil, "", inventory.Terminal(&VersionError{Secret: s.path(secret.Name), Got: snapshot.Format, Want: inventory.SnapshotFormat})
	}
	for group, want := range snapshot.Digests {
		recorded, err := s.group(ctx, name, group, want)
		if err != nil {
			return nil, "", err
		}
		snapshot.Groups = append(snapshot.Groups, recorded)
	}
	slices.SortFunc(snapshot.Groups, func(a, b inventory.GroupSnapshot) int { return cmp.Compare(a.Group.Name, b.Group.Name) })
	return snapshot, sum(body), s.trust(secret)
}

// group reads one node group, which has to be what the index says it was.
func (s *Store) group(ctx context.Context, name, group, want string) (inventory.GroupSnapshot, error) {
	none := inventory.GroupSnapshot{}
	path := s.path(groupName(name, group, want))
	secret, err := s.get(ctx, groupName(name, group, want))
	if err != nil {
		return none, err
	}
	if secret == nil {
		return none, inventory.Terminal(&MissingError{Secret: path, Group: group})
	}
	body, err := s.read(secret, groupKey)
	if err != nil {
		return none, err
	}
	if got := sum(body); got != want {
		return none, inventory.Terminal(&DigestError{Secret: path, Group: group, Want: want, Got: got})
	}
	recorded := document{}
	if err := s.decode(secret, body, &recorded); err != nil {
		return none, err
	}
	return recorded.unfold(), s.trust(secret)
}

// read gives the text of a Secret that castoff wrote.
func (s *Store) read(secret *corev1.Secret, key string) ([]byte, error) {
	if !ours(secret) {
		return nil, inventory.Terminal(&ForeignError{Secret: s.path(secret.Name)})
	}
	body, err := text(secret, key)
	if err != nil {
		return nil, inventory.Terminal(&FormatError{Secret: s.path(secret.Name), Err: err})
	}
	return body, nil
}

func (s *Store) decode(secret *corev1.Secret, body []byte, document any) error {
	if err := yaml.Unmarshal(body, document); err != nil {
		return inventory.Terminal(&FormatError{Secret: s.path(secret.Name), Err: err})
	}
	return nil
}

// trust is asked last: what is damaged in a worse way is said first.
func (s *Store) trust(secret *corev1.Secret) error {
	if ptr.Deref(secret.Immutable, false) {
		return nil
	}
	return inventory.Terminal(&MutableError{Namespace: secret.Namespace, Name: secret.Name})
}

// ours goes by the label that castoff puts on every Secret of a snapshot, whichever Migration it was for.
func ours(secret *corev1.Secret) bool { return secret.Labels[v1alpha1.LabelMigration] != "" }

// secret is immutable: what was recorded cannot be edited, only deleted and made anew, which the digests tell.
func (s *Store) secret(name, key string, body []byte, snapshot *inventory.Snapshot) (*corev1.Secret, error) {
	data, err := store(key, body)
	if err != nil {
		return nil, err
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.namespace,
			Name:      name,
			Labels: map[string]string{
				v1alpha1.LabelCluster:   labelValue(snapshot.Cluster),
				v1alpha1.LabelMigration: snapshot.Migration,
			},
		},
		Type:      corev1.SecretTypeOpaque,
		Immutable: ptr.To(true),
		Data:      data,
	}, nil
}

// get reads a Secret; nil if it does not exist.
func (s *Store) get(ctx context.Context, name string) (*corev1.Secret, error) {
	secret := new(corev1.Secret)
	err := s.live.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, secret)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return secret, wrap(err, "get", s.path(name))
}

func (s *Store) path(name string) string { return s.namespace + "/" + name }

func indexName(name string) string { return "castoff-snapshot-" + name }

// groupName is made of what the Secret holds. A node group's own name may have capitals, blanks and slashes.
func groupName(name, group, digest string) string {
	return indexName(name) + "-" + sum([]byte(group + " " + digest))[:12]
}

func same(a, b map[string][]byte) bool {
	if len(a) != len(b) {
		return false
	}
	for key := range a {
		if string(a[key]) != string(b[key]) {
			return false
		}
	}
	return true
}
