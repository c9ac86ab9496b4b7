// Package simtest lets tests of AWS clients start a simulator of their own, and cut them off from it wherever a crash could.
package simtest

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/castoff-sh/castoff/e2e/awssim"
	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
)

// World is a simulated AWS whose clock stands still unless Sim.Advance moves it.
type World struct {
	Sim  *awssim.Server
	Door *simapi.Client
	// Config is for the SDK's clients: user castoff, and no retries, so that a test sees every answer.
	Config aws.Config
}

// Start makes a World that lasts as long as the test.
func Start(t *testing.T) World {
	t.Helper()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	sim := awssim.New(awssim.Options{Now: func() time.Time { return now }})
	server := httptest.NewServer(sim)
	t.Cleanup(server.Close)
	return World{Sim: sim, Door: simapi.NewClient(server.URL), Config: aws.Config{
		Region: "us-east-1", BaseEndpoint: aws.String(server.URL), Credentials: credentials.NewStaticCredentialsProvider("castoff", "secret", ""),
		Retryer: func() aws.Retryer { return aws.NopRetryer{} },
	}}
}

// Writes lists the operations that changed something after the call with that number, and the number of the last call.
// IAM's simulation of policies is a POST that changes nothing, and is left out.
func (w World) Writes(t *testing.T, after int64) (operations []string, last int64) {
	t.Helper()
	calls, err := w.Door.Calls(t.Context(), after)
	Check(t, err)
	last = after
	for _, c := range calls {
		if c.Write && c.Status == http.StatusOK && c.Operation != "SimulatePrincipalPolicy" {
			operations = append(operations, c.Operation)
		}
		last = c.Seq
	}
	return operations, last
}

// Check ends the test on an error.
func Check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// cutOff is a network that fails once: the n-th request does not get there, or its reply does not come back.
type cutOff struct {
	n         int
	replyLost bool
	count     int
}

func (c *cutOff) RoundTrip(r *http.Request) (*http.Response, error) {
	c.count++
	if c.count != c.n {
		return http.DefaultTransport.RoundTrip(r)
	}
	if c.replyLost {
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		if err := resp.Body.Close(); err != nil {
			return nil, err
		}
	}
	return nil, errors.New("the connection was cut")
}

// EveryCrash makes runs that end where a crash would end them: at the first request, at the second, and so on until a run
// needs no more, once before the request gets there and once after. run makes a fresh world, does one thing in it over the
// network given and returns the error of that, and how to go on and what must hold then. EveryCrash returns the number of
// requests of the run that nothing cut off, for the test to see that there were some.
func EveryCrash(t *testing.T, run func(t *testing.T, network *http.Client) (goOn func(t *testing.T), err error)) int {
	t.Helper()
	requests := 0
	for _, replyLost := range []bool{false, true} {
		for n, uncut := 1, false; !uncut; n++ {
			t.Run(fmt.Sprintf("request %d, reply lost %t", n, replyLost), func(t *testing.T) {
				network := &cutOff{n: n, replyLost: replyLost}
				goOn, err := run(t, &http.Client{Transport: network})
				if uncut = network.count < n; uncut {
					requests = network.count
					Check(t, err)
				} else if err == nil {
					t.Fatal("a request was cut off, and nobody says so")
				}
				goOn(t)
			})
			if t.Failed() {
				return requests
			}
		}
	}
	return requests
}
