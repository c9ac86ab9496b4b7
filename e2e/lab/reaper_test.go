package lab

import (
	"log/slog"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
)

func TestDelay(t *testing.T) {
	deleted := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	cases := map[string]struct {
		reason     string
		annotation string
		grace      int64
		elapsed    time.Duration // since the deletion
		want       time.Duration
	}{
		"Default":        {"the lab's own", "", 30, 0, 2 * time.Second},
		"DefaultCapped":  {"never longer than the grace period", "", 1, 0, time.Second},
		"Wish":           {"as the pod says", "7s", 30, 0, 7 * time.Second},
		"WishCapped":     {"killed at the end of its grace period", "1m", 30, 0, 30 * time.Second},
		"Grace":          {"all of it", ShutdownGrace, 30, 0, 30 * time.Second},
		"AtOnce":         {"a pod that needs no time", "0s", 30, 0, 0},
		"SeenLate":       {"its time began with the deletion", "7s", 30, 5 * time.Second, 2 * time.Second},
		"SeenMuchLater":  {"at once", "7s", 30, time.Hour, 0},
		"Unreadable":     {"counts as none", "soon", 30, 0, 2 * time.Second},
		"GraceSeenLater": {"at the end of its grace period", ShutdownGrace, 30, 10 * time.Second, 20 * time.Second},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := &reaper{shutdown: 2 * time.Second, now: func() time.Time { return deleted.Add(tc.elapsed) }, log: slog.New(slog.DiscardHandler)}
			until := metav1.NewTime(deleted.Add(time.Duration(tc.grace) * time.Second))
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &until, DeletionGracePeriodSeconds: &tc.grace}}
			if tc.annotation != "" {
				pod.Annotations = map[string]string{AnnotationShutdown: tc.annotation}
			}
			if got := r.delay(pod); got != tc.want {
				t.Errorf("%s: got %s, want %s", tc.reason, got, tc.want)
			}
		})
	}
}

func TestRemovePodIsForOneUIDOnly(t *testing.T) {
	g := NewWithT(t)
	client := fake.NewClientset()
	var options metav1.DeleteOptions
	client.PrependReactor("delete", "pods", func(action k8stesting.Action) (bool, runtime.Object, error) {
		options = action.(k8stesting.DeleteAction).GetDeleteOptions()
		return true, nil, nil
	})
	v := victim{types.NamespacedName{Namespace: "shop", Name: "db-0"}, "first"}
	g.Expect(removePod(t.Context(), client, v)).To(Succeed())
	g.Expect(options.Preconditions).NotTo(BeNil())
	g.Expect(*options.Preconditions.UID).To(Equal(types.UID("first")))
	g.Expect(*options.GracePeriodSeconds).To(BeZero())
	g.Expect(removePod(t.Context(), fake.NewClientset(), v)).To(Succeed(), "one that is gone is done")
}
