package controllers

import (
	"context"
	"errors"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/inventory/kubeapi"
)

// pageSize of a list: at 25 KiB a pod, the largest of what is listed, a page is 12 MiB at most, and only what the checks need is
// kept of it.
const pageSize = 500

// The workloads that were read serve for ten times as long as the read took, so that no more than a tenth of the time goes into
// them however large the cluster is; and for two minutes at most, so that whoever mended something sees it.
const (
	workloadsShare  = 10
	workloadsOldest = 2 * time.Minute
)

// workloads are those of the last read, or are read anew where it is too old.
func (o *Observer) workloads(ctx context.Context) (inventory.Workloads, error) {
	return o.readSeldom(ctx, &o.running, readWorkloads)
}

// readSeldom keeps what was read for as long as that took, times workloadsShare.
func (o *Observer) readSeldom(ctx context.Context, kept *memo[inventory.Workloads], read func(context.Context, client.Reader) (inventory.Workloads, error)) (inventory.Workloads, error) {
	var took time.Duration
	return kept.get(ctx, o.Clock(), func(inventory.Workloads) time.Duration { return min(workloadsShare*took, workloadsOldest) },
		func(ctx context.Context) (inventory.Workloads, error) {
			began := o.Clock()
			w, err := read(ctx, o.Live)
			took = o.Clock().Sub(began)
			return w, err
		})
}

// readWorkloads reads what the preflight needs of what runs in the cluster, kind by kind and page by page, so that no more than one
// page is in memory as it is. Kinds that castoff may not list are named in one error.
func readWorkloads(ctx context.Context, live client.Reader) (inventory.Workloads, error) {
	r := workloadReader{live: live, shapes: newInterner()}
	return r.read(ctx, r.pods, r.budgets, r.deployments, r.statefulSets, r.daemonSets, r.replicaSets, r.replicationControllers, r.jobs, r.cronJobs,
		r.claims, r.autoscalers, r.webhooks, r.limitRanges)
}

// readTemplates reads what makes pods that a scaler launches nodes for, and the pods that wait for one.
func readTemplates(ctx context.Context, live client.Reader) (inventory.Workloads, error) {
	r := workloadReader{live: live, shapes: newInterner()}
	return r.read(ctx, r.waitingPods, r.deployments, r.statefulSets, r.replicaSets, r.replicationControllers, r.jobs, r.cronJobs)
}

func (r *workloadReader) read(ctx context.Context, kinds ...func(context.Context) error) (inventory.Workloads, error) {
	var refused []error
	for _, read := range kinds {
		switch err := read(ctx); {
		case apierrors.IsForbidden(err):
			refused = append(refused, err)
		case err != nil:
			return r.out, err
		}
	}
	if len(refused) > 0 {
		return r.out, fmt.Errorf("the preflight may not read all that it has to, and does not judge by half: grant get and list of what follows, as charts/castoff does: %w",
			errors.Join(refused...))
	}
	return r.out, nil
}

// each visits every object of the list's kind, page by page. The list is only a sample of its kind.
func each[T client.Object](ctx context.Context, live client.Reader, list client.ObjectList, visit func(T), opts ...client.ListOption) error {
	for next := ""; ; {
		page, ok := list.DeepCopyObject().(client.ObjectList)
		if !ok {
			return fmt.Errorf("%T is no list", list)
		}
		if err := live.List(ctx, page, append(opts, client.Limit(pageSize), client.Continue(next))...); err != nil {
			return err
		}
		err := meta.EachListItem(page, func(o runtime.Object) error {
			item, ok := o.(T)
			if !ok {
				return fmt.Errorf("%T in a list of %T", o, list)
			}
			visit(item)
			return nil
		})
		if err != nil {
			return err
		}
		if next = page.GetContinue(); next == "" {
			return nil
		}
	}
}

func (o *Observer) eachPod(ctx context.Context, visit func(*corev1.Pod), opts ...client.ListOption) error {
	if err := each(ctx, o.Live, &corev1.PodList{}, visit, opts...); err != nil {
		return fmt.Errorf("listing pods: %w", err)
	}
	return nil
}

// workloadReader reads the workloads into out.
type workloadReader struct {
	live   client.Reader
	shapes *interner
	scopes []scope // of out.Webhooks, in their order
	out    inventory.Workloads
}

func (r *workloadReader) pods(ctx context.Context) error {
	return named("pods", each(ctx, r.live, &corev1.PodList{}, func(p *corev1.Pod) {
		if kubeapi.Finished(p) || castoffsOwn(p) {
			return
		}
		r.out.Pods = append(r.out.Pods, r.shapes.pod(p))
		if waits(p) {
			r.out.Pending++
		}
	}))
}

// waitingPods are those without a node, whoever made them.
func (r *workloadReader) waitingPods(ctx context.Context) error {
	return named("pods", each(ctx, r.live, &corev1.PodList{}, func(p *corev1.Pod) {
		if !kubeapi.Finished(p) && !castoffsOwn(p) {
			r.out.Pods = append(r.out.Pods, r.shapes.pod(p))
		}
	}, client.MatchingFields{"spec.nodeName": ""}))
}

func (r *workloadReader) budgets(ctx context.Context) error {
	return named("PodDisruptionBudgets", each(ctx, r.live, &policyv1.PodDisruptionBudgetList{}, func(b *policyv1.PodDisruptionBudget) {
		b.ManagedFields, b.Annotations = nil, nil
		r.out.Budgets = append(r.out.Budgets, *b)
	}))
}

func (r *workloadReader) deployments(ctx context.Context) error {
	return named("Deployments", each(ctx, r.live, &appsv1.DeploymentList{}, func(d *appsv1.Deployment) {
		r.add("Deployment", d, &d.Spec.Template, inventory.Controller{Replicas: ptr.Deref(d.Spec.Replicas, 1), KeepsAll: inventory.KeepsAll(d)})
	}))
}

func (r *workloadReader) statefulSets(ctx context.Context) error {
	return named("StatefulSets", each(ctx, r.live, &appsv1.StatefulSetList{}, func(s *appsv1.StatefulSet) {
		r.add("StatefulSet", s, &s.Spec.Template, inventory.Controller{Replicas: ptr.Deref(s.Spec.Replicas, 1)})
	}))
}

func (r *workloadReader) daemonSets(ctx context.Context) error {
	return named("DaemonSets", each(ctx, r.live, &appsv1.DaemonSetList{}, func(d *appsv1.DaemonSet) {
		r.add("DaemonSet", d, &d.Spec.Template, inventory.Controller{Replicas: d.Status.DesiredNumberScheduled})
	}))
}

// replicaSets are those that stand for themselves. Of those that another controller than a Deployment has (Argo Rollouts, for one),
// the ones of earlier revisions make nothing any more.
func (r *workloadReader) replicaSets(ctx context.Context) error {
	return named("ReplicaSets", each(ctx, r.live, &appsv1.ReplicaSetList{}, func(s *appsv1.ReplicaSet) {
		owner, replicas := metav1.GetControllerOf(s), ptr.Deref(s.Spec.Replicas, 1)
		if owner != nil && (owner.Kind == "Deployment" || replicas == 0) {
			return
		}
		r.add("ReplicaSet", s, &s.Spec.Template, inventory.Controller{Replicas: replicas})
	}))
}

func (r *workloadReader) replicationControllers(ctx context.Context) error {
	return named("ReplicationControllers", each(ctx, r.live, &corev1.ReplicationControllerList{}, func(c *corev1.ReplicationController) {
		owner, replicas := metav1.GetControllerOf(c), ptr.Deref(c.Spec.Replicas, 1)
		if c.Spec.Template != nil && (owner == nil || replicas > 0) {
			r.add("ReplicationController", c, c.Spec.Template, inventory.Controller{Replicas: replicas})
		}
	}))
}

// jobs are those that are not over and that no CronJob stands for.
func (r *workloadReader) jobs(ctx context.Context) error {
	return named("Jobs", each(ctx, r.live, &batchv1.JobList{}, func(j *batchv1.Job) {
		if owner := metav1.GetControllerOf(j); over(j) || owner != nil && owner.Kind == "CronJob" {
			return
		}
		r.add("Job", j, &j.Spec.Template, inventory.Controller{Replicas: ptr.Deref(j.Spec.Parallelism, 1), Suspended: ptr.Deref(j.Spec.Suspend, false)})
	}))
}

func (r *workloadReader) cronJobs(ctx context.Context) error {
	return named("CronJobs", each(ctx, r.live, &batchv1.CronJobList{}, func(c *batchv1.CronJob) {
		job := c.Spec.JobTemplate.Spec
		r.add("CronJob", c, &job.Template, inventory.Controller{Replicas: ptr.Deref(job.Parallelism, 1), Suspended: ptr.Deref(c.Spec.Suspend, false)})
	}))
}

// claims are the bound claims whose volume has a say in where a pod may run.
func (r *workloadReader) claims(ctx context.Context) error {
	volumes := map[types.NamespacedName]inventory.Claim{}
	err := named("PersistentVolumes", each(ctx, r.live, &corev1.PersistentVolumeList{}, func(v *corev1.PersistentVolume) {
		if c := claimOf(v); c.Local || c.Affinity != nil {
			volumes[c.NamespacedName] = c
		}
	}))
	if err != nil {
		return err
	}
	return named("PersistentVolumeClaims", each(ctx, r.live, &corev1.PersistentVolumeClaimList{}, func(c *corev1.PersistentVolumeClaim) {
		bound, ok := volumes[client.ObjectKeyFromObject(c)]
		if ok && bound.Volume == c.Spec.VolumeName {
			r.out.Claims = append(r.out.Claims, bound)
		}
	}))
}

func (r *workloadReader) autoscalers(ctx context.Context) error {
	return named("HorizontalPodAutoscalers", each(ctx, r.live, &autoscalingv2.HorizontalPodAutoscalerList{}, func(h *autoscalingv2.HorizontalPodAutoscaler) {
		r.out.Autoscalers = append(r.out.Autoscalers, inventory.PodAutoscaler{
			Namespace: h.Namespace, Name: h.Name, Kind: h.Spec.ScaleTargetRef.Kind, Target: h.Spec.ScaleTargetRef.Name,
			Min: ptr.Deref(h.Spec.MinReplicas, 1), Max: h.Spec.MaxReplicas,
		})
	}))
}

// webhooks are those that a Service of the cluster answers and whose silence is a no, with the Services' selectors.
func (r *workloadReader) webhooks(ctx context.Context) error {
	err := named("ValidatingWebhookConfigurations", each(ctx, r.live, &admissionv1.ValidatingWebhookConfigurationList{}, func(c *admissionv1.ValidatingWebhookConfiguration) {
		for _, w := range c.Webhooks {
			r.webhook("validatingwebhookconfiguration/"+c.Name, w.Name, w.FailurePolicy, w.ClientConfig, w.Rules, scope{w.NamespaceSelector, w.ObjectSelector})
		}
	}))
	if err != nil {
		return err
	}
	err = named("MutatingWebhookConfigurations", each(ctx, r.live, &admissionv1.MutatingWebhookConfigurationList{}, func(c *admissionv1.MutatingWebhookConfiguration) {
		for _, w := range c.Webhooks {
			r.webhook("mutatingwebhookconfiguration/"+c.Name, w.Name, w.FailurePolicy, w.ClientConfig, w.Rules, scope{w.NamespaceSelector, w.ObjectSelector})
		}
	}))
	if err != nil {
		return err
	}
	return r.selectors(ctx)
}

func (r *workloadReader) webhook(configuration, name string, policy *admissionv1.FailurePolicyType, to admissionv1.WebhookClientConfig, rules []admissionv1.RuleWithOperations, of scope) {
	if to.Service == nil || policy != nil && *policy != admissionv1.Fail { // the API's default is Fail
		return
	}
	r.out.Webhooks = append(r.out.Webhooks, inventory.Webhook{
		Configuration: configuration, Name: name, Pods: aboutPods(rules),
		Service: types.NamespacedName{Namespace: to.Service.Namespace, Name: to.Service.Name},
	})
	r.scopes = append(r.scopes, of)
}

// selectors asks for each Service once. One that is missing selects nothing: that its webhook always refuses is the check's to say.
func (r *workloadReader) selectors(ctx context.Context) error {
	known := map[types.NamespacedName]map[string]string{}
	for i := range r.out.Webhooks {
		name := r.out.Webhooks[i].Service
		if _, asked := known[name]; !asked {
			var s corev1.Service
			if err := client.IgnoreNotFound(r.live.Get(ctx, name, &s)); err != nil {
				return fmt.Errorf("reading the Service %s of an admission webhook: %w", name, err)
			}
			known[name] = s.Spec.Selector
		}
		r.out.Webhooks[i].Selector = known[name]
		r.out.Webhooks[i].Own = r.out.Webhooks[i].Pods && r.scopes[i].covers(name.Namespace, known[name])
	}
	return nil
}

func (r *workloadReader) limitRanges(ctx context.Context) error {
	return named("LimitRanges", each(ctx, r.live, &corev1.LimitRangeList{}, func(l *corev1.LimitRange) {
		l.ManagedFields, l.Annotations = nil, nil
		r.out.LimitRanges = append(r.out.LimitRanges, *l)
	}))
}

// add keeps a controller with what its template makes.
func (r *workloadReader) add(kind string, o metav1.Object, template *corev1.PodTemplateSpec, c inventory.Controller) {
	c.Kind, c.Namespace, c.Name, c.Owner = kind, o.GetNamespace(), o.GetName(), inventory.OwnerOf(o)
	c.PodLabels, c.PodAnnotations = r.shapes.strings(template.Labels), r.shapes.strings(movingAnnotations(template.Annotations))
	s := shapeOf(&template.Spec)
	s.NodeName = template.Spec.NodeName
	c.Shape = r.shapes.shape(s)
	r.out.Controllers = append(r.out.Controllers, c)
}

// named says what could not be listed.
func named(kind string, err error) error {
	if err != nil {
		return fmt.Errorf("listing %s: %w", kind, err)
	}
	return nil
}
