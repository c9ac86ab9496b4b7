//go:build !linux

package process

import "syscall"

// attributes give the child a process group of its own. Only Linux can tie a child's life to its parent's.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// peakRSSKiB is known on Linux only.
func peakRSSKiB(int) int64 { return 0 }
