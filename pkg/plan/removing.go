package plan

import (
	"slices"
	"strconv"
	"strings"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// drainKarpenter empties Karpenter's nodes, a pool at a time, under the same rules as the way forward: the old nodes and
// Cluster Autoscaler have the pods from here on.
func drainKarpenter(o *outcome, _ *ledger, l look) {
	for _, p := range l.pools {
		if len(claimsOf(l, p)) == 0 {
			continue
		}
		if l.Engine.ReadyReplicas == 0 {
			o.wait("EngineNotReady", "deployment/karpenter", "None of Karpenter's pods is Ready, and only it can end its nodes: "+l.Engine.DeploymentMessage)
			return
		}
		drainPoolBack(o, l, p)
		return
	}
}

func drainPoolBack(o *outcome, l look, p pool) {
	nodes := karpenterNodes(l, p)
	for _, n := range nodes {
		if !n.Unschedulable {
			o.act(CordonNode{Node: n.Name})
		}
	}
	if len(o.actions) > 0 {
		return // all at once, or the pods of one would go to the next
	}
	for _, c := range claimsOf(l, p) {
		i := slices.IndexFunc(nodes, func(n inventory.Node) bool { return n.Name == c.Node })
		switch {
		case c.Deleting:
			o.wait("NodeClaimEnding", "nodeclaim/"+c.Name, "Karpenter is ending the node.")
		case i < 0:
			o.act(EndNodeClaim{NodeClaim: c.Name, Node: c.Node})
		case begun(nodes[i]):
			drainClaim(o, l, p, c, nodes[i])
		}
	}
	nameStranded(o, l)
	begin(o, l, p.Name, nodes, len(nodes))
}

func drainClaim(o *outcome, l look, p pool, c inventory.NodeClaim, n inventory.Node) {
	if l.empty(n) {
		o.act(EndNodeClaim{NodeClaim: c.Name, Node: c.Node})
		return
	}
	allow := allowance(l, n)
	o.act(EvictPods{Node: c.Node, Pool: p.Name, Allow: allow})
	awaitPods(o, l, p, n, allow)
}

// karpenterNodes are the nodes of the pool's NodePool.
func karpenterNodes(l look, p pool) []inventory.Node {
	np, ok := nodePool(l, p.Name)
	if !ok {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(l.Nodes), func(n inventory.Node) bool { return n.Labels[karpv1.NodePoolLabelKey] != np.Name })
}

// removeNodePools deletes the NodePools, which would drain whatever they still have: so only when they have nothing.
func removeNodePools(o *outcome, _ *ledger, l look) {
	for _, p := range l.pools {
		if np, ok := nodePool(l, p.Name); ok && len(claimsOf(l, p)) == 0 && len(karpenterNodes(l, p)) == 0 {
			o.act(DeleteNodePool{NodePool: np.Name})
		} else if ok {
			o.wait("NodesLeaving", "nodepool/"+np.Name, "The last of Karpenter's nodes are on their way out.")
		}
	}
}

// removeKarpenter takes away what castoff made, last things first; what was there before the snapshot stays.
func removeKarpenter(o *outcome, _ *ledger, l look) {
	for _, c := range l.Engine.Canaries {
		if c.NodePool || c.Pod || c.Node {
			o.act(EndCanary{Pool: c.Pool})
			o.wait("CanaryLeaving", "pool/"+c.Pool, "The canary's node is going.")
		}
	}
	if !o.idle() {
		return
	}
	for _, c := range l.Engine.NodeClasses {
		if c.Labels[v1alpha1.LabelPool] == "" {
			continue
		}
		o.wait("NodeClassEnding", "ec2nodeclass/"+c.Name, "Karpenter is letting the class go."+engineDown(l))
		if c.DeletionTimestamp == nil {
			o.act(DeleteNodeClass{NodeClass: c.Name})
		}
	}
	if !o.idle() {
		return
	}
	if users := karpenterUsers(l); len(users) > 0 && !l.Snapshot.Before.Release {
		o.warn("KarpenterInUse", "release/karpenter", "Karpenter stays, because somebody else uses it: "+list(users)+". Delete those and it goes.")
		return
	}
	if n := len(l.Engine.NodeClaims); n > 0 && !l.Snapshot.Before.Release { // without the engine nobody would end their instances
		o.wait("NodesLeaving", "nodeclaims", strconv.Itoa(n)+" NodeClaims without a NodePool are left. Karpenter stays until they are gone: delete those that nobody is deleting.")
		return
	}
	uninstall(o, l)
}

// engineDown says why what only Karpenter can end may not end.
func engineDown(l look) string {
	if l.Engine.ReadyReplicas > 0 {
		return ""
	}
	return " None of its pods is Ready, and only they can: mend Deployment karpenter, or take the finalizer karpenter.k8s.aws/termination off the class. " + l.Engine.DeploymentMessage
}

// karpenterUsers are objects of Karpenter's that castoff did not make.
func karpenterUsers(l look) []string {
	var users []string
	for _, n := range l.Engine.NodePools {
		if n.Labels[v1alpha1.LabelPool] == "" && n.Labels[v1alpha1.LabelCanary] == "" {
			users = append(users, "NodePool "+n.Name)
		}
	}
	for _, c := range l.Engine.NodeClasses {
		if c.Labels[v1alpha1.LabelPool] == "" {
			users = append(users, "EC2NodeClass "+c.Name)
		}
	}
	return users
}

// roleUsers are classes that castoff did not make and whose nodes have the role that it made.
func roleUsers(l look) []string {
	var users []string
	for _, c := range l.Engine.NodeClasses {
		if c.Labels[v1alpha1.LabelPool] == "" && c.Spec.Role != "" && c.Spec.Role == l.Identity.NodeRole {
			users = append(users, "EC2NodeClass "+c.Name)
		}
	}
	return users
}

// uninstalls says that the engine is castoff's to uninstall, and there.
func uninstalls(l look) bool {
	e := l.Engine.Release
	return l.Snapshot != nil && !l.Snapshot.Before.Release && e != inventory.ReleaseMissing && e != inventory.ReleaseForeign && e != ""
}

// launchedPatience is for how long Karpenter is left alone with instances that no NodeClaim has: it looks for such every two minutes
// (Karpenter's garbage collection of NodeClaims).
const launchedPatience = 10 * time.Minute

// awaitLaunched keeps the engine while instances of its own are left: without it nobody would end them, and they cost money unseen.
func awaitLaunched(o *outcome, l look) {
	if len(l.Launched) == 0 {
		return
	}
	const reason, object = "InstancesLeft", "release/karpenter"
	message := strconv.Itoa(len(l.Launched)) + " instances that Karpenter launched have no NodeClaim any more, " + list(l.Launched[:min(3, len(l.Launched))]) +
		" among them. Karpenter stays, and ends them. " + l.Engine.DeploymentMessage
	if l.waited(reason, object) < launchedPatience {
		o.wait(reason, object, message)
		return
	}
	o.block(reason, object, message+" It has not, so see its logs, and end them: aws ec2 terminate-instances --instance-ids "+strings.Join(l.Launched[:min(20, len(l.Launched))], " "))
}

func uninstall(o *outcome, l look) {
	before := l.Snapshot.Before
	e := l.Engine
	if uninstalls(l) {
		if awaitLaunched(o, l); !o.idle() {
			return
		}
	}
	switch {
	case uninstalls(l):
		o.wait("ReleaseEnding", "release/karpenter", "Karpenter is being uninstalled.")
		o.act(UninstallEngine{})
	case !before.CRDs && e.CRDs:
		o.wait("CRDsEnding", "customresourcedefinition", "Karpenter's CustomResourceDefinitions are being removed.")
		o.act(RemoveCRDs{})
	}
	if len(o.actions) > 0 {
		return
	}
	if !before.Interruption && len(l.Interruption.Made) > 0 {
		o.wait("InterruptionEnding", "queue/"+l.Interruption.QueueName, "Being removed: "+list(l.Interruption.Made)+".")
		o.act(RemoveInterruption{})
	}
	if users := roleUsers(l); len(users) > 0 && !before.Identity {
		o.warn("KarpenterInUse", "role/"+l.Identity.NodeRole, "The role stays, because somebody else's nodes have it: "+list(users)+". Give those another role and it goes.")
		return
	}
	if !before.Identity && len(l.Identity.Made) > 0 {
		o.wait("IdentityEnding", "role/"+l.Identity.NodeRole, "Being removed: "+list(l.Identity.Made)+".")
		o.act(RemoveIdentity{})
	}
}

// unmarkNodes takes the last marks off: the holds, now that the pods are back, and the pools' names.
func unmarkNodes(o *outcome, _ *ledger, l look) {
	for _, n := range l.Nodes {
		a := n.Annotations
		if a[v1alpha1.AnnotationLegacy] != "" || a[v1alpha1.AnnotationHeldBy] != "" || a[v1alpha1.AnnotationRestoredFrom] != "" {
			o.act(UnmarkNode{Node: n.Name})
		}
	}
}
