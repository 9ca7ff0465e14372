//go:build linux

package e2e

import (
	"testing"

	"github.com/livhana/steward/test/rig"
)

// TestReach: `doctor --reach` sends a real test by every channel, through the daemon or without one, and hears the press.
func TestReach(t *testing.T) {
	t.Parallel()
	for _, daemon := range []bool{true, false} {
		h := rig.NewRoom(t, rig.QuickLooks)
		h.Serve()
		h.Boot("p")
		if daemon {
			h.Start("p")
		}
		type said struct {
			out  string
			code int
		}
		done := make(chan said, 1)
		go func() {
			out, code := runDoctor(h.Rig, h.Command("steward", "doctor", "--reach"))
			done <- said{out, code}
		}()
		h.Until("the test's popup", func() bool { return h.Board.Press("steward can reach you here", "I see it") })
		got := <-done
		wantLines(h.Rig, got.out, `a real test`, `ok +desktop: shown, and your press came back`, `ok +speech: spoken`)
		if n := h.Board.Shown(""); n != 0 {
			t.Errorf("%d popups stand afterwards", n)
		}
		if said := h.Heard(); len(said) != 1 {
			t.Errorf("said: %q", said)
		}
	}
}

// TestReachWithoutSuccess: what does not work is said, channel by channel.
func TestReachWithoutSuccess(t *testing.T) {
	t.Parallel()
	h := rig.NewRoom(t, rig.QuickLooks)
	h.Script("paplay", "exit 1\n")
	h.Boot("p")
	h.Start("p")
	out, code := runDoctor(h.Rig, h.Command("steward", "doctor", "--reach"))
	wantLines(h.Rig, out, `fail +desktop: the test did not reach you: .*no notification server`, `fail +speech: the test did not reach you`)
	if code != 1 {
		t.Errorf("exit %d", code)
	}
}
