package inventory

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestMissingENIConfigs(t *testing.T) {
	custom := func(label string, names ...string) PodNetwork {
		return PodNetwork{CustomNetworking: true, ENIConfigLabel: label, ENIConfigs: names}
	}
	zones := []string{"us-east-1a", "us-east-1b"}
	cases := map[string]struct {
		reason  string
		network PodNetwork
		labels  map[string]string
		want    []string
	}{
		"Default":       {"without custom networking nobody needs one", PodNetwork{ENIConfigLabel: "topology.kubernetes.io/zone"}, nil, nil},
		"AllZones":      {"one for each zone, and one that nobody asks for", custom("topology.kubernetes.io/zone", "us-east-1b", "us-east-1a", "us-east-1f"), nil, nil},
		"ZoneWithout":   {"pods there would have no address", custom("topology.kubernetes.io/zone", "us-east-1a"), nil, []string{"us-east-1b"}},
		"OldZoneLabel":  {"the label has an older name", custom("failure-domain.beta.kubernetes.io/zone", "us-east-1a"), nil, []string{"us-east-1b"}},
		"None":          {"none at all", custom("topology.kubernetes.io/zone"), nil, zones},
		"ByLabel":       {"a label of the pool's names one for all zones", custom(DefaultENIConfigLabel, "pods"), map[string]string{DefaultENIConfigLabel: "pods"}, nil},
		"LabelledAmiss": {"and that is not there", custom(DefaultENIConfigLabel, "default"), map[string]string{DefaultENIConfigLabel: "pods"}, []string{"pods"}},
		"NoLabel":       {"nodes that name none get the default one", custom(DefaultENIConfigLabel, "default"), nil, nil},
		"NoDefault":     {"which is not there: nodes were annotated by hand", custom("example.com/pods", "us-east-1a", "us-east-1b"), map[string]string{"other": "x"}, []string{"default"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.network.MissingENIConfigs(tc.labels, zones), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
	if zones[0] != "us-east-1a" || zones[1] != "us-east-1b" {
		t.Error("the caller's zones were written to")
	}
}

func TestPods(t *testing.T) {
	large := InstanceType{Interfaces: 3, AddressesPerInterface: 10}
	cases := map[string]struct {
		reason   string
		in       InstanceType
		reserved int64
		want     int64
	}{
		"Large":       {"EKS's own number for m5.large", large, 0, 29},
		"Custom":      {"and with custom networking", large, 1, 20},
		"AllReserved": {"the host's own pods are left", large, 5, 2},
		"Unknown":     {"nothing is known of the type, so nothing is said", InstanceType{}, 0, 0},
		"Half":        {"half of it is no more", InstanceType{Interfaces: 3}, 0, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.in.Pods(tc.reserved); got != tc.want {
				t.Errorf("%s: %d, want %d", tc.reason, got, tc.want)
			}
		})
	}
	if (PodNetwork{}).ReservedENIs() != 0 || (PodNetwork{CustomNetworking: true}).ReservedENIs() != 1 {
		t.Error("custom networking, and nothing else, reserves an interface")
	}
}
