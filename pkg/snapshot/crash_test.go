package snapshot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// errCrashed is what every call of a process gives that has ended.
var errCrashed = errors.New("crashed")

// crashing lets a number of writes through, then none, before or after the effect of the one that crashes.
func crashing(t *testing.T, writes int, after bool) client.Client {
	t.Helper()
	withWatch, err := client.NewWithWatch(cluster.Config, client.Options{})
	if err != nil {
		t.Fatalf("building a client: %v", err)
	}
	made := 0
	write := func(effect func() error) error {
		made++
		switch {
		case made <= writes:
			return effect()
		case made == writes+1 && after:
			return errors.Join(errCrashed, effect())
		default:
			return errCrashed
		}
	}
	return interceptor.NewClient(withWatch, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return write(func() error { return c.Create(ctx, o, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return write(func() error { return c.Delete(ctx, o, opts...) })
		},
	})
}

type save func(ctx context.Context, s *Store, name string, snapshot *inventory.Snapshot) error

func good(ctx context.Context, s *Store, name string, snapshot *inventory.Snapshot) error {
	_, err := s.Save(ctx, name, snapshot)
	return err
}

// indexFirst is known to be bad: it names groups that are not there yet.
func indexFirst(ctx context.Context, s *Store, name string, snapshot *inventory.Snapshot) error {
	index, digests := *snapshot, map[string]string{}
	var groups []*corev1.Secret
	for _, group := range snapshot.Groups {
		body, digest, err := encode(fold(group))
		if err != nil {
			return err
		}
		secret, err := s.secret(groupName(name, group.Group.Name, digest), groupKey, body, snapshot)
		if err != nil {
			return err
		}
		digests[group.Group.Name] = digest
		groups = append(groups, secret)
	}
	index.Digests = digests
	body, _, err := encode(index)
	if err != nil {
		return err
	}
	secret, err := s.secret(indexName(name), indexKey, body, snapshot)
	if err != nil {
		return err
	}
	for _, object := range append([]*corev1.Secret{secret}, groups...) {
		if err := s.client.Create(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

// crashed runs a save that crashes, then Saves again what the world is like by then. It says what is wrong with the outcome.
func crashed(t *testing.T, how save, writes int, after bool) error {
	t.Helper()
	ns := namespace(t)
	first, later := harbor(group("batch", 4), group("memory", 2)), harbor(group("batch", 3), group("memory", 2))
	if err := how(t.Context(), New(crashing(t, writes, after), cluster.Client, ns), "prod", first); !errors.Is(err, errCrashed) {
		return fmt.Errorf("it did not crash: %w", err)
	}
	store := New(cluster.Client, cluster.Client, ns)
	between, _, err := store.Load(t.Context(), "prod")
	if err != nil {
		return fmt.Errorf("loading after the crash: %w", err)
	}
	_, err = store.Save(t.Context(), "prod", later)
	if _, exists := errors.AsType[*ExistsError](err); exists != (between != nil) || (err != nil && !exists) {
		return fmt.Errorf("saving after the crash: %w", err)
	}
	got, _, err := store.Load(t.Context(), "prod")
	if err != nil {
		return fmt.Errorf("loading in the end: %w", err)
	}
	want := int32(3)
	if between != nil {
		want = 4 // the first writer wins
	}
	if g, _ := got.Group("batch"); g.Group.Desired != want || len(got.Groups) != 2 {
		return fmt.Errorf("want two groups and size %d, got %d and %d", want, len(got.Groups), g.Group.Desired)
	}
	if all := secrets(t, ns); between == nil && len(all) != 3 {
		return fmt.Errorf("want an index and two groups and no garbage, got %d Secrets", len(all))
	}
	return nil
}

func TestSaveSurvivesACrashAnywhere(t *testing.T) {
	for writes := range 3 { // two groups and the index
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("Write%d/after=%t", writes+1, after), func(t *testing.T) {
				if err := crashed(t, good, writes, after); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

func TestTheCrashTestFindsAKnownBadSave(t *testing.T) {
	var problems []error
	for writes := range 3 {
		problems = append(problems, crashed(t, indexFirst, writes, false))
	}
	if !slices.ContainsFunc(problems, func(err error) bool {
		_, found := errors.AsType[*MissingError](err)
		return found
	}) {
		t.Errorf("an index that names what is missing was not noticed: %v", problems)
	}
}
