package agentstatus

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/protocoltest"
)

// site is one project under test, with a clock of its own that begins now.
type site struct {
	t   testing.TB
	dir string
	p   *Project
	now time.Time
}

func newSite(t testing.TB, archive string) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir(), now: time.Now()}
	protocoltest.Write(t, s.dir, archive, s.now)
	s.reopen()
	return s
}

func (s *site) reopen() {
	s.p = New(s.dir, Options{})
	s.t.Cleanup(s.p.Close)
}

func (s *site) path(rel string) string { return filepath.Join(s.dir, filepath.FromSlash(rel)) }

func (s *site) write(rel, text string) {
	s.t.Helper()
	protocoltest.Write(s.t, s.dir, "-- "+rel+" --\n"+text, s.now)
}

func (s *site) read(rel string) string {
	s.t.Helper()
	b, err := os.ReadFile(s.path(rel))
	if err != nil {
		s.t.Fatal(err)
	}
	return string(b)
}

func (s *site) do(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// look makes a full look a second later, or a hinted one.
func (s *site) look(hints ...string) *protocol.Snapshot {
	s.t.Helper()
	s.now = s.now.Add(time.Second)
	if real := time.Now(); real.After(s.now) {
		s.now = real
	}
	return s.at(s.now, hints...)
}

func (s *site) at(now time.Time, hints ...string) *protocol.Snapshot {
	s.t.Helper()
	snap := s.p.Observe(s.t.Context(), protocol.Look{Now: now, Hints: hints})
	return &snap
}

func (s *site) apply(c protocol.Change) error {
	return s.p.Apply(s.t.Context(), c, s.now)
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

func faultAt(snap *protocol.Snapshot, part string) *protocol.Fault {
	for i := range snap.Faults {
		if strings.Contains(snap.Faults[i].Path, part) {
			return &snap.Faults[i]
		}
	}
	return nil
}

func agentNames(snap *protocol.Snapshot) string {
	var names []string
	for _, a := range snap.Agents {
		names = append(names, a.Name)
	}
	return strings.Join(names, " ")
}

func progressPath() string { return Base + "/" + tasksDir + "/task_" + taskID + progressExt }
