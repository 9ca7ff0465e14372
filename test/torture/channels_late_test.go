//go:build linux

package torture

import (
	"testing"

	"github.com/livhana/steward/test/rig"

	"github.com/livhana/steward/status"
)

// TestChannelsLatePopup: a popup that a server took without showing it must not come up, or stay, once its incident is over.
func TestChannelsLatePopup(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]manner{"paused": paused, "hanging": hanging} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newTheatre(t, rig.QuickLooks)
			h.startBus()
			w := h.raiseWall(m)
			h.Start(h.project)
			h.asks(1, "Yes", "No")
			h.Until("the question is spoken", func() bool { return rig.Carried(h.IncidentOf(questionWords(1)), "speech", true) })
			if err := h.answer(h.IncidentOf(questionWords(1)), status.Answer{Option: "1"}); err != nil {
				t.Fatal(err)
			}
			w.behave(normal)
			h.asks(2, "Yes", "No") // a withdrawal has had its turn when this popup is up
			h.Until("the next popup", func() bool { _, shown := w.shows(questionWords(2)); return shown })
			h.Until("the popup of the answered question is gone", func() bool { _, shown := w.shows(questionWords(1)); return !shown })
		})
	}
}

// TestChannelsRestartedWallOfMany: what a summary told of is open, too, and comes back with the others.
func TestChannelsRestartedWallOfMany(t *testing.T) {
	t.Parallel()
	h := newTheatre(t, rig.QuickLooks)
	h.startBus()
	w := h.raiseWall(normal)
	h.Start(h.project)
	for n := 1; n <= 6; n++ {
		h.fails(n)
	}
	h.Until("three popups and a summary", func() bool { _, shown := w.shows("3 more incidents"); return shown && len(w.screen()) == 4 })
	before := w.screen()
	if err := w.restart("second life"); err != nil {
		t.Fatal(err)
	}
	h.Until("as many are back", func() bool { return len(w.screen()) == len(before) })
	for _, s := range before {
		if _, shown := w.shows(s.Title); !shown {
			t.Errorf("not back: %s", s.Title)
		}
	}
}
