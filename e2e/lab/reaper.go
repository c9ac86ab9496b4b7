package lab

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// reaper does the last thing a kubelet does for a pod, for the pods that kwok plays: once the pod has had its time to
// shut down it is removed for good, by UID, so that a StatefulSet's next pod of the same name is never hit.
type reaper struct {
	client   kubernetes.Interface
	ours     func(*corev1.Pod) bool // pods the runner ends itself
	shutdown time.Duration
	now      func() time.Time
	log      *slog.Logger
}

// victim is a pod that is being deleted.
type victim struct {
	types.NamespacedName
	uid types.UID
}

// workers bound how many deletes are under way; the API server does some hundreds a second.
const workers = 16

// Run works until ctx ends.
func (r *reaper) Run(ctx context.Context) error {
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[victim]())
	factory := informers.NewSharedInformerFactoryWithOptions(r.client, 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermNotEqualSelector("spec.nodeName", "").String()
		}))
	informer := factory.Core().V1().Pods().Informer()
	consider := func(object any) {
		pod, ok := object.(*corev1.Pod)
		if !ok || pod.DeletionTimestamp == nil || r.ours(pod) {
			return
		}
		queue.AddAfter(victim{types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, pod.UID}, r.delay(pod))
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    consider,
		UpdateFunc: func(_, object any) { consider(object) },
	})
	if err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	for range workers {
		go r.work(ctx, queue)
	}
	<-ctx.Done()
	queue.ShutDown()
	return nil
}

// delay is how long a pod that is being deleted goes on: as its annotation says, never longer than its grace period.
// A wish that cannot be read is logged and counts as none.
func (r *reaper) delay(pod *corev1.Pod) time.Duration {
	left := pod.DeletionTimestamp.Sub(r.now())
	wish := r.shutdown
	switch text := pod.Annotations[AnnotationShutdown]; text {
	case "":
	case ShutdownGrace:
		return max(0, left)
	default:
		parsed, err := time.ParseDuration(text)
		if err != nil {
			r.log.Warn("not a duration", "annotation", AnnotationShutdown, "value", text, "pod", pod.Namespace+"/"+pod.Name)
			break
		}
		wish = parsed
	}
	grace := time.Duration(ptrValue(pod.DeletionGracePeriodSeconds)) * time.Second
	elapsed := max(0, grace-left) // since the deletion
	return max(0, min(wish-elapsed, left))
}

func (r *reaper) work(ctx context.Context, queue workqueue.TypedRateLimitingInterface[victim]) {
	for {
		item, shutdown := queue.Get()
		if shutdown {
			return
		}
		err := removePod(ctx, r.client, item)
		if err != nil && ctx.Err() == nil {
			r.log.Warn("retrying", "error", err)
			queue.AddRateLimited(item)
		} else {
			queue.Forget(item)
		}
		queue.Done(item)
	}
}

// removePod removes a pod that has ended. One that is gone, or has made room for another, is done.
func removePod(ctx context.Context, client kubernetes.Interface, v victim) error {
	zero := int64(0)
	err := client.CoreV1().Pods(v.Namespace).Delete(ctx, v.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &zero, Preconditions: &metav1.Preconditions{UID: &v.uid},
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("remove pod %s: %w", v.NamespacedName, err)
	}
	return nil
}

func ptrValue(p *int64) int64 {
	if p == nil {
		return 0
	}
	return *p
}
