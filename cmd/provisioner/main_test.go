package main

import (
	"runtime/debug"
	"testing"
)

func TestVersion(t *testing.T) {
	cases := map[string]struct {
		reason string
		info   *debug.BuildInfo
		ok     bool
		want   string
	}{
		"Modules": {
			reason: "castoff's own version, and those of the two Karpenter modules among all others",
			info: &debug.BuildInfo{
				Main: debug.Module{Version: "v0.1.0"},
				Deps: []*debug.Module{
					{Path: "github.com/aws/karpenter-provider-aws", Version: "v1.14.1"}, {Path: "k8s.io/api", Version: "v0.37.2"}, {Path: "sigs.k8s.io/karpenter", Version: "v1.14.0"},
				},
			},
			ok:   true,
			want: "provisioner v0.1.0\ngithub.com/aws/karpenter-provider-aws v1.14.1\nsigs.k8s.io/karpenter v1.14.0",
		},
		"Unknown": {reason: "a binary without build information must not panic", want: "provisioner (built without module information)"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := version(tc.info, tc.ok); got != tc.want {
				t.Errorf("%s: got %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}

func TestVersionAsked(t *testing.T) {
	cases := map[string]struct {
		reason string
		args   []string
		want   bool
	}{
		"Asked":       {reason: "the one flag of our own", args: []string{"--version"}, want: true},
		"OneDash":     {reason: "flags of Go take one dash too", args: []string{"-version"}, want: true},
		"None":        {reason: "no flag starts the engine"},
		"AmongOthers": {reason: "Karpenter's flags go to Karpenter", args: []string{"--log-level=debug", "--version"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := versionAsked(tc.args); got != tc.want {
				t.Errorf("%s: got %t, want %t", tc.reason, got, tc.want)
			}
		})
	}
}
