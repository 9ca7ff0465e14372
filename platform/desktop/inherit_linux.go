package desktop

// inherit takes over the windows of the run before, which stand if their server still lives. Whether it does shows when
// it is found.
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

// adopt finds the windows of srv among those that stood when we last heard of their server. Buttons that they still
// have are of no message of ours. The others went with their server. The caller holds mu.
func (s *screen) adopt(srv *server) {
	for _, w := range s.windows {
		left := w.left
		if left == nil {
			continue
		}
		w.left = nil
		if left.sameLife(srv.mark(0)) {
			w.server, w.id, w.adopted = srv, left.ID, true
		} else if !w.told && len(w.turn) == 0 { // a turn is taken to show the popup anew, or to withdraw it
			s.out.put(Lost, w.key, "")
		}
	}
}

// foreign gives the server and the id of a window that another connection opened; no server, if it was this one. GNOME
// hands a popup over when it has noticed the end of that connection; others may answer an error for one that is no more.
func (s *screen) foreign(w *notification) (*server, uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !w.adopted {
		return nil, 0
	}
	return w.server, w.id
}

// mayStand says whether there is a popup to close, as far as can be known before its server is found.
func (s *screen) mayStand(w *notification) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return w.server != nil || w.left != nil
}

// stand notes that the window stands. A popup stands for one window only: a server that gives a number again has
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

// lose forgets the server and every popup of its. If only its connection ended unheard, server and popups may live on,
// and the next connection tells; until then they are as good as lost. The caller holds mu.
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
