package main

import (
	"context"
	"strings"
	"time"

	"github.com/livhana/steward/join/lock"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor"
)

// realLocks stands where other locks have their protocol: no agent's file speaks of these, the kernel holds them.
const realLocks = "steward"

// grantedLocks lists what steward lock run holds in the projects. One whose locks cannot be read is left out: what is wrong
// there, steward lock list says.
func grantedLocks(p *supervisor.Picture) []supervisor.LockReport {
	var found []supervisor.LockReport
	for _, d := range p.Desks {
		place := lock.Open(d.Path, lock.Options{Now: time.Now})
		list, _ := place.List(context.Background())
		place.Close()
		for _, s := range list {
			if s.Alive {
				found = append(found, grantedReport(d.Name, s))
			}
		}
	}
	return found
}

func grantedReport(project string, s lock.Status) supervisor.LockReport {
	l := supervisor.LockReport{Project: project, Protocol: realLocks, Resource: s.Name, Holder: s.Agent, State: protocol.LockHeld, Why: "steward lock run"}
	if s.State == lock.StateOverdue {
		l.State = protocol.LockOverdue
	}
	if len(s.Command) > 0 {
		l.Why += " -- " + oneWord(strings.Join(s.Command, " "))
	}
	if s.Why != string(lock.StateHeld) {
		l.Why += "; " + s.Why
	}
	if s.PID != 0 {
		l.PID = &s.PID
	}
	if !s.Expires.IsZero() {
		at := s.Expires.UTC()
		l.Expires = &at
	}
	return l
}
