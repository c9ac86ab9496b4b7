package awssim

import (
	"context"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
)

// epoch is when simulated worlds begin in tests.
var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// newTestServer serves a simulator whose clock only moves by Advance, and returns SDK configuration for the user "tester".
func newTestServer(t *testing.T, o Options) (*Server, aws.Config) {
	t.Helper()
	if o.Now == nil {
		o.Now = func() time.Time { return epoch }
	}
	s := New(o)
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	return s, configFor(h.URL, "tester")
}

// configFor is what an SDK client needs to reach the simulator as that user, without retries.
func configFor(url, user string) aws.Config {
	return aws.Config{
		Region: "us-east-1", BaseEndpoint: aws.String(url),
		Credentials: credentials.NewStaticCredentialsProvider(user, "secret", ""),
		Retryer:     func() aws.Retryer { return aws.NopRetryer{} },
	}
}

// do runs f under the simulator's lock.
func do(s *Server, f func()) {
	s.lock()
	defer s.unlock()
	f()
}

// ctx of the requests that tests make.
var ctx = context.Background()
