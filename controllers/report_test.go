package controllers

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/plan"
)

var bare = inventory.Finding{Check: "BarePod", Severity: v1alpha1.SeverityBlock, Object: "pod/a/b", Message: "Nobody would replace it."}

func reportOf(t *testing.T, w *world) *corev1.ConfigMap {
	t.Helper()
	c := &corev1.ConfigMap{}
	w.must(w.c.Get(t.Context(), types.NamespacedName{Namespace: "castoff-system", Name: "castoff-report-prod"}, c))
	return c
}

func TestReportIsWrittenWhenItsTextChanges(t *testing.T) {
	w := newWorld(t)
	r := w.reconciler()
	m := migration()
	steps := []struct {
		reason  string
		world   plan.World
		creates int
		updates int
		text    string
	}{
		{"the first look", plan.World{}, 1, 0, "No check blocks"},
		{"says the same", plan.World{}, 1, 0, "No check blocks"},
		{"something blocks", plan.World{Findings: []inventory.Finding{bare}}, 1, 1, "    pod/a/b\n      BarePod"},
		{"still does", plan.World{Findings: []inventory.Finding{bare}}, 1, 1, "    pod/a/b\n      BarePod"},
		{"no preflight is due while nodes drain: the last text stays", plan.World{Snapshot: &inventory.Snapshot{}}, 1, 1, "    pod/a/b\n      BarePod"},
		{"one between two pools is", plan.World{Snapshot: &inventory.Snapshot{}, Findings: []inventory.Finding{{Check: "New", Severity: v1alpha1.SeverityBlock}}}, 1, 2, "New"},
	}
	for _, s := range steps {
		if err := r.writeReport(t.Context(), m, s.world); err != nil {
			t.Fatalf("%s: %v", s.reason, err)
		}
		if w.c.writes["create ConfigMap"] != s.creates || w.c.writes["update ConfigMap"] != s.updates {
			t.Errorf("%s: writes %v, want %d and %d", s.reason, w.c.writes, s.creates, s.updates)
		}
		if got := reportOf(t, w).Data[reportKey]; !strings.Contains(got, s.text) {
			t.Errorf("%s: text %q, want %q", s.reason, got, s.text)
		}
	}
	if diff := cmp.Diff(&v1alpha1.ObjectReference{Namespace: "castoff-system", Name: "castoff-report-prod"}, m.Status.Report); diff != "" {
		t.Errorf("the status names it (-want +got)\n%s", diff)
	}
}

func TestReportGoesWithTheMigration(t *testing.T) {
	w := newWorld(t)
	r := w.reconciler()
	m := migration()
	for _, step := range []string{"created", "updated after somebody took its owner away"} {
		w.must(r.writeReport(t.Context(), m, plan.World{Findings: []inventory.Finding{{Check: step, Severity: v1alpha1.SeverityBlock}}}))
		c := reportOf(t, w)
		if len(c.OwnerReferences) != 1 || c.OwnerReferences[0].UID != m.UID || c.Labels[v1alpha1.LabelMigration] != string(m.UID) {
			t.Errorf("%s: owners %+v, labels %v", step, c.OwnerReferences, c.Labels)
		}
		c.OwnerReferences = nil
		w.must(w.c.Update(t.Context(), c))
	}
}

func TestReportThatCannotBeWritten(t *testing.T) {
	refused := errors.New("refused")
	for verb, reason := range map[string]string{"get": "reading", "create": "the first time", "update": "later"} {
		t.Run(verb, func(t *testing.T) {
			w := newWorld(t)
			r := w.reconciler()
			m := migration()
			if verb == "update" {
				w.must(r.writeReport(t.Context(), m, plan.World{}))
			}
			w.c.refuse = func(v string, o any) error {
				if _, ok := o.(*corev1.ConfigMap); ok && v == verb {
					return refused
				}
				return nil
			}
			err := r.writeReport(t.Context(), m, plan.World{Findings: []inventory.Finding{bare}})
			if !errors.Is(err, refused) || !strings.Contains(err.Error(), "castoff-system/castoff-report-prod") {
				t.Errorf("%s: error %v, want one that names the object", reason, err)
			}
		})
	}
}

// TestSnapshotIsReadOnce: it is immutable, and as large as the cluster.
func TestSnapshotIsReadOnce(t *testing.T) {
	w := newWorld(t)
	store := &countingSnapshots{Snapshots: ports{w}}
	var c snapshotCache
	m := migration()
	load := func() *inventory.Snapshot {
		s, _, err := c.load(t.Context(), m, store)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if first, second := load(), load(); first != nil || second != nil || store.loads != 2 {
		t.Errorf("%d loads while there is none, want one a look", store.loads)
	}
	w.snapshot = &inventory.Snapshot{}
	if first, second := load(), load(); first == nil || second == nil || store.loads != 3 {
		t.Errorf("%d loads once it is there, want one", store.loads-2)
	}
	m.UID = "uid-2"
	if load() == nil || store.loads != 4 {
		t.Error("another Migration of this name gets what was read for the first")
	}
}

type countingSnapshots struct {
	Snapshots
	loads int
}

func (c *countingSnapshots) Load(ctx context.Context, name string) (*inventory.Snapshot, string, error) {
	c.loads++
	return c.Snapshots.Load(ctx, name)
}
