package supervisor_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/config"
	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/agentstatus"
	"github.com/livhana/steward/protocol/envelope"
	"github.com/livhana/steward/protocol/handoffs"
	"github.com/livhana/steward/protocol/mailbox"
	"github.com/livhana/steward/protocol/protocoltest"
	"github.com/livhana/steward/protocol/ralph"
	"github.com/livhana/steward/supervisor"
	"github.com/livhana/steward/supervisor/decide"
)

// speaking opens the protocols with the settings that the program ships with, and says where steward acts; elsewhere it asks.
var speaking = map[string]struct {
	act  bool
	open func(dir string, cfg config.Config) protocol.Adapter
}{
	"agentstatus": {true, func(dir string, _ config.Config) protocol.Adapter {
		return agentstatus.New(dir, agentstatus.Options{})
	}},
	"handoffs": {true, func(dir string, _ config.Config) protocol.Adapter { return handoffs.New(dir, handoffs.Options{}) }},
	"ralph": {false, func(dir string, cfg config.Config) protocol.Adapter {
		return ralph.New(dir, ralph.Options{Grace: cfg.Ralph.Grace, NoWatch: true})
	}},
	"mailbox": {false, func(dir string, cfg config.Config) protocol.Adapter {
		return mailbox.New(dir, mailbox.Options{Lead: cfg.Mailbox.Lead, Developer: cfg.Mailbox.Developer, Review: cfg.Mailbox.Review})
	}},
	"envelope": {true, func(dir string, cfg config.Config) protocol.Adapter {
		e := cfg.Envelope
		return envelope.New(dir, envelope.Options{Messages: e.Messages, Log: e.Log, Acknowledge: e.Acknowledge, Clarify: e.Clarify, Escalate: e.Escalate, CallsPerDay: e.CallsPerDay, Deployers: e.Deployers})
	}},
}

// TestSituations: every situation in which the five documents need a human, as files, and the incidents that follow: an
// archive per protocol, in testdata/situations, whose README tells how to read it.
func TestSituations(t *testing.T) {
	for name := range speaking {
		text, err := os.ReadFile("testdata/situations/" + name + ".txtar")
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		scenes := map[string]map[string]string{}
		for file, text := range protocoltest.Parse(string(text), now) {
			scene, rest, ok := strings.Cut(file, "/")
			if !ok {
				t.Fatalf("%s: %q lies in no scene", name, file)
			}
			if scenes[scene] == nil {
				scenes[scene] = map[string]string{}
			}
			scenes[scene][rest] = text
		}
		for _, scene := range slices.Sorted(maps.Keys(scenes)) {
			t.Run(name+"/"+scene, func(t *testing.T) {
				if got := newSituation(t, name, scenes[scene], now).play(); got != scenes[scene]["want"] {
					t.Errorf("seen:\n%s\nwant:\n%s", got, scenes[scene]["want"])
				}
			})
		}
	}
}

// situation is one scene: files as they are at first and as they become, and how long it goes on.
type situation struct {
	t       *testing.T
	name    string
	dir     string
	now     time.Time
	files   map[string]string
	lasts   time.Duration
	act     bool
	mode    protocol.Mode
	cfg     decide.Config
	adapter protocol.Adapter
	memory  decide.Memory
	heads   map[string]rules.Head
	seen    []string
}

func newSituation(t *testing.T, name string, files map[string]string, now time.Time) *situation {
	cfg := config.Defaults()
	cfg.Human.Name = "Jesse"
	s := &situation{t: t, name: name, dir: t.TempDir(), now: now, files: files, act: speaking[name].act, cfg: cfg.Policies(), heads: map[string]rules.Head{}}
	s.cfg.FaultAfter = time.Minute
	if s.mode = protocol.ModeAct; !s.act {
		s.mode = protocol.ModeAsk
	}
	for _, word := range strings.Fields(files["scene"]) {
		if d, err := time.ParseDuration(word); err == nil {
			s.lasts = d
		} else if word == "observe" {
			s.act, s.mode = false, protocol.ModeObserve
		}
	}
	s.write("")
	s.adapter = speaking[name].open(s.dir, cfg)
	if c, ok := s.adapter.(interface{ Close() }); ok {
		t.Cleanup(c.Close)
	}
	return s
}

// write puts the files of a moment ("": of the beginning, else "after/60s/") in their places.
func (s *situation) write(moment string) {
	s.t.Helper()
	// Agents name a task after it came: its request is there before their heartbeat.
	for _, file := range slices.Backward(slices.Sorted(maps.Keys(s.files))) {
		text := s.files[file]
		rel, ok := strings.CutPrefix(file, moment)
		if !ok || rel == "scene" || rel == "want" || rel == "touch" || rel == "detail" || moment == "" && strings.HasPrefix(rel, "after/") {
			continue
		}
		full := filepath.Join(s.dir, filepath.FromSlash(rel))
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			s.t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o644); err != nil {
			s.t.Fatal(err)
		}
	}
	for line := range strings.Lines(s.files["touch"]) {
		name, age, _ := strings.Cut(strings.TrimSpace(line), " ")
		shift, err := time.ParseDuration(age)
		if err != nil {
			s.t.Fatal(err)
		}
		if moment == "" {
			if err := os.Chtimes(filepath.Join(s.dir, name), s.now.Add(shift), s.now.Add(shift)); err != nil {
				s.t.Fatal(err)
			}
		}
	}
}

// play looks every five seconds, decides and acts, and gives what the human hears of.
func (s *situation) play() string {
	begin := s.now
	for at := time.Duration(0); at <= s.lasts; at += 5 * time.Second {
		s.now = begin.Add(at)
		s.write(fmt.Sprintf("after/%.0fs/", at.Seconds()))
		for range 3 {
			if s.turn().Empty() {
				break
			}
		}
	}
	return strings.Join(s.seen, "")
}

func (s *situation) turn() decide.Plan {
	snap := s.adapter.Observe(s.t.Context(), protocol.ScanOrder{Now: s.now, Since: s.now.Add(-s.cfg.Tasks.History)})
	snap.Name("shop", s.name, s.act)
	snap.Mode = s.mode
	quarter := protocol.Used(0.25)
	view := decide.View{Now: s.now, Snapshots: []protocol.Snapshot{snap}, Incidents: s.heads, Looked: []string{"shop"}}
	view.Load.At, view.Load.CPU, view.Load.Memory, view.Load.Files, view.Load.Disk = s.now, quarter, quarter, quarter, quarter
	plan := supervisor.Decide(view, s.memory, s.cfg)
	s.memory = plan.Memory
	for _, a := range plan.Alerts {
		s.hear(a)
	}
	for _, c := range plan.Changes {
		if err := s.adapter.Apply(s.t.Context(), c, s.now); err != nil && !errors.Is(err, protocol.ErrConflict) {
			s.t.Fatalf("%s %s: %v", c.Verb, c.Subject, err)
		}
	}
	return plan
}

var clockTime = regexp.MustCompile(`\d\d:\d\d UTC|\d{4}-\d\d-\d\dT[0-9:]+Z`)

// hear enters an alert in the ledger's heads, and writes it down: severity, kind, marks, summary and options.
func (s *situation) hear(a rules.Alert) {
	if a.Resolve {
		h := s.heads[a.Key]
		h.State, h.ResolvedBy = rules.Resolved, rules.ByFiles
		s.heads[a.Key] = h
		s.seen = append(s.seen, "over: "+a.Subject.ID+"\n")
		return
	}
	s.heads[a.Key] = rules.Head{State: rules.Raised, Occurrence: a.Occurrence, Lasting: a.Lasting, Foreign: a.Foreign, Subject: a.Subject, Severity: a.Severity}
	line := fmt.Sprintf("%s %s", a.Severity, a.Kind)
	if a.Blocking {
		line += " blocking"
	}
	if a.Silent {
		line += " silent"
	}
	line += ": " + clockTime.ReplaceAllString(a.Summary, "TIME")
	for _, o := range a.Options {
		mark := ""
		if o.Dangerous {
			mark = "!"
		}
		line += fmt.Sprintf(" [%s%s]", o.Label, mark)
	}
	s.seen = append(s.seen, line+"\n")
	for _, must := range strings.Split(strings.TrimSpace(s.files["detail"]), "\n") {
		if must != "" && !strings.Contains(a.Detail, must) {
			s.t.Errorf("the detail does not say %q:\n%s", must, a.Detail)
		}
	}
	if a.Severity == protocol.Critical && a.Spoken == "" || a.Occurrence == "" {
		s.t.Errorf("nothing to say, or to tell it from another time: %+v", a)
	}
}
