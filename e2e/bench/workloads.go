package bench

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
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
	// startup is how long a pod takes from its node to being Ready.
	startup = 10 * time.Second
	// bootDelay is from an instance's running to its joining; it is pending for a second before.
	bootDelay = 30 * time.Second
	launch    = time.Second + bootDelay
	// namespace of all workloads.
	namespace = "bench"
	// nodeMilliCPU is what pods may ask of an m5.xlarge, the DaemonSet's and a little more put aside.
	nodeMilliCPU = 3750
)

// app is a workload of a team.
type app struct {
	name     string
	replicas int32
	// budget is a maxUnavailable, none if empty.
	budget string
	// stateful is a StatefulSet.
	stateful bool
}

// team is a quarter of a hundred pods: most with a budget, some without, two that are alone, and a StatefulSet.
var team = []app{
	{name: "web", replicas: 10, budget: "25%"},
	{name: "api", replicas: 6, budget: "1"},
	{name: "queue", replicas: 4},
	{name: "cron", replicas: 1},
	{name: "admin", replicas: 1},
	{name: "db", replicas: 3, budget: "1", stateful: true},
}

const teamPods = 25

// workloads are those of as many teams as it takes, the same for the same size.
func (s size) workloads() []client.Object {
	objects := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, agent()}
	for t := range s.pods / teamPods {
		for _, a := range team {
			a.name = fmt.Sprintf("%s-%d", a.name, t)
			objects = append(objects, a.object(s.milliCPU()))
			if a.budget != "" {
				objects = append(objects, a.budgetObject())
			}
		}
	}
	return objects
}

// milliCPU fills nodes as far as pods can be spread over them evenly.
func (s size) milliCPU() int64 {
	perNode := int64((s.pods + s.nodes - 1) / s.nodes)
	return nodeMilliCPU / perNode
}

// loads are what the bounds are made of.
func (s size) loads() []Load {
	var out []Load
	for _, a := range team {
		load := Load{Pods: int(a.replicas)}
		if a.budget != "" {
			parsed := intstr.Parse(a.budget)
			load.AtOnce, _ = intstr.GetScaledValueFromIntOrPercent(&parsed, int(a.replicas), true) // as the disruption controller rounds
		}
		out = append(out, load)
	}
	teams := s.pods / teamPods
	all := make([]Load, 0, teams*len(out))
	for range teams {
		all = append(all, out...)
	}
	return all
}

func (a app) meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: a.name, Labels: a.labels()}
}

func (a app) labels() map[string]string { return map[string]string{"app": a.name} }

func (a app) object(milliCPU int64) client.Object {
	selector := &metav1.LabelSelector{MatchLabels: a.labels()}
	if a.stateful {
		return &appsv1.StatefulSet{ObjectMeta: a.meta(), Spec: appsv1.StatefulSetSpec{
			Replicas: &a.replicas, Selector: selector, Template: a.template(milliCPU), ServiceName: a.name, PodManagementPolicy: appsv1.ParallelPodManagement,
		}}
	}
	return &appsv1.Deployment{ObjectMeta: a.meta(), Spec: appsv1.DeploymentSpec{
		Replicas: &a.replicas, Selector: selector, Template: a.template(milliCPU),
		// Where a surge is asked for it may be used: a Deployment that lets none lack.
		Strategy: appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{
			MaxUnavailable: ptr.To(intstr.FromInt32(0)), MaxSurge: ptr.To(intstr.FromString("25%")),
		}},
	}}
}

func (a app) template(milliCPU int64) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: a.labels(), Annotations: map[string]string{lab.AnnotationStartup: startup.String()}},
		Spec: corev1.PodSpec{
			NodeSelector:                  map[string]string{"harbor.example/tier": "general"},
			TerminationGracePeriodSeconds: ptr.To[int64](10),
			Containers: []corev1.Container{{
				Name: "app", Image: "registry.example.com/bench/app:v1",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceCPU: *resource.NewMilliQuantity(milliCPU, resource.DecimalSI), corev1.ResourceMemory: resource.MustParse("512Mi"),
				}},
			}},
			TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: &metav1.LabelSelector{MatchLabels: a.labels()},
			}},
		},
	}
}

func (a app) budgetObject() client.Object {
	return &policyv1.PodDisruptionBudget{ObjectMeta: a.meta(), Spec: policyv1.PodDisruptionBudgetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: a.labels()}, MaxUnavailable: ptr.To(intstr.Parse(a.budget)),
	}}
}

// agent is on every node.
func agent() client.Object {
	labels := map[string]string{"app": "agent"}
	return &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "agent", Namespace: namespace, Labels: labels}, Spec: appsv1.DaemonSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "agent", Image: "registry.example.com/bench/agent:v1",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("16Mi")}}}},
		}},
	}}
}
