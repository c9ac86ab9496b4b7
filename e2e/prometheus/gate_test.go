package prometheus

import (
	"math"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/prometheus/web"
	"golang.org/x/crypto/bcrypt"

	"github.com/castoff-sh/castoff/pkg/gate"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// shop is half an hour of a shop's metrics: cart answers, search fails from minute 10 on, and reports is not asked anything.
const shop = `load 1m
  http_requests_total{service="cart",code="200"}    0+600x30
  http_requests_total{service="cart",code="500"}    0+3x30
  http_requests_total{service="search",code="200"}  0+600x10 6000+300x19
  http_requests_total{service="search",code="500"}  0x10 0+300x19
  http_requests_total{service="reports",code="200"} 0x30
  http_requests_total{service="reports",code="500"} 0x30
  up{job="cart",instance="a"} 1x30
  up{job="cart",instance="b"} 1x15 0x15
  up{job="gone",instance="a"} 1x10
  latency_seconds{service="cart"} {{schema:0 sum:5 count:4 buckets:[1 2 1]}}x30
`

// minute is a time after the first sample.
func minute(n int) func() time.Time {
	return func() time.Time { return time.Unix(int64(n)*60, 0).UTC() }
}

// errorShare is the gate of docs/runbooks/gates.md, by service.
const errorShare = `sum by (service) (rate(http_requests_total{code="500"}[5m])) / sum by (service) (rate(http_requests_total[5m]))`

func ask(t *testing.T, s *server, at int, query string) ([]inventory.Sample, error) {
	t.Helper()
	return gate.New(http.DefaultTransport, minute(at)).Query(t.Context(), s.url, query)
}

func TestGatesAreEvaluated(t *testing.T) {
	cases := map[string]struct {
		reason string
		query  string
		at     int
		want   []inventory.Sample
	}{
		"WellAtMinuteFive": {
			reason: "every service is a value, and one that nobody asks anything is 0/0", query: errorShare, at: 5,
			want: []inventory.Sample{{Series: `{service="cart"}`, Value: 3.0 / 603}, {Series: `{service="reports"}`, Value: math.NaN()}, {Series: `{service="search"}`, Value: 0}},
		},
		"FailingAtMinuteTwenty": {
			reason: "the clock's time is asked about, and not the server's", query: errorShare, at: 20,
			want: []inventory.Sample{{Series: `{service="cart"}`, Value: 3.0 / 603}, {Series: `{service="reports"}`, Value: math.NaN()}, {Series: `{service="search"}`, Value: 0.5}},
		},
		"True":  {reason: "a comparison with bool that holds", query: `sum(up{job="cart"}) >= bool 2`, at: 5, want: []inventory.Sample{{Series: "{}", Value: 1}}},
		"False": {reason: "and one that does not", query: `sum(up{job="cart"}) >= bool 2`, at: 20, want: []inventory.Sample{{Series: "{}", Value: 0}}},
		"Filtered": {
			reason: "without bool a comparison hides what it does not hold for: nothing is left", query: `sum(up{job="cart"}) >= 2`, at: 20,
		},
		"Series":       {reason: "a selector is all its series, with their names", query: `up{job="cart"}`, at: 20, want: []inventory.Sample{{Series: `up{instance="a", job="cart"}`, Value: 1}, {Series: `up{instance="b", job="cart"}`, Value: 0}}},
		"NoSuchSeries": {reason: "a metric that nobody has is no value", query: "no_such_metric", at: 5},
		"Stale":        {reason: "one that is not scraped any more is none after five minutes", query: `up{job="gone"}`, at: 16},
		"Zero":         {reason: "unless the query says what that means", query: `up{job="gone"} or vector(0)`, at: 16, want: []inventory.Sample{{Series: "{}", Value: 0}}},
		"Scalar":       {reason: "a scalar is one value without a name", query: `scalar(sum(up{job="cart"}))`, at: 5, want: []inventory.Sample{{Value: 2}}},
		"NaNScalar":    {reason: "the scalar of nothing is not a number", query: `scalar(no_such_metric)`, at: 5, want: []inventory.Sample{{Value: math.NaN()}}},
		"Infinite":     {reason: "1/0 is handed on as it is", query: "vector(1)/0", at: 5, want: []inventory.Sample{{Series: "{}", Value: math.Inf(1)}}},
		"NaNIsFine":    {reason: "as the runbook says where 0/0 is fine", query: `(vector(0)/0) >= 0 or vector(0)`, at: 5, want: []inventory.Sample{{Series: "{}", Value: 0}}},
		"OverTime":     {reason: "a condition that held for a while", query: `min_over_time(up{job="cart",instance="b"}[10m])`, at: 20, want: []inventory.Sample{{Series: `{instance="b", job="cart"}`, Value: 0}}},
	}
	s := serve(t, options{series: shop})
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := ask(t, s, tc.at, tc.query)
			if err != nil {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			byName := cmpopts.SortSlices(func(a, b inventory.Sample) bool { return a.Series < b.Series })
			if diff := cmp.Diff(tc.want, got, byName, cmpopts.EquateEmpty(), cmpopts.EquateNaNs(), cmpopts.EquateApprox(0, 1e-9)); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestGatesThatCannotBeEvaluated(t *testing.T) {
	cases := map[string]struct {
		reason string
		query  string
		class  inventory.Class
		says   string
	}{
		"Mistyped":    {"a typing error is a human's, in Prometheus' words", "sum(rate(", inventory.ClassTerminal, "unclosed left parenthesis"},
		"NoFunction":  {"so is a function that is not there", "p99(up)", inventory.ClassTerminal, "unknown function"},
		"Empty":       {"and no query at all", "", inventory.ClassTerminal, "no expression found"},
		"ManyToMany":  {"and what cannot be evaluated", `up * on(job) http_requests_total`, inventory.ClassTerminal, "many-to-many"},
		"TooMuch":     {"a query over more samples than the server allows will not become smaller", `count_over_time(up{job="cart"}[30m:1s])`, inventory.ClassTerminal, "too many samples"},
		"Range":       {"a range is no value", `up[5m]`, inventory.ClassTerminal, "avg_over_time"},
		"Histogram":   {"nor is a native histogram", `latency_seconds`, inventory.ClassTerminal, "histogram_quantile"},
		"String":      {"nor is a text", `"text"`, inventory.ClassRetry, "string"},
		"BadSelector": {"a selector of everything is refused", `{job=~".*"}`, inventory.ClassTerminal, "at least one"},
	}
	s := serve(t, options{series: shop, maxSamples: 1000})
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := ask(t, s, 20, tc.query)
			if err == nil {
				t.Fatalf("%s: answered with %v", tc.reason, got)
			}
			if inventory.ClassOf(err) != tc.class || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%s: class %v, wanted %v: %v", tc.reason, inventory.ClassOf(err), tc.class, err)
			}
		})
	}
}

// TestTheRunbooksQueries: whoever copies one out of the runbook gets an answer that a gate can judge.
func TestTheRunbooksQueries(t *testing.T) {
	page, err := os.ReadFile("../../docs/runbooks/gates.md")
	if err != nil {
		t.Fatal(err)
	}
	queries := regexp.MustCompile(`(?m)^ +query: (.+)$`).FindAllSubmatch(page, -1)
	if len(queries) < 2 {
		t.Fatalf("the runbook has %d queries", len(queries))
	}
	s := serve(t, options{series: shop})
	for _, q := range queries {
		got, err := ask(t, s, 20, string(q[1]))
		if err != nil || len(got) != 1 || math.IsNaN(got[0].Value) {
			t.Errorf("%s: %v, %v", q[1], got, err)
		}
	}
}

// TestServersThatCannotAnswerNow: what ends by itself is no reason to ask a human at once.
func TestServersThatCannotAnswerNow(t *testing.T) {
	password, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		reason string
		server options
		state  web.ReadyStatus
		says   string
	}{
		"Starting":    {"it reads its log after a restart: 503 without a word of JSON", options{}, web.NotReady, "503"},
		"Stopping":    {"it is about to be restarted", options{}, web.Stopping, "503"},
		"TooSlow":     {"its own time for a query is over", options{timeout: time.Nanosecond}, web.Ready, "503"},
		"Credentials": {"it wants a password, and castoff has none to send", options{webConfig: "basic_auth_users: {shop: " + string(password) + "}\n"}, web.Ready, "401"},
		"OtherPath":   {"its API is behind a prefix that the gate does not name", options{prefix: "prometheus"}, web.Ready, "404"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.server.series = shop
			s := serve(t, tc.server)
			s.SetReady(tc.state)
			s.url = strings.TrimSuffix(s.url, tc.server.prefix)
			got, err := ask(t, s, 5, `up{job="cart"}`)
			if err == nil || !strings.Contains(err.Error(), tc.says) || inventory.ClassOf(err) == inventory.ClassTerminal {
				t.Errorf("%s: %v, class %v, %v", tc.reason, got, inventory.ClassOf(err), err)
			}
		})
	}
}

// credentials is a proxy's part: it adds what the server wants to know.
type credentials struct{ user, password string }

func (c credentials) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.SetBasicAuth(c.user, c.password)
	return http.DefaultTransport.RoundTrip(r)
}

func TestCredentialsAreTheTransports(t *testing.T) {
	password, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, options{series: shop, webConfig: "basic_auth_users: {shop: " + string(password) + "}\n"})
	got, err := gate.New(credentials{"shop", "secret"}, minute(5)).Query(t.Context(), s.url, `sum(up{job="cart"})`)
	if diff := cmp.Diff([]inventory.Sample{{Series: "{}", Value: 2}}, got); err != nil || diff != "" {
		t.Errorf("with credentials the server answers: %v, -want +got:\n%s", err, diff)
	}
}

func TestAPrefixIsPartOfTheURL(t *testing.T) {
	s := serve(t, options{series: shop, prefix: "prometheus"})
	got, err := ask(t, s, 5, `sum(up{job="cart"})`)
	if diff := cmp.Diff([]inventory.Sample{{Series: "{}", Value: 2}}, got); err != nil || diff != "" {
		t.Errorf("as the documentation of --web.external-url has it: %v, -want +got:\n%s", err, diff)
	}
}

// TestARestart: a server that is away does not answer, and nothing of that is remembered once it is back.
func TestARestart(t *testing.T) {
	s := serve(t, options{series: shop})
	client := gate.New(http.DefaultTransport, minute(5))
	for _, state := range []web.ReadyStatus{web.Ready, web.Stopping, web.NotReady, web.Ready} {
		s.SetReady(state)
		got, err := client.Query(t.Context(), s.url, "up")
		if answered := err == nil && len(got) > 0; answered != (state == web.Ready) {
			t.Errorf("state %v: %v, %v", state, got, err)
		}
	}
}
