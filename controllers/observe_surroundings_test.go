package controllers

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/preflight"
)

// surveyed answers Surroundings with what it is given, and counts.
type surveyed struct {
	NodeGroups
	answer inventory.Surroundings
	err    error
	times  *int
}

func (s surveyed) Surroundings(context.Context, inventory.Cluster, []inventory.NodeGroup) (inventory.Surroundings, error) {
	*s.times++
	return s.answer, s.err
}

func TestSurroundingsAreAskedForSeldom(t *testing.T) {
	w := newWorld(t)
	r := w.reconciler()
	o, times := r.Observer, 0
	denied := inventory.Surroundings{NotRead: []inventory.NotRead{{Action: "ec2:DescribeSubnets", What: "free addresses", Denied: true}}}
	of := o.NodeGroupsOf
	o.NodeGroupsOf = func(cluster string) NodeGroups { return surveyed{of(cluster), denied, nil, &times} }
	m := testMigration()
	look := func() []string {
		t.Helper()
		got, err := o.Observe(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		var checks []string
		for _, f := range got.Findings {
			if f.Check == preflight.CheckNotRead {
				checks = append(checks, f.Check)
			}
		}
		return checks
	}
	for range 3 {
		if diff := cmp.Diff([]string{preflight.CheckNotRead}, look()); diff != "" {
			t.Errorf("a read that is refused fails no look, and is told: -want +got:\n%s", diff)
		}
		w.now = w.now.Add(time.Minute)
	}
	if times != 1 {
		t.Errorf("asked %d times in three minutes, want once", times)
	}
	w.now = w.now.Add(settledFresh)
	if look(); times != 2 {
		t.Errorf("asked %d times after five minutes more, want twice", times)
	}
}

func TestSurroundingsThatAreThrottledAreLookedAtAgain(t *testing.T) {
	w := newWorld(t)
	r := w.reconciler()
	o, times := r.Observer, 0
	of := o.NodeGroupsOf
	o.NodeGroupsOf = func(cluster string) NodeGroups {
		return surveyed{of(cluster), inventory.Surroundings{}, inventory.Throttled(errors.New("slow down")), &times}
	}
	for range 2 {
		if _, err := o.Observe(t.Context(), testMigration()); inventory.ClassOf(err) != inventory.ClassThrottled {
			t.Errorf("error is %v (%s), want throttling", err, inventory.ClassOf(err))
		}
	}
	if times != 2 {
		t.Errorf("asked %d times, want again: an error is not kept", times)
	}
}

func TestEngineVersion(t *testing.T) {
	cases := map[string]struct {
		reason string
		spec   v1alpha1.Provisioner
		engine inventory.Engine
		want   string
	}{
		"BuiltIn":  {"castoff's own", v1alpha1.Provisioner{Source: v1alpha1.SourceBuiltIn}, inventory.Engine{}, preflight.BuiltInVersion},
		"Default":  {"the same", v1alpha1.Provisioner{}, inventory.Engine{}, preflight.BuiltInVersion},
		"Chart":    {"as the user asks", v1alpha1.Provisioner{Source: v1alpha1.SourceChart, Chart: v1alpha1.ProvisionerChart{Version: "1.1.1"}}, inventory.Engine{}, "1.1.1"},
		"Existing": {"what is there", v1alpha1.Provisioner{Source: v1alpha1.SourceExisting}, inventory.Engine{Others: []inventory.Karpenter{{Version: "1.5.0"}}}, "1.5.0"},
		"Silent":   {"it may not tell", v1alpha1.Provisioner{Source: v1alpha1.SourceExisting}, inventory.Engine{}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m := &v1alpha1.Migration{Spec: v1alpha1.MigrationSpec{Provisioner: tc.spec}}
			if got := engineVersion(m, tc.engine); got != tc.want {
				t.Errorf("%s: %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}
