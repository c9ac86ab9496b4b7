package policy

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
	"github.com/castoff-sh/castoff/pkg/identity"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

var record = flag.String("record", "", "call logs of the lab, separated by commas, to make testdata/calls.jsonl from")

var harbor = inventory.Cluster{Name: "harbor", ARN: "arn:aws:eks:us-east-1:123456789012:cluster/harbor", Account: "123456789012", Region: "us-east-1", Partition: "aws"}

var recorded = filepath.Join("testdata", "calls.jsonl")

// roles are those that the lab's calls are made with.
func roles(t *testing.T, c inventory.Cluster) []Role {
	t.Helper()
	castoff, err := Castoff("castoff", c)
	if err != nil {
		t.Fatal(err)
	}
	engine, err := Engine(c)
	if err != nil {
		t.Fatal(err)
	}
	return []Role{castoff, engine}
}

func readCalls(t *testing.T, path string) []simapi.Call {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	calls, err := ReadLog(f)
	if err != nil {
		t.Fatal(err)
	}
	return calls
}

func judge(t *testing.T, role Role, calls []simapi.Call) Verdict {
	t.Helper()
	v, err := Judge(harbor, role, calls)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// The calls of a migration there and back, each kind of them once, as the lab recorded them: the generated policies allow them
// all. To record anew: go test ./e2e/policy -run TestRecordedCalls -record .lab/calls.jsonl
func TestRecordedCalls(t *testing.T) {
	if *record != "" {
		distill(t, strings.Split(*record, ","))
	}
	calls := readCalls(t, recorded)
	enough := map[string]int{"castoff": 60, "KarpenterControllerRole-harbor": 20} // kinds of calls, below which it would prove little
	for _, role := range roles(t, harbor) {
		v := judge(t, role, calls)
		for _, refused := range v.Refused {
			t.Error(refused)
		}
		if v.Calls < enough[role.Name] {
			t.Errorf("role %s made %d kinds of calls, too few to prove anything", role.Name, v.Calls)
		}
		t.Logf("role %s: %d kinds of calls with %d requests; allowed and never asked for: %s", role.Name, v.Calls, v.Requests, strings.Join(v.Unused, ", "))
	}
}

// secrets of no interest, and members that are long and decide nothing.
var dropped = []string{
	"UserData", "PolicyDocument", "AssumeRolePolicyDocument", "EventPattern", "Attributes", "ClientToken", "ClientRequestToken", "Description",
	"ActionNames", "ContextEntries", "ResourceArns", "InstanceRequirements", "Filters", "Configuration",
}

// distill writes one call of each kind: those that ask IAM the same but for names that AWS makes up.
func distill(t *testing.T, paths []string) {
	t.Helper()
	var kept []simapi.Call
	for _, path := range paths {
		kept = append(kept, kinds(t, readCalls(t, path), kept)...)
	}
	var out bytes.Buffer
	for i, c := range kept {
		c.Seq, c.Time, c.Input = int64(i)+1, time.Time{}, shorten(t, c.Input)
		line, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(append(line, '\n'))
	}
	if err := os.MkdirAll(filepath.Dir(recorded), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(recorded, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

var madeUp = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}|\b[a-z]+-0[0-9a-f]{16}|[0-9]{15,}|(canary-)?(batch|general|memory)-[a-z0-9]{5}`)

// kinds are the calls of the roles that none of the known asks like. Going backwards, those that make the launch templates and
// instance profiles of what is kept are kept too.
func kinds(t *testing.T, calls, known []simapi.Call) (kept []simapi.Call) {
	t.Helper()
	seen := map[string]bool{}
	for _, k := range append(questions(t, known), "") {
		seen[k] = true
	}
	asked, needed := questions(t, calls), ""
	for i, c := range slices.Backward(calls) {
		var in struct{ LaunchTemplateName, InstanceProfileName string }
		_ = json.Unmarshal(c.Input, &in)
		makes := c.Operation == "CreateLaunchTemplate" && strings.Contains(needed, in.LaunchTemplateName) ||
			c.Operation == "AddRoleToInstanceProfile" && strings.Contains(needed, in.InstanceProfileName)
		if seen[asked[i]] && (!makes || asked[i] == "") {
			continue
		}
		seen[asked[i]] = true
		needed += string(c.Input)
		kept = append(kept, c)
	}
	slices.Reverse(kept)
	return kept
}

// questions are what each call of the roles asks, empty for those of others.
func questions(t *testing.T, calls []simapi.Call) (asked []string) {
	t.Helper()
	reader := NewReader(harbor)
	for _, c := range calls {
		if !slices.ContainsFunc(roles(t, harbor), func(r Role) bool { return r.made(c) }) {
			asked = append(asked, "")
			continue
		}
		requests, err := reader.Requests(c)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(requests)
		if err != nil {
			t.Fatal(err)
		}
		asked = append(asked, c.Identity+c.Operation+madeUp.ReplaceAllString(string(text), ""))
	}
	return asked
}

func shorten(t *testing.T, input json.RawMessage) json.RawMessage {
	t.Helper()
	var x map[string]any
	if err := json.Unmarshal(input, &x); err != nil {
		t.Fatal(err)
	}
	prune(x)
	short, err := json.Marshal(x)
	if err != nil {
		t.Fatal(err)
	}
	return short
}

func prune(x any) {
	switch x := x.(type) {
	case map[string]any:
		for key, value := range x {
			list, isList := value.([]any)
			switch {
			case slices.Contains(dropped, key):
				delete(x, key)
			case isList && key == "Overrides":
				x[key] = list[:min(len(list), 3)]
			}
			prune(value)
		}
	case []any:
		for _, e := range x {
			prune(e)
		}
	}
}

// Policies with a fault are seen to refuse what they should allow: for every action that a call asks for, the policy without
// it; for every condition, the policy that asks for another value.
func TestFaultyPoliciesAreRefused(t *testing.T) {
	calls := readCalls(t, recorded)
	for _, role := range roles(t, harbor) {
		unused := judge(t, role, calls).Unused
		tried := 0
		for _, action := range Actions(role.Policies) {
			if slices.Contains(unused, action) {
				continue
			}
			tried++
			faulty := Role{Name: role.Name, Policies: changed(role.Policies, func(s *statement) {
				s.Action = slices.DeleteFunc(slices.Clone(s.Action), func(a string) bool { return a == action })
			})}
			if v := judge(t, faulty, calls); !slices.ContainsFunc(v.Refused, func(r string) bool { return strings.Contains(r, action) }) {
				t.Errorf("without %s role %s loses nothing: %v", action, role.Name, v.Refused)
			}
		}
		if tried == 0 {
			t.Errorf("role %s: no action was tried", role.Name)
		}
	}
}

// changed copies the documents and changes every statement.
func changed(documents []Document, change func(*statement)) (out []Document) {
	for _, d := range documents {
		d.statements = slices.Clone(d.statements)
		for i := range d.statements {
			change(&d.statements[i])
		}
		out = append(out, d)
	}
	return out
}

// The policies of another cluster of the account allow nothing that changes this one.
func TestPoliciesOfAnotherCluster(t *testing.T) {
	other := harbor
	other.Name, other.ARN = "other", strings.Replace(harbor.ARN, "harbor", "other", 1)
	calls := readCalls(t, recorded)
	castoff, err := Castoff("castoff", other)
	if err != nil {
		t.Fatal(err)
	}
	engine, err := Engine(other)
	if err != nil {
		t.Fatal(err)
	}
	engine.Name = identity.ControllerRole(harbor)
	for _, role := range []Role{castoff, engine} {
		for _, c := range calls {
			if !role.made(c) || !writes(c) {
				continue
			}
			if v := judge(t, role, before(calls, c)); v.Calls > 0 && len(v.Refused) == 0 {
				t.Errorf("the policies of cluster other let role %s call %s.%s for cluster harbor: %s", role.Name, c.Service, c.Operation, c.Input)
			}
		}
	}
}

// writes says whether the call changes something, or would if it were no dry run.
func writes(c simapi.Call) bool {
	return c.Write || c.DryRun && !strings.HasPrefix(c.Operation, "Describe") && !strings.HasPrefix(c.Operation, "Get")
}

// before are the calls that the call's meaning depends on, as somebody else's, and the call.
func before(calls []simapi.Call, c simapi.Call) (out []simapi.Call) {
	for _, earlier := range calls[:c.Seq-1] {
		earlier.Identity = "arn:aws:iam::123456789012:user/somebody"
		out = append(out, earlier)
	}
	return append(out, c)
}
