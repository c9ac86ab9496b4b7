package harbor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/castoff-sh/castoff/e2e/lab"
	"github.com/castoff-sh/castoff/e2e/watcher"
)

// Options say where the scene is played.
type Options struct {
	// Lab is passed on to lab.Up.
	Lab lab.Config
	// Chart is the folder of castoff's chart.
	Chart string
	// Out gets a line per event worth reading.
	Out io.Writer
	// SurgeAfter is from castoff's installation to the memory group's scheduled peak. Default 90 s.
	SurgeAfter time.Duration
	// Stage puts other nodes and workloads in the scene's place, to measure with; nil: the scene as it is.
	Stage *Stage
}

// Stage is what a scene is made of, its network, roles and system apart.
type Stage struct {
	// Shape changes the node groups of the lab, once they are asked for; nil leaves them.
	Shape func(context.Context, *lab.Lab) error
	// Nodes is how many are Ready then, and Groups how many node groups Cluster Autoscaler manages.
	Nodes, Groups int
	// Workloads in the order in which they can be made.
	Workloads []client.Object
	// Judgement is what the watcher must know.
	Judgement watcher.Config
	// Quiet leaves out the evening peak, which castoff's installation comes with otherwise.
	Quiet bool
}

// usual is the scene as it is shown.
func usual() *Stage {
	return &Stage{Nodes: Nodes, Groups: 4, Workloads: Workloads(), Judgement: Judgement()}
}

// Scene is a harbor in a running lab, with somebody watching.
type Scene struct {
	Lab     *lab.Lab
	Client  client.Client // of the cluster's admin
	Cloud   *Cloud
	Watcher *watcher.Watcher

	options Options
	began   time.Time
	print   sync.Mutex
	cancel  context.CancelFunc
}

// Start brings up a lab with the scene in it: nodes and pods Ready, Cluster Autoscaler at work, the watcher watching.
// After an error nothing is left running.
func Start(ctx context.Context, options Options) (*Scene, error) {
	if options.Lab.Log == nil {
		options.Lab.Log = slog.New(slog.DiscardHandler)
	}
	if options.SurgeAfter == 0 {
		options.SurgeAfter = 90 * time.Second
	}
	if options.Stage == nil {
		options.Stage = usual()
	}
	s := &Scene{options: options, began: time.Now()}
	s.Say("starting the lab")
	var err error
	if s.Lab, err = lab.Up(ctx, options.Lab); err != nil {
		return nil, err
	}
	if err := s.set(ctx); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

func (s *Scene) set(ctx context.Context) error {
	admin, err := s.Lab.UserConfig("harbor-admin", "system:masters")
	if err != nil {
		return err
	}
	if s.Client, err = client.New(admin, client.Options{Scheme: scheme.Scheme}); err != nil {
		return fmt.Errorf("building the admin's client: %w", err)
	}
	if s.Cloud, err = NewCloud(ctx, s.Lab.Simulator); err != nil {
		return err
	}
	if err := s.build(ctx, admin, s.options.Stage); err != nil {
		return err
	}
	return s.watch()
}

// build makes groups, nodes and workloads.
func (s *Scene) build(ctx context.Context, admin *rest.Config, stage *Stage) error {
	s.Say("building cluster %s: %d node groups, %d nodes", Cluster, stage.Groups, stage.Nodes)
	if err := s.Cloud.Seed(ctx, admin); err != nil {
		return err
	}
	if stage.Shape != nil {
		if err := stage.Shape(ctx, s.Lab); err != nil {
			return err
		}
	}
	if err := awaitNodes(ctx, s.Client, stage.Nodes); err != nil {
		return err
	}
	s.Say("%d nodes are Ready; starting workloads and Cluster Autoscaler", stage.Nodes)
	if err := errors.Join(seedSystem(ctx, s.Client), seedWorkloads(ctx, s.Client, stage.Workloads)); err != nil {
		return err
	}
	if err := errors.Join(awaitPods(ctx, s.Client), awaitAutoscaler(ctx, s.Client, stage.Groups)); err != nil {
		return err
	}
	s.Say("all pods are Ready, Cluster Autoscaler manages %d groups", stage.Groups)
	return nil
}

func (s *Scene) watch() error {
	config, err := s.Lab.UserConfig("lab:watcher", "system:masters")
	if err != nil {
		return err
	}
	config.QPS = -1 // the watcher must never be late
	var ctx context.Context
	ctx, s.cancel = context.WithCancel(context.Background()) // until Stop
	sources := watcher.Sources{REST: config, AuditLog: s.Lab.AuditLog, Simulator: s.Lab.Simulator}
	s.Watcher, err = watcher.Start(ctx, s.options.Stage.Judgement, sources, func(n watcher.Note) { s.Say("%s", n.Text) })
	return err
}

// Stop ends everything the scene started.
func (s *Scene) Stop() {
	if s.cancel != nil {
		s.cancel()
	}
	if s.Lab != nil {
		s.Lab.Stop()
	}
}

// Say prints a line with the time since the start.
func (s *Scene) Say(format string, args ...any) {
	s.print.Lock()
	defer s.print.Unlock()
	_, _ = fmt.Fprintf(s.options.Out, "%7.1fs  %s\n", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...)) // a screen that is gone stops nothing
}

// InstallCastoff installs castoff's chart and waits for its Deployment. Before it, somebody schedules an evening peak.
func (s *Scene) InstallCastoff(ctx context.Context) error {
	if !s.options.Stage.Quiet {
		if err := s.Cloud.ScheduleSurge(ctx, time.Now().Add(s.options.SurgeAfter)); err != nil {
			return err
		}
	}
	s.Say("helm install castoff %s", s.options.Chart)
	if err := installCastoff(ctx, s.Lab.Kubeconfig, s.options.Chart); err != nil {
		return err
	}
	return awaitDeployment(ctx, s.Client, CastoffNamespace, "castoff")
}

// UninstallCastoff deletes the Migration, then castoff's release.
func (s *Scene) UninstallCastoff(ctx context.Context) error {
	objects, err := decode(Migration)
	if err != nil {
		return err
	}
	for _, object := range objects {
		if err := s.Client.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting Migration %s: %w", object.GetName(), err)
		}
		err := until(ctx, func(ctx context.Context) (bool, error) {
			err := s.Client.Get(ctx, client.ObjectKeyFromObject(object), object)
			return err != nil, client.IgnoreNotFound(err)
		})
		if err != nil {
			return fmt.Errorf("waiting for Migration %s to be gone: %w", object.GetName(), err)
		}
	}
	return uninstallCastoff(s.Lab.Kubeconfig)
}

// Migrate applies the Migration and follows it until it is completed, a promise is broken for good, or ctx ends. In the
// middle it rolls the DaemonSet.
func (s *Scene) Migrate(ctx context.Context) (watcher.Report, error) {
	s.Say("kubectl apply -f migration.yaml")
	if err := create(ctx, s.Client, Migration); err != nil {
		return watcher.Report{}, err
	}
	ended := s.follow(ctx)
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	report, err := s.settled(last)
	if ctx.Err() != nil && err == nil && report.Phase == "Completed" {
		ended = nil // it was done just in time
	}
	return report, errors.Join(ended, err)
}

// follow returns nil once the migration is completed or has broken a promise.
func (s *Scene) follow(ctx context.Context) error {
	const (
		lookEvery = 5 * time.Second
		rollAfter = 5 // of the fourteen legacy nodes: one pool is done, the next is being drained
	)
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	rolled, looked := false, time.Now()
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("the migration is %s still: %w", s.Watcher.Phase(), context.Cause(ctx))
		case err := <-s.Lab.Failed():
			return fmt.Errorf("the lab broke: %w", err)
		case <-ticker.C:
		}
		if s.Watcher.Phase() == "Completed" {
			return nil
		}
		if !rolled && s.Watcher.LegacyEnded() >= rollAfter {
			rolled = true
			if err := rollAgent(ctx, s.Client); err != nil {
				return err
			}
		}
		if time.Since(looked) < lookEvery {
			continue
		}
		looked = time.Now()
		report, err := s.Watcher.Report(ctx)
		if err != nil {
			return err
		}
		if len(report.Broken()) > 0 {
			return nil
		}
	}
}

// settled reports once the last pods are Ready, or after a while as things are.
func (s *Scene) settled(ctx context.Context) (watcher.Report, error) {
	const patience = 20 * time.Second
	for began := time.Now(); ; {
		report, err := s.Watcher.Report(ctx)
		if err != nil || report.PodsNotReady == 0 || time.Since(began) > patience {
			return report, err
		}
		select {
		case <-ctx.Done():
			return report, nil
		case <-time.After(time.Second):
		}
	}
}
