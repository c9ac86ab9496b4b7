package awsapi

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// digestLength keeps shortened names apart: 32 bits among the few clusters of an account.
const digestLength = 8

// Shorten returns the name, or where it is longer than limit bytes, its beginning and a digest of all of it. The names
// of AWS objects are ASCII. It is deterministic, so that a create that is repeated finds what the first one made.
func Shorten(name string, limit int) string {
	if len(name) <= limit {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return name[:limit-digestLength-1] + "-" + hex.EncodeToString(sum[:])[:digestLength]
}

// LastSegment is what follows the last slash: the name in the ARN of a role, a policy or an instance profile.
func LastSegment(arn string) string { return arn[strings.LastIndexByte(arn, '/')+1:] }
