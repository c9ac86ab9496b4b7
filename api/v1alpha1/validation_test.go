package v1alpha1_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
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

func widened(p v1alpha1.Pool, families ...string) v1alpha1.Pool {
	p.InstanceFamilies = families
	return p
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

func gates(g ...v1alpha1.Gate) func(*v1alpha1.Migration) {
	return func(m *v1alpha1.Migration) { m.Spec.Strategy.Gates = g }
}

// gate has no bound where the text is empty.
func gate(name, url, least, most string) v1alpha1.Gate {
	return v1alpha1.Gate{Name: name, URL: url, Query: "sum(rate(errors_total[5m]))", Min: quantity(least), Max: quantity(most)}
}

func quantity(text string) *resource.Quantity {
	if text == "" {
		return nil
	}
	return ptr.To(resource.MustParse(text))
}

func manyGates(n int) (out []v1alpha1.Gate) {
	for i := range n {
		out = append(out, gate(fmt.Sprintf("gate-%d", i), "http://prometheus:9090", "", "1"))
	}
	return out
}

func soak(seconds int32) func(*v1alpha1.Migration) {
	return func(m *v1alpha1.Migration) { m.Spec.Strategy.SoakSeconds = &seconds }
}

// existing is a Karpenter that is there, as its user describes it.
func existing() v1alpha1.Provisioner {
	return v1alpha1.Provisioner{
		Source: v1alpha1.SourceExisting, Queue: v1alpha1.QueueExisting, QueueName: "interruptions",
		Identity: v1alpha1.IdentityExisting, NodeRole: "nodes", ControllerRole: "karpenter",
	}
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
		"ClusterNameMixed": {
			reason: "EKS allows letters, digits, hyphens and underscores",
			change: cluster("Prod_1-eu"),
			want:   accepted,
		},
		"ClusterNameLongest": {
			reason: "EKS allows 100 characters",
			change: cluster(long(100)),
			want:   accepted,
		},
		"ClusterNameTooLong": {
			reason: "EKS allows no more than 100",
			change: cluster(long(101)),
			want:   "may not be more than 100",
		},
		"ClusterNameEmpty": {
			reason: "without a name nothing confirms the target",
			change: cluster(""),
			want:   "spec: Required value",
		},
		"ClusterNameHyphen": {
			reason: "EKS names begin with a letter or digit",
			change: cluster("-prod"),
			want:   "spec.clusterName in body should match",
		},
		"ClusterNameDot": {
			reason: "a DNS name is no cluster name",
			change: cluster("prod.example"),
			want:   "spec.clusterName in body should match",
		},
		"ClusterNameSpace": {
			reason: "a pasted blank is caught here, not by EKS",
			change: cluster("prod "),
			want:   "spec.clusterName in body should match",
		},

		"ApprovalAutomatic": {
			reason: "the default, written out",
			change: spec(func(s *v1alpha1.MigrationSpec) { s.Approval = v1alpha1.ApprovalAutomatic }),
			want:   accepted,
		},
		"ApprovalManual": {
			reason: "the other mode",
			change: spec(func(s *v1alpha1.MigrationSpec) { s.Approval = v1alpha1.ApprovalManual }),
			want:   accepted,
		},
		"ApprovalUnknown": {
			reason: "a typing error must not read as Automatic",
			change: spec(func(s *v1alpha1.MigrationSpec) { s.Approval = "manual" }),
			want:   `spec.approval: Unsupported value: "manual"`,
		},
		"StepsBoth": {
			reason: "every step there is",
			change: spec(func(s *v1alpha1.MigrationSpec) {
				s.ApprovedSteps = []v1alpha1.ApprovalStep{v1alpha1.ApproveStart, v1alpha1.ApproveHandOver}
			}),
			want: accepted,
		},
		"StepUnknown": {
			reason: "a step that does not exist approves nothing",
			change: spec(func(s *v1alpha1.MigrationSpec) {
				s.ApprovedSteps = []v1alpha1.ApprovalStep{"Finish"}
			}),
			want: `spec.approvedSteps[0]: Unsupported value: "Finish"`,
		},
		"StepDelete": {
			reason: "the step that ends the way back is approved like the others",
			change: spec(func(s *v1alpha1.MigrationSpec) { s.ApprovedSteps = []v1alpha1.ApprovalStep{v1alpha1.ApproveDelete} }),
		},
		"OnPauseRollBack": {
			reason: "a paused migration may go all the way back",
			change: spec(func(s *v1alpha1.MigrationSpec) { s.Paused, s.OnPause = true, v1alpha1.OnPauseRollBack }),
		},
		"OnPauseUnknown": {
			reason: "where a pause leads has to be known",
			change: spec(func(s *v1alpha1.MigrationSpec) { s.OnPause = "Foo" }),
			want:   `spec.onPause: Unsupported value: "Foo"`,
		},
		"StepTwice": {
			reason: "a step is approved once",
			change: spec(func(s *v1alpha1.MigrationSpec) {
				s.ApprovedSteps = []v1alpha1.ApprovalStep{v1alpha1.ApproveStart, v1alpha1.ApproveStart}
			}),
			want: `spec.approvedSteps[1]: Duplicate value: "Start"`,
		},
		"StepsTooMany": {
			reason: "the list is bounded",
			change: spec(func(s *v1alpha1.MigrationSpec) {
				s.ApprovedSteps = make([]v1alpha1.ApprovalStep, 9)
			}),
			want: "spec.approvedSteps: Too many: 9: must have at most 8 items",
		},

		"Home": {
			reason: "a group by name",
			change: home("system"),
			want:   accepted,
		},
		"HomeLongest": {
			reason: "Auto Scaling allows 255 characters",
			change: home(long(255)),
			want:   accepted,
		},
		"HomeTooLong": {
			reason: "and no more",
			change: home(long(256)),
			want:   "spec.home.nodeGroup: Too long",
		},
		"HomeEmpty": {
			reason: "a home without a group names nothing",
			change: home(""),
			want:   "spec.home.nodeGroup: Required value",
		},

		"Pool": {
			reason: "the usual case",
			change: pools(pool("general", "general-a", "general-b")),
			want:   accepted,
		},
		"PoolNameLongest": {
			reason: "a label value has 63 characters",
			change: pools(pool(long(63), "g")),
			want:   accepted,
		},
		"PoolNameTooLong": {
			reason: "the pool's name becomes a label value",
			change: pools(pool(long(64), "g")),
			want:   "spec.pools[0].name: Too long",
		},
		"PoolNameEmpty": {
			reason: "the name is the key of the list",
			change: pools(pool("", "g")),
			want:   "spec.pools[0].name: Required value",
		},
		"PoolNameUpper": {
			reason: "the pool's name becomes a NodePool's",
			change: pools(pool("General", "g")),
			want:   "spec.pools[0].name in body should match",
		},
		"PoolNameHyphen": {
			reason: "no object's name ends in a hyphen",
			change: pools(pool("general-", "g")),
			want:   "spec.pools[0].name in body should match",
		},
		"PoolTwice": {
			reason: "two pools of one name would make one NodePool twice",
			change: pools(pool("a", "g"), pool("a", "h")),
			want:   "spec.pools[1]: Duplicate value",
		},
		"PoolNoGroups": {
			reason: "a pool is made of groups",
			change: pools(pool("a")),
			want:   "spec.pools[0].nodeGroups: Required value",
		},
		"PoolGroupEmpty": {
			reason: "an empty name is no group",
			change: pools(pool("a", "")),
			want:   "spec.pools[0].nodeGroups[0] in body should be at least 1 chars long",
		},
		"PoolGroupTooLong": {
			reason: "Auto Scaling allows 255 characters",
			change: pools(pool("a", long(256))),
			want:   "spec.pools[0].nodeGroups[0]: Too long",
		},
		"PoolGroups32": {
			reason: "as many groups as a pool may have",
			change: pools(pool("a", groups(32)...)),
			want:   accepted,
		},
		"PoolGroups33": {
			reason: "the list is bounded",
			change: pools(pool("a", groups(33)...)),
			want:   "spec.pools[0].nodeGroups: Too many: 33: must have at most 32 items",
		},
		"Families": {
			reason: "EC2's names of families: letters, digits, hyphens",
			change: pools(widened(pool("a", "g"), "m6i", "u-6tb1", "c7gn", "m7i-flex")),
			want:   accepted,
		},
		"Families32": {
			reason: "as many families as a pool may have",
			change: pools(widened(pool("a", "g"), groups(32)...)),
			want:   accepted,
		},
		"Families33": {
			reason: "the list is bounded",
			change: pools(widened(pool("a", "g"), groups(33)...)),
			want:   "spec.pools[0].instanceFamilies: Too many: 33: must have at most 32 items",
		},
		"FamilyIsAType": {
			reason: "families are named, their sizes are those of the node groups",
			change: pools(widened(pool("a", "g"), "m6i.large")),
			want:   "spec.pools[0].instanceFamilies[0] in body should match",
		},
		"FamilyIsAPattern": {
			reason: "nobody means every family that EC2 will ever have",
			change: pools(widened(pool("a", "g"), "m*")),
			want:   "spec.pools[0].instanceFamilies[0] in body should match",
		},
		"FamilyEmpty": {
			reason: "an empty name is no family",
			change: pools(widened(pool("a", "g"), "")),
			want:   "spec.pools[0].instanceFamilies[0] in body should be at least 1 chars long",
		},
		"FamilyTooLong": {
			reason: "EC2 has no such names",
			change: pools(widened(pool("a", "g"), "m"+strings.Repeat("6", 32))),
			want:   "spec.pools[0].instanceFamilies[0]: Too long",
		},
		"FamilyTwice": {
			reason: "it is a set",
			change: pools(widened(pool("a", "g"), "m6i", "m6i")),
			want:   "spec.pools[0].instanceFamilies[1]: Duplicate value",
		},
		"Pools64": {
			reason: "as many pools as there may be",
			change: pools(numbered(64)...),
			want:   accepted,
		},
		"Pools65": {
			reason: "the list is bounded",
			change: pools(numbered(65)...),
			want:   "spec.pools: Too many: 65: must have at most 64 items",
		},

		"UnavailableNumber": {
			reason: "a number of nodes",
			change: unavailable(intstr.FromInt32(3)),
			want:   accepted,
		},
		"UnavailableOne": {
			reason: "the least",
			change: unavailable(intstr.FromInt32(1)),
			want:   accepted,
		},
		"UnavailableZero": {
			reason: "zero would never drain anything",
			change: unavailable(intstr.FromInt32(0)),
			want:   "a number of at least 1 or a percentage from 1% to 100%",
		},
		"UnavailableNegative": {
			reason: "less than none",
			change: unavailable(intstr.FromInt32(-1)),
			want:   "a number of at least 1 or a percentage from 1% to 100%",
		},
		"UnavailableMost": {
			reason: "the largest cluster castoff is measured on",
			change: unavailable(intstr.FromInt32(1000)),
			want:   accepted,
		},
		"UnavailableTooMany": {
			reason: "more than that is a typing error",
			change: unavailable(intstr.FromInt32(1001)),
			want:   "a number of at least 1 or a percentage from 1% to 100%",
		},
		"Unavailable10%": {
			reason: "the default, written out",
			change: unavailable(intstr.FromString("10%")),
			want:   accepted,
		},
		"Unavailable1%": {
			reason: "the least percentage",
			change: unavailable(intstr.FromString("1%")),
			want:   accepted,
		},
		"Unavailable100%": {
			reason: "all at once, if the budgets allow",
			change: unavailable(intstr.FromString("100%")),
			want:   accepted,
		},
		"Unavailable0%": {
			reason: "zero would never drain anything",
			change: unavailable(intstr.FromString("0%")),
			want:   "a number of at least 1 or a percentage from 1% to 100%",
		},
		"Unavailable101%": {
			reason: "more than all",
			change: unavailable(intstr.FromString("101%")),
			want:   "a number of at least 1 or a percentage from 1% to 100%",
		},
		"UnavailableText": {
			reason: "no number at all",
			change: unavailable(intstr.FromString("x")),
			want:   "a number of at least 1 or a percentage from 1% to 100%",
		},
		"UnavailableQuoted": {
			reason: "a number in quotes is neither",
			change: unavailable(intstr.FromString("3")),
			want:   "a number of at least 1 or a percentage from 1% to 100%",
		},
		"UnavailableFraction": {
			reason: "no fractions of a percent",
			change: unavailable(intstr.FromString("1.5%")),
			want:   "a number of at least 1 or a percentage from 1% to 100%",
		},

		"SoakNone": {
			reason: "who does not want to wait need not",
			change: soak(0),
			want:   accepted,
		},
		"SoakDay": {
			reason: "the longest",
			change: soak(86400),
			want:   accepted,
		},
		"SoakNegative": {
			reason: "time does not run backwards",
			change: soak(-1),
			want:   "spec.strategy.soakSeconds in body should be greater than or equal to 0",
		},
		"SoakTooLong": {
			reason: "more than a day is no soak",
			change: soak(86401),
			want:   "spec.strategy.soakSeconds in body should be less than or equal to 86400",
		},

		"TimeoutShort": {
			reason: "the shortest in which a pod can end",
			change: spec(func(s *v1alpha1.MigrationSpec) { s.Strategy.TimeoutSeconds = 30 }),
			want:   accepted,
		},
		"TimeoutTooShort": {
			reason: "a pod has 30 s to end by default",
			change: spec(func(s *v1alpha1.MigrationSpec) { s.Strategy.TimeoutSeconds = 29 }),
			want:   "spec.strategy.timeoutSeconds in body should be greater than or equal to 30",
		},
		"TimeoutTooLong": {
			reason: "more than a day is no timeout",
			change: spec(func(s *v1alpha1.MigrationSpec) { s.Strategy.TimeoutSeconds = 86401 }),
			want:   "spec.strategy.timeoutSeconds in body should be less than or equal to 86400",
		},
		"GateMax": {
			reason: "an error rate, as a decimal",
			change: gates(gate("errors", "http://prometheus.monitoring:9090", "", "0.01")),
		},
		"GateRange": {
			reason: "both ends, and a server behind a path",
			change: gates(gate("ready", "https://prometheus.example.com/prom", "990m", "1")),
		},
		"GateNegative": {
			reason: "a difference may be negative",
			change: gates(gate("drift", "http://10.0.0.7:9090/", "-5", "5")),
		},
		"GateWithoutRange": {
			reason: "a value that may be anything proves nothing",
			change: gates(gate("errors", "http://prometheus:9090", "", "")),
			want:   "a gate needs min or max",
		},
		"GateScheme": {
			reason: "castoff reads no files",
			change: gates(gate("errors", "file:///etc/passwd", "", "1")),
			want:   "strategy.gates[0].url",
		},
		"GatePassword": {
			reason: "a spec is no place for secrets",
			change: gates(gate("errors", "http://me:secret@prometheus:9090", "", "1")),
			want:   "strategy.gates[0].url",
		},
		"GateURLQuery": {
			reason: "what is asked is the query's to say",
			change: gates(gate("errors", "http://prometheus:9090/?query=1", "", "1")),
			want:   "strategy.gates[0].url",
		},
		"GateName": {
			reason: "the name is part of an object's",
			change: gates(gate("Error Rate", "http://prometheus:9090", "", "1")),
			want:   "strategy.gates[0].name",
		},
		"GateWithoutQuery": {
			reason: "it has nothing to ask",
			change: gates(v1alpha1.Gate{Name: "errors", URL: "http://prometheus:9090", Max: quantity("1")}),
			want:   "strategy.gates[0].query",
		},
		"GateQueryLong": {
			reason: "a bounded spec",
			change: gates(v1alpha1.Gate{Name: "errors", URL: "http://prometheus:9090", Query: strings.Repeat("x", 2049), Max: quantity("1")}),
			want:   "strategy.gates[0].query",
		},
		"GateTwice": {
			reason: "a gate is known by its name",
			change: gates(gate("errors", "http://prometheus:9090", "", "1"), gate("errors", "http://prometheus:9090", "", "2")),
			want:   "Duplicate value",
		},
		"Gates16": {
			reason: "as many as are asked in one look",
			change: gates(manyGates(16)...),
		},
		"Gates17": {
			reason: "one more",
			change: gates(manyGates(17)...),
			want:   "spec.strategy.gates: Too many",
		},
		"OnTimeoutSkip": {
			reason: "one of the three",
			change: spec(func(s *v1alpha1.MigrationSpec) { s.Strategy.OnTimeout = v1alpha1.TimeoutSkip }),
			want:   accepted,
		},
		"OnTimeoutUnknown": {
			reason: "nothing is ever forced by a timeout alone",
			change: spec(func(s *v1alpha1.MigrationSpec) { s.Strategy.OnTimeout = "Force" }),
			want:   "spec.strategy.onTimeout: Unsupported value",
		},
		"LoadBalancerZero": {
			reason: "a cluster without load balancers waits for none",
			change: spec(func(s *v1alpha1.MigrationSpec) { s.Strategy.LoadBalancerSeconds = ptr.To[int32](0) }),
			want:   accepted,
		},
		"LoadBalancerTooLong": {
			reason: "a deregistration delay is an hour at most",
			change: spec(func(s *v1alpha1.MigrationSpec) { s.Strategy.LoadBalancerSeconds = ptr.To[int32](3601) }),
			want:   "spec.strategy.loadBalancerSeconds in body should be less than or equal to 3600",
		},
		"CapacityWarmFirst": {
			reason: "new nodes may be there before the first eviction",
			change: spec(func(s *v1alpha1.MigrationSpec) { s.Strategy.Capacity = v1alpha1.CapacityWarmFirst }),
			want:   accepted,
		},
		"CapacityEvictFirst": {
			reason: "the strategy of this version",
			change: spec(func(s *v1alpha1.MigrationSpec) { s.Strategy.Capacity = v1alpha1.CapacityEvictFirst }),
			want:   accepted,
		},
		"CapacityUnknown": {
			reason: "what this version cannot do is refused, not ignored",
			change: spec(func(s *v1alpha1.MigrationSpec) { s.Strategy.Capacity = "Never" }),
			want:   "spec.strategy.capacity: Unsupported value",
		},
		"SurgeNone": {
			reason: "the strategy of this version",
			change: spec(func(s *v1alpha1.MigrationSpec) { s.Strategy.Surge = v1alpha1.SurgeNone }),
			want:   accepted,
		},
		"SurgeSingletons": {
			reason: "Deployments with one replica may be restarted in place of an eviction",
			change: spec(func(s *v1alpha1.MigrationSpec) { s.Strategy.Surge = v1alpha1.SurgeSingletons }),
			want:   accepted,
		},
		"SurgeAll": {
			reason: "and so may those with more",
			change: spec(func(s *v1alpha1.MigrationSpec) { s.Strategy.Surge = v1alpha1.SurgeAll }),
			want:   accepted,
		},
		"SurgeUnknown": {
			reason: "what this version cannot do is refused, not ignored",
			change: spec(func(s *v1alpha1.MigrationSpec) { s.Strategy.Surge = "Always" }),
			want:   "spec.strategy.surge: Unsupported value",
		},
		"WavesSingle": {
			reason: "the strategy of this version",
			change: spec(func(s *v1alpha1.MigrationSpec) { s.Strategy.Waves = v1alpha1.WavesSingle }),
			want:   accepted,
		},
		"WavesAuto": {
			reason: "the default can be written down",
			change: spec(func(s *v1alpha1.MigrationSpec) { s.Strategy.Waves = v1alpha1.WavesAuto }),
			want:   accepted,
		},
		"WavesUnknown": {
			reason: "what this version cannot do is refused, not ignored",
			change: spec(func(s *v1alpha1.MigrationSpec) { s.Strategy.Waves = "Many" }),
			want:   "spec.strategy.waves: Unsupported value",
		},
		"SourceBuiltIn": {
			reason: "the source of this version",
			change: spec(func(s *v1alpha1.MigrationSpec) { s.Provisioner.Source = v1alpha1.SourceBuiltIn }),
			want:   accepted,
		},
		"SourceUnknown": {
			reason: "what castoff cannot do is refused, not ignored",
			change: spec(func(s *v1alpha1.MigrationSpec) { s.Provisioner.Source = "Flux" }),
			want:   "spec.provisioner.source: Unsupported value",
		},
		"ChartDefaults": {
			reason: "upstream's registry, and the version that the user names",
			change: spec(func(s *v1alpha1.MigrationSpec) {
				s.Provisioner = v1alpha1.Provisioner{Source: v1alpha1.SourceChart, Chart: v1alpha1.ProvisionerChart{Version: "1.14.1"}}
			}),
			want: accepted,
		},
		"ChartOfMirror": {
			reason: "a mirror, with the digest that was looked at there, and values for its images",
			change: spec(func(s *v1alpha1.MigrationSpec) {
				s.Provisioner = v1alpha1.Provisioner{
					Source: v1alpha1.SourceChart, Values: &runtime.RawExtension{Raw: []byte(`{"controller":{"image":{"repository":"mirror.example.com/karpenter/controller"}}}`)},
					Chart: v1alpha1.ProvisionerChart{Repository: "oci://mirror.example.com:5000/karpenter/karpenter", Version: "1.14.1", Digest: "sha256:" + strings.Repeat("0", 64)},
				}
			}),
			want: accepted,
		},
		"ChartMissing": {
			reason: "castoff picks no version of somebody else's chart",
			change: spec(func(s *v1alpha1.MigrationSpec) { s.Provisioner.Source = v1alpha1.SourceChart }),
			want:   "provisioner.chart is for source Chart, which needs it",
		},
		"ChartOfBuiltIn": {
			reason: "it would be ignored",
			change: spec(func(s *v1alpha1.MigrationSpec) { s.Provisioner.Chart = v1alpha1.ProvisionerChart{Version: "1.14.1"} }),
			want:   "provisioner.chart is for source Chart, which needs it",
		},
		"ChartWithoutScheme": {
			reason: "a chart comes from an OCI registry",
			change: spec(func(s *v1alpha1.MigrationSpec) {
				s.Provisioner = v1alpha1.Provisioner{Source: v1alpha1.SourceChart, Chart: v1alpha1.ProvisionerChart{Repository: "https://charts.example.com", Version: "1.14.1"}}
			}),
			want: "spec.provisioner.chart.repository",
		},
		"ChartFloats": {
			reason: "what is installed must not change by itself",
			change: spec(func(s *v1alpha1.MigrationSpec) {
				s.Provisioner = v1alpha1.Provisioner{Source: v1alpha1.SourceChart, Chart: v1alpha1.ProvisionerChart{Version: "latest"}}
			}),
			want: "spec.provisioner.chart.version",
		},
		"ChartDigestCut": {
			reason: "a digest is compared as a whole",
			change: spec(func(s *v1alpha1.MigrationSpec) {
				s.Provisioner = v1alpha1.Provisioner{Source: v1alpha1.SourceChart, Chart: v1alpha1.ProvisionerChart{Version: "1.14.1", Digest: "sha256:0123"}}
			}),
			want: "spec.provisioner.chart.digest",
		},
		"ExistingNamed": {
			reason: "a Karpenter that is there, with its queue and roles",
			change: spec(func(s *v1alpha1.MigrationSpec) { s.Provisioner = existing() }),
			want:   accepted,
		},
		"ExistingWithoutQueue": {
			reason: "it may run without",
			change: spec(func(s *v1alpha1.MigrationSpec) {
				s.Provisioner = existing()
				s.Provisioner.Queue, s.Provisioner.QueueName = v1alpha1.QueueNone, ""
			}),
			want: accepted,
		},
		"ExistingManaged": {
			reason: "castoff gives nothing to a Karpenter that it did not install",
			change: spec(func(s *v1alpha1.MigrationSpec) { s.Provisioner.Source = v1alpha1.SourceExisting }),
			want:   "a Karpenter that is there has a queue and roles",
		},
		"ExistingWithValues": {
			reason: "they would be ignored",
			change: spec(func(s *v1alpha1.MigrationSpec) {
				s.Provisioner = existing()
				s.Provisioner.Values = &runtime.RawExtension{Raw: []byte(`{"replicas":3}`)}
			}),
			want: "provisioner.values are for a Karpenter that castoff installs",
		},
		"QueueNameless": {
			reason: "castoff guesses no queue",
			change: spec(func(s *v1alpha1.MigrationSpec) { s.Provisioner.Queue = v1alpha1.QueueExisting }),
			want:   "provisioner.queueName is for queue Existing, which needs it",
		},
		"QueueNamedAndManaged": {
			reason: "the name would be ignored",
			change: spec(func(s *v1alpha1.MigrationSpec) { s.Provisioner.QueueName = "interruptions" }),
			want:   "provisioner.queueName is for queue Existing, which needs it",
		},
		"QueueByURL": {
			reason: "Karpenter's setting is the name: with a URL it ends as it starts",
			change: spec(func(s *v1alpha1.MigrationSpec) {
				s.Provisioner.Queue, s.Provisioner.QueueName = v1alpha1.QueueExisting, "https://sqs.eu-west-1.amazonaws.com/123456789012/q"
			}),
			want: "spec.provisioner.queueName",
		},
		"QueueUnknown": {
			reason: "what castoff cannot do is refused, not ignored",
			change: spec(func(s *v1alpha1.MigrationSpec) { s.Provisioner.Queue = "Shared" }),
			want:   "spec.provisioner.queue: Unsupported value",
		},
		"IdentityNamed": {
			reason: "a security team makes the roles",
			change: spec(func(s *v1alpha1.MigrationSpec) {
				s.Provisioner.Identity, s.Provisioner.NodeRole, s.Provisioner.ControllerRole = v1alpha1.IdentityExisting, "nodes", "karpenter"
			}),
			want: accepted,
		},
		"IdentityHalfNamed": {
			reason: "both or neither",
			change: spec(func(s *v1alpha1.MigrationSpec) {
				s.Provisioner.Identity, s.Provisioner.NodeRole = v1alpha1.IdentityExisting, "nodes"
			}),
			want: "provisioner.nodeRole and controllerRole are for identity Existing, which needs both",
		},
		"IdentityNamedAndManaged": {
			reason: "the name would be ignored",
			change: spec(func(s *v1alpha1.MigrationSpec) { s.Provisioner.NodeRole = "nodes" }),
			want:   "provisioner.nodeRole and controllerRole are for identity Existing, which needs both",
		},
		"IdentityByARN": {
			reason: "an EC2NodeClass takes the name",
			change: spec(func(s *v1alpha1.MigrationSpec) {
				s.Provisioner.Identity, s.Provisioner.NodeRole, s.Provisioner.ControllerRole = v1alpha1.IdentityExisting, "arn:aws:iam::123456789012:role/nodes", "karpenter"
			}),
			want: "spec.provisioner.nodeRole",
		},
		"IdentityUnknown": {
			reason: "what castoff cannot do is refused, not ignored",
			change: spec(func(s *v1alpha1.MigrationSpec) { s.Provisioner.Identity = "None" }),
			want:   "spec.provisioner.identity: Unsupported value",
		},
		"DecommissionKeeps": {
			reason: "the mode of this version",
			change: spec(func(s *v1alpha1.MigrationSpec) {
				s.Decommission = v1alpha1.Decommission{Mode: v1alpha1.DecommissionScaleToZero, ClusterAutoscaler: v1alpha1.DecommissionScaleToZero}
			}),
			want: accepted,
		},
		"DecommissionGroups": {
			reason: "what is left may be deleted, after a day",
			change: spec(func(s *v1alpha1.MigrationSpec) {
				s.Decommission.Mode, s.Decommission.RetentionSeconds = v1alpha1.DecommissionDelete, ptr.To[int32](86400)
			}),
		},
		"DecommissionGroupsUnknown": {
			reason: "there is no third way",
			change: spec(func(s *v1alpha1.MigrationSpec) { s.Decommission.Mode = "Keep" }),
			want:   "spec.decommission.mode: Unsupported value",
		},
		"DecommissionCA": {
			reason: "Cluster Autoscaler too",
			change: spec(func(s *v1alpha1.MigrationSpec) { s.Decommission.ClusterAutoscaler = v1alpha1.DecommissionDelete }),
		},
		"DecommissionCAUnknown": {
			reason: "there is no third way",
			change: spec(func(s *v1alpha1.MigrationSpec) { s.Decommission.ClusterAutoscaler = "Keep" }),
			want:   "spec.decommission.clusterAutoscaler: Unsupported value",
		},
		"RetentionNegative": {
			reason: "a way back is not closed before it is open",
			change: spec(func(s *v1alpha1.MigrationSpec) { s.Decommission.RetentionSeconds = ptr.To[int32](-1) }),
			want:   "spec.decommission.retentionSeconds",
		},

		"Risk": {
			reason: "a finding by its object",
			change: risk("BarePod", "pod/default/debug", "mine"),
			want:   accepted,
		},
		"RiskAll": {
			reason: "every object of a check",
			change: risk("BarePod", "*", "all mine"),
			want:   accepted,
		},
		"RiskNoCheck": {
			reason: "a risk without a check would accept anything",
			change: risk("", "*", "x"),
			want:   "spec.acceptedRisks[0].check: Required value",
		},
		"RiskNoObject": {
			reason: "all objects have to be meant, with a *",
			change: risk("BarePod", "", "x"),
			want:   "spec.acceptedRisks[0].object: Required value",
		},
		"RiskNoReason": {
			reason: "whoever reads it next wants to know why",
			change: risk("BarePod", "*", ""),
			want:   "spec.acceptedRisks[0].reason: Required value",
		},
		"RiskCheckTooLong": {
			reason: "checks have short names",
			change: risk(long(65), "*", "x"),
			want:   "spec.acceptedRisks[0].check: Too long",
		},
		"RiskObjectTooLong": {
			reason: "kind, namespace and name fit 512",
			change: risk("BarePod", long(513), "x"),
			want:   "spec.acceptedRisks[0].object: Too long",
		},
		"RiskReasonTooLong": {
			reason: "a reason, not an essay",
			change: risk("BarePod", "*", long(513)),
			want:   "spec.acceptedRisks[0].reason: Too long",
		},
		"Risks128": {
			reason: "as many as there may be",
			change: risks(128),
			want:   accepted,
		},
		"Risks129": {
			reason: "the list is bounded",
			change: risks(129),
			want:   "spec.acceptedRisks: Too many: 129: must have at most 128 items",
		},
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
		"EmptyName": {
			reason: "an empty name confirms nothing",
			spec:   map[string]any{"clusterName": ""},
			want:   "spec.clusterName in body should be at least 1 chars long",
		},
		"Shortest": {
			reason: "a cluster's name is all it takes",
			spec:   map[string]any{"clusterName": "prod"},
			want:   accepted,
		},
		"NoName": {
			reason: "the name is what confirms the target",
			spec:   map[string]any{},
			want:   "spec.clusterName: Required value",
		},
		"EmptyPools": {
			reason: "no pools at all is a mistake; leave the field out for all",
			spec:   map[string]any{"clusterName": "prod", "pools": []any{}},
			want:   "spec.pools in body should have at least 1 items",
		},
		"EmptyGroups": {
			reason: "a pool is made of groups",
			spec: map[string]any{"clusterName": "prod", "pools": []any{
				map[string]any{"name": "a", "nodeGroups": []any{}}}},
			want: "spec.pools[0].nodeGroups in body should have at least 1 items",
		},
		"EmptyFamilies": {
			reason: "no family at all is a mistake; leave the field out",
			spec: map[string]any{"clusterName": "prod", "pools": []any{
				map[string]any{"name": "a", "nodeGroups": []any{"g"}, "instanceFamilies": []any{}}}},
			want: "spec.pools[0].instanceFamilies in body should have at least 1 items",
		},
		"EmptyHome": {
			reason: "a home without a group names nothing",
			spec:   map[string]any{"clusterName": "prod", "home": map[string]any{}},
			want:   "spec.home.nodeGroup: Required value",
		},
		"UnavailableBool": {
			reason: "neither a number nor a percentage",
			spec: map[string]any{"clusterName": "prod",
				"strategy": map[string]any{"maxUnavailableNodes": true}},
			want: "spec.strategy.maxUnavailableNodes",
		},
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
		"ClusterName": {
			reason: "another cluster needs another snapshot",
			start:  start,
			change: cluster("other"),
			frozen: clusterFrozen,
		},
		"HomeChanged": {
			reason: "Karpenter runs there by now",
			start:  start,
			change: home("other"),
			frozen: homeFrozen,
		},
		"HomeRemoved": {
			reason: "the default may be another group",
			start:  start,
			change: spec(func(s *v1alpha1.MigrationSpec) { s.Home = nil }),
			frozen: homeFrozen,
		},
		"HomeAdded": {
			reason: "the default was another group",
			start:  bare,
			change: home("system"),
			frozen: homeFrozen,
		},
		"PoolAdded": {
			reason: "the snapshot does not have its groups",
			start:  start,
			change: pools(pool("a", "a-1", "a-2"), pool("b", "b-1"), pool("c", "c-1")),
			frozen: poolsFrozen,
		},
		"PoolRemoved": {
			reason: "its nodes are fenced by now",
			start:  start,
			change: pools(pool("a", "a-1", "a-2")),
			frozen: poolsFrozen,
		},
		"PoolRenamed": {
			reason: "the name is its NodePool's",
			start:  start,
			change: pools(pool("a", "a-1", "a-2"), pool("z", "b-1")),
			frozen: poolsFrozen,
		},
		"GroupAdded": {
			reason: "the snapshot does not have it",
			start:  start,
			change: pools(pool("a", "a-1", "a-2"), pool("b", "b-1", "b-2")),
			frozen: poolsFrozen,
		},
		"GroupRemoved": {
			reason: "its nodes are fenced by now",
			start:  start,
			change: pools(pool("a", "a-1"), pool("b", "b-1")),
			frozen: poolsFrozen,
		},
		"GroupMoved": {
			reason: "it would belong to two pools' NodePools",
			start:  start,
			change: pools(pool("a", "a-1"), pool("b", "b-1", "a-2")),
			frozen: poolsFrozen,
		},
		"PoolsAdded": {
			reason: "the default was made into pools already",
			start:  bare,
			change: pools(pool("a", "a-1")),
			frozen: poolsFrozen,
		},
		"PoolsRemoved": {
			reason: "the default may be other pools",
			start:  start,
			change: spec(func(s *v1alpha1.MigrationSpec) { s.Pools = nil }),
			frozen: poolsFrozen,
		},
		"FamilyAdded": {
			reason: "whoever is on call while EC2 has no capacity of the old types must be able to name others",
			start:  start,
			change: pools(widened(pool("a", "a-1", "a-2"), "m6i"), pool("b", "b-1")),
		},
		"SourceChanged": {
			reason: "the engine in use would be left, or replaced, under its nodes",
			start:  start,
			change: spec(func(s *v1alpha1.MigrationSpec) { s.Provisioner = existing() }),
			frozen: "provisioner.source is frozen once the snapshot is taken",
		},

		"ChartUpgraded": {
			reason: "whoever is on call must be able to bring the version that mends it",
			start: append([]func(*v1alpha1.Migration){spec(func(s *v1alpha1.MigrationSpec) {
				s.Provisioner = v1alpha1.Provisioner{Source: v1alpha1.SourceChart, Chart: v1alpha1.ProvisionerChart{Version: "1.14.1"}}
			})}, start...),
			change: spec(func(s *v1alpha1.MigrationSpec) { s.Provisioner.Chart.Version = "1.14.2" }),
			frozen: accepted,
		},
		"PoolsReordered": {
			reason: "the order is nobody's promise",
			start:  start,
			change: pools(pool("b", "b-1"), pool("a", "a-1", "a-2")),
			frozen: accepted,
		},
		"Unavailable": {
			reason: "whoever is on call must be able to slow down",
			start:  start,
			change: unavailable(intstr.FromInt32(1)),
			frozen: accepted,
		},
		"Soak": {
			reason: "and to hurry",
			start:  start,
			change: soak(0),
			frozen: accepted,
		},
		"Paused": {
			reason: "and to stop",
			start:  start,
			change: spec(func(s *v1alpha1.MigrationSpec) { s.Paused = true }),
			frozen: accepted,
		},
		"Approval": {
			reason: "and to be asked from now on",
			start:  start,
			change: spec(func(s *v1alpha1.MigrationSpec) { s.Approval = v1alpha1.ApprovalManual }),
			frozen: accepted,
		},
		"Steps": {
			reason: "and to approve",
			start:  start,
			change: spec(func(s *v1alpha1.MigrationSpec) { s.ApprovedSteps = []v1alpha1.ApprovalStep{v1alpha1.ApproveHandOver} }),
			frozen: accepted,
		},
		"Risks": {
			reason: "and to accept what blocks",
			start:  start,
			change: risk("BarePod", "*", "known"),
			frozen: accepted,
		},
		"Nothing": {
			reason: "an apply that changes nothing is no change",
			start:  start,
			change: func(*v1alpha1.Migration) {},
			frozen: accepted,
		},
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
		ClusterName: "prod", Approval: v1alpha1.ApprovalAutomatic, OnPause: v1alpha1.OnPauseSettle,
		Strategy: v1alpha1.Strategy{
			MaxUnavailableNodes: ptr.To(intstr.FromString("10%")), Capacity: v1alpha1.CapacityWarmFirst, Surge: v1alpha1.SurgeSingletons,
			Waves: v1alpha1.WavesAuto, SoakSeconds: ptr.To[int32](600),
			TimeoutSeconds: 900, OnTimeout: v1alpha1.TimeoutWait, LoadBalancerSeconds: ptr.To[int32](30),
		},
		Provisioner:  v1alpha1.Provisioner{Source: v1alpha1.SourceBuiltIn, Queue: v1alpha1.QueueManaged, Identity: v1alpha1.IdentityManaged},
		Decommission: v1alpha1.Decommission{Mode: v1alpha1.DecommissionScaleToZero, RetentionSeconds: ptr.To[int32](86400), ClusterAutoscaler: v1alpha1.DecommissionScaleToZero},
	}
	if diff := cmp.Diff(want, got.Spec); diff != "" {
		t.Errorf("spec: -want +got\n%s", diff)
	}
	if diff := cmp.Diff(v1alpha1.MigrationStatus{ObservedGeneration: -1}, got.Status); diff != "" {
		t.Errorf("a status that nobody has written says so: -want +got\n%s", diff)
	}
}
