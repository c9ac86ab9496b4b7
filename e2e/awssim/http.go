package awssim

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/castoff-sh/castoff/e2e/awssim/codec"
)

// readBody reads the body, which SDKs compress where it is large and the operation allows it.
func readBody(r *http.Request) ([]byte, error) {
	if r.Header.Get("Content-Encoding") != "gzip" {
		return io.ReadAll(r.Body)
	}
	z, err := gzip.NewReader(r.Body)
	if err != nil {
		return nil, fmt.Errorf("decompressing the body: %w", err)
	}
	return io.ReadAll(z)
}

// request is an AWS request before it is decoded.
type request struct {
	protocol  codec.Protocol
	service   string
	operation string // empty for restJson1: the route tells
	method    string
	path      string // escaped
	form      url.Values
	body      []byte
}

// newRequest finds out which protocol the client chose and what it asks for: a service may speak several.
func newRequest(service string, r *http.Request, body []byte) request {
	q := request{service: service, method: r.Method, path: r.URL.EscapedPath(), body: body, form: r.URL.Query()}
	target := r.Header.Get("X-Amz-Target")
	switch {
	case target != "":
		q.protocol, q.form = codec.JSON, nil
		q.operation = target[strings.LastIndexByte(target, '.')+1:]
	case r.Header.Get("Smithy-Protocol") == "rpc-v2-cbor":
		q.protocol, q.form = codec.CBOR, nil
		q.operation = q.path[strings.LastIndexByte(q.path, '/')+1:]
	case strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded"):
		q.protocol = codec.Query
		if service == "ec2" {
			q.protocol = codec.EC2
		}
		q.form, _ = url.ParseQuery(string(body)) // what does not parse is missing
		q.operation = q.form.Get("Action")
	default:
		q.protocol = codec.RESTJSON
	}
	return q
}

// route finds the operation, and for restJson1 adds the path labels to the query parameters.
func (s *Server) route(q request) (*operation, url.Values) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.protocol != codec.RESTJSON {
		return s.operations[q.service+"."+q.operation], q.form
	}
	for _, op := range s.operations {
		if op.service != q.service || op.route.Pattern == "" {
			continue
		}
		if labels, ok := op.route.Match(q.method, q.path); ok {
			for k, v := range q.form {
				labels[k] = v
			}
			return op, labels
		}
	}
	return nil, nil
}

const requestID = "00000000-0000-4000-8000-000000000000"

func (s *Server) reply(w http.ResponseWriter, q request, res result) {
	var body []byte
	if res.err == nil {
		b, err := q.protocol.Encode(res.operation, requestID, res.output)
		if err != nil {
			res.err = asAPIError(err)
		}
		body = b
	}
	h := w.Header()
	h.Set("Content-Type", q.protocol.ContentType())
	h.Set("X-Amzn-Requestid", requestID)
	if q.protocol == codec.CBOR {
		h.Set("Smithy-Protocol", "rpc-v2-cbor")
	}
	status := http.StatusOK
	if e := res.err; e != nil {
		status, body = e.Status, q.protocol.EncodeError(requestID, e.Code, e.Message, e.Status)
		if q.protocol == codec.JSON || q.protocol == codec.RESTJSON {
			h.Set("X-Amzn-Errortype", e.Code)
		}
		if e.QueryCode != "" {
			h.Set("X-Amzn-Query-Error", e.QueryCode+";Sender")
		}
	}
	if len(body) > largeReply {
		time.Sleep(largeReplyDelay)
	}
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client went away: nobody to tell
}

// A large reply takes its time on the wire. Without it a client on the same machine may have its answer before its own
// transport is done with the request, which AWS SDKs for Go cannot take: they close the request's body, net/http then
// closes the connection, and what was not read of the reply yet is lost ("use of closed network connection"). What fits
// into the first read of the connection, 4 KiB with its headers, is safe.
const (
	largeReply      = 3 << 10
	largeReplyDelay = 10 * time.Millisecond
)
