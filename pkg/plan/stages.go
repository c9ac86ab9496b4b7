package plan

import (
	"fmt"
	"slices"

	"github.com/castoff-sh/castoff/api/v1alpha1"
)

// wave is the pools that change hands together.
type wave struct {
	name  string
	pools []pool
}

// wavesOf are the recorded waves; without a record, all pools are one. Where the user has said since that the rest is to change hands at
// once, what has not yet is one wave.
func wavesOf(l look) []wave {
	var out []wave
	var last wave
	for _, names := range l.Waves {
		w := wave{}
		for _, p := range l.pools {
			if slices.Contains(names, p.Name) {
				w.pools = append(w.pools, p)
			}
		}
		if one := l.only(w); l.m.Spec.Strategy.Waves == v1alpha1.WavesSingle && !handed(one) {
			last.pools = append(last.pools, w.pools...)
		} else if len(w.pools) > 0 {
			out = append(out, w)
		}
	}
	for _, p := range l.pools { // a pool that no record has
		if !slices.ContainsFunc(l.Waves, func(names []string) bool { return slices.Contains(names, p.Name) }) {
			last.pools = append(last.pools, p)
		}
	}
	if len(last.pools) > 0 {
		out = append(out, last)
	}
	for i := range out {
		out[i].name = fmt.Sprintf("wave-%d", i+1)
	}
	return out
}

// handed says that the pools changed hands or are about to, by what the last look remembered.
func handed(l look) bool {
	led := ledger(l.m.Status.Operations)
	return takenOver(&led, l)
}

// only is the look at one wave: all that is asked of the pools is asked of its own.
func (l look) only(w wave) look {
	l.pools, l.wave = w.pools, w.name
	return l
}

// betweenWaves says that some pools have changed hands, or are the next to, and that others are to follow.
func betweenWaves(l look) bool {
	return len(l.waves) > 1 && slices.ContainsFunc(l.waves, func(w wave) bool { return !handed(l.only(w)) })
}

// stage is one stage of the migration. A migration goes through them in their order.
type stage struct {
	name v1alpha1.Phase
	// rank tells which of two came further.
	rank int
	look look
	// reached says whether the world bears a mark of this stage.
	reached func(look) bool
	// next says what is left to do in it.
	next func(*ledger, look) outcome
}

// stagesOf a migration, in their order. The first that is not done acts; what it mends may lie behind the furthest one reached, which is the one that
// is shown. Waves that were taken over come first: no pool is drained while another that was taken over has no scaler.
func stagesOf(led *ledger, l look) []stage {
	out := []stage{
		{v1alpha1.PhaseAssessing, 0, l, func(look) bool { return true }, assessing},
		{v1alpha1.PhasePreparing, 1, l, preparingReached, preparing},
		{v1alpha1.PhaseInstalling, 2, l, installingReached, installing},
	}
	var rest []stage
	for i, w := range l.waves {
		one := l.only(w)
		handOver := stage{v1alpha1.PhaseHandingOver, 3 + 2*i, one, handingOverReached, handingOver}
		if takenOver(led, one) {
			out = append(out, handOver)
		} else {
			rest = append(rest, handOver)
		}
		rest = append(rest, stage{v1alpha1.PhaseShifting, 4 + 2*i, one, shiftingReached, shifting})
	}
	return append(append(out, rest...), stage{v1alpha1.PhaseCompleted, 3 + 2*len(l.waves), l, completedReached, completed})
}

// furthest returns the later of the stage that acts and the last one that the world bears a mark of.
func furthest(all []stage, acting int) v1alpha1.Phase {
	shown := all[acting]
	for _, s := range all {
		if s.rank > shown.rank && s.reached(s.look) {
			shown = s
		}
	}
	return shown.name
}
