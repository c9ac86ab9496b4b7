package castandin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// ErrLostLease ends a leader that another holder has taken the Lease from, or that could not renew it in time.
var ErrLostLease = errors.New("lost the leader-election Lease")

// Autoscaler is one process of the stand-in.
type Autoscaler struct {
	opts   Options
	kube   kubernetes.Interface
	cloud  Cloud
	log    *slog.Logger
	now    func() time.Time
	groups *groups

	cleaned     bool
	lastScaleUp time.Time
	templates   map[string]*room     // by group, from the last settled node seen
	unneeded    map[string]time.Time // idle nodes, since when
	removing    map[string]bool      // nodes this process is removing
}

// New builds a stand-in; it fails on flags that cannot be read.
func New(opts Options, kube kubernetes.Interface, cloud Cloud, log *slog.Logger, now func() time.Time) (*Autoscaler, error) {
	groups, err := newGroups(opts)
	if err != nil {
		return nil, err
	}
	return &Autoscaler{
		opts: opts, kube: kube, cloud: cloud, log: log, now: now, groups: groups,
		templates: map[string]*room{}, unneeded: map[string]time.Time{}, removing: map[string]bool{},
	}, nil
}

// Run acts until ctx ends, then deletes the status ConfigMap if it led. With leader election it first waits for the
// Lease, under the name identity, and returns ErrLostLease when it loses it. It never gives the Lease back.
func (a *Autoscaler) Run(ctx context.Context, identity string) error {
	if !a.opts.LeaderElect {
		return a.lead(ctx, ctx)
	}
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, a.opts.Namespace, a.opts.LeaseName,
		a.kube.CoreV1(), a.kube.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: identity})
	if err != nil {
		return fmt.Errorf("preparing Lease %s/%s: %w", a.opts.Namespace, a.opts.LeaseName, err)
	}
	led := make(chan error, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: a.opts.LeaseDuration, RenewDeadline: a.opts.RenewDeadline, RetryPeriod: a.opts.RetryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) { led <- a.lead(leading, ctx) },
			OnStoppedLeading: func() {},
			OnNewLeader:      func(leader string) { a.log.Info("leader", "identity", leader) },
		},
	})
	if err != nil {
		return fmt.Errorf("preparing leader election: %w", err)
	}
	elector.Run(ctx)
	if ctx.Err() == nil {
		return ErrLostLease
	}
	if !elector.IsLeader() {
		return nil
	}
	return <-led
}

// lead scans until leading ends. Only the end of the process takes the status away; a lost Lease leaves it.
func (a *Autoscaler) lead(leading, process context.Context) error {
	ticker := time.NewTicker(a.opts.ScanInterval)
	defer ticker.Stop()
	for {
		if err := a.RunOnce(leading); err != nil && leading.Err() == nil {
			a.log.Error("scan failed", "error", err)
		}
		select {
		case <-leading.Done():
			if process.Err() == nil {
				return nil
			}
			return a.removeStatus(context.WithoutCancel(process))
		case <-ticker.C:
		}
	}
}

// RunOnce is one scan: look, scale up, scale down, say what was seen.
func (a *Autoscaler) RunOnce(ctx context.Context) error {
	now := a.now()
	if err := a.groups.refresh(ctx, a.cloud, now); err != nil {
		return err
	}
	w, err := observe(ctx, a.kube, a.groups)
	if err != nil {
		return err
	}
	a.learn(w, now)
	var errs []error
	if !a.cleaned {
		errs = append(errs, a.cleanUp(ctx, w))
		a.cleaned = true
	}
	healthy := w.healthy(a.opts)
	if healthy {
		errs = append(errs, a.scaleUp(ctx, w, now), a.scaleDown(ctx, w, now))
	}
	errs = append(errs, a.writeStatus(ctx, newStatus(w, a.groups.list, a.unneeded, healthy, now)))
	return errors.Join(errs...)
}
