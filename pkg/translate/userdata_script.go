package translate

import (
	"cmp"
	"slices"
	"strings"
)

const bootstrapScript = "/etc/eks/bootstrap.sh"

var (
	// joinFlags of bootstrap.sh only join the cluster (amazon-eks-ami, bootstrap.sh).
	joinFlags = []string{"apiserver-endpoint", "b64-cluster-ca", "ip-family", "service-ipv6-cidr", "container-runtime", "cluster-id", "enable-local-outpost"}
	// joinVariables are what EKS's own scripts set for it.
	joinVariables = []string{"B64_CLUSTER_CA=", "API_SERVER_URL=", "K8S_CLUSTER_DNS_IP="}
	// prefixes may stand before the call.
	prefixes = []string{"sudo ", "exec ", "bash ", "sh ", "-E ", "-x "}
)

// kubeletMaxPods is the kubelet's own default, which holds where bootstrap.sh is told not to count the addresses.
const kubeletMaxPods = "110"

// readScript lifts the call of bootstrap.sh out of a script; nothing is left of a script that did nothing else. In its place stands
// a command that does nothing, for it may have been the only one in an if.
func (u *userData) readScript(script string) string {
	var out strings.Builder
	does, joined := false, false
	for line := range logicalLines(script) {
		trimmed := strings.TrimSpace(line)
		call, ok := strings.CutPrefix(withoutPrefixes(trimmed), bootstrapScript)
		switch {
		case ok && (call == "" || strings.ContainsAny(call[:1], " \t\\;&|>")):
			arguments, tail := shellWords(strings.ReplaceAll(call, "\\\n", " "), '\\', operators)
			u.readBootstrap(arguments)
			joined = true
			does = does || tail != ""
			out.WriteString(": " + cmp.Or(tail, "# Karpenter joins the cluster") + "\n")
			continue
		case strings.Contains(trimmed, bootstrapScript) && !strings.HasPrefix(trimmed, "#"):
			u.broken = "it calls " + bootstrapScript + " in a way that castoff cannot take out"
		case !idle(trimmed):
			does, u.late = true, u.late || joined
		}
		out.WriteString(line)
	}
	if !does {
		return ""
	}
	return out.String()
}

// logicalLines are lines, those that end in a backslash together with the next.
func logicalLines(script string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		whole := ""
		for line := range strings.Lines(script) {
			whole += line
			if strings.HasSuffix(strings.TrimRight(line, "\r\n"), "\\") && !strings.HasPrefix(strings.TrimSpace(whole), "#") {
				continue
			}
			if !yield(whole) {
				return
			}
			whole = ""
		}
		if whole != "" {
			yield(whole)
		}
	}
}

func withoutPrefixes(line string) string {
	for i := 0; i < len(prefixes); i++ {
		if rest, ok := strings.CutPrefix(line, prefixes[i]); ok {
			line, i = strings.TrimSpace(rest), -1
		}
	}
	return line
}

// idle lines do nothing by themselves: comments, shell options, and the variables that EKS's own scripts set for the join.
func idle(line string) bool {
	begins := func(with string) bool { return strings.HasPrefix(line, with) }
	return line == "" || begins("#") || begins("set ") || slices.ContainsFunc(joinVariables, begins)
}

// readBootstrap reads the arguments of bootstrap.sh.
func (u *userData) readBootstrap(arguments []string) {
	countsAddresses := true
	for name, value := range options(arguments, "--") {
		switch {
		case name == "kubelet-extra-args":
			inner, _ := shellWords(value, '\\', "")
			u.readKubeletFlags(inner, nil)
		case name == "use-max-pods":
			countsAddresses = value != "false"
		case name == "dns-cluster-ip":
			if !strings.Contains(value, "$") {
				u.setFlag("cluster-dns", value)
			}
		case name == "local-disks" && value == "raid0":
			u.raid0 = true
		case !slices.Contains(joinFlags, name):
			u.drop("%s", strings.TrimSuffix("--"+name+"="+value, "="))
		}
	}
	if !countsAddresses && u.kubelet.MaxPods == nil {
		u.setFlag("max-pods", kubeletMaxPods)
	}
}

// readKubeletFlags reads flags of the kubelet; those that nothing has a place for go to keep, or are listed where keep is nil.
func (u *userData) readKubeletFlags(arguments []string, keep func(flag string)) {
	for name, written := range options(arguments, "--") {
		value := strings.Trim(written, `"'`)
		switch {
		case name == "node-labels":
			u.addLabels(value)
		case name == "register-with-taints":
			for _, t := range strings.Split(value, ",") {
				u.addTaintOf(t)
			}
		case u.setFlag(name, value):
		case keep != nil:
			keep(strings.TrimSuffix("--"+name+"="+written, "="))
		default:
			u.drop("%s", strings.TrimSuffix("--"+name+"="+value, "="))
		}
	}
}

// options are the named arguments, as --name=value, --name value, or --name alone. Positional ones are passed over.
func options(arguments []string, dashes string) func(yield func(name, value string) bool) {
	return func(yield func(string, string) bool) {
		for i := 0; i < len(arguments); i++ {
			name, ok := strings.CutPrefix(arguments[i], dashes)
			if !ok {
				continue
			}
			name, value, has := strings.Cut(name, "=")
			if !has && i+1 < len(arguments) && (passesOn(name) || !isOption(arguments[i+1], dashes)) {
				i++
				value = arguments[i]
			}
			if name != "" && !yield(name, value) {
				return
			}
		}
	}
}

func isOption(word, dashes string) bool {
	return strings.HasPrefix(word, dashes) && !strings.ContainsAny(word, " \t")
}

// passesOn: the value is for the kubelet, and begins with dashes itself.
func passesOn(name string) bool {
	return strings.EqualFold(strings.ReplaceAll(name, "-", ""), "kubeletExtraArgs")
}
