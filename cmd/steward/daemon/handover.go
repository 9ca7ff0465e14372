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

// handsOver reports, once and for all, whether the stop that was ordered is one half of a restart or an upgrade.
func (h *Daemon) handsOver() bool {
	h.handOnce.Do(func() {
		h.hands = takeNote(h.paths.State, time.Now())
		if h.o.Manager == managerSystemd && !h.hands {
			h.order = service.Ordered(context.Background(), h.isMachine())
			h.hands = h.order == service.OrderRestart || h.order == service.OrderNone // which ends in a restart, too
		}
		if h.hands {
			h.log.Info("another steward follows; what is held stays held")
		}
	})
	return h.hands
}

func (h *Daemon) isMachine() bool { return platform.IsMachineState(h.paths.State) }

// A hand-over note tells the running steward that another one follows at once.
const (
	HandOverFile = "handover.json"
	noteLife     = 30 * time.Second
)

type handOver struct {
	At time.Time `json:"at"`
	By string    `json:"by"`
}

// takeNote reads the note away. One that is old, or from the future, is none.
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

// handOverText is the note that announces a restart to the steward that runs now.
func HandOverNote(now time.Time, version string) ([]byte, error) {
	return json.Marshal(handOver{At: now.UTC(), By: "steward service, version " + version})
}

// The service managers that units name in STEWARD_SERVICE.
const (
	managerSystemd = "systemd"
	ManagerLaunchd = "launchd"
)
