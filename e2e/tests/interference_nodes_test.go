//go:build lab && long

package tests

// nodeInterferences are those by AWS and by whoever changes nodes.
func nodeInterferences(*held) []interference { return nil }
