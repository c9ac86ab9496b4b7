package codec

import (
	"bytes"
	"encoding/base64"
	"encoding/xml"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// ec2WireName says how a field of an EC2 type is called on the wire. Empty strings stand for the rule: the
// field's name in requests, the same with a small first letter in replies, and "item" for the elements of lists.
type ec2WireName struct {
	request, reply, item string
}

func ec2Name(t reflect.Type, field string) ec2WireName {
	n := ec2Names[t.Name()+"."+field]
	if n.request == "" {
		n.request = field
	}
	if n.reply == "" {
		n.reply = strings.ToLower(field[:1]) + field[1:]
	}
	if n.item == "" {
		n.item = "item"
	}
	return n
}

func encodeEC2(operation, requestID string, out any) ([]byte, error) {
	v := reflect.ValueOf(out)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		return nil, fmt.Errorf("encoding %s: want a pointer to an output struct, got %T", operation, out)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `<?xml version="1.0" encoding="UTF-8"?><%sResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>%s</requestId>`, operation, requestID)
	writeEC2(&b, v.Elem(), "item")
	fmt.Fprintf(&b, "</%sResponse>", operation)
	return b.Bytes(), nil
}

func writeEC2(b *bytes.Buffer, v reflect.Value, item string) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			writeEC2(b, v.Elem(), item)
		}
	case reflect.Struct:
		writeEC2Struct(b, v)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			b.WriteString(base64.StdEncoding.EncodeToString(v.Bytes()))
			return
		}
		for i := range v.Len() {
			writeElement(b, item, func() { writeEC2(b, v.Index(i), "item") })
		}
	case reflect.String:
		b.WriteString(escape(v.String()))
	case reflect.Bool:
		b.WriteString(strconv.FormatBool(v.Bool()))
	case reflect.Int32, reflect.Int64:
		b.WriteString(strconv.FormatInt(v.Int(), 10))
	case reflect.Float32, reflect.Float64:
		b.WriteString(strconv.FormatFloat(v.Float(), 'g', -1, v.Type().Bits()))
	}
}

func writeEC2Struct(b *bytes.Buffer, v reflect.Value) {
	if t, ok := v.Interface().(time.Time); ok {
		b.WriteString(formatTime(t))
		return
	}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if !f.IsExported() || f.Name == "ResultMetadata" || v.Field(i).IsZero() {
			continue
		}
		name := ec2Name(v.Type(), f.Name)
		writeElement(b, name.reply, func() { writeEC2(b, v.Field(i), name.item) })
	}
}

func writeElement(b *bytes.Buffer, name string, content func()) {
	b.WriteString("<" + name + ">")
	content()
	b.WriteString("</" + name + ">")
}

func formatTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.999Z") }

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder never fails
	return b.String()
}
