package process

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Ports handed out lie below the range from which Linux (32768) and macOS (49152) take the local ends of outgoing
// connections: a port that is free now could otherwise be gone before the child listens on it.
const (
	firstPort = 15000
	lastPort  = 32000
)

var handedOut sync.Map

// FreePort is a port of 127.0.0.1 that nobody listens on and that this process has not handed out before.
func FreePort() (int, error) {
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		if _, taken := handedOut.LoadOrStore(port, true); taken {
			continue
		}
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		if err := listener.Close(); err != nil {
			continue
		}
		return port, nil
	}
	return 0, fmt.Errorf("find a free port of 127.0.0.1 between %d and %d: none in 1000 attempts", firstPort, lastPort)
}
