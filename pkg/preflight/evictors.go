package preflight

import (
	"slices"
	"strings"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// The checks of who else moves pods and nodes.
const (
	CheckOtherEvictor       = "OtherEvictor"
	CheckTerminationHandler = "TerminationHandler"
)

// evictors are the images of tools that evict pods of their own accord, and what to do about each meanwhile.
var evictors = []struct{ image, does string }{
	{"descheduler", "It evicts pods to spread them anew, which a drain does already. Suspend it for the time of the migration."},
	{"kured", "It drains and reboots nodes that ask for it, also while castoff drains others. Hold it by its lock annotation, or delete it, for the time of the migration."},
	{"vpa-updater", "It evicts pods to give them other requests, out of the same budgets as the drains. Set updateMode Initial, or scale it to 0, for the time of the migration."},
}

// otherEvictors: what evicts beside castoff uses up the budgets that castoff waits for, and takes pods from nodes that they have just
// come to.
func otherEvictors(in Input) []inventory.Finding {
	var out []inventory.Finding
	for _, w := range in.workloads {
		for _, e := range evictors {
			if w.runs(e.image) {
				f := warn(CheckOtherEvictor, w.object(), e.does)
				f.Workload = w.object()
				out = append(out, f)
			}
		}
	}
	return out
}

// terminationHandlers: an aws-node-termination-handler drains the nodes that Karpenter drains, by its own deadlines, and one that
// reads Karpenter's queue takes messages from it.
func terminationHandlers(in Input) []inventory.Finding {
	var out []inventory.Finding
	for _, w := range in.workloads {
		if w.runs("aws-node-termination-handler") {
			f := warn(CheckTerminationHandler, w.object(), w.owned()+" drains nodes on spot interruptions and rebalance recommendations, and Karpenter does that for its own nodes. Keep it off them"+
				" (node affinity: karpenter.sh/nodepool DoesNotExist), and give it a queue of its own if it reads one. With the node groups it can be deleted.")
			f.Workload = w.object()
			out = append(out, f)
		}
	}
	return out
}

// runs says whether one of its containers is of that image, whatever registry it comes from: many are mirrored.
func (w *workload) runs(image string) bool {
	idle := w.controller != nil && (w.controller.Suspended || w.controller.Replicas == 0)
	return !idle && slices.ContainsFunc(w.shape.Images, func(s string) bool { return imageName(s) == image })
}

// imageName is the last part of an image's repository.
func imageName(image string) string {
	repository, _, _ := strings.Cut(image, "@")
	name := repository[strings.LastIndexByte(repository, '/')+1:]
	name, _, _ = strings.Cut(name, ":")
	return name
}
