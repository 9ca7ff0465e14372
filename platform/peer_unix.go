//go:build linux || darwin

package platform

import "syscall"

// control runs ask on the connection's descriptor.
func control(raw syscall.RawConn, ask func(fd int) (int, error)) (int, error) {
	uid, asked := -1, error(nil)
	if err := raw.Control(func(fd uintptr) { uid, asked = ask(int(fd)) }); err != nil {
		return -1, err
	}
	return uid, asked
}
