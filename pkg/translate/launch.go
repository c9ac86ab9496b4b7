package translate

import (
	"fmt"
	"strconv"
	"strings"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"k8s.io/utils/ptr"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// userData takes the first group's apart. The error is terminal: a node that starts without half of what it was started with is
// not the node that the workloads ran on.
func (p *pool) userData(family string) (*userData, error) {
	g := p.first()
	u := readUserData(g.LaunchTemplate.UserData)
	if family == awsv1.AMIFamilyCustom { // nobody but its image reads it, so that it stays as it is
		return &u, nil
	}
	want := map[string]form{awsv1.AMIFamilyBottlerocket: formTOML, awsv1.AMIFamilyWindows2019: formWindows, awsv1.AMIFamilyWindows2022: formWindows, awsv1.AMIFamilyWindows2025: formWindows}
	switch expected := want[family]; {
	case u.broken != "":
		return nil, inventory.Terminal(fmt.Errorf("pool %s: the user data of node group %s cannot be carried over: %s. Mend it in a new version of the launch template, or leave the group to Cluster Autoscaler", p.name, g.Name, u.broken))
	case u.form == formNone, u.form == expected, expected == formNone && u.form == formCloud:
		return &u, nil
	}
	return nil, inventory.Terminal(fmt.Errorf("pool %s: the user data of node group %s is not of the kind that an image of family %s reads: its nodes start without it today. Mend it in a new version of the launch template", p.name, g.Name, family))
}

// userDataOf is spec.userData: what is left of the group's, or all of it for an image that only its makers know.
func userDataOf(u *userData, family, whole string) string {
	if family == awsv1.AMIFamilyCustom {
		return whole
	}
	return u.written()
}

func (u *userData) instanceStore() *awsv1.InstanceStorePolicy {
	if !u.raid0 {
		return nil
	}
	return ptr.To(awsv1.InstanceStorePolicyRAID0)
}

// noAL2: EKS makes no images of Amazon Linux 2 from Kubernetes 1.33 on (EKS user guide, "Amazon Linux 2 deprecation").
func noAL2(version string) bool {
	const first = 33
	_, minor, ok := strings.Cut(version, ".")
	n, err := strconv.Atoi(minor)
	return ok && err == nil && n >= first
}

const windowsImage = "Windows_Server-"

func windows(g inventory.NodeGroup) bool {
	return strings.HasPrefix(amiType(g), "WINDOWS_") || g.LaunchTemplate.Image != nil && strings.HasPrefix(g.LaunchTemplate.Image.Name, "Windows_")
}

// windowsFamily goes by the year in EKS's AMI type, or in the image's name.
func (p *pool) windowsFamily(g inventory.NodeGroup) string {
	name := amiType(g)
	if g.LaunchTemplate.Image != nil {
		name += g.LaunchTemplate.Image.Name
	}
	for year, family := range map[string]string{"2019": awsv1.AMIFamilyWindows2019, "2025": awsv1.AMIFamilyWindows2025} {
		if strings.Contains(name, "_"+year) || strings.Contains(name, windowsImage+year) {
			return family
		}
	}
	return awsv1.AMIFamilyWindows2022
}

// reserved says whether all of the group's instances come from capacity that is reserved for it: a template that aims at a
// reservation launches nowhere else.
func reserved(g inventory.NodeGroup) bool {
	return strings.HasPrefix(g.LaunchTemplate.CapacityReservation, "cr-")
}

func (p *pool) capacityReservations() []awsv1.CapacityReservationSelectorTerm {
	var ids []string
	for _, g := range p.groups {
		if reserved(g) {
			ids = append(ids, g.LaunchTemplate.CapacityReservation)
		}
	}
	var out []awsv1.CapacityReservationSelectorTerm
	for _, id := range p.atMost("capacity reservations", ids) {
		out = append(out, awsv1.CapacityReservationSelectorTerm{ID: id})
	}
	return out
}

// networkInterfaces are those of a template with more than one; Karpenter makes a single one by itself.
func (p *pool) networkInterfaces() []*awsv1.NetworkInterface {
	g := p.first()
	all := g.LaunchTemplate.NetworkInterfaces
	if len(all) == 0 || (len(all) == 1 && plainInterface(all[0])) {
		return nil
	}
	var out []*awsv1.NetworkInterface
	primary := false
	for i, n := range all {
		if !expressible(n, all[:i]) {
			p.note(g, fmt.Sprintf("networkInterfaces card %d device %d %s", n.Card, n.Device, n.Type), fmt.Sprintf("An EC2NodeClass cannot express it: of the template's interfaces (%d) none is carried over, and Karpenter makes one.", len(all)),
				"EFA: have the pods request vpc.amazonaws.com/efa, and Karpenter attaches as many as the type has.")
			return nil
		}
		kind := awsv1.InterfaceTypeInterface
		if n.Type == efaOnly {
			kind = awsv1.InterfaceTypeEFAOnly
		}
		primary = primary || (plainInterface(n) && n.Card == 0 && n.Device == 0)
		out = append(out, &awsv1.NetworkInterface{NetworkCardIndex: n.Card, DeviceIndex: n.Device, InterfaceType: kind})
	}
	if !primary {
		p.note(g, "networkInterfaces", "None of them is the primary interface, which an EC2NodeClass has to name.", "Set spec.networkInterfaces on the EC2NodeClass.")
		return nil
	}
	return out
}

const efaOnly = "efa-only"

// expressible says whether an EC2NodeClass takes the interface after those before it: each has a place of its own, a card has one
// EFA, and EFA is without IP. The kind with IP Karpenter attaches itself, where pods ask for it.
func expressible(n inventory.NetworkInterface, before []inventory.NetworkInterface) bool {
	for _, other := range before {
		if n.Card == other.Card && (n.Device == other.Device || (n.Type == efaOnly && other.Type == efaOnly)) {
			return false
		}
	}
	return n.Card >= 0 && n.Device >= 0 && (plainInterface(n) || n.Type == efaOnly)
}

func plainInterface(n inventory.NetworkInterface) bool { return n.Type == "" || n.Type == "interface" }
