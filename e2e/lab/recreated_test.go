//go:build lab

package lab_test

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/castoff-sh/castoff/e2e/lab"
)

// A kubelet that deletes by name alone kills a StatefulSet's next pod now and then, past any PodDisruptionBudget.
func TestRecreatedPodIsNeverKilledByASecondDelete(t *testing.T) {
	r := startRecreation(t)
	r.replace(60, 1)
	r.g.Expect(r.unasked()).To(BeEmpty())
	r.g.Expect(r.ended).To(HaveLen(60))
}

// recreation is a StatefulSet of one pod that is deleted over and over.
type recreation struct {
	t       *testing.T
	g       Gomega
	ns      string
	pods    watch.Interface
	current types.UID          // the latest pod that was Ready
	asked   map[types.UID]bool // the pods that somebody asked to go
	ended   map[types.UID]bool // the pods that are gone
}

func startRecreation(t *testing.T) *recreation {
	t.Helper()
	g := NewWithT(t)
	r := &recreation{t: t, g: g, ns: namespace(t, g), asked: map[types.UID]bool{}, ended: map[types.UID]bool{}}
	labels := map[string]string{"app": "db"}
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "db"}}
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	set.Spec.Template.Labels = labels
	set.Spec.Template.Annotations = map[string]string{lab.AnnotationStartup: "20ms", lab.AnnotationShutdown: "20ms"}
	set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "db", Image: "example.com/db"}}
	var err error
	r.pods, err = shared.Client.CoreV1().Pods(r.ns).Watch(t.Context(), metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(r.pods.Stop)
	_, err = shared.Client.AppsV1().StatefulSets(r.ns).Create(t.Context(), set, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	r.awaitNext()
	return r
}

// replace deletes the pod that many times, or until so many have ended unasked. A pod that is gone by then needs no asking.
func (r *recreation) replace(times, enough int) {
	r.t.Helper()
	for range times {
		if len(r.unasked()) >= enough {
			return
		}
		uid := r.current
		err := shared.Client.CoreV1().Pods(r.ns).Delete(r.t.Context(), "db-0", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
		if err == nil {
			r.asked[uid] = true
		} else if !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			r.t.Fatal(err)
		}
		r.awaitNext()
	}
}

// awaitNext follows the pods until another one is Ready.
func (r *recreation) awaitNext() {
	r.t.Helper()
	for event := range r.pods.ResultChan() {
		pod, ok := event.Object.(*corev1.Pod)
		switch {
		case !ok:
			r.t.Fatalf("watching pods: %+v", event.Object)
		case event.Type == watch.Deleted:
			r.ended[pod.UID] = true
		case pod.UID != r.current && isReady(pod) && pod.DeletionTimestamp == nil:
			r.current = pod.UID
			return
		}
	}
	r.t.Fatal("the watch of pods broke off")
}

// unasked are the pods that ended without anybody's asking.
func (r *recreation) unasked() (uids []types.UID) {
	for uid := range r.ended {
		if !r.asked[uid] {
			uids = append(uids, uid)
		}
	}
	return uids
}
