package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/castoff-sh/castoff/e2e/bridge"
)

// desiredStatus is what the pod's containers amount to.
func (w *worker) desiredStatus() corev1.PodStatus {
	var statuses []corev1.ContainerStatus
	for _, c := range w.containers {
		statuses = append(statuses, c.snapshot())
	}
	status := corev1.PodStatus{
		Phase:                 phase(statuses, w.pod.Spec.RestartPolicy),
		ContainerStatuses:     statuses,
		InitContainerStatuses: skippedInitContainers(w.pod),
		HostIP:                w.hostIP,
		PodIP:                 w.podIP,
	}
	if w.podIP != "" {
		status.PodIPs = []corev1.PodIP{{IP: w.podIP}}
	}
	ready := corev1.ConditionTrue
	for _, s := range statuses {
		if !s.Ready {
			ready = corev1.ConditionFalse
		}
	}
	status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionTrue},
		{Type: corev1.PodInitialized, Status: corev1.ConditionTrue},
		{Type: corev1.ContainersReady, Status: ready},
		{Type: corev1.PodReady, Status: ready},
	}
	return status
}

// phase follows the Pod API: Running while anything runs or will run again.
func phase(statuses []corev1.ContainerStatus, policy corev1.RestartPolicy) corev1.PodPhase {
	started, ended, failed := 0, 0, 0
	for _, s := range statuses {
		if s.State.Running != nil || s.State.Terminated != nil || s.LastTerminationState.Terminated != nil {
			started++
		}
		if s.State.Terminated != nil && !restarts(policy, int(s.State.Terminated.ExitCode)) {
			ended++
			if s.State.Terminated.ExitCode != 0 {
				failed++
			}
		}
	}
	switch {
	case ended == len(statuses) && failed > 0:
		return corev1.PodFailed
	case ended == len(statuses):
		return corev1.PodSucceeded
	case started > 0:
		return corev1.PodRunning
	}
	return corev1.PodPending
}

// skippedInitContainers shows init containers as done: the lab's processes find what they need without them.
func skippedInitContainers(pod *corev1.Pod) []corev1.ContainerStatus {
	var statuses []corev1.ContainerStatus
	for _, c := range pod.Spec.InitContainers {
		statuses = append(statuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, ImageID: c.Image, Ready: true,
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed"}},
		})
	}
	return statuses
}

// statusWriter is the only writer of a pod's status.
type statusWriter struct {
	client kubernetes.Interface
	pod    *corev1.Pod
	now    func() time.Time

	mu          sync.Mutex
	transitions map[corev1.PodConditionType]corev1.PodCondition
	written     []byte
}

// write patches what differs from the last write, for this pod only, not for a later one of its name. Only the pod's
// worker calls it.
func (s *statusWriter) write(ctx context.Context, status corev1.PodStatus) error {
	encoded, err := s.encode(status)
	if err != nil || encoded == nil {
		return err
	}
	_, err = s.client.CoreV1().Pods(s.pod.Namespace).Patch(ctx, s.pod.Name, types.StrategicMergePatchType, encoded, metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("write the status of pod %s/%s: %w", s.pod.Namespace, s.pod.Name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written = encoded
	return nil
}

// encode returns the patch, nil when it was written already.
func (s *statusWriter) encode(status corev1.PodStatus) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	status.Conditions = s.stamp(status.Conditions)
	encoded, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": s.pod.UID}, "status": status})
	if err != nil {
		return nil, fmt.Errorf("encode a pod's status: %w", err)
	}
	if bytes.Equal(encoded, s.written) {
		return nil, nil
	}
	return encoded, nil
}

// stamp keeps the time of conditions that have not changed. It needs mu.
func (s *statusWriter) stamp(conditions []corev1.PodCondition) []corev1.PodCondition {
	if s.transitions == nil {
		s.transitions = map[corev1.PodConditionType]corev1.PodCondition{}
	}
	for i, condition := range conditions {
		known, ok := s.transitions[condition.Type]
		if !ok || known.Status != condition.Status {
			condition.LastTransitionTime = metav1.NewTime(s.now())
			s.transitions[condition.Type] = condition
		}
		conditions[i] = s.transitions[condition.Type]
	}
	return conditions
}

// overwritten tells whether somebody set the pod's Ready condition to something else, as the node controller does when
// a node is silent; a kubelet would put it right. A node whose instance ended has no kubelet any more. It then forgets
// what was written, so that the next write is made.
func (s *statusWriter) overwritten(pod *corev1.Pod) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	ours, known := s.transitions[corev1.PodReady]
	if !known || s.written == nil {
		return false
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type != corev1.PodReady || condition.Status == ours.Status || condition.Reason == bridge.ReasonEnded {
			continue
		}
		if condition.LastTransitionTime.Before(&ours.LastTransitionTime) {
			continue // an older state that arrives late
		}
		s.written = nil
		return true
	}
	return false
}
