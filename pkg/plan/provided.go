package plan

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// The checks of what the user provides in place of what castoff would make.
const (
	// CheckExistingKarpenter is a Karpenter that cannot be adopted.
	CheckExistingKarpenter = "ExistingKarpenter"
	// CheckQueueConflict is a queue, or a rule, that cannot serve.
	CheckQueueConflict = "QueueConflict"
	// CheckNodeRoleLacks is a node role without policies that the old nodes' roles have.
	CheckNodeRoleLacks = "NodeRoleLacksPolicies"
	// CheckNodeRoleShared is a node role that a node group has too.
	CheckNodeRoleShared = "NodeRoleShared"
	// CheckNameTaken is a NodePool or an EC2NodeClass of somebody else's that has a pool's name.
	CheckNameTaken = "NameTaken"
)

// Provided are the findings about what somebody else made. They are looked for before anything is changed: what does not fit
// would stop the migration in its middle.
func Provided(m *v1alpha1.Migration, w World) []inventory.Finding {
	var out []inventory.Finding
	for _, misfit := range w.Engine.Misfits {
		out = append(out, block(CheckExistingKarpenter, "deployment/karpenter", "spec.provisioner.source is Existing, and "+misfit+"."))
	}
	if c := w.Interruption.Conflict; c != "" {
		out = append(out, block(CheckQueueConflict, "queue/"+w.Interruption.QueueName, c+"."))
	}
	role := "role/" + w.Identity.NodeRole
	if lacks := w.Identity.Lacks; len(lacks) > 0 {
		out = append(out, inventory.Finding{
			Check: CheckNodeRoleLacks, Severity: v1alpha1.SeverityWarn, Object: role,
			Message: "The node role does not have " + some(lacks) + ", which nodes need or the old nodes have. Attach them, or see that other policies of it grant the same: pods that use the node's credentials live off them.",
		})
	}
	return slices.Concat(out, namesTaken(w), sharedRole(m, w))
}

// namesTaken: castoff writes over nobody's NodePool, and would find that out when Cluster Autoscaler has let go.
func namesTaken(w World) []inventory.Finding {
	var out []inventory.Finding
	taken := func(kind string, o metav1.Object) {
		ours := o.GetLabels()[v1alpha1.LabelPool] != "" || o.GetLabels()[v1alpha1.LabelCanary] != ""
		if !ours && slices.ContainsFunc(w.Pools, func(p inventory.Pool) bool { return p.Name == o.GetName() }) {
			f := block(CheckNameTaken, strings.ToLower(kind)+"/"+o.GetName(), kind+" "+o.GetName()+" is here, and castoff did not make it; that of the pool would have the same name. Give the pool another name in spec.pools, or delete that one.")
			f.Pool = o.GetName()
			out = append(out, f)
		}
	}
	for i := range w.Engine.NodePools {
		taken("NodePool", &w.Engine.NodePools[i])
	}
	for i := range w.Engine.NodeClasses {
		taken("EC2NodeClass", &w.Engine.NodeClasses[i])
	}
	return out
}

// sharedRole: EKS takes the access of a managed node group's role away with the last group that has it, and with the access
// Karpenter's nodes. castoff gives only that back which it made.
func sharedRole(m *v1alpha1.Migration, w World) []inventory.Finding {
	if !w.Cluster.Provided.Identity() {
		return nil
	}
	var sharing []string
	for _, p := range w.Pools {
		for _, name := range p.NodeGroups {
			g, ok := group(w.Groups, name)
			if ok && g.Managed != nil && g.Managed.NodeRole == w.Identity.NodeRole && !slices.Contains(sharing, name) {
				sharing = append(sharing, name)
			}
		}
	}
	if len(sharing) == 0 {
		return nil
	}
	f := block(CheckNodeRoleShared, "role/"+w.Identity.NodeRole, "The role is that of node group "+some(sharing)+
		" too: when the last group that has it is deleted, EKS takes its access to the cluster away, and Karpenter's nodes go NotReady hours later. "+
		"Name a role of Karpenter's own in spec.provisioner.nodeRole, or do not delete those groups (spec.decommission.mode: ScaleToZero).")
	if m.Spec.Decommission.Mode != v1alpha1.DecommissionDelete {
		f.Severity = v1alpha1.SeverityWarn
	}
	return []inventory.Finding{f}
}
