package preflight

import (
	"testing"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// running is a workload of the namespace shop with the image.
func running(kind, image string, change ...func(*inventory.Controller)) func(*Input) {
	c := inventory.Controller{Kind: kind, Name: "tool", Replicas: 1, Shape: shape(func(s *inventory.Shape) { s.Images = []string{"registry.example/sidecar:1", image} })}
	for _, f := range change {
		f(&c)
	}
	return controllers(c)
}

func idle(c *inventory.Controller) { c.Replicas = 0 }

func TestOtherEvictor(t *testing.T) {
	say := func(object, does string) []inventory.Finding {
		return []inventory.Finding{of(object, warns(CheckOtherEvictor, object, "", does))}
	}
	testCheck(t, CheckOtherEvictor, map[string]checkCase{
		"Descheduler": {"as a Deployment", sound(running(kindDeployment, "registry.k8s.io/descheduler/descheduler:v0.33.0")),
			say("deployment/shop/tool", "It evicts pods to spread them anew, which a drain does already. Suspend it for the time of the migration.")},
		"DeschedulerAtNight": {"or as a CronJob, from a mirror, by digest", sound(running("CronJob", "mirror.example:5000/k8s/descheduler@sha256:abc")),
			say("cronjob/shop/tool", "It evicts pods to spread them anew, which a drain does already. Suspend it for the time of the migration.")},
		"Kured": {"a DaemonSet", sound(running(kindDaemonSet, "ghcr.io/kubereboot/kured:1.19.0")),
			say("daemonset/shop/tool", "It drains and reboots nodes that ask for it, also while castoff drains others. Hold it by its lock annotation, or delete it, for the time of the migration.")},
		"VPA": {"the updater, not the recommender", sound(running(kindDeployment, "registry.k8s.io/autoscaling/vpa-updater:1.4.1")),
			say("deployment/shop/tool", "It evicts pods to give them other requests, out of the same budgets as the drains. Set updateMode Initial, or scale it to 0, for the time of the migration.")},
		"Recommender":  {"who only recommends evicts nothing", sound(running(kindDeployment, "registry.k8s.io/autoscaling/vpa-recommender:1.4.1")), nil},
		"Suspended":    {"who is suspended evicts nothing", sound(running("CronJob", "descheduler", func(c *inventory.Controller) { c.Suspended = true })), nil},
		"ScaledToZero": {"nor does who is scaled to 0", sound(running(kindDeployment, "descheduler", idle)), nil},
		"NameAlike":    {"the image's name counts, not what it ends in", sound(running(kindDeployment, "shop/my-descheduler:1")), nil},
	})
}

func TestTerminationHandler(t *testing.T) {
	const does = " drains nodes on spot interruptions and rebalance recommendations, and Karpenter does that for its own nodes. Keep it off them (node affinity: karpenter.sh/nodepool DoesNotExist), and give it a queue of its own if it reads one. With the node groups it can be deleted."
	helm := func(c *inventory.Controller) { c.Owner = "Helm release nth" }
	testCheck(t, CheckTerminationHandler, map[string]checkCase{
		"DaemonSet": {"in IMDS mode", sound(running(kindDaemonSet, "public.ecr.aws/aws-ec2/aws-node-termination-handler:v1.25.0")),
			[]inventory.Finding{of("daemonset/shop/tool", warns(CheckTerminationHandler, "daemonset/shop/tool", "", "daemonset/shop/tool"+does))}},
		"Queue": {"in queue mode, by whoever installed it", sound(running(kindDeployment, "mirror.example/aws-node-termination-handler", helm)),
			[]inventory.Finding{of("deployment/shop/tool", warns(CheckTerminationHandler, "deployment/shop/tool", "", "deployment/shop/tool (Helm release nth)"+does))}},
		"Nowhere": {"a DaemonSet that is on no node", sound(running(kindDaemonSet, "aws-node-termination-handler:v1", idle)), nil},
		"None":    {"the usual", sound(running(kindDeployment, "nginx:1")), nil},
	})
}

func TestImageName(t *testing.T) {
	cases := map[string]struct{ reason, image, want string }{
		"Plain":  {"nothing around it", "kured", "kured"},
		"Tag":    {"a tag", "kured:1.2", "kured"},
		"Path":   {"a registry with a port, and a path", "registry:5000/a/b/kured:1", "kured"},
		"Digest": {"a digest beside a tag", "ghcr.io/x/kured:1@sha256:0123", "kured"},
		"Empty":  {"what nobody filled in", "", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := imageName(tc.image); got != tc.want {
				t.Errorf("%s: got %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}
