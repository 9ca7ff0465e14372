package handoffs

import (
	"fmt"
	"os"
	"path/filepath"
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

func (s *site) move(from, to string) {
	s.T.Helper()
	s.Do(os.MkdirAll(filepath.Dir(s.Path(to)), 0o755))
	s.Do(os.Rename(s.Path(from), s.Path(to)))
}

// after makes a full scan that much later.
func (s *site) after(d time.Duration) *protocol.Snapshot {
	s.T.Helper()
	s.Pass(d)
	return s.at(nil)
}

// look makes a full scan one second later.
func (s *site) look() *protocol.Snapshot { s.T.Helper(); return s.after(time.Second) }

// at scans at the present time; nil hints mean a full scan.
func (s *site) at(hints []string) *protocol.Snapshot {
	s.T.Helper()
	snap := s.p.Observe(s.T.Context(), protocol.ScanOrder{Now: s.Now, Hints: hints})
	return &snap
}

func (s *site) apply(c protocol.Change) error { return s.p.Apply(s.T.Context(), c, s.Now) }

func file(name, text string) string { return "-- " + name + " --\n" + text }

func boxPath(at box, id string) string {
	return Base + "/" + at.dir() + "/handoff-" + id + ".json"
}

// handoffText returns a valid message.
func handoffText(id, from, to, kind, status string) string {
	return fmt.Sprintf(`{"schema_version": "1.0.0", "message_id": %q, "timestamp": "{{now}}", "from": %q, "to": %q, "type": %q, "priority": "high",
 "payload": {"title": "do it"}, "context": {"workflow": "feature", "spec": "specs/a.md", "iteration": 1}, "status": %q}
`, id, from, to, kind, status)
}

func task(id, status string) string { return handoffText(id, "planner", "builder", typeTask, status) }

func found(snap *protocol.Snapshot, code string) (list []string) {
	for _, f := range snap.Findings {
		if f.Code == code {
			list = append(list, string(f.Severity)+" "+string(f.Subject.Kind)+"/"+f.Subject.ID+" "+f.Field)
		}
	}
	return list
}

func taskOf(snap *protocol.Snapshot, id string) *protocol.Task {
	for i := range snap.Tasks {
		if snap.Tasks[i].ID == id {
			return &snap.Tasks[i]
		}
	}
	return nil
}

func eventNames(snap *protocol.Snapshot) string {
	var names []string
	for _, e := range snap.Events {
		names = append(names, e.Name+" "+e.Subject.ID+" "+e.Agent)
	}
	return strings.Join(names, ", ")
}

func open(t testing.TB, dir string) protocol.Adapter {
	p := New(dir, Options{})
	t.Cleanup(p.Close)
	return p
}
