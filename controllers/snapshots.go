package controllers

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// snapshotCache keeps the one snapshot that this process has read and verified. Its Secrets are immutable and the index names
// each by digest, so that later looks ask for the index's digest alone; the way back reads every Secret before every step.
type snapshotCache struct {
	mu       sync.Mutex
	uid      types.UID
	snapshot *inventory.Snapshot
	sha      string
}

func (c *snapshotCache) load(ctx context.Context, m *v1alpha1.Migration, store Snapshots) (*inventory.Snapshot, string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.snapshot != nil && c.uid == m.UID && m.Spec.OnPause != v1alpha1.OnPauseRollBack {
		sha, err := store.Digest(ctx, m.Name)
		if err != nil || sha == c.sha {
			return c.snapshot, c.sha, err
		}
	}
	s, sha, err := store.Load(ctx, m.Name)
	if err != nil || s == nil {
		return nil, "", err
	}
	c.uid, c.snapshot, c.sha = m.UID, s, sha
	return s, sha, nil
}
