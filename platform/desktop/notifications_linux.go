package desktop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/godbus/dbus/v5"
)

const (
	serverName   = "org.freedesktop.Notifications"
	serverPath   = "/org/freedesktop/Notifications"
	noServerHint = "start the desktop's notification daemon (for example xfce4-notifyd, dunst or mako)"
	refusedHint  = "close some of the popups on the screen"
	silentHint   = "the notification daemon hangs; restart it"
)

var (
	errClosed  = errors.New("already closed")
	errPending = errors.New("no answer") // a Notify has no reply yet; awaitLate releases the popup's turn
)

// screen shows popups through the freedesktop notification server of the session bus.
type screen struct {
	address func() string
	turn    chan struct{} // held while bus and server are found; a channel, so that waiting can be cancelled
	bus     *bus          // guarded by turn
	closed  bool          // guarded by turn
	out     *outbox
	book    *popupStore
	recall  sync.Once // loads the popups of the previous run

	mu      sync.Mutex               // held only briefly, because the goroutine that reads the bus acquires it
	server  *server                  // nil once the bus reports a new owner of its name; it opened every popup that is shown
	windows map[string]*notification // by message key
}

func newScreen(out *outbox) *screen {
	return &screen{address: busAddress, turn: make(chan struct{}, 1), windows: map[string]*notification{}, out: out}
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

// hold returns the notification of a key with its turn acquired.
func (s *screen) hold(ctx context.Context, key string) (*notification, error) {
	for {
		w := s.window(key)
		if err := take(ctx, w.turn); err != nil {
			return nil, hinted(fmt.Errorf("the last popup of this incident is still unanswered: %w", err), silentHint)
		}
		if s.window(key) == w {
			return w, nil
		}
		<-w.turn // withdrawn and removed while we waited
	}
}

func (s *screen) show(ctx context.Context, m Message) (Proof, error) {
	s.inherit()
	w, err := s.hold(ctx, m.Key)
	if err != nil {
		return Proof{}, err
	}
	s.want(w, true)
	proof, err := s.open(ctx, w, m, false)
	switch {
	case gone(err), errors.Is(err, errEnded): // the server ended between lookup and call; the next one knows no ids
		proof, err = s.open(ctx, w, m, false)
	case errorName(err) != "":
		if srv, old := s.foreign(w); srv != nil { // the server may reject a replacement of an earlier run's popup
			proof, err = s.open(ctx, w, m, true)
			if _, id := s.stands(w); err == nil && id != old {
				_ = srv.close(ctx, old)
			}
		}
	}
	if !errors.Is(err, errPending) {
		<-w.turn
	}
	return proof, err
}

// open sends the message: as a new popup if fresh is set, otherwise as a replacement of the current one.
func (s *screen) open(ctx context.Context, w *notification, m Message, fresh bool) (Proof, error) {
	srv, err := s.find(ctx, true)
	if err != nil {
		return Proof{}, err
	}
	replaces, buttons := s.offer(w, srv, m.Actions, fresh)
	call := srv.notify(ctx, m, replaces, buttons, s.book.tag(m.Key))
	select {
	case <-call.Done:
	case <-ctx.Done():
		go s.awaitLate(w, srv, call)
		return Proof{}, hinted(fmt.Errorf("%s accepted nothing: %w: %w", srv.label, errPending, context.Cause(ctx)), silentHint)
	}
	id, err := s.record(w, srv, call)
	s.book.flush(ctx)
	switch {
	case err == nil:
		return srv.prove(ctx, id, len(buttons) > 0), nil
	case errors.Is(err, errEnded):
		return Proof{}, hinted(fmt.Errorf("%s: %w", srv.label, err), noServerHint)
	case errorName(err) != "", errors.Is(err, errNoID):
		return Proof{}, hinted(fmt.Errorf("%s refused: %w", srv.label, err), refusedHint)
	default:
		return Proof{}, hinted(fmt.Errorf("session bus ended before %s answered: %w", srv.label, err), deadHint)
	}
}

// awaitLate ends when the reply arrives, the server dies (the bus then replies for it) or the connection ends.
// Without the late id, the next message of this incident would open a second popup.
func (s *screen) awaitLate(w *notification, srv *server, call *dbus.Call) {
	<-call.Done
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	id, err := s.record(w, srv, call)
	s.book.flush(ctx)
	if err == nil && s.discard(w) && srv.close(ctx, id) == nil {
		s.book.drop(w.key)
		s.book.flush(ctx)
	}
	<-w.turn
}

func (s *screen) withdraw(ctx context.Context, key string) error {
	s.inherit()
	s.mu.Lock()
	w := s.windows[key]
	s.mu.Unlock()
	if w == nil {
		return nil
	}
	s.want(w, false) // a popup without a reply is closed when the reply comes, even if we no longer wait
	if err := take(ctx, w.turn); err != nil {
		return hinted(fmt.Errorf("the popup is still unanswered: %w", err), silentHint)
	}
	defer func() { <-w.turn }()
	if err := s.remove(ctx, w); err != nil {
		return err
	}
	s.forget(w)
	s.book.flush(ctx) // after closing: a popup that is no longer recorded would stay
	return nil
}

// remove closes a popup if the server that opened it still lives; otherwise the popup disappeared with that server.
func (s *screen) remove(ctx context.Context, w *notification) error {
	if !s.mayStand(w) {
		return nil
	}
	srv, err := s.find(ctx, false)
	if errors.Is(err, ErrUnavailable) {
		return nil
	}
	if err != nil {
		return err
	}
	if opener, id := s.stands(w); opener == srv {
		return srv.close(ctx, id)
	}
	return nil
}

func (s *screen) probe(ctx context.Context) error {
	if err := take(ctx, s.turn); err != nil {
		return err
	}
	defer func() { <-s.turn }()
	b, err := s.connect(ctx)
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

func (s *screen) close() error {
	s.turn <- struct{}{} // other holders release it within 5 s
	defer func() { <-s.turn }()
	s.closed = true
	if s.bus != nil {
		s.bus.close()
	}
	s.bus = nil
	return nil
}

// connect returns the current connection or a new one; the caller holds turn.
func (s *screen) connect(ctx context.Context) (*bus, error) {
	if s.closed {
		return nil, errClosed
	}
	if s.bus.alive() {
		return s.bus, nil
	}
	b, err := dialBus(ctx, s.address(), &signals{screen: s})
	if err != nil {
		return nil, err
	}
	s.bus = b
	if err := b.identify(ctx); err != nil {
		return b, err
	}
	return b, b.listen(ctx)
}

// find returns the server that currently owns the name. If start is set, the bus starts one if necessary.
func (s *screen) find(ctx context.Context, start bool) (*server, error) {
	s.inherit()
	if err := take(ctx, s.turn); err != nil {
		return nil, fmt.Errorf("another popup waits for the session bus: %w", err)
	}
	defer func() { <-s.turn }()
	for range 3 { // the owner changes once while a server starts
		srv, err := s.look(ctx, start)
		if err != nil || srv != nil {
			return srv, err
		}
	}
	return nil, hinted(errors.New("the notification server keeps changing"), noServerHint)
}

// look returns nil if the owner of the name changed meanwhile. A restarted bus is detected only by a call; look then
// retries once on a new connection.
func (s *screen) look(ctx context.Context, start bool) (*server, error) {
	b, owner, changes, err := s.owner(ctx, start)
	if err != nil && b != nil && !b.alive() && ctx.Err() == nil {
		b, owner, changes, err = s.owner(ctx, start)
	}
	if err != nil {
		return nil, err
	}
	if srv := s.known(b, owner); srv != nil {
		return srv, nil
	}
	return s.getToKnow(ctx, b, owner, changes)
}

// meetTime limits how long a slow server may take to introduce itself. The caller does not wait that long, but the
// next popup can use the result.
const meetTime = 4 * answerTime

// getToKnow queries a server; it returns nil if the owner of the name changed meanwhile.
func (s *screen) getToKnow(ctx context.Context, b *bus, owner string, changes uint64) (*server, error) {
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
			s.install(srv, changes)
			srv = s.known(b, owner)
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

func (s *screen) owner(ctx context.Context, start bool) (b *bus, owner string, changes uint64, err error) {
	if b, err = s.connect(ctx); err != nil {
		return b, "", 0, err
	}
	changes = b.ear.seen()
	owner, err = ownerOf(ctx, b, start)
	return b, owner, changes, err
}

// known returns the current server if it is the one on this connection with this owner.
func (s *screen) known(b *bus, owner string) *server {
	s.mu.Lock()
	defer s.mu.Unlock()
	if srv := s.server; srv != nil && srv.bus == b && srv.owner == owner {
		return srv
	}
	return nil
}

// install makes srv the current server, unless the owner of the name has changed since. The popups of a different
// server are lost; on a bus without signals this is where the loss is detected. Popups that srv had when it was last
// known are shown again.
func (s *screen) install(srv *server, changes uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if srv.bus.ear.changes != changes {
		return
	}
	if k := s.server; k != nil && k.bus == srv.bus && k.owner == srv.owner {
		return // another goroutine has already installed it
	}
	s.lose(s.server != nil && s.server.bus != srv.bus)
	s.server = srv
	srv.bus.sock.trust(srv.owner)
	s.adopt(srv)
}
