// Package protocoltest is the test suite that every protocol adapter passes: one set of laws for all protocols and all
// verbs.
package protocoltest

import (
	"slices"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
)

// Suite is the input of Run for one adapter.
type Suite struct {
	// Open makes a new adapter for the project at dir (absolute).
	Open func(t testing.TB, dir string) protocol.Adapter
	// Now is the clock of the files: time.Now.
	Now func() time.Time
	// Cases cover every verb that the adapter supports at least once; Unsupported lists the others.
	Cases       []Case
	Unsupported []protocol.Verb
	// Torn are files that the suite rewrites in place while the adapter scans.
	Torn []Torn
	// Logs are append-only files, relative to the project, in which a crash may lose or repeat a line.
	Logs []string
	// Next returns the changes that a policy requests at the next scan after a crash, until it requests none. Without
	// it, the same Change is applied again.
	Next func(c *Case, s *protocol.Snapshot, now time.Time) []protocol.Change
}

// Case is one Change to one project. Its texts are txtar archives with paths relative to the project; in them, {{now}}
// and {{now-90s}} stand for times as the protocols write them.
type Case struct {
	Name string
	Verb protocol.Verb
	// Files is the project before the change. Every file gets mode 0640.
	Files string
	// Before prepares the project further (an earlier change, a time stamp); may be nil.
	Before func(t testing.TB, a protocol.Adapter, dir string, now time.Time)
	// Change is the change that a policy would request after this scan.
	Change func(s *protocol.Snapshot, now time.Time) protocol.Change
	// Shows checks what the next scan must show.
	Shows func(s *protocol.Snapshot) error
	// Unseen, instead of Shows, says why no scan shows the change: later scans must equal the scan before, and after a
	// crash the same Change is applied again.
	Unseen string
	// Want holds files as they must be afterwards, byte by byte; the files in Gone must not exist any more.
	Want string
	Gone []string
	// Moves maps files of Want to their original paths: they keep their mode.
	Moves map[string]string
	// Free are patterns (path.Match) of further files that the change may create or alter.
	Free []string
	// Tail are files that a crash may leave at their old path: moving them is the last step, and nothing depends on it.
	Tail []string
	// Meddle changes a file between scan and change, so that the change must end in ErrConflict and alter nothing.
	// Without it, Careless says why the verb compares nothing.
	Meddle   func(dir string) error
	Careless string
}

// Torn is a file that a client repeatedly rewrites in place.
type Torn struct {
	Name, Files, File string
	// Shows checks what every scan must show, however torn the file is.
	Shows func(s *protocol.Snapshot) error
}

// verbs are all verbs.
var verbs = []protocol.Verb{protocol.VerbHold, protocol.VerbRelease, protocol.VerbRenew, protocol.VerbRetry, protocol.VerbBury,
	protocol.VerbConclude, protocol.VerbCancel, protocol.VerbFile, protocol.VerbRecord, protocol.VerbMark, protocol.VerbLog, protocol.VerbUnlock,
	protocol.VerbRequeue, protocol.VerbReap, protocol.VerbPause, protocol.VerbResume, protocol.VerbAnswer}

// Run tests an adapter against the laws.
func Run(t *testing.T, s Suite) {
	if inChild() {
		s.child(t)
		return
	}
	t.Run("verbs", s.everyVerb)
	t.Run("unsupported", s.unsupported)
	t.Run("dirs", s.relativeDirs)
	for i := range s.Cases {
		c := &s.Cases[i]
		t.Run(c.Name, func(t *testing.T) {
			t.Run("round trip", func(t *testing.T) { s.roundTrip(t, c) })
			t.Run("leaves the rest alone", func(t *testing.T) { s.leavesTheRest(t, c) })
			t.Run("twice", func(t *testing.T) { s.twice(t, c) })
			t.Run("conflict", func(t *testing.T) { s.conflict(t, c) })
			t.Run("gone stays gone", func(t *testing.T) { s.gone(t, c) })
			if c.Verb == protocol.VerbAnswer {
				s.answers(t, c)
			}
		})
	}
	for _, torn := range s.Torn {
		t.Run("torn "+torn.Name, func(t *testing.T) { s.torn(t, torn) })
	}
	t.Run("crash", s.crashes)
}

func (s Suite) everyVerb(t *testing.T) {
	for _, v := range verbs {
		shown := slices.ContainsFunc(s.Cases, func(c Case) bool { return c.Verb == v })
		if listed := slices.Contains(s.Unsupported, v); shown == listed {
			t.Errorf("verb %s: shown by a case: %v, listed as unsupported: %v; want one of the two", v, shown, listed)
		}
	}
}

// bench is one project under test.
type bench struct {
	dir string
	a   protocol.Adapter
	now time.Time
}

// lay writes a case's project and opens it, all within one second, so that a time has the same value in the case's
// files and in its expectations.
func (s Suite) lay(t testing.TB, c *Case) (b *bench) {
	t.Helper()
	for range 3 {
		b = &bench{dir: memoryDir(t), now: s.Now()}
		began := b.now.Unix()
		if s.layIn(t, c, b); b.now.Unix() == began {
			break
		}
	}
	time.Sleep(stampTick)
	return b
}

// stampTick is more than file timestamps may lag behind the clock: later writes are stamped after now.
const stampTick = 5 * time.Millisecond

func (s Suite) layIn(t testing.TB, c *Case, b *bench) {
	t.Helper()
	Write(t, b.dir, c.Files, b.now)
	b.a = s.Open(t, b.dir)
	if c.Before != nil {
		c.Before(t, b.a, b.dir, b.now)
	}
	if late := s.Now(); late.After(b.now) {
		b.now = late
	}
}

// scan runs a full scan.
func (b *bench) scan(t testing.TB) *protocol.Snapshot {
	t.Helper()
	s := b.a.Observe(t.Context(), protocol.ScanOrder{Now: b.now})
	return &s
}

// judged is a case's project after a scan, and the change that a policy requests then.
func (s Suite) judged(t testing.TB, c *Case) (*bench, protocol.Change) {
	t.Helper()
	b := s.lay(t, c)
	return b, c.Change(b.scan(t), b.now)
}
