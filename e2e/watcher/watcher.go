package watcher

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
)

// Sources are where a Watcher looks.
type Sources struct {
	// REST may read everything. Its user must be logged by the audit policy.
	REST *rest.Config
	// AuditLog is the API server's audit log, JSON lines.
	AuditLog string
	// Simulator is the AWS simulator's address.
	Simulator string
}

// Watcher feeds a Judge from a running lab.
type Watcher struct {
	sim     *simapi.Client
	kube    kubernetes.Interface
	dynamic dynamic.Interface
	print   func(Note)

	mu      sync.Mutex
	judge   *Judge
	marks   map[string]chan struct{} // audit IDs waited for
	failure error
	moved   chan struct{} // closed at the next change of phase

	calls int64 // sequence number of the last AWS call read
	poll  sync.Mutex
}

// pause is between two looks at what cannot be watched: the audit log's file, the simulator's groups and calls.
const pause = 300 * time.Millisecond

// Start watches until ctx ends. It returns once everything that exists has been seen; print gets what is worth
// reading from then on, one note at a time, and must not block.
func Start(ctx context.Context, config Config, sources Sources, print func(Note)) (*Watcher, error) {
	kube, err := kubernetes.NewForConfig(sources.REST)
	if err != nil {
		return nil, fmt.Errorf("watcher: building the client: %w", err)
	}
	crds, err := dynamic.NewForConfig(sources.REST)
	if err != nil {
		return nil, fmt.Errorf("watcher: building the client: %w", err)
	}
	w := &Watcher{
		sim: simapi.NewClient(sources.Simulator), kube: kube, dynamic: crds, judge: NewJudge(config),
		marks: map[string]chan struct{}{}, moved: make(chan struct{}), print: func(Note) {},
	}
	log, err := openTail(sources.AuditLog)
	if err != nil {
		return nil, fmt.Errorf("watcher: %w", err)
	}
	go func() { w.fail(ctx, log.follow(ctx, pause, w.audit)) }()
	if err := w.lookAtSimulator(ctx); err != nil {
		return nil, fmt.Errorf("watcher: %w", err)
	}
	if err := w.followInstances(ctx); err != nil {
		return nil, fmt.Errorf("watcher: %w", err)
	}
	if err := w.followCluster(ctx); err != nil {
		return nil, fmt.Errorf("watcher: %w", err)
	}
	w.mu.Lock()
	w.print = print
	w.mu.Unlock()
	go w.keepLooking(ctx)
	return w, nil
}

func (w *Watcher) observe(what any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.judge.phase
	for _, note := range w.judge.Observe(time.Now(), what) {
		w.print(note)
	}
	if w.judge.phase != before {
		close(w.moved)
		w.moved = make(chan struct{})
	}
}

func (w *Watcher) audit(event AuditEvent) {
	w.observe(event)
	w.mu.Lock()
	defer w.mu.Unlock()
	if mark, waited := w.marks[event.AuditID]; waited {
		close(mark)
		delete(w.marks, event.AuditID)
	}
}

// fail keeps the first error; a watcher that lost a source must not call anything clean.
func (w *Watcher) fail(ctx context.Context, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil && ctx.Err() == nil && w.failure == nil {
		w.failure = err
	}
}

// Phase is the Migration's phase now.
func (w *Watcher) Phase() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.judge.phase
}

// AwaitPhase returns as soon as the watch tells that the Migration is in one of those phases. A phase that is over before
// the status is written is never seen.
func (w *Watcher) AwaitPhase(ctx context.Context, phases ...string) error {
	for {
		w.mu.Lock()
		phase, moved := w.judge.phase, w.moved
		w.mu.Unlock()
		if slices.Contains(phases, phase) {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("waiting for phase %v, it is %q: %w", phases, phase, context.Cause(ctx))
		}
	}
}

// LegacyEnded is how many instances of the migrating groups have ended.
func (w *Watcher) LegacyEnded() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.judge.legacyEnded()
}

// Begin opens a new account: later reports judge what happens from now on.
func (w *Watcher) Begin(ctx context.Context) error {
	if err := w.catchUp(ctx); err != nil {
		return fmt.Errorf("watcher: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.judge.Begin(time.Now())
	return w.failure
}

// Report judges what has happened until now. It fails when a source could not be read to its end.
func (w *Watcher) Report(ctx context.Context) (Report, error) {
	if err := w.catchUp(ctx); err != nil {
		return Report{}, fmt.Errorf("watcher: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.judge.Report(time.Now()), w.failure
}

// Measures tells what was measured since Begin. It fails when a source could not be read to its end.
func (w *Watcher) Measures(ctx context.Context) (Measures, error) {
	if err := w.catchUp(ctx); err != nil {
		return Measures{}, fmt.Errorf("watcher: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.judge.Measures(time.Now()), w.failure
}

// Writes lists what castoff has written since then, a held Lease aside.
func (w *Watcher) Writes(ctx context.Context, since time.Time) ([]string, error) {
	if err := w.catchUp(ctx); err != nil {
		return nil, fmt.Errorf("watcher: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.judge.Writes(since), w.failure
}

// Evictions lists what castoff has asked to evict since then, refused or not.
func (w *Watcher) Evictions(ctx context.Context, since time.Time) ([]string, error) {
	if err := w.catchUp(ctx); err != nil {
		return nil, fmt.Errorf("watcher: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.judge.Evictions(since), w.failure
}

// catchUp reads the simulator, then the audit log up to a request of its own.
func (w *Watcher) catchUp(ctx context.Context) error {
	if err := w.lookAtSimulator(ctx); err != nil {
		return err
	}
	id, mark := string(uuid.NewUUID()), make(chan struct{})
	w.mu.Lock()
	w.marks[id] = mark
	w.mu.Unlock()
	if err := w.kube.CoreV1().RESTClient().Get().AbsPath("/version").SetHeader("Audit-ID", id).Do(ctx).Error(); err != nil {
		return fmt.Errorf("marking the audit log: %w", err)
	}
	const patience = 10 * time.Second
	select {
	case <-mark:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(patience):
		return fmt.Errorf("a request of the watcher does not appear in the audit log within %s", patience)
	}
}

// lookAtSimulator reads the groups and the calls made since the last look.
func (w *Watcher) lookAtSimulator(ctx context.Context) error {
	w.poll.Lock()
	defer w.poll.Unlock()
	groups, err := w.sim.Groups(ctx)
	if err != nil {
		return fmt.Errorf("listing groups: %w", err)
	}
	calls, err := w.sim.Calls(ctx, w.calls)
	if err != nil {
		return fmt.Errorf("reading the call log: %w", err)
	}
	w.observe(groups)
	for _, call := range calls {
		w.observe(call)
		w.calls = call.Seq
	}
	return nil
}

func (w *Watcher) keepLooking(ctx context.Context) {
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			w.fail(ctx, w.lookAtSimulator(ctx))
		}
	}
}

// followInstances returns once every instance there is has been seen.
func (w *Watcher) followInstances(ctx context.Context) error {
	synced, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		err := w.sim.Events(ctx, func(event simapi.Event) error {
			if event.Instance != nil {
				w.observe(*event.Instance)
			}
			if event.Synced {
				close(synced)
			}
			return nil
		})
		ended <- err
		w.fail(ctx, err)
	}()
	select {
	case <-synced:
		return nil
	case err := <-ended:
		return fmt.Errorf("following instances: %w", err)
	case <-ctx.Done():
		return ctx.Err()
	}
}
