package controllers

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/castoff-sh/castoff/api/v1alpha1"
)

// store is an API server in memory, as far as the controller needs one: optimistic locks, a status subresource, pages. The
// fake client of controller-runtime does more, and takes most of the time of ten thousand migrations for it.
type store struct {
	client.Client // what is not written below is not called: nil, and loud

	mu      sync.Mutex
	objects map[string]client.Object
	version int
	// around wraps every write of a status.
	around func(func() error) error
	// refuse, when it returns an error, answers a call in the store's place.
	refuse func(verb string, o any) error
	// pages counts the lists of pods that were answered; page bounds one.
	pages, page int
	writes      map[string]int
}

func newStore() *store {
	return &store{objects: map[string]client.Object{}, around: func(f func() error) error { return f() }, page: 1 << 30, writes: map[string]int{}}
}

func kindOf(o any) string { return reflect.TypeOf(o).Elem().Name() }

func keyOf(o client.Object) string { return kindOf(o) + "/" + o.GetNamespace() + "/" + o.GetName() }

func resource(o client.Object) schema.GroupResource { return schema.GroupResource{Resource: kindOf(o)} }

func (s *store) refused(verb string, o any) error {
	if s.refuse == nil {
		return nil
	}
	return s.refuse(verb, o)
}

// copied is the object as it comes back from the wire: times in seconds, empty lists gone.
func copied(o client.Object) client.Object {
	c, ok := o.DeepCopyObject().(client.Object)
	if !ok {
		panic("no object: " + keyOf(o))
	}
	if m, ok := c.(*v1alpha1.Migration); ok {
		throughTheWire(reflect.ValueOf(&m.Status).Elem())
	}
	return c
}

// throughTheWire does to a status what JSON does to it and back, at a tenth of the cost.
func throughTheWire(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			throughTheWire(v.Elem())
		}
	case reflect.Slice:
		if v.Len() == 0 {
			v.SetZero()
		}
		for i := range v.Len() {
			throughTheWire(v.Index(i))
		}
	case reflect.Struct:
		if t, ok := v.Addr().Interface().(*metav1.Time); ok {
			*t = t.Rfc3339Copy()
			return
		}
		for i := range v.NumField() {
			throughTheWire(v.Field(i))
		}
	}
}

// fork is the same store once more. What is in it is never changed in place, so the two may share it.
func (s *store) fork() *store {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &store{
		objects: maps.Clone(s.objects), version: s.version, page: s.page, writes: maps.Clone(s.writes),
		around: func(f func() error) error { return f() },
	}
}

func (s *store) put(o client.Object) {
	s.version++
	o.SetResourceVersion(strconv.Itoa(s.version))
	s.objects[keyOf(o)] = copied(o)
}

func (s *store) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.refused("get", into); err != nil {
		return err
	}
	have, ok := s.objects[kindOf(into)+"/"+key.Namespace+"/"+key.Name]
	if !ok {
		return apierrors.NewNotFound(resource(into), key.Name)
	}
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(have.DeepCopyObject()).Elem())
	return nil
}

func (s *store) List(_ context.Context, into client.ObjectList, opts ...client.ListOption) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.refused("list", into); err != nil {
		return err
	}
	o := (&client.ListOptions{}).ApplyOptions(opts)
	var found []client.Object
	for _, have := range s.objects {
		if kindOf(have)+"List" == kindOf(into) && selected(have, o) {
			found = append(found, have)
		}
	}
	slices.SortFunc(found, func(a, b client.Object) int { return cmp.Compare(keyOf(a), keyOf(b)) })
	return s.answer(into, found, o)
}

func selected(o client.Object, opts *client.ListOptions) bool {
	p, ok := o.(*corev1.Pod)
	return !ok || opts.FieldSelector == nil || opts.FieldSelector.Matches(fields.Set{"spec.nodeName": p.Spec.NodeName})
}

// answer gives one page; a page's continue token is where the next one begins.
func (s *store) answer(into client.ObjectList, found []client.Object, o *client.ListOptions) error {
	begin, end := 0, len(found)
	if o.Limit > 0 {
		s.pages++
		if o.Continue != "" {
			begin, _ = strconv.Atoi(o.Continue)
		}
		end = min(begin+min(int(o.Limit), s.page), len(found))
	}
	into.SetContinue("")
	if end < len(found) {
		into.SetContinue(strconv.Itoa(end))
	}
	var items []runtime.Object
	for _, f := range found[begin:end] {
		items = append(items, f.DeepCopyObject())
	}
	return meta.SetList(into, items)
}

func (s *store) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.refused("create", o); err != nil {
		return err
	}
	if _, ok := s.objects[keyOf(o)]; ok {
		return apierrors.NewAlreadyExists(resource(o), o.GetName())
	}
	s.writes["create "+kindOf(o)]++
	o.SetGeneration(1)
	s.put(o)
	return nil
}

func (s *store) Delete(_ context.Context, o client.Object, _ ...client.DeleteOption) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.objects[keyOf(o)]; !ok {
		return apierrors.NewNotFound(resource(o), o.GetName())
	}
	delete(s.objects, keyOf(o))
	return nil
}

// locked returns what is stored, if the caller has seen it.
func (s *store) locked(o client.Object) (client.Object, error) {
	have, ok := s.objects[keyOf(o)]
	if !ok {
		return nil, apierrors.NewNotFound(resource(o), o.GetName())
	}
	if have.GetResourceVersion() != o.GetResourceVersion() {
		return nil, apierrors.NewConflict(resource(o), o.GetName(), fmt.Errorf("the object has been modified"))
	}
	return have, nil
}

func (s *store) Update(_ context.Context, o client.Object, _ ...client.UpdateOption) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.refused("update", o); err != nil {
		return err
	}
	have, err := s.locked(o)
	if err != nil {
		return err
	}
	if m, ok := o.(*v1alpha1.Migration); ok {
		before, _ := have.(*v1alpha1.Migration)
		m.Status = *before.Status.DeepCopy()
		if !equality.Semantic.DeepEqual(before.Spec, m.Spec) {
			m.Generation++
		}
	}
	s.writes["update "+kindOf(o)]++
	s.put(o)
	return nil
}

func (s *store) Status() client.SubResourceWriter { return statusOf{store: s} }

type statusOf struct {
	client.SubResourceWriter
	store *store
}

func (w statusOf) Update(_ context.Context, o client.Object, _ ...client.SubResourceUpdateOption) error {
	return w.store.around(func() error { return w.store.updateStatus(o) })
}

// updateStatus stores the status alone.
func (s *store) updateStatus(o client.Object) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.refused("status", o); err != nil {
		return err
	}
	have, err := s.locked(o)
	if err != nil {
		return err
	}
	m, ok := o.(*v1alpha1.Migration)
	before, ok2 := have.(*v1alpha1.Migration)
	if !ok || !ok2 {
		return fmt.Errorf("no status: %s", keyOf(o))
	}
	m.Spec = *before.Spec.DeepCopy()
	s.writes["status "+kindOf(o)]++
	s.put(m)
	return nil
}
