package inventory

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/castoff-sh/castoff/api/v1alpha1"
)

func TestKeepsAll(t *testing.T) {
	rolling := func(unavailable, surge string) appsv1.DeploymentStrategy {
		u, s := intstr.Parse(unavailable), intstr.Parse(surge)
		return appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{MaxUnavailable: &u, MaxSurge: &s}}
	}
	cases := map[string]struct {
		reason   string
		replicas int32
		strategy appsv1.DeploymentStrategy
		paused   bool
		want     bool
	}{
		"Default3":   {reason: "25 % of 3 is rounded down to none", replicas: 3, want: true},
		"Default4":   {reason: "25 % of 4 is one", replicas: 4},
		"None":       {reason: "said in so many words", replicas: 10, strategy: rolling("0", "1"), want: true},
		"NoneByPart": {reason: "or as a share", replicas: 10, strategy: rolling("0%", "25%"), want: true},
		"NoSurge":    {reason: "where nothing may come first, one goes first, whatever was said", replicas: 2, strategy: rolling("25%", "0")},
		"Recreate":   {reason: "all go first", replicas: 1, strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}},
		"Paused":     {reason: "a restart is not rolled out", replicas: 1, paused: true},
		"Nonsense":   {reason: "what cannot be read is not relied on", replicas: 1, strategy: rolling("x", "1")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := KeepsAll(&appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: &tc.replicas, Strategy: tc.strategy, Paused: tc.paused}}); got != tc.want {
				t.Errorf("%s: %t", tc.reason, got)
			}
		})
	}
}

// deployment of one replica, which is as it is to be.
func deployment(change ...func(*appsv1.Deployment)) *appsv1.Deployment {
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Generation: 3},
		Spec:       appsv1.DeploymentSpec{Replicas: ptr.To[int32](1)},
		Status:     appsv1.DeploymentStatus{ObservedGeneration: 3, Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1},
	}
	for _, c := range change {
		c(d)
	}
	return d
}

func surgedFor(whom string) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) { d.Annotations = map[string]string{v1alpha1.AnnotationSurged: whom} }
}

func replicas(n int32) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) { d.Spec.Replicas, d.Status.Replicas, d.Status.UpdatedReplicas = &n, n, n }
}

// unseen by its controller.
func unseen(d *appsv1.Deployment) { d.Generation++ }

// rolling has a new pod beside the old one.
func rolling(d *appsv1.Deployment) { d.Status.Replicas = 2 }

func progressing(status corev1.ConditionStatus, reason string) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) {
		d.Status.Conditions = append(d.Status.Conditions, appsv1.DeploymentCondition{Type: appsv1.DeploymentAvailable},
			appsv1.DeploymentCondition{Type: appsv1.DeploymentProgressing, Status: status, Reason: reason})
	}
}

func TestStepOf(t *testing.T) {
	failed := progressing(corev1.ConditionFalse, "ProgressDeadlineExceeded")
	unavailable := func(v string) func(*appsv1.Deployment) {
		return func(d *appsv1.Deployment) {
			u := intstr.Parse(v)
			d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxUnavailable: &u}
		}
	}
	cases := map[string]struct {
		reason   string
		strategy v1alpha1.SurgeStrategy
		d        *appsv1.Deployment
		want     SurgeStep
	}{
		"Singleton":        {"its one pod has a successor first", v1alpha1.SurgeSingletons, deployment(), SurgeRestart},
		"ByDefaultOne":     {"one replica is the API's default", v1alpha1.SurgeSingletons, deployment(func(d *appsv1.Deployment) { d.Spec.Replicas = nil }), SurgeRestart},
		"None":             {"nobody asked for it", v1alpha1.SurgeNone, deployment(), SurgeEvict},
		"Empty":            {"nor here", "", deployment(surgedFor("uid")), SurgeEvict},
		"Unknown":          {"what a later version may mean by a word is not guessed", "Some", deployment(), SurgeEvict},
		"ThreeOfThem":      {"others see to the requests meanwhile", v1alpha1.SurgeSingletons, deployment(replicas(3)), SurgeEvict},
		"AllThree":         {"unless all are asked for", v1alpha1.SurgeAll, deployment(replicas(3)), SurgeRestart},
		"OneMayBeAway":     {"a quarter of four is one: a restart takes that away as an eviction does", v1alpha1.SurgeAll, deployment(replicas(4)), SurgeEvict},
		"NoneMayBeAway":    {"its own strategy keeps four of four", v1alpha1.SurgeAll, deployment(replicas(4), unavailable("0")), SurgeRestart},
		"Recreate":         {"a restart takes all away first", v1alpha1.SurgeAll, deployment(func(d *appsv1.Deployment) { d.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType }), SurgeEvict},
		"Paused":           {"a restart is not rolled out", v1alpha1.SurgeAll, deployment(func(d *appsv1.Deployment) { d.Spec.Paused = true }), SurgeEvict},
		"PausedInIt":       {"and one that stopped is not waited for", v1alpha1.SurgeAll, deployment(surgedFor("uid"), rolling, func(d *appsv1.Deployment) { d.Spec.Paused = true }), SurgeEvict},
		"Deleted":          {"it makes no pod any more", v1alpha1.SurgeAll, deployment(func(d *appsv1.Deployment) { d.DeletionTimestamp = ptr.To(metav1.Now()) }), SurgeEvict},
		"RollsOut":         {"somebody's own rollout is not disturbed", v1alpha1.SurgeAll, deployment(rolling), SurgeEvict},
		"JustChanged":      {"nor one that its controller has not seen", v1alpha1.SurgeAll, deployment(unseen), SurgeEvict},
		"Failed":           {"one that could not be rolled out would not be now", v1alpha1.SurgeAll, deployment(failed, rolling), SurgeEvict},
		"Progresses":       {"any other condition is none of failure", v1alpha1.SurgeAll, deployment(progressing(corev1.ConditionTrue, "NewReplicaSetAvailable")), SurgeRestart},
		"Restarted":        {"its controller has not seen it yet", v1alpha1.SurgeSingletons, deployment(surgedFor("uid"), unseen), SurgeAwait},
		"RestartedRolling": {"the old pod is there until the new one is Ready", v1alpha1.SurgeSingletons, deployment(surgedFor("uid"), rolling), SurgeAwait},
		"RestartedUnseen":  {"an old failure says nothing of what its controller has not seen", v1alpha1.SurgeSingletons, deployment(surgedFor("uid"), unseen, failed), SurgeAwait},
		"ScaledMeanwhile":  {"it was begun, so it is waited for", v1alpha1.SurgeSingletons, deployment(replicas(3), surgedFor("uid"), rolling, func(d *appsv1.Deployment) { d.Status.Replicas = 4 }), SurgeAwait},
		"RestartedDone":    {"once for a migration, whoever undid it or put a pod there again", v1alpha1.SurgeSingletons, deployment(surgedFor("uid")), SurgeEvict},
		"RestartedFailed":  {"its controller has given up, and the node does not wait for ever", v1alpha1.SurgeSingletons, deployment(surgedFor("uid"), rolling, failed), SurgeEvict},
		"EarlierMigration": {"that one is over", v1alpha1.SurgeSingletons, deployment(surgedFor("other-uid")), SurgeRestart},
		"TheOtherWay":      {"on the way back its pods move once more", v1alpha1.SurgeSingletons, deployment(surgedFor("uid/back")), SurgeRestart},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := tc.d.DeepCopy()
			if got := (Surge{Strategy: tc.strategy, For: "uid"}).StepOf(tc.d); got != tc.want {
				t.Errorf("%s: %s, want %s", tc.reason, got, tc.want)
			}
			if before.String() != tc.d.String() {
				t.Error("deciding changed the Deployment")
			}
		})
	}
}
