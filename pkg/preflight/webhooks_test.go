package preflight

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// hook is answered by the pods of the namespace shop that are labelled app=web.
func hook(change ...func(*inventory.Webhook)) func(*Input) {
	h := inventory.Webhook{
		Configuration: "validatingwebhookconfiguration/policies", Name: "check.policies.io",
		Service: types.NamespacedName{Namespace: "shop", Name: "policies"}, Selector: map[string]string{"app": "web"},
	}
	for _, c := range change {
		c(&h)
	}
	return func(in *Input) { in.Workloads.Webhooks = append(in.Workloads.Webhooks, h) }
}

func asksPods(h *inventory.Webhook) { h.Pods = true }

func asksItself(h *inventory.Webhook) { h.Pods, h.Own = true, true }

func TestWebhookOnPool(t *testing.T) {
	const object = "validatingwebhookconfiguration/policies/check.policies.io"
	blocked := []inventory.Finding{blocks(CheckWebhook, object, "general",
		"Only pod/shop/web-1 answers this webhook, it refuses when nobody does (failurePolicy Fail), and it is asked about pods of its own namespace: once evicted, the pod could never be made again. Run two of it on different nodes, or except its namespace.")}
	noPod := []inventory.Finding{warns(CheckWebhook, object, "general",
		"Everything that answers this webhook is on node old (pod/shop/web-1 for one), and it refuses when nobody does (failurePolicy Fail): while that node is drained no pod can be made. Run two of it on different nodes.")}
	other := []inventory.Finding{warns(CheckWebhook, object, "general",
		"Everything that answers this webhook is on node old (pod/shop/web-1 for one), and it refuses when nobody does (failurePolicy Fail): what it is asked about cannot be changed while that node is drained. Run two of it on different nodes.")}
	second := nodes(inventory.Node{Name: "old-2", Group: "general-b"})
	testCheck(t, CheckWebhook, map[string]checkCase{
		"AsksItself":     {"nobody is left to let it in again", sound(hook(asksItself)), blocked},
		"AsksItselfTwo":  {"two on one node go one after the other, and the first lets the second in", sound(pods(pod("web-1"), pod("web-2")), hook(asksItself)), noPod},
		"AsksPods":       {"pods wait until it is back, and its own may come", sound(hook(asksPods)), noPod},
		"AsksOthers":     {"certificates wait", sound(hook()), other},
		"TwoNodes":       {"one of them answers", sound(pods(pod("web-1"), pod("web-2", on("old-2"))), second, hook(asksItself)), nil},
		"OneStays":       {"the one that stays answers", sound(pods(pod("web-1"), pod("web-2", on("home"))), hook(asksItself)), nil},
		"AtHome":         {"it does not move", sound(pods(pod("web-1", on("home"))), hook(asksItself)), nil},
		"NobodyAnswers":  {"what answers nothing today is no fault of the migration", sound(hook(asksItself, func(h *inventory.Webhook) { h.Selector = map[string]string{"app": "gone"} })), nil},
		"NoSelector":     {"a Service without a selector has its pods from elsewhere", sound(hook(asksItself, func(h *inventory.Webhook) { h.Selector = nil })), nil},
		"OtherNamespace": {"its pods are in the Service's namespace", sound(hook(asksItself, func(h *inventory.Webhook) { h.Service.Namespace = "other" })), nil},
		"TemplateStays": {"a workload whose pods all stay is known by its template",
			sound(pods(pod("web-1"), pod("web-2", on("home"), madeBy("StatefulSet", "spare"))), controllers(inventory.Controller{Kind: "StatefulSet", Name: "spare", PodLabels: map[string]string{"app": "web"}}), hook(asksItself)), nil},
	})
}
