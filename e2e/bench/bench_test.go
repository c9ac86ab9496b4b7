package bench

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/e2e/harbor"
	"github.com/castoff-sh/castoff/e2e/lab"
)

func TestMigration(t *testing.T) {
	cases := map[string]struct {
		reason string
		surge  string
		want   v1alpha1.SurgeStrategy
	}{
		"Default": {reason: "Without a word the API's default holds."},
		"All":     {reason: "All by choice.", surge: "All", want: "All"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var m v1alpha1.Migration
			if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(migration(tc.surge).Object, &m, true); err != nil {
				t.Fatal(err)
			}
			s := m.Spec.Strategy
			if s.Surge != tc.want || s.Capacity != v1alpha1.CapacityWarmFirst || s.MaxUnavailableNodes.String() != "100%" || *s.LoadBalancerSeconds != 0 {
				t.Errorf("%s\nstrategy: %+v", tc.reason, s)
			}
		})
	}
}

func TestRefusedSurge(t *testing.T) {
	invalid := apierrors.NewInvalid(schema.GroupKind{Group: "castoff.sh", Kind: "Migration"}, "bench", nil)
	cases := map[string]struct {
		reason string
		surge  string
		err    error
		want   bool
	}{
		"Unknown":  {reason: "An API that does not know the value.", surge: "All", err: invalid, want: true},
		"Other":    {reason: "Anything else is an error.", surge: "All", err: errors.New("no such kind")},
		"NotAsked": {reason: "Without a surge something else is wrong.", err: invalid},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := refusedSurge(tc.surge, tc.err)
			if !errors.Is(got, tc.err) || errors.Is(got, errNoSurge) != tc.want {
				t.Errorf("%s\nrefusedSurge() = %v", tc.reason, got)
			}
		})
	}
}

func TestScaleVerdicts(t *testing.T) {
	fine, long := 5.0, 15.5
	cases := map[string]struct {
		reason string
		scale  Scale
		want   []bool
	}{
		"Met": {reason: "All five.", want: []bool{true, true, true, true, true},
			scale: Scale{Figures: &Figures{OperatorRSSMiBP95: rounded(128), KubernetesWritesPerNode: rounded(12), AWSCallsPerNode: rounded(3)}, StatusBytes: 64 << 10, LongestReconcileSeconds: &fine}},
		"Missed": {reason: "Each a little over.", want: []bool{false, false, false, false, false},
			scale: Scale{Figures: &Figures{OperatorRSSMiBP95: rounded(128.1), KubernetesWritesPerNode: rounded(12.1), AWSCallsPerNode: rounded(3.1)}, StatusBytes: 64<<10 + 1, LongestReconcileSeconds: &long}},
		"Endless": {reason: "A reconcile that fits no bucket is too long.", want: []bool{true, true, true, true, false}, scale: Scale{Figures: &Figures{}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []bool
			for _, v := range tc.scale.Verdicts() {
				got = append(got, v.Met())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\n-want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestOptions(t *testing.T) {
	b := &Bench{BinDir: "bin", Dir: ".lab", Out: io.Discard}
	small, large := b.options(size{24, 100}.stage("")).Lab, b.options(size{300, 3000}.stage("")).Lab
	if small.BootDelay != bootDelay || small.NodeLease != 0 || large.NodeLease <= small.NodeLease {
		t.Errorf("only the leases of a large lab last longer: %+v and %+v", small, large)
	}
}

func TestKubeconfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	rights := &rest.Config{Host: "https://127.0.0.1:6443", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("ca"), CertData: []byte("cert"), KeyData: []byte("key")}}
	if err := clientcmd.WriteToFile(kubeconfigOf(rights), path); err != nil {
		t.Fatal(err)
	}
	got, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{rights.Host, "ca", "cert", "key"}, []string{got.Host, string(got.CAData), string(got.CertData), string(got.KeyData)}); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestLastLines(t *testing.T) {
	if got := lastLines("a\nb\nc\nd\n"); got != "b; c; d" {
		t.Errorf("the end of what a command said: %q", got)
	}
	if got := lastLines("a"); got != "a" {
		t.Errorf("a short one: %q", got)
	}
}

// TestDrainStopsAtTheFirstError: nobody goes on by hand after a drain that failed; those that run already do.
func TestDrainStopsAtTheFirstError(t *testing.T) {
	hand := &byHand{kubectl: filepath.Join(t.TempDir(), "missing")}
	nodes := []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, {ObjectMeta: metav1.ObjectMeta{Name: "b"}}}
	for _, atOnce := range []bool{false, true} {
		err := hand.drain(context.Background(), nodes, atOnce)
		if !errors.Is(err, os.ErrNotExist) {
			t.Errorf("at once %t: %v", atOnce, err)
		}
	}
}

func TestLegacyNodes(t *testing.T) {
	node := func(name string, labels map[string]string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	}
	c := fake.NewClientBuilder().WithObjects(node("legacy", nil), node("home", map[string]string{"eks.amazonaws.com/nodegroup": harbor.Home}), node("new", map[string]string{"karpenter.sh/nodepool": "general"})).Build()
	nodes, err := legacyNodes(t.Context(), c)
	if err != nil || len(nodes) != 1 || nodes[0].Name != "legacy" {
		t.Errorf("the home stays, and what is Karpenter's: %v, %v", nodes, err)
	}
}

func TestLogsAreKept(t *testing.T) {
	dir := t.TempDir()
	l := &lab.Lab{Dir: filepath.Join(dir, "lab"), AuditLog: filepath.Join(dir, "audit.log"), CallLog: filepath.Join(dir, "calls.jsonl")}
	b := &Bench{way: Castoff, report: filepath.Join(dir, "bench.json")}
	if err := b.keep(l); err == nil {
		t.Error("a log that is not there is an error")
	}
	for _, log := range []string{l.AuditLog, l.CallLog} {
		if err := os.WriteFile(log, []byte(filepath.Base(log)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.keep(l); err != nil {
		t.Fatal(err)
	}
	if body, err := os.ReadFile(filepath.Join(dir, "bench-castoff-audit.log")); err != nil || string(body) != "audit.log" {
		t.Errorf("the audit log of the way: %q, %v", body, err)
	}
}
