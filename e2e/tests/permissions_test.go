//go:build lab

package tests

import (
	"os"
	"strings"
	"testing"

	"github.com/castoff-sh/castoff/e2e/harbor"
	"github.com/castoff-sh/castoff/e2e/lab"
	"github.com/castoff-sh/castoff/e2e/policy"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// callsAreAllowed asks of every call in the lab's call log that castoff or the engine made whether the policies that castoff
// generates allow it: castoff's within its permissions boundary, the engine's as they are on its role.
func callsAreAllowed(t *testing.T, l *lab.Lab) {
	f, err := os.Open(l.CallLog)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	calls, err := policy.ReadLog(f)
	if err != nil {
		t.Fatal(err)
	}
	cluster := inventory.Cluster{
		Name: harbor.Cluster, ARN: "arn:aws:eks:us-east-1:123456789012:cluster/" + harbor.Cluster, Account: "123456789012", Region: "us-east-1", Partition: "aws",
	}
	castoff, err := policy.Castoff(harbor.CastoffRole, cluster)
	if err != nil {
		t.Fatal(err)
	}
	engine, err := policy.Engine(cluster)
	if err != nil {
		t.Fatal(err)
	}
	for _, role := range []policy.Role{castoff, engine} {
		verdict, err := policy.Judge(cluster, role, calls)
		if err != nil {
			t.Fatal(err)
		}
		for _, refused := range verdict.Refused {
			t.Error(refused)
		}
		if verdict.Calls == 0 {
			t.Errorf("role %s made no call, so that its policies were not tested", role.Name)
		}
		t.Logf("role %s: %d calls, of which the policies refuse %d; allowed and never asked for: %s", role.Name, verdict.Calls, len(verdict.Refused), strings.Join(verdict.Unused, ", "))
	}
}
