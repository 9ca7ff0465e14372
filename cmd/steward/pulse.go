package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/livhana/steward/platform/service"
	"github.com/livhana/steward/protocol/jsonfile"
)

// Steward's own sign of life, in the state folder: for agents, and for whoever watches the watchman.
const (
	beatFile  = "heartbeat.json"
	beatEvery = 15 * time.Second
)

// heartbeatDoc has the keys of an agent's heartbeat (protocol 000).
type heartbeatDoc struct {
	AgentID string    `json:"agent_id"`
	PID     int       `json:"pid"`
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	Beat    time.Time `json:"last_heartbeat"`
	Status  string    `json:"status"` // active, stopped
	Looks   int       `json:"looks"`
	Every   float64   `json:"interval_seconds"`
}

// pulse is steward's sign of life, given by the loop itself: to the watchdog, and in the heartbeat file.
func (h *house) pulse(now time.Time) {
	h.line.Pulse(now)
	if now.Sub(h.beaten).Abs() < beatEvery {
		return
	}
	h.beaten = now
	h.beat(now, "active")
	h.standing()
	h.recover(now)
}

// standing ends the run when what it stands on was taken away: without its folder nothing can be remembered, and
// without its socket nobody reaches it. The next start makes both anew.
func (h *house) standing() {
	switch _, err := os.Lstat(h.paths.Socket); {
	case !h.state.Alive():
		h.fail(fmt.Errorf("the state folder %s was taken away", h.paths.State))
	case errors.Is(err, fs.ErrNotExist) && h.manager != "":
		h.fail(fmt.Errorf("the socket %s was taken away", h.paths.Socket))
	}
}

func (h *house) beat(now time.Time, state string) {
	doc := heartbeatDoc{AgentID: service.Name, PID: os.Getpid(), Version: version(), Beat: now.UTC(), Status: state, Every: beatEvery.Seconds()}
	if h.tenure != nil {
		doc.Started = h.tenure.Started
	}
	if p := h.loop.Picture(); p != nil {
		doc.Looks = p.Looks
	}
	data, err := json.Marshal(doc)
	if err != nil {
		return
	}
	late, err := h.state.Replace(beatFile, append(data, '\n'), jsonfile.Any, jsonfile.Volatile)
	_ = late.Close()
	if err != nil && h.beatErr == nil {
		h.log.Error("write heartbeat.json", "error", err)
	}
	h.beatErr = err
}
