//go:build linux

package main

import (
	"testing"
)

// TestReach: `doctor --reach` sends a real test by every channel, through the daemon or without one, and hears the press.
func TestReach(t *testing.T) {
	t.Parallel()
	for _, daemon := range []bool{true, false} {
		h := newRoom(t, quickLooks)
		h.serve()
		h.boot("p")
		if daemon {
			h.start("p")
		}
		type said struct {
			out  string
			code int
		}
		done := make(chan said, 1)
		go func() {
			out, code := h.doctor(h.command("steward", "doctor", "--reach"))
			done <- said{out, code}
		}()
		h.until("the test's popup", func() bool { return h.board.press("steward can reach you here", "I see it") })
		got := <-done
		h.says(got.out, `a real test`, `ok +desktop: shown, and your press came back`, `ok +speech: spoken`)
		if n := h.board.shown(""); n != 0 {
			t.Errorf("%d popups stand afterwards", n)
		}
		if said := h.heard(); len(said) != 1 {
			t.Errorf("said: %q", said)
		}
	}
}

// TestReachNobody: what does not work is said, channel by channel.
func TestReachNobody(t *testing.T) {
	t.Parallel()
	h := newRoom(t, quickLooks)
	h.script("paplay", "exit 1\n")
	h.boot("p")
	h.start("p")
	out, code := h.doctor(h.command("steward", "doctor", "--reach"))
	h.says(out, `fail +desktop: the test did not reach you: .*no notification server`, `fail +speech: the test did not reach you`)
	if code != 1 {
		t.Errorf("exit %d", code)
	}
}
