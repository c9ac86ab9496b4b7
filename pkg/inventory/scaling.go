package inventory

import (
	"regexp"
	"slices"
	"strings"
)

// most is the highest weight that a NodePool takes (Karpenter, "spec.weight").
const most = 100

// ScalingOf is how the first Cluster Autoscaler that manages one of the groups was told to scale them; nil without one.
func ScalingOf(autoscalers []Autoscaler, groups []NodeGroup) *Scaling {
	for _, a := range autoscalers {
		if slices.ContainsFunc(groups, a.Manages) {
			flags := flagsOf(a.Args)
			out := &Scaling{Flags: flags}
			if slices.Contains(strings.Split(flags["expander"], ","), "priority") {
				out.Weight = weightOf(a.Priorities, groups)
			}
			return out
		}
	}
	return nil
}

// flagsOf reads --name=value, --name value and --name alone, which is true, with one dash or two as Go's flags take them. The last of
// a name counts, as it does for Cluster Autoscaler.
func flagsOf(args []string) map[string]string {
	out := map[string]string{}
	args = spread(args)
	for i := 0; i < len(args); i++ {
		name, value, has := strings.Cut(strings.TrimSpace(args[i]), "=")
		if !strings.HasPrefix(name, "-") {
			continue
		}
		if name = strings.TrimLeft(name, "-"); name == "" {
			continue
		}
		if !has {
			value = "true"
			if i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
				i++
				value = args[i]
			}
		}
		out[name] = strings.Trim(value, `"'`)
	}
	return out
}

// spread takes the script of a shell apart at blanks. What begins with a dash is one argument, whatever it holds.
func spread(args []string) []string {
	var out []string
	for _, a := range args {
		if strings.HasPrefix(strings.TrimSpace(a), "-") {
			out = append(out, a)
			continue
		}
		for _, word := range strings.Fields(a) {
			if word = strings.Trim(word, "\"'\\"); word != "" {
				out = append(out, word)
			}
		}
	}
	return out
}

// weightOf is the highest priority whose expressions match the name of one of the groups: itself where all priorities are weights,
// else its rank among them. An expression that is none matches nothing, as Cluster Autoscaler has it.
func weightOf(priorities map[int32][]string, groups []NodeGroup) int32 {
	var all []int32
	for p := range priorities {
		all = append(all, p)
	}
	slices.Sort(all)
	for i, p := range slices.Backward(all) {
		if !slices.ContainsFunc(priorities[p], func(expression string) bool { return matches(expression, groups) }) {
			continue
		}
		if all[0] >= 1 && all[len(all)-1] <= most {
			return p
		}
		return int32(max(1, min(most, most-(len(all)-1-i)))) //nolint:gosec // 1 to 100
	}
	return 0
}

func matches(expression string, groups []NodeGroup) bool {
	r, err := regexp.Compile(expression)
	return err == nil && slices.ContainsFunc(groups, func(g NodeGroup) bool { return r.MatchString(g.AutoScalingGroup) })
}

// SharedLabels are the labels that all nodes of the group have, with their values; nil when it has none.
func SharedLabels(nodes []Node, group string) map[string]string {
	var out map[string]string
	for _, n := range nodes {
		switch {
		case n.Group != group || group == "":
		case out == nil:
			out = map[string]string{}
			for k, v := range n.Labels {
				out[k] = v
			}
		default:
			for k, v := range out {
				if have, ok := n.Labels[k]; !ok || have != v {
					delete(out, k)
				}
			}
		}
	}
	return out
}
