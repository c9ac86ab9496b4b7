// Package bridge turns the simulator's instances into the cluster's nodes, as EC2, the kubelet and the cloud's node
// controller do together: a running instance joins after its boot delay, an ending one takes its Node and pods away.
package bridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/workqueue"

	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
)

// Config says between what the bridge stands.
type Config struct {
	// Client acts as the kubelets and as the cloud's node controller.
	Client kubernetes.Interface
	// Simulator is its address.
	Simulator string
	// JoinedFile remembers which instances have joined, an ID a line: whoever deletes a Node does not get it back, also
	// not when the bridge is started again.
	JoinedFile string
	// Log tells of nodes that come, go, or do not join.
	Log *slog.Logger
}

// Bridge follows one simulator.
type Bridge struct {
	config         Config
	simulator      *simapi.Client
	queue          workqueue.TypedRateLimitingInterface[string]
	kubeletVersion string

	mu        sync.Mutex
	instances map[string]simapi.Instance // by ID, the latest seen
	joinAt    map[string]time.Time
	joined    map[string]bool
	gone      map[string]bool   // nothing is left to do
	refused   map[string]string // why it did not join: told once
	withdrawn map[string]bool   // roles that EKS let go of, while aws-auth may still have them
	bootDelay time.Duration
	pending   time.Duration
}

// New makes a bridge; Run starts it.
func New(config Config) *Bridge {
	return &Bridge{
		config:    config,
		simulator: simapi.NewClient(config.Simulator),
		queue:     workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](100*time.Millisecond, 5*time.Second)),
		instances: map[string]simapi.Instance{},
		joinAt:    map[string]time.Time{},
		joined:    map[string]bool{},
		gone:      map[string]bool{},
		refused:   map[string]string{},
		withdrawn: map[string]bool{},
	}
}

const (
	workers = 16
	// resyncInterval is how soon a change that came without an event is seen, such as a role that was let in.
	resyncInterval = 5 * time.Second
	// reconnectDelay is the wait before the simulator's events are asked for again.
	reconnectDelay = 500 * time.Millisecond
)

// Run works until ctx ends. It needs no state but JoinedFile: what changed while it was away is repaired.
func (b *Bridge) Run(ctx context.Context) error {
	version, err := b.config.Client.Discovery().ServerVersion()
	if err != nil {
		return fmt.Errorf("read the cluster's version, for the kubelets: %w", err)
	}
	b.kubeletVersion = version.GitVersion
	if err := b.readJoined(); err != nil {
		return err
	}
	var running sync.WaitGroup
	for range workers {
		running.Go(func() { b.work(ctx) })
	}
	running.Go(func() { b.resync(ctx) })
	b.follow(ctx)
	b.queue.ShutDown()
	running.Wait()
	return nil
}

// follow takes the simulator's events until ctx ends; a simulator that goes away is waited for.
func (b *Bridge) follow(ctx context.Context) {
	for ctx.Err() == nil {
		err := b.readSettings(ctx)
		if err == nil {
			err = b.simulator.Events(ctx, func(event simapi.Event) error {
				if event.Instance != nil {
					b.see(*event.Instance, event.Time)
				}
				if event.RoleRemoved != nil {
					b.withdraw(ctx, event.RoleRemoved.RoleARN)
				}
				return nil
			})
		}
		if ctx.Err() != nil {
			return
		}
		b.config.Log.Debug("the simulator's events broke off", "error", err)
		sleep(ctx, reconnectDelay)
	}
}

// resync looks at every instance again, and at the settings.
func (b *Bridge) resync(ctx context.Context) {
	for ctx.Err() == nil {
		sleep(ctx, resyncInterval)
		if err := b.resyncOnce(ctx); err != nil {
			b.config.Log.Debug("resync failed", "error", err)
		}
	}
}

func (b *Bridge) readSettings(ctx context.Context) error {
	settings, err := b.simulator.Settings(ctx)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bootDelay, b.pending = settings.BootDelay, settings.PendingDelay
	return nil
}

func (b *Bridge) resyncOnce(ctx context.Context) error {
	if err := b.readSettings(ctx); err != nil {
		return err
	}
	if err := b.dropWithdrawn(ctx); err != nil {
		return err
	}
	// Nodes before instances: the instance of a Node listed here must be in the later list.
	nodes, err := b.config.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	instances, err := b.simulator.Instances(ctx)
	if err != nil {
		return err
	}
	listed := map[string]bool{}
	for _, instance := range instances {
		listed[instance.ID] = true
		b.see(instance, time.Time{})
	}
	b.endUnlisted(nodes.Items, listed)
	return nil
}

// see takes note of an instance. at is the simulator's clock, zero when unknown.
func (b *Bridge) see(instance simapi.Instance, at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.instances[instance.ID] = instance
	if _, known := b.joinAt[instance.ID]; !known && instance.State == "running" {
		// Its own clock decides, so that after a restart of the bridge nobody boots a second time; at most the boot delay,
		// since the simulator's clock may have been moved.
		delay := b.bootDelay
		if !at.IsZero() {
			delay = min(delay, instance.LaunchTime.Add(b.pending+b.bootDelay).Sub(at))
		}
		b.joinAt[instance.ID] = time.Now().Add(max(0, delay))
	}
	if !b.gone[instance.ID] {
		b.queue.Add(instance.ID)
	}
}

func (b *Bridge) work(ctx context.Context) {
	for {
		id, shutdown := b.queue.Get()
		if shutdown {
			return
		}
		again, err := b.reconcile(ctx, id)
		switch {
		case err != nil && ctx.Err() == nil:
			b.config.Log.Warn("retrying", "instance", id, "error", err)
			b.queue.AddRateLimited(id)
		case again > 0:
			b.queue.Forget(id)
			b.queue.AddAfter(id, again)
		default:
			b.queue.Forget(id)
		}
		b.queue.Done(id)
	}
}

// reconcile brings the Node of one instance to where the instance is, and says after what time to look again (0: not).
func (b *Bridge) reconcile(ctx context.Context, id string) (time.Duration, error) {
	b.mu.Lock()
	instance, joinAt, joined, gone := b.instances[id], b.joinAt[id], b.joined[id], b.gone[id]
	b.mu.Unlock()
	if gone || instance.Cluster == "" || instance.PrivateDNSName == "" {
		return 0, nil
	}
	switch instance.State {
	case "pending":
		return 0, nil
	case "running":
		if joined {
			return 0, nil
		}
		if wait := time.Until(joinAt); wait > 0 {
			return wait, nil
		}
		return 0, b.join(ctx, instance)
	case "terminated":
		return b.remove(ctx, instance)
	default: // shutting-down, stopping, stopped
		return 0, b.markEnded(ctx, instance)
	}
}

// refuse tells once why an instance does not join.
func (b *Bridge) refuse(instance simapi.Instance, why string) {
	b.mu.Lock()
	told := b.refused[instance.ID] == why
	b.refused[instance.ID] = why
	b.mu.Unlock()
	if !told {
		b.config.Log.Warn("instance does not join", "instance", instance.ID, "group", instance.AutoScalingGroup, "why", why)
	}
}

// readJoined recalls who has joined. A missing file is a fresh lab.
func (b *Bridge) readJoined() error {
	content, err := os.ReadFile(b.config.JoinedFile)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("recall which instances have joined: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for id := range strings.FieldsSeq(string(content)) {
		b.joined[id] = true
	}
	return nil
}

func (b *Bridge) recordJoined(id string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.joined[id] = true
	file, err := os.OpenFile(b.config.JoinedFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("remember that %s joined: %w", id, err)
	}
	_, err = fmt.Fprintln(file, id)
	return errors.Join(err, file.Close())
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
