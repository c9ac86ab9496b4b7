package autoscaler

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// FuzzParse holds for whatever somebody started Cluster Autoscaler with, as words or in a shell's script: what castoff goes by is always
// there, nothing in it is empty, and an argument that castoff does not know changes nothing.
func FuzzParse(f *testing.F) {
	for _, args := range []string{
		"./cluster-autoscaler\n--cloud-provider=aws\n--nodes=1:10:ng-a\n--nodes=0:5:ng-b",
		"--node-group-auto-discovery=asg:tag=k8s.io/cluster-autoscaler/enabled,k8s.io/cluster-autoscaler/prod=owned",
		"--node-group-auto-discovery\nasg:tag=a,,b\n--leader-elect=false\n--namespace=$(POD_NAMESPACE)",
		"/bin/sh\n-c\n./cluster-autoscaler --v=4 --leader_elect_resource_name='ca' --expander=priority,least-waste",
		"--namespace=\n--leader-elect-resource-name=\n--status-config-map-name\n--nodes=::\n--nodes",
	} {
		f.Add(args)
	}
	f.Fuzz(func(t *testing.T, text string) {
		container := &corev1.Container{Args: strings.Split(text, "\n")}
		args := words(container, "kube-system")
		got := parse(args)
		if got.namespace == "" || got.lease == "" || got.status == "" {
			t.Errorf("no namespace, Lease or ConfigMap to go by: %+v of %q", got, args)
		}
		for _, name := range got.static {
			if name == "" {
				t.Errorf("a group without a name of %q", args)
			}
		}
		for _, tags := range got.discovery {
			if slices.Contains(strings.Split(tags, ","), "") {
				t.Errorf("a tag without a key in %q of %q: it would find every group", tags, args)
			}
		}
		if again := parse(append(slices.Clone(args), "--a-flag-to-come=x")); last(args) == "" {
			if diff := cmp.Diff(got, again, cmp.AllowUnexported(flags{})); diff != "" {
				t.Errorf("an unknown flag changes what was read of %q:\n%s", args, diff)
			}
		}
	})
}

// last is the last word if it may take the next one for its value.
func last(words []string) string {
	if len(words) == 0 || strings.Contains(words[len(words)-1], "=") || !strings.HasPrefix(words[len(words)-1], "--") {
		return ""
	}
	return words[len(words)-1]
}
