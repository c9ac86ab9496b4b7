package autoscaler

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// byDefault is what Cluster Autoscaler does when it is told nothing.
func byDefault(change ...func(*flags)) flags {
	f := flags{namespace: "kube-system", leaderElect: true, lease: "cluster-autoscaler", status: "cluster-autoscaler-status"}
	for _, c := range change {
		c(&f)
	}
	return f
}

func TestParse(t *testing.T) {
	tests := map[string]struct {
		reason string
		words  []string
		want   flags
	}{
		"Nothing": {reason: "the defaults", want: byDefault()},
		"AsInTheExamples": {
			reason: "upstream's example for AWS",
			words: []string{"./cluster-autoscaler", "--v=4", "--stderrthreshold=info", "--cloud-provider=aws", "--skip-nodes-with-local-storage=false",
				"--expander=least-waste", "--node-group-auto-discovery=asg:tag=k8s.io/cluster-autoscaler/enabled,k8s.io/cluster-autoscaler/harbor"},
			want: byDefault(func(f *flags) {
				f.discovery, f.expander = []string{"k8s.io/cluster-autoscaler/enabled,k8s.io/cluster-autoscaler/harbor"}, "least-waste"
			}),
		},
		"ValueInItsOwnWord": {
			reason: "pflag takes both forms",
			words:  []string{"--namespace", "scaling", "--nodes", "1:9:general", "--node-group-auto-discovery", "asg:tag=a=b", "--leader-elect-resource-name", "mine"},
			want: byDefault(func(f *flags) {
				f.namespace, f.lease, f.static, f.discovery = "scaling", "mine", []string{"general"}, []string{"a=b"}
			}),
		},
		"Static": {
			reason: "several groups, and a name that holds colons",
			words:  []string{"--nodes=1:9:general", "--nodes=0:4:arn:aws:autoscaling:x"},
			want:   byDefault(func(f *flags) { f.static = []string{"general", "arn:aws:autoscaling:x"} }),
		},
		"TheLastCounts": {
			reason: "as in pflag", words: []string{"--namespace=a", "--namespace=b"},
			want: byDefault(func(f *flags) { f.namespace = "b" }),
		},
		"Expander": {reason: "several are asked one after the other", words: []string{"--expander=priority,least-waste"},
			want: byDefault(func(f *flags) { f.expander = "priority,least-waste" })},
		"VariableOfAName": {
			reason: "its value is not in the Deployment: the default is taken, and that is said; groups are kept as they stand",
			words:  []string{"--namespace=$(NAMESPACE)", "--nodes=1:9:$(GROUP)"},
			want: byDefault(func(f *flags) {
				f.static = []string{"$(GROUP)"}
				f.notes = []string{"--namespace=$(NAMESPACE) holds a variable that only the pod knows; castoff takes the default for it"}
			}),
		},
		"Underscores": {
			reason: "Cluster Autoscaler takes them for dashes", words: []string{"--leader_elect=false", "--status_config_map_name=s"},
			want: byDefault(func(f *flags) { f.leaderElect, f.status = false, "s" }),
		},
		"NoLeaderElection":       {reason: "the Lease is no fence then", words: []string{"--leader-elect=false"}, want: byDefault(func(f *flags) { f.leaderElect = false })},
		"LeaderElectionAlone":    {reason: "the word behind a switch is not its value", words: []string{"--leader-elect", "false"}, want: byDefault()},
		"LeaderElectionNonsense": {reason: "Cluster Autoscaler would not start", words: []string{"--leader-elect=maybe"}, want: byDefault()},
		"OtherDiscovery":         {reason: "another cloud's", words: []string{"--node-group-auto-discovery=mig:namePrefix=x,min=1"}, want: byDefault()},
		"DiscoveryWithBlanks":    {reason: "as Cluster Autoscaler trims them", words: []string{"--node-group-auto-discovery=asg:tag=a, b,"}, want: byDefault(func(f *flags) { f.discovery = []string{"a,b"} })},
		"TwoDiscoveries": {reason: "each flag finds groups of its own", words: []string{"--node-group-auto-discovery=asg:tag=a,b", "--node-group-auto-discovery=asg:tag=c"},
			want: byDefault(func(f *flags) { f.discovery = []string{"a,b", "c"} })},
		"HalfAGroup":              {reason: "no name", words: []string{"--nodes=1:9", "--nodes=1:9:"}, want: byDefault()},
		"CutOff":                  {reason: "a flag without its value ends the line", words: []string{"--nodes"}, want: byDefault()},
		"UnknownFlagsAndTheRest":  {reason: "castoff does not judge them", words: []string{"--balance-similar-node-groups", "positional", "-v=4"}, want: byDefault()},
		"UnknownFlagTakesNoValue": {reason: "the word behind may be a flag of interest", words: []string{"--v", "--namespace=x"}, want: byDefault(func(f *flags) { f.namespace = "x" })},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, parse(tc.words), cmp.AllowUnexported(flags{})); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestWords(t *testing.T) {
	tests := map[string]struct {
		reason    string
		container corev1.Container
		want      []string
	}{
		"CommandAndArgs": {
			reason:    "both are the line", // upstream's example has flags in command, its Helm chart too, others in args
			container: corev1.Container{Command: []string{"./cluster-autoscaler", "--v=4"}, Args: []string{"--nodes=1:9:x"}},
			want:      []string{"./cluster-autoscaler", "--v=4", "--nodes=1:9:x"},
		},
		"Shell": {
			reason: "a script is taken apart",
			container: corev1.Container{Command: []string{"/bin/sh", "-c"},
				Args: []string{"./cluster-autoscaler --v=4 \\\n  '--nodes=1:9:x' 1>>/var/log/ca.log 2>&1"}},
			want: []string{"/bin/sh", "-c", "./cluster-autoscaler", "--v=4", "--nodes=1:9:x", "1>>/var/log/ca.log", "2>&1"},
		},
		"FlagWithBlanks": {
			reason:    "a flag's value may hold blanks",
			container: corev1.Container{Args: []string{"--node-group-auto-discovery=asg:tag=a, b"}},
			want:      []string{"--node-group-auto-discovery=asg:tag=a, b"},
		},
		"Variables": {
			reason: "as the kubelet fills them in, as far as the Deployment tells",
			container: corev1.Container{
				Args: []string{"--namespace=$(NAMESPACE)", "--nodes=1:9:$(GROUP)", "--v=$(LEVEL)"},
				Env: []corev1.EnvVar{
					{Name: "NAMESPACE", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.namespace"}}},
					{Name: "GROUP", Value: "general"},
					{Name: "LEVEL", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{Key: "x"}}},
				},
			},
			want: []string{"--namespace=scaling", "--nodes=1:9:general", "--v=$(LEVEL)"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, words(&tc.container, "scaling")); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestFindContainer(t *testing.T) {
	tests := map[string]struct {
		reason    string
		container corev1.Container
		want      bool
	}{
		"Upstream":     {"the usual one", corev1.Container{Image: "registry.k8s.io/autoscaling/cluster-autoscaler:v1.33.0"}, true},
		"Mirror":       {"a registry with a port", corev1.Container{Image: "mirror.example.com:5000/x/cluster-autoscaler"}, true},
		"Digest":       {"pinned", corev1.Container{Image: "registry.k8s.io/autoscaling/cluster-autoscaler:v1@sha256:0a"}, true},
		"Architecture": {"an image for one of them", corev1.Container{Image: "registry.k8s.io/autoscaling/cluster-autoscaler-arm64:v1"}, true},
		"Renamed":      {"another name, the same program", corev1.Container{Image: "example.com/ca:1", Command: []string{"/usr/bin/cluster-autoscaler"}}, true},
		"RenamedShell": {"in a script", corev1.Container{Image: "example.com/ca:1", Command: []string{"sh", "-c", "exec ./cluster-autoscaler --v=4"}}, true},
		"RenamedArgs": {"its own flag, in the image's entry point",
			corev1.Container{Image: "example.com/ca:1", Args: []string{"--node-group-auto-discovery=asg:tag=x"}}, true},
		"Exporter":     {"a name that begins the same", corev1.Container{Image: "example.com/cluster-autoscaler-exporter:1"}, false},
		"Proportional": {"another program", corev1.Container{Image: "registry.k8s.io/cpa/cluster-proportional-autoscaler:1"}, false},
		"Named in a flag": {"a watcher of it",
			corev1.Container{Image: "example.com/watch", Args: []string{"--deployment=kube-system/cluster-autoscaler", "--x", "image:cluster-autoscaler"}}, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := find(&corev1.PodSpec{Containers: []corev1.Container{{Image: "example.com/sidecar"}, tc.container}})
			if (got != nil) != tc.want || Runs(&corev1.PodSpec{Containers: []corev1.Container{tc.container}}) != tc.want {
				t.Errorf("%s: got %v", tc.reason, got)
			}
		})
	}
}
