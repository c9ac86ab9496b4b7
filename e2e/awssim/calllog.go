package awssim

import (
	"encoding/json"
	"io"
	"strings"

	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
)

// callLog remembers every request and writes it, a JSON line each, where it was told to.
type callLog struct {
	calls []simapi.Call
	out   io.Writer
}

// add numbers the call and keeps it. A line that cannot be written is not worth failing an AWS call for.
func (l *callLog) add(c simapi.Call) {
	c.Seq = int64(len(l.calls)) + 1
	l.calls = append(l.calls, c)
	if l.out != nil {
		_ = json.NewEncoder(l.out).Encode(c)
	}
}

// since returns the calls after that sequence number.
func (l *callLog) since(seq int64) []simapi.Call {
	seq = min(max(seq, 0), int64(len(l.calls)))
	return append([]simapi.Call{}, l.calls[seq:]...)
}

// readPrefixes begin the operations that change nothing. Receiving hides a message for a while, but polling a queue
// is no write in the sense of a quiet controller.
var readPrefixes = []string{"Describe", "List", "Get", "Receive", "Simulate", "AssumeRole"}

func isRead(operation string) bool {
	for _, p := range readPrefixes {
		if strings.HasPrefix(operation, p) {
			return true
		}
	}
	return false
}

// inputJSON renders a decoded input without the members that were not sent.
func inputJSON(in any) json.RawMessage {
	b, err := json.Marshal(in)
	if err != nil {
		return nil
	}
	var x any
	if json.Unmarshal(b, &x) != nil {
		return nil
	}
	if b, err = json.Marshal(prune(x)); err != nil {
		return nil
	}
	return b
}

func prune(x any) any {
	switch x := x.(type) {
	case map[string]any:
		for k, v := range x {
			if v == nil || v == "" {
				delete(x, k)
				continue
			}
			x[k] = prune(v)
		}
	case []any:
		for i, v := range x {
			x[i] = prune(v)
		}
	}
	return x
}
