package translate

import (
	"regexp"
	"slices"
	"strings"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

const (
	// never: nodes of an Auto Scaling group do not expire unless the group has a maximum instance lifetime.
	never = "Never"
	// ec2Arm is EC2's word for arm64 images; all others that EKS knows are x86_64.
	ec2Arm = "arm64"
)

func (p *pool) nodePool() *karpv1.NodePool {
	labels, all := p.labelsAndTaints()
	for _, g := range p.groups {
		p.noteNodeLabels(g, labels)
		p.noteNodeTaints(g, all)
	}
	taints, startups := splitTaints(all)
	return &karpv1.NodePool{
		TypeMeta:   metav1.TypeMeta{APIVersion: "karpenter.sh/v1", Kind: "NodePool"},
		ObjectMeta: metav1.ObjectMeta{Name: p.name, Labels: p.ownLabels()},
		Spec: karpv1.NodePoolSpec{
			Template: karpv1.NodeClaimTemplate{
				ObjectMeta: karpv1.ObjectMeta{Labels: labels},
				Spec: karpv1.NodeClaimTemplateSpec{
					Taints:        taints,
					StartupTaints: startups,
					Requirements:  p.requirements(),
					NodeClassRef:  &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: p.name},
					ExpireAfter:   p.expireAfter(),
				},
			},
			Disruption: p.disruption(),
			Limits:     p.limits(),
			Weight:     p.weight(),
		},
	}
}

// ownLabels leaves the cluster's name out where it is no label value: EKS allows 100 characters and any ending.
func (p *pool) ownLabels() map[string]string {
	labels := map[string]string{v1alpha1.LabelPool: p.name}
	if len(validation.IsValidLabelValue(p.cluster.Name)) == 0 {
		labels[v1alpha1.LabelCluster] = p.cluster.Name
	}
	return labels
}

// requirements keeps exactly what the groups launch, and what the user added: widening the instance types is the user's choice, not
// castoff's.
func (p *pool) requirements() []karpv1.NodeSelectorRequirementWithMinValues {
	in := func(key string, values ...string) karpv1.NodeSelectorRequirementWithMinValues {
		return karpv1.NodeSelectorRequirementWithMinValues{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
	}
	out := []karpv1.NodeSelectorRequirementWithMinValues{
		in(corev1.LabelInstanceTypeStable, p.types...),
		in(karpv1.CapacityTypeLabelKey, p.capacityTypes()...),
		in(corev1.LabelOSStable, p.os()),
		in(corev1.LabelArchStable, p.architectures()...),
	}
	if p.first().LaunchTemplate.Tenancy == "dedicated" {
		out = append(out, in(awsv1.LabelInstanceTenancy, "dedicated"))
	}
	return out
}

// architectures are known from the images, else from the instance types: which of the two a pod may run on must not be left open.
func (p *pool) architectures() []string {
	var out []string
	for _, g := range p.groups {
		switch image := g.LaunchTemplate.Image; {
		case image == nil || image.Architecture == "":
			for _, t := range typesOf(g) {
				if t != "" {
					out = append(out, architectureOf(g, t))
				}
			}
		case image.Architecture == ec2Arm:
			out = append(out, karpv1.ArchitectureArm64)
		default:
			out = append(out, karpv1.ArchitectureAmd64)
		}
	}
	if len(out) == 0 { // a group without types beside one with
		for _, t := range p.types {
			out = append(out, architectureOf(p.first(), t))
		}
	}
	out = slices.Compact(slices.Sorted(slices.Values(out)))
	if len(out) > 1 {
		p.note(p.first(), "architecture", "The pool's groups launch both arm64 and amd64, and a pod that does not say which it needs may get either.", "Make a pool of each.")
	}
	return out
}

// familyOptions are the letters after the generation's number.
var familyOptions = regexp.MustCompile(`^[a-z]+[0-9]+([a-z]*)`)

// architectureOf is EC2's word, else goes by the name: AWS's own processors put a "g" first after the number, and a1 came before that rule (EC2 user
// guide, "instance type naming conventions").
func architectureOf(g inventory.NodeGroup, instanceType string) string {
	for _, t := range g.Types {
		if t.Name == instanceType && t.Architecture != "" {
			return t.Architecture
		}
	}
	if m := familyOptions.FindStringSubmatch(instanceType); strings.HasPrefix(instanceType, "a1.") || (m != nil && strings.HasPrefix(m[1], "g")) {
		return karpv1.ArchitectureArm64
	}
	return karpv1.ArchitectureAmd64
}

// os is what the pool's nodes run; groups of one pool have one image family.
func (p *pool) os() string {
	if windows(p.first()) {
		return string(corev1.Windows)
	}
	return string(corev1.Linux)
}

func (p *pool) instanceTypes() []string {
	seen := map[string]bool{}
	for _, g := range p.groups {
		for _, t := range typesOf(g) {
			if t != "" {
				seen[t] = true
			}
		}
	}
	var out []string
	for t := range seen {
		out = append(out, t)
	}
	slices.Sort(out)
	return out
}

func typesOf(g inventory.NodeGroup) []string {
	var out []string
	if m := g.MixedInstances; m != nil {
		for _, o := range m.Overrides {
			out = append(out, o.InstanceType)
			out = append(out, o.Types...)
		}
	}
	if len(out) == 0 && g.Managed != nil {
		out = append(out, g.Managed.InstanceTypes...)
	}
	if len(out) == 0 {
		out = append(out, g.LaunchTemplate.InstanceType)
	}
	return out
}

// capacityTypes says spot, on-demand, or both. A base or a percentage is listed, not imitated by a second NodePool of another weight:
// limits are resources and not nodes, a NodePool at its limit sends all further pods to the other, and consolidation moves pods
// across, so that what looks like a ratio would be none.
func (p *pool) capacityTypes() []string {
	spot, onDemand := false, false
	for i, g := range p.groups {
		s, o := capacityOf(g)
		if s && o {
			m := g.MixedInstances
			p.note(g, "mixedInstancesPolicy.instancesDistribution",
				"Karpenter chooses between spot and on-demand by price and availability; it keeps neither a base nor a percentage"+distribution(m)+".",
				"Make a second NodePool for on-demand with a weight, or spread by karpenter.sh/capacity-type.")
		}
		if i > 0 && (s != spot || o != onDemand) {
			p.note(g, "capacity type", "The groups of the pool do not all launch the same; Karpenter chooses between spot and on-demand by price and availability.", "Put the group into a pool of its own.")
		}
		spot, onDemand = spot || s, onDemand || o
	}
	var out []string
	if slices.ContainsFunc(p.groups, reserved) {
		out = append(out, karpv1.CapacityTypeReserved)
	}
	if spot {
		out = append(out, karpv1.CapacityTypeSpot)
	}
	if onDemand {
		out = append(out, karpv1.CapacityTypeOnDemand)
	}
	return out
}

func capacityOf(g inventory.NodeGroup) (spot, onDemand bool) {
	switch m := g.MixedInstances; {
	case g.Managed != nil && g.Managed.CapacityType == "SPOT":
		return true, false
	case reserved(g):
		return false, false
	case g.Managed == nil && m != nil:
		return m.OnDemandPercentage < 100, m.OnDemandPercentage > 0 || m.OnDemandBase > 0
	}
	return g.LaunchTemplate.Spot, !g.LaunchTemplate.Spot
}

func (p *pool) expireAfter() karpv1.NillableDuration {
	if s := p.first().MaxInstanceLifetime; s > 0 {
		return karpv1.MustParseNillableDuration((time.Duration(s) * time.Second).String())
	}
	return karpv1.MustParseNillableDuration(never)
}
