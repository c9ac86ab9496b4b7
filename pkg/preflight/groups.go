package preflight

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// The checks of node groups.
const (
	CheckGroupBusy     = "NodeGroupBusy"
	CheckNotTranslated = "NotTranslated"
	CheckNotCarried    = "NotCarriedOver"
	CheckHomeTainted   = "HomeTainted"
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
		case g.Managed != nil && g.Managed.Status == "UPDATING" && !g.Suspends("AZRebalance"):
			// Once castoff has quieted the group, the update is castoff's own: EKS calls a change of size an update, too.
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

// homeTainted: Karpenter would stay Pending on a home whose nodes refuse it, after castoff has changed things already, and the
// home is frozen then.
func homeTainted(in Input) []inventory.Finding {
	taint := ""
	for _, n := range in.Nodes {
		if n.Group != in.Home {
			continue
		}
		i := slices.IndexFunc(n.Taints, refusesEngine)
		if i < 0 {
			return nil // one node that takes the engine is enough to begin with
		}
		taint = n.Taints[i].ToString()
	}
	if taint == "" {
		return nil
	}
	return []inventory.Finding{block(CheckHomeTainted, "nodegroup/"+in.Home, "Every node of the home is tainted ("+taint+
		"), and Karpenter, CoreDNS and castoff do not tolerate it. Name a group without taints in spec.home.nodeGroup.")}
}

// refusesEngine goes by the engine's tolerations (charts/provisioner); the taints of a node that is not Ready yet pass by themselves.
func refusesEngine(t corev1.Taint) bool {
	return t.Effect != corev1.TaintEffectPreferNoSchedule && t.Key != "CriticalAddonsOnly" && !strings.HasPrefix(t.Key, "node.kubernetes.io/") &&
		!strings.HasPrefix(t.Key, "node.cloudprovider.kubernetes.io/")
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
