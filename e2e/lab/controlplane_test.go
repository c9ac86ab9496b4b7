package lab

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
	"github.com/castoff-sh/castoff/e2e/lab/process"
)

// testLab is a lab that has been prepared and runs nothing.
func testLab(t *testing.T) *Lab {
	t.Helper()
	l := &Lab{Dir: t.TempDir(), running: map[string]*running{}, failures: make(chan error, 1)}
	l.AuditLog, l.CallLog, l.Simulator = filepath.Join(l.Dir, "audit.log"), filepath.Join(l.Dir, "calls.jsonl"), "http://127.0.0.1:7"
	l.config = Config{Dir: l.Dir, BinDir: t.TempDir(), Log: slog.New(slog.DiscardHandler), Region: "us-east-1", NodeGrace: 50 * time.Second, NodeLease: 40 * time.Second}
	l.ports = ports{etcd: 1, etcdPeer: 2, apiServer: 3, controllerManager: 4, scheduler: 5, kwok: 6, simulator: 7}
	if err := l.prepare(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Stop)
	return l
}

// script puts a shell script where the lab looks for a binary.
func (l *Lab) script(t *testing.T, name, text string) component {
	t.Helper()
	if err := os.WriteFile(filepath.Join(l.config.BinDir, name), []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return component{name: name, health: "http://127.0.0.1:1/healthz"}
}

func (l *Lab) components() []component {
	return []component{l.etcd(), l.apiServer(), l.controllerManager(), l.scheduler(), l.kwok(), l.simulator()}
}

func TestEveryProcessListensOnLoopbackOnly(t *testing.T) {
	l := testLab(t)
	listening := map[string][]string{ // the flags that say where
		nameEtcd:              {"--listen-client-urls", "--listen-peer-urls", "--advertise-client-urls", "--initial-advertise-peer-urls"},
		nameAPIServer:         {"--bind-address", "--advertise-address"},
		nameControllerManager: {"--bind-address"},
		nameScheduler:         {"--bind-address"},
		nameKwok:              {"--server-address", "--node-ip"},
		nameSimulator:         {"--listen"},
	}
	for _, c := range l.components() {
		t.Run(c.name, func(t *testing.T) {
			given := map[string]string{}
			for _, arg := range c.args {
				name, value, _ := strings.Cut(arg, "=")
				given[name] = value
			}
			for _, flag := range listening[c.name] {
				if address := strings.TrimPrefix(given[flag], "http://"); !strings.HasPrefix(address, "127.0.0.1") {
					t.Errorf("%s is %q: nothing of the lab may be reached from elsewhere", flag, given[flag])
				}
			}
			if !strings.Contains(c.health, "://127.0.0.1:") {
				t.Errorf("its health is asked at %s", c.health)
			}
		})
	}
}

// TestFilesThatProcessesReadAreThere: a flag that names a file of the lab's folder names one that prepare wrote.
func TestFilesThatProcessesReadAreThere(t *testing.T) {
	l := testLab(t)
	written := map[string]bool{"--data-dir": true, "--audit-log-path": true, "--call-log": true} // by the processes themselves
	read := 0
	for _, c := range l.components() {
		for _, arg := range c.args {
			name, value, _ := strings.Cut(arg, "=")
			if written[name] || !strings.HasPrefix(value, l.Dir) {
				continue
			}
			read++
			if _, err := os.Stat(value); err != nil {
				t.Errorf("%s: %s: %v", c.name, name, err)
			}
		}
	}
	if read < 20 {
		t.Errorf("only %d flags name a file: is the folder given?", read)
	}
}

func TestPrepareForgetsAnEarlierLabOnly(t *testing.T) {
	g := NewWithT(t)
	l := testLab(t)
	for _, name := range []string{"audit.log", "joined", "etcd/member", "of-the-user"} {
		path := filepath.Join(l.Dir, name)
		g.Expect(os.MkdirAll(filepath.Dir(path), 0o700)).To(Succeed())
		g.Expect(os.WriteFile(path, []byte("earlier"), 0o600)).To(Succeed())
	}
	before, err := os.ReadFile(l.pki.path("ca.crt"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(l.prepare()).To(Succeed())
	for _, name := range []string{"audit.log", "joined", "etcd"} {
		g.Expect(filepath.Join(l.Dir, name)).NotTo(BeAnExistingFile())
	}
	g.Expect(filepath.Join(l.Dir, "of-the-user")).To(BeARegularFile())
	after, err := os.ReadFile(l.pki.path("ca.crt"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(after).NotTo(Equal(before), "a lab's certificates are its own")
}

func TestKubeconfigIsOfItsUser(t *testing.T) {
	g := NewWithT(t)
	l := testLab(t)
	path := l.kubeconfigPath("lab:watcher")
	g.Expect(filepath.Base(path)).To(Equal("lab-watcher"))
	g.Expect(l.writeKubeconfig(path, "lab:watcher", groupMasters)).To(Succeed())
	config, err := clientcmd.BuildConfigFromFlags("", path)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(config.Host).To(Equal("https://127.0.0.1:3"))
	g.Expect(config.CAData).To(Equal(l.pki.cluster.pem))
	g.Expect(parse(g, config.CertData).Subject.CommonName).To(Equal("lab:watcher"))
	user, err := l.UserConfig("lab:judge")
	g.Expect(err).NotTo(HaveOccurred())
	certificate := parse(g, user.CertData)
	g.Expect(certificate.Subject.CommonName).To(Equal("lab:judge"))
	g.Expect(certificate.Subject.Organization).To(BeEmpty(), "no group that was not asked for")
	g.Expect(l.writeKubeconfig(filepath.Join(l.Dir, "audit.yaml", "x"), "u")).To(MatchError(ContainSubstring("write kubeconfig of u")))
}

func TestAwait(t *testing.T) {
	const patience = 10 * time.Second
	cases := map[string]struct {
		reason string
		script string
		limit  time.Duration
		check  func() error
		want   []string
	}{
		"Serves":      {"nothing to say", "exec sleep 60", patience, func() error { return nil }, nil},
		"DiesBadly":   {"with the end of its log", "echo no frobnicator; exit 3", patience, func() error { return errors.New("refused") }, []string{"exit status 3", "no frobnicator"}},
		"EndsQuietly": {"a server that ends does not serve", "echo bye", patience, func() error { return errors.New("refused") }, []string{"ended by itself", "bye"}},
		"NeverServes": {"what it answered last", "echo starting; exec sleep 60", 200 * time.Millisecond, func() error { return errors.New("503") }, []string{"deadline exceeded", "503", "127.0.0.1:1"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			l := testLab(t)
			c := l.script(t, "server", tc.script)
			if err := l.start(c); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), tc.limit)
			defer cancel()
			err := l.await(ctx, c.name, tc.check)
			if (err != nil) != (len(tc.want) > 0) {
				t.Fatalf("%s: got %v", tc.reason, err)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%s: want %q in: %v", tc.reason, want, err)
				}
			}
		})
	}
}

func TestAwaitHealthyAsksTheProcess(t *testing.T) {
	g := NewWithT(t)
	answers := []int{http.StatusServiceUnavailable, http.StatusServiceUnavailable, http.StatusOK}
	asked := 0
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(answers[min(asked, len(answers)-1)])
		asked++
	}))
	defer server.Close()
	l := testLab(t)
	c := l.script(t, "server", "exec sleep 60")
	c.health = server.URL + simapi.PathHealth
	g.Expect(l.start(c)).To(Succeed())
	g.Expect(l.awaitHealthy(t.Context(), c)).To(Succeed())
	g.Expect(asked).To(Equal(len(answers)), "it is asked until it says yes, whoever signed its certificate")
}

func TestOnlyAnUnexpectedEndBreaksTheLab(t *testing.T) {
	g := NewWithT(t)
	l := testLab(t)
	g.Expect(l.Kill("etcd")).To(MatchError(ContainSubstring("no process of that name")))
	g.Expect(l.Restart(t.Context(), "etcd")).To(MatchError(ContainSubstring("no process of that name")))
	g.Expect(l.start(component{name: "unbuilt"})).To(MatchError(ContainSubstring("unbuilt")))

	obeys := l.script(t, "obeys", "exec sleep 60")
	g.Expect(l.start(obeys)).To(Succeed())
	g.Expect(l.Kill("obeys")).To(Succeed())
	g.Eventually(l.running["obeys"].process.Done(), "10s").Should(BeClosed())
	g.Consistently(l.Failed(), "300ms").ShouldNot(Receive(), "it was killed on purpose")

	for _, name := range []string{"first", "second"} {
		g.Expect(l.start(l.script(t, name, "echo "+name+" is broken; exit 1"))).To(Succeed())
		g.Eventually(l.running[name].process.Done(), "10s").Should(BeClosed())
	}
	g.Eventually(l.Failed(), "5s").Should(Receive(MatchError(Or(ContainSubstring("first is broken"), ContainSubstring("second is broken")))))
}

func TestARestartedProcessIsAnotherOfTheSameFlags(t *testing.T) {
	g := NewWithT(t)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	l := testLab(t)
	l.config.ExtraArgs = map[string][]string{"server": {"--extra"}}
	c := l.script(t, "server", `echo "$@"; exec sleep 60`)
	c.args, c.health = []string{"--own"}, server.URL
	g.Expect(l.start(c)).To(Succeed())
	before := l.running["server"].process
	g.Eventually(func() string { return before.Tail(2) }, "10s").Should(Equal("--own --extra"))
	g.Expect(l.Restart(t.Context(), "server")).To(Succeed())
	after := l.running["server"].process
	g.Eventually(before.Done(), "10s").Should(BeClosed())
	g.Expect(after.PID()).NotTo(Equal(before.PID()))
	g.Eventually(func() string { return after.Tail(2) }, "10s").Should(Equal("--own --extra\n--own --extra"), "a log for both, the lab's flags first")
	g.Consistently(l.Failed(), "300ms").ShouldNot(Receive())
}

func TestStopEndsWhatRunsAndMayBeRepeated(t *testing.T) {
	g := NewWithT(t)
	l := testLab(t)
	var started []*process.Process
	for _, name := range []string{nameEtcd, nameAPIServer, nameKwok} {
		g.Expect(l.start(l.script(t, name, "exec sleep 60"))).To(Succeed())
		started = append(started, l.running[name].process)
	}
	l.Stop()
	l.Stop()
	for _, p := range started {
		g.Expect(p.Done()).To(BeClosed(), p.Name())
	}
	g.Expect(l.Failed()).NotTo(Receive(), "stopping is no failure")
}

func TestUpSaysWhatIsWrongAndLeavesNothing(t *testing.T) {
	g := NewWithT(t)
	_, err := Up(t.Context(), Config{})
	g.Expect(err).To(MatchError(ContainSubstring("BinDir and Config.Dir are required")))

	l := testLab(t)
	for _, name := range allBinaries {
		l.script(t, name, "echo "+name+" is broken; exit 1")
	}
	dir := t.TempDir()
	_, err = Up(t.Context(), Config{BinDir: l.config.BinDir, Dir: dir})
	g.Expect(err).To(MatchError(And(ContainSubstring(dir), ContainSubstring("is broken"))))
	again, err := lock(dir)
	g.Expect(err).NotTo(HaveOccurred(), "the folder is free again")
	g.Expect(again.Close()).To(Succeed())
}

func TestFreePortsDiffer(t *testing.T) {
	p, err := freePorts()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, port := range []int{p.etcd, p.etcdPeer, p.apiServer, p.controllerManager, p.scheduler, p.kwok, p.simulator} {
		if port == 0 || seen[port] {
			t.Errorf("port %d is given twice, or none", port)
		}
		seen[port] = true
	}
}
