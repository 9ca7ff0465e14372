package desktop

// inherit loads the popups of the previous run, which are still shown if their server lives. That is known once the
// server is found.
func (s *screen) inherit() {
	s.recall.Do(func() {
		left := s.book.inherited()
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, e := range left {
			s.windows[e.Key] = &notification{key: e.Key, turn: make(chan struct{}, 1), left: &e.popupRef}
		}
	})
}

// adopt assigns srv to the popups that were shown when their server was last known, if srv is that server. Buttons
// that they still have belong to no current message. The other popups were lost with their server. The caller holds
// mu.
func (s *screen) adopt(srv *server) {
	for _, w := range s.windows {
		left := w.left
		if left == nil {
			continue
		}
		w.left = nil
		if left.sameLife(srv.mark(0)) {
			w.server, w.id, w.adopted = srv, left.ID, true
		} else if !w.told && len(w.turn) == 0 { // a taken turn means: the popup is being shown again or withdrawn
			s.out.put(Lost, w.key, "")
		}
	}
}

// foreign returns the server and the id of a popup that was opened over another connection; no server if this
// connection opened it. GNOME lets us take over a popup once it has noticed the end of that connection; other servers
// may return an error for a popup that no longer exists.
func (s *screen) foreign(w *notification) (*server, uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !w.adopted {
		return nil, 0
	}
	return w.server, w.id
}

// mayStand reports whether there may be a popup to close, as far as is known before its server is found.
func (s *screen) mayStand(w *notification) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return w.server != nil || w.left != nil
}

// stand records that the popup is shown. An id belongs to one popup only: a server that returns an id again has
// replaced the popup that had it. The caller holds mu.
func (s *screen) stand(w *notification, srv *server, id uint32) {
	for _, other := range s.windows {
		if other != w && other.server == srv && other.id == id {
			other.server, other.buttons = nil, nil
		}
	}
	w.server, w.id, w.left = srv, id, nil
	w.answered, w.adopted = false, false
	s.book.put(w.key, srv.mark(id))
}

// lose drops the server and all its popups. If only the connection ended, server and popups may still live; the next
// connection shows that, and until then they count as lost. The caller holds mu.
func (s *screen) lose(unheard bool) {
	srv := s.server
	if srv == nil {
		return
	}
	s.server = nil
	srv.bus.sock.trust("")
	for _, w := range s.windows {
		if w.server != srv {
			continue
		}
		w.server, w.buttons = nil, nil
		switch {
		case unheard:
			left := srv.mark(w.id)
			w.left, w.told = &left, true
		case w.unwanted:
			s.book.drop(w.key)
		default:
			s.book.void(w.key)
		}
		if !w.answered && !w.unwanted {
			s.out.put(Lost, w.key, "")
		}
	}
	s.book.later()
}
