package preflight

import (
	"fmt"
	"strings"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// The bounds of the report, in bytes. A ConfigMap holds 1 MiB (Kubernetes, "ConfigMaps"), and nobody reads as much.
const (
	maxBlocks   = 256 << 10
	maxAccepted = 64 << 10
	maxWarnings = 128 << 10
	maxLine     = 2 << 10
	// maxTasks are said at the end: more than a handful is no first thing to do.
	maxTasks = 5
)

// Text is the report for people: what blocks, what is accepted, what is worth knowing, each by pool and by workload; and what to do
// first, at the end, where a terminal stops. It is shorter than 512 KiB, whatever was found.
func Text(findings []inventory.Finding) string {
	if len(findings) == 0 {
		return "No check blocks or warns.\n"
	}
	t := inventory.TallyOf(findings)
	groups := inventory.GroupFindings(findings)
	var b strings.Builder
	fmt.Fprintf(&b, "Preflight: %s.\n", t)
	section(&b, fmt.Sprintf("Blocks (%d)", t.Blocks), maxBlocks, groups, inventory.Finding.Blocks)
	section(&b, fmt.Sprintf("Accepted (%d)", t.Accepted), maxAccepted, groups, func(f inventory.Finding) bool { return f.Accepted })
	section(&b, fmt.Sprintf("Worth knowing (%d)", t.Warns), maxWarnings, groups, func(f inventory.Finding) bool { return !f.Accepted && !f.Blocks() })
	first(&b, inventory.Tasks(findings))
	return b.String()
}

// section lists the groups that are wanted, with the pool and the workload said once. Past its bound it only counts.
func section(b *strings.Builder, title string, bound int, groups []inventory.FindingGroup, want func(inventory.Finding) bool) {
	begin, left := b.Len(), 0
	pool, subject, none := "", "", true
	for _, g := range groups {
		switch {
		case !want(g.Finding):
			continue
		case b.Len()-begin > bound:
			left += 1 + g.More
			continue
		}
		if none {
			fmt.Fprintf(b, "\n%s\n", title)
		}
		if none || g.Pool != pool {
			fmt.Fprintf(b, "  %s\n", poolTitle(g.Pool))
			subject = ""
		}
		if g.Subject() != subject {
			fmt.Fprintf(b, "    %s\n", cut(g.Subject()))
		}
		none, pool, subject = false, g.Pool, g.Subject()
		entry(b, g)
	}
	if left > 0 {
		fmt.Fprintf(b, "  and %d more, which kubectl castoff plan -o yaml has all of\n", left)
	}
}

func poolTitle(pool string) string {
	if pool == "" {
		return "The cluster"
	}
	return "Pool " + pool
}

func entry(b *strings.Builder, g inventory.FindingGroup) {
	b.WriteString("      " + g.Check)
	if g.Object != g.Subject() || g.More > 0 {
		b.WriteString(": " + cut(g.What()))
	}
	fmt.Fprintf(b, "\n        %s\n", cut(g.Message))
	if g.Accepted {
		fmt.Fprintf(b, "        Accepted: %s\n", cut(g.AcceptedReason))
	}
}

// first ends the report: what to do, in the order in which it helps most, and how to say that it is known.
func first(b *strings.Builder, tasks []inventory.Task) {
	b.WriteString("\nWhat to do first\n")
	if len(tasks) == 0 {
		b.WriteString("  Nothing blocks. Read what is worth knowing; castoff goes on without an answer.\n")
		return
	}
	for i, t := range tasks[:min(len(tasks), maxTasks)] {
		fmt.Fprintf(b, "  %d. %s, %s: holds %s.\n     %s\n", i+1, t.First.Check, cut(toMend(t)), t.Holds(), cut(t.First.Message))
	}
	if more := len(tasks) - maxTasks; more > 0 {
		fmt.Fprintf(b, "  Then what else blocks above, of %s.\n", inventory.Count(more, "more kind"))
	}
	f := tasks[0].First
	if f.Check == CheckClusterNotFound {
		return // nobody can accept that
	}
	fmt.Fprintf(b, "  castoff goes on by itself when nothing blocks. What you know and accept goes into spec.acceptedRisks, one by one:\n     - {check: %s, object: %q, reason: \"...\"}\n", f.Check, cut(f.Object))
}

func toMend(t inventory.Task) string {
	if t.Objects == 1 {
		return t.First.What()
	}
	return t.First.What() + fmt.Sprintf(", and %d more to mend", t.Objects-1)
}

// cut bounds a line.
func cut(s string) string {
	if len(s) <= maxLine {
		return s
	}
	return strings.ToValidUTF8(s[:maxLine-3], "") + "..."
}
