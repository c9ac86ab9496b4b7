package snapshot

import (
	"cmp"
	"context"
	"fmt"
	"slices"

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
// A crash before the index leaves group Secrets that no index names: the next Save replaces them.
func (s *Store) Save(ctx context.Context, name string, snapshot *inventory.Snapshot) (sha256 string, err error) {
	index := *snapshot
	index.Format = inventory.SnapshotFormat
	index.Digests = map[string]string{}
	secrets := make([]*corev1.Secret, 0, len(snapshot.Groups))
	for _, group := range snapshot.Groups {
		body, digest, err := encode(group)
		if err != nil {
			return "", fmt.Errorf("node group %s: %w", group.Group.Name, err)
		}
		secret, err := s.secret(groupName(name, group.Group.Name), groupKey, body, snapshot)
		if err != nil {
			return "", fmt.Errorf("node group %s: %w", group.Group.Name, err)
		}
		index.Digests[group.Group.Name] = digest
		secrets = append(secrets, secret)
	}
	body, digest, err := encode(index)
	if err != nil {
		return "", err
	}
	if existing, err := s.index(ctx, name); err != nil || existing != nil {
		return s.settle(name, existing, digest, err)
	}
	for _, secret := range secrets {
		if err := s.replace(ctx, secret); err != nil {
			return "", err
		}
	}
	return s.writeIndex(ctx, name, body, digest, snapshot)
}

func (s *Store) writeIndex(ctx context.Context, name string, body []byte, digest string, snapshot *inventory.Snapshot) (string, error) {
	secret, err := s.secret(indexName(name), indexKey, body, snapshot)
	if err != nil {
		return "", err
	}
	err = s.client.Create(ctx, secret)
	if apierrors.IsAlreadyExists(err) {
		existing, err := s.index(ctx, name)
		return s.settle(name, existing, digest, err)
	}
	return digest, wrap(err, "create", s.path(secret.Name))
}

// settle says what an index that is there already means for the one that was to be written.
func (s *Store) settle(name string, existing *corev1.Secret, digest string, err error) (string, error) {
	if err != nil {
		return "", err
	}
	if existing == nil {
		return "", fmt.Errorf("secret %s was deleted while it was written; castoff tries again", s.path(indexName(name)))
	}
	there, err := text(existing, indexKey)
	if err != nil {
		return "", inventory.Terminal(&FormatError{Secret: s.path(existing.Name), Reason: "it holds no snapshot", Err: err})
	}
	if sum(there) != digest {
		return "", &ExistsError{Secret: s.path(existing.Name), SHA256: sum(there)}
	}
	return digest, nil
}

// replace creates a group's Secret. One that is there with other content was left by a Save that did not come to its index.
func (s *Store) replace(ctx context.Context, secret *corev1.Secret) error {
	path := s.path(secret.Name)
	err := s.client.Create(ctx, secret.DeepCopy())
	if !apierrors.IsAlreadyExists(err) {
		return wrap(err, "create", path)
	}
	left := new(corev1.Secret)
	if err := s.live.Get(ctx, client.ObjectKeyFromObject(secret), left); err != nil {
		return wrap(err, "get", path)
	}
	if same(left.Data, secret.Data) {
		return nil
	}
	if left.Labels[v1alpha1.LabelCluster] == "" {
		return inventory.Terminal(fmt.Errorf("secret %s is in the way and not castoff's; remove it", path))
	}
	if err := s.client.Delete(ctx, left, client.Preconditions{UID: ptr.To(left.UID)}); err != nil {
		return wrap(err, "delete", path)
	}
	return wrap(s.client.Create(ctx, secret.DeepCopy()), "create", path)
}

// Load reads a snapshot and the index's digest; nil and "" if there is none. *DigestError and *FormatError (both terminal) mean
// that it cannot be trusted or read.
func (s *Store) Load(ctx context.Context, name string) (*inventory.Snapshot, string, error) {
	secret, err := s.index(ctx, name)
	if err != nil || secret == nil {
		return nil, "", err
	}
	snapshot := new(inventory.Snapshot)
	digest, err := s.decode(secret, indexKey, snapshot)
	if err != nil {
		return nil, "", err
	}
	if snapshot.Format != inventory.SnapshotFormat {
		reason := fmt.Sprintf("its format is %d and this castoff reads %d", snapshot.Format, inventory.SnapshotFormat)
		return nil, "", inventory.Terminal(&FormatError{Secret: s.path(secret.Name), Reason: reason})
	}
	for group, want := range snapshot.Digests {
		recorded, err := s.group(ctx, name, group, want)
		if err != nil {
			return nil, "", err
		}
		snapshot.Groups = append(snapshot.Groups, recorded)
	}
	slices.SortFunc(snapshot.Groups, func(a, b inventory.GroupSnapshot) int { return cmp.Compare(a.Group.Name, b.Group.Name) })
	return snapshot, digest, nil
}

func (s *Store) group(ctx context.Context, name, group, want string) (inventory.GroupSnapshot, error) {
	recorded := inventory.GroupSnapshot{}
	broken := &DigestError{Secret: s.path(groupName(name, group)), Group: group, Want: want}
	secret, err := s.get(ctx, groupName(name, group))
	if err != nil {
		return recorded, err
	}
	if secret == nil {
		return recorded, inventory.Terminal(broken)
	}
	body, err := text(secret, groupKey)
	if err != nil {
		return recorded, inventory.Terminal(&FormatError{Secret: broken.Secret, Reason: "it holds no node group", Err: err})
	}
	if broken.Got = sum(body); broken.Got != want {
		return recorded, inventory.Terminal(broken)
	}
	_, err = s.decode(secret, groupKey, &recorded)
	return recorded, err
}

func (s *Store) decode(secret *corev1.Secret, key string, document any) (digest string, err error) {
	body, err := text(secret, key)
	if err == nil {
		err = yaml.Unmarshal(body, document)
	}
	if err != nil {
		return "", inventory.Terminal(&FormatError{Secret: s.path(secret.Name), Reason: "it cannot be read", Err: err})
	}
	return sum(body), nil
}

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

func (s *Store) index(ctx context.Context, name string) (*corev1.Secret, error) {
	return s.get(ctx, indexName(name))
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

func groupName(name, group string) string { return indexName(name) + "-" + groupHash(group) }

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
