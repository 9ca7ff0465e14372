package handoffs

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// Protocol 001, Conflict Resolution, Same-File Conflicts: releasing an expired lock removes only its own key, after
// recording it. A lock that was renewed or taken over meanwhile stays.
func TestSameFileConflicts(t *testing.T) {
	s := newSite(t, file(statePath, stateText))
	snap := s.look()
	s.Do(s.apply(unlockChange(snap, "src/a.go")))
	o, err := jsonfile.Parse([]byte(s.Read(statePath)))
	if err != nil {
		t.Fatal(err)
	}
	if locks, _ := o.Object("locks"); locks.Has("src/a.go") || !locks.Has("src/b.go") {
		t.Errorf("the state is %s", s.Read(statePath))
	}
	if line := s.Read(Base + "/" + releasesFile); !strings.Contains(line, `"resource":"src/a.go"`) || !strings.Contains(line, `"agent":"builder"`) || !strings.Contains(line, "over its time") {
		t.Errorf("on record: %s", line)
	}
	stale := unlockChange(snap, "src/b.go")
	for what, now := range map[string]string{
		"renewed":       strings.Replace(s.Read(statePath), `03:34:05.000Z"}`, `09:34:05.000Z"}`, 1),
		"taken":         strings.Replace(s.Read(statePath), `"src/b.go": {"agent": "fixer"`, `"src/b.go": {"agent": "builder"`, 1),
		"another shape": `{"locks": [], "src/b.go": 1}`,
		"torn":          `{"locks": {"src/b.go": {"age`,
	} {
		s.Write(statePath, now)
		if err := s.apply(stale); !errors.Is(err, protocol.ErrConflict) || s.Read(statePath) != now {
			t.Errorf("%s: %v, the state is %s", what, err, s.Read(statePath))
		}
	}
	s.Do(os.Remove(s.Path(statePath)))
	if err := s.apply(stale); err != nil {
		t.Errorf("no file, no lock: %v", err)
	}
}

// A client that rewrites all entries in its own style shows no life of the other agents, and a lock released by steward
// is no sign of its holder's life.
func TestSignsOfLife(t *testing.T) {
	s := newSite(t, file(statePath, stateText))
	signs := func() (beat, signs string) {
		a, _ := s.look().Agent("builder")
		return a.Beat.Mark, a.Signs
	}
	beat, sign := signs()
	same := func(what string, want bool) {
		t.Helper()
		b, g := signs()
		if (b == beat && g == sign) != want {
			t.Errorf("%s: beat %v, signs %v the same, want %v", what, b == beat, g == sign, want)
		}
		beat, sign = b, g
	}
	s.Write(statePath, strings.Join(strings.Fields(stateText), " "))
	same("another style", true)
	s.Do(s.apply(unlockChange(s.look(), "src/a.go")))
	same("unlocked by us", true)
	s.reopen()
	same("after a restart", true)
	s.Write(statePath, strings.Replace(s.Read(statePath), `"locks": {`, `"locks": {"new": {"agent": "builder", "acquired": "{{now}}"}, `, 1))
	same("took a lock", false)
	s.Write(statePath, strings.Replace(s.Read(statePath), `"status": "active"`, `"status": "active", "step": 2`, 1))
	same("its own entry", false)
	message := strings.Replace(handoffText("m", "builder", "reviewer", typeReview, "pending"), "{{now}}", "2026-01-02T03:04:05Z", 1)
	s.Write(boxPath(pending, "m"), message)
	same("sent a message", false)
	s.move(boxPath(pending, "m"), boxPath(accepted, "m"))
	same("somebody accepted it", true)
	s.Write(boxPath(accepted, "m"), strings.Replace(message, `"pending"`, `"accepted"`, 1))
	same("and wrote so into it", true)
	s.move(boxPath(accepted, "m"), boxPath(completed, "m"))
	same("and completed it", true)
	s.Now = s.Now.Add(time.Hour)
	s.p.Observe(t.Context(), protocol.ScanOrder{Now: s.Now, Since: s.Now})
	if len(s.p.boxes.listed) > 0 {
		t.Errorf("%d messages are still listed", len(s.p.boxes.listed))
	}
	same("off the list", true)
	s.reopen()
	s.p.Observe(t.Context(), protocol.ScanOrder{Now: s.Now, Since: s.Now})
	same("after another restart", true)
}

// A client with the file open writes to the old inode: its changes are merged, without the lock that steward released.
func TestLateWrites(t *testing.T) {
	take := func(old string) string {
		return strings.Replace(old, `"locks": {`, `"locks": {"mine": {"agent": "fixer", "acquired": "2026-01-02T03:04:05Z"},`, 1)
	}
	for _, c := range []struct {
		name          string
		meanwhile     func(now string) string
		late          func(old string) string
		want, wantNot []string
	}{
		{"alone", nil, take, []string{`"mine"`, `"src/b.go"`}, []string{`"src/a.go"`}},
		{"another wrote since", func(now string) string { return strings.Replace(now, `"iteration": 1`, `"iteration": 2`, 1) }, take,
			[]string{`"mine"`, `"iteration": 2`}, []string{`"src/a.go"`}},
		{"another took the same since", func(now string) string {
			return strings.Replace(now, `"locks": {`, `"locks": {"mine": {"agent": "other"},`, 1)
		}, take, []string{`{"agent": "other"}`}, []string{`"src/a.go"`}},
		{"renewed it", nil, func(old string) string { return strings.Replace(old, `:05.000Z", "x"`, `:06.000Z", "x"`, 1) },
			[]string{`"src/a.go"`, `:06.000Z", "x"`}, nil},
		{"released one", func(now string) string { return strings.Replace(now, `"iteration": 1`, `"iteration": 2`, 1) },
			func(old string) string {
				return strings.Replace(strings.Replace(old, `"x": 1.0},`, `"x": 1.0}`, 1), `"src/b.go": {"agent": "fixer", "acquired": "2026-01-02T03:04:05.000Z", "expires": "2026-01-02T03:34:05.000Z"}`, "", 1)
			}, []string{`"iteration": 2`}, []string{`"src/a.go"`, `"src/b.go"`}},
		{"half a document", nil, func(old string) string { return old[:40] }, []string{`"src/b.go"`}, []string{`"src/a.go"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t, file(statePath, stateText))
			snap := s.look()
			f, err := os.OpenFile(s.Path(statePath), os.O_RDWR, 0)
			s.Do(err)
			defer f.Close()
			s.Do(s.apply(unlockChange(snap, "src/a.go")))
			if c.meanwhile != nil {
				s.Write(statePath, c.meanwhile(s.Read(statePath)))
			}
			s.Do(f.Truncate(0))
			_, err = f.WriteAt([]byte(c.late(stateText)), 0)
			s.Do(err)
			snap = s.at([]string{})
			text := s.Read(statePath)
			for _, w := range c.want {
				if !strings.Contains(text, w) {
					t.Errorf("%s is not in\n%s", w, text)
				}
			}
			for _, w := range c.wantNot {
				if strings.Contains(text, w) {
					t.Errorf("%s is in\n%s", w, text)
				}
			}
			if len(snap.Faults) > 0 {
				t.Errorf("%+v", snap.Faults)
			}
			s.after(3 * time.Second)
			if s.after(time.Second); s.p.Watched() > 0 {
				t.Errorf("%d old files are still held", s.p.Watched())
			}
		})
	}
}
