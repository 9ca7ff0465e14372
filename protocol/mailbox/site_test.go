package mailbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/protocoltest"
)

// limits are the roles' limits as the configuration has them.
var limits = Options{Lead: 5 * time.Minute, Developer: 15 * time.Minute, Review: 3 * time.Minute}

// room is one project under test, with a clock of its own that begins now.
type room struct {
	t   testing.TB
	dir string
	p   *Project
	now time.Time
}

func newRoom(t testing.TB, archive string) *room {
	t.Helper()
	r := &room{t: t, dir: t.TempDir(), now: time.Now()}
	protocoltest.Write(t, r.dir, archive, r.now)
	r.reopen()
	return r
}

func (r *room) reopen() {
	r.p = New(r.dir, limits)
	r.t.Cleanup(r.p.Close)
}

func (r *room) path(rel string) string { return filepath.Join(r.dir, filepath.FromSlash(rel)) }

// write puts a file in place, as a client would: times in double braces are relative to the room's clock.
func (r *room) write(rel, text string) {
	r.t.Helper()
	protocoltest.Write(r.t, r.dir, file(rel, text), r.now)
}

func (r *room) rewrite(rel, old, new string) {
	r.t.Helper()
	r.do(protocoltest.Rewrite(r.path(rel), old, new))
}

func (r *room) read(rel string) string {
	r.t.Helper()
	b, err := os.ReadFile(r.path(rel))
	r.do(err)
	return string(b)
}

func (r *room) do(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// pass lets time go by and looks by hints that name nothing.
func (r *room) pass(d time.Duration) *protocol.Snapshot {
	r.now = r.now.Add(d)
	return r.see(protocol.Look{Now: r.now, Hints: []string{}})
}

// look makes a full look a second later.
func (r *room) look() *protocol.Snapshot {
	r.now = r.now.Add(time.Second)
	return r.see(protocol.Look{Now: r.now})
}

func (r *room) see(look protocol.Look) *protocol.Snapshot {
	r.t.Helper()
	s := r.p.Observe(r.t.Context(), look)
	return &s
}

func (r *room) apply(c protocol.Change) error { return r.p.Apply(r.t.Context(), c, r.now) }

// codes lists the findings about a subject as "code severity".
func codes(s *protocol.Snapshot, id string) string {
	var list []string
	for _, f := range s.Findings {
		if f.Subject.ID == id {
			list = append(list, f.Code+" "+string(f.Severity))
		}
	}
	return strings.Join(list, ", ")
}

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
