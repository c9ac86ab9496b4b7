package identity

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/castoff-sh/castoff/e2e/awssim/simtest"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// boundedCluster is a cluster in whose account roles have a permissions boundary.
func boundedCluster() inventory.Cluster {
	c := harbor
	c.RolesBoundary = "arn:aws:iam::123456789012:policy/platform-boundary"
	return c
}

func TestRolesCarryTheBoundary(t *testing.T) {
	l := newLab(t)
	simtest.Check(t, l.port.Ensure(t.Context(), boundedCluster(), nil))
	for _, name := range []string{NodeRoleName("harbor"), ControllerRoleName("harbor")} {
		got, err := l.iam.GetRole(t.Context(), &iam.GetRoleInput{RoleName: aws.String(name)})
		simtest.Check(t, err)
		if b := got.Role.PermissionsBoundary; b == nil || aws.ToString(b.PermissionsBoundaryArn) != boundedCluster().RolesBoundary {
			t.Errorf("role %s has the boundary %v", name, b)
		}
	}
	got, err := l.port.Observe(t.Context(), boundedCluster(), nil)
	simtest.Check(t, err)
	if !got.Ready {
		t.Errorf("what castoff made fits, but %+v", got)
	}
}

// A role of castoff's from before, or of somebody else's, may not have the boundary. castoff has no right to put it on, and says so.
func TestRoleWithoutTheBoundary(t *testing.T) {
	l := newLab(t)
	simtest.Check(t, l.port.Ensure(t.Context(), harbor, nil))
	got, err := l.port.Observe(t.Context(), boundedCluster(), nil)
	simtest.Check(t, err)
	for _, part := range []string{NodeRoleName("harbor") + " does not have the permissions boundary arn:aws:iam::123456789012:policy/platform-boundary", "put-role-permissions-boundary", ControllerRoleName("harbor")} {
		if !strings.Contains(got.Conflict, part) || got.Ready {
			t.Errorf("the conflict %q does not say %q", got.Conflict, part)
		}
	}
	if err := l.port.Ensure(t.Context(), boundedCluster(), nil); err == nil || inventory.ClassOf(err) != inventory.ClassTerminal {
		t.Errorf("nothing is written: %v", err)
	}
	if got := l.observe(t); !got.Ready {
		t.Errorf("without a boundary to ask for, it fits: %+v", got)
	}
}

// The boundary costs room, and the longest name leaves little.
func TestBoundedDocumentsFit(t *testing.T) {
	ordinary := clusterNamed("production-eu-west")
	ordinary.RolesBoundary = boundedCluster().RolesBoundary
	for what, got := range map[string]struct{ size, limit int }{
		"castoff's policy":         {size(Policy(ordinary)), maxInline},
		"the permissions boundary": {size(PermissionsBoundary(ordinary)), maxManaged},
	} {
		t.Logf("%s for an ordinary cluster with a boundary for roles: %d characters", what, got.size)
		if got.size > got.limit {
			t.Errorf("%s has %d characters, IAM takes %d", what, got.size, got.limit)
		}
	}
	if size(Policy(boundedCluster())) == size(Policy(harbor)) {
		t.Error("the policy does not speak of the boundary")
	}
	if provided := (inventory.Provided{NodeRole: "n", ControllerRole: "c"}); strings.Contains(Policy(inventory.Cluster{Name: "x", RolesBoundary: "arn:b", Provided: provided}), boundaryKey) {
		t.Error("castoff makes no role where they are provided, and needs no right to")
	}
}
