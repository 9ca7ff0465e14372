package handoffs

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
)

func (s *site) boot(agent string) error {
	return s.p.Prepare(s.T.Context(), protocol.Boot{Agent: agent, Now: s.Now})
}

// Protocol 001, Handoff Storage and Shared State File: a boot creates them, and a second boot leaves them unchanged. No
// agent is active until it is activated (protocol 001, Activation).
func TestBoot(t *testing.T) {
	s := newSite(t, file("x", ""))
	s.Now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s.Do(s.boot("builder"))
	want := `{
  "schema_version": "1.0.0",
  "current_workflow": null,
  "current_agent": null,
  "last_handoff": null,
  "locks": {},
  "iteration": 1,
  "agents": {
    "builder": {
      "status": "idle",
      "last_active": "2026-01-02T03:04:05Z"
    },
    "fixer": {
      "status": "idle"
    },
    "planner": {
      "status": "idle"
    },
    "reviewer": {
      "status": "idle"
    }
  }
}
`
	if got := s.Read(statePath); got != want {
		t.Errorf("the state is\n%s", got)
	}
	for _, at := range places {
		if st, err := os.Stat(s.Path(Base + "/" + at.dir())); err != nil || !st.IsDir() {
			t.Errorf("%s: %v", at.dir(), err)
		}
	}
	s.Do(s.boot("builder"))
	if got := s.Read(statePath); got != want || !Detect(s.Dir) {
		t.Errorf("booted twice:\n%s", got)
	}
	if snap := s.look(); len(snap.Faults)+len(snap.Findings) > 0 || len(snap.Agents) != 4 {
		t.Errorf("%+v", snap)
	}
}

func TestBootMerges(t *testing.T) {
	s := newSite(t, file(statePath, stateText))
	s.Now = time.Date(2026, 5, 2, 3, 4, 5, 0, time.UTC)
	s.Do(s.boot("fixer"))
	want := strings.Replace(stateText, `"fixer": {"status": "idle"}`, `"fixer": {"status": "idle", "last_active": "2026-05-02T03:04:05Z"}`, 1)
	if got := s.Read(statePath); got != want {
		t.Errorf("the state is\n%s", got)
	}
	if s.Do(s.boot("builder")); !strings.Contains(s.Read(statePath), `"builder": {"status": "active", "last_active": "2026-05-02`) {
		t.Errorf("an agent at work is to stay so: %s", s.Read(statePath))
	}
	s.Do(s.boot("scribe"))
	if got := s.Read(statePath); !strings.Contains(got, `"scribe"`) || strings.Contains(got, "planner") {
		t.Errorf("the state is\n%s", got)
	}
}

// A state file of another shape belongs to another tool: neither a boot nor a scan changes anything.
func TestForeignState(t *testing.T) {
	for _, text := range []string{`{"projects": {}}`, `[1, 2]`, `{"locks": [], "agents": "x"}`, `"text"`, `7`} {
		s := newSite(t, file(statePath, text+"\n")+file(Base+"/x", ""))
		before, err := os.Stat(s.Path(statePath))
		s.Do(err)
		if Detect(s.Dir) {
			t.Errorf("%s was taken for ours", text)
		}
		if err := s.boot("builder"); !errors.Is(err, ErrForeign) {
			t.Errorf("%s: boot: %v", text, err)
		}
		for range 3 {
			if snap := s.after(3 * time.Second); len(snap.Agents)+len(snap.Faults)+len(snap.Findings) > 0 {
				t.Errorf("%s: %+v", text, snap)
			}
		}
		c := protocol.Change{Verb: protocol.VerbUnlock, Subject: protocol.Subject{Kind: protocol.KindLock, ID: "projects"}, Judged: protocol.Judged{Ref: protocol.Ref{Path: stateFile, Sum: "x"}}}
		if err := s.apply(c); !errors.Is(err, protocol.ErrConflict) {
			t.Errorf("%s: unlock: %v", text, err)
		}
		after, err := os.Stat(s.Path(statePath))
		if err != nil || !os.SameFile(before, after) || !before.ModTime().Equal(after.ModTime()) || s.Read(statePath) != text+"\n" {
			t.Errorf("%s was touched", text)
		}
		if _, err := os.Stat(s.Path(Base + "/" + boxDir)); err == nil {
			t.Errorf("%s: folders were made beside it", text)
		}
	}
}

// An unparsable state file without locks or agents is not reported, because it is not this protocol's; beside a handoffs
// folder it is a fault.
func TestUnreadableForeignState(t *testing.T) {
	s := newSite(t, file(statePath, "[section]\nkey = 1\n"))
	s.look()
	if snap := s.after(5 * time.Second); len(snap.Faults) > 0 {
		t.Errorf("%+v", snap.Faults)
	}
	s.Do(os.Mkdir(s.Path(Base+"/"+boxDir), 0o755))
	if snap := s.after(5 * time.Second); len(snap.Faults) != 1 {
		t.Errorf("%+v", snap.Faults)
	}
}

func TestBootOfHostileNames(t *testing.T) {
	s := newSite(t, file("x", ""))
	for _, name := range []string{"", ".", "../x", "a/b", "a\nb", strings.Repeat("x", 300)} {
		if s.boot(name) == nil {
			t.Errorf("%q was booted", name)
		}
	}
	if _, err := os.Stat(s.Path(Base)); err == nil {
		t.Error("the folder was made")
	}
}

// A state file that stays incomplete is not overwritten.
func TestBootBesideATornState(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for two seconds; skipped in short mode")
	}
	t.Parallel()
	s := newSite(t, file(statePath, `{"locks": {`))
	if err := s.boot("builder"); err == nil || s.Read(statePath) != `{"locks": {` {
		t.Errorf("boot: %v, the state is %s", err, s.Read(statePath))
	}
}
