package controllers

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pagingServer answers lists page by page, as the API server does: limit, continue, and protobuf for whoever asks for it.
type pagingServer struct {
	lists map[string]generated
	// forbid refuses a resource.
	forbid map[string]bool

	mu    sync.Mutex
	pages map[string]int // that were served, by resource
	asked []string       // Accept headers
	// encoded pages, by what was asked for: a server that is asked for the same again encodes it once.
	encoded map[string][]byte
}

// generated is a list whose items are made when they are asked for: a whole cluster would not fit beside what is measured.
type generated struct {
	list  runtime.Object // an empty one
	count int
	item  func(i int) runtime.Object
}

func newPagingServer(lists map[string]generated) *pagingServer {
	return &pagingServer{lists: lists, pages: map[string]int{}, forbid: map[string]bool{}, encoded: map[string][]byte{}}
}

// clientOf is a client of the server at this address, as the operator has one.
func clientOf(tb testing.TB, address string) client.Client {
	tb.Helper()
	scheme, err := Scheme()
	if err != nil {
		tb.Fatal(err)
	}
	c, err := client.New(&rest.Config{Host: address, QPS: -1}, client.Options{Scheme: scheme, Mapper: mapperOf(tb)})
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// mapperOf knows the kinds of client-go's scheme, all of them namespaced but a few.
func mapperOf(tb testing.TB) meta.RESTMapper {
	tb.Helper()
	m := meta.NewDefaultRESTMapper(clientgoscheme.Scheme.PrioritizedVersionsAllGroups())
	for gvk := range clientgoscheme.Scheme.AllKnownTypes() {
		scope := meta.RESTScopeNamespace
		switch gvk.Kind {
		case "Node", "PersistentVolume", "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration":
			scope = meta.RESTScopeRoot
		}
		m.Add(gvk, scope)
	}
	return m
}

// ServeHTTP answers a page of a list, or one Service.
func (s *pagingServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	resource, one := parts[len(parts)-1], ""
	if parts[len(parts)-2] == "services" {
		resource, one = "services", resource
	}
	list, served := s.lists[resource]
	s.mu.Lock()
	s.pages[resource]++
	s.asked = append(s.asked, r.Header.Get("Accept"))
	s.mu.Unlock()
	switch {
	case s.forbid[resource]:
		deny(w, http.StatusForbidden, metav1.StatusReasonForbidden, resource+" is forbidden")
		return
	case !served:
		deny(w, http.StatusNotFound, metav1.StatusReasonNotFound, r.URL.Path+" not found")
		return
	}
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	contentType := runtime.ContentTypeJSON
	if strings.Contains(r.Header.Get("Accept"), runtime.ContentTypeProtobuf) {
		contentType = runtime.ContentTypeProtobuf
	}
	produce := func() (runtime.Object, error) { return list.page(from, limit) }
	if one != "" {
		produce = func() (runtime.Object, error) { return list.item(0), nil }
	}
	body, err := s.body(fmt.Sprint(r.URL, contentType), contentType, produce)
	if err != nil {
		deny(w, http.StatusInternalServerError, metav1.StatusReasonInternalError, err.Error())
		return
	}
	w.Header().Set("Content-Type", contentType)
	_, _ = w.Write(body) // a client that has gone
}

// body is what was made and encoded for this key, or is now.
func (s *pagingServer) body(key, contentType string, produce func() (runtime.Object, error)) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if body, ok := s.encoded[key]; ok {
		return body, nil
	}
	o, err := produce()
	if err != nil {
		return nil, err
	}
	body, err := encode(o, contentType)
	s.encoded[key] = body
	return body, err
}

func deny(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":%q,"reason":%q,"code":%d}`, message, reason, code)
}

func (g generated) page(from, limit int) (runtime.Object, error) {
	to := g.count
	if limit > 0 {
		to = min(from+limit, g.count)
	}
	list := g.list.DeepCopyObject()
	var items []runtime.Object
	for i := from; i < to; i++ {
		items = append(items, g.item(i))
	}
	if err := meta.SetList(list, items); err != nil {
		return nil, err
	}
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		return nil, err
	}
	accessor.SetResourceVersion("1")
	if to < g.count {
		accessor.SetContinue(strconv.Itoa(to))
	}
	return list, nil
}

func encode(list runtime.Object, contentType string) ([]byte, error) {
	codecs := serializer.NewCodecFactory(clientgoscheme.Scheme)
	info, ok := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), contentType)
	if !ok {
		return nil, fmt.Errorf("no serializer of %s", contentType)
	}
	gvks, _, err := clientgoscheme.Scheme.ObjectKinds(list)
	if err != nil {
		return nil, err
	}
	return runtime.Encode(codecs.EncoderForVersion(info.Serializer, gvks[0].GroupVersion()), list)
}
