package controllers

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

func meta1(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func controlled(o metav1.ObjectMeta, version, kind, name string) metav1.ObjectMeta {
	o.OwnerReferences = []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: name, UID: types.UID(name), Controller: ptr.To(true)}}
	return o
}

func simpleTemplate() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"karpenter.sh/do-not-disrupt": "true", "prometheus.io/scrape": "true"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "web:1"}}},
	}
}

// read is what is read of a cluster with these objects.
func read(t *testing.T, objects ...client.Object) inventory.Workloads {
	t.Helper()
	w := newWorld(t)
	for _, o := range objects {
		w.must(w.c.Create(t.Context(), o))
	}
	got, err := readWorkloads(t.Context(), w.c)
	w.must(err)
	return got
}

func TestControllers(t *testing.T) {
	cases := map[string]struct {
		reason string
		object client.Object
		want   *inventory.Controller
	}{
		"Deployment": {
			reason: "replicas default to 1, of which the default strategy takes none away",
			object: &appsv1.Deployment{ObjectMeta: meta1("shop", "web"), Spec: appsv1.DeploymentSpec{Template: simpleTemplate()}},
			want:   &inventory.Controller{Kind: "Deployment", Namespace: "shop", Name: "web", Replicas: 1, KeepsAll: true},
		},
		"ScaledToNothing": {
			reason: "it makes pods at night",
			object: &appsv1.Deployment{ObjectMeta: meta1("shop", "web"), Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](0), Template: simpleTemplate(), Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}}},
			want:   &inventory.Controller{Kind: "Deployment", Namespace: "shop", Name: "web"},
		},
		"OfAnOperator": {
			reason: "what an operator makes is named with the operator's object",
			object: &appsv1.StatefulSet{ObjectMeta: controlled(meta1("shop", "db"), "acid.zalan.do/v1", "postgresql", "main"), Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](3), Template: simpleTemplate()}},
			want:   &inventory.Controller{Kind: "StatefulSet", Namespace: "shop", Name: "db", Replicas: 3, Owner: "postgresql main"},
		},
		"DaemonSet": {
			reason: "as many as the nodes it wants to be on",
			object: &appsv1.DaemonSet{ObjectMeta: meta1("shop", "agent"), Spec: appsv1.DaemonSetSpec{Template: simpleTemplate()}, Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 7}},
			want:   &inventory.Controller{Kind: "DaemonSet", Namespace: "shop", Name: "agent", Replicas: 7},
		},
		"ReplicaSetOfADeployment": {reason: "the Deployment stands for it", object: &appsv1.ReplicaSet{ObjectMeta: controlled(meta1("shop", "rs"), "apps/v1", "Deployment", "web"), Spec: appsv1.ReplicaSetSpec{Replicas: ptr.To[int32](2), Template: simpleTemplate()}}},
		"ReplicaSetOfARollout": {
			reason: "nothing else that is read stands for it",
			object: &appsv1.ReplicaSet{ObjectMeta: controlled(meta1("shop", "rs"), "argoproj.io/v1alpha1", "Rollout", "web"), Spec: appsv1.ReplicaSetSpec{Replicas: ptr.To[int32](2), Template: simpleTemplate()}},
			want:   &inventory.Controller{Kind: "ReplicaSet", Namespace: "shop", Name: "rs", Replicas: 2, Owner: "Rollout web"},
		},
		"EarlierRevision": {reason: "a Rollout's earlier revision makes nothing any more", object: &appsv1.ReplicaSet{ObjectMeta: controlled(meta1("shop", "rs"), "argoproj.io/v1alpha1", "Rollout", "web"), Spec: appsv1.ReplicaSetSpec{Replicas: ptr.To[int32](0), Template: simpleTemplate()}}},
		"BareReplicaSet": {
			reason: "stands for itself, at 0 too",
			object: &appsv1.ReplicaSet{ObjectMeta: meta1("shop", "rs"), Spec: appsv1.ReplicaSetSpec{Replicas: ptr.To[int32](0), Template: simpleTemplate()}},
			want:   &inventory.Controller{Kind: "ReplicaSet", Namespace: "shop", Name: "rs"},
		},
		"ReplicationController": {
			reason: "of old",
			object: &corev1.ReplicationController{ObjectMeta: meta1("shop", "rc"), Spec: corev1.ReplicationControllerSpec{Template: ptr.To(simpleTemplate())}},
			want:   &inventory.Controller{Kind: "ReplicationController", Namespace: "shop", Name: "rc", Replicas: 1},
		},
		"ReplicationControllerWithoutTemplate": {reason: "makes nothing, and is no reason to fall over", object: &corev1.ReplicationController{ObjectMeta: meta1("shop", "rc")}},
		"Job": {
			reason: "as many as run at once, and suspended counts",
			object: &batchv1.Job{ObjectMeta: meta1("shop", "import"), Spec: batchv1.JobSpec{Parallelism: ptr.To[int32](4), Suspend: ptr.To(true), Template: simpleTemplate()}},
			want:   &inventory.Controller{Kind: "Job", Namespace: "shop", Name: "import", Replicas: 4, Suspended: true},
		},
		"FinishedJob":   {reason: "makes no pods any more", object: &batchv1.Job{ObjectMeta: meta1("shop", "import"), Spec: batchv1.JobSpec{Template: simpleTemplate()}, Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}}}},
		"JobOfACronJob": {reason: "the CronJob stands for it", object: &batchv1.Job{ObjectMeta: controlled(meta1("shop", "n-1"), "batch/v1", "CronJob", "n"), Spec: batchv1.JobSpec{Template: simpleTemplate()}}},
		"CronJob": {
			reason: "it makes pods at night",
			object: &batchv1.CronJob{ObjectMeta: meta1("shop", "n"), Spec: batchv1.CronJobSpec{Suspend: ptr.To(true), JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: simpleTemplate()}}}},
			want:   &inventory.Controller{Kind: "CronJob", Namespace: "shop", Name: "n", Replicas: 1, Suspended: true},
		},
		"Helm": {
			reason: "who would put it back",
			object: &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db", Annotations: map[string]string{"meta.helm.sh/release-name": "db", "meta.helm.sh/release-namespace": "shop"}}, Spec: appsv1.StatefulSetSpec{Template: simpleTemplate()}},
			want:   &inventory.Controller{Kind: "StatefulSet", Namespace: "shop", Name: "db", Replicas: 1, Owner: "Helm release shop/db"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var want []inventory.Controller
			if tc.want != nil {
				tc.want.PodLabels, tc.want.PodAnnotations = map[string]string{"app": "web"}, map[string]string{"karpenter.sh/do-not-disrupt": "true"}
				tc.want.Shape = &inventory.Shape{Unrequested: []string{"app"}, Images: []string{"web:1"}}
				want = append(want, *tc.want)
			}
			if diff := cmp.Diff(want, read(t, tc.object).Controllers, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func TestClaims(t *testing.T) {
	at := func(key, value string) *corev1.NodeSelector {
		return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}}}}}
	}
	cases := map[string]struct {
		reason string
		volume func(*corev1.PersistentVolume)
		claim  string // volume that the claim names
		want   *inventory.Claim
	}{
		"Zonal": {reason: "EBS", volume: func(v *corev1.PersistentVolume) {
			v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: at("topology.kubernetes.io/zone", "a")}
		}, claim: "v", want: &inventory.Claim{Affinity: at("topology.kubernetes.io/zone", "a")}},
		"Local": {reason: "a node's own disk", volume: func(v *corev1.PersistentVolume) { v.Spec.Local = &corev1.LocalVolumeSource{Path: "/mnt"} }, claim: "v", want: &inventory.Claim{Local: true}},
		"Host":  {reason: "a node's own directory", volume: func(v *corev1.PersistentVolume) { v.Spec.HostPath = &corev1.HostPathVolumeSource{Path: "/mnt"} }, claim: "v", want: &inventory.Claim{Local: true}},
		"OneNode": {reason: "a driver of local disks", volume: func(v *corev1.PersistentVolume) {
			v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: at("topology.topolvm.io/node", "n")}
		}, claim: "v", want: &inventory.Claim{Local: true, Affinity: at("topology.topolvm.io/node", "n")}},
		"OldLabels": {
			reason: "from before node affinity", volume: func(v *corev1.PersistentVolume) { v.Labels = map[string]string{"topology.kubernetes.io/zone": "a__b"} }, claim: "v",
			want: &inventory.Claim{Affinity: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "topology.kubernetes.io/zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"a", "b"}}}}}}},
		},
		"Shared": {reason: "several nodes at once", volume: func(v *corev1.PersistentVolume) {
			v.Spec.AccessModes, v.Spec.NodeAffinity = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}, &corev1.VolumeNodeAffinity{Required: at("topology.kubernetes.io/zone", "a")}
		}, claim: "v", want: &inventory.Claim{Shared: true, Affinity: at("topology.kubernetes.io/zone", "a")}},
		"Everywhere": {reason: "EFS has no say in where", volume: func(*corev1.PersistentVolume) {}, claim: "v"},
		"Rebound":    {reason: "the claim has another volume now", volume: func(v *corev1.PersistentVolume) { v.Spec.Local = &corev1.LocalVolumeSource{} }, claim: "other"},
		"Released":   {reason: "no claim at all", volume: func(v *corev1.PersistentVolume) { v.Spec.Local, v.Spec.ClaimRef = &corev1.LocalVolumeSource{}, nil }, claim: "v"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}, Spec: corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{Namespace: "shop", Name: "data"}}}
			tc.volume(v)
			var want []inventory.Claim
			if tc.want != nil {
				tc.want.Volume, tc.want.NamespacedName = "v", types.NamespacedName{Namespace: "shop", Name: "data"}
				want = append(want, *tc.want)
			}
			got := read(t, v, &corev1.PersistentVolumeClaim{ObjectMeta: meta1("shop", "data"), Spec: corev1.PersistentVolumeClaimSpec{VolumeName: tc.claim}})
			if diff := cmp.Diff(want, got.Claims); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func TestAutoscalersAndLimitRanges(t *testing.T) {
	got := read(t,
		&autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: meta1("shop", "web"), Spec: autoscalingv2.HorizontalPodAutoscalerSpec{MaxReplicas: 5, ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{Kind: "Deployment", Name: "web"}}},
		&corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "defaults", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "x"}}}},
	)
	want := []inventory.PodAutoscaler{{Namespace: "shop", Name: "web", Kind: "Deployment", Target: "web", Min: 1, Max: 5}}
	if diff := cmp.Diff(want, got.Autoscalers); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if len(got.LimitRanges) != 1 || got.LimitRanges[0].ManagedFields != nil {
		t.Errorf("limit ranges %+v", got.LimitRanges)
	}
}

func TestWebhooks(t *testing.T) {
	rule := func(operation admissionv1.OperationType, group string, resources ...string) []admissionv1.RuleWithOperations {
		return []admissionv1.RuleWithOperations{{Operations: []admissionv1.OperationType{operation}, Rule: admissionv1.Rule{APIGroups: []string{group}, Resources: resources}}}
	}
	service := admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "policy", Name: "hook"}}
	cases := map[string]struct {
		reason   string
		policy   *admissionv1.FailurePolicyType
		to       admissionv1.WebhookClientConfig
		rules    []admissionv1.RuleWithOperations
		none     bool
		wantPods bool
	}{
		"Pods":        {reason: "asked for every pod", to: service, rules: rule(admissionv1.Create, "", "pods"), wantPods: true},
		"Default":     {reason: "Fail is the default", to: service, rules: rule(admissionv1.Create, "apps", "deployments")},
		"Ignore":      {reason: "its silence stops nothing", policy: ptr.To(admissionv1.Ignore), to: service, rules: rule(admissionv1.Create, "", "pods"), none: true},
		"Elsewhere":   {reason: "no pod of this cluster answers", to: admissionv1.WebhookClientConfig{URL: ptr.To("https://x")}, rules: rule(admissionv1.Create, "", "pods"), none: true},
		"Binding":     {reason: "the scheduler would fail", to: service, rules: rule(admissionv1.Create, "", "pods/binding"), wantPods: true},
		"OldBinding":  {reason: "the same by its old name", to: service, rules: rule(admissionv1.Create, "", "bindings"), wantPods: true},
		"Eviction":    {reason: "castoff itself would fail", to: service, rules: rule(admissionv1.OperationAll, "*", "pods/eviction"), wantPods: true},
		"Everything":  {reason: "pods among all", to: service, rules: rule(admissionv1.OperationAll, "*", "*/*"), wantPods: true},
		"Star":        {reason: "a star is every resource", to: service, rules: rule(admissionv1.OperationAll, "*", "*"), wantPods: true},
		"Status":      {reason: "another part of a pod", to: service, rules: rule(admissionv1.Update, "", "pods/status")},
		"Connect":     {reason: "exec moves nothing", to: service, rules: rule(admissionv1.Connect, "", "pods/exec")},
		"Update":      {reason: "nobody updates a pod to move it", to: service, rules: rule(admissionv1.Update, "", "pods")},
		"OtherGroup":  {reason: "metrics have pods too", to: service, rules: rule(admissionv1.Create, "metrics.k8s.io", "pods")},
		"NoRules":     {reason: "asked about nothing", to: service},
		"SeveralOnes": {reason: "one of them is enough", to: service, rules: append(rule(admissionv1.Create, "apps", "deployments"), rule(admissionv1.Create, "", "pods")...), wantPods: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := read(t,
				&admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "v"}, Webhooks: []admissionv1.ValidatingWebhook{{Name: "h", FailurePolicy: tc.policy, ClientConfig: tc.to, Rules: tc.rules}}},
				&admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "m"}, Webhooks: []admissionv1.MutatingWebhook{{Name: "h", FailurePolicy: tc.policy, ClientConfig: tc.to, Rules: tc.rules}}},
				&corev1.Service{ObjectMeta: meta1("policy", "hook"), Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "hook"}}},
			)
			var want []inventory.Webhook
			for _, c := range []string{"validatingwebhookconfiguration/v", "mutatingwebhookconfiguration/m"} {
				if !tc.none {
					want = append(want, inventory.Webhook{Configuration: c, Name: "h", Service: types.NamespacedName{Namespace: "policy", Name: "hook"}, Selector: map[string]string{"app": "hook"}, Pods: tc.wantPods, Own: tc.wantPods})
				}
			}
			if diff := cmp.Diff(want, got.Webhooks); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

// A webhook that is asked about its own pods can never come back once the last of them is gone.
func TestWebhookThatIsAskedAboutItsOwnPods(t *testing.T) {
	expression := func(key string, operator metav1.LabelSelectorOperator, values ...string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: operator, Values: values}}}
	}
	cases := map[string]struct {
		reason string
		scope  scope
		want   bool
	}{
		"All":          {"no selector selects everything", scope{}, true},
		"Empty":        {"nor does an empty one leave anything out", scope{&metav1.LabelSelector{}, &metav1.LabelSelector{}}, true},
		"Excepted":     {"its own namespace is left out by name, as policy engines do it", scope{namespaces: expression(corev1.LabelMetadataName, metav1.LabelSelectorOpNotIn, "kube-system", "policy")}, false},
		"OthersOnly":   {"others are left out", scope{namespaces: expression(corev1.LabelMetadataName, metav1.LabelSelectorOpNotIn, "kube-system")}, true},
		"OptIn":        {"it is asked about namespaces that somebody opted in, as service meshes do it", scope{namespaces: &metav1.LabelSelector{MatchLabels: map[string]string{"istio-injection": "enabled"}}}, false},
		"OptOut":       {"it is asked about all that nobody opted out", scope{namespaces: expression("injection", metav1.LabelSelectorOpNotIn, "disabled")}, true},
		"OtherPods":    {"it is asked about pods of a label that its own do not have", scope{objects: &metav1.LabelSelector{MatchLabels: map[string]string{"inject": "yes"}}}, false},
		"ItsOwnLabel":  {"or that they do", scope{objects: expression("app", metav1.LabelSelectorOpExists)}, true},
		"NotASelector": {"what the API server would not take selects nothing", scope{objects: expression("app", "Like", "x")}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.scope.covers("policy", map[string]string{"app": "hook"}); got != tc.want {
				t.Errorf("%s: got %t", tc.reason, got)
			}
		})
	}
}

func TestWebhookWithoutAService(t *testing.T) {
	got := read(t, &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "v"}, Webhooks: []admissionv1.ValidatingWebhook{
		{Name: "h", ClientConfig: admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "policy", Name: "gone"}}},
	}})
	if len(got.Webhooks) != 1 || got.Webhooks[0].Selector != nil {
		t.Errorf("a Service that is missing is the check's to tell of: %+v", got.Webhooks)
	}
}

// TestSharedShapes: pods that are alike share one shape, and no others do, whoever owns them.
func TestSharedShapes(t *testing.T) {
	of := func(cpu, claim string) *corev1.Pod {
		return pod("a", func(p *corev1.Pod) {
			p.ObjectMeta = controlled(p.ObjectMeta, "apps/v1", "ReplicaSet", "web")
			p.Labels["pod-template-hash"] = "7c9f8d6b54"
			p.Spec.Containers = []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: quantity.MustParse(cpu)}}}}
			p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}}
		})
	}
	i := newInterner()
	first := i.pod(of("1", "data"))
	cases := map[string]struct {
		reason string
		pod    *corev1.Pod
		same   bool
	}{
		"Alike":        {reason: "one template", pod: of("1", "data"), same: true},
		"SameQuantity": {reason: "written differently, the same amount", pod: of("1000m", "data"), same: true},
		"Resized":      {reason: "a vertical autoscaler gives pods of one template other requests", pod: of("2", "data")},
		"OtherClaim":   {reason: "the next pod of a StatefulSet", pod: of("1", "data-1")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := i.pod(tc.pod)
			if (got.Shape == first.Shape) != tc.same || got.Owner != first.Owner {
				t.Errorf("%s: the same shape %t, the same owner %t", tc.reason, got.Shape == first.Shape, got.Owner == first.Owner)
			}
		})
	}
	if bare := i.pod(pod("b")); bare.Owner != nil || bare.Shape == first.Shape {
		t.Errorf("a bare pod: %+v", bare)
	}
}

// A template that names its node is past every scheduler; a pod has a node in any case, and pods of one template share a shape.
func TestTemplatesKeepTheNodeThatTheyName(t *testing.T) {
	spec := corev1.PodSpec{NodeName: "old"}
	r := workloadReader{shapes: newInterner()}
	r.add("Deployment", &metav1.ObjectMeta{Namespace: "shop", Name: "web"}, &corev1.PodTemplateSpec{Spec: spec}, inventory.Controller{})
	pod := r.shapes.pod(&corev1.Pod{Spec: spec})
	if diff := cmp.Diff([]string{"old", "", "old"}, []string{r.out.Controllers[0].Shape.NodeName, pod.Shape.NodeName, pod.Node}); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestShapeOf(t *testing.T) {
	requests := func(cpu, memory string) corev1.ResourceRequirements {
		r := corev1.ResourceRequirements{Requests: corev1.ResourceList{}}
		if cpu != "" {
			r.Requests[corev1.ResourceCPU] = quantity.MustParse(cpu)
		}
		if memory != "" {
			r.Requests[corev1.ResourceMemory] = quantity.MustParse(memory)
		}
		return r
	}
	always := ptr.To(corev1.ContainerRestartPolicyAlways)
	cases := map[string]struct {
		reason string
		spec   corev1.PodSpec
		want   inventory.Shape
	}{
		"Empty": {reason: "nothing asked for"},
		"Requests": {
			reason: "as the scheduler counts: the larger of what init containers and containers need, sidecars and overhead added",
			spec: corev1.PodSpec{
				InitContainers: []corev1.Container{{Name: "init", Resources: requests("3", "")}, {Name: "mesh", RestartPolicy: always, Resources: requests("100m", "64Mi")}},
				Containers:     []corev1.Container{{Name: "app", Resources: requests("1", "1Gi")}},
				Overhead:       corev1.ResourceList{corev1.ResourceCPU: quantity.MustParse("250m")},
			},
			want: inventory.Shape{Requests: requests("3250m", "1088Mi").Requests, Images: []string{"", "", ""}},
		},
		"Unrequested": {
			reason: "a sidecar counts, an init container does not",
			spec: corev1.PodSpec{
				InitContainers: []corev1.Container{{Name: "init"}, {Name: "mesh", RestartPolicy: always, Resources: requests("100m", "")}},
				Containers:     []corev1.Container{{Name: "app", Resources: requests("", "1Gi")}, {Name: "proxy", Resources: requests("1", "1Gi")}},
			},
			want: inventory.Shape{Unrequested: []string{"mesh", "app"}, Requests: requests("1100m", "2Gi").Requests, Images: []string{"", "", "", ""}},
		},
		"WholePod": {
			reason: "requests of the pod stand for its containers'",
			spec:   corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}}, Resources: ptr.To(requests("2", "4Gi"))},
			want:   inventory.Shape{Requests: requests("2", "4Gi").Requests, Images: []string{""}},
		},
		"Host": {
			reason: "ports of the node, each once",
			spec: corev1.PodSpec{HostNetwork: true, Containers: []corev1.Container{{Name: "app", Image: "web", Resources: requests("1", "1"), Ports: []corev1.ContainerPort{
				{HostPort: 80}, {HostPort: 80, Protocol: corev1.ProtocolUDP}, {ContainerPort: 8080}, {HostPort: 443},
			}}}},
			want: inventory.Shape{HostNetwork: true, HostPorts: []int32{80, 443}, Requests: requests("1", "1").Requests, Images: []string{"web"}},
		},
		"Priority": {
			reason: "what it means when room is short",
			spec:   corev1.PodSpec{PriorityClassName: "low", Priority: ptr.To[int32](-10), PreemptionPolicy: ptr.To(corev1.PreemptNever), SchedulerName: "volcano"},
			want:   inventory.Shape{PriorityClass: "low", Priority: -10, NeverPreempts: true, Scheduler: "volcano"},
		},
		"Volumes": {
			reason: "a generic ephemeral volume goes with the pod",
			spec: corev1.PodSpec{Volumes: []corev1.Volume{
				{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}},
				{VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}},
				{VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
				{VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/var"}}},
			}},
			want: inventory.Shape{Claims: []string{"data"}, EmptyDir: true, HostPath: true},
		},
		"Placement": {
			reason: "all that decides where it runs",
			spec:   corev1.PodSpec{NodeSelector: map[string]string{"a": "b"}, TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{TopologyKey: "zone"}}, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}},
			want:   inventory.Shape{NodeSelector: map[string]string{"a": "b"}, Spread: []corev1.TopologySpreadConstraint{{TopologyKey: "zone"}}, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(&tc.want, shapeOf(&tc.spec), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func TestMovingAnnotations(t *testing.T) {
	cases := map[string]struct {
		reason string
		key    string
		kept   bool
	}{
		"Karpenter":   {reason: "do not move it", key: "karpenter.sh/do-not-disrupt", kept: true},
		"Autoscaler":  {reason: "nor this one", key: "cluster-autoscaler.kubernetes.io/safe-to-evict", kept: true},
		"Descheduler": {reason: "who else evicts", key: "descheduler.alpha.kubernetes.io/evict", kept: true},
		"Mirror":      {reason: "a static pod's", key: corev1.MirrorPodAnnotationKey, kept: true},
		"Castoff":     {reason: "castoff's own", key: "castoff.sh/pool", kept: true},
		"Applied":     {reason: "long, and says nothing of it", key: "kubectl.kubernetes.io/last-applied-configuration"},
		"LooksAlike":  {reason: "another domain", key: "karpenter.sh.example.com/do-not-disrupt"},
		"NoPrefix":    {reason: "anybody's", key: "checksum"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if _, kept := movingAnnotations(map[string]string{tc.key: "true"})[tc.key]; kept != tc.kept {
				t.Errorf("%s: kept %t", tc.reason, kept)
			}
		})
	}
	if movingAnnotations(map[string]string{"checksum": "x"}) != nil {
		t.Error("an empty map is kept of pods that have nothing of it")
	}
}

func TestWorkloadsOverTheWire(t *testing.T) {
	s := newPagingServer(largeCluster(20, 1200))
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	got, err := readWorkloads(t.Context(), clientOf(t, server.URL))
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	shapes := map[*inventory.Shape]int{}
	for _, c := range got.Controllers {
		kinds[c.Kind]++
	}
	for _, p := range got.Pods {
		shapes[p.Shape]++
	}
	// 60 pods of 3 DaemonSets, 80 of StatefulSets with a claim each, 53 Deployments of 20.
	want := map[string]int{"Deployment": 53, "StatefulSet": 8, "DaemonSet": 3, "CronJob": 13}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Errorf("controllers -want +got\n%s", diff)
	}
	if len(got.Pods) != 1200 || len(got.Claims) != 80 || len(got.Budgets) != 26 || len(got.Autoscalers) != 26 || len(got.Webhooks) != 20 || len(got.LimitRanges) != 30 {
		t.Errorf("%d pods, %d claims, %d budgets, %d autoscalers, %d webhooks, %d limit ranges", len(got.Pods), len(got.Claims), len(got.Budgets), len(got.Autoscalers), len(got.Webhooks), len(got.LimitRanges))
	}
	if len(shapes) != 53+80 {
		t.Errorf("%d shapes, want one a template and one a claim", len(shapes))
	}
	if s.pages["pods"] != 3 || s.pages["replicasets"] != 2 {
		t.Errorf("pages of %d: %v", pageSize, s.pages)
	}
	if s.pages["services"] != 1 {
		t.Errorf("a Service is asked for %d times", s.pages["services"])
	}
	for _, accept := range s.asked {
		if !strings.Contains(accept, runtime.ContentTypeProtobuf) {
			t.Errorf("asked for %s: JSON takes several times as long", accept)
			break
		}
	}
}

// TestWorkloadsThatMayNotBeRead: all of what is refused is said at once, so that nobody grants it one by one.
func TestWorkloadsThatMayNotBeRead(t *testing.T) {
	s := newPagingServer(largeCluster(1, 30))
	s.forbid["limitranges"], s.forbid["horizontalpodautoscalers"] = true, true
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	_, err := readWorkloads(t.Context(), clientOf(t, server.URL))
	if !apierrors.IsForbidden(err) {
		t.Fatalf("%v, want one that says forbidden", err)
	}
	for _, want := range []string{"LimitRanges", "HorizontalPodAutoscalers", "charts/castoff"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not name %s", err, want)
		}
	}
	delete(s.lists, "jobs")
	if _, err := readWorkloads(t.Context(), clientOf(t, server.URL)); err == nil || apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "listing Jobs") {
		t.Errorf("%v, want what failed otherwise", err)
	}
}

// slow is a reader for which time passes.
type slow struct {
	client.Reader
	now   *time.Time
	takes time.Duration
	lists int
}

func (s *slow) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if _, ok := list.(*corev1.PodList); ok {
		s.lists++
		*s.now = s.now.Add(s.takes)
	}
	return s.Reader.List(ctx, list, opts...)
}

func TestWorkloadsAreReadInATenthOfTheTime(t *testing.T) {
	cases := map[string]struct {
		reason string
		takes  time.Duration
		fresh  time.Duration // for how long what was read serves
	}{
		"Large":  {reason: "ten times as long as the read took", takes: 5 * time.Second, fresh: 50 * time.Second},
		"Small":  {reason: "a small cluster can be read often", takes: 100 * time.Millisecond, fresh: time.Second},
		"Slow":   {reason: "but never is what was read older than two minutes", takes: 20 * time.Second, fresh: 2 * time.Minute},
		"NoTime": {reason: "no time at all is read every time", takes: 0, fresh: 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			o := w.reconciler().Observer
			reader := &slow{Reader: w.c, now: &w.now, takes: tc.takes}
			o.Live = reader
			ask := func(at time.Time, want int) {
				t.Helper()
				w.now = at
				if _, err := o.workloads(t.Context()); err != nil || reader.lists != want {
					t.Errorf("%s: %d reads, %v; want %d", tc.reason, reader.lists, err, want)
				}
			}
			began := w.now
			ask(began, 1)
			if tc.fresh > 0 {
				ask(began.Add(tc.fresh-time.Millisecond), 1)
			}
			ask(began.Add(tc.fresh), 2)
			o.running.forget()
			ask(w.now, 3)
		})
	}
}
