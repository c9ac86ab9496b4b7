package nodegroup

import (
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
)

// The SDK's own three attempts end in a second or two; Auto Scaling's buckets may take ten to fill again while a look at tens of groups
// asks of them. A look ends after thirty seconds (controllers), and what it did not get by then it asks for later.
const (
	mostAttempts = 10
	mostBackoff  = 5 * time.Second
)

// Retryer is for the clients that the port is made with: it waits longer each time, by a random part of it (exponential back-off with
// jitter), and more often than the SDK does by itself.
func Retryer() aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts, o.MaxBackoff = mostAttempts, mostBackoff
		o.RateLimiter = ratelimit.None // the SDK's budget for retries is used up by one look at forty throttled groups
	})
}
