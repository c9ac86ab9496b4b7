package cost

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// situation is a cluster of that many nodes of that age, with a pool that Karpenter can serve.
func situation(nodes int, age time.Duration, change float64) Situation {
	s := Situation{
		Now: today, Pools: []inventory.Pool{{Name: "general"}}, Targets: map[string]inventory.Target{"general": {Pool: "general"}},
		Total: &Estimate{Today: Side{OnDemand: Bill{nodes, 1}}, After: Side{OnDemand: Bill{nodes, 1 + change}}},
	}
	for range nodes {
		s.Nodes = append(s.Nodes, inventory.Node{Created: today.Add(-age)})
	}
	return s
}

func TestJudge(t *testing.T) {
	const old, young = 30 * 24 * time.Hour, time.Hour
	block := inventory.Finding{Check: "BarePod", Object: "pod/shop/debug", Severity: v1alpha1.SeverityBlock}
	accepted := block
	accepted.Accepted = true
	with := func(s Situation, change func(*Situation)) Situation { change(&s); return s }
	cases := map[string]struct {
		reason    string
		situation Situation
		want      Advice
		because   []string // part of the reasons, in their order
	}{
		"Saves": {
			reason: "many nodes, a fifth less", situation: situation(40, old, -0.2), want: Migrate,
			because: []string{"no check blocks", "20 % less than today"},
		},
		"FewStableNodesThatFit": {
			reason: "nothing scales and nothing is won", situation: situation(4, old, -0.05), want: Stay,
			because: []string{"4 nodes", "5 % less than today"},
		},
		"FewStableNodesThatDoNotFit": {
			reason: "few, but half of them are for nothing", situation: situation(4, old, -0.5), want: Migrate,
			because: []string{"no check blocks", "50 % less than today"},
		},
		"FewButYoung": {
			reason: "nodes come and go: that is what an autoscaler is for", situation: situation(4, young, 0), want: Migrate,
			because: []string{"no check blocks", "as much as today"},
		},
		"FewWithoutPrices": {
			reason: "whether they fit is not known, and not assumed", want: Migrate,
			situation: with(situation(4, old, 0), func(s *Situation) { s.Total = nil }),
			because:   []string{"no check blocks", "cost has no say"},
		},
		"FewWithATypeWithoutAPrice": {
			reason: "half a bill proves nothing", want: Migrate,
			situation: with(situation(4, old, 0), func(s *Situation) { s.Total.Unpriced = []string{"x"} }),
			because:   []string{"no check blocks", "cost has no say"},
		},
		"Dearer": {
			reason: "the exact types as they are would cost a third more", situation: situation(40, old, 0.33), want: MigrateLater,
			because: []string{"33 % more than today"},
		},
		"Unplaced": {
			reason: "a pod that would wait for ever is not worth any saving", want: MigrateLater,
			situation: with(situation(40, old, -0.2), func(s *Situation) { s.Total.Unplaced = 2 }),
			because:   []string{"would find no node (2 of them)"},
		},
		"AtZero": {
			reason: "pools that are scaled to 0 have nothing to save yet", want: Migrate,
			situation: with(situation(0, old, 0), func(s *Situation) { s.Total = &Estimate{} }),
			because:   []string{"no check blocks", "no nodes today"},
		},
		"Blocked": {
			reason: "first what blocks", want: MigrateLater,
			situation: with(situation(40, old, -0.2), func(s *Situation) { s.Findings = []inventory.Finding{block} }),
			because:   []string{"1 preflight finding blocks: BarePod pod/shop/debug.", "20 % less"},
		},
		"BlockedOften": {
			reason: "three are named, the rest counted", want: MigrateLater,
			situation: with(situation(40, old, -0.2), func(s *Situation) { s.Findings = []inventory.Finding{block, block, block, block, block} }),
			because:   []string{"5 preflight findings block: BarePod pod/shop/debug, BarePod pod/shop/debug, BarePod pod/shop/debug and 2 more.", "20 % less"},
		},
		"BlockedAndSmall": {
			reason: "before work is put into what blocks, staying is worth a thought", want: MigrateLater,
			situation: with(situation(4, old, 0), func(s *Situation) { s.Findings = []inventory.Finding{block} }),
			because:   []string{"1 preflight finding blocks", "worth a thought", "4 nodes", "as much as today"},
		},
		"Accepted": {
			reason: "a risk that is accepted does not block", want: Migrate,
			situation: with(situation(40, old, -0.2), func(s *Situation) { s.Findings = []inventory.Finding{accepted} }),
			because:   []string{"no check blocks", "20 % less"},
		},
		"OneUnserved": {
			reason: "one pool cannot go", want: MigrateLater,
			situation: with(situation(40, old, -0.2), func(s *Situation) { s.Pools = append(s.Pools, inventory.Pool{Name: "outpost"}) }),
			because:   []string{"cannot serve outpost", "20 % less"},
		},
		"NoneServed": {
			reason: "no pool can go", want: Stay,
			situation: with(situation(40, old, -0.2), func(s *Situation) { s.Targets = nil }),
			because:   []string{"none of the pools: general."},
		},
		"NoPools": {
			reason: "there is nothing to migrate", situation: Situation{Now: today}, want: Stay,
			because: []string{"No node group is left"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := Judge(tc.situation)
			if got.Advice != tc.want || len(got.Reasons) != len(tc.because) {
				t.Fatalf("%s: want %s for %d reasons, got %+v", tc.reason, tc.want, len(tc.because), got)
			}
			for i, part := range tc.because {
				if !strings.Contains(got.Reasons[i], part) {
					t.Errorf("%s: want %q in %q", tc.reason, part, got.Reasons[i])
				}
			}
		})
	}
}

func TestNotOnAWS(t *testing.T) {
	cases := map[string]struct {
		reason string
		ids    []string
		want   bool
		parts  []string
	}{
		"AWS":       {reason: "EC2", ids: []string{"aws:///us-east-1a/i-1"}},
		"Fargate":   {reason: "Fargate is AWS", ids: []string{"aws:///us-east-1a/fargate-ip-10-0-0-1"}},
		"None":      {reason: "nobody knows: AWS is asked"},
		"NoID":      {reason: "a node that no cloud controller has seen yet", ids: []string{""}},
		"Hybrid":    {reason: "an EKS cluster with nodes of both kinds is on AWS", ids: []string{"eks-hybrid:///us-west-2/prod/mi-1", "aws:///us-east-1a/i-1"}},
		"Azure":     {reason: "AKS", ids: []string{"azure:///subscriptions/1"}, want: true, parts: []string{"run on Azure", "Azure/karpenter-provider-azure", "no Windows nodes"}},
		"Google":    {reason: "GKE", ids: []string{"", "gce://p/z/n"}, want: true, parts: []string{"Google Cloud", "karpenter-provider-gcp", "below version 1.0"}},
		"Alibaba":   {reason: "ACK", ids: []string{"alicloud://cn-hangzhou.i-1"}, want: true, parts: []string{"Alibaba Cloud", "karpenter-provider-alibabacloud"}},
		"Huawei":    {reason: "CCE", ids: []string{"huaweicloud://1"}, want: true, parts: []string{"Huawei Cloud", "no spot"}},
		"Oracle":    {reason: "an ID without a scheme", ids: []string{"ocid1.instance.oc1"}, want: true, parts: []string{"Oracle Cloud", "Karpenter Provider for OCI", "young"}},
		"OnlyOther": {reason: "a cloud that nobody has heard of is named by its scheme", ids: []string{"nimbus://1"}, want: true, parts: []string{"run on nimbus", "knows of no Karpenter provider"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, ok := NotOnAWS(tc.ids)
			if ok != tc.want {
				t.Fatalf("%s: %v %+v", tc.reason, ok, got)
			}
			if ok && got.Advice != Stay {
				t.Errorf("%s: advice %s", tc.reason, got.Advice)
			}
			text := strings.Join(got.Reasons, " ")
			for _, part := range tc.parts {
				if !strings.Contains(text, part) {
					t.Errorf("%s: want %q in %q", tc.reason, part, text)
				}
			}
		})
	}
}

// Every cloud that is listed is told of in whole sentences.
func TestCloudsAreTold(t *testing.T) {
	for scheme, c := range clouds {
		if c.name == "" || (c.provider == "") != (c.lacks == "") {
			t.Errorf("%s: %+v", scheme, c)
		}
		got, ok := NotOnAWS([]string{scheme + "://1"})
		if diff := cmp.Diff(2, len(got.Reasons)); !ok || diff != "" {
			t.Errorf("%s: %s", scheme, diff)
		}
	}
}
