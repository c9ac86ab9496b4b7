package awssim

import (
	"encoding/json"
	"slices"
	"strings"
)

// matchesPattern says whether an event fits a rule's pattern,
// https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-event-patterns.html. Known are nested fields, values,
// prefix, suffix, anything-but and exists. No pattern, or one that uses anything else, matches nothing.
func matchesPattern(pattern string, event map[string]any) bool {
	var p map[string]any
	if pattern == "" || json.Unmarshal([]byte(pattern), &p) != nil {
		return false
	}
	return matchesFields(p, event)
}

func matchesFields(pattern, event map[string]any) bool {
	for field, want := range pattern {
		value, present := event[field]
		switch want := want.(type) {
		case map[string]any:
			inner, _ := value.(map[string]any) // not an object: nothing in it
			if !matchesFields(want, inner) {
				return false
			}
		case []any:
			if !slices.ContainsFunc(want, func(w any) bool { return matchesValue(w, value, present) }) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// matchesValue compares one alternative of a pattern with a field; of a list one element must match.
func matchesValue(want, have any, present bool) bool {
	test, isTest := want.(map[string]any)
	if exists, ok := test["exists"].(bool); ok {
		return exists == present
	}
	if !present {
		return false
	}
	if list, ok := have.([]any); ok {
		return slices.ContainsFunc(list, func(x any) bool { return matchesValue(want, x, true) })
	}
	if !isTest {
		return want == have
	}
	text, _ := have.(string)
	if prefix, ok := test["prefix"].(string); ok {
		return strings.HasPrefix(text, prefix)
	}
	if suffix, ok := test["suffix"].(string); ok {
		return strings.HasSuffix(text, suffix)
	}
	if not, ok := test["anything-but"]; ok {
		if list, ok := not.([]any); ok {
			return !slices.Contains(list, have)
		}
		return not != have
	}
	return false
}
