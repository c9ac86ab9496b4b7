package inventory

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestNodeGroupLooksAtItself(t *testing.T) {
	g := NodeGroup{
		Instances:          []Instance{{ID: "i-1", Lifecycle: "InService"}, {ID: "i-2", Lifecycle: "Terminating:Wait"}},
		Tags:               []Tag{{Key: "team", Value: "a"}},
		SuspendedProcesses: []string{"Launch", "AZRebalance"},
	}
	value, tagged := g.Tag("team")
	_, untagged := g.Tag("owner")
	got := []any{g.InService(), g.Empty(), g.Has("i-2"), g.Has("i-3"), value, tagged, untagged, g.Suspends("Launch"), g.Suspends("Launch", "Terminate"), g.Suspends(), NodeGroup{}.Empty()}
	want := []any{1, false, true, false, "a", true, false, true, false, true, true}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestHasTaint(t *testing.T) {
	n := Node{Taints: []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoSchedule}}}
	cases := map[string]struct {
		reason string
		key    string
		effect corev1.TaintEffect
		want   bool
	}{
		"Same":       {"key and effect", "a", corev1.TaintEffectNoSchedule, true},
		"AnyEffect":  {"an empty effect matches any", "a", "", true},
		"OtherSort":  {"another effect of the same key is another taint", "a", corev1.TaintEffectPreferNoSchedule, false},
		"OtherTaint": {"another key", "b", "", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := n.HasTaint(tc.key, tc.effect); got != tc.want {
				t.Errorf("%s: got %v", tc.reason, got)
			}
		})
	}
}

func TestSnapshotGroup(t *testing.T) {
	s := &Snapshot{Groups: []GroupSnapshot{{Group: NodeGroup{Name: "a"}}}}
	if _, ok := s.Group("a"); !ok {
		t.Error("a recorded group is found")
	}
	if _, ok := s.Group("b"); ok {
		t.Error("one that is not recorded is not")
	}
	if _, ok := (*Snapshot)(nil).Group("a"); ok {
		t.Error("no snapshot has no groups")
	}
}

func TestFindingBlocks(t *testing.T) {
	cases := map[string]struct {
		reason string
		f      Finding
		want   bool
	}{
		"Block":    {"a Block stops", Finding{Severity: "Block"}, true},
		"Accepted": {"unless the user accepts it", Finding{Severity: "Block", Accepted: true}, false},
		"Warn":     {"a Warn does not", Finding{Severity: "Warn"}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.f.Blocks(); got != tc.want {
				t.Errorf("%s: got %v", tc.reason, got)
			}
		})
	}
}

func TestAutoscalerStopped(t *testing.T) {
	for name, a := range map[string]Autoscaler{"Asked": {Replicas: 1}, "Reported": {StatusReplicas: 1}, "Pods": {Pods: 1}} {
		if a.Stopped() {
			t.Errorf("%s: something of it still runs", name)
		}
	}
	if !(Autoscaler{}).Stopped() {
		t.Error("nothing asked, reported or running is stopped")
	}
}

func TestOwner(t *testing.T) {
	tags := func(pairs ...string) []Tag {
		var out []Tag
		for i := 0; i < len(pairs); i += 2 {
			out = append(out, Tag{Key: pairs[i], Value: pairs[i+1]})
		}
		return out
	}
	managed := func(key, value string) *ManagedNodeGroup {
		return &ManagedNodeGroup{Tags: map[string]string{key: value}}
	}
	cases := map[string]struct {
		reason string
		g      NodeGroup
		want   string
	}{
		"Nobody":         {"a group without tags is nobody's", NodeGroup{}, ""},
		"Strangers":      {"tags of other sorts name no owner", NodeGroup{Tags: tags("team", "shop", "k8s.io/cluster-autoscaler/enabled", "true", "eks:nodegroup-name", "batch")}, ""},
		"Word":           {"the user's own word counts", NodeGroup{Tags: tags("castoff.sh/owner", "platform team")}, "platform team"},
		"WordFirst":      {"before every other tag", NodeGroup{Tags: tags("aws:cloudformation:stack-name", "nodes", "castoff.sh/owner", "platform team")}, "platform team"},
		"Eksctl":         {"eksctl names its node group", NodeGroup{Tags: tags("alpha.eksctl.io/nodegroup-name", "batch")}, "eksctl (nodegroup batch)"},
		"EksctlFirst":    {"eksctl makes a stack, and it is eksctl that would be run", NodeGroup{Tags: tags("aws:cloudformation:stack-name", "eksctl-prod", "alpha.eksctl.io/nodegroup-name", "batch")}, "eksctl (nodegroup batch)"},
		"CloudFormation": {"the stack is named", NodeGroup{Tags: tags("aws:cloudformation:stack-name", "nodes")}, "CloudFormation (stack nodes)"},
		"Managed":        {"the managed node group's own tags count too", NodeGroup{Managed: managed("aws:cloudformation:stack-name", "nodes")}, "CloudFormation (stack nodes)"},
		"ManagedOnly":    {"a managed node group without tags is nobody's", NodeGroup{Managed: &ManagedNodeGroup{}}, ""},
		"Terraform":      {"a tag named terraform, whatever its value", NodeGroup{Tags: tags("Terraform", "true")}, "Terraform"},
		"ManagedBy":      {"managed by Terraform, as people write it", NodeGroup{Tags: tags("ManagedBy", "terraform")}, "Terraform"},
		"ManagedByDash":  {"with a dash", NodeGroup{Tags: tags("managed-by", "Terraform")}, "Terraform"},
		"ManagedByLine":  {"with an underscore, in a name space", NodeGroup{Managed: managed("acme:managed_by", "TERRAFORM")}, "Terraform"},
		"Kubernetes":     {"as Kubernetes has it", NodeGroup{Tags: tags("app.kubernetes.io/managed-by", "terraform")}, "Terraform"},
		"OtherKeeper":    {"managed by something else is not Terraform's", NodeGroup{Tags: tags("managed-by", "hand")}, ""},
		"OtherKey":       {"the word in another tag says nothing of who keeps the group", NodeGroup{Tags: tags("course", "terraform")}, ""},
		"EmptyWord":      {"an empty word is none", NodeGroup{Tags: tags("castoff.sh/owner", "")}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.g.Owner(); got != tc.want {
				t.Errorf("%s: Owner() = %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}
