package awssim

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
)

// sideDoor serves simapi.
func (s *Server) sideDoor() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+simapi.PathHealth, func(w http.ResponseWriter, _ *http.Request) { answer(w, "ok", nil) })
	mux.HandleFunc("GET "+simapi.PathEvents, s.serveEvents)
	mux.HandleFunc("GET "+simapi.PathCalls, s.serveCalls)
	mux.HandleFunc("GET "+simapi.PathInstances, s.locked(func(*http.Request) (any, error) { return s.ec2.sideInstances(), nil }))
	mux.HandleFunc("GET "+simapi.PathGroups, s.locked(func(*http.Request) (any, error) {
		if s.groups == nil {
			return []simapi.Group{}, nil
		}
		return s.groups(), nil
	}))
	mux.HandleFunc("GET "+simapi.PathSettings, s.locked(func(*http.Request) (any, error) { return s.settings, nil }))
	mux.HandleFunc("PUT "+simapi.PathSettings, s.locked(s.putSettings))
	mux.HandleFunc("GET "+simapi.PathFaults, s.locked(func(*http.Request) (any, error) { return append([]*simapi.Fault{}, s.faults.list...), nil }))
	mux.HandleFunc("POST "+simapi.PathFaults, s.locked(s.postFault))
	mux.HandleFunc("DELETE "+simapi.PathFaults, s.locked(func(r *http.Request) (any, error) {
		s.faults.remove(r.URL.Query().Get("id"))
		return "ok", nil
	}))
	mux.HandleFunc("POST "+simapi.PathClock, s.postClock)
	mux.HandleFunc("POST "+simapi.PathInterrupt, s.locked(s.postInterrupt))
	mux.HandleFunc("POST "+simapi.PathReset, s.locked(func(*http.Request) (any, error) { s.reset(); return "ok", nil }))
	mux.HandleFunc("GET "+simapi.PathIdentity, s.serveIdentity)
	return mux
}

// locked runs the handler under the lock and answers what it returns.
func (s *Server) locked(handle func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.lock()
		x, err := handle(r)
		body, encodeErr := json.Marshal(x) // under the lock: what it shows may be the world itself
		s.unlock()
		if err == nil {
			err = encodeErr
		}
		answer(w, json.RawMessage(body), err)
	}
}

func answer(w http.ResponseWriter, x any, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(x) // the client went away: nobody to tell
}

func (s *Server) putSettings(r *http.Request) (any, error) {
	var x simapi.Settings
	if err := json.NewDecoder(r.Body).Decode(&x); err != nil {
		return nil, fmt.Errorf("reading the settings: %w", err)
	}
	s.settings = x
	return x, nil
}

func (s *Server) postFault(r *http.Request) (any, error) {
	var x simapi.Fault
	if err := json.NewDecoder(r.Body).Decode(&x); err != nil {
		return nil, fmt.Errorf("reading the fault: %w", err)
	}
	if x.Code == "" {
		return nil, fmt.Errorf("a fault needs the error code that the caller shall see, e.g. Throttling")
	}
	return s.faults.add(x), nil
}

func (s *Server) postInterrupt(r *http.Request) (any, error) {
	var x simapi.Interrupt
	if err := json.NewDecoder(r.Body).Decode(&x); err != nil {
		return nil, fmt.Errorf("reading the interruption: %w", err)
	}
	return "ok", s.ec2.interrupt(x)
}

func (s *Server) postClock(w http.ResponseWriter, r *http.Request) {
	var x simapi.ClockStep
	err := json.NewDecoder(r.Body).Decode(&x)
	if err == nil && x.By < 0 {
		err = fmt.Errorf("the clock only moves forward, not by %s", x.By)
	}
	if err == nil {
		s.Advance(x.By)
	}
	answer(w, "ok", err)
}

func (s *Server) serveCalls(w http.ResponseWriter, r *http.Request) {
	after, err := strconv.ParseInt(cmp.Or(r.URL.Query().Get("after"), "0"), 10, 64)
	if err != nil {
		answer(w, nil, fmt.Errorf("after must be the sequence number of a call: %w", err))
		return
	}
	s.mu.Lock()
	calls := s.calls.since(after)
	s.mu.Unlock()
	answer(w, calls, nil)
}

// serveEvents streams every instance and then every change, a JSON line each, until the client goes.
func (s *Server) serveEvents(w http.ResponseWriter, r *http.Request) {
	flush := http.NewResponseController(w)
	w.Header().Set("Content-Type", "application/x-ndjson")
	lines := json.NewEncoder(w)
	s.lock()
	batch := []simapi.Event{}
	for _, i := range s.ec2.sideInstances() {
		batch = append(batch, simapi.Event{Time: s.now(), Instance: &i})
	}
	batch = append(batch, simapi.Event{Time: s.now(), Synced: true})
	next := len(s.stream)
	for {
		changed := s.changed
		s.unlock()
		for _, e := range batch {
			if lines.Encode(e) != nil {
				return
			}
		}
		if flush.Flush() != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-changed:
		}
		s.lock()
		next = min(next, len(s.stream)) // a reset starts the stream again
		batch = append([]simapi.Event{}, s.stream[next:]...)
		next = len(s.stream)
	}
}
