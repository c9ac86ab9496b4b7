package controllers

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
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
	// around wraps every write of a status, and aside every other write of castoff's own objects.
	around, aside func(func() error) error
	// refuse, when it returns an error, answers a call in the store's place; so does fault, for all but writes of a status.
	refuse, fault func(verb string, o any) error
	// careless takes any write, whatever the caller has seen.
	careless bool
	// pages counts the lists of pods that were answered; page bounds one.
	pages, page int
	writes      map[string]int
}

func newStore() *store {
	return &store{objects: map[string]client.Object{}, around: plainly, aside: plainly, page: 1 << 30, writes: map[string]int{}}
}

func plainly(f func() error) error { return f() }

func kindOf(o any) string { return reflect.TypeOf(o).Elem().Name() }

func keyOf(o client.Object) string { return kindOf(o) + "/" + o.GetNamespace() + "/" + o.GetName() }

func resource(o client.Object) schema.GroupResource { return schema.GroupResource{Resource: kindOf(o)} }

func (s *store) refused(verb string, o any) error {
	if s.fault != nil && verb != "status" {
		if err := s.fault(verb, o); err != nil {
			return err
		}
	}
	if s.refuse == nil {
		return nil
	}
	return s.refuse(verb, o)
}

// peek is an object as it is stored, to be looked at only; nil if there is none.
func (s *store) peek(key string) client.Object { return s.objects[key] }

// every object of a kind as it is stored, in the order of their names, to be looked at only.
func (s *store) every(kind string) []client.Object {
	var out []client.Object
	for key, o := range s.objects {
		if strings.HasPrefix(key, kind+"/") {
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b client.Object) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return out
}

func (s *store) remove(key string) { delete(s.objects, key) }

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
		around: plainly, aside: plainly,
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
	found := slices.DeleteFunc(s.every(strings.TrimSuffix(kindOf(into), "List")), func(have client.Object) bool { return !selected(have, o) })
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
	if kindOf(o) == "ConfigMap" {
		return s.aside(func() error { return s.create(o) })
	}
	return s.create(o)
}

func (s *store) create(o client.Object) error {
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
	if err := s.refused("delete", o); err != nil {
		return err
	}
	return s.delete(o)
}

func (s *store) delete(o client.Object) error {
	have, ok := s.objects[keyOf(o)]
	if !ok {
		return apierrors.NewNotFound(resource(o), o.GetName())
	}
	if len(have.GetFinalizers()) == 0 {
		s.remove(keyOf(o))
		return nil
	}
	if have.GetDeletionTimestamp() == nil {
		goes := copied(have)
		now := metav1.Now()
		goes.SetDeletionTimestamp(&now)
		s.put(goes)
	}
	return nil
}

// locked returns what is stored, if the caller has seen it.
func (s *store) locked(o client.Object) (client.Object, error) {
	have, ok := s.objects[keyOf(o)]
	if !ok {
		return nil, apierrors.NewNotFound(resource(o), o.GetName())
	}
	if have.GetResourceVersion() != o.GetResourceVersion() && !s.careless {
		return nil, apierrors.NewConflict(resource(o), o.GetName(), fmt.Errorf("the object has been modified"))
	}
	return have, nil
}

// Update of a Migration that changes its finalizers is castoff's; any other is a user's.
func (s *store) Update(_ context.Context, o client.Object, _ ...client.UpdateOption) error {
	have := s.peek(keyOf(o))
	if kindOf(o) == "ConfigMap" || have != nil && !slices.Equal(have.GetFinalizers(), o.GetFinalizers()) {
		return s.aside(func() error { return s.update(o) })
	}
	return s.update(o)
}

func (s *store) update(o client.Object) error {
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
	s.store(o)
	return nil
}

// Patch is one with an optimistic lock: the object is as the caller wants it, or somebody else was faster.
func (s *store) Patch(_ context.Context, o client.Object, _ client.Patch, _ ...client.PatchOption) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.refused("patch", o); err != nil {
		return err
	}
	have, err := s.locked(o)
	if err != nil {
		return err
	}
	if m, ok := o.(*v1alpha1.Migration); ok {
		before, _ := have.(*v1alpha1.Migration)
		m.Status = *before.Status.DeepCopy()
	}
	s.writes["patch "+kindOf(o)]++
	s.store(o)
	return nil
}

// store keeps an object, unless it was deleted and its last finalizer went.
func (s *store) store(o client.Object) {
	if o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) == 0 {
		s.remove(keyOf(o))
		return
	}
	s.put(o)
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
