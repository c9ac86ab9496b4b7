package cost

import "strings"

// cloud is where a cluster runs when it is not on AWS, and what Karpenter has there.
type cloud struct {
	name, provider string
	// lacks says what the provider cannot do, or how far it is.
	lacks string
}

// clouds by the scheme of the nodes' spec.providerID. The state of each provider is that of its own documentation in autumn 2026.
var clouds = map[string]cloud{
	"azure": {"Azure", "github.com/Azure/karpenter-provider-azure, which AKS runs as node auto-provisioning",
		"it has no Windows nodes, and AKS turns it on only where no node pool uses the cluster autoscaler, so the two cannot be swapped pool by pool"},
	"gce": {"Google Cloud", "github.com/cloudpilot-ai/karpenter-provider-gcp",
		"it is a community's, below version 1.0, and GKE does not support it; GKE's own node auto-provisioning and ComputeClasses do much of the same"},
	"alicloud":     {"Alibaba Cloud", "github.com/cloudpilot-ai/karpenter-provider-alibabacloud", "it is a community's, and below version 1.0"},
	"huaweicloud":  {"Huawei Cloud", "github.com/HuaweiCloudDeveloper/karpenter-provider-huawei", "its API is v1alpha1, and it launches on-demand capacity only: no spot"},
	"digitalocean": {name: "DigitalOcean"},
	"hcloud": {"Hetzner Cloud", "github.com/paperclipinc/karpenter-provider-hetzner",
		"it is one company's, young, and Hetzner has no spot capacity to win"},
	"oci": {"Oracle Cloud", "Oracle's Karpenter Provider for OCI, which Oracle documents for OKE",
		"it is young, and its OCINodeClass has nothing that an instance pool could be translated to field by field"},
	"ibm":        {"IBM Cloud", "kubernetes-sigs/karpenter-provider-ibm-cloud", "it is young, and below version 1.0"},
	"openstack":  {name: "OpenStack"},
	"vsphere":    {name: "vSphere"},
	"kind":       {name: "kind"},
	"eks-hybrid": {name: "EKS Hybrid Nodes"},
}

// NotOnAWS judges a cluster by its nodes' provider IDs. It says nothing when one of them is an EC2 instance, or when none has an
// ID: then AWS is asked.
func NotOnAWS(providerIDs []string) (Verdict, bool) {
	schemes := map[string]bool{}
	first := ""
	for _, id := range providerIDs {
		scheme, _, ok := strings.Cut(id, "://")
		if !ok {
			// Oracle's are plain OCIDs.
			if scheme = ""; strings.HasPrefix(id, "ocid1.") {
				scheme = "oci"
			}
		}
		if scheme != "" && first == "" {
			first = scheme
		}
		schemes[scheme] = true
	}
	if schemes["aws"] || first == "" {
		return Verdict{}, false
	}
	c, ok := clouds[first]
	if !ok {
		c.name = first
	}
	return Verdict{Stay, c.reasons()}, true
}

func (c cloud) reasons() []string {
	where := "The nodes run on " + c.name + ", not on AWS: castoff moves EKS clusters to Karpenter's AWS provider, and no other."
	if c.provider == "" {
		return []string{where, "castoff knows of no Karpenter provider for " + c.name + " that replaces Cluster Autoscaler. For clusters made by Cluster API there is kubernetes-sigs/karpenter-provider-cluster-api, which calls itself alpha."}
	}
	return []string{where, "Karpenter's provider there is " + c.provider + ": " + c.lacks + "."}
}
