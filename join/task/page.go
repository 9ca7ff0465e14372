package task

import (
	"encoding/json"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/agentstatus"
)

// Page is the document of one task, as steward task show prints it.
type Page struct {
	TaskID    string                    `json:"task_id"`
	Project   string                    `json:"project"`
	State     string                    `json:"state"`
	Why       string                    `json:"why"`
	Final     bool                      `json:"final"`
	Buried    bool                      `json:"dead_letter"`
	Cancelled bool                      `json:"cancelled"`
	Request   json.RawMessage           `json:"request"`
	Attempts  []protocol.Attempt        `json:"attempts"`
	Due       *time.Time                `json:"due"`
	Hold      *protocol.Hold            `json:"hold"`
	Progress  *agentstatus.TaskProgress `json:"progress"`
	Claim     *shownClaim               `json:"claim"`
	Result    json.RawMessage           `json:"result"`
	Output    string                    `json:"output"`
}

type shownClaim struct {
	Agent     string    `json:"agent"`
	Attempt   int       `json:"attempt"`
	WorkerPID *int      `json:"worker_pid"`
	RunnerPID *int      `json:"runner_pid"`
	At        time.Time `json:"claimed_at"`
}

// PageOf makes the document of a task of the project at dir.
func PageOf(dir string, d agentstatus.Detail) Page {
	s := Page{TaskID: d.ID, Project: dir, State: d.State, Why: Standing(d), Final: d.Final, Buried: d.Buried, Cancelled: d.Cancelled,
		Request: d.RequestRaw, Attempts: append([]protocol.Attempt{}, d.Attempts...), Hold: d.Hold, Progress: d.Progress, Result: d.ResultRaw, Output: d.Output}
	if !d.Due.IsZero() {
		due := d.Due.UTC()
		s.Due = &due
	}
	if k := d.Claim; k != nil {
		s.Claim = &shownClaim{Agent: k.Agent, Attempt: k.Attempt, WorkerPID: pidOf(k.Worker), RunnerPID: pidOf(k.Runner), At: k.At.UTC()}
	}
	return s
}

func pidOf(id protocol.Identity) *int {
	if !id.Proves() {
		return nil
	}
	return &id.PID
}
