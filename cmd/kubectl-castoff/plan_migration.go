package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/cost"
	"github.com/castoff-sh/castoff/pkg/plan"
)

// The advice on a cluster whose migration has begun: there is nothing left to decide.
const (
	underWay cost.Advice = "UnderWay"
	migrated cost.Advice = "Migrated"
)

// of is the Migration in the cluster that a plan is of.
type of struct {
	Name string `json:"name"`
	// Phase is empty while castoff has not looked at it.
	Phase v1alpha1.Phase `json:"phase,omitempty"`
	// Begun says that home and pools are those of its snapshot.
	Begun bool `json:"begun,omitempty"`
	// SnapshotProblem is why the snapshot could not be used.
	SnapshotProblem string `json:"snapshotProblem,omitempty"`
	// NotChecked says that no preflight is due: it was before the hand-over, and is again between two pools.
	NotChecked bool `json:"notChecked,omitempty"`
}

// planned is what to plan for where no file says it: the cluster's own Migration, so that the plan is of what castoff does, or
// one that has nothing but defaults.
func planned(ctx context.Context, c client.Client, cluster string) (m *v1alpha1.Migration, live *of, err error) {
	all, err := migrationsOf(ctx, c, cluster)
	if err != nil {
		return nil, nil, unreadable(err)
	}
	if m, err = bare(ctx, cluster); err != nil || len(all) == 0 {
		return m, nil, err
	}
	found := all[0]
	live = &of{Name: found.Name, Phase: found.Status.Phase, Begun: begun(found)}
	if found.Status.Phase == v1alpha1.PhaseRolledBack { // its snapshot is of a migration that is over: a new one is planned
		m.Spec = found.Spec
	} else {
		m = &found
		m.CreationTimestamp = metav1.Time{} // no other is then older, whose turn it would be
	}
	m.Spec.Paused = false
	return m, live, nil
}

// bare is a Migration of which nothing was said but its cluster: all else is the API's defaults.
func bare(ctx context.Context, cluster string) (*v1alpha1.Migration, error) {
	b, err := json.Marshal(map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "Migration", "metadata": map[string]any{"name": "plan"}, "spec": map[string]any{"clusterName": cluster},
	})
	if err != nil {
		return nil, fmt.Errorf("writing a Migration of cluster %s: %w", cluster, err)
	}
	m, err := admit(ctx, b)
	if err != nil {
		return nil, fmt.Errorf("planning for cluster %q: %w", cluster, err)
	}
	return m, nil
}

// migrationsOf are the cluster's, the one that acts first: one that has begun, one that may begin, one that is at its end.
func migrationsOf(ctx context.Context, c client.Client, cluster string) ([]v1alpha1.Migration, error) {
	var all v1alpha1.MigrationList
	if err := (uninstalled{c}).List(ctx, &all); err != nil {
		return nil, fmt.Errorf("listing Migrations: %w", err)
	}
	found := slices.DeleteFunc(all.Items, func(m v1alpha1.Migration) bool { return m.Spec.ClusterName != cluster })
	slices.SortStableFunc(found, func(a, b v1alpha1.Migration) int {
		return cmp.Or(cmp.Compare(turn(a), turn(b)), a.CreationTimestamp.Compare(b.CreationTimestamp.Time))
	})
	return found, nil
}

// turn orders Migrations by how much they have to say about the cluster.
func turn(m v1alpha1.Migration) int {
	switch {
	case m.Status.Phase == v1alpha1.PhaseRolledBack:
		return 3
	case m.Status.Phase == v1alpha1.PhaseCompleted:
		return 2
	case begun(m):
		return 0
	}
	return 1
}

// begun says that the Migration has changed something in the cluster, and that this is not undone.
func begun(m v1alpha1.Migration) bool {
	return m.Status.Snapshot != nil && m.Status.Phase != v1alpha1.PhaseRolledBack
}

// underway names the Migration that has changed something in the cluster, if one has.
func underway(ctx context.Context, c client.Client, cluster string) (string, error) {
	all, err := migrationsOf(ctx, c, cluster)
	if err != nil {
		return "", err
	}
	for _, m := range all {
		if begun(m) {
			return m.Name, nil
		}
	}
	return "", nil
}

// seen adds what the look at the world said of the Migration.
func (o *of) seen(m *v1alpha1.Migration, w plan.World) {
	if o != nil {
		o.SnapshotProblem, o.NotChecked = w.SnapshotProblem, !plan.NeedsOf(m, w).Preflight
	}
}

// over says that there is nothing left to plan.
func (o *of) over() bool { return o != nil && o.Phase == v1alpha1.PhaseCompleted }

// verdict is what there is to say in the place of advice, nil where advice is due.
func (o *of) verdict() *cost.Verdict {
	switch {
	case o == nil || !o.Begun:
		return nil
	case o.over():
		return &cost.Verdict{Advice: migrated, Reasons: []string{
			fmt.Sprintf("Migration %s is Completed. What its end left to do: kubectl castoff status %[1]s. A migration of other groups is planned with -f.", o.Name),
		}}
	}
	return &cost.Verdict{Advice: underWay, Reasons: []string{
		fmt.Sprintf("Migration %s is %s. How far it is, and what it waits for: kubectl castoff status %[1]s.", o.Name, o.Phase),
	}}
}

// said is with what the plan was made, in one sentence or two.
func (o *of) said() string {
	phase := string(o.Phase)
	if phase == "" {
		phase = "new"
	}
	s := fmt.Sprintf("With the spec of Migration %s, which is %s", o.Name, phase)
	switch {
	case !o.Begun:
		return s + "."
	case o.SnapshotProblem != "":
		return s + ". Home and pools are as of today: " + o.SnapshotProblem
	}
	return s + ", and home and pools as its snapshot has them: what is left of it. kubectl castoff status " + o.Name + " says how far it is."
}
