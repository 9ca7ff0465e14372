package desktop

import (
	"context"
	"errors"
	"fmt"

	"github.com/godbus/dbus/v5"
)

const refusedHint = "close some of the popups on the screen"

// errPending: a Notify has no reply yet; awaitLate releases the popup's turn.
var errPending = errors.New("no answer")

// screen shows popups through the freedesktop notification server of the session bus.
type screen struct {
	finder *finder
	popups *popupTable
}

func newScreen(out *outbox) *screen {
	popups := &popupTable{out: out, all: map[string]*popup{}}
	return &screen{popups: popups, finder: &finder{address: busAddress, popups: popups, turn: make(chan struct{}, 1)}}
}

func (s *screen) probe(ctx context.Context) error { return s.finder.probe(ctx) }

func (s *screen) close() error {
	s.finder.close()
	return nil
}

// hold returns the popup of a key with its turn acquired.
func (s *screen) hold(ctx context.Context, key string) (*popup, error) {
	for {
		p := s.popups.of(key)
		if err := take(ctx, p.turn); err != nil {
			return nil, hinted(fmt.Errorf("the last popup of this incident is still unanswered: %w", err), silentHint)
		}
		if s.popups.of(key) == p {
			return p, nil
		}
		<-p.turn // withdrawn and removed while we waited
	}
}

func (s *screen) show(ctx context.Context, m Message) (Proof, error) {
	p, err := s.hold(ctx, m.Key)
	if err != nil {
		return Proof{}, err
	}
	s.popups.want(p, true)
	proof, err := s.open(ctx, p, m)
	if gone(err) || errors.Is(err, errEnded) { // the server ended between lookup and call; the next one knows no ids
		proof, err = s.open(ctx, p, m)
	}
	if !errors.Is(err, errPending) {
		<-p.turn
	}
	return proof, err
}

// open sends the message. It replaces the current popup, if there is one. A popup of an earlier connection is closed
// instead, because some servers refuse to replace a popup that another connection opened.
func (s *screen) open(ctx context.Context, p *popup, m Message) (Proof, error) {
	srv, err := s.finder.find(ctx, true)
	if err != nil {
		return Proof{}, err
	}
	if opener, id := s.popups.opener(p); opener != srv && opener.same(srv) {
		if err := srv.close(ctx, id); err != nil {
			return Proof{}, err
		}
		s.popups.removed(p)
	}
	replaces, buttons := s.popups.offer(p, srv, m.Actions)
	call := srv.notify(ctx, m, replaces, buttons)
	select {
	case <-call.Done:
	case <-ctx.Done():
		go s.awaitLate(p, srv, call)
		return Proof{}, hinted(fmt.Errorf("%s accepted nothing: %w: %w", srv.label, errPending, context.Cause(ctx)), silentHint)
	}
	id, err := s.popups.record(p, srv, call)
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
func (s *screen) awaitLate(p *popup, srv *server, call *dbus.Call) {
	<-call.Done
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	if id, err := s.popups.record(p, srv, call); err == nil && s.popups.withdrawn(p) {
		s.popups.removed(p)
		_ = srv.close(ctx, id)
	}
	<-p.turn
}

func (s *screen) withdraw(ctx context.Context, key string) error {
	p := s.popups.find(key)
	if p == nil {
		return nil
	}
	s.popups.want(p, false) // a popup without a reply is closed when the reply comes, even if we no longer wait
	if err := take(ctx, p.turn); err != nil {
		return hinted(fmt.Errorf("the popup is still unanswered: %w", err), silentHint)
	}
	defer func() { <-p.turn }()
	if err := s.remove(ctx, p); err != nil {
		return err
	}
	s.popups.forget(p)
	return nil
}

// remove closes a popup if the server that opened it still lives; otherwise the popup disappeared with that server.
func (s *screen) remove(ctx context.Context, p *popup) error {
	if opener, _ := s.popups.opener(p); opener == nil {
		return nil
	}
	srv, err := s.finder.find(ctx, false)
	switch {
	case errors.Is(err, ErrUnavailable):
		return nil
	case err != nil:
		return err
	}
	if opener, id := s.popups.opener(p); opener.same(srv) {
		return srv.close(ctx, id)
	}
	return nil
}

func (s *screen) who(ctx context.Context) (label string, muted bool, err error) {
	if err := s.finder.probe(ctx); err != nil {
		return "", false, err
	}
	srv, err := s.finder.find(ctx, false)
	switch {
	case errors.Is(err, ErrUnavailable): // the probe has shown that the bus can start it
		return "", false, nil
	case err != nil:
		return "", false, err
	}
	return srv.label, srv.muted(ctx), nil
}
