package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/platform/service"
	"github.com/livhana/steward/protocol/jsonfile"
	"github.com/livhana/steward/supervisor"
)

// Steward's own heartbeat in the state folder, for agents and for programs that monitor steward.
const (
	HeartbeatFile  = "heartbeat.json"
	HeartbeatEvery = 15 * time.Second
)

// Heartbeat has the keys of an agent's heartbeat (protocol 000).
type Heartbeat struct {
	AgentID string    `json:"agent_id"`
	PID     int       `json:"pid"`
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	Beat    time.Time `json:"last_heartbeat"`
	Status  string    `json:"status"` // active, stopped
	Looks   int       `json:"looks"`
	Every   float64   `json:"interval_seconds"`
}

// selfHeartbeat is written by the loop. Only the loop uses its fields.
type selfHeartbeat struct {
	*run
	loop     *supervisor.Supervisor
	listener net.Listener
	socket   string
	fail     func(cause error) // ends the loop
	beaten   time.Time         // the time of the last heartbeat
	// The last errors of writing it, and of binding the socket again.
	beatErr, bindErr error
}

// pulse proves that the loop runs, because the loop itself calls it: to the watchdog, and in the heartbeat
// file.
func (h *selfHeartbeat) pulse(now time.Time) {
	h.options.Line.Pulse(now)
	if now.Sub(h.beaten).Abs() < HeartbeatEvery {
		return
	}
	h.beaten = now
	h.beat(now, "active")
	h.check()
	h.recover(now)
}

// check ends the run if its state folder was removed: steward cannot remember anything without it, and the next
// start creates it again. A removed socket is bound again. If that fails, only a service ends, because the service
// manager may create the socket's folder. See docs/decisions.md, "steward ends when its state folder is removed".
func (h *selfHeartbeat) check() {
	if !h.root.Alive() {
		h.fail(fmt.Errorf("the state folder %s was taken away", h.dir))
		return
	}
	rebound, err := platform.Rebind(h.listener)
	switch {
	case rebound:
		h.log.Warn("the socket was removed; it is bound again", "socket", h.socket)
	case err != nil && h.options.Manager != "":
		h.fail(fmt.Errorf("the socket was removed: %w", err))
	case err != nil && h.bindErr == nil:
		h.log.Error("the socket was removed, so no command reaches steward; it is tried again", "error", err)
	}
	h.bindErr = err
}

func (h *selfHeartbeat) beat(now time.Time, state string) {
	doc := Heartbeat{AgentID: service.Name, PID: os.Getpid(), Version: h.options.Version, Beat: now.UTC(), Status: state, Every: HeartbeatEvery.Seconds()}
	if h.record != nil {
		doc.Started = h.record.Started
	}
	if p := h.loop.State(); p != nil {
		doc.Looks = p.Looks
	}
	data, err := json.Marshal(doc)
	if err != nil {
		return
	}
	late, err := h.root.Replace(HeartbeatFile, append(data, '\n'), jsonfile.Any, jsonfile.Volatile)
	_ = late.Close()
	if err != nil && h.beatErr == nil {
		h.log.Error("write heartbeat.json", "error", err)
	}
	h.beatErr = err
}

// ReadHeartbeat reads steward's own heartbeat.
func ReadHeartbeat(state string) (Heartbeat, error) {
	var d Heartbeat
	data, err := os.ReadFile(filepath.Join(state, HeartbeatFile))
	if err == nil {
		err = json.Unmarshal(data, &d)
	}
	if err == nil && d.Beat.IsZero() {
		err = errors.New("it has no time")
	}
	return d, err
}
