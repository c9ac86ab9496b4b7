package plan

import (
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// surgedBack ends the note on a Deployment that was restarted on the way back: its pods move once in each direction.
const surgedBack = "/back"

// surge says which Deployments a pass over the node restarts in place of evicting their pods. Once the node's time is over it is none,
// and the pods of those that were restarted and are not done are evicted after all.
func surge(l look, n inventory.Node) inventory.Surge {
	s := inventory.Surge{Strategy: l.m.Spec.Strategy.Surge, For: string(l.m.UID)}
	if s.Strategy == "" || s.Strategy == v1alpha1.SurgeNone || overdue(l, n) {
		return inventory.Surge{}
	}
	if _, karpenters := n.Labels[karpv1.NodePoolLabelKey]; karpenters {
		s.For += surgedBack
	}
	return s
}
