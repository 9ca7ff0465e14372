package platform

import (
	"fmt"
	"net"
	"syscall"
)

// PeerUID returns the user id of the peer, as the kernel recorded it when the connection was made (for a client: the
// listening user).
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

// PeerListener returns only connections whose user allow accepts. It closes the others, and those whose user is
// unknown, without a reply, and continues to accept.
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

// control runs ask on the connection's descriptor.
func control(raw syscall.RawConn, ask func(fd int) (int, error)) (int, error) {
	uid, asked := -1, error(nil)
	if err := raw.Control(func(fd uintptr) { uid, asked = ask(int(fd)) }); err != nil {
		return -1, err
	}
	return uid, asked
}
