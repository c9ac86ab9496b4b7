// Command awssim serves the AWS simulator.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/castoff-sh/castoff/e2e/awssim"
)

// stopGrace is how long open requests may take once the simulator is told to stop.
const stopGrace = 2 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "awssim:", err)
		os.Exit(1)
	}
}

// run serves until the context ends, and first writes the address to out.
func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("awssim", flag.ContinueOnError)
	flags.SetOutput(out)
	settings := awssim.DefaultSettings
	listen := flags.String("listen", "127.0.0.1:4566", "`address` to serve AWS and the side door on; port 0 takes a free one")
	callLog := flags.String("call-log", "", "`file` that gets every AWS request as a JSON line")
	region := flags.String("region", "us-east-1", "the one region that exists")
	flags.DurationVar(&settings.Lag, "lag", settings.Lag, "how far Describe calls of EC2, Auto Scaling and EKS are behind")
	flags.DurationVar(&settings.PendingDelay, "pending-delay", settings.PendingDelay, "how long an instance is pending")
	flags.DurationVar(&settings.BootDelay, "boot-delay", settings.BootDelay, "how long a running instance takes to join as a Node")
	flags.DurationVar(&settings.ShutdownDelay, "shutdown-delay", settings.ShutdownDelay, "how long an instance is shutting down")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	var calls io.Writer
	if *callLog != "" {
		f, err := os.Create(*callLog)
		if err != nil {
			return fmt.Errorf("opening the call log: %w", err)
		}
		defer func() { _ = f.Close() }()
		calls = f
	}
	return serve(ctx, *listen, out, awssim.New(awssim.Options{Region: *region, Settings: settings, CallLog: calls}))
}

// serve runs the simulator on the address.
func serve(ctx context.Context, address string, out io.Writer, sim *awssim.Server) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	if _, err := fmt.Fprintf(out, "http://%s\n", listener.Addr()); err != nil {
		return fmt.Errorf("telling the address: %w", err)
	}
	// Requests end with the context, so that neither long polls nor event streams hold the stop up.
	server := &http.Server{Handler: sim, ReadHeaderTimeout: 10 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx }}
	go sim.Run(ctx)
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serving: %w", err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		return server.Close()
	}
	return nil
}
