package preflight

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// CheckWebhook is the check of admission webhooks.
const CheckWebhook = "WebhookOnPool"

// webhooks: while no pod answers an admission webhook whose failure policy is Fail, the API server refuses what it asks about. One
// pod alone that is asked about itself can never come back: its own creation is refused for want of it.
func webhooks(in Input) []inventory.Finding {
	var out []inventory.Finding
	for _, hook := range in.Workloads.Webhooks {
		moving, staying := answering(in, hook)
		if len(moving) == 0 || staying > 0 || !oneNode(moving) {
			continue
		}
		object := hook.Configuration + "/" + hook.Name
		pod := moving[0]
		var f inventory.Finding
		switch {
		case hook.Own && len(moving) == 1:
			f = block(CheckWebhook, object, "Only "+pod.Object()+" answers this webhook, it refuses when nobody does (failurePolicy Fail), and it is asked about pods of its own namespace: once evicted, the pod could never be made again. Run two of it on different nodes, or except its namespace.")
		case hook.Pods:
			f = warn(CheckWebhook, object, "Everything that answers this webhook is on node "+pod.Node+" ("+pod.Object()+" for one), and it refuses when nobody does (failurePolicy Fail): while that node is drained no pod can be made. Run two of it on different nodes.")
		default:
			f = warn(CheckWebhook, object, "Everything that answers this webhook is on node "+pod.Node+" ("+pod.Object()+" for one), and it refuses when nobody does (failurePolicy Fail): what it is asked about cannot be changed while that node is drained. Run two of it on different nodes.")
		}
		f.Pool = pod.pool
		out = append(out, f)
	}
	return out
}

// answering are the pods behind the webhook: those that have to move, and how many stay.
func answering(in Input, hook inventory.Webhook) (pods []moving, staying int) {
	if len(hook.Selector) == 0 {
		return nil, 0
	}
	s := labels.SelectorFromSet(hook.Selector)
	for _, w := range in.workloads {
		if w.namespace != hook.Service.Namespace || !matches(s, w) {
			continue
		}
		staying += w.staying
		pods = append(pods, w.pods...)
	}
	return pods, staying
}

// matches goes by the first pod of a workload: a Service selects all of them or none.
func matches(s labels.Selector, w *workload) bool {
	switch {
	case len(w.pods) > 0:
		return s.Matches(labels.Set(w.pods[0].Labels))
	case w.controller != nil:
		return s.Matches(labels.Set(w.controller.PodLabels))
	}
	return false
}

func oneNode(pods []moving) bool {
	return !slices.ContainsFunc(pods, func(p moving) bool { return p.Node != pods[0].Node })
}
