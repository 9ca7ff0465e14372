package desktop

import (
	"crypto/rand"
	"errors"

	"github.com/godbus/dbus/v5"
)

var (
	errNoID  = errors.New("it named no popup")
	errEnded = errors.New("it ended, or gave up its name, while it opened the popup")
)

// notification is the popup of one incident. Its turn is held while a Notify is unanswered, even after the caller gave up:
// so a server that is paused gets one message of an incident, not one per attempt. screen.mu guards the rest.
type notification struct {
	key  string
	turn chan struct{}

	server   *server // that opened it, nil when it does not stand; ids of any other server mean other popups
	id       uint32
	left     *popupRef // where it stood when we last heard of its server; nil while that is known, or nowhere
	told     bool      // that it is lost, of the popup that left it there
	adopted  bool      // it was opened over another connection
	unwanted bool      // withdrawn, perhaps before it was answered
	answered bool      // a button was pressed

	// buttons gives the action for each key that the last message told the server. The keys are random, so that no
	// older message, no other popup and no guess has the same. A press takes them all away.
	buttons map[string]string
	pending bool          // a Notify is on its way
	early   *press        // came before the answer that names the popup
	gone    dbus.Sequence // when the popup that is being replaced was closed
	byHuman bool          // who closed it
}

// press is a button of the last message, pressed on popup id.
type press struct {
	id     uint32
	action string
}

func (s *screen) window(key string) *notification {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.windows[key]
	if w == nil {
		w = &notification{key: key, turn: make(chan struct{}, 1)}
		s.windows[key] = w
	}
	return w
}

// stands gives the server and the id of a popup; no server, if it does not stand.
func (s *screen) stands(w *notification) (*server, uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return w.server, w.id
}

// discard says whether the popup was withdrawn before it opened, and then takes it for closed.
func (s *screen) discard(w *notification) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.unwanted {
		w.server = nil
	}
	return w.unwanted
}

// forget drops a withdrawn window, unless another withdrawal already did and a new one stands there.
func (s *screen) forget(w *notification) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.server, w.left = nil, nil
	if s.windows[w.key] == w {
		delete(s.windows, w.key)
		s.book.drop(w.key)
	}
}

// want says whether the popup is to be on the screen. One that is not has no buttons any more.
func (s *screen) want(w *notification, wanted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.unwanted = !wanted
	if !wanted {
		w.buttons, w.early = nil, nil
	}
}

// offer gives what the next Notify says beside the text: the popup that it replaces, and keys and labels of its
// buttons. From here on no press of an older message counts: our caller has moved on.
func (s *screen) offer(w *notification, srv *server, actions []Action, fresh bool) (replaces uint32, buttons []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.pending, w.early, w.gone, w.buttons = true, nil, 0, nil
	if srv.actions && len(actions) > 0 {
		w.buttons = map[string]string{}
		for _, a := range actions {
			token := rand.Text()
			w.buttons[token] = a.ID
			buttons = append(buttons, token, a.Label)
		}
	}
	if w.server == srv && !fresh {
		replaces = w.id
	}
	return replaces, buttons
}

// record takes the server's answer to a Notify. A server that answers 0 broke the specification and shows nothing.
// Signals that came before the answer was read are judged now.
func (s *screen) record(w *notification, srv *server, call *dbus.Call) (id uint32, err error) {
	err = call.Store(&id)
	s.mu.Lock()
	defer s.mu.Unlock()
	early := w.early
	w.pending, w.early = false, nil
	switch {
	case err != nil:
	case id == 0:
		err = errNoID
	case s.server != srv:
		err = errEnded
	}
	if err != nil { // an older popup may still stand; its buttons ended when this message was sent
		w.buttons = nil
		return 0, err
	}
	again := w.server == srv && w.id == id
	s.stand(w, srv, id)
	switch {
	case early != nil && early.id == id:
		s.answer(w, early.action)
	case early != nil:
		s.out.refused.Add(1)
	}
	if again && w.gone > call.ResponseSequence { // else it was the replaced popup that was closed
		s.end(w, w.byHuman)
	}
	return id, nil
}

// answer tells of a press that counts. The caller holds mu.
func (s *screen) answer(w *notification, action string) {
	if w.unwanted {
		s.out.refused.Add(1)
		return
	}
	w.answered, w.buttons = true, nil
	s.out.put(Pressed, w.key, action)
}

// end takes note that a popup has left the screen. The caller holds mu.
func (s *screen) end(w *notification, byHuman bool) {
	tell := byHuman && !w.answered && !w.unwanted
	w.server, w.buttons = nil, nil
	if w.answered { // the press may still be lost on its way: the book keeps the key until its receiver has acted on it
		s.book.void(w.key)
	} else {
		s.book.drop(w.key)
	}
	s.book.later()
	if tell {
		s.out.put(Closed, w.key, "")
	}
}
