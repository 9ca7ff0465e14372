package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/platform/service"
)

// handsOver reports, once and for all, whether the stop that was ordered is one half of a restart or an upgrade.
func (h *daemon) handsOver() bool {
	h.handOnce.Do(func() {
		h.hands = takeNote(h.paths.State, time.Now())
		if h.manager == managerSystemd && !h.hands {
			h.order = service.Ordered(context.Background(), h.isMachine())
			h.hands = h.order == service.OrderRestart || h.order == service.OrderNone // which ends in a restart, too
		}
		if h.hands {
			h.log.Info("another steward follows; what is held stays held")
		}
	})
	return h.hands
}

func (h *daemon) isMachine() bool { return platform.IsMachineState(h.paths.State) }

// A hand-over note tells the running steward that another one follows at once.
const (
	noteFile = "handover.json"
	noteLife = 30 * time.Second
)

type handOverNote struct {
	At time.Time `json:"at"`
	By string    `json:"by"`
}

// leaveNote announces a restart to the steward that runs now.
func leaveNote(state string, now time.Time, who service.Account) error {
	data, err := json.Marshal(handOverNote{At: now.UTC(), By: "steward service, version " + version()})
	if err != nil {
		return err
	}
	return writeFor(filepath.Join(state, noteFile), data, who)
}

// takeNote reads the note away. One that is old, or from the future, is none.
func takeNote(state string, now time.Time) bool {
	path := filepath.Join(state, noteFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	_ = os.Remove(path)
	var n handOverNote
	return json.Unmarshal(data, &n) == nil && now.Sub(n.At).Abs() <= noteLife
}
