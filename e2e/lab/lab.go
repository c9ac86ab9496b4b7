// Package lab brings up a real Kubernetes cluster without a cloud: etcd, the API server, the controller manager and the
// scheduler as processes on loopback; kwok, which plays nodes and pods; an AWS simulator whose instances join as nodes
// (package bridge); and a small kubelet that runs castoff's own pods as processes (package runner).
package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/castoff-sh/castoff/e2e/bridge"
	"github.com/castoff-sh/castoff/e2e/lab/process"
	"github.com/castoff-sh/castoff/e2e/runner"
)

// Lab is a running lab.
type Lab struct {
	// Kubeconfig is the path of a cluster-admin's kubeconfig.
	Kubeconfig string
	// REST is the same cluster-admin, "admin" in the audit log.
	REST *rest.Config
	// Client is a client of that admin.
	Client kubernetes.Interface
	// Simulator is the AWS simulator's address, for AWS_ENDPOINT_URL and the side door (package simapi).
	Simulator string
	// Dir holds all state; Dir/logs the processes' logs, Dir/logs/pods those of the pods' processes.
	Dir string
	// AuditLog is a file of audit.k8s.io/v1 Events as JSON lines: RequestResponse for deleted pods, Request for evictions
	// and for changes of nodes, Metadata for the rest but for the reads of the lab's own machinery.
	AuditLog string
	// CallLog is the simulator's file of AWS calls; not written when Config.SimulatorURL was given.
	CallLog string
	// Runner runs castoff's own pods.
	Runner *runner.Runner

	config Config
	ports  ports
	pki    *pki
	health *kubernetes.Clientset

	mu       sync.Mutex
	running  map[string]*running
	stopping bool
	failures chan error
	lock     *os.File           // of Dir
	cancel   context.CancelFunc // of the lab's own controllers
	routines sync.WaitGroup
	stopOnce sync.Once
}

// running is a component and its present process.
type running struct {
	component component
	process   *process.Process
	stopped   bool // on purpose
}

// Up brings a lab up and returns when everything serves. It takes about five seconds; give ctx a deadline.
// After an error nothing is left running.
func Up(ctx context.Context, config Config) (*Lab, error) {
	config, err := config.complete(os.Getenv)
	if err != nil {
		return nil, err
	}
	l := &Lab{
		Dir:        config.Dir,
		Kubeconfig: filepath.Join(config.Dir, "kubeconfig"),
		AuditLog:   filepath.Join(config.Dir, "audit.log"),
		CallLog:    filepath.Join(config.Dir, "calls.jsonl"),
		Simulator:  strings.TrimSuffix(config.SimulatorURL, "/"),
		config:     config,
		running:    map[string]*running{},
		failures:   make(chan error, 1),
	}
	if err := l.up(ctx); err != nil {
		l.Stop()
		return nil, fmt.Errorf("bring up the lab in %s: %w", l.Dir, err)
	}
	return l, nil
}

func (l *Lab) up(ctx context.Context) (err error) {
	started := time.Now()
	if l.ports, err = freePorts(); err != nil {
		return err
	}
	if l.Simulator == "" {
		l.Simulator = "http://" + loopback(l.ports.simulator)
	}
	if l.lock, err = lock(l.Dir); err != nil {
		return err
	}
	if err := l.prepare(); err != nil {
		return err
	}
	if err := l.writeKubeconfig(l.Kubeconfig, "admin", groupMasters); err != nil {
		return err
	}
	if l.REST, err = l.restConfig("admin", groupMasters); err != nil {
		return err
	}
	if l.Client, err = kubernetes.NewForConfig(l.REST); err != nil {
		return fmt.Errorf("make the admin's client: %w", err)
	}
	if l.health, err = l.clientFor("lab:health"); err != nil {
		return err
	}
	if err := l.startProcesses(ctx); err != nil {
		return err
	}
	if err := l.startControllers(); err != nil {
		return err
	}
	l.config.Log.Info("lab is up", "after", time.Since(started).Round(time.Millisecond), "kubeconfig", l.Kubeconfig, "simulator", l.Simulator)
	return nil
}

// startControllers runs the lab's own parts: the bridge from instances to nodes, the runner, the reaper.
func (l *Lab) startControllers() error {
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	clients := map[string]*kubernetes.Clientset{}
	for _, user := range []string{"lab:bridge", "lab:runner", "lab:reaper"} {
		client, err := l.clientFor(user)
		if err != nil {
			return err
		}
		clients[user] = client
	}
	l.Runner = runner.New(runner.Config{
		Client:       clients["lab:runner"],
		APIServer:    "https://" + loopback(l.ports.apiServer),
		CAData:       l.pki.cluster.pem,
		Images:       l.config.Images,
		Dir:          l.Dir,
		AWSEndpoint:  l.Simulator,
		Region:       l.config.Region,
		Env:          l.config.PodEnv,
		CrashBackOff: l.config.CrashBackOff,
		Log:          l.config.Log.With("part", "runner"),
	})
	nodes := bridge.New(bridge.Config{
		Client:     clients["lab:bridge"],
		Simulator:  l.Simulator,
		JoinedFile: filepath.Join(l.Dir, "joined"),
		Log:        l.config.Log.With("part", "bridge"),
	})
	ends := &reaper{client: clients["lab:reaper"], ours: l.Runner.Runs, shutdown: l.config.PodShutdown, now: time.Now, log: l.config.Log.With("part", "reaper")}
	for name, run := range map[string]func(context.Context) error{"runner": l.Runner.Run, "bridge": nodes.Run, "reaper": ends.Run} {
		l.routines.Go(func() {
			if err := run(ctx); err != nil && ctx.Err() == nil {
				l.fail(fmt.Errorf("the lab's %s ended: %w", name, err))
			}
		})
	}
	return nil
}

func (l *Lab) clientFor(user string) (*kubernetes.Clientset, error) {
	config, err := l.restConfig(user, groupMasters)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make the client of %s: %w", user, err)
	}
	return client, nil
}

// UserConfig is for callers that the audit log is to tell apart, such as a watcher: a user, and groups such as
// "system:masters". RBAC holds for it.
func (l *Lab) UserConfig(user string, groups ...string) (*rest.Config, error) {
	return l.restConfig(user, groups...)
}

// Failed yields what broke the lab: a process that died, with the end of its log. Whoever uses a lab for long selects on it.
func (l *Lab) Failed() <-chan error { return l.failures }

func (l *Lab) fail(err error) {
	l.config.Log.Error("the lab is broken", "error", err)
	select {
	case l.failures <- err:
	default: // the first is enough
	}
}

// Kill ends a process (etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kwok, awssim) with SIGKILL and
// leaves it down until Restart.
func (l *Lab) Kill(name string) error {
	l.mu.Lock()
	current, found := l.running[name]
	if found {
		current.stopped = true
	}
	l.mu.Unlock()
	if !found {
		return fmt.Errorf("kill %s: the lab runs no process of that name", name)
	}
	current.process.Kill()
	return nil
}

// Restart kills a process if it still runs, starts it with the same flags and waits until it serves.
func (l *Lab) Restart(ctx context.Context, name string) error {
	if err := l.Kill(name); err != nil {
		return err
	}
	l.mu.Lock()
	c := l.running[name].component
	l.mu.Unlock()
	if err := l.start(c); err != nil {
		return err
	}
	return l.awaitHealthy(ctx, c)
}

// stopGrace is what a process gets to end by itself: nothing of the lab's state is kept.
const stopGrace = 3 * time.Second

// Stop ends everything the lab started and returns when it is gone. It may be called more than once.
func (l *Lab) Stop() {
	l.stopOnce.Do(func() {
		if l.cancel != nil {
			l.cancel() // the runner stops the pods' processes while the API server still answers
		}
		l.routines.Wait()
		l.mu.Lock()
		l.stopping = true
		l.mu.Unlock()
		// Clients before servers: whoever has lost its server logs and retries.
		for _, names := range [][]string{{nameKwok, nameScheduler, nameControllerManager, nameSimulator}, {nameAPIServer}, {nameEtcd}} {
			l.stopAll(names)
		}
		if l.lock != nil {
			_ = l.lock.Close()
		}
	})
}

// lock keeps a second lab out of a folder until the file is closed, by whatever end.
func lock(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the lab's folder: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the lab's folder: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("another lab runs in %s: stop it, or use another folder: %w", dir, err)
	}
	return file, nil
}

func (l *Lab) stopAll(names []string) {
	ctx, cancel := context.WithTimeout(context.Background(), stopGrace)
	defer cancel()
	l.mu.Lock()
	var ending sync.WaitGroup
	for name, current := range l.running {
		if slices.Contains(names, name) {
			ending.Go(func() { current.process.Stop(ctx) })
		}
	}
	l.mu.Unlock()
	ending.Wait()
}

// kubeconfigPath is where a user's kubeconfig lies.
func (l *Lab) kubeconfigPath(user string) string {
	return filepath.Join(l.Dir, "kubeconfigs", strings.ReplaceAll(user, ":", "-"))
}

func (l *Lab) writeKubeconfig(path, user string, groups ...string) error {
	pair, err := l.pki.cluster.client(user, groups...)
	if err != nil {
		return err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["lab"] = &clientcmdapi.Cluster{Server: "https://" + loopback(l.ports.apiServer), CertificateAuthorityData: l.pki.cluster.pem}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: pair.certificate, ClientKeyData: pair.key}
	config.Contexts["lab"] = &clientcmdapi.Context{Cluster: "lab", AuthInfo: user}
	config.CurrentContext = "lab"
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return fmt.Errorf("write kubeconfig of %s: %w", user, err)
	}
	return nil
}
