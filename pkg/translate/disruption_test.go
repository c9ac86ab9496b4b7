package translate

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// scaled is the target of a group that a Cluster Autoscaler with these flags scales.
func scaled(t *testing.T, scaling *inventory.Scaling, change ...func(*inventory.NodeGroup)) inventory.Target {
	t.Helper()
	target, err := Pool(cluster, inventory.Pool{Name: "general", Scaling: scaling}, []inventory.NodeGroup{plain(change...)}, "role")
	if err != nil {
		t.Fatal(err)
	}
	validates(t, target)
	return target
}

func TestDisruption(t *testing.T) {
	const usual = "budgets:\n- nodes: 10%\nconsolidateAfter: 10m\nconsolidationPolicy: WhenEmptyOrUnderutilized\n"
	after := func(d string) string {
		return "budgets:\n- nodes: 10%\nconsolidateAfter: " + d + "\nconsolidationPolicy: WhenEmptyOrUnderutilized\n"
	}
	unneeded := func(value string) func(*inventory.NodeGroup) {
		return tagged(inventory.Tag{Key: tagOptions + "ScaleDownUnneededTime", Value: value})
	}
	cases := map[string]struct {
		reason string
		flags  map[string]string
		change []func(*inventory.NodeGroup)
		want   string
		listed []string
	}{
		"Silent":      {reason: "Cluster Autoscaler's defaults", want: usual},
		"OfItsOwn":    {reason: "how it runs itself ends with it", flags: map[string]string{"v": "4", "leader-elect": "true", "cloud-provider": "aws"}, want: usual},
		"Unneeded":    {reason: "how long a node may be unneeded", flags: map[string]string{flagUnneeded: "90s"}, want: after("90s")},
		"Hours":       {reason: "whole hours are written so", flags: map[string]string{flagUnneeded: "120m"}, want: after("2h")},
		"Fractions":   {reason: "a NodePool knows no milliseconds", flags: map[string]string{flagUnneeded: "1500ms"}, want: after("2s")},
		"Zero":        {reason: "at once", flags: map[string]string{flagUnneeded: "0s"}, want: after("0s")},
		"NoDuration":  {reason: "what is no duration is listed", flags: map[string]string{flagUnneeded: "soon"}, want: usual, listed: []string{flagUnneeded + " soon"}},
		"Negative":    {reason: "nor is this one", flags: map[string]string{flagUnneeded: "-1m"}, want: usual, listed: []string{flagUnneeded + " -1m"}},
		"Tag":         {reason: "the group's own time comes first", flags: map[string]string{flagUnneeded: "90s"}, change: []func(*inventory.NodeGroup){unneeded("5m")}, want: after("5m")},
		"NoScaleDown": {reason: "nothing goes, not even what is empty", flags: map[string]string{flagScaleDown: "false"}, want: "budgets:\n- nodes: 10%\nconsolidateAfter: Never\nconsolidationPolicy: WhenEmpty\n"},
		"Parallel": {
			reason: "each reason has its bound", flags: map[string]string{flagParallel: "20", flagDrained: "2"},
			want: "budgets:\n- nodes: \"20\"\n  reasons:\n  - Empty\n- nodes: \"2\"\n  reasons:\n  - Underutilized\n- nodes: 10%\n  reasons:\n  - Drifted\nconsolidateAfter: 10m\nconsolidationPolicy: WhenEmptyOrUnderutilized\n",
		},
		"OldName": {
			reason: "the older flag, and a number that is none", flags: map[string]string{flagEmptyBulk: "5", flagDrained: "many"},
			want:   "budgets:\n- nodes: \"5\"\n  reasons:\n  - Empty\n- nodes: 10%\n  reasons:\n  - Underutilized\n- nodes: 10%\n  reasons:\n  - Drifted\nconsolidateAfter: 10m\nconsolidationPolicy: WhenEmptyOrUnderutilized\n",
			listed: []string{"--" + flagDrained + "=many"},
		},
		"NoCounterpart": {
			reason: "all others are listed, known or not", flags: map[string]string{flagThreshold: "0.7", "max-nodes-total": "50", "brand-new": "x"}, want: usual,
			listed: []string{"Cluster Autoscaler --brand-new=x", "Cluster Autoscaler --max-nodes-total=50", "Cluster Autoscaler --" + flagThreshold + "=0.7"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			target := scaled(t, &inventory.Scaling{Flags: tc.flags}, tc.change...)
			if diff := cmp.Diff(tc.want, asYAML(t, target.NodePool.Spec.Disruption)); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.listed, fields(target)); diff != "" {
				t.Errorf("%s: listed: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

// Every piece of advice is for a flag that is not carried or Cluster Autoscaler's own.
func TestAdviceIsForFlagsThatAreListed(t *testing.T) {
	for flag := range advice {
		target := scaled(t, &inventory.Scaling{Flags: map[string]string{flag: "x"}})
		if diff := cmp.Diff([]string{"Cluster Autoscaler --" + flag + "=x"}, fields(target)); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
		if got := target.NotCarried[0].Do; got != advice[flag] {
			t.Errorf("--%s: advice is %q, want %q", flag, got, advice[flag])
		}
	}
}

func TestWeight(t *testing.T) {
	for in, want := range map[int32]*int32{0: nil, -3: nil, 1: ptr.To[int32](1), 50: ptr.To[int32](50), 1000: ptr.To[int32](100)} {
		if diff := cmp.Diff(want, scaled(t, &inventory.Scaling{Weight: in}).NodePool.Spec.Weight); diff != "" {
			t.Errorf("weight %d: -want +got\n%s", in, diff)
		}
	}
	if got := scaled(t, nil).NodePool.Spec.Weight; got != nil {
		t.Errorf("without Cluster Autoscaler the weight is %d, want none", *got)
	}
}
