package translate

import (
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

func TestNetworkInterfaces(t *testing.T) {
	with := func(n ...inventory.NetworkInterface) inventory.NodeGroup {
		return plain(template(func(lt *inventory.LaunchTemplate) { lt.NetworkInterfaces = n }))
	}
	cases := map[string]struct {
		reason string
		group  inventory.NodeGroup
		want   string
		listed []string
	}{
		"One":      {"Karpenter makes one by itself", with(inventory.NetworkInterface{}), "null\n", nil},
		"OneNamed": {"whatever it is called", with(inventory.NetworkInterface{Type: "interface"}), "null\n", nil},
		"Two":      {"a second one is carried", with(inventory.NetworkInterface{}, inventory.NetworkInterface{Card: 1, Device: 1}), "- deviceIndex: 0\n  interfaceType: interface\n  networkCardIndex: 0\n- deviceIndex: 1\n  interfaceType: interface\n  networkCardIndex: 1\n", nil},
		"EFAOnly":  {"and EFA without IP", with(inventory.NetworkInterface{}, inventory.NetworkInterface{Card: 1, Device: 1, Type: "efa-only"}), "- deviceIndex: 0\n  interfaceType: interface\n  networkCardIndex: 0\n- deviceIndex: 1\n  interfaceType: efa-only\n  networkCardIndex: 1\n", nil},
		"EFA":      {"EFA with IP has no place", with(inventory.NetworkInterface{Type: "efa"}), "null\n", []string{"networkInterfaces card 0 device 0 efa"}},
		"Same":     {"two in one place", with(inventory.NetworkInterface{}, inventory.NetworkInterface{}), "null\n", []string{"networkInterfaces card 0 device 0 "}},
		"TwoEFA":   {"two EFA on one card", with(inventory.NetworkInterface{}, inventory.NetworkInterface{Device: 1, Type: "efa-only"}, inventory.NetworkInterface{Device: 2, Type: "efa-only"}), "null\n", []string{"networkInterfaces card 0 device 2 efa-only"}},
		"None":     {"no primary one", with(inventory.NetworkInterface{Device: 1}, inventory.NetworkInterface{Device: 2}), "null\n", []string{"networkInterfaces"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			target := translated(t, tc.group)
			if diff := cmp.Diff(tc.want, asYAML(t, target.NodeClass.Spec.NetworkInterfaces)); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.listed, fields(target)); diff != "" {
				t.Errorf("%s: listed: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func TestCapacityReservations(t *testing.T) {
	aims := func(at string, change ...func(*inventory.NodeGroup)) inventory.NodeGroup {
		return plain(append(change, template(func(lt *inventory.LaunchTemplate) { lt.CapacityReservation = at }))...)
	}
	cases := map[string]struct {
		reason   string
		groups   []inventory.NodeGroup
		want     []awsv1.CapacityReservationSelectorTerm
		capacity []string
		listed   []string
	}{
		"One":   {"a template that aims at one launches nowhere else", []inventory.NodeGroup{aims("cr-1")}, []awsv1.CapacityReservationSelectorTerm{{ID: "cr-1"}}, []string{"reserved"}, nil},
		"Zones": {"one for each zone", []inventory.NodeGroup{aims("cr-2"), aims("cr-1", named("b"))}, []awsv1.CapacityReservationSelectorTerm{{ID: "cr-1"}, {ID: "cr-2"}}, []string{"reserved"}, nil},
		"Mixed": {"beside a group without", []inventory.NodeGroup{aims("cr-1"), plain(named("b"))}, []awsv1.CapacityReservationSelectorTerm{{ID: "cr-1"}}, []string{"reserved", "on-demand"}, []string{"capacity type"}},
		"Group": {"a resource group is no id", []inventory.NodeGroup{aims("arn:aws:resource-groups:us-east-1:1:group/x")}, nil, []string{"on-demand"}, []string{"capacityReservation arn:aws:resource-groups:us-east-1:1:group/x"}},
		"Block": {"EKS's capacity blocks aim at one, too", []inventory.NodeGroup{managed("AL2023_x86_64_NVIDIA", "1.33.0-20260114", func(g *inventory.NodeGroup) {
			g.Managed.CapacityType, g.LaunchTemplate.CapacityReservation = "CAPACITY_BLOCK", "cr-1"
		})}, []awsv1.CapacityReservationSelectorTerm{{ID: "cr-1"}}, []string{"reserved"}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			target := translated(t, tc.groups...)
			if diff := cmp.Diff(tc.want, target.NodeClass.Spec.CapacityReservationSelectorTerms); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.capacity, requirement(target, karpv1.CapacityTypeLabelKey)); diff != "" {
				t.Errorf("%s: capacity types: -want +got\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.listed, fields(target)); diff != "" {
				t.Errorf("%s: listed: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func TestWindows(t *testing.T) {
	cases := map[string]struct {
		reason string
		group  inventory.NodeGroup
		family string
	}{
		"Managed2019": {"EKS's AMI type has the year", managed("WINDOWS_FULL_2019_x86_64", "1.33-2026.01.14"), awsv1.AMIFamilyWindows2019},
		"Managed2025": {"EKS's AMI type has the year", managed("WINDOWS_CORE_2025_x86_64", "1.33-2026.01.14"), awsv1.AMIFamilyWindows2025},
		"Own2019":     {"so has the image's name", plain(image("Windows_Server-2019-English-Core-EKS_Optimized-1.33")), awsv1.AMIFamilyWindows2019},
		"Own2022":     {"so has the image's name", plain(image(winImage)), awsv1.AMIFamilyWindows2022},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			target := translated(t, tc.group)
			if got := ptr.Deref(target.NodeClass.Spec.AMIFamily, ""); got != tc.family {
				t.Errorf("%s: family is %s, want %s", tc.reason, got, tc.family)
			}
			if diff := cmp.Diff([]string{"windows"}, requirement(target, corev1.LabelOSStable)); diff != "" {
				t.Errorf("the system: -want +got\n%s", diff)
			}
		})
	}
	disk := translated(t, managed("WINDOWS_CORE_2022_x86_64", "1.33-2026.01.14", func(g *inventory.NodeGroup) { g.Managed.DiskSizeGiB = 80 }))
	if got := ptr.Deref(disk.NodeClass.Spec.BlockDeviceMappings[0].DeviceName, ""); got != "/dev/sda1" {
		t.Errorf("the disk of a Windows node is %s, want /dev/sda1", got)
	}
}
