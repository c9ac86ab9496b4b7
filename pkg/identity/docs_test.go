package identity

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestPolicyIsExplained: whoever grants the policy reads what each of its statements is for.
func TestPolicyIsExplained(t *testing.T) {
	const path = "../../docs/iam.md"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	explained := 0
	for _, s := range statements(harbor, nil) {
		if strings.Contains(string(page), "`"+s.Sid+"`") {
			explained++
			continue
		}
		t.Errorf("%s does not say what the statement %s is for (%s): give it a line in the table", path, s.Sid, strings.Join(s.Action, ", "))
	}
	if explained == 0 {
		t.Error("the policy has no statement")
	}
	for _, value := range []string{"awsAuth.write", "clusterAutoscaler.delete"} {
		if !strings.Contains(string(page), "`"+value) {
			t.Errorf("%s does not say what the chart's value %s lets castoff do", path, value)
		}
	}
}

// TestWhatThePlanReadsIsListed: whoever runs the plan needs the reads of the policy, and reads in the table which they are.
func TestWhatThePlanReadsIsListed(t *testing.T) {
	page, err := os.ReadFile("../../docs/iam.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "## What `kubectl castoff plan` reads")
	section, _, _ = strings.Cut(section, "\n## ")
	if !found {
		t.Fatal("docs/iam.md does not say what the plan reads")
	}
	policy := actionsOf(parsed(t, Policy(harbor)))
	for _, action := range policy {
		_, verb, _ := strings.Cut(action, ":")
		reads := slices.ContainsFunc([]string{"Describe", "Get", "List", "Simulate"}, func(v string) bool { return strings.HasPrefix(verb, v) })
		if listed := strings.Contains(section, "`"+action+"`"); listed != reads {
			t.Errorf("%s is a read: %v, but is listed in docs/iam.md: %v", action, reads, listed)
		}
	}
}

// TestBoundaryIsExplained: so are the statements of castoff's permissions boundary.
func TestBoundaryIsExplained(t *testing.T) {
	page, err := os.ReadFile("../../docs/iam.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range parsed(t, PermissionsBoundary(boundedCluster())).Statement {
		if s.Effect == "Deny" && !strings.Contains(string(page), "| `"+s.Sid+"` |") {
			t.Errorf("docs/iam.md does not say what the boundary's statement %s denies", s.Sid)
		}
	}
}
