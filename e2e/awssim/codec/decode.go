package codec

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/smithy-go/encoding/cbor"
)

var timeType = reflect.TypeFor[time.Time]()

// decoder fills Go values from parsed JSON, CBOR or forms, which all arrive as map[string]any, []any and leaves.
type decoder struct {
	ec2 bool // wire names come from the EC2 name table
}

func (d decoder) fill(v reflect.Value, x any) error {
	if x == nil {
		return nil
	}
	switch {
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return d.fill(v.Elem(), x)
	case v.Kind() == reflect.Struct && v.Type() != timeType:
		return d.fillStruct(v, x)
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() != reflect.Uint8:
		return d.fillSlice(v, x)
	case v.Kind() == reflect.Map:
		return d.fillMap(v, x)
	}
	return fillLeaf(v, x)
}

func (d decoder) fillStruct(v reflect.Value, x any) error {
	m, ok := x.(map[string]any)
	if !ok {
		return fmt.Errorf("%s: want an object, got %T", v.Type().Name(), x)
	}
	fields := fieldsOf(v.Type(), d.ec2)
	for name, value := range m {
		i, ok := fields[strings.ToLower(name)]
		if !ok { // the few form lists that the wire names in the singular: References is Reference.item.1
			i, ok = fields[strings.ToLower(name)+"s"]
		}
		if !ok {
			continue
		}
		if err := d.fill(v.Field(i), value); err != nil {
			return fmt.Errorf("%s.%s: %w", v.Type().Name(), name, err)
		}
	}
	return nil
}

func (d decoder) fillSlice(v reflect.Value, x any) error {
	list, ok := x.([]any)
	if m, isMap := x.(map[string]any); isMap {
		list, ok = numbered(m, "member", "item"), true
	}
	if !ok {
		return fmt.Errorf("want a list, got %T", x)
	}
	v.Set(reflect.MakeSlice(v.Type(), len(list), len(list)))
	for i, e := range list {
		if err := d.fill(v.Index(i), e); err != nil {
			return fmt.Errorf("[%d]: %w", i, err)
		}
	}
	return nil
}

func (d decoder) fillMap(v reflect.Value, x any) error {
	m, ok := x.(map[string]any)
	if !ok {
		return fmt.Errorf("want a map, got %T", x)
	}
	if entries := numbered(m, "entry"); entries != nil { // awsQuery: entry.1.key, entry.1.value
		m = map[string]any{}
		for _, e := range entries {
			if pair, ok := e.(map[string]any); ok {
				m[fmt.Sprint(pair["key"])] = pair["value"]
			}
		}
	}
	v.Set(reflect.MakeMap(v.Type()))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		e := reflect.New(v.Type().Elem()).Elem()
		if err := d.fill(e, m[key]); err != nil {
			return fmt.Errorf("[%q]: %w", key, err)
		}
		v.SetMapIndex(reflect.ValueOf(key).Convert(v.Type().Key()), e)
	}
	return nil
}

// fillParameters fills path labels and query parameters, whose lists are repeated names.
func (d decoder) fillParameters(v reflect.Value, form url.Values) error {
	fields := fieldsOf(v.Type(), false)
	for name, values := range form {
		i, ok := fields[strings.ToLower(name)]
		if !ok || len(values) == 0 {
			continue
		}
		var x any = values[0]
		if f := v.Field(i); f.Kind() == reflect.Slice {
			list := make([]any, len(values))
			for i, s := range values {
				list[i] = s
			}
			x = list
		}
		if err := d.fill(v.Field(i), x); err != nil {
			return fmt.Errorf("parameter %s: %w", name, err)
		}
	}
	return nil
}

func fillLeaf(v reflect.Value, x any) error {
	switch x := x.(type) {
	case string:
		return fillText(v, x)
	case json.Number:
		return fillText(v, x.String())
	case []byte:
		if v.Kind() == reflect.Slice {
			v.SetBytes(x)
			return nil
		}
	case bool:
		if v.Kind() == reflect.Bool {
			v.SetBool(x)
			return nil
		}
	}
	return fmt.Errorf("cannot put %T into %s", x, v.Type())
}

func fillText(v reflect.Value, s string) error {
	switch v.Kind() {
	case reflect.Struct:
		t, err := parseTime(s)
		v.Set(reflect.ValueOf(t))
		return err
	case reflect.String:
		v.SetString(s)
	case reflect.Bool:
		b, err := strconv.ParseBool(s)
		v.SetBool(b)
		return err
	case reflect.Int32, reflect.Int64:
		i, err := strconv.ParseInt(s, 10, v.Type().Bits())
		v.SetInt(i)
		return err
	case reflect.Float32, reflect.Float64:
		f, err := strconv.ParseFloat(s, v.Type().Bits())
		v.SetFloat(f)
		return err
	case reflect.Slice:
		b, err := base64.StdEncoding.DecodeString(s)
		v.SetBytes(b)
		return err
	default:
		return fmt.Errorf("cannot put text into %s", v.Type())
	}
	return nil
}

// parseTime reads the two timestamp formats in use: date-time (forms) and epoch seconds (JSON, CBOR).
func parseTime(s string) (time.Time, error) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return time.Parse(time.RFC3339Nano, s)
	}
	seconds, fraction := math.Modf(f)
	return time.Unix(int64(seconds), int64(math.Round(fraction*1e3))*1e6).UTC(), nil
}

// formTree nests dotted form keys: "Filter.1.Name=x" becomes {"Filter": {"1": {"Name": "x"}}}.
func formTree(form url.Values) map[string]any {
	root := map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(form)) {
		if len(form[key]) == 0 {
			continue
		}
		at, parts := root, strings.Split(key, ".")
		for _, p := range parts[:len(parts)-1] {
			next, ok := at[p].(map[string]any)
			if !ok {
				next = map[string]any{}
				at[p] = next
			}
			at = next
		}
		at[parts[len(parts)-1]] = form[key][0]
	}
	return root
}

// numbered returns the elements 1, 2, … of a form list, which may sit under one of the wrapper names.
func numbered(m map[string]any, wrappers ...string) []any {
	for name, x := range m {
		if inner, ok := x.(map[string]any); ok && slices.Contains(wrappers, strings.ToLower(name)) {
			m = inner
			break
		}
	}
	var list []any
	for i := 1; ; i++ {
		x, ok := m[strconv.Itoa(i)]
		if !ok {
			return list
		}
		list = append(list, x)
	}
}

func fromCBOR(x cbor.Value) any {
	switch x := x.(type) {
	case cbor.Map:
		m := make(map[string]any, len(x))
		for k, v := range x {
			m[k] = fromCBOR(v)
		}
		return m
	case cbor.List:
		list := make([]any, len(x))
		for i, v := range x {
			list[i] = fromCBOR(v)
		}
		return list
	case cbor.String:
		return string(x)
	case cbor.Slice:
		return []byte(x)
	case cbor.Bool:
		return bool(x)
	case cbor.Uint:
		return json.Number(strconv.FormatUint(uint64(x), 10))
	case cbor.NegInt:
		return json.Number("-" + strconv.FormatUint(uint64(x), 10))
	case cbor.Float32:
		return json.Number(strconv.FormatFloat(float64(x), 'g', -1, 32))
	case cbor.Float64:
		return json.Number(strconv.FormatFloat(float64(x), 'g', -1, 64))
	case *cbor.Tag: // tag 1: epoch seconds
		return fromCBOR(x.Value)
	}
	return nil
}

var fieldCache sync.Map // fieldKey → map[string]int

type fieldKey struct {
	t   reflect.Type
	ec2 bool
}

// fieldsOf maps lower-case wire names to field indexes.
func fieldsOf(t reflect.Type, ec2 bool) map[string]int {
	key := fieldKey{t, ec2}
	cached, _ := fieldCache.Load(key)
	if m, ok := cached.(map[string]int); ok {
		return m
	}
	m := map[string]int{}
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() || f.Name == "ResultMetadata" {
			continue
		}
		name := f.Name
		if ec2 {
			name = ec2Name(t, f.Name).request
		}
		m[strings.ToLower(name)] = i
	}
	fieldCache.Store(key, m)
	return m
}
