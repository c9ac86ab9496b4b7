package inventory

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/castoff-sh/castoff/api/v1alpha1"
)

// FindingGroup is what one mend takes away: the findings of one check about one workload, or one object, of a pool.
type FindingGroup struct {
	// Finding is the first of them.
	Finding
	// More is how many others say the same of other objects of the workload.
	More int `json:"more,omitempty"`
}

// What names the object, and counts the others.
func (g FindingGroup) What() string {
	if g.More == 0 {
		return g.Object
	}
	return fmt.Sprintf("%s and %d more", g.Object, g.More)
}

// Subject is what the group is about: the workload, or else the object.
func (f Finding) Subject() string { return cmp.Or(f.Workload, f.Object) }

// GroupFindings groups in the order of severity (what blocks, what is accepted, what warns), then of the pool, the cluster's own
// first, then of the workload, and then as the checks came.
func GroupFindings(findings []Finding) []FindingGroup {
	type key struct{ check, pool, subject, reason, message string }
	place := map[key]int{}
	var out []FindingGroup
	for _, f := range findings {
		k := key{check: f.Check, pool: f.Pool, subject: f.Subject(), reason: f.AcceptedReason}
		if f.Workload == "" {
			k.message = f.Message // one object may have several things wrong
		}
		if i, known := place[k]; known {
			out[i].More++
			continue
		}
		place[k] = len(out)
		out = append(out, FindingGroup{Finding: f})
	}
	slices.SortStableFunc(out, func(a, b FindingGroup) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Subject(), b.Subject()))
	})
	return out
}

func (f Finding) rank() int {
	switch {
	case f.Blocks():
		return 0
	case f.Accepted:
		return 1
	}
	return 2
}

// Task is one kind of thing to mend: everything that one check blocks.
type Task struct {
	// First is the finding to begin with.
	First FindingGroup
	// Objects is how many things are to be mended, workloads counted once.
	Objects int
	// Pools are those that it holds, in order; none says that it holds all.
	Pools []string
}

// Holds says what waits for the task.
func (t Task) Holds() string {
	switch len(t.Pools) {
	case 0:
		return "every pool"
	case 1:
		return "pool " + t.Pools[0]
	case 2, 3:
		return "pools " + strings.Join(t.Pools, ", ")
	}
	return fmt.Sprintf("%d pools", len(t.Pools))
}

// Tasks are what to do, in the order in which it helps most: what holds every pool, then what holds most of them; of what holds as
// many, the least work first.
func Tasks(findings []Finding) []Task {
	place := map[string]int{}
	var out []Task
	for _, g := range GroupFindings(findings) {
		if !g.Blocks() {
			continue
		}
		i, known := place[g.Check]
		if !known {
			i = len(out)
			place[g.Check] = i
			out = append(out, Task{First: g})
		}
		t := &out[i]
		t.Objects++
		// A group of the whole cluster comes before those of pools.
		if t.First.Pool != "" && !slices.Contains(t.Pools, g.Pool) {
			t.Pools = append(t.Pools, g.Pool)
		}
	}
	slices.SortStableFunc(out, func(a, b Task) int {
		return cmp.Or(cmp.Compare(b.reach(), a.reach()), cmp.Compare(a.Objects, b.Objects))
	})
	return out
}

// reach is how many pools the task holds.
func (t Task) reach() int {
	if len(t.Pools) == 0 {
		return math.MaxInt
	}
	return len(t.Pools)
}

// Tally counts findings by what they mean.
type Tally struct{ Blocks, Accepted, Warns int }

// TallyOf counts the findings.
func TallyOf(findings []Finding) Tally {
	var t Tally
	for _, f := range findings {
		switch {
		case f.Blocks():
			t.Blocks++
		case f.Accepted:
			t.Accepted++
		case f.Severity == v1alpha1.SeverityWarn:
			t.Warns++
		}
	}
	return t
}

// String is the tally for people.
func (t Tally) String() string {
	return fmt.Sprintf("%d block, %d accepted, %d worth knowing", t.Blocks, t.Accepted, t.Warns)
}
