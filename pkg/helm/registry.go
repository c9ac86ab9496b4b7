package helm

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/registry"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"
)

const (
	// pullTimeout is less than a look at the cluster may take: a registry that swallows packets must not end it.
	pullTimeout = 10 * time.Second
	// pullPause is for how long a pull that failed is not tried again.
	pullPause = time.Minute
)

// maxChart is the largest archive that is read, in bytes; Karpenter's has 50 KiB with its CRDs.
const maxChart = 10 << 20

// RemoteChart is a chart in an OCI registry.
type RemoteChart struct {
	// Repository, for example "oci://public.ecr.aws/karpenter/karpenter".
	Repository string
	// Version is the chart's, and its tag in the registry.
	Version string
	// Digest of the manifest, "sha256:…"; empty: whatever the tag names.
	Digest string
}

func (c RemoteChart) String() string {
	name := c.Repository + ":" + tag(c.Version)
	if c.Digest != "" {
		name += "@" + c.Digest
	}
	return name
}

// tag is the version as Helm pushes it: a registry takes no + in a tag (https://helm.sh/docs/topics/registries).
func tag(version string) string { return strings.ReplaceAll(version, "+", "_") }

// PullError says that a chart could not be had from its registry. What is installed already goes on.
type PullError struct {
	Chart string
	// Status is the registry's answer, 0 if there was none.
	Status int
	Err    error
}

// Error says what the registry answered and what to do about it.
func (e *PullError) Error() string {
	text := fmt.Sprintf("pulling chart %s: %v", e.Chart, e.Err)
	switch e.Status {
	case http.StatusForbidden, http.StatusUnauthorized:
		return text + "; castoff pulls anonymously, so either the chart is not public, or a proxy or mirror on the way sends stored credentials that have expired " +
			"(public registries refuse stale credentials where they take none): renew or remove those, or name a mirror in spec.provisioner.chart.repository"
	case http.StatusNotFound:
		return text + "; correct spec.provisioner.chart: repository, version and digest"
	}
	return text + "; it is tried again"
}

// Unwrap gives the cause.
func (e *PullError) Unwrap() error { return e.Err }

// pull gives the chart's archive. It goes by nobody's stored credentials: a registry that serves the public refuses stale ones.
func pull(ctx context.Context, c RemoteChart) ([]byte, error) {
	data, err := fetch(ctx, c)
	if err == nil {
		return data, nil
	}
	failed := &PullError{Chart: c.String(), Err: err}
	var answer *errcode.ErrorResponse
	switch {
	case errors.As(err, &answer):
		failed.Status = answer.StatusCode
	case errors.Is(err, errdef.ErrNotFound):
		failed.Status = http.StatusNotFound
	}
	return nil, failed
}

func fetch(ctx context.Context, c RemoteChart) ([]byte, error) {
	repository, err := remote.NewRepository(strings.TrimPrefix(c.Repository, "oci://"))
	if err != nil {
		return nil, err
	}
	repository.PlainHTTP = loopback(repository.Reference.Registry)
	repository.Client = &auth.Client{Client: &http.Client{Timeout: pullTimeout}, Cache: auth.NewCache()}
	// By its digest a manifest is checked against it on the way.
	_, found, err := oras.FetchBytes(ctx, repository, cmp.Or(c.Digest, tag(c.Version)), oras.FetchBytesOptions{})
	if err != nil {
		return nil, err
	}
	var manifest ocispec.Manifest
	if err := json.Unmarshal(found, &manifest); err != nil {
		return nil, fmt.Errorf("its manifest is no JSON: %w", err)
	}
	for _, layer := range manifest.Layers {
		if layer.MediaType != registry.ChartLayerMediaType {
			continue
		}
		if layer.Size > maxChart {
			return nil, fmt.Errorf("its archive has %d bytes, castoff reads at most %d", layer.Size, maxChart)
		}
		return content.FetchAll(ctx, repository.Blobs(), layer)
	}
	return nil, errors.New("it is no Helm chart: its manifest has no layer of type " + registry.ChartLayerMediaType)
}

// loopback says that a registry is on this very machine: like container runtimes, castoff speaks plain HTTP to that one.
func loopback(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	ip := net.ParseIP(name)
	return name == "localhost" || ip != nil && ip.IsLoopback()
}

// loaded gives the chart that a release asks for. An archive is pulled once: what is installed must not change because a tag
// was moved, and a registry that is down must not stop who has the chart.
func (c *Client) loaded(ctx context.Context, r Release) (*chart.Chart, error) {
	if r.Remote == nil {
		loaded, err := load(r.Chart)
		if err != nil {
			return nil, fmt.Errorf("release %s: loading its chart: %w", r, err)
		}
		return loaded, nil
	}
	archive, err := c.archive(ctx, *r.Remote)
	if err != nil {
		return nil, fmt.Errorf("release %s: %w", r, err)
	}
	return unpack(*r.Remote, archive)
}

// archive pulls the chart unless it was pulled last, or could not be a moment ago.
func (c *Client) archive(ctx context.Context, chart RemoteChart) ([]byte, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	last := c.pulled
	if last.chart == chart && (last.err == nil || c.now().Sub(last.at) < pullPause) {
		return last.archive, last.err
	}
	limited, cancel := context.WithTimeout(ctx, pullTimeout)
	defer cancel()
	archive, err := pull(limited, chart)
	if ctx.Err() == nil { // else it says nothing of the registry
		c.pulled = pulled{chart: chart, archive: archive, err: err, at: c.now()}
	}
	return archive, err
}

// pulled is the outcome of the last pull. One is enough: there is one engine.
type pulled struct {
	chart   RemoteChart
	archive []byte
	err     error
	at      time.Time
}

func unpack(c RemoteChart, archive []byte) (*chart.Chart, error) {
	unpacked, err := loader.LoadArchive(io.LimitReader(bytes.NewReader(archive), maxChart))
	if err != nil {
		return nil, &PullError{Chart: c.String(), Err: fmt.Errorf("reading its archive: %w", err)}
	}
	if have := metadata(unpacked).Version; have != c.Version {
		return nil, &PullError{Chart: c.String(), Status: http.StatusNotFound, Err: fmt.Errorf("the registry has version %s of it there", have)}
	}
	return unpacked, nil
}
