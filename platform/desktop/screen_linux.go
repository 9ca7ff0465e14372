package desktop

import (
	"context"
	"errors"
	"fmt"

	"github.com/godbus/dbus/v5"
)

const refusedHint = "close some of the popups on the screen"

var (
	errClosed  = errors.New("already closed")
	errPending = errors.New("no answer") // a Notify has no reply yet
)

// screen shows popups through the freedesktop notification server of the session bus. A popup belongs to one instance
// of that server and to one connection: when either ends, the popup is lost, and the next message opens another one.
type screen struct {
	address func() string
	out     *outbox
	turn    chan struct{} // held while a popup is opened; a channel, so that waiting can be cancelled
	session *session      // guarded by turn
	closed  bool          // guarded by turn
}

func newScreen(out *outbox) *screen {
	return &screen{address: busAddress, out: out, turn: make(chan struct{}, 1)}
}

// take waits for the turn until ctx ends.
func (s *screen) take(ctx context.Context) error {
	select { // a free turn is taken even after ctx has ended: a withdrawal must at least revoke the buttons
	case s.turn <- struct{}{}:
		return nil
	default:
	}
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("another popup waits for the session bus: %w", context.Cause(ctx))
	}
}

// connect returns the current connection or a new one. The caller holds the turn.
func (s *screen) connect(ctx context.Context) (*session, error) {
	if s.closed {
		return nil, errClosed
	}
	if s.session.alive() {
		return s.session, nil
	}
	next, err := dial(ctx, s.address(), s.out)
	if err != nil {
		return nil, err
	}
	s.session = next
	return next, nil
}

// find returns the server that currently owns the name. If start is set, the bus starts one if necessary. The caller
// holds the turn.
func (s *screen) find(ctx context.Context, start bool) (*server, error) {
	for range 3 { // the owner changes once while a server starts, and only a call shows that the bus has ended
		session, err := s.connect(ctx)
		if err != nil {
			return nil, err
		}
		changes := session.popups.seen()
		owner, err := session.owner(ctx, start)
		if err != nil {
			if !session.alive() && ctx.Err() == nil {
				continue
			}
			return nil, err
		}
		if srv := session.popups.current(owner); srv != nil {
			return srv, nil
		}
		srv, err := meet(ctx, session, owner)
		if err != nil {
			return nil, err
		}
		if session.popups.install(srv, changes) {
			return srv, nil
		}
	}
	return nil, hinted(errors.New("the notification server keeps changing"), noServerHint)
}

// probe reports whether a server owns the name or can be started by the bus.
func (s *screen) probe(ctx context.Context) error {
	_, _, err := s.who(ctx)
	return err
}

// who returns the label of the server, and whether it is muted; "" if the first popup would start a server.
func (s *screen) who(ctx context.Context) (label string, muted bool, err error) {
	if err := s.take(ctx); err != nil {
		return "", false, err
	}
	defer func() { <-s.turn }()
	srv, err := s.find(ctx, false)
	switch {
	case err == nil:
		return srv.label, srv.muted(ctx), nil
	case errors.Is(err, ErrUnavailable) && s.session.alive():
		return "", false, s.session.startable(ctx)
	}
	return "", false, err
}

func (s *screen) show(ctx context.Context, m Message) (Proof, error) {
	if err := s.take(ctx); err != nil {
		return Proof{}, err
	}
	defer func() { <-s.turn }()
	proof, err := s.open(ctx, m)
	if gone(err) || errors.Is(err, errEnded) { // the server ended between lookup and call; the next one knows no ids
		proof, err = s.open(ctx, m)
	}
	return proof, err
}

// open sends the message. It replaces the current popup of the key, if there is one. A paused server gets one message
// per incident, not one per attempt: the next attempt waits for the reply to the last one.
func (s *screen) open(ctx context.Context, m Message) (Proof, error) {
	srv, err := s.find(ctx, true)
	if err != nil {
		return Proof{}, err
	}
	if err := await(ctx, srv.popups.unanswered(m.Key)); err != nil {
		return Proof{}, err
	}
	p, replaces, buttons := srv.popups.offer(srv, m.Key, m.Actions)
	call := srv.notify(ctx, m, replaces, buttons)
	select {
	case <-call.Done:
	case <-ctx.Done():
		go awaitLate(p, srv, call)
		return Proof{}, hinted(fmt.Errorf("%s accepted nothing: %w: %w", srv.label, errPending, context.Cause(ctx)), silentHint)
	}
	id, err := srv.popups.record(p, srv, call)
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

// await waits until the reply to the last message of a key is recorded.
func await(ctx context.Context, settled chan struct{}) error {
	if settled == nil {
		return nil
	}
	select {
	case <-settled:
		return nil
	case <-ctx.Done():
		return hinted(fmt.Errorf("the last popup of this incident is still unanswered: %w", context.Cause(ctx)), silentHint)
	}
}

// awaitLate ends when the reply arrives, the server dies (the bus then replies for it) or the connection ends.
// Without the late id, the next message of this incident would open a second popup.
func awaitLate(p *popup, srv *server, call *dbus.Call) {
	<-call.Done
	id, err := srv.popups.record(p, srv, call)
	if err != nil || !srv.popups.withdrawn(p) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	if srv.withdraw(ctx, id) == nil {
		srv.popups.forget(p.key, id)
	}
}

// withdraw removes a popup while the server that opened it lives; otherwise the popup ended with that server. A popup
// without a reply is closed when the reply comes, even if the caller no longer waits.
func (s *screen) withdraw(ctx context.Context, key string) error {
	if err := s.take(ctx); err != nil {
		return err
	}
	defer func() { <-s.turn }()
	if !s.session.alive() {
		return nil
	}
	table := s.session.popups
	settled := table.unanswered(key)
	table.revoke(key)
	if err := await(ctx, settled); err != nil {
		return err
	}
	srv, id := table.revoke(key)
	if id == 0 {
		return nil
	}
	if err := srv.withdraw(ctx, id); err != nil && s.session.alive() {
		return err
	}
	table.forget(key, id)
	return nil
}

// close takes the popups from the screen and ends the connection. Later calls fail.
func (s *screen) close() error {
	s.turn <- struct{}{} // other holders release it within answerTime
	defer func() { <-s.turn }()
	s.closed = true
	if s.session != nil {
		s.session.popups.closeAll()
		s.session.close()
	}
	s.session = nil
	return nil
}
