package plan

import (
	"fmt"
	"math/rand"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
)

// worlds are how many different clusters the way back is walked in, from every point of the way there.
const worlds = 4

// shortSoak is what the walks soak: a few looks.
const shortSoak = 12

// forwardSteps counts the looks until the migration of that world is completed.
func forwardSteps(t *testing.T, seed int64) int {
	k := aWalk(t, seed, aMigration().soak(shortSoak), aVariedWorld(rand.New(rand.NewSource(seed))))
	return len(k.completes().said)
}

// TestFromEveryPoint: from each point of a migration every end is reached, and is what it should be.
func TestFromEveryPoint(t *testing.T) {
	ends := map[string]func(*walk){
		"Deleted": func(k *walk) {
			k.m.DeletionTimestamp = &metav1.Time{Time: k.now}
			k.rests(v1alpha1.PhasePaused)
			if wrong := k.notSettled(); len(wrong) > 0 {
				k.fatal("the Migration may go, and yet: %v", wrong)
			}
		},
		"SettleAndOn":   func(k *walk) { k.settles().completes() },
		"RollBackAndOn": func(k *walk) { k.rollsBack().completes() },
		"SettleAndBack": func(k *walk) { k.settles().rollsBack() },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			for seed := range int64(worlds) {
				for point := range forwardSteps(t, seed) + 1 {
					k := aWalk(t, seed, aMigration().soak(shortSoak), aVariedWorld(rand.New(rand.NewSource(seed))))
					k.said = append(k.said, fmt.Sprintf("world %d, after %d looks", seed, point))
					end(k.forward().steps(point))
				}
			}
		})
	}
}

// TestFromEveryPointOfTheWayBack: a way back that is broken off at any point, and goes on, or forward, or rests.
func TestFromEveryPointOfTheWayBack(t *testing.T) {
	ends := map[string]func(*walk){
		"Forward": func(k *walk) { k.completes() },
		"Settle":  func(k *walk) { k.settles() },
		"There":   func(k *walk) { k.settles().rollsBack() },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			for seed := range int64(worlds) {
				from := forwardSteps(t, seed) * (2 + int(seed)) / (2 + worlds)
				there := aWalk(t, seed, aMigration().soak(shortSoak), aVariedWorld(rand.New(rand.NewSource(seed)))).steps(from)
				back := len(there.rollsBack().said) - from
				for point := range back + 1 {
					k := aWalk(t, seed, aMigration().soak(shortSoak), aVariedWorld(rand.New(rand.NewSource(seed))))
					k.said = append(k.said, fmt.Sprintf("world %d, after %d looks forward and %d back", seed, from, point))
					end(k.steps(from).back().steps(point))
				}
			}
		})
	}
}

// TestFlips: whoever changes their mind every few looks, in a world that loses calls and replies and whose reads lag, ends where
// they want to in the end.
func TestFlips(t *testing.T) {
	for seed := range int64(300) {
		r := rand.New(rand.NewSource(seed))
		k := aWalk(t, seed, aMigration().soak(shortSoak), aVariedWorld(r))
		if seed%2 == 0 {
			k.faulty()
		}
		k.said = append(k.said, fmt.Sprintf("world %d", seed))
		for range 2 + r.Intn(12) {
			direction := []func() *walk{k.forward, k.forward, k.forward, k.settle, k.back}[r.Intn(5)]
			direction().steps(1 + r.Intn(25))
		}
		switch r.Intn(3) {
		case 0:
			k.completes()
		case 1:
			k.settles()
		default:
			k.rollsBack()
		}
	}
}
