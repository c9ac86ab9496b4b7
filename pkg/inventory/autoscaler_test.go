package inventory

import "testing"

func TestManages(t *testing.T) {
	tagged := NodeGroup{AutoScalingGroup: "asg-1", Tags: []Tag{{Key: "enabled", Value: "true"}, {Key: "prod", Value: "owned"}}}
	cases := map[string]struct {
		reason string
		a      Autoscaler
		want   bool
	}{
		"Named":       {"--nodes names the Auto Scaling group, whatever its tags", Autoscaler{Static: []string{"asg-1"}}, true},
		"OtherName":   {"--nodes names another", Autoscaler{Static: []string{"asg-2"}}, false},
		"ByPresence":  {"a key without a value counts whatever the tag's value", Autoscaler{Discovery: []string{"enabled"}}, true},
		"AllOfOne":    {"every key of one flag has to be there", Autoscaler{Discovery: []string{"enabled,prod"}}, true},
		"OneMissing":  {"removing one of the keys ends discovery", Autoscaler{Discovery: []string{"enabled,stage"}}, false},
		"AnyOfTwo":    {"several flags add up", Autoscaler{Discovery: []string{"stage", "prod=owned"}}, true},
		"WrongValue":  {"key=value needs the value", Autoscaler{Discovery: []string{"prod=shared"}}, false},
		"Nothing":     {"without discovery and names it scales nothing", Autoscaler{}, false},
		"EmptyFilter": {"an empty flag finds nothing", Autoscaler{Discovery: []string{""}}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.a.Manages(tagged); got != tc.want {
				t.Errorf("%s: got %v", tc.reason, got)
			}
		})
	}
}
