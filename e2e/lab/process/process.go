// Package process runs the lab's programs: children with a log file of their own that never outlive their parent.
package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Options say what to run.
type Options struct {
	// Name is what messages call the process.
	Name string
	// Path is the binary.
	Path string
	Args []string
	// Env is the whole environment; nothing is inherited.
	Env []string
	// Dir is the working directory; empty: the parent's.
	Dir string
	// LogFile takes standard output and standard error; it is appended to.
	LogFile string
}

// Process is a started child.
type Process struct {
	options Options
	cmd     *exec.Cmd
	done    chan struct{}
	waitErr error
	peakRSS atomic.Int64 // KiB
}

// Start starts a child. On Linux it is killed with its parent, however that ends.
func Start(o Options) (*Process, error) {
	if err := os.MkdirAll(filepath.Dir(o.LogFile), 0o755); err != nil {
		return nil, fmt.Errorf("start %s: make its log folder: %w", o.Name, err)
	}
	logFile, err := os.OpenFile(o.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("start %s: open its log: %w", o.Name, err)
	}
	defer func() { _ = logFile.Close() }() // the child has its own descriptor
	cmd := exec.Command(o.Path, o.Args...)
	cmd.Env, cmd.Dir = o.Env, o.Dir
	if cmd.Env == nil {
		cmd.Env = []string{} // nil would inherit
	}
	cmd.Stdout, cmd.Stderr = logFile, logFile
	cmd.SysProcAttr = attributes()
	if err := spawn(cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w (is %s built?)", o.Name, err, o.Path)
	}
	p := &Process{options: o, cmd: cmd, done: make(chan struct{})}
	go p.wait()
	return p, nil
}

var spawner = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		// The parent-death signal fires when the *thread* that forked ends, so every fork happens on one that never does.
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

func spawn(cmd *exec.Cmd) error {
	result := make(chan error, 1)
	spawner() <- func() { result <- cmd.Start() }
	return <-result
}

// sampleInterval is how often a child's peak memory is read: the kernel keeps the peak, so only growth in its last
// moments can be missed.
const sampleInterval = time.Second

func (p *Process) wait() {
	exited := make(chan error, 1)
	go func() { exited <- p.cmd.Wait() }()
	ticker := time.NewTicker(sampleInterval)
	defer ticker.Stop()
	for {
		select {
		case p.waitErr = <-exited:
			close(p.done)
			return
		case <-ticker.C:
			p.sample()
		}
	}
}

func (p *Process) sample() {
	if kib := peakRSSKiB(p.PID()); kib > p.peakRSS.Load() {
		p.peakRSS.Store(kib)
	}
}

// Name is what it was started as.
func (p *Process) Name() string { return p.options.Name }

// PID is the child's process id, also of its process group.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed once the child has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// ExitCode is valid once Done: the exit code, or 128 plus the number of the signal that killed it, as a shell has it.
func (p *Process) ExitCode() int {
	<-p.done
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return p.cmd.ProcessState.ExitCode()
}

// Err is valid once Done: what ended the child, with the end of its log; nil for exit code 0.
func (p *Process) Err() error {
	<-p.done
	if p.waitErr == nil {
		return nil
	}
	return fmt.Errorf("%s ended: %w; the end of %s:\n%s", p.options.Name, p.waitErr, p.options.LogFile, p.Tail(20))
}

// Stop sends SIGTERM, kills once ctx ends, and returns when the child is gone.
func (p *Process) Stop(ctx context.Context) {
	p.signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-ctx.Done():
		p.Kill()
	}
}

// Kill ends the child at once and returns when it is gone.
func (p *Process) Kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

// signal reaches the child's whole process group. A child that is gone already is no error.
func (p *Process) signal(s syscall.Signal) {
	select {
	case <-p.done:
		return // its process id may belong to somebody else by now
	default:
	}
	p.sample() // its last chance
	if err := syscall.Kill(-p.PID(), s); err != nil && !errors.Is(err, syscall.ESRCH) {
		_ = p.cmd.Process.Signal(s)
	}
}

// PeakRSS is the most memory the child has had resident, in MiB; 0 where the system does not tell.
func (p *Process) PeakRSS() float64 {
	p.sample()
	return float64(p.peakRSS.Load()) / 1024
}

// Tail is the last n lines of the child's log.
func (p *Process) Tail(n int) string { return Tail(p.options.LogFile, n) }

// tailBytes bounds what Tail reads: logs of a long run are large.
const tailBytes = 64 << 10

// Tail is the last n lines of a file; empty when it cannot be read.
func Tail(path string, n int) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	size := int64(0)
	if info, err := f.Stat(); err == nil {
		size = info.Size()
	}
	start := max(0, size-tailBytes)
	buffer := make([]byte, size-start)
	read, _ := f.ReadAt(buffer, start)
	lines := strings.Split(strings.TrimRight(string(buffer[:read]), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
