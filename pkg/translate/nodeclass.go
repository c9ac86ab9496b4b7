package translate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// reservedTags are set by AWS, EKS, Karpenter or for Cluster Autoscaler; an EC2NodeClass refuses or must not copy them
// (Karpenter, "EC2NodeClass: spec.tags").
var reservedTags = []string{"aws:", "eks:", "kubernetes.io/cluster/", "karpenter.sh/", "karpenter.k8s.aws/", "k8s.io/cluster-autoscaler/"}

func (p *pool) nodeClass() (*awsv1.EC2NodeClass, error) {
	lt := p.first().LaunchTemplate
	amis, family, err := p.ami()
	if err != nil {
		return nil, err
	}
	return &awsv1.EC2NodeClass{
		TypeMeta:   metav1.TypeMeta{APIVersion: "karpenter.k8s.aws/v1", Kind: "EC2NodeClass"},
		ObjectMeta: metav1.ObjectMeta{Name: p.name, Labels: p.ownLabels()},
		Spec: awsv1.EC2NodeClassSpec{
			Role:                       p.role,
			AMIFamily:                  ptr.To(family),
			AMISelectorTerms:           amis,
			SubnetSelectorTerms:        p.subnets(),
			SecurityGroupSelectorTerms: p.securityGroups(),
			AssociatePublicIPAddress:   lt.AssociatePublicIP,
			BlockDeviceMappings:        p.blockDevices(),
			MetadataOptions:            metadata(lt.Metadata),
			DetailedMonitoring:         lt.DetailedMonitoring,
			PlacementGroupSelector:     placementGroup(lt.PlacementGroup),
			Tags:                       p.tags(),
		},
	}, nil
}

// ami pins what the groups run now: the release of a managed node group as an alias, else the image itself. Never @latest:
// a node that is replaced at three in the morning must be the one that was tested.
func (p *pool) ami() ([]awsv1.AMISelectorTerm, string, error) {
	g := p.first()
	if g.Managed != nil && !g.Managed.OwnLaunchTemplate {
		if family, alias, ok := managedAlias(g.Managed); ok {
			return []awsv1.AMISelectorTerm{{Alias: alias}}, family, nil
		}
	}
	ids := map[string]bool{}
	var terms []awsv1.AMISelectorTerm
	for _, g := range p.groups {
		if id := g.LaunchTemplate.ImageID; id != "" && !ids[id] {
			ids[id] = true
			terms = append(terms, awsv1.AMISelectorTerm{ID: id})
		}
	}
	if len(terms) == 0 {
		return nil, "", inventory.Terminal(fmt.Errorf("pool %s: node group %s has no image that castoff can read: its launch template names none, and EKS's AMI type %q is not known", p.name, g.Name, amiType(g)))
	}
	return terms, p.family(g), nil
}

func amiType(g inventory.NodeGroup) string {
	if g.Managed == nil {
		return ""
	}
	return g.Managed.AMIType
}

// managedAlias reads EKS's release version: 1.33.0-20260114 for Amazon Linux, 1.51.0-47438798 for Bottlerocket
// (EKS user guide, "managed node group release versions").
func managedAlias(m *inventory.ManagedNodeGroup) (family, alias string, ok bool) {
	version, build, found := strings.Cut(m.ReleaseVersion, "-")
	if !found {
		return "", "", false
	}
	switch {
	case strings.HasPrefix(m.AMIType, "AL2023_"):
		return awsv1.AMIFamilyAL2023, "al2023@v" + build, true
	case strings.HasPrefix(m.AMIType, "AL2_"):
		return awsv1.AMIFamilyAL2, "al2@v" + build, true
	case strings.HasPrefix(m.AMIType, "BOTTLEROCKET_"):
		return awsv1.AMIFamilyBottlerocket, "bottlerocket@v" + version, true
	}
	return "", "", false
}

// family is how an instance of this image is started. The image's name says it for EKS's own images, the user data for others.
func (p *pool) family(g inventory.NodeGroup) string {
	name, userData := "", g.LaunchTemplate.UserData
	if g.LaunchTemplate.Image != nil {
		name = g.LaunchTemplate.Image.Name
	}
	switch {
	case strings.Contains(name, "al2023"), strings.Contains(userData, "node.eks.aws"):
		return awsv1.AMIFamilyAL2023
	case strings.HasPrefix(name, "bottlerocket"), strings.Contains(userData, "[settings.kubernetes]"):
		return awsv1.AMIFamilyBottlerocket
	case strings.HasPrefix(name, "amazon-eks-"), strings.Contains(userData, "/etc/eks/bootstrap.sh"):
		return awsv1.AMIFamilyAL2
	}
	p.note(g, "imageId "+g.LaunchTemplate.ImageID, "castoff does not know how instances of this image join a cluster.",
		"The EC2NodeClass has amiFamily Custom: give it spec.userData that joins the cluster, or the canary will fail.")
	return awsv1.AMIFamilyCustom
}

func (p *pool) subnets() []awsv1.SubnetSelectorTerm {
	var ids []string
	for _, g := range p.groups {
		ids = append(ids, g.Subnets...)
	}
	slices.Sort(ids)
	var out []awsv1.SubnetSelectorTerm
	for _, id := range slices.Compact(ids) {
		out = append(out, awsv1.SubnetSelectorTerm{ID: id})
	}
	return out
}

// securityGroups falls back to the one that EKS made for the cluster, as managed node groups without any do.
func (p *pool) securityGroups() []awsv1.SecurityGroupSelectorTerm {
	var ids []string
	for _, g := range p.groups {
		ids = append(ids, g.LaunchTemplate.SecurityGroups...)
	}
	if len(ids) == 0 && p.cluster.SecurityGroup != "" {
		ids = append(ids, p.cluster.SecurityGroup)
	}
	slices.Sort(ids)
	var out []awsv1.SecurityGroupSelectorTerm
	for _, id := range slices.Compact(ids) {
		out = append(out, awsv1.SecurityGroupSelectorTerm{ID: id})
	}
	return out
}

func (p *pool) blockDevices() []*awsv1.BlockDeviceMapping {
	g := p.first()
	var out []*awsv1.BlockDeviceMapping
	for _, d := range g.LaunchTemplate.BlockDevices {
		if d.Virtual != "" {
			p.note(g, "blockDeviceMappings "+d.DeviceName, "An instance store mapping ("+d.Virtual+") has no counterpart; NVMe instance stores need none.", "Set instanceStorePolicy: RAID0 if pods use it.")
			continue
		}
		out = append(out, &awsv1.BlockDeviceMapping{DeviceName: ptr.To(d.DeviceName), EBS: blockDevice(d)})
	}
	if len(out) == 0 && g.Managed != nil && g.Managed.DiskSizeGiB > 0 {
		d := inventory.BlockDevice{DeviceName: "/dev/xvda", SizeGiB: g.Managed.DiskSizeGiB, Type: "gp3", DeleteOnTermination: ptr.To(true)}
		out = append(out, &awsv1.BlockDeviceMapping{DeviceName: ptr.To(d.DeviceName), EBS: blockDevice(d)})
	}
	return out
}

func blockDevice(d inventory.BlockDevice) *awsv1.BlockDevice {
	return &awsv1.BlockDevice{
		DeleteOnTermination: d.DeleteOnTermination, Encrypted: d.Encrypted, IOPS: positive(d.IOPS), Throughput: positive(d.ThroughputMiBs),
		KMSKeyID: text(d.KMSKey), SnapshotID: text(d.SnapshotID), VolumeType: text(d.Type), VolumeSize: gib(d.SizeGiB),
	}
}

func gib(n int32) *resource.Quantity {
	if n == 0 {
		return nil
	}
	return ptr.To(resource.MustParse(fmt.Sprintf("%dGi", n)))
}

func positive(n int32) *int64 {
	if n == 0 {
		return nil
	}
	return ptr.To(int64(n))
}

func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// metadata keeps the group's options. EC2's own defaults are spelled out where the template is silent, because Karpenter's
// differ: hop limit 1 and tokens required break pods that use instance credentials (Karpenter, "spec.metadataOptions").
func metadata(m *inventory.Metadata) *awsv1.MetadataOptions {
	if m == nil {
		return nil
	}
	return &awsv1.MetadataOptions{
		HTTPEndpoint:            ptr.To(cmp.Or(m.Endpoint, "enabled")),
		HTTPProtocolIPv6:        ptr.To(cmp.Or(m.IPv6, "disabled")),
		HTTPPutResponseHopLimit: ptr.To(int64(cmp.Or(m.HopLimit, 1))),
		HTTPTokens:              ptr.To(cmp.Or(m.Tokens, "optional")),
	}
}

func placementGroup(name string) *awsv1.PlacementGroupSelector {
	if name == "" {
		return nil
	}
	return &awsv1.PlacementGroupSelector{Name: ptr.To(name)}
}

// tags are those that the groups give their instances.
func (p *pool) tags() map[string]string {
	g := p.first()
	out := map[string]string{}
	for k, v := range g.LaunchTemplate.Tags {
		p.tag(g, out, k, v)
	}
	for _, t := range g.Tags {
		if t.Propagate {
			p.tag(g, out, t.Key, t.Value)
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

func (p *pool) tag(g inventory.NodeGroup, to map[string]string, key, value string) {
	for _, reserved := range reservedTags {
		if strings.HasPrefix(key, reserved) {
			p.note(g, "tag "+key, "The key is reserved: AWS, EKS or Karpenter sets it where it is needed.", "Nothing.")
			return
		}
	}
	to[key] = value
}
