package codec

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/traits"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/aws/smithy-go/transport/http/protocol/awsjson"
	"github.com/aws/smithy-go/transport/http/protocol/restjson1"
	"github.com/aws/smithy-go/transport/http/protocol/rpcv2"
)

// A client protocol wants to know the operation that it serialises. Only the body matters here, so one stands for all.
var (
	anyService   = smithy.NewServiceSchema(shape("Service", smithy.ShapeTypeService), "1")
	anyOperation = smithy.NewOperationSchema(
		shape("Operation", smithy.ShapeTypeOperation, &traits.HTTP{Method: "POST", URI: "/", Code: 200}),
		shape("Input", smithy.ShapeTypeStructure), shape("Output", smithy.ShapeTypeStructure))
	bodyProtocols = map[Protocol]smithyhttp.ClientProtocol{
		JSON: awsjson.New11(anyService), RESTJSON: restjson1.New(anyService), CBOR: rpcv2.NewCBOR(anyService),
	}
)

func shape(name string, t smithy.ShapeType, ts ...smithy.Trait) *smithy.Schema {
	return smithy.NewSchema(smithy.ShapeID{Namespace: "awssim", Name: name}, t, 0, ts...)
}

// encodeBody writes a reply as the SDK's client would write a request.
func (p Protocol) encodeBody(out smithy.Serializable) ([]byte, error) {
	req, ok := smithyhttp.NewStackRequest().(*smithyhttp.Request)
	if !ok {
		return nil, fmt.Errorf("smithy-go made no HTTP request")
	}
	req.URL = &url.URL{Scheme: "http", Host: "awssim", Path: "/"}
	if err := bodyProtocols[p].SerializeRequest(context.Background(), anyOperation, out, req); err != nil {
		return nil, fmt.Errorf("encoding %T: %w", out, err)
	}
	if s := req.GetStream(); s != nil {
		return io.ReadAll(s)
	}
	return nil, nil
}

// Route is the HTTP binding of a restJson1 operation.
type Route struct {
	Method  string
	Pattern string // /clusters/{name}/node-groups
}

// RouteOf reads the binding from an operation's schema; false when it has none.
func RouteOf(operation *smithy.Schema) (Route, bool) {
	h, ok := smithy.SchemaTrait[*traits.HTTP](operation)
	if !ok {
		return Route{}, false
	}
	pattern, _, _ := strings.Cut(h.URI, "?")
	return Route{Method: h.Method, Pattern: pattern}, true
}

// Match returns the path labels when the request is the route's; the path is the escaped one.
func (r Route) Match(method, path string) (url.Values, bool) {
	want, got := strings.Split(strings.Trim(r.Pattern, "/"), "/"), strings.Split(strings.Trim(path, "/"), "/")
	if method != r.Method || len(want) != len(got) {
		return nil, false
	}
	labels := url.Values{}
	for i, w := range want {
		if !strings.HasPrefix(w, "{") {
			if w != got[i] {
				return nil, false
			}
			continue
		}
		value, err := url.PathUnescape(got[i])
		if err != nil {
			return nil, false
		}
		labels.Set(strings.Trim(w, "{}+"), value)
	}
	return labels, true
}
