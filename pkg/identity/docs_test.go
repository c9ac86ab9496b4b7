package identity

import (
	"os"
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
