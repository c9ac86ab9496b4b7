package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/castoff-sh/castoff/api/v1alpha1"
)

func approved(steps ...v1alpha1.ApprovalStep) func(*v1alpha1.Migration) {
	return func(m *v1alpha1.Migration) { m.Spec.ApprovedSteps = steps }
}

func automatic(m *v1alpha1.Migration) { m.Spec.Approval = v1alpha1.ApprovalAutomatic }

func TestNextStep(t *testing.T) {
	both := approved(v1alpha1.ApproveStart, v1alpha1.ApproveHandOver)
	cases := map[string]struct {
		reason string
		m      *v1alpha1.Migration
		asked  []string
		want   v1alpha1.ApprovalStep
		err    string
	}{
		"First": {
			reason: "in order",
			m:      migrationNamed("prod"),
			want:   v1alpha1.ApproveStart,
		},
		"Second": {
			reason: "in order",
			m:      migrationNamed("prod", approved(v1alpha1.ApproveStart)),
			want:   v1alpha1.ApproveHandOver,
		},
		"Gap": {
			reason: "the first that is missing, not the one after the last",
			m:      migrationNamed("prod", approved(v1alpha1.ApproveHandOver)),
			want:   v1alpha1.ApproveStart,
		},
		"Asked": {
			reason: "whoever names a step means it",
			m:      migrationNamed("prod"),
			asked:  []string{"HandOver"},
			want:   v1alpha1.ApproveHandOver,
		},
		"AnyCase": {
			reason: "shells have no capitals",
			m:      migrationNamed("prod"),
			asked:  []string{"handover"},
			want:   v1alpha1.ApproveHandOver,
		},
		"Approved": {
			reason: "twice is a misunderstanding",
			m:      migrationNamed("prod", both),
			asked:  []string{"Start"},
			err:    "step Start of Migration prod is approved already",
		},
		"AllApproved": {
			reason: "nothing is left to say",
			m:      migrationNamed("prod", both),
			err:    "every step of Migration prod is approved",
		},
		"Unknown": {
			reason: "the steps there are",
			m:      migrationNamed("prod"),
			asked:  []string{"Delete"},
			err:    `unknown step "Delete": known are [Start HandOver]`,
		},
		"Automatic": {
			reason: "it would not wait for the answer",
			m:      migrationNamed("prod", automatic),
			err:    "approval of Migration prod is Automatic: it asks nobody. Set spec.approval: Manual to be asked",
		},
		"AutomaticNone": {
			reason: "silent is Automatic",
			m:      migrationNamed("prod", func(m *v1alpha1.Migration) { m.Spec.Approval = "" }),
			err:    "approval of Migration prod is Automatic: it asks nobody. Set spec.approval: Manual to be asked",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := nextStep(tc.m, tc.asked)
			if diff := cmp.Diff([]string{string(tc.want), tc.err}, []string{string(got), message(err)}); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func TestEveryStepSaysWhatItDoes(t *testing.T) {
	for _, s := range steps {
		if consequences[s] == "" {
			t.Errorf("step %s is approved blindly", s)
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

func TestApprove(t *testing.T) {
	const startText = "Migration prod (prod), step Start:\n  castoff records a snapshot, disables the scaling policies and removes the scheduled actions of the migrating groups, and installs Karpenter. No pod moves, and Cluster Autoscaler stays in charge.\n"
	cases := map[string]struct {
		reason    string
		stdin     string
		arguments []string
		out, err  string
		want      []v1alpha1.ApprovalStep
	}{
		"Yes": {
			reason:    "after being asked",
			stdin:     "y\n",
			arguments: []string{"prod"},
			out:       startText + "Go on? [y/N] Approved.\n",
			want:      []v1alpha1.ApprovalStep{v1alpha1.ApproveStart},
		},
		"No": {
			reason:    "nothing is written",
			stdin:     "n\n",
			arguments: []string{"prod"},
			out:       startText + "Go on? [y/N] ",
			err:       "not approved: nothing was changed",
		},
		"Unasked": {
			reason:    "for scripts",
			arguments: []string{"prod", "--yes"},
			out:       startText + "Approved.\n",
			want:      []v1alpha1.ApprovalStep{v1alpha1.ApproveStart},
		},
		"Missing": {
			reason:    "what there is can be listed",
			arguments: []string{"pord", "--yes"},
			err:       `there is no Migration pord: kubectl get migrations lists them: migrations.castoff.sh "pord" not found`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := fakeClient(t, interceptor.Funcs{}, migrationNamed("prod"))
			out, err := run(t, c, nil, tc.stdin, append([]string{"approve"}, tc.arguments...)...)
			if diff := cmp.Diff([]string{tc.out, tc.err}, []string{out, message(err)}); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
			m := &v1alpha1.Migration{}
			if err := c.Get(t.Context(), client.ObjectKey{Name: "prod"}, m); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, m.Spec.ApprovedSteps); diff != "" {
				t.Errorf("%s: approved: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

// Two people approve at once: the second must not approve a step that he was not told of.
func TestApproveOfWhatHasChanged(t *testing.T) {
	raced := false
	c := fakeClient(t, interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
		if !raced {
			raced = true
			other := &v1alpha1.Migration{}
			if err := c.Get(ctx, client.ObjectKeyFromObject(o), other); err != nil {
				return err
			}
			other.Spec.Paused = true
			if err := c.Update(ctx, other); err != nil {
				return err
			}
		}
		return c.Patch(ctx, o, p, opts...)
	}}, migrationNamed("prod"))
	_, err := run(t, c, nil, "", "approve", "prod", "--yes")
	if !strings.HasPrefix(message(err), "approving step Start of Migration prod: ") {
		t.Errorf("got %q", message(err))
	}
}

func TestCommandsWithoutCastoff(t *testing.T) {
	for _, command := range []string{"approve", "status", "report"} {
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
	for _, arguments := range [][]string{{"approve", "prod"}, {"status", "prod"}, {"report", "prod"}, {"plan", "--cluster", "prod"}} {
		a := newApp()
		a.connect = func() (client.Client, error) { return nil, errDown }
		cmd := a.root()
		cmd.SetArgs(arguments)
		if err := cmd.ExecuteContext(t.Context()); !errors.Is(err, errDown) {
			t.Errorf("%v: got %v", arguments, err)
		}
	}
}

func TestStatus(t *testing.T) {
	shifting := migrationNamed("prod", func(m *v1alpha1.Migration) {
		m.Status = v1alpha1.MigrationStatus{
			Phase: v1alpha1.PhaseShifting, PoolsDone: "1/2", NodesDone: "4/14",
			Pools:      []v1alpha1.PoolStatus{{Name: "general", Phase: v1alpha1.PoolDraining, Nodes: 10, NodesLeft: 6, NodesDraining: 1, PodsLeft: 3, NodePool: "general"}, {Name: "b", Phase: v1alpha1.PoolDone}},
			Conditions: []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Reason: "Progressing", Message: "Draining general."}},
			Blockers:   []v1alpha1.Blocker{{Severity: v1alpha1.SeverityWait, Reason: "DisruptionBudget", Object: "pod/shop/web", Message: "No room in shop/web."}},
		}
	})
	cases := map[string]struct {
		reason string
		m      *v1alpha1.Migration
		want   string
	}{
		"New": {
			reason: "no table of nothing",
			m:      migrationNamed("prod"),
			want:   "Migration prod of cluster prod: castoff has not looked at it yet. Is it running? kubectl get pods -n castoff-system\n",
		},
		"Shifting": {
			reason: "pools, conditions, and what is waited for",
			m:      shifting,
			want: `Migration prod of cluster prod: Shifting, pools 1/2, nodes 4/14

POOL     PHASE     NODES LEFT  DRAINING  PODS LEFT  NODEPOOL
general  Draining  6/10        1         3          general
b        Done      0/0         0         0          

CONDITION  STATUS  REASON       MESSAGE
Ready      False   Progressing  Draining general.

Wait DisruptionBudget pod/shop/web
  No room in shop/web.
`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := run(t, fakeClient(t, refuseWrites(t), tc.m), nil, "", "status", "prod")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func TestReport(t *testing.T) {
	reported := migrationNamed("prod", func(m *v1alpha1.Migration) {
		m.Status.Report = &v1alpha1.ObjectReference{Namespace: "castoff-system", Name: "prod-report"}
	})
	text := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "castoff-system", Name: "prod-report"}, Data: map[string]string{"report.txt": "Blocks (1)\n"}}
	cases := map[string]struct {
		reason   string
		objects  []client.Object
		out, err string
	}{
		"Text": {
			reason:  "as castoff wrote it",
			objects: []client.Object{reported, text},
			out:     "Blocks (1)\n",
		},
		"None": {
			reason:  "castoff has not looked yet",
			objects: []client.Object{migrationNamed("prod")},
			err:     "there is no report of Migration prod yet: is castoff running? kubectl get pods -n castoff-system",
		},
		"Gone": {
			reason:  "somebody deleted it",
			objects: []client.Object{reported},
			err:     `reading the report castoff-system/prod-report: configmaps "prod-report" not found`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out, err := run(t, fakeClient(t, refuseWrites(t), tc.objects...), nil, "", "report", "prod")
			if diff := cmp.Diff([]string{tc.out, tc.err}, []string{out, message(err)}); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}
