package controllers

import (
	"encoding/json"
	"os"
	"sync"
	"testing"
)

// crashReport is bin/crash-report.json: how much was tried, and what came of it.
type crashReport struct {
	// CrashPoints are the distinct moments at which a process was ended, before and after every write of every course.
	CrashPoints int `json:"crashPoints"`
	// Pairs of moments, the second one in the process that came after the first.
	Pairs int `json:"pairs"`
	// LostReplies are effects that were made and whose answers were lost.
	LostReplies int `json:"lostReplies"`
	// RollbackPoints are the moments at which a rollback was begun.
	RollbackPoints int `json:"rollbackPoints"`
	// Stale are the trials whose reads, or whose whole process, lagged behind.
	Stale int `json:"stale"`
	// Others are API errors, pauses and deletions.
	Others int `json:"others"`
	// Wrong is how many trials ended otherwise than the uninterrupted run, or broke a promise on the way.
	Wrong int `json:"wrong"`
	// Effects is how many effects a run that was ended once made, on average; EffectsUninterrupted how many one that was not.
	Effects              int `json:"effects"`
	EffectsUninterrupted int `json:"effectsUninterrupted"`

	mu      sync.Mutex
	single  int // runs that Effects is the average of
	effects int
}

// count adds a trial that ended.
func (r *crashReport) count(x trial, effects int, wrong bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if counter := x.counts(r); counter != nil {
		*counter++
	}
	if wrong {
		r.Wrong++
	}
	if x.counts(r) == &r.CrashPoints {
		r.single++
		r.effects += effects
		r.Effects = (r.effects + r.single - 1) / r.single
	}
}

// save writes the report to the file that CRASH_REPORT names, if it names one.
func (r *crashReport) save(t *testing.T) {
	t.Helper()
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", b)
	path := os.Getenv("CRASH_REPORT")
	if path == "" {
		return
	}
	if err := os.WriteFile(path, append(b, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}
