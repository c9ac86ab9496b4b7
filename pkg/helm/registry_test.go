package helm

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	awsapis "github.com/aws/karpenter-provider-aws/pkg/apis"
	"github.com/google/go-cmp/cmp"
	ocidigest "github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"helm.sh/helm/v3/pkg/chartutil"
	coreapis "sigs.k8s.io/karpenter/pkg/apis"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// ociRegistry is an OCI registry on loopback that serves what was pushed, to anonymous callers only unless told otherwise.
type ociRegistry struct {
	*httptest.Server
	mutex sync.Mutex
	blobs map[string][]byte // by digest, and manifests by name:tag too
	types map[string]string
	// answer stands before everything, if it is set.
	answer   func(http.ResponseWriter, *http.Request) bool
	requests []*http.Request
}

func startRegistry(t *testing.T) *ociRegistry {
	t.Helper()
	r := &ociRegistry{blobs: map[string][]byte{}, types: map[string]string{}}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *ociRegistry) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.requests = append(r.requests, request)
	if r.answer != nil && r.answer(w, request) {
		return
	}
	parts := strings.Split(request.URL.Path, "/")
	reference := parts[len(parts)-1]
	content, ok := r.blobs[reference]
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", r.types[reference])
	w.Header().Set("Docker-Content-Digest", digestOf(content))
	w.Write(content) //nolint:errcheck // the client sees it
}

func digestOf(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func (r *ociRegistry) blob(mediaType string, content []byte) ocispec.Descriptor {
	digest := digestOf(content)
	r.blobs[digest], r.types[digest] = content, mediaType
	return ocispec.Descriptor{MediaType: mediaType, Digest: ocidigest.Digest(digest), Size: int64(len(content))}
}

// push packs a chart as `helm push` does, and says under what name it is to be had.
func (r *ociRegistry) push(t *testing.T, root fs.FS) RemoteChart {
	t.Helper()
	loaded, err := load(root)
	if err != nil {
		t.Fatal(err)
	}
	file, err := chartutil.Save(loaded, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	archive, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return r.pushed(t, loaded.Metadata.Version, "application/vnd.cncf.helm.chart.content.v1.tar+gzip", archive)
}

func (r *ociRegistry) pushed(t *testing.T, version, layer string, archive []byte) RemoteChart {
	t.Helper()
	r.mutex.Lock()
	defer r.mutex.Unlock()
	manifest, err := json.Marshal(ocispec.Manifest{
		MediaType: ocispec.MediaTypeImageManifest, Config: r.blob("application/vnd.cncf.helm.config.v1+json", []byte("{}")),
		Layers: []ocispec.Descriptor{r.blob(layer, archive)},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.blobs[version], r.types[version] = manifest, ocispec.MediaTypeImageManifest
	described := r.blob(ocispec.MediaTypeImageManifest, manifest)
	return RemoteChart{Repository: "oci://" + strings.TrimPrefix(r.URL, "http://") + "/karpenter/karpenter", Version: version, Digest: described.Digest.String()}
}

// upstream is Karpenter's own chart, as its module ships it, with the definitions that its packages have in their folder crds.
func upstream(t *testing.T) fs.FS {
	t.Helper()
	root := t.TempDir()
	if err := os.CopyFS(root, upstreamChart(t)); err != nil {
		t.Fatal(err)
	}
	crds := fstest.MapFS{}
	for name, data := range map[string][]byte{
		"nodepools": awsapis.NodePoolCRD, "nodeclaims": awsapis.NodeClaimCRD, "nodeoverlays": awsapis.NodeOverlayCRD,
		"ec2nodeclasses": awsapis.EC2NodeClassCRD, "capacitybuffers": coreapis.CapacityBufferCRD,
	} {
		crds[name+".yaml"] = &fstest.MapFile{Data: data}
	}
	if err := os.CopyFS(filepath.Join(root, "crds"), crds); err != nil {
		t.Fatal(err)
	}
	return os.DirFS(root)
}

// staleCredentials are those of a login that was long ago, where Helm and its libraries look for them.
func staleCredentials(t *testing.T, host string) {
	t.Helper()
	home := t.TempDir()
	content := []byte(`{"auths":{"` + host + `":{"auth":"QVdTOm9sZA=="}}}`)
	for _, name := range []string{"config.json", "registry/config.json", ".docker/config.json"} {
		path := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("HOME", home)
	t.Setenv("DOCKER_CONFIG", home)
	t.Setenv("HELM_CONFIG_HOME", home)
	t.Setenv("HELM_REGISTRY_CONFIG", filepath.Join(home, "registry", "config.json"))
}

func TestCase_C046_TheChartIsPulledAnonymously(t *testing.T) {
	r := startRegistry(t)
	chart := r.push(t, chartOf(nil).Chart)
	staleCredentials(t, strings.TrimPrefix(r.URL, "http://"))
	r.answer = func(w http.ResponseWriter, request *http.Request) bool {
		if request.Header.Get("Authorization") == "" {
			return false
		}
		w.WriteHeader(http.StatusForbidden)
		return true
	}
	for name, want := range map[string]RemoteChart{
		"ByTag":    {Repository: chart.Repository, Version: chart.Version},
		"ByDigest": chart, // a mirror's, whose tag may be anything
	} {
		t.Run(name, func(t *testing.T) {
			archive, err := pull(t.Context(), want)
			if err != nil {
				t.Fatalf("a registry that refuses stale credentials: %v", err)
			}
			got, err := unpack(want, archive)
			if err != nil || got.Name() != "small" {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
	for _, request := range r.requests {
		if request.Method != http.MethodGet && request.Method != http.MethodHead {
			t.Errorf("pulling made a %s", request.Method)
		}
	}
}

func TestCase_C046_ARefusedPullSaysWhy(t *testing.T) {
	refuse := func(status int) func(*ociRegistry) {
		return func(r *ociRegistry) {
			r.answer = func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(status); return true }
		}
	}
	cases := map[string]struct {
		reason string
		spoil  func(*ociRegistry)
		chart  func(RemoteChart) RemoteChart
		status int
		class  inventory.Class
		want   string
	}{
		"Forbidden":    {reason: "a proxy on the way has credentials of its own", spoil: refuse(http.StatusForbidden), status: 403, class: inventory.ClassRetry, want: "stored credentials that have expired"},
		"Unauthorized": {reason: "a mirror that asks for a login", spoil: refuse(http.StatusUnauthorized), status: 401, class: inventory.ClassRetry, want: "castoff pulls anonymously"},
		"NoVersion":    {reason: "a version that was never published", chart: func(c RemoteChart) RemoteChart { return RemoteChart{Repository: c.Repository, Version: "9.9.9"} }, status: 404, class: inventory.ClassTerminal, want: "correct spec.provisioner.chart"},
		"OtherDigest": {
			reason: "what the user looked at is not what is there", class: inventory.ClassTerminal, status: 404, want: "@sha256:0000",
			chart: func(c RemoteChart) RemoteChart { c.Digest = "sha256:" + strings.Repeat("0", 64); return c },
		},
		"OtherVersion": {
			reason: "the digest is of another version", class: inventory.ClassTerminal, status: 404, want: "the registry has version 1.0.0",
			chart: func(c RemoteChart) RemoteChart { c.Version = "2.0.0"; return c },
		},
		"Unavailable": {reason: "it is tried again", spoil: refuse(http.StatusServiceUnavailable), status: 503, class: inventory.ClassRetry, want: "tried again"},
		"NoRegistry":  {reason: "nobody answers", spoil: func(r *ociRegistry) { r.Close() }, class: inventory.ClassRetry, want: "tried again"},
		"BadName":     {reason: "no reference at all", chart: func(RemoteChart) RemoteChart { return RemoteChart{Repository: "oci://", Version: "1.0.0"} }, class: inventory.ClassRetry, want: "pulling chart"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := startRegistry(t)
			chart := r.push(t, chartOf(nil).Chart)
			if tc.spoil != nil {
				tc.spoil(r)
			}
			if tc.chart != nil {
				chart = tc.chart(chart)
			}
			c := puller()
			_, err := c.loaded(t.Context(), Release{Name: "small", Namespace: "default", Remote: &chart})
			var pulling *PullError
			if !errors.As(err, &pulling) || pulling.Status != tc.status || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), chart.Repository) {
				t.Errorf("%s: got %v (%+v), want status %d and %q", tc.reason, err, pulling, tc.status, tc.want)
			}
			if got := inventory.ClassOf(classed(err)); got != tc.class {
				t.Errorf("%s: class %v, want %v", tc.reason, got, tc.class)
			}
		})
	}
}

func TestPullTakesChartsOnly(t *testing.T) {
	const chartLayer = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
	cases := map[string]struct {
		reason  string
		layer   string
		archive []byte
		want    string
	}{
		"Image":    {"a container image of the same name", ocispec.MediaTypeImageLayerGzip, []byte("x"), "it is no Helm chart"},
		"Garbage":  {"no archive", chartLayer, []byte("garbage"), "reading its archive"},
		"TooLarge": {"castoff has 256 MiB", chartLayer, bytes.Repeat([]byte("x"), maxChart+1), "castoff reads at most"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := startRegistry(t)
			chart := r.pushed(t, "1.0.0", tc.layer, tc.archive)
			_, err := puller().loaded(t.Context(), Release{Remote: &chart})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: got %v, want %q", tc.reason, err, tc.want)
			}
		})
	}
	t.Run("NoManifest", func(t *testing.T) {
		r := startRegistry(t)
		chart := r.pushed(t, "1.0.0", chartLayer, nil)
		r.blobs["1.0.0"] = []byte("no JSON")
		chart.Digest = ""
		if _, err := pull(t.Context(), chart); err == nil || !strings.Contains(err.Error(), "its manifest is no JSON") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("CutOff", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		r := startRegistry(t)
		if _, err := pull(ctx, r.push(t, chartOf(nil).Chart)); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want the context's end", err)
		}
	})
}

// TestAChartIsPulledOnce: what is installed must not change because a tag was moved, and a registry may go.
func TestAChartIsPulledOnce(t *testing.T) {
	r := startRegistry(t)
	chart := r.push(t, chartOf(nil).Chart)
	chart.Digest = ""
	c, release := puller(), Release{Name: "small", Namespace: "default", Remote: &chart}
	first, err := c.loaded(t.Context(), release)
	if err != nil {
		t.Fatal(err)
	}
	r.push(t, chartOf(map[string]string{"values.yaml": "colour: green\n"}).Chart)
	r.Close()
	second, err := c.loaded(t.Context(), release)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first.Values, second.Values); diff != "" {
		t.Errorf("-first +second\n%s", diff)
	}
	if first == second {
		t.Error("two callers share a chart that Helm may change")
	}
}

// TestAFailedPullIsNotRepeatedAtOnce: every look at the cluster would wait for a registry that does not answer.
func TestAFailedPullIsNotRepeatedAtOnce(t *testing.T) {
	r := startRegistry(t)
	chart := r.push(t, chartOf(nil).Chart)
	down := true
	r.answer = func(w http.ResponseWriter, _ *http.Request) bool {
		if down {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		return down
	}
	now := noon
	c := &Client{now: func() time.Time { return now }}
	for range 3 {
		if _, err := c.archive(t.Context(), chart); !errors.As(err, new(*PullError)) {
			t.Fatalf("got %v, want a PullError", err)
		}
	}
	asked := len(r.requests)
	if asked != 1 {
		t.Errorf("the registry was asked %d times, want once", asked)
	}
	down = false
	other := RemoteChart{Repository: chart.Repository, Version: chart.Version}
	if _, err := c.archive(t.Context(), other); err != nil {
		t.Errorf("another reference is tried at once: %v", err)
	}
	now = now.Add(pullPause + time.Second)
	if _, err := c.archive(t.Context(), chart); err != nil {
		t.Errorf("after the pause: %v", err)
	}
}

// puller is a client that has pulled nothing yet.
func puller() *Client { return &Client{now: time.Now} }

func TestLoopback(t *testing.T) {
	cases := map[string]bool{
		"127.0.0.1:5000": true, "localhost:5000": true, "localhost": true, "[::1]:5000": true, "127.0.0.1": true,
		"public.ecr.aws": false, "10.0.0.1:5000": false, "localhost.example.com": false, "": false,
	}
	for host, want := range cases {
		if got := loopback(host); got != want {
			t.Errorf("loopback(%q) = %v", host, got)
		}
	}
}
