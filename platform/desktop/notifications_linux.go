package desktop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

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
	errNoID    = errors.New("it named no popup")
	errPending = errors.New("no answer") // a Notify is on its way; awaitLate gives the window's turn back
)

// screen shows popups through the freedesktop notification server of the session bus.
type screen struct {
	address func() string
	turn    chan struct{} // held while bus and server are found; a channel, so that waiting ends with the context
	bus     *bus          // guarded by turn, like server
	server  *server
	closed  bool

	mu      sync.Mutex
	windows map[string]*window // by message key
}

// window is the popup of one incident. Its turn is held while a Notify is unanswered, even after the caller gave up:
// so a server that is paused gets one message of an incident, not one per attempt.
type window struct {
	turn     chan struct{}
	server   *server // that opened it; ids of any other server mean other popups
	id       uint32
	unwanted atomic.Bool // withdrawn before it was answered
}

func newScreen() *screen {
	return &screen{address: busAddress, turn: make(chan struct{}, 1), windows: map[string]*window{}}
}

// take waits for a turn until ctx ends.
func take(ctx context.Context, turn chan struct{}) error {
	select {
	case turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// hold gives the window of a key with its turn taken.
func (s *screen) hold(ctx context.Context, key string) (*window, error) {
	for {
		w := s.window(key)
		if err := take(ctx, w.turn); err != nil {
			return nil, hinted(fmt.Errorf("the last popup of this incident is still unanswered: %w", err), silentHint)
		}
		if s.window(key) == w {
			return w, nil
		}
		<-w.turn // withdrawn and forgotten while we waited
	}
}

func (s *screen) window(key string) *window {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.windows[key]
	if w == nil {
		w = &window{turn: make(chan struct{}, 1)}
		s.windows[key] = w
	}
	return w
}

// forget drops a withdrawn window, unless another withdrawal already did and a new one stands there.
func (s *screen) forget(key string, w *window) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.windows[key] == w {
		delete(s.windows, key)
	}
}

func (s *screen) show(ctx context.Context, m Message) (Proof, error) {
	w, err := s.hold(ctx, m.Key)
	if err != nil {
		return Proof{}, err
	}
	w.unwanted.Store(false)
	proof, err := s.open(ctx, w, m)
	if gone(err) { // the server ended between our look and our call; the next one knows no id
		proof, err = s.open(ctx, w, m)
	}
	if !errors.Is(err, errPending) {
		<-w.turn
	}
	return proof, err
}

func (s *screen) open(ctx context.Context, w *window, m Message) (Proof, error) {
	srv, err := s.find(ctx, true)
	if err != nil {
		return Proof{}, err
	}
	call := srv.notify(ctx, w, m)
	select {
	case <-call.Done:
	case <-ctx.Done():
		go awaitLate(w, srv, call)
		return Proof{}, hinted(fmt.Errorf("%s accepted nothing: %w: %w", srv.label, errPending, context.Cause(ctx)), silentHint)
	}
	switch err := w.record(srv, call); {
	case err == nil:
		return srv.prove(ctx, w.id), nil
	case errorName(err) != "", errors.Is(err, errNoID):
		return Proof{}, hinted(fmt.Errorf("%s refused: %w", srv.label, err), refusedHint)
	default:
		return Proof{}, hinted(fmt.Errorf("session bus ended before %s answered: %w", srv.label, err), deadHint)
	}
}

// record keeps the id that the server gave. A server that answers 0 broke the specification and shows nothing.
func (w *window) record(srv *server, call *dbus.Call) error {
	var id uint32
	if err := call.Store(&id); err != nil {
		return err
	}
	if id == 0 {
		return errNoID
	}
	w.server, w.id = srv, id
	return nil
}

// awaitLate ends with the answer, with the server (the bus then answers for it) or with the connection. Without the
// late id the next message of this incident would open a second popup beside the late one.
func awaitLate(w *window, srv *server, call *dbus.Call) {
	<-call.Done
	if w.record(srv, call) == nil && w.unwanted.Load() {
		ctx, cancel := context.WithTimeout(context.Background(), answerTime)
		defer cancel()
		_ = srv.close(ctx, w.id)
		w.server = nil
	}
	<-w.turn
}

func (s *screen) withdraw(ctx context.Context, key string) error {
	s.mu.Lock()
	w := s.windows[key]
	s.mu.Unlock()
	if w == nil {
		return nil
	}
	w.unwanted.Store(true) // an unanswered popup is closed when its answer comes, even if we no longer wait
	if err := take(ctx, w.turn); err != nil {
		return hinted(fmt.Errorf("the popup is still unanswered: %w", err), silentHint)
	}
	defer func() { <-w.turn }()
	if err := s.remove(ctx, w); err != nil {
		return err
	}
	w.server = nil
	s.forget(key, w)
	return nil
}

// remove closes a window if the server that opened it still lives; else the popup went with that server.
func (s *screen) remove(ctx context.Context, w *window) error {
	if w.server == nil {
		return nil
	}
	srv, err := s.find(ctx, false)
	if errors.Is(err, ErrUnavailable) {
		return nil
	}
	if err != nil || srv != w.server {
		return err
	}
	return srv.close(ctx, w.id)
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
	s.turn <- struct{}{} // held for 5 s at most
	defer func() { <-s.turn }()
	s.closed = true
	if s.bus != nil {
		s.bus.close()
	}
	s.bus, s.server = nil, nil
	return nil
}

// connect gives the standing connection or a new one; the caller holds turn.
func (s *screen) connect(ctx context.Context) (*bus, error) {
	if s.closed {
		return nil, errClosed
	}
	if s.bus.alive() {
		return s.bus, nil
	}
	b, err := dialBus(ctx, s.address())
	if err != nil {
		return nil, err
	}
	s.bus, s.server = b, nil
	return b, nil
}

// find gives the server that owns the name now, if need be by having the bus start it. A bus that was restarted
// shows only when it is asked: then, once, on a new connection.
func (s *screen) find(ctx context.Context, start bool) (*server, error) {
	if err := take(ctx, s.turn); err != nil {
		return nil, fmt.Errorf("another popup waits for the session bus: %w", err)
	}
	defer func() { <-s.turn }()
	b, owner, err := s.owner(ctx, start)
	if err != nil && b != nil && !b.alive() && ctx.Err() == nil {
		b, owner, err = s.owner(ctx, start)
	}
	if err != nil {
		return nil, err
	}
	if s.server != nil && s.server.owner == owner {
		return s.server, nil
	}
	srv, err := meet(ctx, b, owner)
	if err == nil {
		s.server = srv
	}
	return srv, err
}

func (s *screen) owner(ctx context.Context, start bool) (*bus, string, error) {
	b, err := s.connect(ctx)
	if err != nil {
		return nil, "", err
	}
	owner, err := ownerOf(ctx, b, start)
	return b, owner, err
}
