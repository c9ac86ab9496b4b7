package nodegroup

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/google/go-cmp/cmp"

	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
	"github.com/castoff-sh/castoff/pkg/inventory"
)

// busyAWS throttles the first two calls of each API, and then lets a few a second through. Its time passes by what callers wait.
type busyAWS struct {
	aws.Retryer
	t     *testing.T
	lab   *lab
	mu    sync.Mutex
	now   time.Duration
	calls map[string][]time.Duration // when each call of an API was let through
	// answered counts the calls that were let through since it was last looked at, refused those that were not.
	answered, refused map[string]int
	waited            []time.Duration
}

const (
	refusedAtFirst = 2
	callsASecond   = 5
)

// RetryDelay lets busyAWS's time pass instead of the clock's.
func (b *busyAWS) RetryDelay(attempt int, err error) (time.Duration, error) {
	delay, err := b.Retryer.RetryDelay(attempt, err)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waited = append(b.waited, delay)
	b.now += delay / parallel // so many wait at the same time
	return 0, err
}

func (b *busyAWS) RoundTrip(r *http.Request) (*http.Response, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	api, err := apiOf(r)
	if err != nil {
		return nil, err
	}
	lastSecond := 0
	for _, at := range b.calls[api] {
		if b.now-at < time.Second {
			lastSecond++
		}
	}
	if b.refused[api] < refusedAtFirst || lastSecond >= callsASecond {
		b.refused[api]++
		b.lab.fault(b.t, simapi.Fault{Code: "Throttling", Status: http.StatusBadRequest, Times: 1})
	} else {
		b.calls[api] = append(b.calls[api], b.now)
		b.answered[api]++
	}
	return http.DefaultTransport.RoundTrip(r)
}

// apiOf is the action of a query, or the path of a REST call without the name at its end.
func apiOf(r *http.Request) (string, error) {
	if r.Body == nil {
		return "eks" + r.URL.Path, nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return "", err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	form, err := url.ParseQuery(string(body))
	if err != nil || form.Get("Action") == "" {
		return "eks" + r.URL.Path, nil
	}
	return form.Get("Action"), nil
}

// through are the calls that were answered since the last time.
func (b *busyAWS) through() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.answered
	b.answered = map[string]int{}
	return out
}

func throttledLab(t *testing.T, groups int) (*lab, *busyAWS, *Client) {
	l := newLab(t)
	for i := range groups {
		l.group(t, fmt.Sprintf("pool-%02d", i), func(in *autoscaling.CreateAutoScalingGroupInput) {
			in.MaxSize, in.DesiredCapacity = aws.Int32(12), aws.Int32(10)
		})
	}
	b := &busyAWS{Retryer: Retryer(), t: t, lab: l, calls: map[string][]time.Duration{}, answered: map[string]int{}, refused: map[string]int{}}
	cfg := l.cfg
	cfg.HTTPClient, cfg.Retryer = &http.Client{Transport: b}, func() aws.Retryer { return b }
	return l, b, New(autoscaling.NewFromConfig(cfg), eks.NewFromConfig(cfg), ec2.NewFromConfig(cfg), iam.NewFromConfig(cfg), "harbor")
}

// Forty pools of ten nodes, and an AWS that lets five calls a second through.
func TestCase_C098_ThrottlingIsSurvivedWithFewCalls(t *testing.T) {
	const pools = 40
	_, b, port := throttledLab(t, pools)

	groups, err := port.List(t.Context())
	if err != nil {
		t.Fatalf("an assessment failed: %v", err)
	}
	nodes := 0
	for _, g := range groups {
		nodes += g.InService()
	}
	if len(groups) != pools || nodes != 10*pools {
		t.Errorf("%d groups and %d nodes, want %d and %d", len(groups), nodes, pools, 10*pools)
	}
	first := b.through()
	want := map[string]int{
		"DescribeAutoScalingGroups": 1, "DescribePolicies": pools, "DescribeScheduledActions": pools, "DescribeLifecycleHooks": pools, "DescribeInstanceRefreshes": pools,
		"DescribeLaunchTemplates": 1, "DescribeLaunchTemplateVersions": pools, "DescribeImages": 1, "DescribeInstanceTypes": 1,
		"GetInstanceProfile": first["GetInstanceProfile"], "eks/clusters/harbor/node-groups": 1,
	}
	if diff := cmp.Diff(want, first); diff != "" {
		t.Errorf("calls of an assessment: -want +got:\n%s", diff)
	}
	if n := first["GetInstanceProfile"]; n < 1 || n > parallel {
		t.Errorf("the one instance profile was read %d times, want at most once for each group that is read at the same time", n)
	}

	if _, err := port.List(t.Context()); err != nil {
		t.Fatalf("the next look failed: %v", err)
	}
	want = map[string]int{
		"DescribeAutoScalingGroups": 1, "DescribePolicies": pools, "DescribeScheduledActions": pools, "DescribeInstanceRefreshes": pools,
		"DescribeLaunchTemplates": 1, "eks/clusters/harbor/node-groups": 1,
	}
	if diff := cmp.Diff(want, b.through()); diff != "" {
		t.Errorf("calls of the next look, which knows versions, images and hooks already: -want +got:\n%s", diff)
	}

	drained := []string{groups[0].Instances[0].ID, groups[0].Instances[1].ID, groups[0].Instances[2].ID}
	err = port.EndInstances(t.Context(), groups[0].AutoScalingGroup, drained)
	for range refusedAtFirst { // an end is never sent twice by itself: the reconciler looks first, and comes again
		if inventory.ClassOf(err) != inventory.ClassThrottled {
			t.Fatalf("the end of a drain gave %v (%s), want throttling, which is no failure", err, inventory.ClassOf(err))
		}
		err = port.EndInstances(t.Context(), groups[0].AutoScalingGroup, drained)
	}
	if err != nil {
		t.Errorf("the end of a drain failed: %v", err)
	}
	if diff := cmp.Diff(map[string]int{"TerminateInstanceInAutoScalingGroup": 1}, b.through()); diff != "" {
		t.Errorf("calls for three drained instances: -want +got:\n%s", diff)
	}
	b.backsOff(t)
}

// backsOff wants waits that grow, differ and end.
func (b *busyAWS) backsOff(t *testing.T) {
	t.Helper()
	if len(b.waited) == 0 {
		t.Fatal("nothing was throttled, so nothing was shown")
	}
	if longest := slices.Max(b.waited); longest > mostBackoff || longest < 100*time.Millisecond {
		t.Errorf("the longest wait is %s, want it to grow to %s at most", longest, mostBackoff)
	}
	distinct := slices.Clone(b.waited)
	slices.Sort(distinct)
	if n := len(slices.Compact(distinct)); n < len(b.waited)/2 {
		t.Errorf("%d waits of %d differ, want jitter", n, len(b.waited))
	}
}

// A client that does not try again is the known-bad variant: with it the same look fails.
func TestThrottlingFailsWithoutPatience(t *testing.T) {
	_, b, _ := throttledLab(t, 2)
	cfg := b.lab.cfg
	cfg.HTTPClient, cfg.Retryer = &http.Client{Transport: b}, func() aws.Retryer { return aws.NopRetryer{} }
	port := New(autoscaling.NewFromConfig(cfg), eks.NewFromConfig(cfg), ec2.NewFromConfig(cfg), iam.NewFromConfig(cfg), "harbor")
	if _, err := port.List(t.Context()); err == nil {
		t.Error("a throttled look succeeded without a retry")
	}
}
