package supervisor_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
	"github.com/livhana/steward/supervisor"
	"github.com/livhana/steward/supervisor/decide"
)

// asking starts a steward that asks, over a stale lock, and waits until the question is open.
func asking(t *testing.T) (*world, *supervisor.Supervisor, decide.Offer, func()) {
	t.Helper()
	w := newWorld(t, "demo")
	w.mode["demo"] = protocol.ModeAsk
	w.folders["demo"].foreign.locks = []protocol.Lock{{Resource: "a.md", Holder: "ghost", Expires: time.Now().Add(10 * time.Second), Ref: protocol.Ref{Path: "state", Sum: "1"}}}
	s, stop := w.start()
	time.Sleep(10 * time.Minute)
	offers := s.State().Plan.Offers
	if len(offers) != 1 || len(w.locksOf("demo")) != 1 {
		t.Fatalf("offers %+v, locks %v", offers, w.locksOf("demo"))
	}
	return w, s, offers[0], stop
}

// locksOf lists the locks of a project.
func (w *world) locksOf(project string) (locks []protocol.Lock) {
	f := w.folders[project]
	f.mu.Lock()
	defer f.mu.Unlock()
	return append(locks, f.foreign.locks...)
}

func press(o decide.Offer) supervisor.Command {
	c := answerOf("demo:lock/a.md", o.Option, "")
	c.Answer.Key, c.Occurrence = o.Key, o.Occurrence
	return c
}

// TestRepairOnAnswer: where steward asks, nothing is changed until an answer; an answer orders the changes that it was shown
// with, once.
func TestRepairOnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s, offer, stop := asking(t)
		defer stop()
		stale := press(offer)
		stale.Occurrence = "another"
		if err := s.Do(t.Context(), stale); !errors.Is(err, supervisor.ErrRefused) || len(w.locksOf("demo")) != 1 {
			t.Errorf("an answer to another question: %v", err)
		}
		try := press(offer)
		try.Try = true
		if err := s.Do(t.Context(), try); err != nil || len(w.locksOf("demo")) != 1 {
			t.Errorf("a trial: %v", err)
		}
		if err := s.Do(t.Context(), press(offer)); err != nil || len(w.locksOf("demo")) != 0 {
			t.Fatalf("the answer: %v, %v", err, w.locksOf("demo"))
		}
		time.Sleep(time.Minute)
		if err := s.Do(t.Context(), press(offer)); !errors.Is(err, supervisor.ErrRefused) {
			t.Errorf("the same answer again: %v", err)
		}
	})
}

// TestRepairThatFailsIsTriedAgain: an answer that could not be carried out is still one; a restart in between does not matter.
func TestRepairThatFailsIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s, offer, stop := asking(t)
		full := errors.New("disk full")
		w.at("demo", func(f *folder) { f.beforeChange = func(protocol.Change) error { return full } })
		if err := s.Do(t.Context(), press(offer)); !errors.Is(err, full) {
			t.Errorf("%v", err)
		}
		stop()
		w.folders["demo"].beforeChange = nil
		s, stop = w.start()
		defer stop()
		time.Sleep(10 * time.Second)
		if err := s.Do(t.Context(), press(offer)); err != nil || len(w.locksOf("demo")) != 0 {
			t.Errorf("after a restart: %v, %v", err, w.locksOf("demo"))
		}
	})
}

// TestModeOrdered: a person's order about a mode is in force at once, outlives restarts, and is taken back.
func TestModeOrdered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "demo")
		state := filepath.Join(t.TempDir(), "state")
		if err := os.Mkdir(state, 0o700); err != nil {
			t.Fatal(err)
		}
		root, err := jsonfile.Open(state)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		reopen := func() {
			if w.orders, err = supervisor.OpenOrders(root); err != nil {
				t.Fatal(err)
			}
		}
		reopen()
		mode := func(s *supervisor.Supervisor) protocol.Mode {
			time.Sleep(10 * time.Second)
			return s.State().Projects[0].Speaks[0].Mode
		}
		order := func(s *supervisor.Supervisor, protocolName string, m protocol.Mode) error {
			return s.Do(t.Context(), supervisor.Command{Verb: "mode", Subject: protocol.Query{Project: "demo", Protocol: protocolName}, Mode: m})
		}
		s, stop := w.start()
		if m := mode(s); m != protocol.ModeAct {
			t.Fatalf("it begins in %s", m)
		}
		if err := order(s, "morse", protocol.ModeAsk); !errors.Is(err, supervisor.ErrNoSubject) {
			t.Errorf("a protocol that is not spoken: %v", err)
		}
		for _, m := range []protocol.Mode{protocol.ModeAsk, protocol.ModeObserve} {
			if err := order(s, "agentstatus", m); err != nil {
				t.Fatal(err)
			}
			if s.State().View.Snapshots[0].Act {
				t.Errorf("after the order it acts until the next scan")
			}
			if got := mode(s); got != m {
				t.Errorf("ordered %s, it is %s", m, got)
			}
			stop()
			reopen()
			s, stop = w.start()
			if got := mode(s); got != m {
				t.Errorf("ordered %s, after a restart it is %s", m, got)
			}
		}
		files, _ := filepath.Glob(filepath.Join(state, "orders", "mode-agentstatus-*.json"))
		if len(files) != 1 {
			t.Fatalf("orders: %v", files)
		}
		if err := order(s, "agentstatus", protocol.ModeAsk); err != nil {
			t.Fatal(err)
		}
		stop()
		if err := os.WriteFile(files[0], []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		reopen()
		s, stop = w.start()
		defer func() { stop() }()
		if got := mode(s); got != protocol.ModeObserve {
			t.Errorf("with an order that cannot be read it is %s", got)
		}
		if err := order(s, "agentstatus", ""); err != nil {
			t.Fatal(err)
		}
		if got := mode(s); got != protocol.ModeAct {
			t.Errorf("without an order it is %s", got)
		}
	})
}

// TestOrdersInEveryMode: what a person orders is done where steward only observes, too.
func TestOrdersInEveryMode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "demo")
		w.mode["demo"] = protocol.ModeObserve
		s, stop := w.start()
		defer stop()
		w.at("demo", func(f *folder) { f.submit(request("t1"), time.Now()) })
		time.Sleep(10 * time.Second)
		if err := do(t, s, "cancel", "t1"); err != nil || !w.read("demo", "t1").Cancelled {
			t.Errorf("cancel: %v", err)
		}
	})
}

// TestByHand: an order that carries a task on is counted (goals: copy_paste_events); one that ends it is not.
func TestByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "demo")
		w.folders["demo"].sims = []*sim{agentOf("codex")}
		s, stop := w.start()
		defer stop()
		time.Sleep(7 * time.Second)
		w.at("demo", func(f *folder) {
			f.submit(request("t1"), time.Now())
			f.submit(request("t2"), time.Now())
			f.finish("t1", failure("GIT_CONFLICT"), time.Now())
		})
		for verb, task := range map[string]string{"retry": "t1", "cancel": "t2"} {
			if err := do(t, s, verb, task); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10 * time.Second)
		for _, g := range s.State().Goals() {
			if g.Name == "copy_paste_events" && (g.Value == nil || *g.Value != 1 || g.OK) {
				t.Errorf("%+v", g)
			}
		}
	})
}
