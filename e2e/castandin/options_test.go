package castandin

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseOptions(t *testing.T) {
	cases := map[string]struct {
		reason      string
		args        []string
		check       func(Options) any
		want        any
		wantIgnored []string
		wantErr     bool
	}{
		"Defaults": {
			reason: "Without flags the stand-in scans every ten seconds, as upstream does.",
			check:  func(o Options) any { return []any{o.ScanInterval, o.RefreshInterval, o.LeaseName, o.LeaderElect} },
			want:   []any{10 * time.Second, time.Minute, "cluster-autoscaler", true},
		},
		"RealCommandLine": {
			reason: "A command line as found in the field is taken whole; what means nothing here is named.",
			args: []string{"--v=4", "--stderrthreshold", "info", "--cloud-provider=aws", "--expander=least-waste",
				"--node-group-auto-discovery=asg:tag=k8s.io/cluster-autoscaler/enabled,k8s.io/cluster-autoscaler/harbor", "--scale-down-unneeded-time=2m"},
			check:       func(o Options) any { return []any{o.AutoDiscovery, o.UnneededTime} },
			want:        []any{[]string{"asg:tag=k8s.io/cluster-autoscaler/enabled,k8s.io/cluster-autoscaler/harbor"}, 2 * time.Minute},
			wantIgnored: []string{"--v=4", "--stderrthreshold", "info", "--cloud-provider=aws", "--expander=least-waste"},
		},
		"SeparateValueAndOneDash": {
			reason: "Values may follow as arguments of their own, and a single dash is enough.",
			args:   []string{"-namespace", "ops", "--leader-elect=false", "--nodes", "1:5:general"},
			check:  func(o Options) any { return []any{o.Namespace, o.LeaderElect, o.Nodes} },
			want:   []any{"ops", false, []string{"1:5:general"}},
		},
		"BadNodes":     {reason: "A group without bounds is an error.", args: []string{"--nodes=general"}, wantErr: true},
		"BadBounds":    {reason: "A minimum above the maximum is an error.", args: []string{"--nodes=5:1:general"}, wantErr: true},
		"BadDiscovery": {reason: "Only Auto Scaling groups by tag can be discovered.", args: []string{"--node-group-auto-discovery=mig:namePrefix=x"}, wantErr: true},
		"EmptyTag":     {reason: "A tag needs a key.", args: []string{"--node-group-auto-discovery=asg:tag==v"}, wantErr: true},
		"BadDuration":  {reason: "A value that cannot be read is an error.", args: []string{"--scan-interval=soon"}, wantErr: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			opts, ignored, err := ParseOptions(tc.args)
			if (err != nil) != tc.wantErr {
				t.Fatalf("%s\nParseOptions() error = %v, want an error: %t", tc.reason, err, tc.wantErr)
			}
			if tc.wantErr {
				return
			}
			if diff := cmp.Diff(tc.want, tc.check(opts)); diff != "" {
				t.Errorf("%s\n-want +got:\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.wantIgnored, ignored); diff != "" {
				t.Errorf("%s\nignored, -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestChoose(t *testing.T) {
	tagged := func(name string, tags map[string]string) Group { return Group{Name: name, Min: 1, Max: 9, Tags: tags} }
	all := []Group{
		tagged("zeta", map[string]string{"enabled": "false", "owner": "a"}),
		tagged("alpha", map[string]string{"enabled": "true", "owner": "b"}),
		tagged("plain", nil),
	}
	cases := map[string]struct {
		reason string
		opts   Options
		want   map[string][2]int // min and max by name
	}{
		"KeyPresence": {
			reason: "Without a value the key's presence is enough, even with the value false.",
			opts:   Options{AutoDiscovery: []string{"asg:tag=enabled"}},
			want:   map[string][2]int{"alpha": {1, 9}, "zeta": {1, 9}},
		},
		"Value": {
			reason: "A value in the flag must match.",
			opts:   Options{AutoDiscovery: []string{"asg:tag=enabled,owner=b"}},
			want:   map[string][2]int{"alpha": {1, 9}},
		},
		"MissingKey": {
			reason: "One key of several missing ends discovery.",
			opts:   Options{AutoDiscovery: []string{"asg:tag=enabled,other"}},
			want:   map[string][2]int{},
		},
		"Static": {
			reason: "A named group needs no tag and takes its bounds from the flag.",
			opts:   Options{Nodes: []string{"2:20:plain"}, AutoDiscovery: []string{"asg:tag=owner=a"}},
			want:   map[string][2]int{"plain": {2, 20}, "zeta": {1, 9}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			g, err := newGroups(tc.opts)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string][2]int{}
			for _, group := range g.choose(all) {
				got[group.Name] = [2]int{group.Min, group.Max}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\n-want +got:\n%s", tc.reason, diff)
			}
		})
	}
}
