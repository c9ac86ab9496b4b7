package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/controllers"
	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/preflight"
)

// denied is what the SDK answers when IAM refuses a call.
func denied(service, operation string) error {
	return fmt.Errorf("reading: %w", &smithy.OperationError{ServiceID: service, OperationName: operation, Err: &smithy.GenericAPIError{Code: "AccessDenied", Message: "no"}})
}

func TestAction(t *testing.T) {
	cases := map[string]struct {
		err  error
		want string
	}{
		"EC2":         {denied("EC2", "DescribeImages"), "ec2:DescribeImages"},
		"AutoScaling": {denied("Auto Scaling", "DescribePolicies"), "autoscaling:DescribePolicies"},
		"EventBridge": {denied("EventBridge", "DescribeRule"), "events:DescribeRule"},
		"Pricing":     {denied("Pricing", "GetProducts"), "pricing:GetProducts"},
		"Other":       {errDown, ""},
		"None":        {nil, ""},
	}
	for name, tc := range cases {
		if got := action(tc.err); got != tc.want {
			t.Errorf("%s: want %q, got %q", name, tc.want, got)
		}
	}
}

func TestReads(t *testing.T) {
	for action, want := range map[string]bool{
		"ec2:DescribeImages": true, "eks:ListNodegroups": true, "iam:GetRole": true, "iam:SimulatePrincipalPolicy": true, "pricing:GetProducts": true,
		"autoscaling:UpdateAutoScalingGroup": false, "iam:PassRole": false, "eks:TagResource": false, "odd": false,
	} {
		if got := reads(action); got != want {
			t.Errorf("%s: want %v", action, want)
		}
	}
}

// readOnlyUser may do nothing but read, and not all of that.
type readOnlyUser struct{ identities }

func (readOnlyUser) Check(context.Context, inventory.Cluster) ([]inventory.Permission, error) {
	return []inventory.Permission{
		{Action: "autoscaling:UpdateAutoScalingGroup", State: inventory.PermissionDenied},
		{Action: "ec2:DescribeImages", State: inventory.PermissionAllowed},
		{Action: "ec2:DescribeLaunchTemplates", State: inventory.PermissionDenied},
		{Action: "iam:PassRole", State: inventory.PermissionNotChecked},
	}, nil
}

// Who plans need not be allowed what castoff will do: only what cannot be read is missing.
func TestPlanNeedsReadAccessOnly(t *testing.T) {
	c := world(t)
	o := observer(c, nodeGroups{})
	o.Ports.Identity = readOnlyUser{}
	out, err := run(t, c, o, "", "plan", "--cluster", "prod")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out, "UpdateAutoScalingGroup") || strings.Contains(out, "PassRole") {
		t.Errorf("a write is not the plan's to ask for:\n%s", out)
	}
	words := strings.Join(strings.Fields(out), " ")
	if !strings.Contains(words, "Your credentials may not call ec2:DescribeLaunchTemplates: this was not checked.") || strings.Contains(out, "PermissionDenied") {
		t.Errorf("a read that is refused is named as the caller's:\n%s", out)
	}
}

// noImages is AWS for somebody who may not describe images.
type noImages struct{ nodeGroups }

func (noImages) List(context.Context, ...string) ([]inventory.NodeGroup, error) {
	return nil, denied("EC2", "DescribeImages")
}

func TestPlanNamesWhatItLacks(t *testing.T) {
	forbiddenPods := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New(`User "jo" cannot list resource "pods"`))
	forbid := interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		if _, ok := list.(*corev1.PodList); ok {
			return forbiddenPods
		}
		return c.List(ctx, list, opts...)
	}}
	cases := map[string]struct {
		reason   string
		funcs    interceptor.Funcs
		groups   controllers.NodeGroups
		identity controllers.Identity
		want     []string
	}{
		"AWS": {
			reason: "the call that was refused, and all other reads that would be", groups: noImages{}, identity: readOnlyUser{},
			want: []string{"your AWS credentials may not read what the plan needs; allow them ec2:DescribeImages, ec2:DescribeLaunchTemplates: ", "AccessDenied"},
		},
		"AWSAndNoCheck": {
			reason: "where nothing more can be found out, the call alone", groups: noImages{}, identity: brokenCheck{},
			want: []string{"allow them ec2:DescribeImages: "},
		},
		"Kubernetes": {
			reason: "the API server names verb and resource itself", funcs: forbid, groups: nodeGroups{}, identity: identities{},
			want: []string{"your Kubernetes user may not read what the plan needs; get, list and watch are enough: ", `User "jo" cannot list resource "pods"`},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := fakeClient(t, tc.funcs, node("system"), node("system-2"), node("general"))
			o := observer(c, tc.groups)
			o.Ports.Identity = tc.identity
			_, err := run(t, c, o, "", "plan", "--cluster", "prod")
			for _, want := range tc.want {
				if !strings.Contains(message(err), want) {
					t.Errorf("%s: want %q in %q", tc.reason, want, message(err))
				}
			}
		})
	}
}

type brokenCheck struct{ identities }

func (brokenCheck) Check(context.Context, inventory.Cluster) ([]inventory.Permission, error) {
	return nil, errDown
}

func TestUnreadable(t *testing.T) {
	if err := unreadable(errDown); !errors.Is(err, errDown) || strings.Contains(message(err), "user") {
		t.Errorf("what is no refusal stays as it is: %v", err)
	}
	refusal := apierrors.NewUnauthorized("token expired")
	if err := unreadable(refusal); !errors.Is(err, refusal) || !strings.Contains(message(err), "your Kubernetes user may not read") {
		t.Errorf("got %v", err)
	}
}

func TestUninstalledHidesNothingElse(t *testing.T) {
	c := uninstalled{fakeClient(t, notInstalled())}
	if err := c.List(t.Context(), &v1alpha1.MigrationList{}); err != nil {
		t.Errorf("no Migrations: %v", err)
	}
	if err := c.List(t.Context(), &corev1.NodeList{}); err == nil {
		t.Error("nodes that cannot be listed are an error")
	}
	down := uninstalled{fakeClient(t, interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return errDown }})}
	if diff := cmp.Diff("connection refused", message(down.List(t.Context(), &v1alpha1.MigrationList{}))); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestReaderSpeaksOfTheCaller(t *testing.T) {
	quota := inventory.NotRead{Action: "servicequotas:GetServiceQuota", What: "vCPU quotas", Denied: true}
	preflights := inventory.Finding{Check: preflight.CheckNotRead, Severity: v1alpha1.SeverityWarn, Object: "cluster/prod", Accepted: true, Message: "castoff may not"}
	cases := map[string]struct {
		reason   string
		r        reader
		findings []inventory.Finding
		want     []inventory.Finding
	}{
		"All": {reason: "nothing is added where nothing is missing", findings: []inventory.Finding{preflights}, want: []inventory.Finding{preflights}},
		"Denied": {
			reason: "a warning, once for both sources",
			r:      reader{refused: []string{"servicequotas:GetServiceQuota", "ec2:DescribeVpcs"}, missed: []inventory.NotRead{quota}},
			want: []inventory.Finding{{Check: preflight.CheckNotRead, Severity: v1alpha1.SeverityWarn, Object: "cluster/prod",
				Message: "Your credentials may not call ec2:DescribeVpcs, servicequotas:GetServiceQuota (vCPU quotas): this was not checked. castoff has a role of its own, and checks that when it runs."}},
		},
		"InPlace": {
			reason: "in the place of the preflight's words, accepted as that was",
			r:      reader{missed: []inventory.NotRead{{Action: "cloudwatch:GetMetricData", What: "use of quotas"}}}, findings: []inventory.Finding{preflights},
			want: []inventory.Finding{{Check: preflight.CheckNotRead, Severity: v1alpha1.SeverityWarn, Object: "cluster/prod", Accepted: true,
				Message: "Not checked, because AWS did not answer: use of quotas (cloudwatch:GetMetricData)."}},
		},
	}
	for name, tc := range cases {
		if diff := cmp.Diff(tc.want, tc.r.ofCaller("prod", tc.findings)); diff != "" {
			t.Errorf("%s: %s: -want +got\n%s", name, tc.reason, diff)
		}
	}
}
