package awssim

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/aws/smithy-go"

	"github.com/castoff-sh/castoff/e2e/awssim/codec"
)

// operation is a registered API operation.
type operation struct {
	service, name string
	input, output reflect.Type
	route         codec.Route // restJson1 only
	run           func(*call, any) (any, error)
}

// on registers a handler; the name is "<signing name>.<operation>".
func on[I, O any](s *Server, name string, handle func(*call, *I) (*O, error)) {
	service, op, _ := strings.Cut(name, ".")
	run := func(c *call, in any) (any, error) {
		typed, ok := in.(*I)
		if !ok {
			return nil, fmt.Errorf("%s: input is %T", name, in)
		}
		out, err := handle(c, typed)
		if err != nil {
			return nil, err
		}
		return out, nil
	}
	s.operations[name] = &operation{service: service, name: op, input: reflect.TypeFor[I](), output: reflect.TypeFor[O](), run: run}
}

// onREST registers a handler of a restJson1 service under the HTTP route of its schema.
func onREST[I, O any](s *Server, name string, schema *smithy.Schema, handle func(*call, *I) (*O, error)) {
	on(s, name, handle)
	if r, ok := codec.RouteOf(schema); ok {
		s.operations[name].route = r
	}
}

// call is one request on its way through a handler.
type call struct {
	s         *Server
	ctx       context.Context
	identity  string // the caller's ARN
	service   string
	operation string
}

// by names the caller and the operation, for Instance.EndedBy and the like.
func (c *call) by() string { return c.identity + " " + c.service + "." + c.operation }

// readTime is the moment that lagging reads show.
func (c *call) readTime() time.Time { return c.s.now().Add(-c.s.settings.Lag) }

// wait lets others work until done says true, the time is over (on the simulator's clock or for real, so that a
// clock that stands still cannot hang a client) or the caller hangs up. State read before it may be stale after it.
func (c *call) wait(d time.Duration, done func() bool) {
	s := c.s
	deadline := s.now().Add(d)
	t := s.after(d, func() { s.dirty = true })
	defer func() { s.clock.stop(t) }()
	real := time.NewTimer(d)
	defer real.Stop()
	for !done() && s.now().Before(deadline) {
		changed := s.changed
		s.unlock()
		over := false
		select {
		case <-changed:
		case <-real.C:
			over = true
		case <-c.ctx.Done():
			over = true
		}
		s.lock()
		if over {
			return
		}
	}
}
