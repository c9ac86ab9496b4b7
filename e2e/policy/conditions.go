package policy

import (
	"fmt"
	"slices"
	"strings"
)

// operator is a condition operator taken apart: ForAllValues:StringNotEqualsIfExists.
type operator struct {
	set      string // ForAllValues, ForAnyValue or none
	matches  func(pattern, value string) bool
	negated  bool
	ifExists bool
	null     bool
}

// operators are those that castoff's policies use and their nearest relations, without Not and IfExists. ArnEquals takes
// wildcards as ArnLike does (IAM user guide, condition operators).
var operators = map[string]func(pattern, value string) bool{
	"StringEquals":           func(pattern, value string) bool { return pattern == value },
	"StringEqualsIgnoreCase": strings.EqualFold,
	"StringLike":             wildcard,
	"ArnEquals":              matchARN,
	"ArnLike":                matchARN,
	"Bool":                   strings.EqualFold,
}

func parseOperator(text string) (operator, error) {
	var o operator
	name := text
	for _, set := range []string{"ForAllValues", "ForAnyValue"} {
		if rest, ok := strings.CutPrefix(name, set+":"); ok {
			o.set, name = set, rest
		}
	}
	if name == "Null" && o.set == "" {
		o.null = true
		return o, nil
	}
	name, o.ifExists = strings.CutSuffix(name, "IfExists")
	for _, kind := range []string{"String", "Arn"} {
		if rest, ok := strings.CutPrefix(name, kind+"Not"); ok {
			o.negated, name = true, kind+rest
		}
	}
	if o.matches = operators[name]; o.matches == nil {
		return o, fmt.Errorf("the evaluator does not know the condition operator %s: teach it", text)
	}
	return o, nil
}

// holds evaluates one key of a condition. A key with several values asks for an operator with ForAllValues or ForAnyValue:
// without it AWS's answer is not defined, and here it is no.
func holds(text string, have, want []string) bool {
	o, err := parseOperator(text)
	if err != nil {
		return false // Parse has refused such a document
	}
	if o.null {
		return slices.Contains(want, fmt.Sprint(len(have) == 0))
	}
	if len(have) == 0 {
		return o.ifExists || o.set == "ForAllValues" || o.negated && o.set == ""
	}
	one := func(value string) bool { return matchAny(want, value, o.matches) != o.negated }
	switch o.set {
	case "ForAllValues":
		return !slices.ContainsFunc(have, func(v string) bool { return !one(v) })
	case "ForAnyValue":
		return slices.ContainsFunc(have, one)
	default:
		return len(have) == 1 && one(have[0])
	}
}

// matchARN compares an ARN with a pattern part by part: no wildcard reaches over a colon, but in the last part.
func matchARN(pattern, value string) bool {
	if pattern == "*" {
		return true
	}
	const parts = 6 // arn:partition:service:region:account:resource
	p, v := strings.SplitN(pattern, ":", parts), strings.SplitN(value, ":", parts)
	if len(p) != len(v) {
		return false
	}
	for i := range p {
		if !wildcard(p[i], v[i]) {
			return false
		}
	}
	return true
}

func foldedWildcard(pattern, value string) bool {
	return wildcard(strings.ToLower(pattern), strings.ToLower(value))
}

// wildcard matches * with any run of characters and ? with one.
func wildcard(pattern, value string) bool {
	p, v := 0, 0
	star, mark := -1, 0 // where the last * is, and how much it has eaten
	for v < len(value) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark, p = p, v, p+1
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == value[v]):
			p, v = p+1, v+1
		case star >= 0:
			mark++
			p, v = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
