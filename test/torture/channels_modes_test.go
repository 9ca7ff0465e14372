//go:build linux

package torture

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/livhana/steward/test/rig"

	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/status"
)

// TestChannelsFallThrough: what the screen cannot show is spoken instead, and what comes next is shown once it can.
func TestChannelsFallThrough(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]manner{"full": full, "paused": paused, "hanging": hanging} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newTheatre(t, rig.QuickLooks)
			h.startBus()
			w := h.raiseWall(m)
			h.Start(h.project)
			h.asks(1, "Yes", "No")
			asked := time.Now()
			h.Until("the question is spoken", func() bool { return h.said(questionWords(1)) == 1 })
			t.Logf("spoken %v after the question", time.Since(asked))
			h.Until("both are on record", func() bool {
				i := h.IncidentOf(questionWords(1))
				return rig.Carried(i, "desktop", false) && rig.Carried(i, "speech", true)
			})
			if list := w.screen(); len(list) > 0 {
				t.Errorf("the screen shows %+v", list)
			}
			w.behave(normal)
			h.asks(2, "Yes", "No")
			h.Until("the next popup", func() bool { _, shown := w.shows(questionWords(2)); return shown })
			if n := h.said(questionWords(1)); n != 1 {
				t.Errorf("the first question was spoken %d times", n)
			}
		})
	}
}

func TestChannelsSlowWall(t *testing.T) {
	t.Parallel()
	h := newTheatre(t, rig.QuickLooks)
	h.startBus()
	w := h.raiseWall(slow)
	h.Start(h.project)
	h.fails(1)
	h.Until("the sentence", func() bool { return h.said(faultWords(1)) == 1 })
	if _, shown := w.shows(faultWords(1)); shown {
		t.Log("the machine is slower than the wall: the test has proved less than it says")
	}
	h.Until("the popup", func() bool { _, shown := w.shows(faultWords(1)); return shown })
	h.Until("both are on record", func() bool {
		i := h.IncidentOf(faultWords(1))
		return rig.Carried(i, "desktop", true) && rig.Carried(i, "speech", true)
	})
	if n := opened(w.record(), faultWords(1)); n != 1 || h.said(faultWords(1)) != 1 {
		t.Errorf("%d popups, %d sentences", n, h.said(faultWords(1)))
	}
}

// TestChannelsFrozenBus: a bus that takes everything and does nothing is no way to anybody.
func TestChannelsFrozenBus(t *testing.T) {
	t.Parallel()
	h := newTheatre(t, rig.QuickLooks)
	bus := h.startBus()
	w := h.raiseWall(normal)
	h.Start(h.project)
	h.asks(1, "Yes", "No")
	h.Until("the popup", func() bool { _, shown := w.shows(questionWords(1)); return shown })
	if err := bus.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	h.asks(2, "Yes", "No")
	asked := time.Now()
	h.Until("the question is spoken", func() bool { return h.said(questionWords(2)) == 1 })
	t.Logf("spoken %v after the question", time.Since(asked))
	if err := bus.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	h.asks(3, "Yes", "No")
	h.Until("a popup once it goes on", func() bool { _, shown := w.shows(questionWords(3)); return shown })
}

// TestChannelsVoiceTrouble: the popup does not wait for a voice that has none.
func TestChannelsVoiceTrouble(t *testing.T) {
	t.Parallel()
	for _, trouble := range []string{"dead sink", "hung", "missing"} {
		t.Run(trouble, func(t *testing.T) {
			t.Parallel()
			h := newTheatre(t, rig.QuickLooks)
			h.startBus()
			w := h.raiseWall(normal)
			h.mute(trouble)
			h.Start(h.project)
			h.fails(1)
			failed := time.Now()
			h.Until("the popup", func() bool { _, shown := w.shows(faultWords(1)); return shown })
			t.Logf("shown %v after the failure", time.Since(failed))
			if trouble == "hung" && rig.Carried(h.IncidentOf(faultWords(1)), "speech", false) {
				t.Error("the popup has waited for the voice")
			}
			h.asks(2, "Yes", "No")
			h.Until("another popup, whatever the voice does", func() bool { _, shown := w.shows(questionWords(2)); return shown })
			h.Until("both are on record", func() bool {
				i := h.IncidentOf(faultWords(1))
				return rig.Carried(i, "desktop", true) && rig.Carried(i, "speech", false)
			})
			if n := opened(w.record(), ""); n != 2 || len(h.Heard()) != 0 {
				t.Errorf("%d popups, sentences %q", n, h.Heard())
			}
		})
	}
}

// broken finds the incident that no channel works.
func (s *theatre) broken() escalate.Incident {
	for _, i := range s.incidents() {
		if i.Kind == "notifier_broken" {
			return i
		}
	}
	return escalate.Incident{}
}

// again lets what failed be tried again: by itself in the long form, at once in the short one.
func (s *theatre) again(ok func() bool) {
	s.Helper()
	if os.Getenv("STEWARD_LONG") != "1" {
		s.Steward("reload")
	}
	for range 3 { // three times the usual patience
		if s.Waited(ok) {
			return
		}
	}
	s.Until("it is tried again", ok)
}

// TestChannelsNothingWorks: no channel works; that is listed, nothing is lost, and all is told once a channel works.
func TestChannelsNothingWorks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		voice string
		wall  manner
	}{"full screen, dead sink": {"dead sink", full}, "paused screen, no voice": {"missing", paused}, "hanging screen, hung voice": {"hung", hanging}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newTheatre(t, rig.QuickLooks)
			h.startBus()
			w := h.raiseWall(c.wall)
			h.mute(c.voice)
			h.Start(h.project)
			h.fails(1)
			h.asks(2, "Yes", "No")
			h.unreached(faultWords(1), questionWords(2))
			w.behave(normal)
			h.again(func() bool {
				_, one := w.shows(faultWords(1))
				_, two := w.shows(questionWords(2))
				return one && two
			})
			h.reached(faultWords(1), questionWords(2))
			if list := w.screen(); len(list) != 2 {
				t.Errorf("the screen shows %+v", list)
			}
		})
	}
}

// unreached waits until every channel has failed to tell of the incidents, and that is listed.
func (s *theatre) unreached(words ...string) {
	s.Helper()
	for _, word := range words {
		s.Until("every channel has failed: "+word, func() bool {
			i := s.IncidentOf(word)
			return rig.Carried(i, "desktop", false) && rig.Carried(i, "speech", false)
		})
		if i := s.IncidentOf(word); proved(i) || i.State != rules.Raised {
			s.Errorf("nobody was reached, and the incident is %+v", i)
		}
	}
	s.Until("the broken notifier is listed", func() bool {
		return s.broken().State == rules.Raised && rig.Found(s.Steward("incidents"), "No channel could reach you") == nil
	})
}

// reached waits until the incidents are proved to be told of, and nothing is broken any more.
func (s *theatre) reached(words ...string) {
	s.Helper()
	s.Until("all is told, and the notifier mended", func() bool {
		for _, word := range words {
			if !proved(s.IncidentOf(word)) {
				return false
			}
		}
		return s.broken().State == rules.Resolved
	})
}

// TestChannelsBusComesLater: steward starts before the desktop does.
func TestChannelsBusComesLater(t *testing.T) {
	t.Parallel()
	h := newTheatre(t, rig.QuickLooks)
	h.Start(h.project)
	h.asks(1, "Yes", "No")
	h.Until("the question is spoken", func() bool { return h.said(questionWords(1)) == 1 })
	h.mute("dead sink")
	h.asks(2, "Yes", "No")
	h.unreached(questionWords(2))
	h.startBus()
	w := h.raiseWall(normal)
	h.asks(3, "Yes", "No")
	h.Until("a popup on the new bus", func() bool { _, shown := w.shows(questionWords(3)); return shown })
	h.again(func() bool { _, shown := w.shows(questionWords(2)); return shown })
	h.reached(questionWords(1), questionWords(2), questionWords(3))
	if n := opened(w.record(), questionWords(1)); n != 0 {
		t.Errorf("what was spoken is shown, too: %d times", n)
	}
}

// TestChannelsRestartedWall: a new server has empty walls and counts from 1 again.
func TestChannelsRestartedWall(t *testing.T) {
	t.Parallel()
	h := newTheatre(t, rig.QuickLooks)
	h.startBus()
	w := h.raiseWall(normal)
	h.Start(h.project)
	h.asks(1, "Yes", "No")
	h.Until("the popup", func() bool { _, shown := w.shows(questionWords(1)); return shown })
	first, _ := w.shows(questionWords(1))
	if err := w.restart("second life"); err != nil {
		t.Fatal(err)
	}
	w.Notify("", "other", 0, "", "not ours", "", nil, nil, 0)
	h.Until("the popup is back", func() bool { _, shown := w.shows(questionWords(1)); return shown })
	second, _ := w.shows(questionWords(1))
	w.emit("ActionInvoked", first.ID, first.button("No"))
	w.emit("ActionInvoked", second.ID, first.button("No"))
	w.press(second.ID, second.button("Yes"))
	h.Until("the answer", func() bool { return len(h.replies(1)) > 0 })
	h.Until("the popup is gone", func() bool { _, shown := w.shows(questionWords(1)); return !shown })
	h.Pause(time.Second)
	if r := h.replies(1); len(r) != 1 || r[0] != "Yes" {
		t.Errorf("replies %q", r)
	}
	if other, shown := w.shows("not ours"); !shown || opened(w.record(), questionWords(1)) != 2 {
		t.Errorf("another program's popup: %+v; screen %+v", other, w.screen())
	}
}

// TestChannelsHundredDifferent: a hundred things go wrong at once; the human gets a few popups and two sentences.
func TestChannelsHundredDifferent(t *testing.T) {
	t.Parallel()
	const failures = 100
	h := newTheatre(t, rig.QuickLooks)
	h.startBus()
	w := h.raiseWall(normal)
	h.Start(h.project)
	first := time.Now()
	for n := 1; n <= failures; n++ {
		h.fails(n)
		h.Pause(40 * time.Millisecond) // 4 s and more: several looks
	}
	t.Logf("%d failures within %v", failures, time.Since(first))
	most := 0
	h.Until("all are told of", func() bool {
		most = max(most, len(w.screen()))
		told := 0
		for _, i := range h.incidents() {
			if i.Kind == "task_failed" && proved(i) && i.Notified == i.Notice {
				told++
			}
		}
		return told == failures
	})
	h.Until("the sentences are over", func() bool { return len(h.Heard()) >= 2 })
	h.Pause(3 * time.Second)
	if most = max(most, len(w.screen())); most > 4 || len(h.Heard()) > 2 {
		t.Errorf("%d popups at once, sentences %q; want 4 and 2 at most", most, h.Heard())
	}
	t.Logf("%d popups, sentences %q", most, h.Heard())
	before := len(w.record())
	h.overAtOnce(failures)
	answered := time.Now() // while the answers come in, the popup may still be told of fewer
	h.Until("the popups are gone", func() bool { return len(w.screen()) == 0 })
	h.Pause(3 * time.Second)
	for _, s := range w.record()[before:] {
		if s.Op != "gone" && s.At.After(answered) {
			t.Errorf("told after the end: %+v", s)
		}
	}
	if n := len(h.Heard()); n > 2 {
		t.Errorf("spoken after the end: %q", h.Heard())
	}
}

// overAtOnce answers everything.
func (s *theatre) overAtOnce(failures int) {
	s.Helper()
	open := 0
	for _, i := range s.incidents() {
		if i.Kind != "task_failed" {
			continue
		}
		if open++; i.Count != 1 {
			s.Errorf("%s counts %d", i.Summary, i.Count)
		}
		if err := s.answer(i, status.Answer{Option: "leave"}); err != nil {
			s.Error(err)
		}
	}
	if open != failures {
		s.Errorf("the ledger has %d entries, want %d", open, failures)
	}
	for n := 1; n <= failures; n++ {
		if d := s.decisions(n); len(d) != 1 || d[0] != "leave" {
			s.Errorf("task %d: decisions %q", n, d)
		}
	}
	if list := fmt.Sprint(s.broken().State); list != "" {
		s.Errorf("the notifier was broken: %s", list)
	}
}
