package awsapi

import (
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
)

// Document is an IAM policy document (grammar of the IAM user guide), trust and queue policies among them.
type Document struct {
	Version   string      `json:"Version"`
	Statement []Statement `json:"Statement"`
}

// Statement of a Document. Principal is set in trust and resource policies only.
type Statement struct {
	Sid         string     `json:"Sid,omitempty"`
	Effect      string     `json:"Effect"`
	Principal   any        `json:"Principal,omitempty"`
	Action      Strings    `json:"Action,omitempty"`
	Resource    Strings    `json:"Resource,omitempty"`
	NotResource Strings    `json:"NotResource,omitempty"`
	Condition   Conditions `json:"Condition,omitempty"`
}

// Conditions are operator → key → values.
type Conditions map[string]map[string]Strings

// Strings is a list that policies may also write as a single string.
type Strings []string

// UnmarshalJSON reads a string or a list of them; a bool or a number in a condition is read as its text.
func (s *Strings) UnmarshalJSON(b []byte) error {
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	*s = nil
	for _, e := range list {
		*s = append(*s, fmt.Sprint(e))
	}
	return nil
}

// NewDocument makes a document of the current policy language version.
func NewDocument(statements ...Statement) Document {
	return Document{Version: "2012-10-17", Statement: statements}
}

// String is the document as compact JSON: policies are limited by their length.
func (d Document) String() string {
	b, err := json.Marshal(d)
	if err != nil {
		return "" // only a Principal that is no JSON could do that, and castoff writes strings
	}
	return string(b)
}

// ParseDocument reads a document as AWS returns it; IAM returns it URL-encoded (RFC 3986).
func ParseDocument(text string) (Document, error) {
	if strings.HasPrefix(text, "%") {
		decoded, err := url.PathUnescape(text)
		if err != nil {
			return Document{}, fmt.Errorf("decoding a policy document: %w", err)
		}
		text = decoded
	}
	var d Document
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		return Document{}, fmt.Errorf("parsing a policy document: %w", err)
	}
	return d, nil
}

// Same says whether two documents mean the same: AWS reorders lists, and writes a list of one as a string.
func (d Document) Same(other Document) bool {
	return reflect.DeepEqual(d.normal(), other.normal())
}

// normal is the document with every list sorted and the statements' names left out.
func (d Document) normal() []string {
	var out []string
	for _, s := range d.Statement {
		s.Sid = ""
		s.Action, s.Resource, s.NotResource = sorted(s.Action), sorted(s.Resource), sorted(s.NotResource)
		s.Principal = principals(s.Principal)
		conditions := Conditions{}
		for operator, keys := range s.Condition {
			conditions[operator] = map[string]Strings{}
			for key, values := range keys {
				conditions[operator][key] = sorted(values)
			}
		}
		s.Condition = conditions
		b, _ := json.Marshal(s)
		out = append(out, string(b))
	}
	slices.Sort(out)
	return out
}

func sorted(s Strings) Strings {
	out := slices.Clone(s)
	slices.Sort(out)
	return slices.Compact(out)
}

// principals reads a principal in any of the ways that policies write it: "*", {"Service": "x"}, {"Service": ["x"]}.
func principals(p any) map[string]Strings {
	b, err := json.Marshal(p)
	if err != nil || p == nil {
		return nil
	}
	out := map[string]Strings{}
	if json.Unmarshal(b, &out) != nil {
		return map[string]Strings{"*": {fmt.Sprint(p)}}
	}
	for kind, names := range out {
		out[kind] = sorted(names)
	}
	return out
}

// Trusts says whether the document lets the service do the actions without a condition, and denies nothing but plain
// HTTP. A document with another Deny is not understood further: whoever wrote it meant something by it.
func (d Document) Trusts(service string, actions ...string) bool {
	left := slices.Clone(actions)
	for _, s := range d.Statement {
		if s.Effect != "Allow" {
			if !s.deniesPlainHTTP() {
				return false
			}
			continue
		}
		if len(s.Condition) > 0 || !slices.Contains(principals(s.Principal)["Service"], service) {
			continue
		}
		left = slices.DeleteFunc(left, func(a string) bool {
			return slices.ContainsFunc(s.Action, func(have string) bool { return strings.EqualFold(have, a) })
		})
	}
	return len(left) == 0
}

func (s Statement) deniesPlainHTTP() bool {
	values := s.Condition["Bool"]["aws:SecureTransport"]
	return s.Effect == "Deny" && len(s.Condition) == 1 && slices.Equal(values, Strings{"false"})
}
