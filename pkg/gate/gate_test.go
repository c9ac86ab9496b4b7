package gate

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// recorded are answers of Prometheus 3.13.4 to /api/v1/query, as it gave them; its own address aside. It scraped itself.
//
//go:embed testdata/answers.json
var recorded []byte

type answer struct {
	Query  string `json:"query"`
	Status int    `json:"status"`
	Body   string `json:"body"`
}

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func atNoon() time.Time { return noon }

// recordedServer gives the recorded answers.
func recordedServer(t *testing.T) *httptest.Server {
	t.Helper()
	var answers []answer
	if err := json.Unmarshal(recorded, &answers); err != nil {
		t.Fatal(err)
	}
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		for _, a := range answers {
			if r.URL.Path == "/prom/api/v1/query" && r.FormValue("query") == a.Query {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(a.Status)
				fmt.Fprint(w, a.Body)
				return
			}
		}
		http.NotFound(w, r)
	})
}

func serve(t *testing.T, f http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return s
}

func TestQuery(t *testing.T) {
	cases := map[string]struct {
		reason string
		query  string
		want   []inventory.Sample
		class  inventory.Class
		says   string
	}{
		"Vector": {
			reason: "every series is a value",
			query:  `label_replace(vector(0.25), "service", "cart", "", "") or label_replace(vector(0), "service", "search", "", "")`,
			want:   []inventory.Sample{{Series: `{service="cart"}`, Value: 0.25}, {Series: `{service="search"}`, Value: 0}},
		},
		"Scalar":     {reason: "a scalar is one value", query: "scalar(vector(42))", want: []inventory.Sample{{Value: 42}}},
		"Bool":       {reason: "bool gives 0 or 1", query: "vector(1) > bool 2", want: []inventory.Sample{{Series: "{}", Value: 0}}},
		"Empty":      {reason: "no series is an answer, and none that holds", query: "no_such_metric"},
		"NotANumber": {reason: "0/0 is handed on as it is", query: "vector(0)/0", want: []inventory.Sample{{Series: "{}", Value: math.NaN()}}},
		"Infinite":   {reason: "so is 1/0", query: "vector(1)/0", want: []inventory.Sample{{Series: "{}", Value: math.Inf(1)}}},
		"Matrix":     {reason: "a range is no value", query: "up[5m]", class: inventory.ClassTerminal, says: "avg_over_time"},
		"String":     {reason: "nor is a text, which Prometheus' own client does not take", query: `"text"`, class: inventory.ClassRetry, says: `unexpected value type "string"`},
		"Parse":      {reason: "a typing error is a human's, in Prometheus' words", query: "sum(rate(", class: inventory.ClassTerminal, says: "unclosed left parenthesis"},
		"Execution": {
			reason: "so is what cannot be evaluated", query: `up * on() group_left() {__name__=~"up|scrape_duration_seconds"}`,
			class: inventory.ClassTerminal, says: "many-to-many matching not allowed",
		},
	}
	s := recordedServer(t)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := New(http.DefaultTransport, atNoon).Query(t.Context(), s.URL+"/prom", tc.query)
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty(), cmpopts.EquateNaNs()); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
			failed(t, tc.reason, err, tc.says != "", tc.class, tc.says)
		})
	}
}

func failed(t *testing.T, reason string, err error, want bool, class inventory.Class, says string) {
	t.Helper()
	if (err != nil) != want {
		t.Fatalf("%s: %v", reason, err)
	}
	if err != nil && (inventory.ClassOf(err) != class || !strings.Contains(err.Error(), says)) {
		t.Errorf("%s: class %v, wanted %v: %v", reason, inventory.ClassOf(err), class, err)
	}
}

func TestServersThatDoNotAnswer(t *testing.T) {
	elsewhere := 0
	other := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		elsewhere++
		fmt.Fprint(w, `{"status":"success","data":{"resultType":"scalar","result":[0,"1"]}}`)
	})
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	cases := map[string]struct {
		reason string
		url    string
		says   string
	}{
		"Refused":  {"nobody listens there, now", gone.URL, "asking Prometheus at " + gone.URL},
		"NotFound": {"another server, or another path", serve(t, http.NotFound).URL, "404"},
		"Overloaded": {"it may be well again in a moment", serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, `{"status":"error","errorType":"unavailable","error":"too many queries"}`)
		}).URL, "503"},
		"LoginPage": {"somebody who wants to know who asks", serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>login</html>") }).URL, "asking"},
		"NoResult":  {"success without a result", serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"status":"success"}`) }).URL, ""},
		"Endless": {"no more than a mebibyte is read", serve(t, func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"status":"success","data":"`, strings.Repeat("x", 2<<20), `"}`)
		}).URL, "too large"},
		"Redirect": {"the user named one server", serve(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		}).URL, "307"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := New(http.DefaultTransport, atNoon).Query(t.Context(), tc.url, "up")
			if err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%s: %v, %v", tc.reason, got, err)
			}
		})
	}
	if elsewhere > 0 {
		t.Error("a redirect was followed")
	}
}

func TestTheClocksTimeIsAskedAbout(t *testing.T) {
	var asked, authorization string
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked, authorization = r.FormValue("time"), r.Header.Get("Authorization")
		fmt.Fprint(w, `{"status":"success","data":{"resultType":"scalar","result":[0,"1"]}}`)
	})
	if _, err := New(http.DefaultTransport, atNoon).Query(t.Context(), s.URL, "up"); err != nil {
		t.Fatal(err)
	}
	if asked != fmt.Sprint(noon.Unix()) || authorization != "" {
		t.Errorf("asked about %s with credentials %q", asked, authorization)
	}
}

// silent never answers, but for the end of the request's own time.
type silent struct{ until time.Time }

func (s *silent) RoundTrip(r *http.Request) (*http.Response, error) {
	s.until, _ = r.Context().Deadline()
	return nil, context.DeadlineExceeded
}

func TestAQueryHasFiveSeconds(t *testing.T) {
	s := &silent{}
	before := time.Now()
	_, err := New(s, atNoon).Query(t.Context(), "http://prometheus:9090", "up")
	if !errors.Is(err, context.DeadlineExceeded) || inventory.ClassOf(err) == inventory.ClassTerminal {
		t.Errorf("a server that takes its time: %v", err)
	}
	if left := s.until.Sub(before); left <= 0 || left > Timeout+time.Second {
		t.Errorf("it may take %s", left)
	}
}
