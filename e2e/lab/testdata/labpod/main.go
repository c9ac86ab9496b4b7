// Command labpod is the pod's process in the lab's own tests: it answers probes, and does what it is told by its
// environment. It prints one line a start, as JSON.
package main

import (
	"encoding/json"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

func main() {
	env := map[string]string{}
	for _, line := range os.Environ() {
		name, value, _ := strings.Cut(line, "=")
		env[name] = value
	}
	_ = json.NewEncoder(os.Stdout).Encode(map[string]any{"args": os.Args[1:], "env": env, "pid": os.Getpid()})
	if os.Getenv("CRASH") != "" {
		os.Exit(7)
	}
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	ready := atomic.Bool{}
	ready.Store(os.Getenv("NEVER_READY") == "")
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !ready.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("/unready", func(http.ResponseWriter, *http.Request) { ready.Store(false) })
	go func() {
		_ = http.ListenAndServe("127.0.0.1:"+os.Getenv("HEALTH_PROBE_PORT"), mux) //nolint:gosec // a test's own process
	}()
	<-terminated
	if linger, err := time.ParseDuration(os.Getenv("LINGER")); err == nil {
		time.Sleep(linger)
	}
	_ = json.NewEncoder(os.Stdout).Encode(map[string]string{"ended": "by SIGTERM"})
}
