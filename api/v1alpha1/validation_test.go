package v1alpha1_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/castoff-sh/castoff/api/v1alpha1"
)

// accepted is the want of a case that the API server takes.
const accepted = ""

// verdict is accepted, or want if the API server refuses the object as invalid in these words, else all that it says.
func verdict(err error, want string) string {
	switch {
	case err == nil:
		return accepted
	case want != accepted && apierrors.IsInvalid(err) && strings.Contains(err.Error(), want):
		return want
	}
	return err.Error()
}

func pool(name string, groups ...string) v1alpha1.Pool {
	return v1alpha1.Pool{Name: name, NodeGroups: groups}
}

func pools(p ...v1alpha1.Pool) func(*v1alpha1.Migration) {
	return func(m *v1alpha1.Migration) { m.Spec.Pools = p }
}

func cluster(name string) func(*v1alpha1.Migration) {
	return func(m *v1alpha1.Migration) { m.Spec.ClusterName = name }
}

func home(group string) func(*v1alpha1.Migration) {
	return func(m *v1alpha1.Migration) { m.Spec.Home = &v1alpha1.Home{NodeGroup: group} }
}

func unavailable(v intstr.IntOrString) func(*v1alpha1.Migration) {
	return func(m *v1alpha1.Migration) { m.Spec.Strategy.MaxUnavailableNodes = &v }
}

func soak(seconds int32) func(*v1alpha1.Migration) {
	return func(m *v1alpha1.Migration) { m.Spec.Strategy.SoakSeconds = &seconds }
}

func risk(check, object, reason string) func(*v1alpha1.Migration) {
	return func(m *v1alpha1.Migration) {
		m.Spec.AcceptedRisks = append(m.Spec.AcceptedRisks, v1alpha1.AcceptedRisk{Check: check, Object: object, Reason: reason})
	}
}

func spec(change func(*v1alpha1.MigrationSpec)) func(*v1alpha1.Migration) {
	return func(m *v1alpha1.Migration) { change(&m.Spec) }
}

// numbered makes n pools of one group.
func numbered(n int) []v1alpha1.Pool {
	var out []v1alpha1.Pool
	for i := range n {
		out = append(out, pool(fmt.Sprintf("p%d", i), "g"))
	}
	return out
}

// groups makes n names of node groups.
func groups(n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("g%d", i))
	}
	return out
}

func risks(n int) func(*v1alpha1.Migration) {
	return func(m *v1alpha1.Migration) {
		for i := range n {
			risk("BarePod", fmt.Sprintf("pod/default/p%d", i), "known")(m)
		}
	}
}

func TestCreateValidates(t *testing.T) {
	long := func(n int) string { return strings.Repeat("a", n) }
	cases := map[string]struct {
		reason string
		change func(*v1alpha1.Migration)
		want   string
	}{
		"ClusterNameMixed":   {"EKS allows letters, digits, hyphens and underscores", cluster("Prod_1-eu"), accepted},
		"ClusterNameLongest": {"EKS allows 100 characters", cluster(long(100)), accepted},
		"ClusterNameTooLong": {"EKS allows no more than 100", cluster(long(101)), "may not be more than 100"},
		"ClusterNameEmpty":   {"without a name nothing confirms the target", cluster(""), "spec: Required value"},
		"ClusterNameHyphen":  {"EKS names begin with a letter or digit", cluster("-prod"), "spec.clusterName in body should match"},
		"ClusterNameDot":     {"a DNS name is no cluster name", cluster("prod.example"), "spec.clusterName in body should match"},
		"ClusterNameSpace":   {"a pasted blank is caught here, not by EKS", cluster("prod "), "spec.clusterName in body should match"},

		"ApprovalAutomatic": {"the default, written out", spec(func(s *v1alpha1.MigrationSpec) { s.Approval = v1alpha1.ApprovalAutomatic }), accepted},
		"ApprovalManual":    {"the other mode", spec(func(s *v1alpha1.MigrationSpec) { s.Approval = v1alpha1.ApprovalManual }), accepted},
		"ApprovalUnknown":   {"a typing error must not read as Automatic", spec(func(s *v1alpha1.MigrationSpec) { s.Approval = "manual" }), `spec.approval: Unsupported value: "manual"`},
		"StepsBoth": {"every step there is", spec(func(s *v1alpha1.MigrationSpec) {
			s.ApprovedSteps = []v1alpha1.ApprovalStep{v1alpha1.ApproveStart, v1alpha1.ApproveHandOver}
		}), accepted},
		"StepUnknown": {"a step that does not exist approves nothing", spec(func(s *v1alpha1.MigrationSpec) {
			s.ApprovedSteps = []v1alpha1.ApprovalStep{"Delete"}
		}), `spec.approvedSteps[0]: Unsupported value: "Delete"`},
		"StepTwice": {"a step is approved once", spec(func(s *v1alpha1.MigrationSpec) {
			s.ApprovedSteps = []v1alpha1.ApprovalStep{v1alpha1.ApproveStart, v1alpha1.ApproveStart}
		}), `spec.approvedSteps[1]: Duplicate value: "Start"`},
		"StepsTooMany": {"the list is bounded", spec(func(s *v1alpha1.MigrationSpec) {
			s.ApprovedSteps = make([]v1alpha1.ApprovalStep, 9)
		}), "spec.approvedSteps: Too many: 9: must have at most 8 items"},

		"Home":        {"a group by name", home("system"), accepted},
		"HomeLongest": {"Auto Scaling allows 255 characters", home(long(255)), accepted},
		"HomeTooLong": {"and no more", home(long(256)), "spec.home.nodeGroup: Too long"},
		"HomeEmpty":   {"a home without a group names nothing", home(""), "spec.home.nodeGroup: Required value"},

		"Pool":             {"the usual case", pools(pool("general", "general-a", "general-b")), accepted},
		"PoolNameLongest":  {"a label value has 63 characters", pools(pool(long(63), "g")), accepted},
		"PoolNameTooLong":  {"the pool's name becomes a label value", pools(pool(long(64), "g")), "spec.pools[0].name: Too long"},
		"PoolNameEmpty":    {"the name is the key of the list", pools(pool("", "g")), "spec.pools[0].name: Required value"},
		"PoolNameUpper":    {"the pool's name becomes a NodePool's", pools(pool("General", "g")), "spec.pools[0].name in body should match"},
		"PoolNameHyphen":   {"no object's name ends in a hyphen", pools(pool("general-", "g")), "spec.pools[0].name in body should match"},
		"PoolTwice":        {"two pools of one name would make one NodePool twice", pools(pool("a", "g"), pool("a", "h")), "spec.pools[1]: Duplicate value"},
		"PoolNoGroups":     {"a pool is made of groups", pools(pool("a")), "spec.pools[0].nodeGroups: Required value"},
		"PoolGroupEmpty":   {"an empty name is no group", pools(pool("a", "")), "spec.pools[0].nodeGroups[0] in body should be at least 1 chars long"},
		"PoolGroupTooLong": {"Auto Scaling allows 255 characters", pools(pool("a", long(256))), "spec.pools[0].nodeGroups[0]: Too long"},
		"PoolGroups32":     {"as many groups as a pool may have", pools(pool("a", groups(32)...)), accepted},
		"PoolGroups33":     {"the list is bounded", pools(pool("a", groups(33)...)), "spec.pools[0].nodeGroups: Too many: 33: must have at most 32 items"},
		"Pools64":          {"as many pools as there may be", pools(numbered(64)...), accepted},
		"Pools65":          {"the list is bounded", pools(numbered(65)...), "spec.pools: Too many: 65: must have at most 64 items"},

		"UnavailableNumber":   {"a number of nodes", unavailable(intstr.FromInt32(3)), accepted},
		"UnavailableOne":      {"the least", unavailable(intstr.FromInt32(1)), accepted},
		"UnavailableZero":     {"zero would never drain anything", unavailable(intstr.FromInt32(0)), "a number of at least 1 or a percentage from 1% to 100%"},
		"UnavailableNegative": {"less than none", unavailable(intstr.FromInt32(-1)), "a number of at least 1 or a percentage from 1% to 100%"},
		"UnavailableMost":     {"the largest cluster castoff is measured on", unavailable(intstr.FromInt32(1000)), accepted},
		"UnavailableTooMany":  {"more than that is a typing error", unavailable(intstr.FromInt32(1001)), "a number of at least 1 or a percentage from 1% to 100%"},
		"Unavailable10%":      {"the default, written out", unavailable(intstr.FromString("10%")), accepted},
		"Unavailable1%":       {"the least percentage", unavailable(intstr.FromString("1%")), accepted},
		"Unavailable100%":     {"all at once, if the budgets allow", unavailable(intstr.FromString("100%")), accepted},
		"Unavailable0%":       {"zero would never drain anything", unavailable(intstr.FromString("0%")), "a number of at least 1 or a percentage from 1% to 100%"},
		"Unavailable101%":     {"more than all", unavailable(intstr.FromString("101%")), "a number of at least 1 or a percentage from 1% to 100%"},
		"UnavailableText":     {"no number at all", unavailable(intstr.FromString("x")), "a number of at least 1 or a percentage from 1% to 100%"},
		"UnavailableQuoted":   {"a number in quotes is neither", unavailable(intstr.FromString("3")), "a number of at least 1 or a percentage from 1% to 100%"},
		"UnavailableFraction": {"no fractions of a percent", unavailable(intstr.FromString("1.5%")), "a number of at least 1 or a percentage from 1% to 100%"},

		"SoakNone":     {"who does not want to wait need not", soak(0), accepted},
		"SoakDay":      {"the longest", soak(86400), accepted},
		"SoakNegative": {"time does not run backwards", soak(-1), "spec.strategy.soakSeconds in body should be greater than or equal to 0"},
		"SoakTooLong":  {"more than a day is no soak", soak(86401), "spec.strategy.soakSeconds in body should be less than or equal to 86400"},

		"CapacityEvictFirst": {"the strategy of this version", spec(func(s *v1alpha1.MigrationSpec) { s.Strategy.Capacity = v1alpha1.CapacityEvictFirst }), accepted},
		"CapacityUnknown":    {"what this version cannot do is refused, not ignored", spec(func(s *v1alpha1.MigrationSpec) { s.Strategy.Capacity = "WarmFirst" }), "spec.strategy.capacity: Unsupported value"},
		"SurgeNone":          {"the strategy of this version", spec(func(s *v1alpha1.MigrationSpec) { s.Strategy.Surge = v1alpha1.SurgeNone }), accepted},
		"SurgeUnknown":       {"what this version cannot do is refused, not ignored", spec(func(s *v1alpha1.MigrationSpec) { s.Strategy.Surge = "All" }), "spec.strategy.surge: Unsupported value"},
		"WavesSingle":        {"the strategy of this version", spec(func(s *v1alpha1.MigrationSpec) { s.Strategy.Waves = v1alpha1.WavesSingle }), accepted},
		"WavesUnknown":       {"what this version cannot do is refused, not ignored", spec(func(s *v1alpha1.MigrationSpec) { s.Strategy.Waves = "Auto" }), "spec.strategy.waves: Unsupported value"},
		"SourceBuiltIn":      {"the source of this version", spec(func(s *v1alpha1.MigrationSpec) { s.Provisioner.Source = v1alpha1.SourceBuiltIn }), accepted},
		"SourceUnknown":      {"what this version cannot do is refused, not ignored", spec(func(s *v1alpha1.MigrationSpec) { s.Provisioner.Source = "Chart" }), "spec.provisioner.source: Unsupported value"},
		"DecommissionKeeps": {"the mode of this version", spec(func(s *v1alpha1.MigrationSpec) {
			s.Decommission = v1alpha1.Decommission{Mode: v1alpha1.DecommissionScaleToZero, ClusterAutoscaler: v1alpha1.DecommissionScaleToZero}
		}), accepted},
		"DecommissionGroups": {"groups are not deleted by this version", spec(func(s *v1alpha1.MigrationSpec) { s.Decommission.Mode = "Delete" }), "spec.decommission.mode: Unsupported value"},
		"DecommissionCA":     {"Cluster Autoscaler is not deleted by this version", spec(func(s *v1alpha1.MigrationSpec) { s.Decommission.ClusterAutoscaler = "Delete" }), "spec.decommission.clusterAutoscaler: Unsupported value"},

		"Risk":              {"a finding by its object", risk("BarePod", "pod/default/debug", "mine"), accepted},
		"RiskAll":           {"every object of a check", risk("BarePod", "*", "all mine"), accepted},
		"RiskNoCheck":       {"a risk without a check would accept anything", risk("", "*", "x"), "spec.acceptedRisks[0].check: Required value"},
		"RiskNoObject":      {"all objects have to be meant, with a *", risk("BarePod", "", "x"), "spec.acceptedRisks[0].object: Required value"},
		"RiskNoReason":      {"whoever reads it next wants to know why", risk("BarePod", "*", ""), "spec.acceptedRisks[0].reason: Required value"},
		"RiskCheckTooLong":  {"checks have short names", risk(long(65), "*", "x"), "spec.acceptedRisks[0].check: Too long"},
		"RiskObjectTooLong": {"kind, namespace and name fit 512", risk("BarePod", long(513), "x"), "spec.acceptedRisks[0].object: Too long"},
		"RiskReasonTooLong": {"a reason, not an essay", risk("BarePod", "*", long(513)), "spec.acceptedRisks[0].reason: Too long"},
		"Risks128":          {"as many as there may be", risks(128), accepted},
		"Risks129":          {"the list is bounded", risks(129), "spec.acceptedRisks: Too many: 129: must have at most 128 items"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m := migration(tc.change)
			err := api.Create(t.Context(), m)
			if err == nil {
				remove(t, m)
			}
			if diff := cmp.Diff(tc.want, verdict(err, tc.want)); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

// What a typed client cannot write: absent objects, empty lists, unknown fields.
func TestCreateRawValidates(t *testing.T) {
	cases := map[string]struct {
		reason string
		spec   map[string]any
		want   string
	}{
		"EmptyName":  {"an empty name confirms nothing", map[string]any{"clusterName": ""}, "spec.clusterName in body should be at least 1 chars long"},
		"Shortest":   {"a cluster's name is all it takes", map[string]any{"clusterName": "prod"}, accepted},
		"NoName":     {"the name is what confirms the target", map[string]any{}, "spec.clusterName: Required value"},
		"EmptyPools": {"no pools at all is a mistake; leave the field out for all", map[string]any{"clusterName": "prod", "pools": []any{}}, "spec.pools in body should have at least 1 items"},
		"EmptyGroups": {"a pool is made of groups", map[string]any{"clusterName": "prod", "pools": []any{
			map[string]any{"name": "a", "nodeGroups": []any{}}}}, "spec.pools[0].nodeGroups in body should have at least 1 items"},
		"EmptyHome": {"a home without a group names nothing", map[string]any{"clusterName": "prod", "home": map[string]any{}}, "spec.home.nodeGroup: Required value"},
		"UnavailableBool": {"neither a number nor a percentage", map[string]any{"clusterName": "prod",
			"strategy": map[string]any{"maxUnavailableNodes": true}}, "spec.strategy.maxUnavailableNodes"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			u := raw(tc.spec)
			err := api.Create(t.Context(), u)
			if err == nil {
				remove(t, u)
			}
			if diff := cmp.Diff(tc.want, verdict(err, tc.want)); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func TestFrozenFromTheSnapshotOn(t *testing.T) {
	const (
		clusterFrozen = "clusterName is frozen once the snapshot is taken: delete this Migration and create another to migrate another cluster"
		homeFrozen    = "home is frozen once the snapshot is taken"
		poolsFrozen   = "the names and node groups of pools are frozen once the snapshot is taken"
	)
	start := []func(*v1alpha1.Migration){home("system"), pools(pool("a", "a-1", "a-2"), pool("b", "b-1"))}
	bare := []func(*v1alpha1.Migration){}
	cases := map[string]struct {
		reason string
		start  []func(*v1alpha1.Migration)
		change func(*v1alpha1.Migration)
		// frozen is what the API server says once the snapshot is taken; before it, every change is accepted.
		frozen string
	}{
		"ClusterName":  {"another cluster needs another snapshot", start, cluster("other"), clusterFrozen},
		"HomeChanged":  {"Karpenter runs there by now", start, home("other"), homeFrozen},
		"HomeRemoved":  {"the default may be another group", start, spec(func(s *v1alpha1.MigrationSpec) { s.Home = nil }), homeFrozen},
		"HomeAdded":    {"the default was another group", bare, home("system"), homeFrozen},
		"PoolAdded":    {"the snapshot does not have its groups", start, pools(pool("a", "a-1", "a-2"), pool("b", "b-1"), pool("c", "c-1")), poolsFrozen},
		"PoolRemoved":  {"its nodes are fenced by now", start, pools(pool("a", "a-1", "a-2")), poolsFrozen},
		"PoolRenamed":  {"the name is its NodePool's", start, pools(pool("a", "a-1", "a-2"), pool("z", "b-1")), poolsFrozen},
		"GroupAdded":   {"the snapshot does not have it", start, pools(pool("a", "a-1", "a-2"), pool("b", "b-1", "b-2")), poolsFrozen},
		"GroupRemoved": {"its nodes are fenced by now", start, pools(pool("a", "a-1"), pool("b", "b-1")), poolsFrozen},
		"GroupMoved":   {"it would belong to two pools' NodePools", start, pools(pool("a", "a-1"), pool("b", "b-1", "a-2")), poolsFrozen},
		"PoolsAdded":   {"the default was made into pools already", bare, pools(pool("a", "a-1")), poolsFrozen},
		"PoolsRemoved": {"the default may be other pools", start, spec(func(s *v1alpha1.MigrationSpec) { s.Pools = nil }), poolsFrozen},

		"PoolsReordered": {"the order is nobody's promise", start, pools(pool("b", "b-1"), pool("a", "a-1", "a-2")), accepted},
		"Unavailable":    {"whoever is on call must be able to slow down", start, unavailable(intstr.FromInt32(1)), accepted},
		"Soak":           {"and to hurry", start, soak(0), accepted},
		"Paused":         {"and to stop", start, spec(func(s *v1alpha1.MigrationSpec) { s.Paused = true }), accepted},
		"Approval":       {"and to be asked from now on", start, spec(func(s *v1alpha1.MigrationSpec) { s.Approval = v1alpha1.ApprovalManual }), accepted},
		"Steps":          {"and to approve", start, spec(func(s *v1alpha1.MigrationSpec) { s.ApprovedSteps = []v1alpha1.ApprovalStep{v1alpha1.ApproveHandOver} }), accepted},
		"Risks":          {"and to accept what blocks", start, risk("BarePod", "*", "known"), accepted},
		"Nothing":        {"an apply that changes nothing is no change", start, func(*v1alpha1.Migration) {}, accepted},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := created(t, migration(tc.start...))
			tc.change(before)
			if err := api.Update(t.Context(), before); err != nil {
				t.Errorf("before the snapshot everything may change, but: %v", err)
			}
			after := created(t, migration(tc.start...))
			takeSnapshot(t, after)
			tc.change(after)
			if diff := cmp.Diff(tc.frozen, verdict(api.Update(t.Context(), after), tc.frozen)); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

// provisioner.source has one value in this version, so its rule cannot be reached through a valid object: the definition has to
// have it for the day on which there is a second.
func TestProvisionerSourceIsFrozen(t *testing.T) {
	want := "self.spec.provisioner.source == oldSelf.spec.provisioner.source"
	for _, rule := range definition.Spec.Versions[0].Schema.OpenAPIV3Schema.XValidations {
		if strings.HasSuffix(rule.Rule, want) {
			if diff := cmp.Diff("provisioner.source is frozen once the snapshot is taken", rule.Message); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			return
		}
	}
	t.Errorf("no rule of the definition ends in %q", want)
}

// takeSnapshot writes the status as the controller does when the snapshot is taken.
func takeSnapshot(t *testing.T, m *v1alpha1.Migration) {
	t.Helper()
	m.Status.Snapshot = &v1alpha1.SnapshotReference{
		ObjectReference: v1alpha1.ObjectReference{Namespace: "castoff-system", Name: "snapshot"}, SHA256: strings.Repeat("0", 64),
	}
	if err := api.Status().Update(t.Context(), m); err != nil {
		t.Fatalf("writing the status: %v", err)
	}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(m), m); err != nil {
		t.Fatalf("reading back: %v", err)
	}
	if m.Status.Snapshot == nil {
		t.Fatal("the API server did not keep the snapshot")
	}
}

func TestDefaults(t *testing.T) {
	u := raw(map[string]any{"clusterName": "prod"})
	if err := api.Create(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	remove(t, u)
	got := &v1alpha1.Migration{}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(u), got); err != nil {
		t.Fatal(err)
	}
	want := v1alpha1.MigrationSpec{
		ClusterName: "prod", Approval: v1alpha1.ApprovalAutomatic,
		Strategy: v1alpha1.Strategy{
			MaxUnavailableNodes: ptr.To(intstr.FromString("10%")), Capacity: v1alpha1.CapacityEvictFirst, Surge: v1alpha1.SurgeNone,
			Waves: v1alpha1.WavesSingle, SoakSeconds: ptr.To[int32](600),
		},
		Provisioner:  v1alpha1.Provisioner{Source: v1alpha1.SourceBuiltIn},
		Decommission: v1alpha1.Decommission{Mode: v1alpha1.DecommissionScaleToZero, ClusterAutoscaler: v1alpha1.DecommissionScaleToZero},
	}
	if diff := cmp.Diff(want, got.Spec); diff != "" {
		t.Errorf("spec: -want +got\n%s", diff)
	}
	if diff := cmp.Diff(v1alpha1.MigrationStatus{ObservedGeneration: -1}, got.Status); diff != "" {
		t.Errorf("a status that nobody has written says so: -want +got\n%s", diff)
	}
}
