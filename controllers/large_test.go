package controllers

import (
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/castoff-sh/castoff/pkg/inventory"
	"github.com/castoff-sh/castoff/pkg/preflight"
)

// largeCluster is a cluster of so many nodes and pods: on each node three pods of DaemonSets, one pod in fifteen of a StatefulSet of
// ten with a volume each, the others of Deployments of twenty, each with the ten revisions that Kubernetes keeps. A budget, and an
// autoscaler, for every second Deployment. Objects are as long as real ones: environment, probes, managed fields, statuses.
func largeCluster(nodes, pods int) map[string]generated {
	daemons, stateful := 3*nodes, pods/15
	deployments := (pods - daemons - stateful) / 20
	claims := stateful
	return map[string]generated{
		"nodes": {&corev1.NodeList{}, nodes, largeNode},
		"pods":  {&corev1.PodList{}, pods, func(i int) runtime.Object { return largePod(i, nodes, daemons, stateful) }},
		"poddisruptionbudgets": {&policyv1.PodDisruptionBudgetList{}, deployments / 2, func(i int) runtime.Object {
			return &policyv1.PodDisruptionBudget{
				ObjectMeta: large(spaceOf(2*i), fmt.Sprintf("web-%d", 2*i)),
				Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: ptr.To(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprintf("web-%d", 2*i)}}},
				Status:     policyv1.PodDisruptionBudgetStatus{ExpectedPods: 20, CurrentHealthy: 20, DesiredHealthy: 19, DisruptionsAllowed: 1},
			}
		}},
		"deployments": {&appsv1.DeploymentList{}, deployments, func(i int) runtime.Object {
			return &appsv1.Deployment{ObjectMeta: large(spaceOf(i), fmt.Sprintf("web-%d", i)), Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](20), Template: largeTemplate(i)}}
		}},
		"replicasets": {&appsv1.ReplicaSetList{}, 10 * deployments, func(i int) runtime.Object {
			s := &appsv1.ReplicaSet{ObjectMeta: large(spaceOf(i/10), fmt.Sprintf("web-%d-%d", i/10, i%10)), Spec: appsv1.ReplicaSetSpec{Replicas: ptr.To[int32](0), Template: largeTemplate(i / 10)}}
			s.OwnerReferences = ownedBy("apps/v1", "Deployment", fmt.Sprintf("web-%d", i/10))
			return s
		}},
		"statefulsets": {&appsv1.StatefulSetList{}, stateful / 10, func(i int) runtime.Object {
			return &appsv1.StatefulSet{ObjectMeta: large(spaceOf(i), fmt.Sprintf("db-%d", i)), Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](10), Template: largeTemplate(i)}}
		}},
		"daemonsets": {&appsv1.DaemonSetList{}, 3, func(i int) runtime.Object {
			return &appsv1.DaemonSet{ObjectMeta: large("kube-system", fmt.Sprintf("agent-%d", i)), Spec: appsv1.DaemonSetSpec{Template: largeTemplate(i)}, Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: int32(nodes)}}
		}},
		"replicationcontrollers": {&corev1.ReplicationControllerList{}, 0, nil},
		"jobs": {&batchv1.JobList{}, deployments, func(i int) runtime.Object {
			j := &batchv1.Job{ObjectMeta: large(spaceOf(i), fmt.Sprintf("night-%d", i)), Spec: batchv1.JobSpec{Template: largeTemplate(i)}}
			j.OwnerReferences = ownedBy("batch/v1", "CronJob", fmt.Sprintf("night-%d", i/4))
			return j
		}},
		"cronjobs": {&batchv1.CronJobList{}, deployments / 4, func(i int) runtime.Object {
			return &batchv1.CronJob{ObjectMeta: large(spaceOf(i), fmt.Sprintf("night-%d", i)), Spec: batchv1.CronJobSpec{JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: largeTemplate(i)}}}}
		}},
		"persistentvolumes":      {&corev1.PersistentVolumeList{}, claims, largeVolume},
		"persistentvolumeclaims": {&corev1.PersistentVolumeClaimList{}, claims, largeClaim},
		"horizontalpodautoscalers": {&autoscalingv2.HorizontalPodAutoscalerList{}, deployments / 2, func(i int) runtime.Object {
			return &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: large(spaceOf(i), fmt.Sprintf("web-%d", i)), Spec: autoscalingv2.HorizontalPodAutoscalerSpec{MaxReplicas: 40, ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{Kind: "Deployment", Name: fmt.Sprintf("web-%d", i)}}}
		}},
		"limitranges": {&corev1.LimitRangeList{}, 30, func(i int) runtime.Object {
			return &corev1.LimitRange{ObjectMeta: large(spaceOf(i), "defaults"), Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer}}}}
		}},
		"validatingwebhookconfigurations": {&admissionv1.ValidatingWebhookConfigurationList{}, 20, func(i int) runtime.Object {
			return &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: large("", fmt.Sprintf("policy-%d", i)), Webhooks: []admissionv1.ValidatingWebhook{{
				Name: "policy.example.com", ClientConfig: admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "policy", Name: "policy"}},
				Rules: []admissionv1.RuleWithOperations{{Operations: []admissionv1.OperationType{admissionv1.Create}, Rule: admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}}}},
			}}}
		}},
		"mutatingwebhookconfigurations": {&admissionv1.MutatingWebhookConfigurationList{}, 0, nil},
		"services": {&corev1.ServiceList{}, 1, func(int) runtime.Object {
			return &corev1.Service{ObjectMeta: large("policy", "policy"), Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "policy"}}}
		}},
	}
}

func spaceOf(i int) string { return fmt.Sprintf("team-%d", i%60) }

// large is the metadata of an object that kubectl and two controllers wrote.
func large(namespace, name string) metav1.ObjectMeta {
	fields := []byte(`{"f:metadata":{"f:labels":{".":{},` + strings.Repeat(`"f:app.kubernetes.io/part-of":{},`, 20) + `"f:app":{}}}}`)
	return metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID(namespace + "/" + name), ResourceVersion: "1",
		Annotations: map[string]string{"kubectl.kubernetes.io/last-applied-configuration": strings.Repeat("x", 500)},
		ManagedFields: []metav1.ManagedFieldsEntry{
			{Manager: "kubectl", Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(string(fields))},
			{Manager: "kube-controller-manager", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(string(fields))},
		},
	}
}

func ownedBy(version, kind, name string) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: name, UID: types.UID(kind + name), Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true)}}
}

func largeNode(i int) runtime.Object {
	n := &corev1.Node{ObjectMeta: large("", nodeName(i)), Spec: corev1.NodeSpec{ProviderID: fmt.Sprintf("aws:///us-east-1a/i-%017d", i)}}
	n.Labels = map[string]string{corev1.LabelHostname: n.Name, corev1.LabelTopologyZone: zoneOf(i), corev1.LabelInstanceTypeStable: "m6i.2xlarge", "eks.amazonaws.com/nodegroup": fmt.Sprintf("g%d", i%20)}
	n.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: quantity.MustParse("7910m"), corev1.ResourceMemory: quantity.MustParse("30Gi"), corev1.ResourcePods: quantity.MustParse("58")}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	for j := range 40 {
		n.Status.Images = append(n.Status.Images, corev1.ContainerImage{Names: []string{fmt.Sprintf("registry.example.com/team/image-%d@sha256:%064d", j, j)}, SizeBytes: 1 << 28})
	}
	return n
}

func nodeName(i int) string {
	return fmt.Sprintf("ip-10-%d-%d-%d.ec2.internal", i/65536, i/256%256, i%256)
}

func zoneOf(i int) string { return "us-east-1" + string(rune('a'+i%3)) }

// largePod is the pod of that number: first those of DaemonSets, then of StatefulSets, then of Deployments.
func largePod(i, nodes, daemons, stateful int) runtime.Object {
	template, owner, claim := 0, "", ""
	p := &corev1.Pod{}
	switch {
	case i < daemons:
		template, owner = i%3, "DaemonSet"
		p.ObjectMeta = large("kube-system", fmt.Sprintf("agent-%d-%05d", template, i))
		p.OwnerReferences = ownedBy("apps/v1", owner, fmt.Sprintf("agent-%d", template))
	case i < daemons+stateful:
		template, owner = (i-daemons)/10, "StatefulSet"
		p.ObjectMeta = large(spaceOf(template), fmt.Sprintf("db-%d-%d", template, i%10))
		p.OwnerReferences = ownedBy("apps/v1", owner, fmt.Sprintf("db-%d", template))
		claim = "data-" + p.Name
	default:
		template, owner = (i-daemons-stateful)/20, "ReplicaSet"
		p.ObjectMeta = large(spaceOf(template), fmt.Sprintf("web-%d-7c9f8d6b54-%05d", template, i))
		p.OwnerReferences = ownedBy("apps/v1", owner, fmt.Sprintf("web-%d-7c9f8d6b54", template))
	}
	t := largeTemplate(template)
	p.Labels, p.Spec = t.Labels, t.Spec
	if claim != "" {
		p.Labels["statefulset.kubernetes.io/pod-name"] = p.Name
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}})
	}
	p.Spec.NodeName = nodeName(i % nodes)
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1", HostIP: "10.0.0.2", QOSClass: corev1.PodQOSBurstable}
	for _, kind := range []corev1.PodConditionType{corev1.PodReady, corev1.ContainersReady, corev1.PodInitialized, corev1.PodScheduled, corev1.PodReadyToStartContainers} {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()})
	}
	for _, c := range p.Spec.Containers {
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Ready: true, Image: c.Image, ImageID: fmt.Sprintf("%s@sha256:%064d", c.Image, i), ContainerID: fmt.Sprintf("containerd://%064d", i),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
		})
	}
	return p
}

// largeTemplate has two containers, and the environment of an ordinary service.
func largeTemplate(i int) corev1.PodTemplateSpec {
	var env []corev1.EnvVar
	for j := range 25 {
		env = append(env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%d", j), Value: fmt.Sprintf("https://service-%d.team-%d.svc.cluster.local:8080/path", j, i)})
	}
	container := func(name string) corev1.Container {
		return corev1.Container{
			Name: name, Image: fmt.Sprintf("registry.example.com/team/%s-%d:v1.2.3", name, i), Env: env,
			Resources:     corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: quantity.MustParse("200m"), corev1.ResourceMemory: quantity.MustParse("512Mi")}},
			Ports:         []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
			LivenessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromString("http")}}},
			VolumeMounts:  []corev1.VolumeMount{{Name: "kube-api-access", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true}},
		}
	}
	app := fmt.Sprintf("web-%d", i)
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app, "pod-template-hash": "7c9f8d6b54", "app.kubernetes.io/part-of": "shop", "app.kubernetes.io/version": "1.2.3", "team": spaceOf(i)}},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{container("app"), container("proxy")}, ServiceAccountName: app, SchedulerName: corev1.DefaultSchedulerName,
			Tolerations: []corev1.Toleration{
				{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To[int64](300)},
				{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To[int64](300)},
			},
			Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
				{Weight: 100, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}},
			}}},
			TopologySpreadConstraints: []corev1.TopologySpreadConstraint{
				{MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
			},
			Volumes: []corev1.Volume{
				{Name: "kube-api-access", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}}}}},
				{Name: "cache", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			},
		},
	}
}

func largeVolume(i int) runtime.Object {
	name := fmt.Sprintf("data-db-%d-%d", i/10, i%10)
	v := &corev1.PersistentVolume{ObjectMeta: large("", fmt.Sprintf("pvc-%d", i))}
	v.Spec = corev1.PersistentVolumeSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, ClaimRef: &corev1.ObjectReference{Namespace: spaceOf(i / 10), Name: name},
		NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
			{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{zoneOf(i)}}}},
		}}},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "ebs.csi.aws.com", VolumeHandle: fmt.Sprintf("vol-%017d", i)}},
	}
	return v
}

func largeClaim(i int) runtime.Object {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: large(spaceOf(i/10), fmt.Sprintf("data-db-%d-%d", i/10, i%10)),
		Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: fmt.Sprintf("pvc-%d", i)},
	}
}

// preflightOf is what the checks look at in the large cluster: twenty node groups that become twenty pools.
func preflightOf(nodes []inventory.Node, workloads inventory.Workloads) preflight.Input {
	in := preflight.Input{ClusterName: "large", ClusterFound: true, Cluster: inventory.Cluster{Name: "large", Same: true}, Home: "home", Workloads: workloads, Targets: map[string]inventory.Target{}}
	for i := range 20 {
		name := fmt.Sprintf("g%d", i)
		in.Groups = append(in.Groups, inventory.NodeGroup{Name: name})
		in.Pools = append(in.Pools, inventory.Pool{Name: name, NodeGroups: []string{name}})
		in.Targets[name] = inventory.Target{Pool: name}
	}
	for i := range nodes {
		nodes[i].Group = nodes[i].Labels["eks.amazonaws.com/nodegroup"]
	}
	in.Nodes = nodes
	return in
}
