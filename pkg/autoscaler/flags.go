package autoscaler

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// The flags that castoff reads, as Cluster Autoscaler's FAQ lists them.
const (
	flagNamespace   = "namespace"
	flagNodes       = "nodes"
	flagDiscovery   = "node-group-auto-discovery"
	flagLeaderElect = "leader-elect"
	flagLease       = "leader-elect-resource-name"
	flagStatusName  = "status-config-map-name"
	flagExpander    = "expander"

	discoveryByTag = "asg:tag="
	program        = "cluster-autoscaler"
)

// DefaultLease is the name of Cluster Autoscaler's leader-election Lease where it was told no other.
const DefaultLease = program

// flags is what Cluster Autoscaler was started with, its own defaults where it was told nothing.
type flags struct {
	namespace   string
	discovery   []string // tag keys, or key=value
	static      []string // group names
	leaderElect bool
	lease       string
	status      string
	expander    string   // several, separated by commas
	notes       []string // what could not be read
}

// images are built for one architecture too: cluster-autoscaler-arm64.
var imageName = regexp.MustCompile(`^cluster-autoscaler(-(amd64|arm64|arm|ppc64le|s390x))?$`)

// find gives the container of the pod that runs Cluster Autoscaler, known by its image's name in whatever registry, or by the
// program that it runs; nil if none does.
func find(spec *corev1.PodSpec) *corev1.Container {
	for i := range spec.Containers {
		container := &spec.Containers[i]
		if imageName.MatchString(imageBase(container.Image)) || runs(words(container, "")) {
			return container
		}
	}
	return nil
}

// Runs says whether a pod of that kind runs Cluster Autoscaler.
func Runs(spec *corev1.PodSpec) bool { return find(spec) != nil }

// imageBase is the last part of an image's name, without tag and digest. A port in the registry's name is no tag.
func imageBase(image string) string {
	name, _, _ := strings.Cut(image, "@")
	name = name[strings.LastIndex(name, "/")+1:]
	name, _, _ = strings.Cut(name, ":")
	return name
}

// runs says whether a command line is Cluster Autoscaler's: by the program's name, else by a flag that only it has.
func runs(words []string) bool {
	return slices.ContainsFunc(words, func(word string) bool {
		if name, isFlag := flagName(word); isFlag {
			return name == flagDiscovery
		}
		return path.Base(word) == program && !strings.ContainsAny(word, ":=")
	})
}

// words is the container's command line with its variables filled in; a shell's script is taken apart at blanks.
func words(container *corev1.Container, namespace string) []string {
	expand := variables(container, namespace)
	var words []string
	for _, part := range slices.Concat(container.Command, container.Args) {
		part = expand.Replace(part)
		if !strings.ContainsAny(part, " \n\t") || strings.HasPrefix(part, "-") {
			words = append(words, part)
			continue
		}
		for _, word := range strings.Fields(part) {
			if word = strings.Trim(word, `"'\`); word != "" {
				words = append(words, word)
			}
		}
	}
	return words
}

// variables fills in $(NAME) as the kubelet would, as far as the Deployment tells: plain values and the pod's namespace.
func variables(container *corev1.Container, namespace string) *strings.Replacer {
	var pairs []string
	for _, env := range container.Env {
		value := env.Value
		if from := env.ValueFrom; from != nil && from.FieldRef != nil && from.FieldRef.FieldPath == "metadata.namespace" {
			value = namespace
		}
		if value != "" {
			pairs = append(pairs, "$("+env.Name+")", value)
		}
	}
	return strings.NewReplacer(pairs...)
}

// parse reads a command line as Cluster Autoscaler would: --x=y or --x y, the last one counts, those that repeat add up. An
// argument that it would not understand is passed over, for castoff does not judge how it was started.
func parse(words []string) flags {
	f := flags{namespace: "kube-system", leaderElect: true, lease: program, status: program + "-status"}
	texts := map[string]*string{flagNamespace: &f.namespace, flagLease: &f.lease, flagStatusName: &f.status, flagExpander: &f.expander}
	for i := 0; i < len(words); i++ {
		name, isFlag := flagName(words[i])
		if !isFlag {
			continue
		}
		_, value, given := strings.Cut(words[i], "=")
		if name == flagLeaderElect { // a flag that stands alone: the word behind it is not its value
			on, err := strconv.ParseBool(value)
			f.leaderElect = !given || err != nil || on
			continue
		}
		if !given && i+1 < len(words) && (texts[name] != nil || name == flagNodes || name == flagDiscovery) {
			i++
			value = words[i]
		}
		f.set(name, value, texts[name])
	}
	return f
}

// set takes the value of a flag; text is where it goes, if it is a text that castoff needs.
func (f *flags) set(name, value string, text *string) {
	switch {
	case text != nil && unresolved(value):
		f.notes = append(f.notes, "--"+name+"="+value+" holds a variable that only the pod knows; castoff takes the default for it")
	case text != nil && value != "": // what is empty is not said
		*text = value
	case name == flagNodes:
		f.addStatic(value)
	case name == flagDiscovery:
		f.addDiscovery(value)
	}
}

// unresolved says that an argument holds a variable whose value is not in the workload: of a Secret, a ConfigMap, or of none.
func unresolved(argument string) bool { return strings.Contains(argument, "$(") }

// flagName gives the name of a flag, with dashes where Cluster Autoscaler would take underscores as well.
func flagName(word string) (name string, isFlag bool) {
	name, isFlag = strings.CutPrefix(word, "--")
	name, _, _ = strings.Cut(name, "=")
	return strings.ReplaceAll(name, "_", "-"), isFlag
}

// addStatic reads min:max:name.
func (f *flags) addStatic(value string) {
	if parts := strings.SplitN(value, ":", 3); len(parts) == 3 && parts[2] != "" {
		f.static = append(f.static, parts[2])
	}
}

// addDiscovery reads asg:tag=key,key=value. A group is discovered by one flag when it has all of that flag's tags; several flags
// add up, so each flag's tags stay together.
func (f *flags) addDiscovery(value string) {
	tags, byTag := strings.CutPrefix(value, discoveryByTag)
	if !byTag {
		return
	}
	var keys []string
	for tag := range strings.SplitSeq(tags, ",") {
		if tag = strings.TrimSpace(tag); tag != "" {
			keys = append(keys, tag)
		}
	}
	if all := strings.Join(keys, ","); all != "" && !slices.Contains(f.discovery, all) {
		f.discovery = append(f.discovery, all)
	}
}
