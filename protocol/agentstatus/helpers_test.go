package agentstatus

import (
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/protocoltest"
)

type site struct {
	*protocoltest.Site
	p *Project
}

func newSite(t testing.TB, archive string) *site {
	t.Helper()
	s := &site{Site: protocoltest.NewSite(t, archive, time.Now)}
	s.reopen()
	return s
}

func (s *site) reopen() {
	s.p = New(s.Dir, Options{})
	s.T.Cleanup(s.p.Close)
}

// look runs a full or hinted scan one second later.
func (s *site) look(hints ...string) *protocol.Snapshot {
	s.T.Helper()
	s.Pass(time.Second)
	return s.at(s.Now, hints...)
}

func (s *site) at(now time.Time, hints ...string) *protocol.Snapshot {
	s.T.Helper()
	snap := s.p.Observe(s.T.Context(), protocol.ScanOrder{Now: now, Hints: hints})
	return &snap
}

func (s *site) apply(c protocol.Change) error {
	return s.p.Apply(s.T.Context(), c, s.Now)
}

// found lists the fields of a subject's findings.
func found(snap *protocol.Snapshot, id string) map[string]protocol.Severity {
	fields := map[string]protocol.Severity{}
	for _, f := range snap.Findings {
		if f.Subject.ID == id {
			fields[f.Field] = f.Severity
		}
	}
	return fields
}

func agentNames(snap *protocol.Snapshot) string {
	var names []string
	for _, a := range snap.Agents {
		names = append(names, a.Name)
	}
	return strings.Join(names, " ")
}

func progressPath() string { return Base + "/" + tasksDir + "/task_" + taskID + progressExt }
