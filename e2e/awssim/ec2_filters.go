package awssim

import (
	"path"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// filterable says which filters a kind of resource knows, and what they compare with.
type filterable[T any] struct {
	tags   func(*T) []types.Tag
	values map[string]func(*T) []string
}

// matcher builds the predicate for a request: every filter must match with one of its values; * and ? are wildcards.
// A filter that the resource does not know is refused, as EC2 does.
func (f filterable[T]) matcher(filters []types.Filter) (func(*T) bool, error) {
	getters := make([]func(*T) []string, len(filters))
	for i, filter := range filters {
		get, ok := f.getter(aws.ToString(filter.Name))
		if !ok {
			return nil, errorf("InvalidParameterValue", "The filter '%s' is invalid", aws.ToString(filter.Name))
		}
		getters[i] = get
	}
	return func(x *T) bool {
		for i, get := range getters {
			if !matchesAny(filters[i].Values, get(x)) {
				return false
			}
		}
		return true
	}, nil
}

func (f filterable[T]) getter(name string) (func(*T) []string, bool) {
	if get, ok := f.values[name]; ok {
		return get, true
	}
	if f.tags == nil {
		return nil, false
	}
	if name == "tag-key" {
		return func(x *T) []string { return tagStrings(f.tags(x), func(types.Tag) bool { return true }, tagKey) }, true
	}
	if key, ok := strings.CutPrefix(name, "tag:"); ok {
		return func(x *T) []string {
			return tagStrings(f.tags(x), func(t types.Tag) bool { return tagKey(t) == key }, tagValue)
		}, true
	}
	return nil, false
}

func tagKey(t types.Tag) string   { return aws.ToString(t.Key) }
func tagValue(t types.Tag) string { return aws.ToString(t.Value) }

func tagStrings(tags []types.Tag, keep func(types.Tag) bool, part func(types.Tag) string) (out []string) {
	for _, t := range tags {
		if keep(t) {
			out = append(out, part(t))
		}
	}
	return out
}

func matchesAny(patterns, have []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		return slices.ContainsFunc(have, func(h string) bool { return matchesWildcard(p, h) })
	})
}

// matchesWildcard is EC2's: unlike in paths, * also matches a slash, and brackets mean themselves.
func matchesWildcard(pattern, s string) bool {
	if !strings.ContainsAny(pattern, "*?") {
		return pattern == s
	}
	flat := strings.NewReplacer("/", "\x00", "[", "\x01", "]", "\x02", `\`, "\x03")
	ok, err := path.Match(flat.Replace(pattern), flat.Replace(s))
	return ok && err == nil
}

// one makes a filter value of a pointer, none of nil.
func one(s *string) []string {
	if s == nil {
		return nil
	}
	return []string{*s}
}

// selectRows lists the rows of a lagging view that a Describe call asks for: those named (each must exist) or all,
// narrowed by filters.
func selectRows[T any](v view[T], ids []string, notFound string, f filterable[T], filters []types.Filter) ([]T, error) {
	match, err := f.matcher(filters)
	if err != nil {
		return nil, err
	}
	if len(ids) == 0 {
		return v.where(match), nil
	}
	var rows []T
	for _, id := range ids {
		x := v.at(id)
		if x == nil {
			return nil, errorf(notFound, "The ID '%s' does not exist", id)
		}
		if match(x) {
			rows = append(rows, deepCopy(*x))
		}
	}
	return rows, nil
}
