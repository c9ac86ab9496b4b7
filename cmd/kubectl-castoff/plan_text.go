package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"text/tabwriter"

	"sigs.k8s.io/yaml"

	"github.com/castoff-sh/castoff/pkg/cost"
	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/plan"
	"github.com/castoff-sh/castoff/pkg/preflight"
)

// columns is the width that prose is wrapped to. YAML and HCL are not wrapped: they are there to be copied.
const columns = 100

// The colours of a terminal (ECMA-48, SGR).
const (
	bold   = "1"
	red    = "31"
	green  = "32"
	yellow = "33"
)

// coloured says whether the output is a terminal whose user wants colours (https://no-color.org).
func coloured(out io.Writer) bool {
	f, ok := out.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// page is text that is being written.
type page struct {
	bytes.Buffer
	colour bool
}

func (p *page) paint(code, s string) string {
	if !p.colour {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (p *page) title(s string) { fmt.Fprintf(p, "\n%s\n", p.paint(bold, s)) }

// wrap writes a paragraph; its first line begins with lead, and the others are indented as far.
func (p *page) wrap(lead, s string) {
	room := columns - len(lead)
	for _, word := range strings.Fields(s) {
		switch {
		case room == columns-len(lead):
			p.WriteString(lead + word)
		case len(word)+1 > room:
			lead = strings.Repeat(" ", len(lead))
			p.WriteString("\n" + lead + word)
			room = columns - len(lead)
		default:
			p.WriteString(" " + word)
			room--
		}
		room -= len(word)
	}
	p.WriteByte('\n')
}

// block writes lines as they are, indented.
func (p *page) block(indent, s string) {
	for line := range strings.Lines(s) {
		p.WriteString(indent + strings.TrimRight(line, "\n") + "\n")
	}
}

func text(d document, colour bool) ([]byte, error) {
	p := &page{colour: colour}
	p.heading(d)
	if d.Migration != nil {
		p.wrap("", p.paint(yellow, d.Migration.said()))
	}
	p.underway(d.Underway)
	p.verdict(d.Verdict)
	p.costs(d)
	for i, pool := range d.Pools {
		if err := p.pool(i+1, pool); err != nil {
			return nil, err
		}
	}
	p.findings(d)
	p.edits(d.Edits)
	return p.Bytes(), nil
}

func (p *page) heading(d document) {
	if d.elsewhere() {
		fmt.Fprintf(p, "Cluster %s.\n", d.Cluster)
		return
	}
	p.wrap("", fmt.Sprintf("Cluster %s. Home (kept for Karpenter, CoreDNS and castoff): %s.", d.Cluster, orNone(d.Home)))
	switch waves := d.Handovers.Waves; {
	case len(d.Pools) == 0:
		p.wrap("", "No pools: nothing would be migrated.")
	case len(d.Pools) == 1:
		p.wrap("", "One wave: the pool changes hands, then is drained.")
	case len(waves) < 2:
		because := ""
		if why := d.Handovers.Single; why != "" {
			because = " Pools could change hands one after the other, but " + why + "."
		}
		p.wrap("", fmt.Sprintf("One wave: all %d pools change hands together, then are drained in this order.%s", len(d.Pools), because))
	default:
		p.wrap("", fmt.Sprintf("%d waves: each changes hands and is drained when the ones before it are done; Cluster Autoscaler keeps the others until then.", len(waves)))
	}
	p.waves(d.Handovers.Waves)
}

// waves shows what changes hands together, and one workload for each two pools that have to.
func (p *page) waves(waves []plan.Wave) {
	for i, w := range waves {
		if len(waves) > 1 {
			p.wrap("  ", fmt.Sprintf("wave-%d: %s", i+1, strings.Join(w.Pools, ", ")))
		}
		for _, j := range w.Joins {
			p.wrap("    ", j.String()+".")
		}
	}
}

// underway warns that the cluster is on its way already.
func (p *page) underway(name string) {
	if name != "" {
		p.wrap("", p.paint(yellow, fmt.Sprintf("Migration %s has begun: this is a plan of the file, as if it began now with what is left. kubectl castoff plan --cluster goes by the Migration itself; kubectl castoff status %[1]s says how far it is.", name)))
	}
}

func (p *page) verdict(v *cost.Verdict) {
	if v == nil {
		return
	}
	words := map[cost.Advice]string{
		cost.Migrate: p.paint(green, "migrate"), cost.MigrateLater: p.paint(yellow, "migrate later"), cost.Stay: p.paint(red, "stay on Cluster Autoscaler"),
		underWay: p.paint(yellow, "under way"), migrated: p.paint(green, "migrated"),
	}
	fmt.Fprintf(p, "\n%s %s\n", p.paint(bold, "Verdict:"), words[v.Advice])
	for _, r := range v.Reasons {
		p.wrap("  - ", r)
	}
}

func (p *page) costs(d document) {
	if d.Cost == nil && (d.CostUnknown != "" || len(d.NotCounted) > 0) {
		p.title("Cost")
		if d.CostUnknown != "" {
			p.wrap("  ", d.CostUnknown)
		}
		p.notCounted(d.NotCounted)
	}
	if d.Cost == nil {
		return
	}
	p.title("Cost, in US dollars an hour")
	t := *d.Cost
	width := len("by requested vCPU")
	for _, pool := range d.Pools {
		width = max(width, len(pool.Name))
	}
	fmt.Fprintf(p, "  %-*s %12s %10s %12s %10s %9s\n", width, "POOL", "NODES TODAY", "TODAY", "NODES AFTER", "AFTER", "CHANGE")
	line := func(name string, today, after cost.Bill, e cost.Estimate) {
		fmt.Fprintf(p, "  %-*s %12d %10.4f %12d %10.4f %9s\n", width, name, today.Nodes, today.USD, after.Nodes, after.USD, difference(today.USD, after.USD, e))
	}
	for _, pool := range d.Pools {
		if e := pool.Cost; e != nil {
			line(pool.Name, bill(e.Today), bill(e.After), *e)
		}
	}
	fmt.Fprintln(p)
	line("on demand", t.Today.OnDemand, t.After.OnDemand, t)
	line("spot", t.Today.Spot, t.After.Spot, t)
	line("all", bill(t.Today), bill(t.After), t)
	unit := func(name string, today, after float64) {
		fmt.Fprintf(p, "  %-*s %12s %10.4f %12s %10.4f %9s\n", width, name, "", today, "", after, difference(today, after, t))
	}
	unit("by requested vCPU", t.Today.PerVCPU, t.After.PerVCPU)
	unit("by requested GiB", t.Today.PerGiB, t.After.PerGiB)
	p.costNotes(d)
}

func bill(s cost.Side) cost.Bill { return cost.Bill{Nodes: s.Nodes(), USD: s.USD()} }

func difference(today, after float64, e cost.Estimate) string {
	if !e.Comparable() || today == 0 {
		return "-"
	}
	percent := math.Round((after/today - 1) * 100)
	if percent == 0 {
		return "0 %"
	}
	return fmt.Sprintf("%+.0f %%", percent)
}

// costNotes say what the numbers leave out, and how they were come by.
func (p *page) costNotes(d document) {
	t := *d.Cost
	p.WriteByte('\n')
	p.wrap("  ", fmt.Sprintf("Requested, DaemonSets not counted: %.1f vCPU, %.1f GiB, by %s. A month of 730 hours: $%.0f today, $%.0f after.",
		t.Requested.VCPUs(), t.Requested.GiB(), inventory.Count(t.Requested.Pods, "pod"), t.Today.USD()*730, t.After.USD()*730))
	if t.Overlap.Nodes > 0 {
		p.wrap("  ", fmt.Sprintf("Overlap, paid once: at most %s more at a time, about %.1f hours, $%.2f: a batch and the canary, 10 minutes a batch, at the dearest node's price. Budgets that wait make it longer.",
			inventory.Count(t.Overlap.Nodes, "node"), t.Overlap.Hours, t.Overlap.USD))
	}
	if len(t.Unpriced) > 0 {
		p.wrap("  ", "No price is known of "+strings.Join(t.Unpriced, ", ")+": the sums leave them out, and are not compared. Prices are those of Linux on shared tenancy, on demand and spot, in US dollars.")
	}
	if t.Unplaced > 0 {
		p.wrap("  ", inventory.Count(t.Unplaced, "pod fits", "pods fit")+" on no instance type of the pool beside its DaemonSets: widen the types, or lower the requests. The sum after leaves that out.")
	}
	p.notCounted(d.NotCounted)
	if t.Guessed {
		p.wrap("  ", "Which nodes of a mixed group are spot is told by its policy's shares, where no label of the node says.")
	}
	p.wrap("  ", fmt.Sprintf("How it was computed: AWS's price list of %s for on-demand, the latest spot prices, meant over the pool's zones; the same for today and after. Today is every running instance of the pools' groups. "+
		"After packs the requests of the pods that run now onto the NodePool's instance types, first-fit decreasing, pool by pool, with the pool's DaemonSets on every node. "+
		"It knows nothing of zones, affinity, spread, volumes, GPUs, or pods that come and go: read it as the least to expect, not as a promise. "+
		"By vCPU and by GiB are each the whole bill: do not add them. Left out are home, volumes, traffic, savings plans and reservations.", d.Region))
}

func (p *page) notCounted(pools []string) {
	if len(pools) > 0 {
		p.wrap("  ", "Not counted, for lack of a NodePool that names its instance types: "+strings.Join(pools, ", ")+".")
	}
}

func (p *page) pool(n int, pool poolPlan) error {
	p.title(fmt.Sprintf("%d. Pool %s: node groups %s, nodes %d", n, pool.Name, strings.Join(pool.NodeGroups, ", "), pool.Nodes))
	if pool.Target.Pool == "" {
		p.wrap("   ", "Not translated: see the preflight below.")
		return nil
	}
	p.types(pool.Types)
	for _, o := range []any{pool.Target.NodePool, pool.Target.NodeClass} {
		b, err := manifest(o)
		if err != nil {
			return err
		}
		fmt.Fprintf(p, "---\n%s", b)
	}
	p.WriteString("---\n")
	if len(pool.Target.NotCarried) > 0 {
		p.wrap("   ", "Not carried over:")
	}
	for _, c := range pool.Target.NotCarried {
		p.wrap("   - ", fmt.Sprintf("%s, %s: %s %s", c.NodeGroup, c.Field, c.Reason, c.Do))
	}
	return nil
}

// mostTypes are listed; a group that picks types by attributes may have hundreds.
const mostTypes = 12

func (p *page) types(types []inventory.InstanceType) {
	if len(types) == 0 {
		return
	}
	w := tabwriter.NewWriter(p, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "   INSTANCE TYPE\tVCPU\tGIB\tON DEMAND\tSPOT\n")
	for _, t := range types[:min(len(types), mostTypes)] {
		fmt.Fprintf(w, "   %s\t%s\t%s\t%s\t%s\n", t.Name, orUnknown(t.VCPUs, fmt.Sprint(t.VCPUs)), orUnknown(t.MemoryMiB, fmt.Sprintf("%.4g", float64(t.MemoryMiB)/1024)), usd(t.OnDemand), spotRange(t.Spot))
	}
	_ = w.Flush() // into memory
	if more := len(types) - mostTypes; more > 0 {
		p.wrap("   ", fmt.Sprintf("and %d more: -o yaml lists them all.", more))
	}
}

func orUnknown(n int64, s string) string {
	if n == 0 {
		return "?"
	}
	return s
}

func usd(v float64) string {
	if v == 0 {
		return "-"
	}
	return fmt.Sprintf("%.4f", v)
}

// spotRange is the lowest and the highest of the zones.
func spotRange(zones map[string]float64) string {
	low, high := 0.0, 0.0
	for _, v := range zones {
		if low == 0 || v < low {
			low = v
		}
		high = max(high, v)
	}
	if low == high {
		return usd(low)
	}
	return usd(low) + " to " + usd(high)
}

// findings are the preflight's own report, wrapped.
func (p *page) findings(d document) {
	if d.elsewhere() {
		return
	}
	if d.Migration != nil && d.Migration.NotChecked && len(d.Findings) == 0 {
		p.title("Preflight")
		p.wrap("", "Not run: it was before the hand-over, and is again between two pools.")
		return
	}
	if len(d.Findings) == 0 {
		p.title("Preflight")
	} else {
		p.WriteByte('\n') // the report has a title of its own
	}
	for line := range strings.Lines(preflight.Text(d.Findings)) {
		p.reported(strings.TrimRight(line, "\n"))
	}
}

// reported is one line of the report.
func (p *page) reported(line string) {
	body := strings.TrimLeft(line, " ")
	switch {
	case line == "":
		p.WriteByte('\n')
	case body != line:
		p.wrap(line[:len(line)-len(body)], body)
	case strings.HasPrefix(line, "Preflight"):
		p.WriteString(p.paint(bold, line) + "\n")
	case strings.HasPrefix(line, "Blocks"):
		p.WriteString(p.paint(red, line) + "\n")
	default:
		p.WriteString(p.paint(yellow, line) + "\n")
	}
}

func (p *page) edits(list []edit) {
	if len(list) == 0 {
		return
	}
	p.title("Edits for the owners of node groups")
	p.wrap("", "castoff changes these groups' sizes and deletes none of them. Whoever keeps them should know:")
	for _, e := range list {
		fmt.Fprintf(p, "\n  %s, kept by %s\n", e.NodeGroup, e.Owner)
		p.snippet("    Before it starts:", e.Before)
		p.snippet("    When it is completed:", e.After)
	}
}

// snippet is prose where it is one line, and code where it is more.
func (p *page) snippet(lead, s string) {
	if !strings.Contains(s, "\n") {
		p.wrap(lead+" ", s)
		return
	}
	p.WriteString(lead + "\n")
	p.block("      ", s)
}

// manifest is the object without its status and what is null: Karpenter's types write some fields that nobody set.
func manifest(o any) ([]byte, error) {
	b, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, err
	}
	delete(m, "status")
	dropNulls(m)
	return yaml.Marshal(m)
}

func dropNulls(m map[string]any) {
	for k, v := range m {
		switch v := v.(type) {
		case nil:
			delete(m, k)
		case map[string]any:
			if dropNulls(v); len(v) == 0 {
				delete(m, k)
			}
		}
	}
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
