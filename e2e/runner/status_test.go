package runner

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/castoff-sh/castoff/e2e/bridge"
)

func TestRuns(t *testing.T) {
	r := New(Config{Images: map[string]string{image: "/bin/manager"}})
	for name, tc := range map[string]struct {
		images []string
		labels map[string]string
		want   bool
	}{
		"Known":        {[]string{image + ":v1"}, nil, true},
		"Unknown":      {[]string{"example.com/shop"}, nil, false},
		"KnownSidecar": {[]string{"example.com/shop", image}, nil, true},
		"Prefix":       {[]string{image + "-other"}, nil, false},
		"Idle":         {[]string{image}, map[string]string{Idle: "general"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: tc.labels}}
			for _, i := range tc.images {
				pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Image: i})
			}
			if got := r.Runs(pod); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}

func TestPhase(t *testing.T) {
	running := corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	waiting := corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}}
	ended := func(code int32) corev1.ContainerStatus {
		return corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}}
	}
	crashing := waiting
	crashing.LastTerminationState = ended(1).State
	cases := map[string]struct {
		reason   string
		statuses []corev1.ContainerStatus
		policy   corev1.RestartPolicy
		want     corev1.PodPhase
	}{
		"Creating":       {"nothing has run", []corev1.ContainerStatus{waiting}, corev1.RestartPolicyAlways, corev1.PodPending},
		"Running":        {"one runs", []corev1.ContainerStatus{running, waiting}, corev1.RestartPolicyAlways, corev1.PodRunning},
		"Crashing":       {"it will run again", []corev1.ContainerStatus{crashing}, corev1.RestartPolicyAlways, corev1.PodRunning},
		"EndedAlways":    {"it will run again", []corev1.ContainerStatus{ended(0)}, corev1.RestartPolicyAlways, corev1.PodRunning},
		"Succeeded":      {"all ended well", []corev1.ContainerStatus{ended(0), ended(0)}, corev1.RestartPolicyNever, corev1.PodSucceeded},
		"Failed":         {"one did not", []corev1.ContainerStatus{ended(0), ended(2)}, corev1.RestartPolicyNever, corev1.PodFailed},
		"FailedOnce":     {"it is tried again", []corev1.ContainerStatus{ended(2)}, corev1.RestartPolicyOnFailure, corev1.PodRunning},
		"HalfOfItsEnded": {"the other still runs", []corev1.ContainerStatus{ended(0), running}, corev1.RestartPolicyNever, corev1.PodRunning},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := phase(tc.statuses, tc.policy); got != tc.want {
				t.Errorf("%s: got %s, want %s", tc.reason, got, tc.want)
			}
		})
	}
}

func readyStatus(status corev1.ConditionStatus) corev1.PodStatus {
	return corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}}
}

func TestStatusIsWrittenOnceAndKeepsItsTimes(t *testing.T) {
	g := NewWithT(t)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n", UID: "u"}}
	client := fake.NewClientset(pod)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := statusWriter{client: client, pod: pod, now: func() time.Time { now = now.Add(time.Minute); return now }}
	for _, status := range []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionFalse, corev1.ConditionTrue, corev1.ConditionTrue} {
		g.Expect(s.write(t.Context(), readyStatus(status))).To(Succeed())
	}
	var times []string
	for _, action := range client.Actions() {
		patch, ok := action.(k8stesting.PatchAction)
		g.Expect(ok).To(BeTrue(), "only patches: %v", action)
		var body struct {
			Metadata struct{ UID string }
			Status   corev1.PodStatus
		}
		g.Expect(json.Unmarshal(patch.GetPatch(), &body)).To(Succeed())
		g.Expect(body.Metadata.UID).To(Equal("u"), "never another pod of that name")
		times = append(times, body.Status.Conditions[0].LastTransitionTime.UTC().Format("15:04"))
	}
	g.Expect(times).To(Equal([]string{"00:01", "00:02"}))
}

func TestOverwritten(t *testing.T) {
	written := time.Date(2026, 1, 1, 0, 1, 0, 0, time.UTC)
	cases := map[string]struct {
		reason    string
		condition corev1.PodCondition
		want      bool
	}{
		"Ours":          {"nothing to do", corev1.PodCondition{Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(written)}, false},
		"NodeWasSilent": {"the node controller marks the pods", corev1.PodCondition{Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(written.Add(time.Minute))}, true},
		"NodeEnded":     {"there is no kubelet any more", corev1.PodCondition{Status: corev1.ConditionFalse, Reason: bridge.ReasonEnded, LastTransitionTime: metav1.NewTime(written.Add(time.Minute))}, false},
		"Late":          {"what was before our write", corev1.PodCondition{Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(written.Add(-time.Minute))}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n", UID: "u"}}
			s := statusWriter{client: fake.NewClientset(pod), pod: pod, now: func() time.Time { return written }}
			tc.condition.Type = corev1.PodReady
			seen := &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{tc.condition}}}
			if s.overwritten(seen) {
				t.Error("nothing was written yet")
			}
			if err := s.write(t.Context(), readyStatus(corev1.ConditionTrue)); err != nil {
				t.Fatal(err)
			}
			if got := s.overwritten(seen); got != tc.want {
				t.Errorf("%s: got %t, want %t", tc.reason, got, tc.want)
			}
		})
	}
}

func TestVolumes(t *testing.T) {
	g := NewWithT(t)
	w := testWorker(t, corev1.Container{Image: image}, func(pod *corev1.Pod) {
		pod.Spec.Volumes = []corev1.Volume{
			{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: named("settings"), Items: []corev1.KeyToPath{{Key: "file", Path: "sub/renamed"}}}}},
			{Name: "keys", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "keys"}}},
		}
	})
	g.Expect(w.writeVolumes(t.Context())).To(Succeed())
	got := map[string]string{}
	for _, file := range []string{"config/sub/renamed", "keys/id"} {
		content, err := os.ReadFile(w.volumePath(file))
		g.Expect(err).NotTo(HaveOccurred())
		got[file] = string(content)
	}
	if diff := cmp.Diff(map[string]string{"config/sub/renamed": "content", "keys/id": "AKIA"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	g.Expect(w.volumePath("scratch")).To(BeADirectory())
	g.Expect(w.volumePath("config/LOG_LEVEL")).NotTo(BeAnExistingFile(), "items pick")
	g.Expect(writeFiles(filepath.Join(t.TempDir(), "v"), map[string]string{"../escape": ""})).NotTo(Succeed())
}

func TestRestarts(t *testing.T) {
	for _, tc := range []struct {
		policy corev1.RestartPolicy
		code   int
		want   bool
	}{
		{corev1.RestartPolicyAlways, 0, true}, {corev1.RestartPolicyAlways, 1, true}, {"", 0, true},
		{corev1.RestartPolicyOnFailure, 0, false}, {corev1.RestartPolicyOnFailure, 1, true},
		{corev1.RestartPolicyNever, 0, false}, {corev1.RestartPolicyNever, 1, false},
	} {
		if got := restarts(tc.policy, tc.code); got != tc.want {
			t.Errorf("%q after exit code %d: got %t, want %t", tc.policy, tc.code, got, tc.want)
		}
	}
}
