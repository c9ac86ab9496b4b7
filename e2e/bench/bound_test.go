package bench

import (
	"testing"
	"time"
)

func TestBounds(t *testing.T) {
	cases := map[string]struct {
		reason string
		loads  []Load
		bound  time.Duration
		floor  time.Duration
	}{
		"Nothing":  {reason: "Nothing to move takes no time."},
		"NoBudget": {reason: "All pods at once: a boot and a start.", loads: []Load{{Pods: 4}}, bound: 41 * time.Second, floor: 40 * time.Second},
		"OneByOne": {reason: "A start for each pod.", loads: []Load{{Pods: 6, AtOnce: 1}}, bound: 91 * time.Second, floor: 60 * time.Second},
		"Uneven":   {reason: "Ten in threes are four rounds.", loads: []Load{{Pods: 10, AtOnce: 3}}, bound: 71 * time.Second, floor: 100 * time.Second},
		"Together": {reason: "Workloads move side by side: the longest counts, and every pod lacks.", loads: []Load{{Pods: 10, AtOnce: 3}, {Pods: 2, AtOnce: 1}, {Pods: 3}}, bound: 71 * time.Second, floor: 150 * time.Second},
		"Generous": {reason: "A budget larger than the workload is none.", loads: []Load{{Pods: 2, AtOnce: 5}}, bound: 41 * time.Second, floor: 20 * time.Second},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := lowerBound(31*time.Second, 10*time.Second, tc.loads); got != tc.bound {
				t.Errorf("%s\nlowerBound() = %s, want %s", tc.reason, got, tc.bound)
			}
			if got := unavailableFloor(10*time.Second, tc.loads); got != tc.floor {
				t.Errorf("%s\nunavailableFloor() = %s, want %s", tc.reason, got, tc.floor)
			}
		})
	}
}
