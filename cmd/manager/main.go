// Command manager is castoff's operator: flags and wiring, no logic.
package main

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/castoff-sh/castoff/controllers"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// memoryLimit is from where on the runtime collects more often, and gives back at once what it does not need: half of the chart's limit,
// less the 80 MiB of the binary that are in memory.
const memoryLimit = 48 << 20

// version is set by the linker.
var version = "dev"

func main() {
	if len(os.Args) > 1 {
		os.Exit(subcommand(os.Args[1]))
	}
	if err := run(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "castoff:", err)
		os.Exit(1)
	}
}

// subcommand: `pause` sleeps until it is told to end, which is all that a canary or placeholder pod has to do.
func subcommand(name string) int {
	switch name {
	case "pause":
		<-ctrl.SetupSignalHandler().Done()
		return 0
	case "version", "--version":
		fmt.Println(version)
		return 0
	}
	fmt.Fprintf(os.Stderr, "castoff: unknown command %q; known are pause and version, and none runs the operator\n", name)
	return 2
}

func run(ctx context.Context) error {
	// castoff works little and waits long: collecting twice as often costs nothing that anybody would notice, and halves the
	// garbage that its memory is made of.
	debug.SetGCPercent(50)
	debug.SetMemoryLimit(memoryLimit)
	zl, err := zap.NewProduction()
	if err != nil {
		return fmt.Errorf("starting the logger: %w", err)
	}
	log.SetLogger(zapr.NewLogger(zl))
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("finding the cluster: %w", err)
	}
	namespace := env("POD_NAMESPACE", "castoff-system")
	scheme, err := controllers.Scheme()
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                        scheme,
		Cache:                         controllers.CacheOptions(),
		Client:                        client.Options{Cache: controllers.ClientCacheOptions(), FieldOwner: inventory.FieldManager},
		Metrics:                       metricsserver.Options{BindAddress: address("METRICS_BIND_ADDRESS", "METRICS_PORT", 8080)},
		HealthProbeBindAddress:        address("HEALTH_PROBE_BIND_ADDRESS", "HEALTH_PROBE_PORT", 8081),
		LeaderElection:                env("LEADER_ELECTION", "true") == "true",
		LeaderElectionID:              "castoff",
		LeaderElectionNamespace:       namespace,
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return fmt.Errorf("starting the manager: %w", err)
	}
	return serve(ctx, mgr, namespace)
}

func serve(ctx context.Context, mgr manager.Manager, namespace string) error {
	observer, err := controllers.NewObserver(ctx, controllers.Wiring{
		Config: mgr.GetConfig(), Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Cache: mgr.GetCache(), Clock: time.Now, Namespace: namespace,
		EngineNamespace: env("ENGINE_NAMESPACE", "kube-system"), EngineImage: env("ENGINE_IMAGE", "ghcr.io/castoff-sh/provisioner:"+version),
		ManagerImage: env("MANAGER_IMAGE", "ghcr.io/castoff-sh/manager:"+version),
	})
	if err != nil {
		return err
	}
	observer.RolesBoundary, observer.Rights = env("ROLES_PERMISSIONS_BOUNDARY", ""), mgr.GetClient()
	r := &controllers.Reconciler{
		Observer: observer, Recorder: mgr.GetEventRecorder("castoff"), Options: controllers.Options{Namespace: namespace, NodesAtOnce: 8},
	}
	if err := metrics.Registry.Register(r.Metrics()); err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	if err := r.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("setting up the controller: %w", err)
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	if err := mgr.AddReadyzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

func env(key, fallback string) string {
	if v := os.Getenv(key); v != "" {
		return v
	}
	return fallback
}

// address to listen on: the host from one variable (empty: every interface, as probes and scrapes need), the port from another.
func address(hostKey, portKey string, port int) string {
	return env(hostKey, "") + ":" + env(portKey, strconv.Itoa(port))
}
