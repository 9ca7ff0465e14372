package daemon

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/platform/service"
)

// handsOver reports whether the requested stop is part of a restart or an upgrade. The first answer is final.
func (h *Daemon) handsOver() bool {
	h.handOnce.Do(func() {
		h.hands = takeNote(h.paths.State, time.Now())
		if h.options.Manager == managerSystemd && !h.hands {
			h.order = service.Ordered(context.Background(), h.isMachine())
			// OrderNone also ends in a restart: see errNotOrdered.
			h.hands = h.order == service.OrderRestart || h.order == service.OrderNone
		}
		if h.hands {
			h.log.Info("another steward follows; what is held stays held")
		}
	})
	return h.hands
}

func (h *Daemon) isMachine() bool { return platform.IsMachineState(h.paths.State) }

// A hand-over note tells the running steward that another one starts immediately after it.
const (
	HandOverFile = "handover.json"
	noteLife     = 30 * time.Second
)

type handOver struct {
	At time.Time `json:"at"`
	By string    `json:"by"`
}

// takeNote reads and removes the note. An old note, or one from the future, does not count.
func takeNote(state string, now time.Time) bool {
	path := filepath.Join(state, HandOverFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	_ = os.Remove(path)
	var n handOver
	return json.Unmarshal(data, &n) == nil && now.Sub(n.At).Abs() <= noteLife
}

// HandOverNote returns the note that announces a restart to the running steward.
func HandOverNote(now time.Time, version string) ([]byte, error) {
	return json.Marshal(handOver{At: now.UTC(), By: "steward service, version " + version})
}

// The service managers, as units name them in STEWARD_SERVICE.
const (
	managerSystemd = "systemd"
	ManagerLaunchd = "launchd"
)
