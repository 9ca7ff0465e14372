package desktop

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"
)

const (
	busName    = "org.freedesktop.DBus"
	busPath    = "/org/freedesktop/DBus"
	notBusHint = "run steward as the desktop user; DBUS_SESSION_BUS_ADDRESS or /run/user/UID/bus names that user's bus (root cannot use it)"
	deadHint   = "the session bus does not answer; log in again or restart it"
)

// session is one connection to the session bus. It owns the socket, so that a blocked write to a frozen bus can be
// cancelled: godbus has no write deadline, and its Close waits for writes.
type session struct {
	conn   *dbus.Conn
	sock   net.Conn
	popups *popupTable
}

// busAddress returns the address of the session bus: DBUS_SESSION_BUS_ADDRESS, else systemd's socket at
// /run/user/UID/bus. "autolaunch:" counts as unset: it would start a bus without any listener.
func busAddress() string {
	if address := os.Getenv("DBUS_SESSION_BUS_ADDRESS"); address != "" && address != "autolaunch:" {
		return address
	}
	path := filepath.Join("/run/user", strconv.Itoa(os.Geteuid()), "bus")
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return "unix:path=" + dbus.EscapeBusAddressValue(path)
}

// sockets returns the Unix sockets of a D-Bus address ("unix:path=/a,guid=b;unix:abstract=c"), in order. It skips
// other transports: a desktop's session bus uses a Unix socket.
func sockets(address string) []string {
	var found []string
	for entry := range strings.SplitSeq(address, ";") {
		rest, ok := strings.CutPrefix(entry, "unix:")
		if !ok {
			continue
		}
		for pair := range strings.SplitSeq(rest, ",") {
			key, raw, _ := strings.Cut(pair, "=")
			value, err := dbus.UnescapeBusAddressValue(raw)
			if err != nil || value == "" {
				continue
			}
			switch key {
			case "path":
				found = append(found, value)
			case "abstract":
				found = append(found, "@"+value)
			}
		}
	}
	return found
}

// dial connects to the first socket of the address that responds, and subscribes to the signals.
func dial(ctx context.Context, address string, out *outbox) (*session, error) {
	paths := sockets(address)
	if len(paths) == 0 {
		return nil, hinted(unavailable("no desktop session, so no popups"), notBusHint)
	}
	var errs []error
	for _, path := range paths {
		s, err := dialSocket(ctx, path, out)
		if err == nil {
			return s, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

func dialSocket(ctx context.Context, path string, out *outbox) (*session, error) {
	var dialer net.Dialer
	sock, err := dialer.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, hinted(unavailable("connect to session bus: %v", err), notBusHint)
	}
	s := &session{sock: sock, popups: &popupTable{out: out}}
	stop := context.AfterFunc(ctx, func() { sock.Close() }) // godbus's handshake takes no context
	if s.conn, err = dbus.NewConn(sock, dbus.WithSignalHandler(s.popups)); err == nil {
		err = s.conn.Auth(nil)
	}
	if err == nil {
		err = s.conn.Hello()
	}
	if !stop() {
		err = fmt.Errorf("no answer: %w", context.Cause(ctx))
	}
	for _, rule := range []string{ownerRule, serverRule} {
		if err == nil {
			err = s.ask(ctx, "AddMatch", []any{rule})
		}
	}
	if err != nil {
		s.close()
		return nil, hinted(fmt.Errorf("greet session bus: %w", err), deadHint)
	}
	return s, nil
}

// alive reports whether the connection is still open, as far as reads have shown.
func (s *session) alive() bool { return s != nil && s.conn.Connected() }

// close closes the connection; pending calls get an error.
func (s *session) close() {
	s.sock.Close()
	if s.conn != nil {
		s.conn.Close()
	}
}

// start sends a call. Its reply may arrive after ctx has ended (a late reply still has the popup's id), but sending
// is limited by ctx.
func (s *session) start(ctx context.Context, dest string, path dbus.ObjectPath, method string, args ...any) *dbus.Call {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(answerTime)
	}
	_ = s.sock.SetWriteDeadline(deadline)
	return s.conn.Object(dest, path).Go(method, dbus.FlagNoAutoStart, make(chan *dbus.Call, 1), args...)
}

// call sends a call and stores its reply in results.
func (s *session) call(ctx context.Context, dest string, path dbus.ObjectPath, method string, args []any, results ...any) error {
	call := s.start(ctx, dest, path, method, args...)
	select {
	case <-call.Done:
		return call.Store(results...)
	case <-ctx.Done():
		call.ContextCancel()
		return fmt.Errorf("%s: no answer: %w", method[strings.LastIndexByte(method, '.')+1:], context.Cause(ctx))
	}
}

// ask calls the bus itself. If the bus does not reply, ask closes the connection, and the next use connects again.
func (s *session) ask(ctx context.Context, method string, args []any, results ...any) error {
	err := s.call(ctx, busName, busPath, busName+"."+method, args, results...)
	if err != nil && errorName(err) == "" {
		s.close()
		return hinted(fmt.Errorf("session bus: %w", err), deadHint)
	}
	return err
}

// errorName returns the D-Bus name of an error reply, or "".
func errorName(err error) string {
	var answer dbus.Error
	if errors.As(err, &answer) {
		return answer.Name
	}
	return ""
}
