package main

import (
	"time"

	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/supervisor"
)

const sampleTask = "7c0e2f5a-3b1d-4f7e-9a51-5d1c8e7f2a10"

var sampleNoon = time.Date(2025, 10, 22, 12, 0, 0, 0, time.UTC)

// sampleDocument is a status with an agent, a task and an incident.
func sampleDocument() status.Document {
	return status.Document{Self: status.Self{Version: "1.2.3"},
		Incidents: []escalate.Incident{{Key: "3fa9c2d400000001", Content: escalate.Content{Project: "sot", About: "sot:task/" + sampleTask, Summary: "Git conflict"}, Severity: protocol.High, State: rules.Raised}},
		Report: supervisor.Report{Started: sampleNoon.Add(-time.Hour), LastLook: sampleNoon, Looks: 1234,
			Projects: []supervisor.ProjectReport{{Name: "sot", Path: "/home/jesse/sot", Protocols: []string{"agentstatus"}}},
			Agents:   []supervisor.AgentReport{{Project: "sot", Protocol: "agentstatus", Name: "codex-cursor", State: protocol.AgentAlive}},
			Tasks:    []supervisor.TaskReport{{Project: "sot", Protocol: "agentstatus", ID: sampleTask, State: protocol.TaskRunning, Agent: "codex-cursor"}}}}
}
