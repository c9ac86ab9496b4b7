package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/castoff-sh/castoff/api/v1alpha1"
)

// verb is a command by which the user steers a Migration: it says what will happen to this one, asks, and writes one patch.
type verb struct {
	use, short, long, example string
	args                      cobra.PositionalArgs
	// change works out what the verb means for the Migration; its errors are the verb's refusals.
	change func(m *v1alpha1.Migration, args []string) (change, error)
	// done is the last word, when it is written.
	done string
	// forward verbs mean nothing to a Migration that is being deleted: it comes to rest, or goes back.
	forward bool
}

// change is what a verb does to one Migration.
type change struct {
	// name of the change, for people: the verb, and its step.
	name string
	// says what will happen, a line for each thing.
	says []string
	// apply brings the spec to its target. It is absolute: a spec that is there already is left, and not written.
	apply func(*v1alpha1.MigrationSpec)
	// idle is said when there is nothing to apply.
	idle string
}

var verbs = []verb{
	{
		use: "approve NAME [Start|HandOver|Delete]", args: cobra.RangeArgs(1, 2), change: approval, done: "Approved.", forward: true,
		short: "Approve the next step of a Migration",
		long: `Approve the next step of a Migration whose spec.approval is Manual, or the step that is named.

Start lets castoff write for the first time; HandOver lets it stop Cluster Autoscaler. Delete lets it delete what spec.decommission
says, which ends the way back: that waits for approval whatever spec.approval is, and has to be named.
What a step does is printed before it asks.`,
		example: "  kubectl castoff approve prod\n  kubectl castoff approve prod HandOver --yes",
	},
	{
		use: "pause NAME", args: cobra.ExactArgs(1), change: pausing, done: "Pausing: kubectl get migrations -w shows how it comes to rest.",
		short: "Stop a Migration, and put the nodes that are not drained back in service",
		long: `Stop a Migration (spec.paused: true, spec.onPause: Settle): nothing more is evicted, and it comes to rest. Before a hand-over
everything that castoff did is undone; after it the pools stay with Karpenter, and old nodes that are not drained go back in service.
What that means for this Migration now is printed before it asks.`,
		example: "  kubectl castoff pause prod\n  kubectl castoff pause prod --yes",
	},
	{
		use: "resume NAME", args: cobra.ExactArgs(1), change: resuming, done: "Going on: kubectl get migrations -w shows how.", forward: true,
		short: "Go on with a Migration that is paused or on its way back, from where the cluster is",
		long: `Go on with a Migration that is paused or on its way back (spec.paused: false), from where the cluster then is.
What that means for this Migration now is printed before it asks.`,
		example: "  kubectl castoff resume prod",
	},
	{
		use: "rollback NAME", args: cobra.ExactArgs(1), change: rollingBack, done: "Going back: kubectl get migrations -w shows how far.",
		short: "Bring everything back to Cluster Autoscaler",
		long: `Bring everything back to Cluster Autoscaler (spec.paused: true, spec.onPause: RollBack), from any phase: node groups as they were
recorded, Cluster Autoscaler in charge of them, and Karpenter gone. It is refused when RollbackAvailable is False.
What that means for this Migration now is printed before it asks.`,
		example: "  kubectl castoff rollback prod\n  kubectl castoff rollback prod --yes",
	},
}

// steer makes a command of a verb.
func (a *app) steer(v verb) *cobra.Command {
	yes := false
	cmd := &cobra.Command{
		Use: v.use, Short: v.short, Long: v.long, Example: v.example, Args: v.args,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.connect()
			if err != nil {
				return err
			}
			m, err := migration(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			ch, err := v.plan(m, args[1:])
			if err != nil {
				return err
			}
			if ch.idles(m) {
				fmt.Fprintf(cmd.OutOrStdout(), "%s: nothing to do.\n", ch.idle)
				return nil
			}
			ch.print(cmd.OutOrStdout(), m)
			if !yes && !confirmed(cmd.InOrStdin(), cmd.OutOrStdout()) {
				return errNotConfirmed
			}
			if err := v.write(cmd.Context(), c, m, args[1:]); err != nil {
				return fmt.Errorf("%s of Migration %s: %w", ch.name, m.Name, err)
			}
			fmt.Fprintln(cmd.OutOrStdout(), v.done)
			return nil
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do it without asking")
	return cmd
}

// plan is the verb's change to the Migration.
func (v verb) plan(m *v1alpha1.Migration, args []string) (change, error) {
	if v.forward && m.DeletionTimestamp != nil {
		return change{}, fmt.Errorf("the Migration %s is being deleted, and goes when it is at rest: it does not go forward any more. The way back is open until then: kubectl castoff rollback %[1]s", m.Name)
	}
	return v.change(m, args)
}

func (ch change) print(out io.Writer, m *v1alpha1.Migration) {
	phase := string(m.Status.Phase)
	if phase == "" {
		phase = "not looked at yet"
	}
	fmt.Fprintf(out, "Migration %s of cluster %s (%s): %s\n", m.Name, m.Spec.ClusterName, phase, ch.name)
	for _, s := range ch.says {
		fmt.Fprintln(out, "  "+s)
	}
	if m.Status.Phase != "" && m.Status.ObservedGeneration < m.Generation {
		fmt.Fprintln(out, "  The spec has changed since castoff last looked; this is what it saw then.")
	}
}

// write stores the change if the spec is still the one that was shown, which is what was confirmed, and nothing refuses it by
// now. castoff writes the status every few seconds while somebody reads: a conflict alone says nothing, and is tried again.
func (v verb) write(ctx context.Context, c client.Client, shown *v1alpha1.Migration, args []string) error {
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		m, err := migration(ctx, c, shown.Name)
		if err != nil {
			return err
		}
		if !equality.Semantic.DeepEqual(shown.Spec, m.Spec) {
			return errChanged
		}
		ch, err := v.plan(m, args)
		if err != nil {
			return err
		}
		return ch.patch(ctx, c, m)
	})
	if apierrors.IsBadRequest(err) || apierrors.IsInvalid(err) {
		return fmt.Errorf("nothing was written. If castoff in the cluster is older than this plugin, bring its definition up to date with kubectl apply --server-side -f charts/castoff/crds, and then castoff: %w", err)
	}
	return err
}

// patch is strict, so that a definition older than this plugin refuses the field that it does not know: a rollback would be a
// mere pause. Helm does not upgrade a chart's crds folder, so an old definition beside a new castoff is not rare.
func (ch change) patch(ctx context.Context, c client.Client, m *v1alpha1.Migration) error {
	patch := client.MergeFromWithOptions(m.DeepCopy(), client.MergeFromWithOptimisticLock{})
	ch.apply(&m.Spec)
	return c.Patch(ctx, m, patch, client.FieldValidation(metav1.FieldValidationStrict))
}

// idles says that the spec is where the change would bring it.
func (ch change) idles(m *v1alpha1.Migration) bool {
	spec := m.Spec.DeepCopy()
	ch.apply(spec)
	return equality.Semantic.DeepEqual(*spec, m.Spec)
}

var (
	errNotConfirmed = errors.New("not confirmed: nothing was changed")
	errChanged      = errors.New("somebody changed its spec in the meantime, and nothing was written: run the command again")
)

func confirmed(in io.Reader, out io.Writer) bool {
	fmt.Fprint(out, "Go on? [y/N] ")
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && err != io.EOF {
		return false
	}
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "y" || answer == "yes"
}
