// Package policy judges AWS calls by IAM policy documents, as AWS's IAM does: what is not allowed is refused, and what is
// denied is refused whatever else allows it (IAM user guide, policy evaluation logic). It knows the grammar of identity
// policies and permissions boundaries. What it does not know is an error, never a silent yes: an unknown member or operator,
// a policy variable.
//
// The second half of it reads the simulator's call log: which actions a call is, on which resources, in which context.
package policy

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/castoff-sh/castoff/pkg/inventory/awsapi"
)

// Document is a policy of an identity.
type Document struct {
	name       string
	statements []statement
}

type statement struct {
	Sid                   string
	Effect                string
	Action, NotAction     awsapi.Strings
	Resource, NotResource awsapi.Strings
	Condition             awsapi.Conditions
	document              string
}

// Parse reads a document; name stands for it in messages.
func Parse(name, document string) (Document, error) {
	var d struct {
		Version, ID string
		Statement   []statement
	}
	decoder := json.NewDecoder(strings.NewReader(document))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&d); err != nil {
		return Document{}, fmt.Errorf("reading policy %s: %w", name, err)
	}
	if d.Version != "2012-10-17" || strings.Contains(document, "${") {
		return Document{}, fmt.Errorf("policy %s is of version %q, or has policy variables: the evaluator knows 2012-10-17 without variables", name, d.Version)
	}
	for i := range d.Statement {
		s := &d.Statement[i]
		s.document = name
		if s.Sid == "" {
			s.Sid = fmt.Sprintf("statement %d", i+1)
		}
		if err := s.check(); err != nil {
			return Document{}, fmt.Errorf("policy %s, %s: %w", name, s.Sid, err)
		}
	}
	return Document{name: name, statements: d.Statement}, nil
}

// check refuses what evaluation would have to guess about.
func (s *statement) check() error {
	if s.Effect != "Allow" && s.Effect != "Deny" {
		return fmt.Errorf("its effect is %q", s.Effect)
	}
	if (len(s.Action) == 0) == (len(s.NotAction) == 0) || (len(s.Resource) == 0) == (len(s.NotResource) == 0) {
		return fmt.Errorf("it must have one of Action and NotAction, and one of Resource and NotResource")
	}
	for operator := range s.Condition {
		if _, err := parseOperator(operator); err != nil {
			return err
		}
	}
	return nil
}

// Request is one question to IAM: may this identity do the action on the resource? A call to AWS asks one or more.
type Request struct {
	Action   string `json:"action"`
	Resource string `json:"resource"` // an ARN, or "*" for actions without resource types
	// Context are the condition keys that AWS fills in for the request. A key that is missing here is missing there.
	Context map[string][]string `json:"context,omitempty"`
}

// Decision is IAM's answer.
type Decision struct {
	Allowed bool
	By      string // the statement that allows or denies
	Why     string // of a refusal: the statement that came nearest, and what it lacks
}

// Evaluate asks the policies of one identity.
func Evaluate(documents []Document, r Request) Decision {
	allowed, nearest, distance := "", "no statement names the action", -1
	for _, d := range documents {
		for _, s := range d.statements {
			met, lack := s.applies(r)
			switch {
			case lack == "" && s.Effect == "Deny":
				return Decision{By: s.String(), Why: s.String() + " denies it"}
			case lack == "":
				allowed = s.String()
			case s.Effect == "Allow" && met > distance && met > 0:
				nearest, distance = s.String()+" comes nearest: "+lack, met
			}
		}
	}
	if allowed != "" {
		return Decision{Allowed: true, By: allowed}
	}
	return Decision{Why: nearest}
}

// Within asks the policies and the permissions boundary: both must allow.
func Within(boundary Document, documents []Document, r Request) Decision {
	if d := Evaluate([]Document{boundary}, r); !d.Allowed {
		return d
	}
	return Evaluate(documents, r)
}

// Actions are those that the documents allow, as they write them.
func Actions(documents []Document) (actions []string) {
	for _, d := range documents {
		for _, s := range d.statements {
			if s.Effect == "Allow" {
				actions = append(actions, s.Action...)
			}
		}
	}
	slices.Sort(actions)
	return slices.Compact(actions)
}

// String names the statement.
func (s statement) String() string { return s.document + "/" + s.Sid }

// applies says how many of the statement's parts fit the request and what the first is that does not.
func (s statement) applies(r Request) (met int, lack string) {
	if !covers(s.Action, s.NotAction, r.Action, foldedWildcard) {
		return 0, "it is for other actions"
	}
	if !covers(s.Resource, s.NotResource, r.Resource, matchARN) {
		return 1, fmt.Sprintf("it is for resources %v, not for %v", s.Resource, s.NotResource)
	}
	met = 2
	var lacks []string
	for operator, keys := range s.Condition {
		for key, want := range keys {
			if holds(operator, r.values(key), want) {
				met++
				continue
			}
			lacks = append(lacks, fmt.Sprintf("%s: %s must be %v and is %v", operator, key, want, r.values(key)))
		}
	}
	slices.Sort(lacks)
	return met, strings.Join(lacks, ", ")
}

// values are those of a condition key, whose name is not case-sensitive; nil when it is missing.
func (r Request) values(key string) []string {
	for k, v := range r.Context {
		if strings.EqualFold(k, key) {
			return v
		}
	}
	return nil
}

// covers says whether a list takes the value in, or where it says which to leave out, does not.
func covers(in, out []string, value string, match func(pattern, value string) bool) bool {
	if len(out) > 0 {
		return !matchAny(out, value, match)
	}
	return matchAny(in, value, match)
}

func matchAny(patterns []string, value string, match func(pattern, value string) bool) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return match(p, value) })
}
