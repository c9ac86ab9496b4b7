package process

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// attributes give the child a process group of its own, so that Ctrl-C reaches the lab first and the lab stops it in
// order, and have the kernel kill it when the lab ends without doing so.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// peakRSSKiB reads the kernel's own high-water mark of a process (VmHWM in proc(5)). The rusage of an ended child would
// be simpler but counts the parent's memory at the fork.
func peakRSSKiB(pid int) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(status) {
		value, ok := bytes.CutPrefix(line, []byte("VmHWM:"))
		if !ok {
			continue
		}
		fields := bytes.Fields(value)
		if len(fields) == 0 {
			return 0
		}
		kib, err := strconv.ParseInt(string(fields[0]), 10, 64)
		if err != nil {
			return 0
		}
		return kib
	}
	return 0
}
