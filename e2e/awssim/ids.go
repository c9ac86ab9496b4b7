package awssim

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// newID makes the next identifier with that prefix: i-0…, 17 hexadecimal digits as AWS has them. They are counted, so
// that two runs of the same script see the same ones, and scattered, so that no test sorts by them.
func (s *Server) newID(prefix string) string {
	s.lastID++
	return prefix + "-0" + stableHex(fmt.Sprint(prefix, s.lastID), 16)
}

// stableHex derives n hexadecimal digits from a seed.
func stableHex(seed string, n int) string {
	sum := sha256.Sum256([]byte(seed))
	return hex.EncodeToString(sum[:])[:n]
}
