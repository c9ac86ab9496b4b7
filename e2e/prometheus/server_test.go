package prometheus

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/web"
)

// server is a Prometheus as its own main puts it together, without anything to scrape.
type server struct {
	*web.Handler
	url string
}

// options of a server.
type options struct {
	// series in promqltest's notation: "load 1m", and a line per series.
	series string
	// prefix is --web.route-prefix.
	prefix string
	// webConfig is the content of --web.config.file.
	webConfig string
	// timeout is --query.timeout.
	timeout time.Duration
	// maxSamples is --query.max-samples.
	maxSamples int
}

// serve runs a server on a free port of the loopback interface until the test ends.
func serve(t *testing.T, o options) *server {
	t.Helper()
	if o.timeout == 0 {
		o.timeout = time.Minute
	}
	if o.maxSamples == 0 {
		o.maxSamples = 10_000
	}
	db := promqltest.LoadedStorage(t, o.series)
	engine := promqltest.NewTestEngineWithOpts(t, promql.EngineOpts{MaxSamples: o.maxSamples, Timeout: o.timeout})
	h := web.New(promslog.NewNopLogger(), &web.Options{
		Context: t.Context(), Storage: db, ExemplarStorage: db, QueryEngine: engine, Parser: parser.NewParser(parser.Options{}),
		ListenAddresses: []string{"127.0.0.1:0"}, MaxConnections: 16, ReadTimeout: time.Minute,
		ExternalURL: &url.URL{Scheme: "http", Host: "prometheus.example", Path: o.prefix}, RoutePrefix: "/" + o.prefix,
		Version: &web.PrometheusVersion{}, Registerer: prometheus.NewRegistry(), Gatherer: prometheus.NewRegistry(),
	})
	if err := h.ApplyConfig(&config.Config{GlobalConfig: config.GlobalConfig{ScrapeInterval: model.Duration(time.Minute)}}); err != nil {
		t.Fatal(err)
	}
	address := run(t, h, o.webConfig)
	h.SetReady(web.Ready)
	return &server{Handler: h, url: "http://" + address + "/" + o.prefix}
}

// run listens, and returns where.
func run(t *testing.T, h *web.Handler, webConfig string) string {
	t.Helper()
	file := ""
	if webConfig != "" {
		file = filepath.Join(t.TempDir(), "web.yaml")
		if err := os.WriteFile(file, []byte(webConfig), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	listeners, err := h.Listeners()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx, listeners, file) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the server ended: %v", err)
		}
	})
	return listeners[0].Addr().String()
}
