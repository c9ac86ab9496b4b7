package inventory

import "strconv"

// Count is a number with its noun: 1 pod, 2 pods. Where the plural is not the noun with an s, or a verb goes along, it is the third:
// Count(n, "node is", "nodes are").
func Count[N int | int32 | int64](n N, one string, many ...string) string {
	switch {
	case n == 1:
		return "1 " + one
	case len(many) > 0:
		one = many[0]
	default:
		one += "s"
	}
	return strconv.FormatInt(int64(n), 10) + " " + one
}
