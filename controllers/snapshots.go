package controllers

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// snapshotCache keeps the one snapshot that this process has verified. Its Secrets are immutable; that they still exist is
// asked by whoever needs them, which for going back is the restore itself.
type snapshotCache struct {
	mu       sync.Mutex
	uid      types.UID
	snapshot *inventory.Snapshot
	sha      string
}

func (c *snapshotCache) load(ctx context.Context, m *v1alpha1.Migration, store Snapshots) (*inventory.Snapshot, string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.snapshot != nil && c.uid == m.UID {
		return c.snapshot, c.sha, nil
	}
	s, sha, err := store.Load(ctx, m.Name)
	if err != nil || s == nil {
		return nil, "", err
	}
	c.uid, c.snapshot, c.sha = m.UID, s, sha
	return s, sha, nil
}
