package desktop

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

const (
	serverName   = "org.freedesktop.Notifications"
	serverPath   = "/org/freedesktop/Notifications"
	noServerHint = "start the desktop's notification daemon (for example xfce4-notifyd, dunst or mako)"
	silentHint   = "the notification daemon hangs; restart it"
)

var errClosed = errors.New("already closed")

// finder connects to the session bus and finds the current notification server. It keeps both until they end.
type finder struct {
	address func() string
	popups  *popupTable
	turn    chan struct{} // held while bus and server are found; a channel, so that waiting can be cancelled
	bus     *bus          // guarded by turn
	closed  bool          // guarded by turn
}

// take acquires a turn; it waits until ctx ends.
func take(ctx context.Context, turn chan struct{}) error {
	select {
	case turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// probe reports whether a server owns the name or can be started by the bus.
func (f *finder) probe(ctx context.Context) error {
	if err := take(ctx, f.turn); err != nil {
		return err
	}
	defer func() { <-f.turn }()
	b, err := f.connect(ctx)
	if err != nil {
		return err
	}
	var owned bool
	if err := b.ask(ctx, "NameHasOwner", []any{serverName}, &owned); err != nil || owned {
		return err
	}
	var names []string
	if err := b.ask(ctx, "ListActivatableNames", nil, &names); err != nil || slices.Contains(names, serverName) {
		return err
	}
	return hinted(unavailable("no notification server on the session bus"), noServerHint)
}

// connect returns the current connection or a new one; the caller holds turn.
func (f *finder) connect(ctx context.Context) (*bus, error) {
	if f.closed {
		return nil, errClosed
	}
	if f.bus.alive() {
		return f.bus, nil
	}
	b, err := dialBus(ctx, f.address(), &signals{popups: f.popups})
	if err != nil {
		return nil, err
	}
	f.bus = b
	if err := b.identify(ctx); err != nil {
		return b, err
	}
	return b, b.listen(ctx)
}

// find returns the server that currently owns the name. If start is set, the bus starts one if necessary.
func (f *finder) find(ctx context.Context, start bool) (*server, error) {
	if err := take(ctx, f.turn); err != nil {
		return nil, fmt.Errorf("another popup waits for the session bus: %w", err)
	}
	defer func() { <-f.turn }()
	for range 3 { // the owner changes once while a server starts
		srv, err := f.findOnce(ctx, start)
		if err != nil || srv != nil {
			return srv, err
		}
	}
	return nil, hinted(errors.New("the notification server keeps changing"), noServerHint)
}

// findOnce returns nil if the owner of the name changed meanwhile. A restarted bus is detected only by a call; findOnce
// then retries once on a new connection.
func (f *finder) findOnce(ctx context.Context, start bool) (*server, error) {
	b, owner, changes, err := f.owner(ctx, start)
	if err != nil && b != nil && !b.alive() && ctx.Err() == nil {
		b, owner, changes, err = f.owner(ctx, start)
	}
	if err != nil {
		return nil, err
	}
	if srv := f.popups.current(b, owner); srv != nil {
		return srv, nil
	}
	return f.introduce(ctx, b, owner, changes)
}

// owner returns the owner of the server's name, and how often it had changed before.
func (f *finder) owner(ctx context.Context, start bool) (b *bus, owner string, changes uint64, err error) {
	if b, err = f.connect(ctx); err != nil {
		return b, "", 0, err
	}
	changes = b.signals.seen()
	owner, err = ownerOf(ctx, b, start)
	return b, owner, changes, err
}

// meetTime limits how long a slow server may take to introduce itself. The caller does not wait that long, but the
// next popup can use the result.
const meetTime = 4 * answerTime

// introduce queries a server; it returns nil if the owner of the name changed meanwhile.
func (f *finder) introduce(ctx context.Context, b *bus, owner string, changes uint64) (*server, error) {
	type meeting struct {
		srv *server
		err error
	}
	over := make(chan meeting, 1)
	go func() { // ends with the replies, on timeout, or with the connection
		long, cancel := context.WithTimeout(context.WithoutCancel(ctx), meetTime)
		defer cancel()
		srv, err := meet(long, b, owner)
		if err == nil {
			f.popups.install(srv, changes)
			srv = f.popups.current(b, owner)
		}
		over <- meeting{srv, err}
	}()
	select {
	case m := <-over:
		return m.srv, m.err
	case <-ctx.Done():
		return nil, hinted(fmt.Errorf("notification server: no answer: %w", context.Cause(ctx)), silentHint)
	}
}

// close ends the connection. Later searches fail.
func (f *finder) close() {
	f.turn <- struct{}{} // other holders release it within 5 s
	defer func() { <-f.turn }()
	f.closed = true
	if f.bus != nil {
		f.popups.closeAll()
		f.bus.close()
	}
	f.bus = nil
}
