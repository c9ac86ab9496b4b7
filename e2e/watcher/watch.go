package watcher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/castoff-sh/castoff/api/v1alpha1"
)

// customResources are watched from the moment their definition is there: castoff and Karpenter come late.
var customResources = map[string]struct {
	resource schema.GroupVersionResource
	decode   func([]byte) (any, error)
}{
	"migrations.castoff.sh":   {v1alpha1.GroupVersion.WithResource("migrations"), decode[v1alpha1.Migration]},
	"nodepools.karpenter.sh":  {schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodepools"}, decode[karpv1.NodePool]},
	"nodeclaims.karpenter.sh": {schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodeclaims"}, decode[karpv1.NodeClaim]},
}

func decode[T any](body []byte) (any, error) {
	object := new(T)
	return object, json.Unmarshal(body, object)
}

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// followCluster returns once every object of the built-in kinds has been seen.
func (w *Watcher) followCluster(ctx context.Context) error {
	all := informers.NewSharedInformerFactoryWithOptions(w.kube, 0, informers.WithTransform(stripManagedFields))
	system := informers.NewSharedInformerFactoryWithOptions(w.kube, 0, informers.WithNamespace(w.judge.config.AutoscalerNamespace),
		informers.WithTransform(stripManagedFields))
	var synced []cache.InformerSynced
	for _, informer := range []cache.SharedIndexInformer{
		all.Core().V1().Nodes().Informer(), all.Core().V1().Pods().Informer(), all.Policy().V1().PodDisruptionBudgets().Informer(),
		all.Apps().V1().Deployments().Informer(), all.Apps().V1().DaemonSets().Informer(), all.Apps().V1().StatefulSets().Informer(),
		system.Coordination().V1().Leases().Informer(), system.Core().V1().ConfigMaps().Informer(),
	} {
		registration, err := informer.AddEventHandler(handler(w.observe))
		if err != nil {
			return fmt.Errorf("watching the cluster: %w", err)
		}
		synced = append(synced, registration.HasSynced)
	}
	all.Start(ctx.Done())
	system.Start(ctx.Done())
	if err := w.followDefinitions(ctx); err != nil {
		return err
	}
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return errors.Join(errors.New("the cluster's objects could not be listed"), ctx.Err())
	}
	return nil
}

// followDefinitions begins to watch a kind once its definition is established, and ends with the definition: it goes with
// the way back, and may come again.
func (w *Watcher) followDefinitions(ctx context.Context) error {
	factory := dynamicinformer.NewDynamicSharedInformerFactory(w.dynamic, 0)
	followed := map[string]context.CancelFunc{}
	informer := factory.ForResource(definitions).Informer()
	registration, err := informer.AddEventHandler(handler(func(what any) { w.considerDefinition(ctx, followed, what) }))
	if err != nil {
		return fmt.Errorf("watching definitions: %w", err)
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		return errors.Join(errors.New("the definitions could not be listed"), ctx.Err())
	}
	return nil
}

// considerDefinition has followed to itself: an informer's events come one at a time.
func (w *Watcher) considerDefinition(ctx context.Context, followed map[string]context.CancelFunc, what any) {
	gone, deleted := what.(Gone)
	if deleted {
		what = gone.Object
	}
	definition, ok := what.(*unstructured.Unstructured)
	if !ok {
		return
	}
	name := definition.GetName()
	kind, wanted := customResources[name]
	end, before := followed[name]
	switch {
	case !wanted:
	case deleted && before:
		end()
		delete(followed, name)
	case !deleted && !before && established(definition):
		followed[name] = w.followKind(ctx, kind.resource, kind.decode)
	}
}

// followKind watches until the returned function is called; what was there then is gone.
func (w *Watcher) followKind(ctx context.Context, resource schema.GroupVersionResource, decode func([]byte) (any, error)) context.CancelFunc {
	ctx, cancel := context.WithCancel(ctx)
	factory := dynamicinformer.NewDynamicSharedInformerFactory(w.dynamic, 0)
	informer := factory.ForResource(resource).Informer()
	_, err := informer.AddEventHandler(handler(func(what any) { w.observeCustom(ctx, what, decode) }))
	w.fail(ctx, err)
	factory.Start(ctx.Done())
	return func() {
		cancel()
		factory.Shutdown()
		for _, object := range informer.GetStore().List() {
			w.observeCustom(ctx, Gone{Object: object}, decode)
		}
	}
}

// stripManagedFields spares the memory of what nobody here reads.
func stripManagedFields(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
	}
	return object, nil
}

func established(definition *unstructured.Unstructured) bool {
	conditions, _, err := unstructured.NestedSlice(definition.Object, "status", "conditions")
	if err != nil {
		return false
	}
	for _, entry := range conditions {
		if c, ok := entry.(map[string]any); ok && c["type"] == "Established" && c["status"] == string(metav1.ConditionTrue) {
			return true
		}
	}
	return false
}

func (w *Watcher) observeCustom(ctx context.Context, what any, decode func([]byte) (any, error)) {
	gone, deleted := what.(Gone)
	if deleted {
		what = gone.Object
	}
	object, ok := what.(*unstructured.Unstructured)
	if !ok {
		return
	}
	body, err := object.MarshalJSON()
	if err != nil {
		w.fail(ctx, fmt.Errorf("encoding %s %s: %w", object.GetKind(), object.GetName(), err))
		return
	}
	typed, err := decode(body)
	if err != nil {
		w.fail(ctx, fmt.Errorf("decoding %s %s: %w", object.GetKind(), object.GetName(), err))
		return
	}
	if deleted {
		typed = Gone{Object: typed}
	}
	w.observe(typed)
}

// handler passes on every change, in the order of the watch.
func handler(observe func(any)) cache.ResourceEventHandlerFuncs {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    observe,
		UpdateFunc: func(_, object any) { observe(object) },
		DeleteFunc: func(object any) {
			if unknown, missed := object.(cache.DeletedFinalStateUnknown); missed {
				object = unknown.Obj
			}
			observe(Gone{Object: object})
		},
	}
}
