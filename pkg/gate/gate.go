// Package gate is the port to Prometheus: it asks what a gate of strategy.gates measures, and judges nothing.
package gate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/api"
	prometheus "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

const (
	// Timeout of one query: a gate is asked between pools, and a look at the world has half a minute in all.
	Timeout = 5 * time.Second
	// mostOfAnAnswer is how much of an answer is read, in bytes: a gate's has a few values, and a mistyped query every series there is.
	mostOfAnAnswer = 1 << 20
)

// Prometheus asks Prometheus servers.
type Prometheus struct {
	transport http.RoundTripper
	clock     func() time.Time
}

// New asks over the transport; queries are about the clock's time.
func New(transport http.RoundTripper, clock func() time.Time) *Prometheus {
	return &Prometheus{transport: transport, clock: clock}
}

// Query evaluates PromQL at the server, which answers with a vector or a scalar. It never waits longer than Timeout. That Prometheus
// refuses the query, and that it answers with something else, is a terminal error (inventory.ClassTerminal); all others may end by
// themselves.
func (p *Prometheus) Query(ctx context.Context, url, query string) ([]inventory.Sample, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	client, err := api.NewClient(api.Config{Address: url, Client: &http.Client{Transport: bounded{p.transport}, CheckRedirect: stay}})
	if err != nil {
		return nil, inventory.Terminal(fmt.Errorf("the gate's url %s: %w", url, err))
	}
	value, _, err := prometheus.NewAPI(client).Query(ctx, query, p.clock())
	if err != nil {
		return nil, classed(fmt.Errorf("asking Prometheus at %s: %w", url, err))
	}
	return samplesOf(value)
}

// stay follows no redirect: the user named one server, and another may be one that castoff's pod alone can reach.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// classed tells a query that cannot be evaluated from a server that cannot answer, by the API's error types (Prometheus HTTP API,
// "Format overview").
func classed(err error) error {
	var e *prometheus.Error
	if errors.As(err, &e) && (e.Type == prometheus.ErrBadData || e.Type == prometheus.ErrExec) {
		return inventory.Terminal(err)
	}
	return err
}

func samplesOf(value model.Value) ([]inventory.Sample, error) {
	switch v := value.(type) {
	case nil:
		return nil, inventory.Terminal(errors.New("Prometheus answers with no result"))
	case *model.Scalar:
		return []inventory.Sample{{Value: float64(v.Value)}}, nil
	case model.Vector:
		return vectorOf(v)
	}
	return nil, inventory.Terminal(fmt.Errorf("the query returns a %s, and a gate needs a vector or a scalar: take the range out, or put a function such as avg_over_time around it", value.Type()))
}

func vectorOf(v model.Vector) ([]inventory.Sample, error) {
	out := make([]inventory.Sample, 0, len(v))
	for _, s := range v {
		if s.Histogram != nil {
			return nil, inventory.Terminal(errors.New("the query returns native histograms, and a gate needs numbers: use histogram_quantile or the like"))
		}
		out = append(out, inventory.Sample{Series: s.Metric.String(), Value: float64(s.Value)})
	}
	return out, nil
}

// bounded reads no more than mostOfAnAnswer of an answer.
type bounded struct{ transport http.RoundTripper }

// RoundTrip is http.RoundTripper's.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := b.transport.RoundTrip(r)
	if err != nil {
		return response, err
	}
	response.Body = struct {
		io.Reader
		io.Closer
	}{http.MaxBytesReader(nil, response.Body, mostOfAnAnswer), response.Body}
	return response, nil
}
