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

// bus is one connection to the session bus. We own the socket, so that a blocked write to a frozen bus can be
// cancelled: godbus has no write deadline, and its Close waits for writes.
type bus struct {
	conn    *dbus.Conn
	sock    net.Conn
	signals *signals
	deaf    bool   // the bus refused to deliver signals
	guid    string // id of this bus instance; "" if the bus has none
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

// dialBus connects to the first socket of the address that responds.
func dialBus(ctx context.Context, address string, g *signals) (*bus, error) {
	paths := sockets(address)
	if len(paths) == 0 {
		return nil, hinted(unavailable("no desktop session, so no popups"), notBusHint)
	}
	var errs []error
	for _, path := range paths {
		b, err := dialSocket(ctx, path, g)
		if err == nil {
			return b, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

func dialSocket(ctx context.Context, path string, g *signals) (*bus, error) {
	var dialer net.Dialer
	sock, err := dialer.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, hinted(unavailable("connect to session bus: %v", err), notBusHint)
	}
	stop := context.AfterFunc(ctx, func() { sock.Close() }) // godbus's handshake takes no context
	c, err := greet(sock, g)
	if !stop() {
		err = fmt.Errorf("no answer: %w", context.Cause(ctx))
	}
	if err != nil {
		sock.Close()
		if c != nil {
			c.Close()
		}
		return nil, hinted(fmt.Errorf("greet session bus: %w", err), deadHint)
	}
	return &bus{conn: c, sock: sock, signals: g}, nil
}

func greet(sock net.Conn, g *signals) (*dbus.Conn, error) {
	c, err := dbus.NewConn(sock, dbus.WithSignalHandler(g))
	if err == nil {
		err = c.Auth(nil)
	}
	if err == nil {
		err = c.Hello()
	}
	return c, err
}

// identify reads the bus id, which is new for every bus instance.
func (b *bus) identify(ctx context.Context) error {
	err := b.ask(ctx, "GetId", nil, &b.guid)
	if errorName(err) != "" { // a bus without ids: after a new connection its popups are not recognised
		return nil
	}
	return err
}

// alive reports whether the connection is still open, as far as reads have shown.
func (b *bus) alive() bool { return b != nil && b.conn.Connected() }

// close closes the connection; pending calls get an error.
func (b *bus) close() {
	b.sock.Close()
	b.conn.Close()
}

// start sends a call. Its reply may arrive after ctx has ended (a late reply still has the popup's id), but sending
// is limited by ctx.
func (b *bus) start(ctx context.Context, dest string, path dbus.ObjectPath, method string, flags dbus.Flags, args ...any) *dbus.Call {
	if deadline, ok := ctx.Deadline(); ok {
		_ = b.sock.SetWriteDeadline(deadline)
	} else {
		_ = b.sock.SetWriteDeadline(time.Now().Add(answerTime))
	}
	return b.conn.Object(dest, path).Go(method, flags, make(chan *dbus.Call, 1), args...)
}

// call sends a call and stores its reply in results.
func (b *bus) call(ctx context.Context, dest string, path dbus.ObjectPath, method string, args []any, results ...any) error {
	call := b.start(ctx, dest, path, method, dbus.FlagNoAutoStart, args...)
	select {
	case <-call.Done:
		return call.Store(results...)
	case <-ctx.Done():
		call.ContextCancel()
		return fmt.Errorf("%s: no answer: %w", method[strings.LastIndexByte(method, '.')+1:], context.Cause(ctx))
	}
}

// ask calls the bus itself. If the bus does not reply, ask closes the connection, and the next use reconnects.
func (b *bus) ask(ctx context.Context, method string, args []any, results ...any) error {
	err := b.call(ctx, busName, busPath, busName+"."+method, args, results...)
	var answer dbus.Error
	if err != nil && !errors.As(err, &answer) {
		b.close()
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
