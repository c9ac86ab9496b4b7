package codec

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math/big"
	"strconv"
	"time"

	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/document"
	"github.com/aws/smithy-go/traits"
)

func encodeQuery(operation, requestID string, out smithy.Serializable) ([]byte, error) {
	w := &xmlWriter{}
	out.Serialize(w)
	if w.err != nil {
		return nil, fmt.Errorf("encoding %s: %w", operation, w.err)
	}
	return fmt.Appendf(nil, "<%[1]sResponse><%[1]sResult>%[2]s</%[1]sResult><ResponseMetadata><RequestId>%[3]s</RequestId></ResponseMetadata></%[1]sResponse>",
		operation, w.Bytes(), requestID), nil
}

// xmlWriter is a smithy.ShapeSerializer for awsQuery replies.
type xmlWriter struct {
	b     bytes.Buffer
	stack []xmlFrame
	err   error
}

// xmlFrame is an element that is open. In lists and maps the element, not the schema, names what is inside.
type xmlFrame struct {
	element string         // to close; empty where nothing was opened (the root, a flattened list)
	item    string         // name of each element of a list
	mapping *smithy.Schema // of a map: names its entries
	entry   bool           // an entry of the map is open
}

// wireName is the member's own xmlName or its name. A name on the target type does not count.
func wireName(s *smithy.Schema) string {
	if t, ok := smithy.SchemaDirectTrait[*traits.XMLName](s); ok {
		return t.Name
	}
	if s == nil {
		return "member"
	}
	return s.MemberName()
}

func flattened(s *smithy.Schema) bool {
	_, ok := smithy.SchemaTrait[*traits.XMLFlattened](s)
	return ok
}

func (w *xmlWriter) top() *xmlFrame {
	if len(w.stack) == 0 {
		return nil
	}
	return &w.stack[len(w.stack)-1]
}

func (w *xmlWriter) name(s *smithy.Schema) string {
	f := w.top()
	switch {
	case f == nil:
		return ""
	case f.mapping != nil:
		return wireName(f.mapping.MapValue())
	case f.item != "":
		return f.item
	}
	return wireName(s)
}

func (w *xmlWriter) push(f xmlFrame) {
	if f.element != "" {
		w.b.WriteString("<" + f.element + ">")
	}
	w.stack = append(w.stack, f)
}

func (w *xmlWriter) pop() {
	f := w.top()
	if f == nil {
		w.err = fmt.Errorf("a shape was closed that was never opened")
		return
	}
	w.closeEntry(f)
	if f.element != "" {
		w.b.WriteString("</" + f.element + ">")
	}
	w.stack = w.stack[:len(w.stack)-1]
}

func (w *xmlWriter) closeEntry(f *xmlFrame) {
	if f.entry {
		w.b.WriteString("</entry>")
		f.entry = false
	}
}

func (w *xmlWriter) leaf(s *smithy.Schema, text string) {
	name := w.name(s)
	w.b.WriteString("<" + name + ">" + escape(text) + "</" + name + ">")
}

// Bytes is everything written.
func (w *xmlWriter) Bytes() []byte { return w.b.Bytes() }

func (w *xmlWriter) WriteStruct(s *smithy.Schema) { w.push(xmlFrame{element: w.name(s)}) }
func (w *xmlWriter) CloseStruct()                 { w.pop() }

func (w *xmlWriter) WriteList(s *smithy.Schema) {
	if name := w.name(s); flattened(s) {
		w.push(xmlFrame{item: name})
	} else {
		w.push(xmlFrame{element: name, item: wireName(s.ListMember())})
	}
}
func (w *xmlWriter) CloseList() { w.pop() }

func (w *xmlWriter) WriteMap(s *smithy.Schema) { w.push(xmlFrame{element: w.name(s), mapping: s}) }
func (w *xmlWriter) CloseMap()                 { w.pop() }

func (w *xmlWriter) WriteKey(_ *smithy.Schema, key string) {
	f := w.top()
	if f == nil || f.mapping == nil {
		w.err = fmt.Errorf("key %q outside of a map", key)
		return
	}
	w.closeEntry(f)
	f.entry = true
	name := wireName(f.mapping.MapKey())
	w.b.WriteString("<entry><" + name + ">" + escape(key) + "</" + name + ">")
}

func (w *xmlWriter) WriteUnion(s, _ *smithy.Schema) { w.push(xmlFrame{element: w.name(s)}) }
func (w *xmlWriter) CloseUnion()                    { w.pop() }

func (w *xmlWriter) WriteString(s *smithy.Schema, v string) { w.leaf(s, v) }
func (w *xmlWriter) WriteBool(s *smithy.Schema, v bool)     { w.leaf(s, strconv.FormatBool(v)) }
func (w *xmlWriter) WriteInt8(s *smithy.Schema, v int8)     { w.leaf(s, strconv.Itoa(int(v))) }
func (w *xmlWriter) WriteInt16(s *smithy.Schema, v int16)   { w.leaf(s, strconv.Itoa(int(v))) }
func (w *xmlWriter) WriteInt32(s *smithy.Schema, v int32)   { w.leaf(s, strconv.Itoa(int(v))) }
func (w *xmlWriter) WriteInt64(s *smithy.Schema, v int64)   { w.leaf(s, strconv.FormatInt(v, 10)) }
func (w *xmlWriter) WriteFloat32(s *smithy.Schema, v float32) {
	w.leaf(s, strconv.FormatFloat(float64(v), 'g', -1, 32))
}
func (w *xmlWriter) WriteFloat64(s *smithy.Schema, v float64) {
	w.leaf(s, strconv.FormatFloat(v, 'g', -1, 64))
}
func (w *xmlWriter) WriteBlob(s *smithy.Schema, v []byte) {
	w.leaf(s, base64.StdEncoding.EncodeToString(v))
}
func (w *xmlWriter) WriteTime(s *smithy.Schema, v time.Time) { w.leaf(s, formatTime(v)) }

func (w *xmlWriter) WriteBigInt(s *smithy.Schema, v *big.Int)     { w.leaf(s, v.String()) }
func (w *xmlWriter) WriteBigFloat(s *smithy.Schema, v *big.Float) { w.leaf(s, v.String()) }
func (w *xmlWriter) WriteDocument(s *smithy.Schema, _ document.Value) {
	w.err = fmt.Errorf("%s: awsQuery has no documents", s.ID())
}
func (w *xmlWriter) WriteNil(*smithy.Schema) {}
