package controllers

import (
	"context"
	"errors"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/castoff-sh/castoff/api/v1alpha1"
)

// reviewer is an API server that is asked for rights, and counts how often.
type reviewer struct {
	client.Writer
	t       *testing.T
	allowed bool
	err     error
	asked   int
}

func (r *reviewer) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	review, ok := o.(*authorizationv1.SelfSubjectAccessReview)
	if !ok {
		r.t.Fatalf("created a %T", o)
	}
	want := authorizationv1.ResourceAttributes{Verb: "patch", Group: "apps", Resource: "deployments"}
	if a := review.Spec.ResourceAttributes; a == nil || *a != want {
		r.t.Errorf("asked for %+v", a)
	}
	r.asked++
	review.Status.Allowed = r.allowed
	return r.err
}

func TestNoRestarts(t *testing.T) {
	for name, tc := range map[string]struct {
		reason  string
		surge   v1alpha1.SurgeStrategy
		allowed bool
		err     error
		want    bool
		asked   int
	}{
		"Denied":     {"the chart was installed without it", v1alpha1.SurgeSingletons, false, nil, true, 1},
		"DeniedAll":  {"whatever surges needs it", v1alpha1.SurgeAll, false, nil, true, 1},
		"Allowed":    {"nothing to say", v1alpha1.SurgeSingletons, true, nil, false, 1},
		"None":       {"who surges nothing is not asked about", v1alpha1.SurgeNone, false, nil, false, 0},
		"NotSaid":    {"nor a spec from before there was a strategy", "", false, nil, false, 0},
		"Unanswered": {"the drain says it if it comes to that", v1alpha1.SurgeSingletons, false, errors.New("no"), false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := &reviewer{t: t, allowed: tc.allowed, err: tc.err}
			o := &Observer{Clock: time.Now, Rights: r}
			if got := o.noRestarts(t.Context(), v1alpha1.Strategy{Surge: tc.surge}); got != tc.want || r.asked != tc.asked {
				t.Errorf("%s: denied %t, asked %d times", tc.reason, got, r.asked)
			}
		})
	}
}

// TestNoRestartsIsAskedAgain soon while it is missing, seldom while it is there, and never by who is not castoff.
func TestNoRestartsIsAskedAgain(t *testing.T) {
	now := time.Unix(1000, 0)
	r := &reviewer{t: t}
	o := &Observer{Clock: func() time.Time { return now }, Rights: r}
	s := v1alpha1.Strategy{Surge: v1alpha1.SurgeSingletons}
	for range 2 {
		if !o.noRestarts(t.Context(), s) {
			t.Fatal("a right that is missing is not said to be")
		}
	}
	if r.asked != 1 {
		t.Fatalf("asked %d times at one moment", r.asked)
	}
	r.allowed, now = true, now.Add(unsettledFresh)
	if o.noRestarts(t.Context(), s) || r.asked != 2 {
		t.Errorf("given by now: asked %d times", r.asked)
	}
	now = now.Add(settledFresh - time.Second)
	if o.noRestarts(t.Context(), s) || r.asked != 2 {
		t.Errorf("what is there is believed for a while: asked %d times", r.asked)
	}
	if (&Observer{Clock: time.Now}).noRestarts(t.Context(), s) {
		t.Error("whoever looks at the cluster for a plan is not castoff")
	}
}
