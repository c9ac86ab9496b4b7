package lab

import (
	"context"
	"crypto/tls"
	_ "embed"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
	"github.com/castoff-sh/castoff/e2e/lab/process"
)

// Names of the processes, of their binaries and of their logs.
const (
	nameEtcd              = "etcd"
	nameAPIServer         = "kube-apiserver"
	nameControllerManager = "kube-controller-manager"
	nameScheduler         = "kube-scheduler"
	nameKwok              = "kwok"
	nameSimulator         = "awssim"
)

// groupMasters may do everything.
const groupMasters = "system:masters"

//go:embed audit.yaml
var auditPolicy []byte

// ports of the lab, all on 127.0.0.1.
type ports struct {
	etcd, etcdPeer, apiServer, controllerManager, scheduler, kwok, simulator int
}

func freePorts() (p ports, err error) {
	for _, port := range []*int{&p.etcd, &p.etcdPeer, &p.apiServer, &p.controllerManager, &p.scheduler, &p.kwok, &p.simulator} {
		if *port, err = process.FreePort(); err != nil {
			return p, err
		}
	}
	return p, nil
}

// component is one process of the lab: what to run and how to see that it serves.
type component struct {
	name   string
	args   []string
	health string // URL that answers 200 once it serves
}

// prepare writes every file the processes read.
func (l *Lab) prepare() error {
	// Only what the lab itself wrote: Dir may hold more.
	for _, name := range []string{"etcd", "pki", "logs", "pods", "kubeconfigs", "audit.log", "calls.jsonl", "joined"} {
		if err := os.RemoveAll(filepath.Join(l.Dir, name)); err != nil {
			return fmt.Errorf("remove an earlier lab's state: %w", err)
		}
	}
	if err := os.MkdirAll(filepath.Join(l.Dir, "kubeconfigs"), 0o700); err != nil {
		return fmt.Errorf("make the lab's folder: %w", err)
	}
	var err error
	if l.pki, err = newPKI(filepath.Join(l.Dir, "pki")); err != nil {
		return err
	}
	users := map[string][]string{
		"admin":                          {groupMasters},
		"system:kube-controller-manager": nil,
		"system:kube-scheduler":          nil,
		"lab:kwok":                       {groupMasters},
	}
	for user, groups := range users {
		if err := l.writeKubeconfig(l.kubeconfigPath(user), user, groups...); err != nil {
			return err
		}
	}
	stages, err := kwokConfig(l.config)
	if err != nil {
		return err
	}
	scheduler := fmt.Sprintf("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"+
		"clientConnection: {kubeconfig: %q, qps: 5000, burst: 10000}\nleaderElection: {leaderElect: false}\n", l.kubeconfigPath("system:kube-scheduler"))
	for name, content := range map[string][]byte{"audit.yaml": auditPolicy, "kwok.yaml": []byte(stages), "scheduler.yaml": []byte(scheduler)} {
		if err := os.WriteFile(filepath.Join(l.Dir, name), content, 0o600); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return nil
}

func (l *Lab) etcd() component {
	client, peer := "http://"+loopback(l.ports.etcd), "http://"+loopback(l.ports.etcdPeer)
	return component{name: nameEtcd, health: client + "/health", args: []string{
		"--name=lab", "--data-dir=" + filepath.Join(l.Dir, "etcd"),
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=lab=" + peer,
		"--unsafe-no-fsync", "--quota-backend-bytes=" + strconv.Itoa(4<<30),
		"--auto-compaction-mode=revision", "--auto-compaction-retention=5000", "--log-level=warn",
	}}
}

func (l *Lab) apiServer() component {
	p := l.pki.path
	return component{name: nameAPIServer, health: "https://" + loopback(l.ports.apiServer) + "/readyz", args: []string{
		"--etcd-servers=http://" + loopback(l.ports.etcd),
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--secure-port=" + strconv.Itoa(l.ports.apiServer),
		"--endpoint-reconciler-type=none", // a loopback endpoint of the Service kubernetes would not pass validation
		"--tls-cert-file=" + p("apiserver.crt"), "--tls-private-key-file=" + p("apiserver.key"), "--client-ca-file=" + p("ca.crt"),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + p("sa.pub"), "--service-account-signing-key-file=" + p("sa.key"),
		"--kubelet-certificate-authority=" + p("ca.crt"), "--kubelet-client-certificate=" + p("kubelet-client.crt"),
		"--kubelet-client-key=" + p("kubelet-client.key"), "--kubelet-preferred-address-types=InternalIP",
		"--requestheader-client-ca-file=" + p("front-proxy-ca.crt"), "--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group", "--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + p("front-proxy-client.crt"), "--proxy-client-key-file=" + p("front-proxy-client.key"),
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged=true",
		"--service-cluster-ip-range=10.96.0.0/12", "--event-ttl=1h",
		"--max-requests-inflight=2000", "--max-mutating-requests-inflight=1000",
		"--audit-policy-file=" + filepath.Join(l.Dir, "audit.yaml"), "--audit-log-path=" + l.AuditLog,
		"--audit-log-maxsize=10240", // MB: never rotated, so that the watcher reads one file
	}}
}

func (l *Lab) controllerManager() component {
	p, kubeconfig := l.pki.path, l.kubeconfigPath("system:kube-controller-manager")
	return component{name: nameControllerManager, health: "https://" + loopback(l.ports.controllerManager) + "/healthz", args: []string{
		"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(l.ports.controllerManager),
		"--leader-elect=false", "--use-service-account-credentials=true",
		"--root-ca-file=" + p("ca.crt"), "--service-account-private-key-file=" + p("sa.key"),
		"--cluster-signing-cert-file=" + p("ca.crt"), "--cluster-signing-key-file=" + p("ca.key"),
		"--kube-api-qps=5000", "--kube-api-burst=10000", // the defaults of 20 and 50 make 10,000 pods crawl
		"--node-monitor-grace-period=" + l.config.NodeGrace.String(),
	}}
}

func (l *Lab) scheduler() component {
	kubeconfig := l.kubeconfigPath("system:kube-scheduler")
	return component{name: nameScheduler, health: "https://" + loopback(l.ports.scheduler) + "/readyz", args: []string{
		"--config=" + filepath.Join(l.Dir, "scheduler.yaml"),
		"--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(l.ports.scheduler),
	}}
}

func (l *Lab) kwok() component {
	return component{name: nameKwok, health: "https://" + loopback(l.ports.kwok) + "/healthz", args: []string{
		"--kubeconfig=" + l.kubeconfigPath("lab:kwok"), "--config=" + filepath.Join(l.Dir, "kwok.yaml"), "-v=WARN",
		"--manage-all-nodes=false", "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
		"--node-ip=127.0.0.1", "--node-port=" + strconv.Itoa(l.ports.kwok), "--server-address=" + loopback(l.ports.kwok),
		"--cidr=10.240.0.1/12", // of the pods: without it they all get the node's address
		"--tls-cert-file=" + l.pki.path("kwok-server.crt"), "--tls-private-key-file=" + l.pki.path("kwok-server.key"),
		"--node-lease-duration-seconds=" + strconv.Itoa(int(l.config.NodeLease.Seconds())),
	}}
}

func (l *Lab) simulator() component {
	return component{name: nameSimulator, health: l.Simulator + simapi.PathHealth, args: []string{
		"--listen=" + loopback(l.ports.simulator), "--call-log=" + l.CallLog, "--region=" + l.config.Region,
		"--lag=" + l.config.SimulatorLag.String(), "--boot-delay=" + l.config.BootDelay.String(),
	}}
}

// startProcesses brings everything up in as few steps as the processes' needs of each other allow.
func (l *Lab) startProcesses(ctx context.Context) error {
	first := []component{l.etcd(), l.apiServer()}
	if l.config.SimulatorURL == "" {
		first = append(first, l.simulator())
	}
	for _, step := range [][]component{first, {l.controllerManager(), l.scheduler(), l.kwok()}} {
		group, groupContext := errgroup.WithContext(ctx)
		for _, c := range step {
			if err := l.start(c); err != nil {
				return err
			}
			group.Go(func() error { return l.awaitHealthy(groupContext, c) })
		}
		if err := group.Wait(); err != nil {
			return err
		}
	}
	return l.awaitServiceAccount(ctx)
}

// start runs a component and has its death reported.
func (l *Lab) start(c component) error {
	args := slices.Concat(c.args, l.config.ExtraArgs[c.name])
	p, err := process.Start(process.Options{
		Name: c.name, Path: filepath.Join(l.config.BinDir, c.name), Args: args,
		Env:     []string{"PATH=" + os.Getenv("PATH"), "HOME=" + l.Dir, "TMPDIR=" + os.TempDir()},
		LogFile: filepath.Join(l.Dir, "logs", c.name+".log"),
	})
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.running[c.name] = &running{component: c, process: p}
	l.mu.Unlock()
	go l.supervise(p)
	return nil
}

// supervise reports a process that ended without being told to.
func (l *Lab) supervise(p *process.Process) {
	<-p.Done()
	l.mu.Lock()
	current := l.running[p.Name()]
	expected := l.stopping || current == nil || current.process != p || current.stopped
	l.mu.Unlock()
	if expected {
		return
	}
	err := p.Err()
	if err == nil {
		err = fmt.Errorf("%s ended by itself; the end of its log:\n%s", p.Name(), p.Tail(20))
	}
	l.fail(err)
}

// pollInterval is short against everything the lab waits for.
const pollInterval = 50 * time.Millisecond

// awaitHealthy polls until the component serves, its process dies, or the context ends.
func (l *Lab) awaitHealthy(ctx context.Context, c component) error {
	client := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // only whether it serves is asked
	}}
	defer client.CloseIdleConnections()
	check := func() error { return ping(ctx, client, c.health) }
	if c.name == nameAPIServer {
		// Through its own client: anonymous callers may not ask a fresh API server before its roles exist.
		check = func() error { return l.health.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error() }
	}
	return l.await(ctx, c.name, check)
}

func ping(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", url, response.Status)
	}
	return nil
}

// await polls check until it succeeds, the process ends or the context does.
func (l *Lab) await(ctx context.Context, name string, check func() error) error {
	l.mu.Lock()
	current := l.running[name]
	l.mu.Unlock()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-current.process.Done():
			if err := current.process.Err(); err != nil {
				return err
			}
			return fmt.Errorf("%s ended by itself; the end of its log:\n%s", name, current.process.Tail(20))
		case <-ctx.Done():
			return fmt.Errorf("wait for %s (%s): %w; last answer: %w; the end of its log:\n%s",
				name, current.component.health, context.Cause(ctx), err, current.process.Tail(20))
		case <-ticker.C:
		}
	}
}

// awaitServiceAccount waits for what admission needs before the first pod can be made.
func (l *Lab) awaitServiceAccount(ctx context.Context) error {
	return l.await(ctx, nameControllerManager, func() error {
		_, err := l.Client.CoreV1().ServiceAccounts(corev1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// restConfig is how a user of the lab reaches the API server.
func (l *Lab) restConfig(user string, groups ...string) (*rest.Config, error) {
	pair, err := l.pki.cluster.client(user, groups...)
	if err != nil {
		return nil, err
	}
	return &rest.Config{
		Host:  "https://" + loopback(l.ports.apiServer),
		QPS:   1000,
		Burst: 2000,
		TLSClientConfig: rest.TLSClientConfig{
			CAData: l.pki.cluster.pem, CertData: pair.certificate, KeyData: pair.key,
		},
	}, nil
}

func loopback(port int) string { return "127.0.0.1:" + strconv.Itoa(port) }
