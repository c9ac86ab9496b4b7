package policy

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
	"github.com/castoff-sh/castoff/pkg/identity"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// Role is an IAM role with what it may do.
type Role struct {
	Name     string
	Policies []Document
	Boundary *Document // nil: none
}

// Castoff is castoff's own role as docs/iam.md has it made: the policy and the boundary that `kubectl castoff plan` prints.
func Castoff(name string, c inventory.Cluster, extraNodePolicies ...string) (Role, error) {
	p, err := Parse("castoff", identity.Policy(c, extraNodePolicies...))
	if err != nil {
		return Role{}, err
	}
	b, err := Parse("boundary", identity.PermissionsBoundary(c, extraNodePolicies...))
	return Role{Name: name, Policies: []Document{p}, Boundary: &b}, err
}

// Engine is the role that castoff makes for Karpenter's controller.
func Engine(c inventory.Cluster) (Role, error) {
	role := Role{Name: identity.ControllerRole(c)}
	documents := identity.ControllerPolicies(c)
	for _, name := range slices.Sorted(maps.Keys(documents)) {
		d, err := Parse(name, documents[name])
		if err != nil {
			return Role{}, err
		}
		role.Policies = append(role.Policies, d)
	}
	return role, nil
}

// made says whether the call was made with the role. Programs of the lab that run outside of the cluster are users of its name.
func (r Role) made(call simapi.Call) bool {
	return strings.Contains(call.Identity, ":assumed-role/"+r.Name+"/") || strings.HasSuffix(call.Identity, ":user/"+r.Name)
}

// may asks the role's policies and its boundary.
func (r Role) may(q Request) Decision {
	if r.Boundary == nil {
		return Evaluate(r.Policies, q)
	}
	return Within(*r.Boundary, r.Policies, q)
}

// Verdict is what a role's policies say of its calls.
type Verdict struct {
	Calls, Requests int
	Refused         []string // each once, with how often and what the nearest statement lacks
	Unused          []string // actions that the policies allow and no call asked for
}

// Judge asks IAM about every call in the log that was made with the role. The calls of all others are read too: they say what
// is in launch templates and instance profiles.
func Judge(c inventory.Cluster, role Role, calls []simapi.Call) (Verdict, error) {
	var v Verdict
	reader, refused, used := NewReader(c), map[string]int{}, map[string]bool{}
	for _, call := range calls {
		if !role.made(call) {
			reader.overhear(call)
			continue
		}
		requests, err := reader.Requests(call)
		if err != nil {
			return v, fmt.Errorf("call %d of role %s: %w", call.Seq, role.Name, err)
		}
		v.Calls++
		for _, q := range requests {
			v.Requests++
			used[strings.ToLower(q.Action)] = true
			if d := role.may(q); !d.Allowed {
				refused[fmt.Sprintf("role %s may not %s on %s (for %s.%s): %s", role.Name, q.Action, q.Resource, call.Service, call.Operation, d.Why)]++
			}
		}
	}
	for _, message := range slices.Sorted(maps.Keys(refused)) {
		v.Refused = append(v.Refused, fmt.Sprintf("%s (%d times)", message, refused[message]))
	}
	for _, action := range Actions(role.Policies) {
		if !used[strings.ToLower(action)] {
			v.Unused = append(v.Unused, action)
		}
	}
	return v, nil
}

// overhear keeps what a call of somebody else tells about later ones.
func (r *Reader) overhear(logged simapi.Call) {
	c := call{Call: logged, action: logged.Service + ":" + logged.Operation}
	if json.Unmarshal(logged.Input, &c.in) == nil {
		r.remember(c)
	}
}

// ReadLog reads the simulator's call log, a call a line.
func ReadLog(from io.Reader) (calls []simapi.Call, err error) {
	const longest = 1 << 20 // user data and policies are in the inputs
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, longest)
	for lines.Scan() {
		var c simapi.Call
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return nil, fmt.Errorf("reading line %d of the call log: %w", len(calls)+1, err)
		}
		calls = append(calls, c)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading the call log after line %d: %w", len(calls), err)
	}
	return calls, nil
}
