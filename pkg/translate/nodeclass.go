package translate

import (
	"cmp"
	"fmt"
	"regexp"
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
var reservedTags = []string{"aws:", "eks:", "kubernetes.io/cluster", "karpenter.sh/", "karpenter.k8s.aws/", "k8s.io/cluster-autoscaler/"}

// maxTerms is how many terms a selector of an EC2NodeClass takes, and rootGiB the size of the root volume that Karpenter gives its
// nodes (Karpenter, "EC2NodeClass").
const (
	maxTerms = 30
	rootGiB  = 20
)

func (p *pool) nodeClass() (*awsv1.EC2NodeClass, error) {
	lt := p.first().LaunchTemplate
	amis, family, err := p.ami()
	if err != nil {
		return nil, err
	}
	u, err := p.userData(family)
	if err != nil {
		return nil, err
	}
	subnets, securityGroups := p.subnets(), p.securityGroups()
	switch {
	case p.role == "":
		return nil, inventory.Terminal(fmt.Errorf("pool %s: its nodes have no IAM role", p.name))
	case len(subnets) == 0:
		return nil, inventory.Terminal(fmt.Errorf("pool %s: no subnet could be read from node group %s: check its Auto Scaling group", p.name, p.first().Name))
	case len(securityGroups) == 0:
		return nil, inventory.Terminal(fmt.Errorf("pool %s: neither node group %s nor the cluster has a security group: add one to the launch template", p.name, p.first().Name))
	}
	return &awsv1.EC2NodeClass{
		TypeMeta:   metav1.TypeMeta{APIVersion: "karpenter.k8s.aws/v1", Kind: "EC2NodeClass"},
		ObjectMeta: metav1.ObjectMeta{Name: p.name, Labels: p.ownLabels()},
		Spec: awsv1.EC2NodeClassSpec{
			Role:                             p.role,
			AMIFamily:                        ptr.To(family),
			AMISelectorTerms:                 amis,
			SubnetSelectorTerms:              subnets,
			SecurityGroupSelectorTerms:       securityGroups,
			AssociatePublicIPAddress:         lt.AssociatePublicIP,
			BlockDeviceMappings:              p.blockDevices(family),
			UserData:                         text(userDataOf(u, family, lt.UserData)),
			Kubelet:                          u.spec(),
			InstanceStorePolicy:              u.instanceStore(),
			NetworkInterfaces:                p.networkInterfaces(),
			MetadataOptions:                  p.metadata(family),
			DetailedMonitoring:               lt.DetailedMonitoring,
			PlacementGroupSelector:           placementGroup(lt.PlacementGroup),
			CapacityReservationSelectorTerms: p.capacityReservations(),
			Tags:                             p.tags(),
		},
	}, nil
}

// ami pins what the groups run now: the release of a managed node group as an alias, else the image itself. Never @latest:
// a node that is replaced at three in the morning must be the one that was tested.
func (p *pool) ami() ([]awsv1.AMISelectorTerm, string, error) {
	g := p.first()
	for _, other := range p.groups[1:] {
		if windows(other) != windows(g) {
			return nil, "", inventory.Terminal(fmt.Errorf("pool %s: of node groups %s and %s one runs Windows and one Linux: put them into pools of their own", p.name, g.Name, other.Name))
		}
	}
	if family, alias, ok := managedAlias(g.Managed); ok && (!g.Managed.OwnLaunchTemplate || g.LaunchTemplate.ImageID == "") {
		if family == awsv1.AMIFamilyAL2 && noAL2(p.cluster.Version) {
			return nil, "", inventory.Terminal(fmt.Errorf("pool %s: node group %s runs Amazon Linux 2, of which there is no image for Kubernetes %s: move the group to Amazon Linux 2023 first", p.name, g.Name, p.cluster.Version))
		}
		p.noteOtherImages(alias)
		return []awsv1.AMISelectorTerm{{Alias: alias}}, family, nil
	}
	var ids []string
	for _, g := range p.groups {
		id := g.LaunchTemplate.ImageID
		if id != "" && !strings.HasPrefix(id, "ami-") {
			return nil, "", inventory.Terminal(fmt.Errorf("pool %s: node group %s launches the image %s, which is another one from time to time: name the image's id in a new version of its launch template", p.name, g.Name, id))
		}
		ids = append(ids, id)
	}
	var terms []awsv1.AMISelectorTerm
	for _, id := range p.atMost("AMI", ids) {
		terms = append(terms, awsv1.AMISelectorTerm{ID: id})
	}
	if len(terms) == 0 {
		return nil, "", inventory.Terminal(fmt.Errorf("pool %s: node group %s has no image that castoff can read: its launch template names none, and EKS's AMI type %q is not known", p.name, g.Name, amiType(g)))
	}
	if len(terms) > 1 {
		p.note(g, "AMI", "The groups of the pool run more than one image, and Karpenter starts the newest that fits the instance type.", "Put groups with another image into a pool of their own.")
	}
	return terms, p.family(g), nil
}

// noteOtherImages lists the groups that run something else than the alias; an EC2NodeClass has one alias or none.
func (p *pool) noteOtherImages(alias string) {
	for _, g := range p.groups[1:] {
		if _, other, _ := managedAlias(g.Managed); other != alias {
			p.note(g, "AMI", "It is not that of node group "+p.first().Name+", "+alias+", which all nodes of the pool get.", "Put the group into a pool of its own if its nodes need another image.")
		}
	}
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
	if m == nil {
		return "", "", false
	}
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
	case windows(g):
		return p.windowsFamily(g)
	case strings.HasPrefix(name, "bottlerocket"):
		return awsv1.AMIFamilyBottlerocket
	case strings.Contains(name, "al2023"), strings.Contains(userData, "node.eks.aws"):
		return awsv1.AMIFamilyAL2023
	case tomlSettings.MatchString(userData):
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
	var out []awsv1.SubnetSelectorTerm
	for _, id := range p.atMost("subnets", ids) {
		out = append(out, awsv1.SubnetSelectorTerm{ID: id})
	}
	return out
}

// securityGroups falls back to the one that EKS made for the cluster, as managed node groups without any do. Old launch
// configurations may have names instead of ids.
func (p *pool) securityGroups() []awsv1.SecurityGroupSelectorTerm {
	var ids []string
	for _, g := range p.groups {
		ids = append(ids, g.LaunchTemplate.SecurityGroups...)
	}
	ids = p.atMost("security groups", ids)
	if len(ids) == 0 && p.cluster.SecurityGroup != "" {
		ids = []string{p.cluster.SecurityGroup}
	}
	var out []awsv1.SecurityGroupSelectorTerm
	for _, id := range ids {
		if strings.HasPrefix(id, "sg-") {
			out = append(out, awsv1.SecurityGroupSelectorTerm{ID: id})
		} else {
			out = append(out, awsv1.SecurityGroupSelectorTerm{Name: id})
		}
	}
	return out
}

// atMost sorts the names, drops empty ones and repetitions, and lists those that are too many for a selector.
func (p *pool) atMost(what string, names []string) []string {
	names = slices.DeleteFunc(slices.Compact(slices.Sorted(slices.Values(names))), func(s string) bool { return s == "" })
	if len(names) <= maxTerms {
		return names
	}
	p.note(p.first(), fmt.Sprintf("%d of %d %s", len(names)-maxTerms, len(names), what),
		fmt.Sprintf("An EC2NodeClass selects by at most %d ids. Left out: %s.", maxTerms, strings.Join(names[maxTerms:], ", ")), "Split the pool, or select by a tag.")
	return names[:maxTerms]
}

// volumeTypes are those of the EC2NodeClass's definition.
var volumeTypes = []string{"gp2", "gp3", "io1", "io2", "sc1", "st1", "standard"}

func (p *pool) blockDevices(family string) []*awsv1.BlockDeviceMapping {
	g := p.first()
	var out []*awsv1.BlockDeviceMapping
	for _, d := range g.LaunchTemplate.BlockDevices {
		if d.Virtual != "" {
			p.note(g, "blockDeviceMappings "+d.DeviceName, "An instance store mapping ("+d.Virtual+") has no counterpart; NVMe instance stores need none.", "Set instanceStorePolicy: RAID0 if pods use it.")
			continue
		}
		if d.Type != "" && !slices.Contains(volumeTypes, d.Type) {
			p.note(g, "blockDeviceMappings "+d.DeviceName+" volumeType "+d.Type, "An EC2NodeClass does not know the type; EC2's default is taken.", "Name one of "+strings.Join(volumeTypes, ", ")+".")
			d.Type = ""
		}
		if d.SizeGiB == 0 && d.SnapshotID == "" {
			d.SizeGiB = rootGiB
			p.note(g, "blockDeviceMappings "+d.DeviceName, fmt.Sprintf("The template leaves the volume's size to the image, and an EC2NodeClass has to name one: %d GiB, as Karpenter's own nodes have.", rootGiB),
				"Set the volumeSize that the nodes have today, if it is more.")
		}
		out = append(out, &awsv1.BlockDeviceMapping{DeviceName: text(d.DeviceName), EBS: blockDevice(d)})
	}
	if len(out) == 0 && g.Managed != nil && g.Managed.DiskSizeGiB > 0 {
		d := inventory.BlockDevice{DeviceName: dataDevice(family), SizeGiB: g.Managed.DiskSizeGiB, Type: "gp3", DeleteOnTermination: ptr.To(true)}
		out = append(out, &awsv1.BlockDeviceMapping{DeviceName: ptr.To(d.DeviceName), EBS: blockDevice(d)})
	}
	return out
}

// dataDevice is the volume that EKS means by the disk size of a node group: Bottlerocket keeps images and logs on a second one
// (EKS user guide, "Bottlerocket").
func dataDevice(family string) string {
	if family == awsv1.AMIFamilyBottlerocket {
		return "/dev/xvdb"
	}
	if strings.HasPrefix(family, "Windows") {
		return "/dev/sda1"
	}
	return "/dev/xvda"
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

// metadata keeps the group's options. What EC2 does where the template is silent is spelled out, because Karpenter's defaults
// differ (Karpenter, "spec.metadataOptions"): tokens are required and travel two hops with an image that asks for it, as those of
// Amazon Linux 2023 do, else they are optional and travel one (EC2 user guide, "instance metadata options: order of precedence").
func (p *pool) metadata(family string) *awsv1.MetadataOptions {
	hops, tokens := int32(1), "optional"
	switch {
	case family == awsv1.AMIFamilyAL2023:
		hops, tokens = 2, "required"
	case p.first().Managed != nil:
		hops = 2 // EKS's own launch templates
	}
	m := p.first().LaunchTemplate.Metadata
	if m == nil {
		p.note(p.first(), "metadataOptions", fmt.Sprintf("The template leaves them to EC2. castoff writes what EC2 does for such an image (tokens %s, hop limit %d) and does not know the account's own defaults.", tokens, hops),
			"Compare with: aws ec2 get-instance-metadata-defaults.")
		m = &inventory.Metadata{}
	}
	return &awsv1.MetadataOptions{
		HTTPEndpoint:            ptr.To(cmp.Or(m.Endpoint, "enabled")),
		HTTPProtocolIPv6:        ptr.To(cmp.Or(m.IPv6, "disabled")),
		HTTPPutResponseHopLimit: ptr.To(int64(cmp.Or(m.HopLimit, hops))),
		HTTPTokens:              ptr.To(cmp.Or(m.Tokens, tokens)),
	}
}

// placementGroupID is how EC2 writes ids; a name may begin alike.
var placementGroupID = regexp.MustCompile(`^pg-[0-9a-f]{8,17}$`)

// placementGroup is known by name, or by id where the template has no name.
func placementGroup(name string) *awsv1.PlacementGroupSelector {
	switch {
	case name == "":
		return nil
	case placementGroupID.MatchString(name):
		return &awsv1.PlacementGroupSelector{ID: ptr.To(name)}
	}
	return &awsv1.PlacementGroupSelector{Name: ptr.To(name)}
}

// tags are those that the groups give their instances.
func (p *pool) tags() map[string]string {
	out := map[string]string{}
	for _, g := range p.groups {
		for _, k := range sortedKeys(g.LaunchTemplate.Tags) {
			p.tag(g, out, k, g.LaunchTemplate.Tags[k])
		}
		for _, t := range byKey(g.Tags) {
			if t.Propagate {
				p.tag(g, out, t.Key, t.Value)
			}
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

func (p *pool) tag(g inventory.NodeGroup, to map[string]string, key, value string) {
	isPrefix := func(reserved string) bool { return strings.HasPrefix(key, reserved) }
	have, there := to[key]
	switch {
	case key == "" || slices.ContainsFunc(reservedTags, isPrefix):
		p.note(g, "tag "+key, "The key is reserved: AWS, EKS or Karpenter sets it where it is needed.", "Nothing.")
	case there && have != value:
		p.note(g, "tag "+key+"="+value, "Another source, or another group of the pool, says "+have+", and an instance has one value.", "Put the group into a pool of its own if the value matters.")
	default:
		to[key] = value
	}
}
