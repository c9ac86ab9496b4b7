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
		body, digest, err := encode(group)
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
		if err := s.client.Create(ctx, group); err != nil && !apierrors.IsAlreadyExists(err) {
			return wrap(err, "create", s.path(group.Name))
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

// compare says whether the index that is there already is the one that was to be written.
func (s *Store) compare(existing, index *corev1.Secret) error {
	if same(existing.Data, index.Data) {
		return nil
	}
	there, err := text(existing, indexKey)
	if err != nil {
		return inventory.Terminal(&FormatError{Secret: s.path(existing.Name), Reason: "it holds no snapshot", Err: err})
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

// Load reads a snapshot and the index's digest; nil and "" if there is none. *DigestError and *FormatError (both terminal) mean
// that it cannot be trusted or read.
func (s *Store) Load(ctx context.Context, name string) (*inventory.Snapshot, string, error) {
	secret, err := s.get(ctx, indexName(name))
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
	broken := &DigestError{Secret: s.path(groupName(name, group, want)), Group: group, Want: want}
	secret, err := s.get(ctx, groupName(name, group, want))
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
