package daemon

import (
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/status/terminal"
)

// self describes the running steward for the status.
func (h *Daemon) self() status.Self {
	s := status.Self{Version: h.options.Version, Manager: h.options.Manager}
	if h.record != nil {
		s.LastEnd = h.record.Last
	}
	return s
}

// startUp runs once the first scans are over.
func (h *Daemon) startUp() {
	h.record.Ready = time.Now().UTC()
	if err := h.record.Write(h.state); err != nil {
		h.log.Error("write run.json", "error", err)
	}
	if h.options.Manager != "" {
		h.tellOfCrash()
	}
	down := DownAlert()
	down.Resolve, down.Detail = true, "steward runs again"
	_ = h.tell(down)
	h.snapshot()
	h.sayReady()
}

// sayReady tells the service manager how many projects are supervised.
func (h *Daemon) sayReady() {
	text := "no project is configured"
	if p := h.loop.State(); p != nil && len(p.Projects) > 0 {
		text = "looks after " + terminal.Plural(len(p.Projects), "project")
	}
	h.options.Line.Ready(text)
}

// DownAlert is the alert about a steward that is down.
func DownAlert() rules.Alert {
	return rules.Alert{Kind: "steward_down", Severity: protocol.High, Foreign: true,
		Subject: protocol.Subject{Kind: protocol.KindMachine, ID: "steward"},
		Summary: "steward has stopped, and nobody starts it again",
		Spoken:  "Steward has stopped, and nobody looks after your agents. Your input needed."}
}

// JournalFile is the journal in the state folder.
const JournalFile = "journal.jsonl"
