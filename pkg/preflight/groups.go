package preflight

import (
	"fmt"
	"slices"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// The checks of node groups.
const (
	CheckGroupBusy     = "NodeGroupBusy"
	CheckNotTranslated = "NotTranslated"
	CheckNotCarried    = "NotCarriedOver"
)

func more(n int) string { return fmt.Sprintf(" and %d more", n) }

// groupBusy: an instance refresh or an EKS update replaces instances in its own order, in the middle of castoff's drains.
func groupBusy(in Input) []inventory.Finding {
	var out []inventory.Finding
	for _, g := range in.Groups {
		pool := poolOfGroup(in, g.Name)
		if pool == "" {
			continue
		}
		message := ""
		switch {
		case g.InstanceRefresh != "":
			message = "An instance refresh is " + g.InstanceRefresh + ". Wait for its end, or cancel it."
		case g.Managed != nil && g.Managed.Status == "UPDATING":
			message = "EKS is updating the node group. castoff goes on when that is done."
		}
		if message != "" {
			f := block(CheckGroupBusy, "nodegroup/"+g.Name, message)
			f.Pool = pool
			out = append(out, f)
		}
	}
	return out
}

func poolOfGroup(in Input, group string) string {
	for _, p := range in.Pools {
		if slices.Contains(p.NodeGroups, group) {
			return p.Name
		}
	}
	return ""
}

// notCarried: a setting that is lost without a word is found out by whoever is on call.
func notCarried(in Input) []inventory.Finding {
	var out []inventory.Finding
	for _, p := range in.Pools {
		var fields []string
		for _, n := range in.Targets[p.Name].NotCarried {
			fields = append(fields, n.NodeGroup+": "+n.Field)
		}
		if len(fields) > 0 {
			f := warn(CheckNotCarried, "pool/"+p.Name, "Not carried over to Karpenter: "+three(fields)+". kubectl castoff plan says why, and what to do about each.")
			f.Pool = p.Name
			out = append(out, f)
		}
	}
	return out
}

// NotTranslated is the finding of a pool that no NodePool can be made of.
func NotTranslated(pool string, err error) inventory.Finding {
	f := block(CheckNotTranslated, "pool/"+pool, err.Error())
	f.Pool = pool
	return f
}
