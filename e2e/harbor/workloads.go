package harbor

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/castoff-sh/castoff/e2e/lab"
)

const (
	shop = "shop"
	ops  = "ops"
	// agent is the DaemonSet that is rolled in the middle of the migration.
	agent = "node-agent"
)

// app is a Deployment or StatefulSet of the scene.
type app struct {
	name           string
	tier           string
	replicas       int32
	cpu, memory    string
	minAvailable   string // at most one of the two, none: no budget
	maxUnavailable string
}

// deployments fill the nodes to some 85 percent of their CPU: with room to breathe, with none to lose a node unnoticed.
var deployments = []app{
	{name: "web", tier: General, replicas: 16, cpu: "300m", memory: "512Mi", maxUnavailable: "25%"},
	{name: "api", tier: General, replicas: 14, cpu: "300m", memory: "768Mi", minAvailable: "80%"},
	{name: "checkout", tier: General, replicas: 6, cpu: "400m", memory: "512Mi", maxUnavailable: "1"},
	{name: "catalog", tier: General, replicas: 16, cpu: "250m", memory: "1Gi"},
	{name: "search", tier: Memory, replicas: 8, cpu: "350m", memory: "3Gi", maxUnavailable: "2"},
	{name: "cache", tier: Memory, replicas: 8, cpu: "250m", memory: "3Gi"},
	{name: "worker", tier: Batch, replicas: 16, cpu: "250m", memory: "512Mi"},
	{name: "reports", tier: Batch, replicas: 8, cpu: "250m", memory: "512Mi", minAvailable: "50%"},
	{name: "billing", tier: General, replicas: 1, cpu: "500m", memory: "1Gi"}, // the single replica
}

var orders = app{name: "orders", tier: General, replicas: 5, cpu: "400m", memory: "1Gi", maxUnavailable: "1"}

// Workloads are all objects of the scene's users, in the order in which they can be made.
func Workloads() []client.Object {
	objects := []client.Object{namespace(shop), namespace(ops), daemonSet()}
	for _, a := range deployments {
		objects = append(objects, deployment(a))
		if budget := a.budget(); budget != nil {
			objects = append(objects, budget)
		}
	}
	return append(objects, statefulSet(orders), orders.budget(), importJob())
}

func namespace(name string) client.Object {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func (a app) labels() map[string]string { return map[string]string{"app": a.name} }

func (a app) meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: a.name, Namespace: shop, Labels: a.labels()}
}

// template takes two seconds to be Ready and one to go.
func (a app) template() corev1.PodTemplateSpec {
	spec := corev1.PodSpec{
		NodeSelector:                  map[string]string{labelTier: a.tier},
		TerminationGracePeriodSeconds: ptr.To[int64](10),
		Containers: []corev1.Container{{
			Name: a.name, Image: "registry.example.com/harbor/" + a.name + ":v1",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(a.cpu), corev1.ResourceMemory: resource.MustParse(a.memory)}},
		}},
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: &metav1.LabelSelector{MatchLabels: a.labels()},
		}},
	}
	if a.tier == Memory {
		spec.Tolerations = []corev1.Toleration{{Key: taintDedicated, Operator: corev1.TolerationOpEqual, Value: Memory, Effect: corev1.TaintEffectNoSchedule}}
	}
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: a.labels(), Annotations: map[string]string{lab.AnnotationStartup: "2s"}},
		Spec:       spec,
	}
}

func deployment(a app) client.Object {
	return &appsv1.Deployment{ObjectMeta: a.meta(), Spec: appsv1.DeploymentSpec{
		Replicas: &a.replicas, Selector: &metav1.LabelSelector{MatchLabels: a.labels()}, Template: a.template(),
	}}
}

func statefulSet(a app) client.Object {
	return &appsv1.StatefulSet{ObjectMeta: a.meta(), Spec: appsv1.StatefulSetSpec{
		Replicas: &a.replicas, Selector: &metav1.LabelSelector{MatchLabels: a.labels()}, Template: a.template(),
		ServiceName: a.name, PodManagementPolicy: appsv1.ParallelPodManagement,
	}}
}

// budget is nil for an app without one.
func (a app) budget() client.Object {
	if a.minAvailable == "" && a.maxUnavailable == "" {
		return nil
	}
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: a.meta(), Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: a.labels()}}}
	if a.minAvailable != "" {
		budget.Spec.MinAvailable = ptr.To(intstr.Parse(a.minAvailable))
	} else {
		budget.Spec.MaxUnavailable = ptr.To(intstr.Parse(a.maxUnavailable))
	}
	return budget
}

// daemonSet tolerates nothing, so it is not on the memory group, and a taint of castoff's would keep it from its nodes.
func daemonSet() client.Object {
	labels := map[string]string{"app": agent}
	return &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: agent, Namespace: ops, Labels: labels}, Spec: appsv1.DaemonSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: appsv1.RollingUpdateDaemonSetStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: ptr.To(intstr.FromInt32(3))}},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: agent, Image: "registry.example.com/harbor/node-agent:v1",
				// Less than what any mix of the workloads leaves free of a node: a pod that was evicted meanwhile may take the room
				// that Karpenter kept for it, before Kubernetes makes it.
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("16Mi")}}}},
		}},
	}}
}

// importJob runs for some minutes and asks Cluster Autoscaler not to take its node.
func importJob() client.Object {
	template := app{name: "import", tier: Batch, cpu: "200m", memory: "256Mi"}.template()
	template.Annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"] = "false"
	template.Annotations[lab.AnnotationDuration] = "90s"
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "import", Namespace: shop}, Spec: batchv1.JobSpec{
		Parallelism: ptr.To[int32](2), Completions: ptr.To[int32](2), BackoffLimit: ptr.To[int32](6), Template: template,
	}}
}
