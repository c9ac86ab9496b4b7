package preflight

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/intstr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// The checks of what the account allows.
const (
	CheckVCPUQuota = "VCPUQuota"
	CheckSpotRole  = "SpotRoleMissing"
)

// vcpuQuota: the new nodes run beside the old ones for a while. An account that is at its quota then refuses them
// (VcpuLimitExceeded, MaxSpotInstanceCountExceeded), with pods evicted and nowhere to go. A pool that may have spot and on-demand
// has two quotas, and room in one is enough to go on.
func vcpuQuota(in Input) []inventory.Finding {
	var out []inventory.Finding
	for _, p := range in.Pools {
		out = append(out, poolQuota(in, p)...)
	}
	return out
}

func poolQuota(in Input, p inventory.Pool) []inventory.Finding {
	t, ok := largest(typesInUse(in, p))
	if !ok {
		return nil
	}
	nodes, possible := surge(in, p), false
	var short []inventory.VCPUQuota
	for _, capacity := range capacityTypes(in, p) {
		q, known := in.Surroundings.Quota(inventory.QuotaCode(t.Name, capacity == karpv1.CapacityTypeSpot))
		free := q.Limit - q.InUse
		possible = possible || !known || free >= float64(t.VCPUs)
		if known && free < float64(t.VCPUs)*float64(nodes) {
			short = append(short, q)
		}
	}
	var out []inventory.Finding
	for _, q := range short {
		numbers := fmt.Sprintf("%s of up to %d vCPUs (%s) at a time need %d, and of the quota %q %.0f of %.0f are in use. ",
			inventory.Count(nodes, "new node"), t.VCPUs, t.Name, int64(nodes)*t.VCPUs, q.Name, q.InUse, q.Limit)
		ask := "Ask for more: aws service-quotas request-service-quota-increase --service-code ec2 --quota-code " + q.Code + " --desired-value N."
		f := warn(CheckVCPUQuota, "quota/"+q.Code, numbers+"Drains will wait for one another. Lower spec.strategy.maxUnavailableNodes, or raise the quota. "+ask)
		if !possible {
			f = block(CheckVCPUQuota, "quota/"+q.Code, numbers+"Not one node could be launched. "+ask)
		}
		f.Pool = p.Name
		out = append(out, f)
	}
	return out
}

// spotRole: an account that never launched spot through the API lacks the service-linked role for it, and Karpenter may not make it:
// every spot launch fails.
func spotRole(in Input) []inventory.Finding {
	if in.Surroundings.SpotRole == nil || *in.Surroundings.SpotRole {
		return nil
	}
	for _, p := range in.Pools {
		if slices.Contains(capacityTypes(in, p), karpv1.CapacityTypeSpot) {
			f := block(CheckSpotRole, "role/AWSServiceRoleForEC2Spot", "Pool "+p.Name+
				" launches spot instances, and the account has no service-linked role for them. Make it: aws iam create-service-linked-role --aws-service-name spot.amazonaws.com.")
			f.Pool = p.Name
			return []inventory.Finding{f}
		}
	}
	return nil
}

// surge is how many of Karpenter's nodes may come before as many of the old ones are gone: as many as may drain at once. The canary
// is one, and gone by then.
func surge(in Input, p inventory.Pool) int {
	nodes := 0
	for _, n := range in.Nodes {
		if n.Group != "" && slices.Contains(p.NodeGroups, n.Group) {
			nodes++
		}
	}
	if in.Strategy.MaxUnavailableNodes == nil {
		return 1
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(in.Strategy.MaxUnavailableNodes, nodes, true)
	if err != nil {
		return 1 // the API server validated it
	}
	return max(1, min(n, nodes))
}

// capacityTypes are those that the pool's NodePool lets Karpenter launch; none where the pool could not be translated.
func capacityTypes(in Input, p inventory.Pool) []string {
	for _, r := range in.Targets[p.Name].NodePool.Spec.Template.Spec.Requirements {
		if r.Key == karpv1.CapacityTypeLabelKey {
			return r.Values
		}
	}
	return nil
}

// typesInUse are the types of the pool's instances; of groups without instances, all that they may launch.
func typesInUse(in Input, p inventory.Pool) []inventory.InstanceType {
	var used, all []inventory.InstanceType
	for _, g := range groupsOf(in, p) {
		for _, t := range g.Types {
			all = append(all, t)
			if slices.ContainsFunc(g.Instances, func(i inventory.Instance) bool { return i.Type == t.Name }) {
				used = append(used, t)
			}
		}
	}
	if len(used) > 0 {
		return used
	}
	return all
}

func largest(types []inventory.InstanceType) (inventory.InstanceType, bool) {
	var out inventory.InstanceType
	for _, t := range types {
		if t.VCPUs > out.VCPUs {
			out = t
		}
	}
	return out, out.VCPUs > 0
}
