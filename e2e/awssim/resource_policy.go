package awssim

import (
	"encoding/json"
	"slices"
	"strings"
)

// statement of a resource policy. Most members are a string or a list of strings.
type statement struct {
	Effect    string
	Principal any
	Action    any
	Resource  any
	Condition map[string]map[string]any
}

// allowsSend says whether a queue's policy lets an AWS service send on behalf of a source ARN: some statement allows
// it and none denies it. An empty or broken policy allows nothing.
func allowsSend(policy, service, queueARN, sourceARN string) bool {
	var document struct{ Statement json.RawMessage }
	if json.Unmarshal([]byte(policy), &document) != nil {
		return false
	}
	var statements []statement
	if json.Unmarshal(document.Statement, &statements) != nil {
		var single statement // a lone statement needs no list
		if json.Unmarshal(document.Statement, &single) != nil {
			return false
		}
		statements = []statement{single}
	}
	context := map[string]string{"aws:securetransport": "true", "aws:sourcearn": sourceARN, "aws:sourceaccount": accountID}
	allowed := false
	for _, s := range statements {
		if !s.covers(service, queueARN) || !s.holds(context) {
			continue
		}
		if s.Effect == "Deny" {
			return false
		}
		allowed = allowed || s.Effect == "Allow"
	}
	return allowed
}

func (s statement) covers(service, queueARN string) bool {
	principals := oneOrMany(s.Principal)
	if m, ok := s.Principal.(map[string]any); ok {
		principals = append(oneOrMany(m["Service"]), onlyStar(oneOrMany(m["AWS"]))...)
	}
	actions := oneOrMany(s.Action)
	for i := range actions {
		actions[i] = strings.ToLower(actions[i])
	}
	return matchesAny(principals, []string{service}) && matchesAny(actions, []string{"sqs:sendmessage"}) && matchesAny(oneOrMany(s.Resource), []string{queueARN})
}

// holds evaluates the conditions: every key of every operator must match one of its values. An operator or key that
// is not known does not hold.
func (s statement) holds(context map[string]string) bool {
	for operator, keys := range s.Condition {
		if !slices.Contains([]string{"Bool", "StringEquals", "StringLike", "ArnEquals", "ArnLike"}, operator) {
			return false
		}
		for key, values := range keys {
			have, ok := context[strings.ToLower(key)]
			if !ok || !matchesAny(oneOrMany(values), []string{have}) {
				return false
			}
		}
	}
	return true
}

func onlyStar(list []string) []string {
	return slices.DeleteFunc(list, func(s string) bool { return s != "*" })
}

func oneOrMany(x any) []string {
	switch x := x.(type) {
	case string:
		return []string{x}
	case bool:
		if x {
			return []string{"true"}
		}
		return []string{"false"}
	case []any:
		var out []string
		for _, e := range x {
			out = append(out, oneOrMany(e)...)
		}
		return out
	}
	return nil
}
