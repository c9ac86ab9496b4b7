package policy

import (
	"strings"
	"testing"
)

// whole is a document around one statement.
func whole(statements string) string {
	return `{"Version":"2012-10-17","Statement":[` + statements + `]}`
}

const (
	allowGet  = `{"Sid":"Get","Effect":"Allow","Action":["iam:GetRole"],"Resource":["arn:aws:iam::1:role/castoff-*"]}`
	allowTags = `{"Effect":"Allow","Action":"ec2:CreateTags","Resource":"*","Condition":{"StringEquals":{"aws:RequestTag/owner":["a","b"]},"StringLike":{"aws:RequestTag/pool":"*"}}}`
)

func TestEvaluate(t *testing.T) {
	get := Request{Action: "iam:GetRole", Resource: "arn:aws:iam::1:role/castoff-x"}
	cases := map[string]struct {
		reason    string
		documents []string
		request   Request
		want      bool
		why       string
	}{
		"allowed":             {"action and resource fit", []string{whole(allowGet)}, get, true, ""},
		"case of the action":  {"actions are not case-sensitive", []string{whole(allowGet)}, Request{Action: "IAM:getrole", Resource: get.Resource}, true, ""},
		"nothing":             {"what nobody allows is refused", []string{whole(allowTags)}, get, false, "no statement names the action"},
		"resource narrowed":   {"another role is another role", []string{whole(allowGet)}, Request{Action: "iam:GetRole", Resource: "arn:aws:iam::1:role/other"}, false, "0/Get comes nearest: it is for resources [arn:aws:iam::1:role/castoff-*]"},
		"account":             {"a wildcard stays in its part of the ARN", []string{whole(strings.ReplaceAll(allowGet, "iam::1", "iam::*"))}, Request{Action: "iam:GetRole", Resource: "arn:aws:iam::1:x:role/castoff-x"}, false, "comes nearest"},
		"action removed":      {"a wildcard covers no other verb", []string{whole(strings.ReplaceAll(allowGet, "iam:GetRole", "iam:List*"))}, get, false, "no statement names the action"},
		"denied":              {"a denial wins over what another document allows", []string{whole(allowGet), whole(`{"Sid":"No","Effect":"Deny","Action":"iam:*","Resource":"*"}`)}, get, false, "1/No denies it"},
		"denied elsewhere":    {"a denial of other roles leaves this one", []string{whole(allowGet), whole(`{"Effect":"Deny","Action":"iam:*","NotResource":"arn:aws:iam::1:role/castoff-*"}`)}, get, true, ""},
		"denied but this":     {"a denial of all but other roles denies this one", []string{whole(allowGet), whole(`{"Sid":"Rest","Effect":"Deny","Action":"iam:*","NotResource":"arn:aws:iam::1:role/b"}`)}, get, false, "1/Rest denies it"},
		"not action":          {"all but deleting", []string{whole(`{"Effect":"Allow","NotAction":"iam:Delete*","Resource":"*"}`)}, get, true, ""},
		"the action not":      {"all but this", []string{whole(`{"Effect":"Allow","NotAction":"iam:Get*","Resource":"*"}`)}, get, false, "no statement names the action"},
		"tagged":              {"all keys hold", []string{whole(allowTags)}, Request{Action: "ec2:CreateTags", Resource: "arn:aws:ec2:r:1:instance/*", Context: map[string][]string{"aws:requesttag/owner": {"b"}, "aws:RequestTag/pool": {""}}}, true, ""},
		"half tagged":         {"one key is missing", []string{whole(allowTags)}, Request{Action: "ec2:CreateTags", Resource: "arn:aws:ec2:r:1:instance/*", Context: map[string][]string{"aws:RequestTag/owner": {"b"}}}, false, "0/statement 1 comes nearest: StringLike: aws:RequestTag/pool must be [*] and is []"},
		"tagged for another":  {"one key has another value", []string{whole(allowTags)}, Request{Action: "ec2:CreateTags", Resource: "x", Context: map[string][]string{"aws:RequestTag/owner": {"c"}, "aws:RequestTag/pool": {"p"}}}, false, "must be [a b] and is [c]"},
		"the nearest is told": {"of two that do not hold, the one that holds further", []string{whole(`{"Sid":"Far","Effect":"Allow","Action":"ec2:CreateTags","Resource":"y"},` + allowTags)}, Request{Action: "ec2:CreateTags", Resource: "x"}, false, "0/statement 2 comes nearest"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var documents []Document
			for i, text := range tc.documents {
				d, err := Parse(string(rune('0'+i)), text)
				if err != nil {
					t.Fatal(err)
				}
				documents = append(documents, d)
			}
			got := Evaluate(documents, tc.request)
			if got.Allowed != tc.want || !strings.Contains(got.Why, tc.why) || (got.By == "" && tc.want) {
				t.Errorf("%s: got %+v, want allowed %v, why %q", tc.reason, got, tc.want, tc.why)
			}
		})
	}
}

func TestConditions(t *testing.T) {
	one, two := []string{"arn:aws:sqs:r:1:q"}, []string{"a", "b"}
	cases := map[string]struct {
		reason, operator string
		have, want       []string
		holds            bool
	}{
		"equal":                 {"", "StringEquals", []string{"a"}, two, true},
		"unequal":               {"case counts", "StringEquals", []string{"A"}, two, false},
		"no wildcard":           {"StringEquals takes * by its word", "StringEquals", []string{"a"}, []string{"*"}, false},
		"missing":               {"a key that is not there equals nothing", "StringEquals", nil, two, false},
		"missing if exists":     {"", "StringEqualsIfExists", nil, two, true},
		"there if exists":       {"it is asked when it is there", "StringEqualsIfExists", []string{"c"}, two, false},
		"several":               {"several values need a set operator", "StringEquals", two, two, false},
		"ignoring case":         {"", "StringEqualsIgnoreCase", []string{"A"}, two, true},
		"like":                  {"", "StringLike", []string{"abc"}, []string{"a?c", "x"}, true},
		"like nothing":          {"* takes the empty string too", "StringLike", []string{""}, []string{"*"}, true},
		"like but longer":       {"", "StringLike", []string{"abcd"}, []string{"a?c"}, false},
		"like twice":            {"a wildcard may have to take more than at first", "StringLike", []string{"a-b-b"}, []string{"a*-b"}, true},
		"not equal":             {"", "StringNotEquals", []string{"c"}, two, true},
		"not equal one of them": {"none may be equal", "StringNotEquals", []string{"b"}, two, false},
		"not equal, missing":    {"what is not there is not equal", "StringNotEquals", nil, two, true},
		"not like":              {"", "StringNotLike", []string{"abc"}, []string{"a*"}, false},
		"ARN":                   {"", "ArnEquals", one, []string{"arn:aws:sqs:*:1:q"}, true},
		"ARN over a colon":      {"", "ArnLike", []string{"arn:aws:sqs:r:1:2:q"}, []string{"arn:aws:sqs:*:q"}, false},
		"another ARN":           {"", "ArnNotEquals", []string{"arn:aws:sqs:r:1:p"}, one, true},
		"the same ARN":          {"", "ArnNotEquals", one, one, false},
		"not an ARN":            {"", "ArnEquals", []string{"q"}, one, false},
		"for all":               {"", "ForAllValues:StringEquals", []string{"a", "a"}, two, true},
		"for all, one outside":  {"", "ForAllValues:StringEquals", []string{"a", "c"}, two, false},
		"for all of none":       {"it holds for the empty set", "ForAllValues:StringEquals", nil, two, true},
		"for any":               {"", "ForAnyValue:StringEquals", []string{"a", "c"}, two, true},
		"for any of none":       {"", "ForAnyValue:StringEquals", nil, two, false},
		"is there":              {"", "Null", []string{""}, []string{"false"}, true},
		"is not there":          {"", "Null", nil, []string{"false"}, false},
		"should be missing":     {"", "Null", nil, []string{"true"}, true},
		"true":                  {"", "Bool", []string{"true"}, []string{"True"}, true},
		"unknown":               {"what is not understood does not hold", "DateEquals", []string{"a"}, []string{"a"}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := holds(tc.operator, tc.have, tc.want); got != tc.holds {
				t.Errorf("%s: %s %v %v is %v, want %v", tc.reason, tc.operator, tc.have, tc.want, got, tc.holds)
			}
		})
	}
}

// What the evaluator does not understand it does not judge.
func TestParseRefuses(t *testing.T) {
	cases := map[string]struct{ document, says string }{
		"operator":    {whole(`{"Effect":"Deny","Action":"a:B","Resource":"*","Condition":{"DateGreaterThan":{"aws:CurrentTime":"2026-01-01"}}}`), "DateGreaterThan"},
		"set of Null": {whole(`{"Effect":"Deny","Action":"a:B","Resource":"*","Condition":{"ForAllValues:Null":{"k":"true"}}}`), "ForAllValues:Null"},
		"variable":    {whole(`{"Effect":"Allow","Action":"a:B","Resource":"arn:aws:iam::1:role/${aws:username}"}`), "variables"},
		"member":      {whole(`{"Effect":"Allow","Action":"a:B","Resource":"*","NotPrincipal":"*"}`), "NotPrincipal"},
		"effect":      {whole(`{"Effect":"allow","Action":"a:B","Resource":"*"}`), `effect is "allow"`},
		"no action":   {whole(`{"Effect":"Allow","Resource":"*"}`), "one of Action"},
		"both":        {whole(`{"Effect":"Allow","Action":"a:B","NotAction":"a:C","Resource":"*"}`), "one of Action"},
		"no resource": {whole(`{"Effect":"Allow","Action":"a:B"}`), "one of Resource"},
		"version":     {`{"Version":"2008-10-17","Statement":[]}`, "2008-10-17"},
		"text":        {"no JSON", "reading policy p"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse("p", tc.document); err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %v, want an error that says %q", err, tc.says)
			}
		})
	}
}

func TestWithin(t *testing.T) {
	policy, err := Parse("policy", whole(allowGet))
	if err != nil {
		t.Fatal(err)
	}
	r := Request{Action: "iam:GetRole", Resource: "arn:aws:iam::1:role/castoff-x"}
	for text, want := range map[string]bool{
		whole(`{"Effect":"Allow","Action":"iam:*","Resource":"*"}`):                                                  true,
		whole(`{"Effect":"Allow","Action":"sqs:*","Resource":"*"}`):                                                  false,
		whole(`{"Effect":"Allow","Action":"*","Resource":"*"},{"Effect":"Deny","Action":"iam:Get*","Resource":"*"}`): false,
	} {
		boundary, err := Parse("boundary", text)
		if err != nil {
			t.Fatal(err)
		}
		if got := Within(boundary, []Document{policy}, r); got.Allowed != want {
			t.Errorf("within %s: got %+v, want %v", text, got, want)
		}
		if got := Within(boundary, nil, r); got.Allowed {
			t.Errorf("a boundary alone allows nothing, got %+v", got)
		}
	}
}
