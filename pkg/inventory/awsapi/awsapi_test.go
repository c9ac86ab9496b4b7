package awsapi

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// coded is an error as the SDK's are: with a code to decide on and a message to read.
type coded struct{ code string }

func (c coded) Error() string     { return c.code + ": some words" }
func (c coded) ErrorCode() string { return c.code }

func TestWrap(t *testing.T) {
	cases := map[string]struct {
		reason string
		err    error
		class  inventory.Class
		says   string
	}{
		"Auto Scaling throttles":  {"its code of the query protocol", coded{"Throttling"}, inventory.ClassThrottled, "throttles"},
		"EC2 throttles":           {"its own code", coded{"RequestLimitExceeded"}, inventory.ClassThrottled, "throttles"},
		"EKS throttles":           {"the code of the JSON protocols", coded{"ThrottlingException"}, inventory.ClassThrottled, "throttles"},
		"SQS throttles":           {"its own code", coded{"RequestThrottled"}, inventory.ClassThrottled, "throttles"},
		"IAM denies":              {"the permission is named", coded{"AccessDenied"}, inventory.ClassTerminal, "may not"},
		"EC2 denies":              {"its own code", coded{"UnauthorizedOperation"}, inventory.ClassTerminal, "may not"},
		"EKS denies":              {"the code of the JSON protocols", coded{"AccessDeniedException"}, inventory.ClassTerminal, "may not"},
		"invalid":                 {"a human must change the object", coded{"ValidationError"}, inventory.ClassTerminal, "invalid"},
		"malformed policy":        {"a human must change the object", coded{"MalformedPolicyDocument"}, inventory.ClassTerminal, "invalid"},
		"quota":                   {"a human must raise it", coded{"LimitExceeded"}, inventory.ClassTerminal, "quota"},
		"server error":            {"it passes", coded{"InternalFailure"}, inventory.ClassRetry, "tried again"},
		"contention":              {"another change is under way", coded{"ResourceContention"}, inventory.ClassRetry, "tried again"},
		"update in progress":      {"EKS changes one thing at a time", coded{"ResourceInUseException"}, inventory.ClassRetry, "tried again"},
		"expired token":           {"the SDK gets another", coded{"ExpiredToken"}, inventory.ClassRetry, "tried again"},
		"no answer":               {"the network", errors.New("connection refused"), inventory.ClassRetry, "tried again"},
		"throttled in words only": {"a message decides nothing", errors.New("Throttling: Rate exceeded"), inventory.ClassRetry, "tried again"},
		"wrapped":                 {"the SDK wraps its errors", fmt.Errorf("operation error: %w", coded{"AccessDenied"}), inventory.ClassTerminal, "may not"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := Wrap(tc.err, "iam:GetRole", "IAM role x")
			if inventory.ClassOf(got) != tc.class {
				t.Errorf("%s: class is %s, want %s", tc.reason, inventory.ClassOf(got), tc.class)
			}
			if !errors.Is(got, tc.err) {
				t.Errorf("%s: the cause is lost: %v", tc.reason, got)
			}
			for _, part := range []string{"IAM role x", "iam:GetRole", tc.says} {
				if !strings.Contains(got.Error(), part) {
					t.Errorf("%s: %q does not say %q", tc.reason, got, part)
				}
			}
		})
	}
	if err := Wrap(nil, "iam:GetRole", "IAM role x"); err != nil {
		t.Errorf("nothing wrapped is %v", err)
	}
}

func TestCode(t *testing.T) {
	if got := Code(fmt.Errorf("a: %w", coded{"X"})); got != "X" {
		t.Errorf("code is %q, want X", got)
	}
	if Code(errors.New("X")) != "" || Is(errors.New(""), "") || Is(nil, "") {
		t.Error("an error without a code matches one")
	}
}

func TestShorten(t *testing.T) {
	long := strings.Repeat("c", 100)
	cases := map[string]struct {
		reason string
		in     string
		limit  int
		want   string
	}{
		"fits":  {"a name that fits is kept", "prod", 80, "prod"},
		"exact": {"the limit itself fits", long[:80], 80, long[:80]},
		"long":  {"the beginning and eight hex digits", long, 80, long[:71] + "-" + Shorten(long, 80)[72:]},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := Shorten(tc.in, tc.limit)
			if got != tc.want || len(got) > tc.limit {
				t.Errorf("%s: got %q (%d characters), want %q", tc.reason, got, len(got), tc.want)
			}
		})
	}
	if Shorten(long+"a", 80) == Shorten(long+"b", 80) {
		t.Error("two long names shorten to one")
	}
}

func TestNamesFit(t *testing.T) {
	long := strings.Repeat("c", 100)
	if n := len(QueueName(long)); n > 80 {
		t.Errorf("queue name has %d characters, SQS takes 80", n)
	}
	if n := len(RoleName("KarpenterControllerRole", long)); n > 64 {
		t.Errorf("role name has %d characters, IAM takes 64", n)
	}
	seen := map[string]bool{}
	for _, k := range EventKinds() {
		name := RuleName(long, k)
		if len(name) > 64 || seen[name] {
			t.Errorf("rule name %s has %d characters (EventBridge takes 64), seen before: %v", name, len(name), seen[name])
		}
		seen[name] = true
	}
	if got := RuleName("prod", EventSpotInterruption); got != "castoff-prod-spot" {
		t.Errorf("rule name is %s", got)
	}
}

func TestARNs(t *testing.T) {
	c := inventory.Cluster{Partition: "aws-us-gov", Region: "us-gov-west-1", Account: "1"}
	if diff := cmp.Diff([]string{"arn:aws-us-gov:sqs:us-gov-west-1:1:q", "arn:aws-us-gov:iam::1:role/r"}, []string{ARN(c, "sqs", "q"), GlobalARN(c, "iam", "role/r")}); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if got := LastSegment("arn:aws:iam::1:role/a/b/c"); got != "c" {
		t.Errorf("last segment is %s", got)
	}
}

func TestDocumentsAreCompared(t *testing.T) {
	const base = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole","Condition":{"Bool":{"aws:SecureTransport":"false"}}}]}`
	cases := map[string]struct {
		reason string
		other  string
		want   bool
	}{
		"itself":          {"", base, true},
		"lists of one":    {"AWS writes either form", `{"Statement":[{"Sid":"x","Effect":"Allow","Principal":{"Service":["ec2.amazonaws.com"]},"Action":["sts:AssumeRole"],"Condition":{"Bool":{"aws:SecureTransport":[false]}}}]}`, true},
		"URL-encoded":     {"as IAM returns it", `%7B%22Statement%22%3A%5B%7B%22Effect%22%3A%22Allow%22%2C%22Principal%22%3A%7B%22Service%22%3A%22ec2.amazonaws.com%22%7D%2C%22Action%22%3A%22sts%3AAssumeRole%22%2C%22Condition%22%3A%7B%22Bool%22%3A%7B%22aws%3ASecureTransport%22%3A%22false%22%7D%7D%7D%5D%7D`, true},
		"other principal": {"", strings.Replace(base, "ec2.", "eks.", 1), false},
		"no condition":    {"", `{"Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}`, false},
		"deny":            {"", strings.Replace(base, "Allow", "Deny", 1), false},
		"anybody":         {"a principal may be a string", `{"Statement":[{"Effect":"Allow","Principal":"*","Action":"sts:AssumeRole"}]}`, false},
	}
	want, err := ParseDocument(base)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			other, err := ParseDocument(tc.other)
			if err != nil {
				t.Fatal(err)
			}
			if got := want.Same(other); got != tc.want || other.Same(want) != got {
				t.Errorf("%s: same is %v, want %v both ways", tc.reason, got, tc.want)
			}
		})
	}
	for _, text := range []string{"", "{", "%7", "[]"} {
		if _, err := ParseDocument(text); err == nil {
			t.Errorf("document %q gives no error", text)
		}
	}
}

func TestTrusts(t *testing.T) {
	const open = `{"Statement":[{"Effect":"Allow","Principal":{"Service":["a.amazonaws.com","b.amazonaws.com"]},"Action":["sts:AssumeRole","sts:TagSession"]}`
	cases := map[string]struct {
		reason   string
		document string
		want     bool
	}{
		"both actions":     {"one statement has them", open + `]}`, true},
		"two statements":   {"they add up", `{"Statement":[{"Effect":"Allow","Principal":{"Service":"a.amazonaws.com"},"Action":"STS:AssumeRole"},{"Effect":"Allow","Principal":{"Service":"a.amazonaws.com"},"Action":"sts:TagSession"}]}`, true},
		"one action":       {"half is not enough", `{"Statement":[{"Effect":"Allow","Principal":{"Service":"a.amazonaws.com"},"Action":"sts:AssumeRole"}]}`, false},
		"another service":  {"it must be the one", `{"Statement":[{"Effect":"Allow","Principal":{"Service":"c.amazonaws.com"},"Action":["sts:AssumeRole","sts:TagSession"]}]}`, false},
		"with a condition": {"castoff does not guess whether it holds", `{"Statement":[{"Effect":"Allow","Principal":{"Service":"a.amazonaws.com"},"Action":["sts:AssumeRole","sts:TagSession"],"Condition":{"StringEquals":{"aws:SourceAccount":"1"}}}]}`, false},
		"plain HTTP":       {"denying it changes nothing: AWS speaks TLS", open + `,{"Effect":"Deny","Principal":"*","Action":"*","Condition":{"Bool":{"aws:SecureTransport":"false"}}}]}`, true},
		"another deny":     {"castoff does not guess what it is for", open + `,{"Effect":"Deny","Principal":"*","Action":"*"}]}`, false},
		"nothing":          {"no statement allows", `{"Statement":[]}`, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d, err := ParseDocument(tc.document)
			if err != nil {
				t.Fatal(err)
			}
			if got := d.Trusts("a.amazonaws.com", "sts:AssumeRole", "sts:TagSession"); got != tc.want {
				t.Errorf("%s: got %v, want %v", tc.reason, got, tc.want)
			}
		})
	}
}

func TestDocumentIsCompact(t *testing.T) {
	d := NewDocument(Statement{Effect: "Allow", Action: Strings{"a:B"}, Resource: Strings{"*"}})
	if got, want := d.String(), `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":["a:B"],"Resource":["*"]}]}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
