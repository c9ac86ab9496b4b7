package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/castoff-sh/castoff/api/v1alpha1"
)

func paused(m *v1alpha1.Migration) { m.Spec.Paused, m.Spec.OnPause = true, v1alpha1.OnPauseSettle }

func goesBack(m *v1alpha1.Migration) { m.Spec.Paused, m.Spec.OnPause = true, v1alpha1.OnPauseRollBack }

// The words of one Migration in Assessing; those of the other phases are in outlook_test.go.
const (
	headOf    = "Migration prod of cluster prod (not looked at yet): "
	nothing   = "  castoff has changed nothing yet, so there is nothing to take back. It changes nothing until it is resumed.\n"
	goesOn    = "  It goes on with the preflight; castoff has changed nothing yet.\n  It still waits for approval of [Start HandOver].\n"
	staysBack = "  spec.onPause stays RollBack: spec.paused set by hand would go back again. kubectl castoff pause settles instead.\n"
)

const noForward = "the Migration prod is being deleted, and goes when it is at rest: it does not go forward any more. The way back is open until then: kubectl castoff rollback prod"

func beingDeleted(m *v1alpha1.Migration) {
	m.Finalizers, m.DeletionTimestamp = []string{v1alpha1.Finalizer}, &metav1.Time{Time: now}
}

func TestSteer(t *testing.T) {
	cases := map[string]struct {
		reason    string
		m         *v1alpha1.Migration
		stdin     string
		arguments []string
		out, err  string
		want      v1alpha1.MigrationSpec
	}{
		"Pause": {
			reason:    "after being asked",
			m:         migrationNamed("prod"),
			stdin:     "y\n",
			arguments: []string{"pause", "prod"},
			out:       headOf + "pause\n" + nothing + "Go on? [y/N] Pausing: kubectl get migrations -w shows how it comes to rest.\n",
			want:      v1alpha1.MigrationSpec{Paused: true, OnPause: v1alpha1.OnPauseSettle},
		},
		"PauseTurnedDown": {
			reason:    "no is no",
			m:         migrationNamed("prod"),
			stdin:     "n\n",
			arguments: []string{"pause", "prod"},
			out:       headOf + "pause\n" + nothing + "Go on? [y/N] ",
			err:       "not confirmed: nothing was changed",
		},
		"PauseUnasked": {
			reason:    "for scripts",
			m:         migrationNamed("prod"),
			arguments: []string{"pause", "prod", "--yes"},
			out:       headOf + "pause\n" + nothing + "Pausing: kubectl get migrations -w shows how it comes to rest.\n",
			want:      v1alpha1.MigrationSpec{Paused: true, OnPause: v1alpha1.OnPauseSettle},
		},
		"PausedAlready": {
			reason:    "twice is not a failure",
			m:         migrationNamed("prod", paused),
			arguments: []string{"pause", "prod"},
			out:       "Migration prod is paused already: nothing to do.\n",
			want:      v1alpha1.MigrationSpec{Paused: true, OnPause: v1alpha1.OnPauseSettle},
		},
		"PauseTheWayBack": {
			reason:    "a way back is stopped where it is, by the same word",
			m:         migrationNamed("prod", goesBack),
			arguments: []string{"pause", "prod", "--yes"},
			out:       headOf + "pause\n" + nothing + "Pausing: kubectl get migrations -w shows how it comes to rest.\n",
			want:      v1alpha1.MigrationSpec{Paused: true, OnPause: v1alpha1.OnPauseSettle},
		},
		"Resume": {
			reason:    "paused alone changes",
			m:         migrationNamed("prod", paused),
			arguments: []string{"resume", "prod", "--yes"},
			out:       headOf + "resume\n" + goesOn + "Going on: kubectl get migrations -w shows how.\n",
			want:      v1alpha1.MigrationSpec{OnPause: v1alpha1.OnPauseSettle},
		},
		"ResumeTheWayBack": {
			reason:    "onPause is left, and that is said: whoever sets paused by hand next would go back",
			m:         migrationNamed("prod", goesBack),
			arguments: []string{"resume", "prod", "--yes"},
			out:       headOf + "resume\n" + goesOn + staysBack + "Going on: kubectl get migrations -w shows how.\n",
			want:      v1alpha1.MigrationSpec{OnPause: v1alpha1.OnPauseRollBack},
		},
		"ResumeWhatRuns": {
			reason:    "nothing to go on with",
			m:         migrationNamed("prod"),
			arguments: []string{"resume", "prod"},
			out:       "Migration prod is not paused: nothing to do.\n",
		},
		"RollBack": {
			reason:    "both fields in one patch",
			m:         migrationNamed("prod"),
			stdin:     "yes\n",
			arguments: []string{"rollback", "prod"},
			out:       headOf + "rollback\n" + nothing + "Go on? [y/N] Going back: kubectl get migrations -w shows how far.\n",
			want:      v1alpha1.MigrationSpec{Paused: true, OnPause: v1alpha1.OnPauseRollBack},
		},
		"RollBackWhatIsPaused": {
			reason:    "a pause is half of it",
			m:         migrationNamed("prod", paused),
			arguments: []string{"rollback", "prod", "--yes"},
			out:       headOf + "rollback\n" + nothing + "Going back: kubectl get migrations -w shows how far.\n",
			want:      v1alpha1.MigrationSpec{Paused: true, OnPause: v1alpha1.OnPauseRollBack},
		},
		"RollsBackAlready": {
			reason:    "twice is not a failure",
			m:         migrationNamed("prod", goesBack),
			arguments: []string{"rollback", "prod"},
			out:       "Migration prod goes back to Cluster Autoscaler already: nothing to do.\n",
			want:      v1alpha1.MigrationSpec{Paused: true, OnPause: v1alpha1.OnPauseRollBack},
		},
		"Approve": {
			reason: "the step is added to those that are there",
			m:      migrationNamed("prod", approved(v1alpha1.ApproveStart)),
			stdin:  "y\n", arguments: []string{"approve", "prod"},
			out:  headOf + "approve HandOver\n  " + consequences[v1alpha1.ApproveHandOver](nil)[0] + "\nGo on? [y/N] Approved.\n",
			want: v1alpha1.MigrationSpec{ApprovedSteps: []v1alpha1.ApprovalStep{v1alpha1.ApproveStart, v1alpha1.ApproveHandOver}},
		},
		"ApprovedAlready": {
			reason:    "twice is not a failure",
			m:         migrationNamed("prod", approved(v1alpha1.ApproveStart)),
			arguments: []string{"approve", "prod", "Start"},
			out:       "Step Start of Migration prod is approved already: nothing to do.\n",
			want:      v1alpha1.MigrationSpec{ApprovedSteps: []v1alpha1.ApprovalStep{v1alpha1.ApproveStart}},
		},
		"Missing": {
			reason:    "what there is can be listed",
			m:         migrationNamed("prod"),
			arguments: []string{"pause", "pord", "--yes"},
			err:       `there is no Migration pord: kubectl get migrations lists them: migrations.castoff.sh "pord" not found`,
		},
		"ResumeWhatIsBeingDeleted": {
			reason:    "it comes to rest, whatever is said",
			m:         migrationNamed("prod", paused, beingDeleted),
			arguments: []string{"resume", "prod", "--yes"},
			err:       noForward,
			want:      v1alpha1.MigrationSpec{Paused: true, OnPause: v1alpha1.OnPauseSettle},
		},
		"ApproveWhatIsBeingDeleted": {
			reason:    "there is no next step",
			m:         migrationNamed("prod", beingDeleted),
			arguments: []string{"approve", "prod", "--yes"},
			err:       noForward,
		},
		"RollBackWhatIsBeingDeleted": {
			reason:    "until it is at rest the way back can be taken",
			m:         migrationNamed("prod", beingDeleted),
			arguments: []string{"rollback", "prod", "--yes"},
			out:       headOf + "rollback\n" + nothing + "Going back: kubectl get migrations -w shows how far.\n",
			want:      v1alpha1.MigrationSpec{Paused: true, OnPause: v1alpha1.OnPauseRollBack},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := fakeClient(t, interceptor.Funcs{}, tc.m)
			before := &v1alpha1.Migration{}
			if err := c.Get(t.Context(), client.ObjectKey{Name: "prod"}, before); err != nil {
				t.Fatal(err)
			}
			out, err := run(t, c, nil, tc.stdin, tc.arguments...)
			if diff := cmp.Diff([]string{tc.out, tc.err}, []string{out, message(err)}); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
			m := &v1alpha1.Migration{}
			if err := c.Get(t.Context(), client.ObjectKey{Name: "prod"}, m); err != nil {
				t.Fatal(err)
			}
			want := tc.want
			want.ClusterName, want.Approval = tc.m.Spec.ClusterName, tc.m.Spec.Approval
			if diff := cmp.Diff(want, m.Spec); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
			if written := before.ResourceVersion != m.ResourceVersion; written != !cmp.Equal(before.Spec, m.Spec) {
				t.Errorf("%s: written: %v, from %+v to %+v", tc.reason, written, before.Spec, m.Spec)
			}
		})
	}
}

// Between the words and the write somebody else writes: what was confirmed was about the spec that was shown, and castoff's own
// status writes, every few seconds while pods are evicted, must not keep anybody from stopping it.
func TestSteerWhatHasChanged(t *testing.T) {
	closed := metav1.Condition{Type: v1alpha1.ConditionRollbackAvailable, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonDeleted, LastTransitionTime: metav1.NewTime(now)}
	cases := map[string]struct {
		reason string
		verb   string
		change func(*v1alpha1.Migration)
		err    string
		want   bool
	}{
		"Spec": {
			reason: "somebody decided something else",
			verb:   "pause",
			change: func(m *v1alpha1.Migration) {
				m.Spec.AcceptedRisks = []v1alpha1.AcceptedRisk{{Check: "BarePod", Object: "*", Reason: "known"}}
			},
			err: "pause of Migration prod: somebody changed its spec in the meantime, and nothing was written: run the command again",
		},
		"Status": {
			reason: "castoff goes on while one reads",
			verb:   "pause",
			change: func(m *v1alpha1.Migration) { m.Status.NodesDone = "5/14" },
			want:   true,
		},
		"WayBackClosed": {
			reason: "what is refused by now is refused",
			verb:   "rollback",
			change: func(m *v1alpha1.Migration) { m.Status.Conditions = []metav1.Condition{closed} },
			err:    "rollback of Migration prod: the way back of Migration prod is closed: RollbackAvailable is False since 2026-05-04 03:02 UTC, reason Deleted: ",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			patches := 0
			c := fakeClient(t, interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				if patches++; patches == 1 {
					other := &v1alpha1.Migration{}
					if err := c.Get(ctx, client.ObjectKeyFromObject(o), other); err != nil {
						return err
					}
					tc.change(other)
					status := other.Status
					if err := c.Update(ctx, other); err != nil {
						return err
					}
					other.Status = status
					if err := c.Status().Update(ctx, other); err != nil {
						return err
					}
				}
				return c.Patch(ctx, o, p, opts...)
			}}, migrationNamed("prod"))
			_, err := run(t, c, nil, "", tc.verb, "prod", "--yes")
			if diff := cmp.Diff(tc.err, message(err)); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
			m := &v1alpha1.Migration{}
			if err := c.Get(t.Context(), client.ObjectKey{Name: "prod"}, m); err != nil {
				t.Fatal(err)
			}
			if m.Spec.Paused != tc.want {
				t.Errorf("%s: paused %v", tc.reason, m.Spec.Paused)
			}
		})
	}
}

// Whoever writes all the time wins in the end, and that is said.
func TestSteerWhatNeverRests(t *testing.T) {
	busy := apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("migrations").GroupResource(), "prod", errDown)
	c := fakeClient(t, interceptor.Funcs{Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
		return busy
	}}, migrationNamed("prod"))
	if _, err := run(t, c, nil, "", "pause", "prod", "--yes"); !apierrors.IsConflict(err) || !strings.HasPrefix(message(err), "pause of Migration prod: ") {
		t.Errorf("got %v", err)
	}
}

// An older definition would drop onPause in silence, and a rollback would be a mere pause: the API server is asked to refuse.
func TestSteerAnOlderCastoff(t *testing.T) {
	refusals := map[string]struct {
		reason string
		err    error
		hint   bool
	}{
		"UnknownField": {"the definition does not know it", apierrors.NewBadRequest(`strict decoding error: unknown field "spec.onPause"`), true},
		"UnknownValue": {"the definition knows the field and not the value", apierrors.NewInvalid(v1alpha1.GroupVersion.WithKind("Migration").GroupKind(), "prod", nil), true},
		"Forbidden":    {"whose fault it is not", apierrors.NewForbidden(v1alpha1.GroupVersion.WithResource("migrations").GroupResource(), "prod", errDown), false},
	}
	for name, tc := range refusals {
		t.Run(name, func(t *testing.T) {
			c := fakeClient(t, interceptor.Funcs{Patch: func(_ context.Context, _ client.WithWatch, _ client.Object, _ client.Patch, opts ...client.PatchOption) error {
				o := &client.PatchOptions{}
				o.ApplyOptions(opts)
				if got := o.AsPatchOptions().FieldValidation; got != metav1.FieldValidationStrict {
					t.Errorf("field validation %q", got)
				}
				return tc.err
			}}, migrationNamed("prod"))
			_, err := run(t, c, nil, "", "rollback", "prod", "--yes")
			if !errors.Is(err, tc.err) || strings.Contains(message(err), "charts/castoff/crds") != tc.hint {
				t.Errorf("%s: got %v", tc.reason, err)
			}
		})
	}
}

func TestSteerSaysWhatItIsAbout(t *testing.T) {
	stale := migrationNamed("prod", shifting, func(m *v1alpha1.Migration) { m.Generation, m.Status.ObservedGeneration = 3, 2 })
	out, err := run(t, fakeClient(t, interceptor.Funcs{}, stale), nil, "", "pause", "prod")
	if !errors.Is(err, errNotConfirmed) {
		t.Errorf("no answer is a no; got %v", err)
	}
	for _, want := range []string{"Migration prod of cluster prod (Shifting): pause\n", "  The spec has changed since castoff last looked; this is what it saw then.\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
}

func TestEveryVerbIsExplained(t *testing.T) {
	for _, v := range verbs {
		if v.short == "" || v.long == "" || v.example == "" || v.done == "" || v.args == nil || v.change == nil {
			t.Errorf("%s lacks a part", v.use)
		}
	}
}

func TestConfirmed(t *testing.T) {
	for answer, want := range map[string]bool{"y\n": true, "yes\n": true, "YES\r\n": true, " y ": true, "n\n": false, "\n": false, "": false, "yeah\n": false, "no\ny\n": false} {
		var out strings.Builder
		if got := confirmed(strings.NewReader(answer), &out); got != want {
			t.Errorf("answer %q: got %v", answer, got)
		}
		if out.String() != "Go on? [y/N] " {
			t.Errorf("the question was %q", out.String())
		}
	}
	if confirmed(broken{}, io.Discard) {
		t.Error("what cannot be read is no yes")
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("broken") }

func TestCommandsWithoutCastoff(t *testing.T) {
	for _, command := range []string{"approve", "pause", "resume", "rollback", "status", "report"} {
		_, err := run(t, fakeClient(t, notInstalled()), nil, "", command, "prod")
		if !errors.Is(err, errNotInstalled) {
			t.Errorf("%s: got %v", command, err)
		}
	}
	down := fakeClient(t, interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
		return errDown
	}})
	if _, err := run(t, down, nil, "", "status", "prod"); message(err) != "reading Migration prod: connection refused" {
		t.Errorf("got %v", err)
	}
}

func TestCommandsThatCannotConnect(t *testing.T) {
	for _, arguments := range [][]string{{"approve", "prod"}, {"pause", "prod"}, {"resume", "prod"}, {"rollback", "prod"}, {"status", "prod"}, {"report", "prod"}, {"plan", "--cluster", "prod"}} {
		a := newApp()
		a.connect = func() (client.Client, error) { return nil, errDown }
		cmd := a.root()
		cmd.SetArgs(arguments)
		if err := cmd.ExecuteContext(t.Context()); !errors.Is(err, errDown) {
			t.Errorf("%v: got %v", arguments, err)
		}
	}
}
