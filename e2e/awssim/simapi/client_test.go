package simapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// recorder answers every request with one text and keeps what was asked.
type recorder struct {
	status  int
	text    string
	request string
	body    string
}

func (r *recorder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	b, _ := io.ReadAll(req.Body) // a broken body shows in the comparison
	r.request, r.body = req.Method+" "+req.URL.RequestURI(), string(b)
	w.WriteHeader(r.status)
	_, _ = io.WriteString(w, r.text)
}

func serve(t *testing.T, r *recorder) *Client {
	t.Helper()
	h := httptest.NewServer(r)
	t.Cleanup(h.Close)
	return NewClient(h.URL + "/")
}

func TestRequests(t *testing.T) {
	ctx := context.Background()
	cases := map[string]struct {
		do      func(*Client) (any, error)
		answer  string
		request string
		body    string
		want    any
	}{
		"Health":    {func(c *Client) (any, error) { return nil, c.Health(ctx) }, `"ok"`, "GET /_sim/healthz", "", nil},
		"Calls":     {func(c *Client) (any, error) { return c.Calls(ctx, 7) }, `[{"seq":8,"service":"ec2"}]`, "GET /_sim/calls?after=7", "", []Call{{Seq: 8, Service: "ec2"}}},
		"Instances": {func(c *Client) (any, error) { return c.Instances(ctx) }, `[{"id":"i-1"}]`, "GET /_sim/instances", "", []Instance{{ID: "i-1"}}},
		"Groups":    {func(c *Client) (any, error) { return c.Groups(ctx) }, `[{"name":"g","min":1}]`, "GET /_sim/groups", "", []Group{{Name: "g", Min: 1}}},
		"Settings":  {func(c *Client) (any, error) { return c.Settings(ctx) }, `{"lag":1000000000}`, "GET /_sim/settings", "", Settings{Lag: time.Second}},
		"Faults":    {func(c *Client) (any, error) { return c.Faults(ctx) }, `[{"id":"f","code":"Throttling"}]`, "GET /_sim/faults", "", []Fault{{ID: "f", Code: "Throttling"}}},
		"AddFault": {func(c *Client) (any, error) { return c.AddFault(ctx, Fault{Code: "Throttling", Times: 2}) }, `{"id":"f","code":"Throttling","times":2}`,
			"POST /_sim/faults", `{"code":"Throttling","times":2}`, Fault{ID: "f", Code: "Throttling", Times: 2}},
		"RemoveFault":  {func(c *Client) (any, error) { return nil, c.RemoveFault(ctx, "f&1") }, "", "DELETE /_sim/faults?id=f%261", "", nil},
		"RemoveFaults": {func(c *Client) (any, error) { return nil, c.RemoveFault(ctx, "") }, "", "DELETE /_sim/faults", "", nil},
		"Advance":      {func(c *Client) (any, error) { return nil, c.Advance(ctx, ClockStep{By: time.Second}) }, "", "POST /_sim/clock", `{"by":1000000000}`, nil},
		"Interrupt": {func(c *Client) (any, error) {
			return nil, c.Interrupt(ctx, Interrupt{InstanceID: "i-1", Kind: "rebalance"})
		}, "", "POST /_sim/interrupt", `{"instanceID":"i-1","kind":"rebalance"}`, nil},
		"Reset": {func(c *Client) (any, error) { return nil, c.Reset(ctx) }, "", "POST /_sim/reset", "", nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := &recorder{status: http.StatusOK, text: tc.answer}
			got, err := tc.do(serve(t, r))
			if err != nil {
				t.Fatal(err)
			}
			if r.request != tc.request || r.body != tc.body {
				t.Errorf("asked %s with %q, want %s with %q", r.request, r.body, tc.request, tc.body)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestRefusalsSayWhatTheSimulatorSaid(t *testing.T) {
	c := serve(t, &recorder{status: http.StatusBadRequest, text: "no instance \"i-1\"\n"})
	err := c.Interrupt(context.Background(), Interrupt{InstanceID: "i-1"})
	if err == nil || !strings.Contains(err.Error(), `no instance "i-1"`) || !strings.Contains(err.Error(), PathInterrupt) {
		t.Errorf("the error must carry the path and the simulator's words: %v", err)
	}
	if _, err := serve(t, &recorder{status: http.StatusOK, text: "{"}).Instances(context.Background()); err == nil {
		t.Error("an answer that is no JSON must be an error")
	}
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	if err := NewClient(gone.URL).Health(context.Background()); err == nil {
		t.Error("a simulator that is not there must be an error")
	}
	if err := NewClient("http://[").Health(context.Background()); err == nil {
		t.Error("an address that is none must be an error")
	}
}

func TestEvents(t *testing.T) {
	ctx := context.Background()
	lines := `{"time":"2026-03-01T12:00:00Z","instance":{"id":"i-1"}}` + "\n" + `{"time":"2026-03-01T12:00:00Z","synced":true}` + "\n"
	var got []string
	err := serve(t, &recorder{status: http.StatusOK, text: lines}).Events(ctx, func(e Event) error {
		if e.Synced {
			got = append(got, "synced")
			return nil
		}
		got = append(got, e.Instance.ID)
		return nil
	})
	if diff := cmp.Diff([]string{"i-1", "synced"}, got); diff != "" || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a stream that ends by itself is unexpected: %v (-want +got):\n%s", err, diff)
	}
	enough := errors.New("enough")
	if err := serve(t, &recorder{status: http.StatusOK, text: lines}).Events(ctx, func(Event) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("the handler's error must end the stream: %v", err)
	}
	if err := serve(t, &recorder{status: http.StatusOK, text: "x\n"}).Events(ctx, func(Event) error { return nil }); err == nil {
		t.Error("a line that is no JSON must be an error")
	}
	if err := serve(t, &recorder{status: http.StatusInternalServerError}).Events(ctx, func(Event) error { return nil }); err == nil {
		t.Error("a refused stream must be an error")
	}
	cancelled, cancel := context.WithCancel(ctx)
	if err := serve(t, &recorder{status: http.StatusOK, text: lines}).Events(cancelled, func(Event) error { cancel(); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("the context's error must come through: %v", err)
	}
}
