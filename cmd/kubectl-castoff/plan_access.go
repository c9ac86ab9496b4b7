package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/smithy-go"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/controllers"
	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/awsapi"
	"github.com/castoff-sh/castoff/pkg/preflight"
)

// reader notes what the plan may not read. The plan runs with the credentials of a person, who need not be allowed what castoff
// will do: castoff's own role is another, and is checked when it runs.
type reader struct {
	controllers.Identity
	refused []string            // reads, as IAM actions
	missed  []inventory.NotRead // what was left out for lack of them, or because AWS did not answer
}

// Check notes the reads that are refused, and says nothing of castoff's rights.
func (r *reader) Check(ctx context.Context, c inventory.Cluster) ([]inventory.Permission, error) {
	ps, err := r.Identity.Check(ctx, c)
	for _, p := range ps {
		if p.State == inventory.PermissionDenied && reads(p.Action) {
			r.refused = append(r.refused, p.Action)
		}
	}
	return nil, err
}

// surroundings are node groups that note what of their surroundings could not be read.
type surroundings struct {
	controllers.NodeGroups
	*reader
}

// Surroundings are those of the port.
func (s surroundings) Surroundings(ctx context.Context, c inventory.Cluster, groups []inventory.NodeGroup) (inventory.Surroundings, error) {
	around, err := s.NodeGroups.Surroundings(ctx, c, groups)
	s.missed = around.NotRead
	return around, err
}

// ofCaller puts what the plan could not read in the caller's words, in the place of the preflight's, which are castoff's.
func (r *reader) ofCaller(cluster string, findings []inventory.Finding) []inventory.Finding {
	said := r.said()
	if said == "" {
		return findings
	}
	for i := range findings {
		if findings[i].Check == preflight.CheckNotRead {
			findings[i].Message = said
			return findings
		}
	}
	return append(findings, inventory.Finding{Check: preflight.CheckNotRead, Severity: v1alpha1.SeverityWarn, Object: "cluster/" + cluster, Message: said})
}

// said names every read that is missing, and what it would have told.
func (r *reader) said() string {
	actions, silent := slices.Clone(r.refused), []string(nil)
	what := map[string]string{}
	for _, n := range r.missed {
		if n.Denied {
			what[n.Action] = " (" + n.What + ")"
			actions = append(actions, n.Action)
		} else {
			silent = append(silent, n.What+" ("+n.Action+")")
		}
	}
	slices.Sort(actions)
	actions = slices.Compact(actions)
	for i, a := range actions {
		actions[i] += what[a]
	}
	var out []string
	if len(actions) > 0 {
		out = append(out, "Your credentials may not call "+strings.Join(actions, ", ")+": this was not checked. castoff has a role of its own, and checks that when it runs.")
	}
	if len(silent) > 0 {
		out = append(out, "Not checked, because AWS did not answer: "+strings.Join(silent, ", ")+".")
	}
	return strings.Join(out, " ")
}

// uninstalled reads a cluster that castoff is not installed in: it has no Migrations, and that is no error. What would happen can
// so be known before anything is installed.
type uninstalled struct{ client.Client }

// List is the client's.
func (u uninstalled) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	err := u.Client.List(ctx, list, opts...)
	if _, ok := list.(*v1alpha1.MigrationList); ok && meta.IsNoMatchError(err) {
		return nil
	}
	return err
}

// reads says whether an IAM action only reads.
func reads(action string) bool {
	_, name, _ := strings.Cut(action, ":")
	return slices.ContainsFunc([]string{"Describe", "Get", "List", "Simulate"}, func(verb string) bool { return strings.HasPrefix(name, verb) })
}

// refused says whether AWS or the API server said no for lack of permission.
func refused(err error) bool { return err != nil && (awsapi.Denied(err) || forbidden(err)) }

func forbidden(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) }

// unreadable says of a refusal by the API server what has to be granted; its own words name the verb and the resource.
func unreadable(err error) error {
	if forbidden(err) {
		return fmt.Errorf("your Kubernetes user may not read what the plan needs; get, list and watch are enough: %w", err)
	}
	return err
}

// lacking names what has to be granted: what was refused just now, and, of AWS, what else would be.
func lacking(ctx context.Context, r *reader, cluster string, err error) error {
	if forbidden(err) {
		return unreadable(err)
	}
	actions := []string{action(err)}
	if _, checked := r.Check(ctx, inventory.Cluster{Name: cluster}); checked == nil {
		actions = append(actions, r.refused...)
	}
	actions = slices.DeleteFunc(actions, func(a string) bool { return a == "" })
	slices.Sort(actions)
	return fmt.Errorf("your AWS credentials may not read what the plan needs; allow them %s: %w", strings.Join(slices.Compact(actions), ", "), err)
}

// prefixes of IAM actions, by the SDK's name of the service where they differ by more than case.
var prefixes = map[string]string{"Auto Scaling": "autoscaling", "EventBridge": "events"}

// action is the IAM action of the call that failed, empty when it was none of AWS.
func action(err error) string {
	var call *smithy.OperationError
	if !errors.As(err, &call) {
		return ""
	}
	prefix, ok := prefixes[call.Service()]
	if !ok {
		prefix = strings.ToLower(call.Service())
	}
	return prefix + ":" + call.Operation()
}
