package process_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/castoff-sh/castoff/e2e/lab/process"
)

// The test binary is its own child: what it does is told by this variable.
const roleVariable = "PROCESS_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "":
		os.Exit(m.Run())
	case "fail":
		fmt.Println("a line nobody needs")
		fmt.Println("cannot open the frobnicator")
		os.Exit(3)
	case "sleep":
		fmt.Println("sleeping")
		time.Sleep(time.Hour)
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("ignoring SIGTERM")
		time.Sleep(time.Hour)
	case "environment":
		fmt.Println(strings.Join(os.Environ(), "\n"))
	case "memory":
		block := make([]byte, 64<<20)
		for i := range block {
			block[i] = 1
		}
		fmt.Println("allocated", len(block))
		time.Sleep(time.Hour)
		runtime.KeepAlive(block)
	case "parent":
		child, err := process.Start(options("sleep", os.Args[1]))
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(child.PID())
		time.Sleep(time.Hour)
	}
}

func options(role, logFile string) process.Options {
	return process.Options{Name: role, Path: os.Args[0], Env: []string{roleVariable + "=" + role}, LogFile: logFile}
}

func start(t *testing.T, role string) (*process.Process, string) {
	t.Helper()
	logFile := filepath.Join(t.TempDir(), "logs", role+".log")
	p, err := process.Start(options(role, logFile))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p, logFile
}

func TestErrShowsTheEndOfTheLog(t *testing.T) {
	p, logFile := start(t, "fail")
	err := p.Err()
	if err == nil {
		t.Fatal("want an error for exit code 3")
	}
	for _, want := range []string{"fail", "exit status 3", "cannot open the frobnicator", logFile} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error does not mention %q: %v", want, err)
		}
	}
	if got := p.ExitCode(); got != 3 {
		t.Errorf("exit code: got %d, want 3", got)
	}
}

func TestStartOfAMissingBinaryNamesIt(t *testing.T) {
	_, err := process.Start(process.Options{Name: "etcd", Path: "/nowhere/etcd", LogFile: filepath.Join(t.TempDir(), "etcd.log")})
	if err == nil || !strings.Contains(err.Error(), "/nowhere/etcd") {
		t.Fatalf("want an error that names the binary, got %v", err)
	}
}

func TestNothingIsInherited(t *testing.T) {
	t.Setenv("AWS_SECRET_ACCESS_KEY", "leaked")
	p, logFile := start(t, "environment")
	if err := p.Err(); err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(process.Tail(logFile, 100), "\n") { // a test for coverage ends with a line of its own
		if strings.Contains(line, "=") && line != roleVariable+"=environment" {
			t.Errorf("the child inherited %q", line)
		}
	}
}

func TestStopEndsAChildThatObeys(t *testing.T) {
	p, _ := start(t, "sleep")
	p.Stop(t.Context())
	if got, want := p.ExitCode(), 128+int(syscall.SIGTERM); got != want {
		t.Errorf("exit code: got %d, want %d", got, want)
	}
	p.Stop(t.Context()) // a second time is harmless
}

func TestStopKillsAChildThatDoesNotObeyInTime(t *testing.T) {
	g := NewWithT(t)
	p, logFile := start(t, "stubborn")
	g.Eventually(func() string { return process.Tail(logFile, 1) }, "10s", "20ms").Should(Equal("ignoring SIGTERM"))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	p.Stop(ctx)
	g.Expect(p.ExitCode()).To(Equal(128 + int(syscall.SIGKILL)))
}

func TestPeakRSSIsTheChildsOwn(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells")
	}
	g := NewWithT(t)
	p, _ := start(t, "memory")
	g.Eventually(p.PeakRSS, "10s", "50ms").Should(BeNumerically(">", 64))
	p.Kill()
	if after := p.PeakRSS(); after < 64 {
		t.Errorf("forgotten after its end: %v MiB", after)
	}
}

func TestPeakRSSOfAShortLife(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells")
	}
	g := NewWithT(t)
	p, logFile := start(t, "sleep")
	g.Eventually(func() string { return process.Tail(logFile, 1) }, "10s", "5ms").Should(Equal("sleeping"))
	p.Kill()
	g.Expect(p.PeakRSS()).To(BeNumerically(">", 0), "read before the signal at the latest")
}

func TestChildDiesWithItsParent(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux can tie a child's life to its parent's")
	}
	g := NewWithT(t)
	output := filepath.Join(t.TempDir(), "parent.out")
	out, err := os.Create(output)
	g.Expect(err).NotTo(HaveOccurred())
	parent := exec.Command(os.Args[0], filepath.Join(t.TempDir(), "child.log"))
	parent.Env = []string{roleVariable + "=parent"}
	parent.Stdout = out
	g.Expect(parent.Start()).To(Succeed())
	var pid int
	g.Eventually(func() (err error) {
		pid, err = strconv.Atoi(process.Tail(output, 1))
		return err
	}, "10s", "20ms").Should(Succeed())
	g.Expect(syscall.Kill(pid, 0)).To(Succeed(), "the child runs")

	g.Expect(parent.Process.Kill()).To(Succeed())
	_ = parent.Wait()
	g.Eventually(func() bool { return alive(pid) }, "10s", "20ms").Should(BeFalse())
}

// alive tells a running process from one that is gone or waits to be reaped.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}

func TestTail(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	long := strings.Repeat("x", 100) + "\n"
	if err := os.WriteFile(file, []byte(strings.Repeat(long, 2000)+"last but one\nlast\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := process.Tail(file, 2); got != "last but one\nlast" {
		t.Errorf("got %q", got)
	}
	if got := process.Tail(file+".missing", 2); got != "" {
		t.Errorf("missing file: got %q", got)
	}
}

func TestFreePort(t *testing.T) {
	seen := map[int]bool{}
	for range 50 {
		port, err := process.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		if seen[port] {
			t.Fatalf("port %d handed out twice", port)
		}
		seen[port] = true
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			t.Fatalf("port %d is not free: %v", port, err)
		}
		_ = listener.Close()
	}
}
