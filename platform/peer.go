package platform

import (
	"fmt"
	"net"
)

// PeerUID tells which user is at the other end, as the kernel noted it when the connection was made (for a client: the
// user who listens). On Windows the error is errors.ErrUnsupported: there the folder's access list alone decides.
func PeerUID(c *net.UnixConn) (int, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return -1, fmt.Errorf("read peer: %w", err)
	}
	uid, err := peerUID(raw)
	if err != nil {
		return -1, fmt.Errorf("read peer: %w", err)
	}
	return uid, nil
}

// PeerListener passes on only connections whose user allow accepts. Others, and those whose user cannot be told, are
// closed without a word; accepting goes on.
func PeerListener(l net.Listener, allow func(uid int) bool) net.Listener {
	return &peerListener{l, allow}
}

type peerListener struct {
	net.Listener
	allow func(uid int) bool
}

// Accept returns the next allowed connection, or the error of the listener below.
func (l *peerListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.admits(c) {
			return c, nil
		}
		c.Close()
	}
}

func (l *peerListener) admits(c net.Conn) bool {
	uc, ok := c.(*net.UnixConn)
	if !ok {
		return false
	}
	uid, err := PeerUID(uc)
	return err == nil && l.allow(uid)
}
