package status

import (
	"net"
	"net/http"
	"sync"
)

// maxConnections limits the file descriptors that clients can take from the daemon, because supervision needs them.
const maxConnections = 64

// connections limits the number of connections: a new connection replaces the one that has been idle longest. If all
// are active, the new connection is closed. See docs/decisions.md, "An idle client gives way".
type connections struct {
	most int
	mu   sync.Mutex
	open map[net.Conn]bool // false: idle
	idle []net.Conn        // the idle connections, the longest idle first
}

func newConnections() *connections {
	return &connections{most: maxConnections, open: map[net.Conn]bool{}}
}

// state is an http.Server's ConnState.
func (c *connections) state(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if busy, known := c.open[conn]; known && !busy {
		for i := range c.idle {
			if c.idle[i] == conn {
				c.idle = append(c.idle[:i], c.idle[i+1:]...)
				break
			}
		}
	}
	switch state {
	case http.StateNew, http.StateIdle:
		c.open[conn] = false
		c.idle = append(c.idle, conn)
	case http.StateActive:
		c.open[conn] = true
	default:
		delete(c.open, conn)
	}
	for len(c.open) > c.most {
		oldest := conn
		if len(c.idle) > 0 {
			oldest, c.idle = c.idle[0], c.idle[1:]
		}
		delete(c.open, oldest)
		_ = oldest.Close()
	}
}
