package nodegroup

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/google/go-cmp/cmp"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

func TestLaunches(t *testing.T) {
	g := inventory.NodeGroup{
		LaunchTemplate: inventory.LaunchTemplate{InstanceType: "m5.large"},
		Managed:        &inventory.ManagedNodeGroup{InstanceTypes: []string{"m6i.large", "m5.large", ""}},
		MixedInstances: &inventory.MixedInstances{Overrides: []inventory.Override{{InstanceType: "c5.large"}, {Requirements: true, Types: []string{"a1.large", "c5.large"}}}},
	}
	if diff := cmp.Diff([]string{"a1.large", "c5.large", "m5.large", "m6i.large"}, launches(g)); diff != "" {
		t.Errorf("each once, whoever names it: -want +got\n%s", diff)
	}
	if got := launches(inventory.NodeGroup{}); len(got) != 0 {
		t.Errorf("a group without a template launches %v, want nothing", got)
	}
}

func TestUserDataIsUnpacked(t *testing.T) {
	compressed := func(s string) string {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		if _, err := w.Write([]byte(s)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	bomb := compressed(strings.Repeat("x", unpackedLimit+1))
	cases := map[string]struct {
		reason, in, want string
	}{
		"text":       {"as it is", "#!/bin/sh", "#!/bin/sh"},
		"compressed": {"cloud-init takes it, so does castoff", compressed("#!/bin/sh\n"), "#!/bin/sh\n"},
		"cut":        {"half an archive is no text, and is reported so", compressed("#!/bin/sh\n")[:12], compressed("#!/bin/sh\n")[:12]},
		"bomb":       {"nobody's script is that large", bomb, bomb},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, digest := userData(aws.String(base64.StdEncoding.EncodeToString([]byte(tc.in))))
			if got != tc.want || digest == "" {
				t.Errorf("%s: got %d bytes, want %d; digest %q", tc.reason, len(got), len(tc.want), digest)
			}
		})
	}
}

// The catalogue of the simulator is EC2's own.
func TestSizesOfAGroup(t *testing.T) {
	l := newLab(t)
	l.group(t, "memory", nil)
	got := l.list(t)["memory"]
	want := []inventory.InstanceType{{Name: "m5.large", Architecture: "amd64", VCPUs: 2, MemoryMiB: 8192, NetworkCards: 1, BandwidthMbps: 750, Interfaces: 3, AddressesPerInterface: 10, MaxPods: 29}}
	if diff := cmp.Diff(want, got.Types); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
