package controllers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/castoff-sh/castoff/api/v1alpha1"
	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/kubeapi"
	"github.com/castoff-sh/castoff/pkg/plan"
)

const (
	// crashLoop is the kubelet's reason for a container that it waits to start again (Kubernetes, "Pod Lifecycle", container states).
	crashLoop = "CrashLoopBackOff"
	// steady is for how long a container that was restarted more than once has to run before it counts as well: between two crashes
	// it runs too.
	steady = 2 * time.Minute
	// gatesFresh is for how long an answer of Prometheus serves: about as long as it takes it to have something new to say.
	gatesFresh = 15 * time.Second
)

// observeHealth reads what plan.Needs asks for: the pods that are not well, and what the gates measure.
func (o *Observer) observeHealth(ctx context.Context, m *v1alpha1.Migration, needs plan.Needs, w *plan.World) (err error) {
	if needs.Gates {
		w.Gates = o.askGates(ctx, m.Spec.Strategy.Gates)
	}
	if needs.Health {
		w.Unwell, err = o.unwellPods(ctx)
	}
	return err
}

// unwellPods are those of the last read, or are read anew: like the workloads, at most for a tenth of the time.
func (o *Observer) unwellPods(ctx context.Context) ([]inventory.UnwellPod, error) {
	var took time.Duration
	return o.unwell.get(ctx, o.Clock(), func([]inventory.UnwellPod) time.Duration { return min(workloadsShare*took, workloadsOldest) },
		func(ctx context.Context) ([]inventory.UnwellPod, error) {
			began := o.Clock()
			pods, err := o.readUnwell(ctx)
			took = o.Clock().Sub(began)
			return pods, err
		})
}

// readUnwell goes through all pods once, page by page, and keeps those that are not well: pods that moved may be on any node, and
// one list costs less than one for each of hundreds of nodes.
func (o *Observer) readUnwell(ctx context.Context) ([]inventory.UnwellPod, error) {
	var out []inventory.UnwellPod
	owners := map[types.NamespacedName]string{} // of the pods that a ReplicaSet makes, its name without the template's hash
	err := o.eachPod(ctx, func(p *corev1.Pod) {
		if u, ok := unwellOf(p, o.Clock()); ok {
			out = append(out, u)
			owners[u.Pod] = deploymentName(p)
		}
	})
	if err != nil {
		return nil, err
	}
	for i := range out {
		if name := owners[out[i].Pod]; name != "" {
			if err := o.ofDeployment(ctx, &out[i], name); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// ofDeployment reads, from the cache, for how long the Deployment's pods may be on their way. A ReplicaSet may be somebody else's.
func (o *Observer) ofDeployment(ctx context.Context, u *inventory.UnwellPod, name string) error {
	var d appsv1.Deployment
	switch err := o.Client.Get(ctx, client.ObjectKey{Namespace: u.Pod.Namespace, Name: name}, &d); {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading the Deployment of pod %s: %w", u.Pod, err)
	}
	u.Workload = "deployment/" + u.Pod.Namespace + "/" + name
	if s := d.Spec.ProgressDeadlineSeconds; s != nil {
		u.Deadline = time.Duration(*s) * time.Second
	}
	return nil
}

// unwellOf says whether a pod on a node is not Ready or crashes. A Job's pods are not looked at: they are let end, not moved, and a
// Job counts its failures itself.
func unwellOf(p *corev1.Pod, now time.Time) (inventory.UnwellPod, bool) {
	owner := metav1.GetControllerOf(p)
	if p.Spec.NodeName == "" || p.DeletionTimestamp != nil || kubeapi.Finished(p) || castoffsOwn(p) || owner != nil && owner.Kind == "Job" {
		return inventory.UnwellPod{}, false
	}
	crashing := slices.ContainsFunc(slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses), func(s corev1.ContainerStatus) bool { return crashes(s, now) })
	if kubeapi.Ready(p) && !crashing {
		return inventory.UnwellPod{}, false
	}
	u := inventory.UnwellPod{
		Pod: client.ObjectKeyFromObject(p), Node: p.Spec.NodeName, Since: unreadySince(p), Deadline: inventory.ProgressDeadline, Crashing: crashing,
		Workload: "pod/" + p.Namespace + "/" + p.Name,
	}
	if owner != nil {
		u.Workload = strings.ToLower(owner.Kind) + "/" + p.Namespace + "/" + owner.Name
	}
	return u, true
}

// crashes says that a container waits to be started again after a crash, or runs between two.
func crashes(s corev1.ContainerStatus, now time.Time) bool {
	if w := s.State.Waiting; w != nil {
		return w.Reason == crashLoop
	}
	r := s.State.Running
	return r != nil && s.RestartCount > 1 && now.Sub(r.StartedAt.Time) < steady
}

// unreadySince is when the pod was last Ready, or when it was made.
func unreadySince(p *corev1.Pod) time.Time {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status != corev1.ConditionTrue && !c.LastTransitionTime.IsZero() {
			return c.LastTransitionTime.Time
		}
	}
	if p.Status.StartTime != nil {
		return p.Status.StartTime.Time
	}
	return p.CreationTimestamp.Time
}

// deploymentName is the name of a pod's ReplicaSet without the template's hash, which is how Deployments name theirs.
func deploymentName(p *corev1.Pod) string {
	owner, hash := metav1.GetControllerOf(p), p.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
	if owner == nil || owner.Kind != "ReplicaSet" || hash == "" {
		return ""
	}
	name, ok := strings.CutSuffix(owner.Name, "-"+hash)
	if !ok {
		return ""
	}
	return name
}

// gateAnswers are the answers to the gates as they were when they were asked.
type gateAnswers struct {
	asked []v1alpha1.Gate
	memo[map[string]inventory.GateAnswer]
}

// askGates asks Prometheus, all gates at once. What it does not answer is an answer too: it fails no look.
func (o *Observer) askGates(ctx context.Context, gates []v1alpha1.Gate) map[string]inventory.GateAnswer {
	if !equality.Semantic.DeepEqual(o.gates.asked, gates) {
		o.gates.forget()
		o.gates.asked = gates
	}
	answers, _ := o.gates.get(ctx, o.Clock(), always[map[string]inventory.GateAnswer](gatesFresh), func(ctx context.Context) (map[string]inventory.GateAnswer, error) {
		all := make([]inventory.GateAnswer, len(gates))
		var g errgroup.Group
		g.SetLimit(mostAtOnce)
		for i, gate := range gates {
			g.Go(func() error { all[i] = o.askGate(ctx, gate); return nil })
		}
		err := g.Wait()
		out := map[string]inventory.GateAnswer{}
		for i, gate := range gates {
			out[gate.Name] = all[i]
		}
		return out, err
	})
	return answers
}

func (o *Observer) askGate(ctx context.Context, g v1alpha1.Gate) inventory.GateAnswer {
	samples, err := o.Ports.Gates.Query(ctx, g.URL, g.Query)
	if err != nil {
		return inventory.GateAnswer{Problem: err.Error(), Refused: inventory.ClassOf(err) == inventory.ClassTerminal}
	}
	return inventory.GateAnswer{Samples: samples}
}
