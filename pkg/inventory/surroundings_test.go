package inventory

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestQuotaCode(t *testing.T) {
	cases := map[string]struct {
		reason string
		names  []string
		want   [2]string
	}{
		"Standard":   {"nearly everything that runs Kubernetes", []string{"m5.large", "c7g.xlarge", "r6a.large", "t3.medium", "i4i.large", "im4gn.large", "is4gen.large", "d3.xlarge", "z1d.large", "a1.large", "h1.2xlarge"}, [2]string{"L-1216C47A", "L-34B43A08"}},
		"Graphics":   {"G and VT share one, and gr6 is a G", []string{"g5.xlarge", "g4dn.xlarge", "gr6.4xlarge", "vt1.3xlarge"}, [2]string{"L-DB2E81BA", "L-3819A6DF"}},
		"OlderP":     {"P2 to P4", []string{"p3.2xlarge", "p4d.24xlarge"}, [2]string{"L-417A185B", "L-7212CCBC"}},
		"NewerP":     {"P5 has a spot quota of its own", []string{"p5.48xlarge", "p5en.48xlarge", "p6-b200.48xlarge"}, [2]string{"L-417A185B", "L-C4BD4855"}},
		"FPGA":       {"not to be mixed up with anything", []string{"f1.2xlarge", "f2.6xlarge"}, [2]string{"L-74FC7D96", "L-88CF9481"}},
		"Inferentia": {"three letters, not the i of standard", []string{"inf1.xlarge", "inf2.xlarge"}, [2]string{"L-1945791B", "L-B5D1601B"}},
		"Trainium":   {"three letters, not the t of standard", []string{"trn1.2xlarge"}, [2]string{"L-2C3B7624", "L-6B0D517C"}},
		"Habana":     {"two letters, not the d of standard", []string{"dl1.24xlarge"}, [2]string{"L-6E869C2A", "L-85EED4F7"}},
		"X":          {"memory", []string{"x1.16xlarge", "x2gd.medium", "x8g.large"}, [2]string{"L-7295265B", "L-E3A00192"}},
		"HighMemory": {"there is no spot of it", []string{"u-6tb1.metal", "u7i-12tb.224xlarge"}, [2]string{"L-43DA4232", ""}},
		"HPC":        {"three letters, not the h of standard", []string{"hpc7g.4xlarge"}, [2]string{"L-F7808C92", ""}},
		"Unknown":    {"nothing is counted that is not known to be counted", []string{"mac2.metal", "q9.large", "", "5x"}, [2]string{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			for _, n := range tc.names {
				if diff := cmp.Diff(tc.want, [2]string{QuotaCode(n, false), QuotaCode(n, true)}); diff != "" {
					t.Errorf("%s: %s: -want +got:\n%s", tc.reason, n, diff)
				}
			}
		})
	}
}

func TestSurroundingsLookAtThemselves(t *testing.T) {
	s := Surroundings{Quotas: []VCPUQuota{{Code: "L-1", Limit: 64}}, NotRead: []NotRead{{Action: "ec2:DescribeSubnets"}}}
	q, found := s.Quota("L-1")
	_, other := s.Quota("L-2")
	got := []any{q.Limit, found, other, s.Missed("ec2:DescribeSubnets"), s.Missed("ec2:DescribeVpcs"), Surroundings{}.Missed("")}
	if diff := cmp.Diff([]any{64.0, true, false, true, false, false}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
