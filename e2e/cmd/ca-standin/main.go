// Command ca-standin takes Cluster Autoscaler's flags and its place in the lab.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/castoff-sh/castoff/e2e/castandin"
)

func main() {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, os.Args[1:], log); err != nil {
		log.Error("ca-standin ends", "error", err)
		os.Exit(255)
	}
}

func run(ctx context.Context, args []string, log *slog.Logger) error {
	opts, ignored, err := castandin.ParseOptions(args)
	if err != nil {
		return err
	}
	for _, flag := range ignored {
		log.Info("flag ignored", "flag", flag)
	}
	if err := serve(ctx, os.Getenv("METRICS_PORT"), os.Getenv("HEALTH_PROBE_PORT")); err != nil {
		return err
	}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil)
	rest, err := loader.ClientConfig()
	if err != nil {
		return fmt.Errorf("finding the cluster (KUBECONFIG or in-cluster): %w", err)
	}
	kube, err := kubernetes.NewForConfig(rest)
	if err != nil {
		return fmt.Errorf("building the Kubernetes client: %w", err)
	}
	aws, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return fmt.Errorf("finding AWS credentials: %w", err)
	}
	autoscaler, err := castandin.New(opts, kube, castandin.NewAWS(aws), log, time.Now)
	if err != nil {
		return err
	}
	return autoscaler.Run(ctx, identity())
}

// identity is the pod's name. The real one takes the hostname, which is the same in a pod but not in the lab.
func identity() string {
	for _, variable := range []string{"POD_NAME", "HOSTNAME"} {
		if name := os.Getenv(variable); name != "" {
			return name
		}
	}
	host, err := os.Hostname()
	if err != nil {
		return "cluster-autoscaler"
	}
	return host
}

// serve answers probes on loopback; a standby is healthy too.
func serve(ctx context.Context, ports ...string) error {
	mux := http.NewServeMux()
	for _, path := range []string{"/health-check", "/healthz", "/readyz", "/metrics"} {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "OK") })
	}
	for _, port := range ports {
		if port == "" {
			continue
		}
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", port))
		if err != nil {
			return fmt.Errorf("listening for probes: %w", err)
		}
		server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
		context.AfterFunc(ctx, func() { _ = server.Close() })
		go func() {
			if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				fmt.Fprintln(os.Stderr, "serving probes ended:", err)
			}
		}()
	}
	return nil
}
