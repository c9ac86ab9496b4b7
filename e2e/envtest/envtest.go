// Package envtest starts a real kube-apiserver with its etcd for the tests of the Kubernetes ports: what an eviction, a
// conflict or an immutable Secret answers is the API server's word, not a fake's.
package envtest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

const assetsVariable = "KUBEBUILDER_ASSETS" // envtest's own

// Cluster is an API server without controllers, scheduler or kubelets.
type Cluster struct {
	Config *rest.Config
	// Client reads and writes without a cache, with the client-go scheme.
	Client client.Client

	environment *envtest.Environment
}

// Start brings the API server up on loopback, from bin/ of the repository. It fails where the binaries are missing: a test
// that skips itself proves nothing.
func Start(crds ...*apiextensionsv1.CustomResourceDefinition) (*Cluster, error) {
	assets, err := assets()
	if err != nil {
		return nil, err
	}
	environment := &envtest.Environment{BinaryAssetsDirectory: assets, CRDs: copies(crds)}
	config, err := environment.Start()
	if err != nil {
		return nil, fmt.Errorf("starting the API server from %s: %w", assets, err)
	}
	config.QPS, config.Burst = -1, 0 // tests wait for nobody
	c, err := client.New(config, client.Options{Scheme: scheme.Scheme})
	if err != nil {
		return nil, fmt.Errorf("building a client: %w", err)
	}
	return &Cluster{Config: config, Client: c, environment: environment}, nil
}

// Stop ends the API server and its etcd.
func (c *Cluster) Stop() error {
	if err := c.environment.Stop(); err != nil {
		return fmt.Errorf("stopping the API server: %w", err)
	}
	return nil
}

// Install adds definitions to a running API server and waits until it serves them.
func (c *Cluster) Install(crds ...*apiextensionsv1.CustomResourceDefinition) error {
	if _, err := envtest.InstallCRDs(c.Config, envtest.CRDInstallOptions{CRDs: copies(crds)}); err != nil {
		return fmt.Errorf("installing definitions: %w", err)
	}
	return nil
}

// copies leaves the caller's definitions as they are: creating one fills in what the API server says.
func copies(crds []*apiextensionsv1.CustomResourceDefinition) []*apiextensionsv1.CustomResourceDefinition {
	fresh := make([]*apiextensionsv1.CustomResourceDefinition, 0, len(crds))
	for _, crd := range crds {
		crd = crd.DeepCopy()
		crd.ResourceVersion, crd.UID = "", ""
		fresh = append(fresh, crd)
	}
	return fresh
}

// Main runs a package's tests against one API server and gives the exit code; setup gets the cluster first.
func Main(run func() int, setup func(*Cluster), crds ...*apiextensionsv1.CustomResourceDefinition) int {
	if fuzzing() {
		return run() // a fuzz test needs no cluster, and each of its workers would start one
	}
	cluster, err := Start(crds...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	setup(cluster)
	code := run()
	if err := cluster.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func assets() (string, error) {
	if dir := os.Getenv(assetsVariable); dir != "" {
		return dir, nil
	}
	root, err := repositoryRoot()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, "bin")
	for _, name := range []string{"etcd", "kube-apiserver"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return "", fmt.Errorf("%w: build it with `make bin/%s`", err, name)
		}
	}
	return dir, nil
}

// repositoryRoot is the nearest folder above with a go.mod; a test's working directory is its package's.
func repositoryRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the repository: %w", err)
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("finding the repository: no go.mod above the working directory")
		}
	}
}

// fuzzing says that this process is a run of `go test -fuzz`, or a worker of one.
func fuzzing() bool {
	return slices.ContainsFunc(os.Args, func(arg string) bool {
		return strings.HasPrefix(arg, "-test.fuzz=") || strings.HasPrefix(arg, "-test.fuzzworker")
	})
}
