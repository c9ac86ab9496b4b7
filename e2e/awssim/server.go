package awssim

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/castoff-sh/castoff/e2e/awssim/codec"
	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
)

// accountID is the one account of the simulated world.
const accountID = "123456789012"

// Options of a Server. The zero value is a world without lag in which instances run as soon as they are launched.
type Options struct {
	Region   string           // us-east-1 when empty
	Settings simapi.Settings  // how the world behaves at first and after a reset
	Now      func() time.Time // the clock underneath; time.Now when nil
	CallLog  io.Writer        // where every request goes as a JSON line; nowhere when nil
}

// Server is the simulator: an http.Handler that speaks the AWS APIs and, under simapi's paths, the side door.
type Server struct {
	options Options
	sideway *http.ServeMux

	mu      sync.Mutex
	changed chan struct{} // closed and replaced whenever something changed
	dirty   bool          // something changed since the lock was taken
	world
}

// world is everything that a reset forgets.
type world struct {
	clock      *clock
	seeding    bool // the services are being set up
	settings   simapi.Settings
	operations map[string]*operation
	faults     faults
	calls      callLog
	stream     []simapi.Event
	sessions   map[string]string // temporary access keys and the ARN they act as
	lastID     int
	pages      map[string]any // the rests of paged listings
	services
	extensions
}

// New makes a simulator with an empty world. Serve it with net/http or httptest; call Run beside it where time passes
// by itself, or Advance where a test moves it.
func New(o Options) *Server {
	if o.Region == "" {
		o.Region = "us-east-1"
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Server{options: o, changed: make(chan struct{})}
	s.world = s.newWorld(newClock(o.Now))
	s.setUp()
	s.sideway = s.sideDoor()
	return s
}

func (s *Server) newWorld(c *clock) world {
	return world{clock: c, settings: s.options.Settings, operations: map[string]*operation{}, calls: callLog{out: s.options.CallLog}, sessions: map[string]string{}, pages: map[string]any{}}
}

// reset forgets everything but the time.
func (s *Server) reset() {
	s.clock.clear()
	s.world = s.newWorld(s.clock)
	s.setUp()
	s.dirty = true
}

// lock takes the world and brings it up to the present. A timer that panics is a bug: it must be seen, and not leave
// everybody else waiting.
func (s *Server) lock() {
	s.mu.Lock()
	defer func() {
		if p := recover(); p != nil {
			s.mu.Unlock()
			panic(p)
		}
	}()
	s.clock.catchUp()
}

// unlock releases the world and wakes whoever waits for a change.
func (s *Server) unlock() {
	if s.dirty {
		s.dirty = false
		close(s.changed)
		s.changed = make(chan struct{})
	}
	s.mu.Unlock()
}

// now is the simulator's time; it stands still while the lock is held.
func (s *Server) now() time.Time { return s.clock.now }

// after calls fire, under the lock, when d has passed on the simulator's clock.
func (s *Server) after(d time.Duration, fire func()) *timer { return s.clock.at(s.now().Add(d), fire) }

// at calls fire, under the lock, at that time.
func (s *Server) at(due time.Time, fire func()) *timer { return s.clock.at(due, fire) }

// Advance moves the simulator's clock forward and lets everything happen that becomes due.
func (s *Server) Advance(d time.Duration) {
	s.lock()
	defer s.unlock()
	s.clock.offset += d
	s.clock.catchUp()
}

// Run lets things happen when they are due, until the context ends.
func (s *Server) Run(ctx context.Context) {
	for ctx.Err() == nil {
		s.lock()
		d, ok := s.clock.untilNext()
		s.unlock()
		if !ok {
			d = time.Hour // woken by the next timer that is set
		}
		t := time.NewTimer(max(d, time.Millisecond))
		select {
		case <-ctx.Done():
		case <-s.clock.wake:
		case <-t.C:
		}
		t.Stop()
	}
}

// credentialScope finds the access key, region and service in a SigV4 Authorization header.
var credentialScope = regexp.MustCompile(`Credential=([^/]+)/\d+/([^/]+)/([^/]+)/aws4_request`)

// ServeHTTP answers an AWS request by the service in its signature's scope, and side door requests by their path.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/_sim/") || r.URL.Path == simapi.PathIdentity {
		s.sideway.ServeHTTP(w, r)
		return
	}
	body, err := readBody(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	accessKey, service := "anonymous", "sts" // AssumeRoleWithWebIdentity is the one call that comes unsigned
	if scope := credentialScope.FindStringSubmatch(r.Header.Get("Authorization")); scope != nil {
		accessKey, service = scope[1], scope[3]
	}
	q := newRequest(service, r, body)
	if accessKey == "anonymous" && q.operation != "AssumeRoleWithWebIdentity" {
		http.Error(w, "the request carries no AWS signature (version 4)", http.StatusForbidden)
		return
	}
	op, form := s.route(q)
	s.reply(w, q, s.execute(r.Context(), q, op, form, accessKey))
}

// result is what a request came to.
type result struct {
	operation string
	output    any
	err       *apiError
}

// execute decodes the request, runs its handler between the faults, and logs the call.
func (s *Server) execute(ctx context.Context, q request, op *operation, form url.Values, accessKey string) result {
	record := simapi.Call{Service: q.service, Operation: q.operation}
	if op != nil {
		record.Operation = op.name
	}
	in, err := decode(q, op, form)
	record.Input = inputJSON(in)

	s.lock()
	defer s.unlock()
	c := &call{s: s, ctx: ctx, identity: s.identityOf(accessKey), service: q.service, operation: record.Operation}
	record.Time, record.Identity = s.now(), c.identity
	record.Targets = s.targets(q.service, record.Input)
	var out any
	if err == nil {
		out, err = s.runFaulty(c, op, in, &record)
	}
	res := result{operation: record.Operation, output: out}
	record.Status = http.StatusOK
	if err != nil {
		res.err = asAPIError(err)
		record.Status, record.ErrorCode = res.err.Status, res.err.Code
	}
	s.calls.add(record)
	return res
}

func decode(q request, op *operation, form url.Values) (any, error) {
	if op == nil {
		return nil, errorf("InvalidAction", "the simulator does not know %s %s %s %s", q.service, q.operation, q.method, q.path)
	}
	in := reflect.New(op.input).Interface()
	if err := q.protocol.Decode(codec.Request{Form: form, Body: q.body}, in); err != nil {
		return nil, errorf("SerializationException", "%v", err)
	}
	return in, nil
}

// runFaulty runs the handler, unless a fault comes before it; a fault may also take its reply away.
func (s *Server) runFaulty(c *call, op *operation, in any, record *simapi.Call) (any, error) {
	record.DryRun = isDryRun(in)
	record.Write = !isRead(op.name) && !record.DryRun
	fault := s.faults.forCall(c, string(record.Input))
	if fault != nil {
		record.Fault = fault.ID
		if !fault.After {
			return nil, faultError(fault, c.operation)
		}
	}
	out, err := s.runSafely(c, op, in, record.DryRun)
	if fault != nil {
		return nil, faultError(fault, c.operation)
	}
	return out, err
}

// runSafely keeps a handler's panic from taking the lock, and with it the whole simulator, down.
func (s *Server) runSafely(c *call, op *operation, in any, dryRun bool) (out any, err error) {
	if dryRun {
		return nil, errorStatus(http.StatusPreconditionFailed, "DryRunOperation", "Request would have succeeded, but DryRun flag is set.")
	}
	defer func() {
		if p := recover(); p != nil {
			out, err = nil, fmt.Errorf("the simulator's %s.%s panicked: %v", c.service, c.operation, p)
		}
	}()
	return op.run(c, in)
}

func isDryRun(in any) bool {
	f := reflect.ValueOf(in).Elem().FieldByName("DryRun")
	if !f.IsValid() {
		return false
	}
	p, ok := f.Interface().(*bool)
	return ok && p != nil && *p
}
