package preflight

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// launching lets the pool's NodePool launch these capacity types.
func launching(capacity ...string) func(*Input) {
	return func(in *Input) {
		t := inventory.Target{}
		t.NodePool.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{
			{Key: "kubernetes.io/os", Operator: corev1.NodeSelectorOpIn, Values: []string{"linux"}}, {Key: karpv1.CapacityTypeLabelKey, Operator: corev1.NodeSelectorOpIn, Values: capacity},
		}
		in.Targets = map[string]inventory.Target{"general": t}
	}
}

// quota of that code, of which so many vCPUs are in use.
func quota(code, name string, inUse, limit float64) func(*Input) {
	return func(in *Input) {
		in.Surroundings.Quotas = append(in.Surroundings.Quotas, inventory.VCPUQuota{Code: code, Name: name, InUse: inUse, Limit: limit})
	}
}

// ofType gives the pool's group instances of a type of that many vCPUs; it may launch a larger one, and does not.
func ofType(name string, vCPUs int64) func(*Input) {
	return func(in *Input) {
		in.Groups[0].Types = []inventory.InstanceType{{Name: name, VCPUs: vCPUs}, {Name: "m5.24xlarge", VCPUs: 96}}
		in.Groups[0].Instances = []inventory.Instance{{ID: "i-1", Type: name}}
	}
}

// New nodes beside the old ones are more than the account may have.
func TestCase_C096_SurgeIsMoreThanTheAccountsVCPUs(t *testing.T) {
	const (
		onDemand, spot = "L-1216C47A", "L-34B43A08"
		wait           = "Drains will wait for one another. Lower spec.strategy.maxUnavailableNodes, or raise the quota. "
		none           = "Not one node could be launched. "
		ask            = "Ask for more: aws service-quotas request-service-quota-increase --service-code ec2 --quota-code "
		n              = " --desired-value N."
	)
	standard := func(inUse, limit float64) func(*Input) {
		return quota(onDemand, "Running On-Demand Standard", inUse, limit)
	}
	spots := func(inUse, limit float64) func(*Input) { return quota(spot, "Standard Spot", inUse, limit) }
	cases := map[string]struct {
		reason string
		change []func(*Input)
		want   []inventory.Finding
	}{
		"Warn":      {"64 of which 60 are in use, and two nodes of four are needed: one fits", []func(*Input){legacy(20, 2), ofType("m5.xlarge", 4), launching("on-demand"), standard(60, 64)}, []inventory.Finding{warns(CheckVCPUQuota, "quota/"+onDemand, "general", "2 new nodes of up to 4 vCPUs (m5.xlarge) at a time need 8, and of the quota \"Running On-Demand Standard\" 60 of 64 are in use. "+wait+ask+onDemand+n)}},
		"Block":     {"the same, in one node of eight: none fits", []func(*Input){legacy(20, 1), ofType("m5.2xlarge", 8), launching("on-demand"), standard(60, 64)}, []inventory.Finding{blocks(CheckVCPUQuota, "quota/"+onDemand, "general", "1 new node of up to 8 vCPUs (m5.2xlarge) at a time need 8, and of the quota \"Running On-Demand Standard\" 60 of 64 are in use. "+none+ask+onDemand+n)}},
		"Spot":      {"the variant: spot has a quota of its own", []func(*Input){legacy(20, 2), ofType("m5.xlarge", 4), launching("spot"), standard(0, 64), spots(64, 64)}, []inventory.Finding{blocks(CheckVCPUQuota, "quota/"+spot, "general", "2 new nodes of up to 4 vCPUs (m5.xlarge) at a time need 8, and of the quota \"Standard Spot\" 64 of 64 are in use. "+none+ask+spot+n)}},
		"Fallback":  {"on-demand has room, so the pool goes on", []func(*Input){legacy(20, 2), ofType("m5.xlarge", 4), launching("spot", "on-demand"), standard(0, 64), spots(64, 64)}, []inventory.Finding{warns(CheckVCPUQuota, "quota/"+spot, "general", "2 new nodes of up to 4 vCPUs (m5.xlarge) at a time need 8, and of the quota \"Standard Spot\" 64 of 64 are in use. "+wait+ask+spot+n)}},
		"Exact":     {"just enough", []func(*Input){legacy(20, 2), ofType("m5.xlarge", 4), launching("on-demand"), standard(56, 64)}, nil},
		"Other":     {"another family's quota is another's", []func(*Input){legacy(20, 2), ofType("g5.xlarge", 4), launching("on-demand"), standard(64, 64)}, nil},
		"Graphics":  {"G has one of its own", []func(*Input){legacy(20, 1), ofType("g5.xlarge", 4), launching("on-demand"), quota("L-DB2E81BA", "Running On-Demand G and VT", 0, 0)}, []inventory.Finding{blocks(CheckVCPUQuota, "quota/L-DB2E81BA", "general", "1 new node of up to 4 vCPUs (g5.xlarge) at a time need 4, and of the quota \"Running On-Demand G and VT\" 0 of 0 are in use. "+none+ask+"L-DB2E81BA"+n)}},
		"NotRead":   {"a quota that was not read is told of elsewhere", []func(*Input){legacy(20, 2), ofType("m5.xlarge", 4), launching("on-demand")}, nil},
		"NoTarget":  {"a pool that becomes nothing launches nothing", []func(*Input){legacy(20, 2), ofType("m5.xlarge", 4), standard(64, 64)}, nil},
		"NoTypes":   {"types that EC2 does not know have no size", []func(*Input){legacy(20, 2), launching("on-demand"), standard(64, 64)}, nil},
		"Empty":     {"a group without instances: the largest that it may launch", []func(*Input){legacy(0, 1), ofType("m5.xlarge", 4), func(in *Input) { in.Groups[0].Instances = nil }, launching("on-demand"), standard(0, 64)}, []inventory.Finding{blocks(CheckVCPUQuota, "quota/"+onDemand, "general", "1 new node of up to 96 vCPUs (m5.24xlarge) at a time need 96, and of the quota \"Running On-Demand Standard\" 0 of 64 are in use. "+none+ask+onDemand+n)}},
		"OverQuota": {"a quota may be below what runs", []func(*Input){legacy(1, 1), ofType("m5.xlarge", 4), launching("on-demand"), standard(80, 64)}, []inventory.Finding{blocks(CheckVCPUQuota, "quota/"+onDemand, "general", "1 new node of up to 4 vCPUs (m5.xlarge) at a time need 4, and of the quota \"Running On-Demand Standard\" 80 of 64 are in use. "+none+ask+onDemand+n)}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Run(sound(append(tc.change, pods())...), nil)); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestSpotRole(t *testing.T) {
	missing := []inventory.Finding{blocks(CheckSpotRole, "role/AWSServiceRoleForEC2Spot", "general", "Pool general launches spot instances, and the account has no service-linked role for them. Make it: aws iam create-service-linked-role --aws-service-name spot.amazonaws.com.")}
	cases := map[string]struct {
		reason   string
		role     *bool
		capacity []string
		want     []inventory.Finding
	}{
		"There":    {"as it should be", ptr.To(true), []string{"spot"}, nil},
		"Missing":  {"every launch would fail", ptr.To(false), []string{"spot"}, missing},
		"Both":     {"on-demand alone would do, at a price that nobody asked for", ptr.To(false), []string{"on-demand", "spot"}, missing},
		"OnDemand": {"nobody needs it", ptr.To(false), []string{"on-demand"}, nil},
		"NotRead":  {"nothing is known", nil, []string{"spot"}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Run(sound(launching(tc.capacity...), func(in *Input) { in.Surroundings.SpotRole = tc.role }), nil)); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}
