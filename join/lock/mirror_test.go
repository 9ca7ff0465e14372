package lock

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/handoffs"
	"github.com/livhana/steward/protocol/jsonfile"
)

// desk is a project with a state file and a manual clock.
type desk struct {
	*testing.T
	dir string
	now time.Time
	p   *Locks
}

func newDesk(t *testing.T, state string) *desk {
	d := &desk{T: t, dir: t.TempDir(), now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	write(t, statePath(d.dir), state)
	m := handoffs.OpenMirror(d.dir, handoffs.MirrorOptions{TTL: 30 * time.Minute, Watch: 30 * time.Second, Life: 30 * time.Minute})
	d.p = Open(d.dir, Options{Now: func() time.Time { return d.now }, Mirror: m})
	t.Cleanup(d.p.Close)
	return d
}

func (d *desk) state() string { d.Helper(); return readText(d, statePath(d.dir)) }

// refused requests the lock for builder, and returns the reason of the refusal.
func (d *desk) refused() string {
	d.Helper()
	_, err := d.p.Acquire(d.Context(), Request{Name: "src/a.go", Agent: "builder", TTL: time.Hour, NoWait: true})
	var held *HeldError
	if !errors.As(err, &held) {
		d.Fatalf("got %v, want a refusal", err)
	}
	return held.Status.Why
}

// TestMirrorShowsTheHolder: the entry has the document's keys, is renewed, and leaves no trace at the end.
func TestMirrorShowsTheHolder(t *testing.T) {
	d := newDesk(t, plainState)
	h := take(t, d.p, "src/a.go")
	fence := fmt.Sprintf(`"fence": %d`, d.now.UnixMicro())
	want := `"src/a.go": { "agent": "builder", "acquired": "2026-01-02T03:04:05Z", "expires": "2026-01-02T03:05:05Z", ` + fence + `, "pid": `
	if got := d.state(); !strings.Contains(strings.Join(strings.Fields(got), " "), want) {
		t.Errorf("the state is %s", got)
	}
	d.now = d.now.Add(30 * time.Second)
	if rival, err := h.Renew(t.Context()); rival != nil || err != nil || !strings.Contains(d.state(), `"expires": "2026-01-02T03:05:35Z"`) {
		t.Errorf("%v, %v, the state is %s", rival, err, d.state())
	}
	write(t, statePath(d.dir), plainState) // a client writes back what it read earlier
	if rival, err := h.Renew(t.Context()); rival != nil || err != nil || !strings.Contains(d.state(), fence) {
		t.Errorf("%v, %v, it was not put back: %s", rival, err, d.state())
	}
	give(t, h)
	if got := d.state(); got != plainState {
		t.Errorf("at the end: %s", got)
	}
}

// TestMirrorLeavesOthersFilesAlone: the file stays unchanged byte for byte, and the lock is granted anyway.
func TestMirrorLeavesOthersFilesAlone(t *testing.T) {
	for _, text := range []string{`{"version": 3,  "sessions": []}`, `[1, 2]`, `"x"`, "not JSON at all", `{"agents": {}, "locks": [1]}`, `{"agents": [], "locks": 7}`} {
		d := newDesk(t, text)
		h := take(t, d.p, "src/a.go")
		if _, err := h.Renew(t.Context()); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		give(t, h)
		if got := d.state(); got != text {
			t.Errorf("%q became %q", text, got)
		}
		if handoffs.Detect(d.dir) != (text == `{"agents": {}, "locks": [1]}`) {
			t.Errorf("%q: whether the project speaks the protocol has changed", text)
		}
	}
	d := newDesk(t, "x")
	if err := os.Remove(statePath(d.dir)); err != nil {
		t.Fatal(err)
	}
	give(t, take(t, d.p, "src/a.go"))
	if _, err := os.Stat(statePath(d.dir)); !errors.Is(err, os.ErrNotExist) || handoffs.Detect(d.dir) {
		t.Errorf("a lock made the project speak the protocol: %v", err)
	}
}

// TestTornStateFileIsAnError: the locks in a torn file are unknown.
func TestTornStateFileIsAnError(t *testing.T) {
	d := newDesk(t, `{"locks": {"src/a.go": {"agent": "fix`)
	_, err := d.p.Acquire(t.Context(), Request{Name: "src/a.go", Agent: "builder", TTL: time.Hour})
	if !errors.Is(err, jsonfile.ErrTorn) && !errors.Is(err, jsonfile.ErrBad) {
		t.Fatalf("got %v", err)
	}
	if d.p.status("src/a.go", "src%2Fa.go", d.now).Alive {
		t.Error("the lock is still held")
	}
}

const rivalState = `{"locks": {"src/a.go": {"agent": "fixer", "acquired": "2026-01-02T03:00:00Z", "expires": "2026-01-02T03:30:00Z", "x": 1}}, "agents": {"fixer": {"status": "active", "last_active": "2026-01-02T03:20:00Z"}}}`

// TestAgentsOwnLocksAreRespected: they are respected until they end, and beyond their time while their agent shows
// activity. Then they are removed, on record, and the resource is blocked for 15 s.
func TestAgentsOwnLocksAreRespected(t *testing.T) {
	d := newDesk(t, rivalState)
	if why := d.refused(); why != "fixer holds it until 03:30:00 UTC" {
		t.Error(why)
	}
	d.now = d.now.Add(30 * time.Minute)
	if why := d.refused(); !strings.Contains(why, "over its time, and shows life") {
		t.Error(why)
	}
	d.now = d.now.Add(30 * time.Minute) // last active 44 min ago, and unchanged since the first scan
	if why := d.refused(); !strings.Contains(why, "no sign of life") {
		t.Error(why)
	}
	if got := d.state(); strings.Contains(got, "src/a.go") || !strings.Contains(got, `"fixer": {"status"`) {
		t.Errorf("the state is %s", got)
	}
	if got := readText(t, d.dir+"/.claude/steward/tombstones.jsonl"); !strings.Contains(got, `"resource":"src/a.go"`) || !strings.Contains(got, `"x":1`) {
		t.Errorf("on record: %s", got)
	}
	d.now = d.now.Add(14 * time.Second)
	if why := d.refused(); !strings.Contains(why, "taken away from its holder") {
		t.Error(why)
	}
	d.now = d.now.Add(time.Second)
	h := take(t, d.p, "src/a.go")
	if h.Fence() != uint64(d.now.UnixMicro()) {
		t.Errorf("number %d: those who were refused used some up", h.Fence())
	}
	give(t, h)
}

// TestSilentHolderIsWatchedFirst: a lock that is overdue when first seen is not removed at once.
func TestSilentHolderIsWatchedFirst(t *testing.T) {
	d := newDesk(t, rivalState)
	d.now = d.now.Add(2 * time.Hour)
	d.refused()
	d.now = d.now.Add(29 * time.Second)
	d.refused()
	if got := d.state(); got != rivalState {
		t.Fatalf("taken away after 29 s: %s", got)
	}
	write(t, statePath(d.dir), strings.Replace(rivalState, `"x": 1`, `"x": 2`, 1)) // the agent shows activity
	d.now = d.now.Add(2 * time.Second)
	d.refused()
	if !strings.Contains(d.state(), "src/a.go") {
		t.Fatal("taken away although it changed a moment ago")
	}
	d.now = d.now.Add(30 * time.Second)
	d.refused()
	if strings.Contains(d.state(), "src/a.go") {
		t.Error("still there after 30 s")
	}
}

// TestOwnEntryComesBack: an agent that has entered its own lock then runs a command under the real lock.
func TestOwnEntryComesBack(t *testing.T) {
	mine := strings.ReplaceAll(rivalState, "fixer", "builder")
	d := newDesk(t, mine)
	h := take(t, d.p, "src/a.go")
	if !strings.Contains(d.state(), `"fence"`) {
		t.Errorf("the state is %s", d.state())
	}
	give(t, h)
	if got := d.state(); got != mine {
		t.Errorf("the state is %s", got)
	}
}

// TestTakenOverByAnAgent: an agent's entry that replaces steward's entry stays, is reported, and is not removed at the
// end.
func TestTakenOverByAnAgent(t *testing.T) {
	d := newDesk(t, plainState)
	h := take(t, d.p, "src/a.go")
	write(t, statePath(d.dir), rivalState)
	if rival, err := h.Renew(t.Context()); err != nil || rival == nil || rival.Holder != "fixer" {
		t.Errorf("%+v, %v", rival, err)
	}
	give(t, h)
	if got := d.state(); got != rivalState {
		t.Errorf("the state is %s", got)
	}
}

// TestLateWriter: a client that had the state file open writes to the old file. Its changes are merged, and steward's
// entry stays, or is removed at the end.
func TestLateWriter(t *testing.T) {
	theirs := strings.Replace(plainState, `"iteration":   1`, `"iteration":   2`, 1)
	d := newDesk(t, plainState)
	late := func() (write func()) {
		f, err := os.OpenFile(statePath(d.dir), os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		return func() {
			defer f.Close()
			if err := errors.Join(f.Truncate(0), func() error { _, err := f.WriteAt([]byte(theirs), 0); return err }()); err != nil {
				t.Fatal(err)
			}
		}
	}
	writeLate := late()
	h := take(t, d.p, "src/a.go")
	writeLate()
	h.locks.mirror.Settle(t.Context(), time.Now())
	if got := d.state(); !strings.Contains(got, `"iteration":   2`) || !strings.Contains(got, fmt.Sprintf(`"fence": %d`, h.Fence())) {
		t.Errorf("while it is held: %s", got)
	}
	theirs = strings.Replace(d.state(), `"iteration":   2`, `"iteration":   3`, 1) // contains steward's entry
	writeLate = late()
	give(t, h)
	writeLate()
	d.p.Close()
	if got := d.state(); got != strings.Replace(plainState, `"iteration":   1`, `"iteration":   3`, 1) {
		t.Errorf("at the end: %s", got)
	}
}

// TestBreakOfAnAgentsLock: an agent's lock is broken only if it is as it was shown.
func TestBreakOfAnAgentsLock(t *testing.T) {
	d := newDesk(t, rivalState)
	s, err := d.p.Find(t.Context(), "src/a.go")
	if err != nil || s.Kind != KindContent || s.Agent != "fixer" || !s.Alive {
		t.Fatalf("%+v, %v", s, err)
	}
	b := Breaking{Status: s, By: "jesse", Why: "it was forgotten"}
	changed := strings.Replace(rivalState, "03:30:00", "03:31:00", 1)
	write(t, statePath(d.dir), changed)
	if err := d.p.Break(t.Context(), b); !errors.Is(err, protocol.ErrConflict) || d.state() != changed {
		t.Fatalf("renewed meanwhile: %v, %s", err, d.state())
	}
	write(t, statePath(d.dir), rivalState)
	if err := d.p.Break(t.Context(), b); err != nil || strings.Contains(d.state(), "src/a.go") {
		t.Fatalf("%v, %s", err, d.state())
	}
	if got := readText(t, d.dir+"/.claude/steward/tombstones.jsonl"); !strings.Contains(got, "it was forgotten (jesse, by hand)") {
		t.Errorf("on record: %s", got)
	}
	if why := d.refused(); !strings.Contains(why, "rests until 03:04:20 UTC") {
		t.Error(why)
	}
	if _, err := d.p.Find(t.Context(), "src/a.go"); !errors.Is(err, ErrNothing) {
		t.Errorf("found again: %v", err)
	}
}
