package preflight

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

func TestSurroundingsOfTheCluster(t *testing.T) {
	noAgent := []inventory.Finding{blocks(CheckPodIdentityAgent, "addon/eks-pod-identity-agent", "", "The cluster has no EKS Pod Identity Agent, so Karpenter would get no AWS credentials. Add it: aws eks create-addon --cluster-name prod --addon-name eks-pod-identity-agent.")}
	without := func(in *Input) { in.Surroundings.PodIdentityAgent = ptr.To(false) }
	read := func(missed ...inventory.NotRead) func(*Input) {
		return func(in *Input) { in.Surroundings.NotRead = missed }
	}
	cases := map[string]struct {
		reason string
		change []func(*Input)
		want   []inventory.Finding
	}{
		"Agent":   {"as an add-on", []func(*Input){func(in *Input) { in.Surroundings.PodIdentityAgent = ptr.To(true) }}, nil},
		"NoAgent": {"Karpenter would end at its first call", []func(*Input){without}, noAgent},
		"OwnAgent": {"some install it by its chart", []func(*Input){without, func(in *Input) {
			in.Workloads.Controllers = []inventory.Controller{{Kind: "DaemonSet", Namespace: "kube-system", Name: "eks-pod-identity-agent"}}
		}}, nil},
		"WebIdentity": {"IAM roles for service accounts need none", []func(*Input){without, func(in *Input) { in.Identity.WebIdentity = true }}, nil},
		"Adopted":     {"a Karpenter that is there has its credentials", []func(*Input){without, func(in *Input) { in.Engine.Adopted = true }}, nil},
		"AgentUnread": {"what was not read is told of, once", []func(*Input){read(inventory.NotRead{Action: "eks:DescribeAddon", What: "the agent", Denied: true})}, []inventory.Finding{warns(CheckNotRead, "cluster/prod", "", "Not checked, because castoff may not read it: the agent (eks:DescribeAddon). Grant it: kubectl castoff plan -o iam prints the policy.")}},
		"NoEndpoint":  {"a private VPC without an endpoint", []func(*Input){read(inventory.NotRead{Action: "servicequotas:GetServiceQuota", What: "vCPU quotas"})}, []inventory.Finding{warns(CheckNotRead, "cluster/prod", "", "Not checked, because AWS did not answer: vCPU quotas (servicequotas:GetServiceQuota). In a VPC without that service's endpoint, look yourself.")}},
		"Both": {"and four of one kind", []func(*Input){read(inventory.NotRead{Action: "a", What: "A", Denied: true}, inventory.NotRead{Action: "b", What: "B", Denied: true}, inventory.NotRead{Action: "c", What: "C", Denied: true}, inventory.NotRead{Action: "d", What: "D", Denied: true}, inventory.NotRead{Action: "e", What: "E"})},
			[]inventory.Finding{warns(CheckNotRead, "cluster/prod", "", "Not checked, because castoff may not read it: A (a), B (b), C (c) and 1 more. Grant it: kubectl castoff plan -o iam prints the policy. Not checked, because AWS did not answer: E (e). In a VPC without that service's endpoint, look yourself.")}},
		"Namesake": {"each would end the other's nodes", []func(*Input){func(in *Input) {
			in.Surroundings.Namesakes = []inventory.Namesake{{VPC: "vpc-2", Instances: 3}}
		}}, []inventory.Finding{blocks(CheckClusterNameTaken, "vpc/vpc-2", "", "Another VPC has 3 instances that a Karpenter launched for a cluster prod: that is another cluster of this name, or what one left behind. Karpenter would end them as its own. End or retag them (eks:eks-cluster-name) if they are left behind; two clusters of one name cannot both have a Karpenter in one region.")}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Run(sound(tc.change...), nil)); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}
