package lab

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// deleting is a pod that somebody deleted just now.
func deleting(name, node, image string, annotations map[string]string) *corev1.Pod {
	grace := int64(30)
	until := metav1.NewTime(time.Now().Add(30 * time.Second))
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, UID: types.UID("uid-" + name), Annotations: annotations,
			DeletionTimestamp: &until, DeletionGracePeriodSeconds: &grace, Finalizers: []string{"test/kept"},
		},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "main", Image: image}}},
	}
}

// TestReaperEndsOnlyWhatIsToGo runs it on pods of every kind. The fake API keeps no field selector for nodes, so pods
// without one are left out here: the real one never tells of them.
func TestReaperEndsOnlyWhatIsToGo(t *testing.T) {
	g := NewWithT(t)
	stays := deleting("stays", "node", "shop", nil)
	stays.DeletionTimestamp, stays.DeletionGracePeriodSeconds = nil, nil
	client := fake.NewClientset(
		stays,
		deleting("goes", "node", "shop", nil),
		deleting("ours", "node", "castoff", nil),
		deleting("slow", "node", "shop", map[string]string{AnnotationShutdown: ShutdownGrace}),
	)
	var mu sync.Mutex
	removed, attempts := map[string]types.UID{}, 0
	client.PrependReactor("delete", "pods", func(action k8stesting.Action) (bool, runtime.Object, error) {
		mu.Lock()
		defer mu.Unlock()
		if attempts++; attempts == 1 {
			return true, nil, apierrors.NewInternalError(errors.New("try again"))
		}
		deletion := action.(k8stesting.DeleteAction)
		removed[deletion.GetName()] = *deletion.GetDeleteOptions().Preconditions.UID
		return true, nil, nil
	})
	r := &reaper{client: client, ours: func(pod *corev1.Pod) bool { return pod.Spec.Containers[0].Image == "castoff" }, now: time.Now, log: slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- r.Run(ctx) }()
	seen := func() map[string]types.UID {
		mu.Lock()
		defer mu.Unlock()
		return maps.Clone(removed)
	}
	g.Eventually(seen, "10s").Should(Equal(map[string]types.UID{"goes": "uid-goes"}))
	_, err := client.CoreV1().Pods("shop").Update(ctx, deleting("stays", "node", "shop", nil), metav1.UpdateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(seen, "10s").Should(HaveKeyWithValue("stays", types.UID("uid-stays")), "deleted while the reaper runs")
	g.Consistently(seen, "300ms").Should(HaveLen(2), "the runner ends its own; who wants its grace period gets it")
	cancel()
	g.Eventually(ended, "10s").Should(Receive(Succeed()))
}

func TestRemovePodTellsWhatFailed(t *testing.T) {
	v := victim{types.NamespacedName{Namespace: "shop", Name: "db-0"}, "first"}
	cases := map[string]struct {
		reason string
		err    error
		fails  bool
	}{
		"Gone":      {"done", apierrors.NewNotFound(corev1.Resource("pods"), "db-0"), false},
		"Replaced":  {"another pod of that name is not this one's business", apierrors.NewConflict(corev1.Resource("pods"), "db-0", errors.New("uid")), false},
		"Throttled": {"is tried again", apierrors.NewTooManyRequests("later", 1), true},
		"Forbidden": {"somebody must see it", apierrors.NewForbidden(corev1.Resource("pods"), "db-0", errors.New("no")), true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset()
			client.PrependReactor("delete", "pods", func(k8stesting.Action) (bool, runtime.Object, error) { return true, nil, tc.err })
			err := removePod(t.Context(), client, v)
			if (err != nil) != tc.fails {
				t.Fatalf("%s: got %v", tc.reason, err)
			}
			if tc.fails && (!errors.Is(err, tc.err) || !strings.Contains(err.Error(), "shop/db-0")) {
				t.Errorf("want the pod and the cause, got %v", err)
			}
		})
	}
}
