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

// notification is the popup of one incident. Its turn is held while a Notify has no reply, even after the caller gave
// up: a paused server therefore gets one message per incident, not one per attempt. screen.mu guards the other
// fields.
type notification struct {
	key  string
	turn chan struct{}

	server   *server // the server that opened it; nil if it is not shown. Ids of other servers mean other popups
	id       uint32
	left     *popupRef // its last known place while its server is unknown; otherwise nil
	told     bool      // Lost was already reported for the popup in left
	adopted  bool      // opened over another connection
	unwanted bool      // withdrawn, perhaps before the server replied
	answered bool      // a button was pressed

	// buttons maps the keys of the last message's buttons to actions. The keys are random, so that they differ from
	// those of older messages and other popups and cannot be guessed. A press removes them all.
	buttons map[string]string
	pending bool          // a Notify has no reply yet
	early   *press        // a press received before the reply with the popup's id
	gone    dbus.Sequence // when the popup that is being replaced was closed; 0: it was not
	byHuman bool          // the user closed it
}

// press is a press of a button of the last message, on popup id.
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

// stands returns the server and the id of a popup; no server if the popup is not shown.
func (s *screen) stands(w *notification) (*server, uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return w.server, w.id
}

// discard reports whether the popup was withdrawn before it opened, and then treats it as closed.
func (s *screen) discard(w *notification) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.unwanted {
		w.server = nil
	}
	return w.unwanted
}

// forget removes a withdrawn popup, unless another withdrawal has done so and a new popup has its place.
func (s *screen) forget(w *notification) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.server, w.left = nil, nil
	if s.windows[w.key] == w {
		delete(s.windows, w.key)
		s.book.drop(w.key)
	}
}

// want records whether the popup is to be shown. A popup that is not has no buttons any more.
func (s *screen) want(w *notification, wanted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.unwanted = !wanted
	if !wanted {
		w.buttons, w.early = nil, nil
	}
}

// offer returns the arguments of the next Notify beside the text: the popup to replace, and the keys and labels of
// the buttons. From now on presses of older messages are ignored.
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

// record evaluates the server's reply to a Notify. A server that returns 0 violates the specification and shows
// nothing. Signals received before the reply was read are evaluated now.
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
	if err != nil { // an older popup may still be shown; its buttons became invalid when this message was sent
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
	if again && w.gone > call.ResponseSequence { // otherwise the replaced popup was closed
		s.end(w, w.byHuman)
	}
	return id, nil
}

// answer reports a valid press. The caller holds mu.
func (s *screen) answer(w *notification, action string) {
	if w.unwanted {
		s.out.refused.Add(1)
		return
	}
	w.answered, w.buttons = true, nil
	s.out.put(Pressed, w.key, action)
}

// end records that a popup has left the screen. The caller holds mu.
func (s *screen) end(w *notification, byHuman bool) {
	tell := byHuman && !w.answered && !w.unwanted
	w.server, w.buttons = nil, nil
	if w.answered { // the press may still be lost: the book keeps the key until the receiver has acted on it
		s.book.void(w.key)
	} else {
		s.book.drop(w.key)
	}
	s.book.later()
	if tell {
		s.out.put(Closed, w.key, "")
	}
}
