package controllers

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// inWaves makes the two pools two waves: no workload joins them, and the groups stay known as the cluster's without the tags that
// Cluster Autoscaler finds them by.
func inWaves(w *world) {
	for _, g := range w.groups {
		g.Tags = append(slices.Clone(g.Tags), inventory.Tag{Key: "kubernetes.io/cluster/test", Value: "owned"})
	}
	w.history = nil // long ago
	w.record()
}

// showing is for how long a pool may be without a scaler on the way back from between two waves: Cluster Autoscaler is stopped until
// AWS shows the tags that it finds the groups by, which reads do late.
const showing = testLag + 12*time.Second

func patiently(trials []trial) []trial {
	for i := range trials {
		set := trials[i].set
		trials[i].set = func(w *world) {
			w.patience += showing
			if set != nil {
				set(w)
			}
		}
	}
	return trials
}

func TestWavesChangeHandsOneAfterTheOther(t *testing.T) {
	c := forward(t, testLag, inWaves)
	if wrong := rightEnd(c.end, c.end.migration()); len(wrong) > 0 {
		t.Errorf("the clean run ends wrong:\n%s", strings.Join(wrong, "\n"))
	}
	waves := c.end.migration().Status.Waves
	if len(waves) != 2 || waves[0].ServedTime == nil || waves[1].ReleasedTime == nil || !waves[0].ServedTime.Before(waves[1].ReleasedTime) {
		t.Errorf("want two waves, the second after the first: %+v", waves)
	}
	if c.end.calls["HideGroup"] != 1 || c.end.calls["Stop"] != 1 {
		t.Errorf("want the first wave let go by its tags, once, and the last by a stop: %d, %d", c.end.calls["HideGroup"], c.end.calls["Stop"])
	}
	kept := 0
	for _, at := range c.looks {
		if at.serves("batch") && at.scales("general") {
			kept++
		}
	}
	if kept == 0 {
		t.Error("Cluster Autoscaler never scaled the second wave while Karpenter served the first")
	}
}

// TestCrashInWaves is TestCrashEverywhere for pools that change hands one after the other.
func TestCrashInWaves(t *testing.T) {
	report := &crashReport{}
	c := forward(t, testLag, inWaves)
	back := backward(t, c.end)
	if diff := differences(back.portrait, c.start.portrait()); len(diff) > 0 {
		t.Errorf("the way back from the end does not lead to the beginning:\n%s", strings.Join(diff, "\n"))
	}
	for _, s := range []struct {
		kind   string
		trials []trial
	}{
		{"crash", once("forward", c)},
		{"crash on the way back", once("back", back)},
		{"crash twice", pairs("forward", c, 300)},
		{"reply lost", append(lostReplies("forward", c), lostReplies("back", back)...)},
		{"rollback", patiently(rollbacks(c, back))},
		{"turned in the middle of a look", patiently(turns(c, back))},
		{"pause", settledWaves(c)},
		{"pause flipped", patiently(flips("forward", c, c.portrait))},
		{"stale leader", staleLeaders("forward", c)},
		{"refused", refused(t, "forward", c)},
	} {
		sweep(t, report, s.kind, s.trials)
	}
}

// settledWaves rest wherever they are asked to: before the first change of hands, and only there, nothing is left of what was done.
func settledWaves(c course) []trial {
	trials := settled(c)
	for i, from := range c.points {
		if from.calls["HideGroup"] > 0 {
			trials[i].portrait = nil
		}
	}
	return trials
}

// TestWavesKnownBad: without the second look, at Cluster Autoscaler's own status, the world sees two scalers.
func TestWavesKnownBad(t *testing.T) {
	w := newWorld(t)
	inWaves(w)
	w.live()
	w.scaler.asks = w.now.Add(scalerAsks + 45*time.Second) // a while after its groups are hidden
	w.spoil = func(r *Reconciler) { r.Observer.Ports.Autoscalers = hasty{ports{w}} }
	apply(t, w)
	_ = w.drive(isCompleted, mostLooks) // it may never get there
	if !slices.ContainsFunc(w.broken, func(s string) bool { return strings.Contains(s, "served by Cluster Autoscaler and by Karpenter") }) {
		t.Errorf("who takes a group for let go when its tags are off has two scalers for a minute, and the world did not see it:\n%s", strings.Join(w.broken, "\n"))
	}
}

// hasty takes it that Cluster Autoscaler lists what the tags find now.
type hasty struct{ ports }

func (h hasty) Find(ctx context.Context) ([]inventory.Autoscaler, error) {
	all, err := h.ports.Find(ctx)
	for i := range all {
		all[i].Groups = slices.DeleteFunc(slices.Clone(all[i].Groups), func(asg string) bool {
			for _, g := range h.w.groups {
				if g.AutoScalingGroup == asg {
					return !all[i].Manages(*g)
				}
			}
			return true
		})
	}
	return all, err
}
