//go:build lab

package tests

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/castoff-sh/castoff/e2e/harbor"
)

// TestWholeMigration is the promise of the whole: a migration from Cluster Autoscaler to Karpenter in which nothing is
// broken, that is quiet once it is done, and that leaves the nodes alone when castoff goes.
func TestWholeMigration(t *testing.T) {
	ctx, scene := play(t, 15*time.Minute)
	if err := scene.InstallCastoff(ctx); err != nil {
		t.Fatal(err)
	}
	report, err := scene.Migrate(ctx)
	t.Log("\n" + report.Summary())
	if err != nil {
		t.Fatal(err)
	}
	for _, violation := range report.Violations() {
		t.Error(violation)
	}
	for _, detail := range report.Details() {
		t.Log(detail)
	}
	if t.Failed() {
		t.FailNow()
	}
	t.Run("CompletedIsQuiet", func(t *testing.T) { staysQuiet(ctx, t, scene) })
	t.Run("PoliciesAllowEveryCall", func(t *testing.T) { callsAreAllowed(t, scene.Lab) })
	t.Run("UninstallChangesNoNode", func(t *testing.T) { uninstallChangesNoNode(ctx, t, scene) })
}

// quiet is for how long a completed migration is watched.
const quiet = 2 * time.Minute

// staysQuiet compares what castoff made, and reads what it wrote to Kubernetes and AWS.
func staysQuiet(ctx context.Context, t *testing.T, scene *harbor.Scene) {
	whole, err := scene.Watcher.Writes(ctx, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(whole, func(w string) bool { return strings.Contains(w, "autoscaling.") }) || !slices.ContainsFunc(whole, func(w string) bool { return strings.Contains(w, "patch nodes") }) {
		t.Fatal("the watcher saw no write of the migration itself, so its silence would mean nothing")
	}
	// The last status write may be on its way when the phase is first seen.
	pause(ctx, t, 5*time.Second)
	since, before := time.Now(), versions(ctx, t, scene.Client)
	pause(ctx, t, quiet)
	writes, err := scene.Watcher.Writes(ctx, since)
	if err != nil {
		t.Fatal(err)
	}
	if len(writes) > 0 {
		t.Errorf("a completed migration wrote in %s:\n%v", quiet, writes)
	}
	if diff := cmp.Diff(before, versions(ctx, t, scene.Client)); diff != "" {
		t.Errorf("resourceVersions moved in %s, -before +after:\n%s", quiet, diff)
	}
}

// versions are the resourceVersions of what castoff answers for. NodePools and NodeClasses have a status that the engine
// writes, so for those the generation counts.
func versions(ctx context.Context, t *testing.T, c client.Client) map[string]string {
	t.Helper()
	versions := map[string]string{}
	for _, kind := range []schema.GroupVersionKind{
		{Group: "castoff.sh", Version: "v1alpha1", Kind: "Migration"},
		{Version: "v1", Kind: "Secret"},
	} {
		for _, object := range list(ctx, t, c, kind) {
			versions[kind.Kind+" "+object.GetNamespace()+"/"+object.GetName()] = object.GetResourceVersion()
		}
	}
	for _, kind := range []schema.GroupVersionKind{
		{Group: "karpenter.sh", Version: "v1", Kind: "NodePool"},
		{Group: "karpenter.k8s.aws", Version: "v1", Kind: "EC2NodeClass"},
		{Group: "apps", Version: "v1", Kind: "Deployment"},
	} {
		for _, object := range list(ctx, t, c, kind) {
			versions[kind.Kind+" "+object.GetNamespace()+"/"+object.GetName()] = strconv.FormatInt(object.GetGeneration(), 10)
		}
	}
	return versions
}

func list(ctx context.Context, t *testing.T, c client.Client, kind schema.GroupVersionKind) []unstructured.Unstructured {
	t.Helper()
	objects := &unstructured.UnstructuredList{}
	objects.SetGroupVersionKind(kind)
	if err := c.List(ctx, objects); err != nil {
		t.Fatal(err)
	}
	return objects.Items
}

// uninstallChangesNoNode deletes the Migration and castoff, and looks at every node and at AWS.
func uninstallChangesNoNode(ctx context.Context, t *testing.T, scene *harbor.Scene) {
	before, since := nodes(ctx, t, scene.Client), time.Now()
	if err := scene.UninstallCastoff(ctx); err != nil {
		t.Fatal(err)
	}
	pause(ctx, t, 20*time.Second)
	if diff := cmp.Diff(before, nodes(ctx, t, scene.Client)); diff != "" {
		t.Errorf("nodes after castoff is gone, -before +after:\n%s", diff)
	}
	writes, err := scene.Watcher.Writes(ctx, since)
	if err != nil {
		t.Fatal(err)
	}
	for _, write := range writes {
		t.Log("written while going:", write)
	}
}

// nodeState is what of a node an uninstall could change.
type nodeState struct {
	Labels        map[string]string
	Taints        []corev1.Taint
	Unschedulable bool
	Deleting      bool
}

func nodes(ctx context.Context, t *testing.T, c client.Client) map[string]nodeState {
	t.Helper()
	var list corev1.NodeList
	if err := c.List(ctx, &list); err != nil {
		t.Fatal(err)
	}
	states := map[string]nodeState{}
	for _, node := range list.Items {
		states[node.Name] = nodeState{Labels: node.Labels, Taints: node.Spec.Taints, Unschedulable: node.Spec.Unschedulable, Deleting: node.DeletionTimestamp != nil}
	}
	return states
}

// pause lets the world go on.
func pause(ctx context.Context, t *testing.T, span time.Duration) {
	t.Helper()
	select {
	case <-ctx.Done():
		t.Fatal(ctx.Err())
	case <-time.After(span):
	}
}
