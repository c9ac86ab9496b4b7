// Package awsapi holds what is true of every AWS API and therefore common to the ports that speak to one: what an
// error code asks of the caller, how long a name may be, how a policy document is written and compared, what EC2's words
// for an instance type come to. It is pure: of the SDK it has types, and no client.
package awsapi

import (
	"errors"
	"fmt"
	"slices"

	"github.com/castoff-sh/castoff/pkg/inventory"
)

// The codes below are those of the services' API references ("Common errors" and each operation's own list) and of the
// SDK's retryer. A message is never read: AWS changes them.
var (
	throttledCodes = []string{
		"Throttling", "ThrottlingException", "ThrottledException", "RequestThrottled", "RequestThrottledException",
		"RequestLimitExceeded", "TooManyRequestsException", "TooManyRequests", "BandwidthLimitExceeded", "SlowDown",
		"PriorRequestNotComplete", "EC2ThrottledException",
	}
	deniedCodes = []string{
		"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "UnauthorizedAccess", "NotAuthorized",
		"AuthFailure", "OptInRequired", "AuthorizationError",
	}
	invalidCodes = []string{
		"ValidationError", "ValidationException", "InvalidParameterException", "InvalidParameterValue", "InvalidParameter",
		"InvalidParameterCombination", "InvalidInput", "InvalidAttributeName", "InvalidAttributeValue", "MissingParameter",
		"MalformedPolicyDocument", "InvalidEventPatternException", "InvalidAddress", "ManagedRuleException",
		"UnsupportedOperation", "UnsupportedOperationException", "InvalidAction",
	}
	quotaCodes = []string{"LimitExceeded", "LimitExceededException", "ResourceLimitExceededException"}
)

// Code is the service's error code, or empty when the request did not get as far as an answer.
func Code(err error) string {
	var coded interface{ ErrorCode() string }
	if !errors.As(err, &coded) {
		return ""
	}
	return coded.ErrorCode()
}

// Is says whether err carries one of the codes.
func Is(err error, codes ...string) bool {
	code := Code(err)
	return code != "" && slices.Contains(codes, code)
}

// Denied says whether err is a refusal for lack of permission.
func Denied(err error) bool { return Is(err, deniedCodes...) }

// Throttled says whether err asks to slow down.
func Throttled(err error) bool { return Is(err, throttledCodes...) }

// Wrap says which call on which object failed and what to do about it, and marks the class: throttling is
// inventory.Throttled; what a human has to mend (a permission, a value, a quota) is inventory.Terminal; all else may
// be tried again. The action is the IAM action, "autoscaling:DescribePolicies". Nil stays nil.
func Wrap(err error, action, object string) error {
	switch {
	case err == nil:
		return nil
	case Throttled(err):
		return inventory.Throttled(fmt.Errorf("%s: AWS throttles %s, it is tried again later: %w", object, action, err))
	case Denied(err):
		return inventory.Terminal(fmt.Errorf("%s: castoff's AWS identity may not %s: grant it (kubectl castoff plan -o iam prints the policy): %w", object, action, err))
	case Is(err, invalidCodes...):
		return inventory.Terminal(fmt.Errorf("%s: AWS rejects %s as invalid: mend the object: %w", object, action, err))
	case Is(err, quotaCodes...):
		return inventory.Terminal(fmt.Errorf("%s: %s meets a quota of the account: raise it or delete what is unused: %w", object, action, err))
	default:
		return fmt.Errorf("%s: %s failed, it is tried again: %w", object, action, err)
	}
}
