package awssim

import (
	"reflect"
	"slices"
	"time"
)

// table is a versioned store: writes and decisions see the truth, lagging reads see the past through asOf.
// Values are deep-copied on their way in and out. Rows are listed in the order in which they were first put.
type table[T any] struct {
	s    *Server
	rows map[string]*row[T]
	keys []string
}

// row is the history of a key, oldest first.
type row[T any] struct {
	versions []version[T]
}

type version[T any] struct {
	since time.Time
	value *T // nil: deleted
}

// minHistory is how far back rows are kept at least, so that a lag set later finds a past to show.
const minHistory = time.Minute

func newTable[T any](s *Server) *table[T] {
	return &table[T]{s: s, rows: map[string]*row[T]{}}
}

// get returns the value as it truly is.
func (t *table[T]) get(key string) (T, bool) { return t.truth().get(key) }

// list returns every value as it truly is.
func (t *table[T]) list() []T { return t.truth().where(nil) }

// put stores the value from now on.
func (t *table[T]) put(key string, value T) {
	v := deepCopy(value)
	t.add(key, &v)
}

// delete ends the value from now on; a missing key is left alone.
func (t *table[T]) delete(key string) {
	if t.truth().at(key) == nil {
		return
	}
	t.add(key, nil)
	t.compact()
}

// update changes a value in place; false when there is none.
func (t *table[T]) update(key string, change func(*T)) bool {
	v, ok := t.get(key)
	if !ok {
		return false
	}
	change(&v)
	t.add(key, &v)
	return true
}

func (t *table[T]) add(key string, value *T) {
	r, ok := t.rows[key]
	if !ok {
		r = &row[T]{}
		t.rows[key] = r
		t.keys = append(t.keys, key)
	}
	horizon := t.s.now().Add(-max(minHistory, t.s.settings.Lag))
	for len(r.versions) > 1 && !r.versions[1].since.After(horizon) {
		r.versions = r.versions[1:]
	}
	since := t.s.now()
	if t.s.seeding {
		since = time.Time{} // there since ever: what a world begins with does not lag
	}
	r.versions = append(r.versions, version[T]{since: since, value: value})
	t.s.dirty = true
}

// compact forgets rows that nobody can see any more, once they are the majority.
func (t *table[T]) compact() {
	horizon := t.s.now().Add(-max(minHistory, t.s.settings.Lag))
	dead := func(key string) bool {
		last := t.rows[key].versions[len(t.rows[key].versions)-1]
		return last.value == nil && last.since.Before(horizon)
	}
	n := 0
	for _, k := range t.keys {
		if dead(k) {
			n++
		}
	}
	if n <= len(t.keys)/2 {
		return
	}
	t.keys = slices.DeleteFunc(t.keys, func(k string) bool {
		if !dead(k) {
			return false
		}
		delete(t.rows, k)
		return true
	})
}

// view is a table at one moment.
type view[T any] struct {
	t    *table[T]
	when time.Time
}

// asOf shows the table as it was at that moment.
func (t *table[T]) asOf(when time.Time) view[T] { return view[T]{t, when} }

func (t *table[T]) truth() view[T] { return view[T]{t, t.s.now()} }

// at returns the stored value itself: not to be changed nor kept.
func (v view[T]) at(key string) *T {
	r, ok := v.t.rows[key]
	if !ok {
		return nil
	}
	for _, x := range slices.Backward(r.versions) {
		if !x.since.After(v.when) {
			return x.value
		}
	}
	return nil
}

// get returns the value at that moment.
func (v view[T]) get(key string) (T, bool) {
	if p := v.at(key); p != nil {
		return deepCopy(*p), true
	}
	var none T
	return none, false
}

// where lists the values at that moment that match; nil matches all. The filter must not change its argument.
func (v view[T]) where(match func(*T) bool) []T {
	var list []T
	for _, k := range v.t.keys {
		if p := v.at(k); p != nil && (match == nil || match(p)) {
			list = append(list, deepCopy(*p))
		}
	}
	return list
}

// each visits the values at that moment without copying them: not to be changed nor kept.
func (v view[T]) each(visit func(*T)) {
	for _, k := range v.t.keys {
		if p := v.at(k); p != nil {
			visit(p)
		}
	}
}

func deepCopy[T any](v T) T {
	var out T
	copyInto(reflect.ValueOf(&out).Elem(), reflect.ValueOf(&v).Elem())
	return out
}

// copyInto copies exported fields deeply and the rest as Go assigns it.
func copyInto(dst, src reflect.Value) {
	switch src.Kind() {
	case reflect.Pointer:
		if !src.IsNil() {
			dst.Set(reflect.New(src.Type().Elem()))
			copyInto(dst.Elem(), src.Elem())
		}
	case reflect.Struct:
		dst.Set(src)
		for i := range src.NumField() {
			if src.Type().Field(i).IsExported() {
				copyInto(dst.Field(i), src.Field(i))
			}
		}
	case reflect.Slice:
		if !src.IsNil() {
			dst.Set(reflect.MakeSlice(src.Type(), src.Len(), src.Len()))
			for i := range src.Len() {
				copyInto(dst.Index(i), src.Index(i))
			}
		}
	case reflect.Map:
		if !src.IsNil() {
			dst.Set(reflect.MakeMapWithSize(src.Type(), src.Len()))
			for _, k := range src.MapKeys() {
				e := reflect.New(src.Type().Elem()).Elem()
				copyInto(e, src.MapIndex(k))
				dst.SetMapIndex(k, e)
			}
		}
	default:
		dst.Set(src)
	}
}
