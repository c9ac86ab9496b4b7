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
)

// reader checks what can be read alone. The plan runs with the credentials of a person, who need not be allowed what castoff
// will do: its own role is checked when it runs.
type reader struct{ controllers.Identity }

// Check is that of the identity's port, without the actions that change something.
func (r reader) Check(ctx context.Context, c inventory.Cluster) ([]inventory.Permission, error) {
	ps, err := r.Identity.Check(ctx, c)
	return slices.DeleteFunc(ps, func(p inventory.Permission) bool { return !reads(p.Action) }), err
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
func lacking(ctx context.Context, i controllers.Identity, cluster string, err error) error {
	if forbidden(err) {
		return unreadable(err)
	}
	actions := []string{action(err)}
	if ps, checked := i.Check(ctx, inventory.Cluster{Name: cluster}); checked == nil {
		for _, p := range ps {
			if p.State == inventory.PermissionDenied {
				actions = append(actions, p.Action)
			}
		}
	}
	actions = slices.DeleteFunc(actions, func(a string) bool { return a == "" })
	slices.Sort(actions)
	return fmt.Errorf("your AWS identity may not read what the plan needs; grant it %s: %w", strings.Join(slices.Compact(actions), ", "), err)
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
