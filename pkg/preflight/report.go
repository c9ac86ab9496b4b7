package preflight

import (
	"fmt"
	"slices"
	"strings"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// Text is the report for people: what blocks first, then what to know.
func Text(findings []inventory.Finding) string {
	if len(findings) == 0 {
		return "No check blocks or warns.\n"
	}
	var b strings.Builder
	section(&b, "Blocks", findings, inventory.Finding.Blocks)
	section(&b, "Accepted", findings, func(f inventory.Finding) bool { return f.Accepted })
	section(&b, "Worth knowing", findings, func(f inventory.Finding) bool { return !f.Accepted && f.Severity == v1alpha1.SeverityWarn })
	return b.String()
}

func section(b *strings.Builder, title string, findings []inventory.Finding, want func(inventory.Finding) bool) {
	n := 0
	for _, f := range findings {
		if want(f) {
			n++
		}
	}
	if n == 0 {
		return
	}
	fmt.Fprintf(b, "%s (%d)\n", title, n)
	for _, f := range sorted(findings) {
		if !want(f) {
			continue
		}
		fmt.Fprintf(b, "  %s  %s%s\n      %s\n", f.Check, f.Object, inPool(f), f.Message)
		if f.Accepted {
			fmt.Fprintf(b, "      Accepted: %s\n", f.AcceptedReason)
		}
	}
}

// sorted orders by pool, then as the checks came.
func sorted(findings []inventory.Finding) []inventory.Finding {
	out := slices.Clone(findings)
	slices.SortStableFunc(out, func(a, b inventory.Finding) int { return strings.Compare(a.Pool, b.Pool) })
	return out
}

func inPool(f inventory.Finding) string {
	if f.Pool == "" {
		return ""
	}
	return "  (pool " + f.Pool + ")"
}
