package mailbox

import (
	"os"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/protocoltest"
)

// limits are the roles' limits as configured.
var limits = Options{Lead: 5 * time.Minute, Developer: 15 * time.Minute, Review: 3 * time.Minute}

type testProject struct {
	*protocoltest.Site
	p *Project
}

func newTestProject(t testing.TB, archive string) *testProject {
	t.Helper()
	r := &testProject{Site: protocoltest.NewSite(t, archive, time.Now)}
	r.reopen()
	return r
}

func (r *testProject) reopen() {
	r.p = New(r.Dir, limits)
	r.T.Cleanup(r.p.Close)
}

func (r *testProject) rewrite(rel, old, new string) {
	r.T.Helper()
	r.Do(protocoltest.Rewrite(r.Path(rel), old, new))
	r.touch(rel)
}

// Write writes a file and dates it with the test's clock.
func (r *testProject) Write(rel, text string) {
	r.T.Helper()
	r.Site.Write(rel, text)
	r.touch(rel)
}

func (r *testProject) touch(rel string) { r.Do(os.Chtimes(r.Path(rel), r.Now, r.Now)) }

// pass advances the clock and scans with an empty list of hints.
func (r *testProject) pass(d time.Duration) *protocol.Snapshot {
	r.Now = r.Now.Add(d)
	return r.see(protocol.ScanOrder{Now: r.Now, Hints: []string{}})
}

// look makes a full scan one second later.
func (r *testProject) look() *protocol.Snapshot {
	r.Now = r.Now.Add(time.Second)
	return r.see(protocol.ScanOrder{Now: r.Now})
}

func (r *testProject) see(order protocol.ScanOrder) *protocol.Snapshot {
	r.T.Helper()
	s := r.p.Observe(r.T.Context(), order)
	return &s
}

func (r *testProject) apply(c protocol.Change) error { return r.p.Apply(r.T.Context(), c, r.Now) }

func taskOf(t testing.TB, s *protocol.Snapshot, id string) *protocol.Task {
	t.Helper()
	for i := range s.Tasks {
		if s.Tasks[i].ID == id {
			return &s.Tasks[i]
		}
	}
	t.Fatalf("no task %s in %s", id, protocoltest.Describe(s))
	return nil
}

func file(name, text string) string { return "-- " + name + " --\n" + text }
