package heartbeat

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status/words"
	"github.com/rogpeppe/go-internal/txtar"
)

// TestTranscripts runs the scripts in testdata: one archive per section of the policies, one script per part. A scan
// runs every five seconds and after every line.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("find transcripts: %v, %d files", err, len(files))
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, story := range archive.Files {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar")+"/"+story.Name, func(t *testing.T) {
				newStage(t).play(string(story.Data))
			})
		}
	}
}

func document() Config {
	return Config{
		Late: 45 * time.Second, Dead: 90 * time.Second,
		StartGrace: time.Minute, ResumeGrace: 30 * time.Second,
		Hung: 10 * time.Minute, HungAction: HungAlert,
		Protocols: map[string]Limits{"handoffs": {Dead: 30 * time.Minute}},
		Agents:    map[string]Limits{},
	}
}

type process struct {
	start uint64
	state ProcessState
	did   Activity
}

// stage is one agent in virtual time: elapsed is awake time, offset is what sleep and clock steps add to it.
type stage struct {
	t         failer
	cfg       Config
	protocol  string
	elapsed   time.Duration
	offset    time.Duration
	nextLook  time.Duration
	nextBeat  time.Duration
	beatEvery time.Duration
	agent     protocol.Agent
	processes map[int]process
	starts    uint64
	beats     int
	signs     int
	lastLook  time.Time
	resume    time.Time
	wait      time.Time
	doubt     int
	keptEvery time.Duration // interval of the beats that steward writes
	nextKept  time.Duration
	task      time.Duration
	m         Memory
	v         Verdict
	changed   bool
}

const lookEvery = 5 * time.Second

var epoch = time.Date(2025, 10, 22, 21, 30, 0, 0, time.UTC)

// failer is the part of testing.T that a script needs.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

func newStage(t failer) *stage {
	return &stage{t: t, cfg: document(), protocol: "agentstatus", processes: map[int]process{}, nextLook: lookEvery, agent: protocol.Agent{Name: "codex-cursor"}}
}

func (s *stage) now() time.Time { return epoch.Add(s.elapsed + s.offset) }

func (s *stage) play(script string) {
	for n, line := range strings.Split(script, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		at, events, ok := strings.Cut(strings.TrimPrefix(line, "at "), " ")
		when, err := parseClock(at)
		if !ok || err != nil {
			s.t.Fatalf("line %d: %q: want \"at mm:ss event\": %v", n+1, line, err)
		}
		s.run(when)
		looked := false
		for _, event := range strings.Split(events, "; ") {
			if strings.HasPrefix(event, "expect ") && !looked {
				s.look()
				looked = true
			}
			if err := s.event(event); err != nil {
				s.t.Fatalf("line %d: at %s %s: %v\n  state %s, %s", n+1, at, event, err, s.v.State, said(s.v.Cause))
			}
		}
		if !looked {
			s.look()
		}
	}
}

// run advances awake time, with its scans and beats.
func (s *stage) run(until time.Duration) {
	for {
		next := s.nextLook
		if s.beatEvery > 0 {
			next = min(next, s.nextBeat)
		}
		if s.keptEvery > 0 {
			next = min(next, s.nextKept)
		}
		if next > until {
			s.elapsed = until
			return
		}
		s.elapsed = next
		if s.beatEvery > 0 && s.nextBeat == next {
			s.beat(s.now())
			s.nextBeat += s.beatEvery
		}
		if s.keptEvery > 0 && s.nextKept == next {
			s.keep()
		}
		if s.nextLook == next {
			s.nextLook += lookEvery
			s.look()
		}
	}
}

func (s *stage) beat(stamp time.Time) {
	s.beats++
	s.agent.Beat = protocol.Beat{Mark: "beat " + strconv.Itoa(s.beats), At: stamp, Touched: stamp}
}

// facts examines the process that Watch returns, as the supervisor does.
func (s *stage) facts() Facts {
	f := Facts{Agent: s.agent}
	id := Watch(s.agent, s.m)
	p := s.processes[id.PID]
	switch {
	case id.PID == 0:
	case id.Proves() && p.start != id.Start, p.state == ProcessUnknown:
		f.Process, f.Identity = ProcessGone, id
	default:
		f.Process, f.Identity, f.Activity = p.state, s.identity(id.PID), s.activity(id.PID)
	}
	f.Task = s.task
	return f
}

func (s *stage) identity(pid int) protocol.Identity {
	return protocol.Identity{PID: pid, Start: s.processes[pid].start, Boot: "boot", UID: 1000}
}

// look judges, and checks that a second judgement and a restart change nothing.
func (s *stage) look() {
	s.t.Helper()
	now := s.now()
	if Resumed(s.lastLook, now, lookEvery) {
		s.resume = now.Add(s.cfg.ResumeGrace)
	}
	s.lastLook = now
	f, limits := s.facts(), s.cfg.For(s.protocol, s.agent.Name)
	clock := Clock{Now: now, LookEvery: lookEvery, ResumeUntil: s.resume, WaitUntil: s.wait, Doubt: s.doubt}
	v, m := Judge(f, s.m, clock, limits, s.cfg)
	again, rested := Judge(f, m, clock, limits, s.cfg)
	if again.Changed = v.Changed; again != v || !reflect.DeepEqual(m, rested) {
		s.t.Fatalf("judged twice at one moment:\n%+v\n%+v\n%+v\n%+v", v, again, m, rested)
	}
	s.v, s.m, s.changed = v, restored(s.t, m), v.Changed
}

// restored converts a Memory to its file format and back.
func restored(t failer, m Memory) Memory {
	data, err := json.Marshal(m)
	if err != nil {
		t.Fatalf("write memory: %v", err)
	}
	var back Memory
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatalf("read memory: %v", err)
	}
	if !reflect.DeepEqual(m, back) {
		t.Fatalf("memory came back changed:\n%+v\n%+v", m, back)
	}
	return back
}

// said is the sentence of a cause.
func said(c protocol.Cause) string { return words.Sentence(c, time.Time{}) }

func parseClock(text string) (time.Duration, error) {
	var total time.Duration
	for _, part := range strings.Split(text, ":") {
		n, err := strconv.Atoi(part)
		if err != nil {
			return 0, err
		}
		total = total*60 + time.Duration(n)*time.Second
	}
	return total, nil
}

// ago parses "3d", "10m", "90s".
func ago(text string) time.Duration {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, _ := strconv.Atoi(days)
		return time.Duration(n) * 24 * time.Hour
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		panic(err)
	}
	return d
}

// event executes one line of a script.
func (s *stage) event(line string) error {
	word := strings.Fields(line)
	after := func(prefix string) (string, bool) { return strings.CutPrefix(line, prefix) }
	if rest, ok := after("expect "); ok {
		return s.expect(rest)
	}
	if len(word) >= 3 && word[0] == "process" {
		return s.processEvent(word)
	}
	if handled := s.trouble(line, last(word)); handled {
		return nil
	}
	if handled, err := s.agentEvent(line, word, after); handled {
		return err
	}
	last := word[len(word)-1]
	switch {
	case strings.HasPrefix(line, "the machine sleeps"), strings.HasPrefix(line, "the clock is set forward"):
		s.offset += ago(last)
	case strings.HasPrefix(line, "the clock is set back"):
		s.offset -= ago(last)
	case strings.HasPrefix(line, "steward is away"):
		s.elapsed += ago(last)
		s.nextLook, s.lastLook, s.resume = s.elapsed, time.Time{}, time.Time{}
	case strings.HasPrefix(line, "limits for "):
		s.cfg.Agents[s.agent.Name] = Limits{Dead: ago(last)}
	case strings.HasPrefix(line, "protocol "):
		s.protocol = last
	default:
		return fmt.Errorf("no such event")
	}
	return nil
}

func (s *stage) processEvent(word []string) error {
	pid, err := strconv.Atoi(word[1])
	if err != nil {
		return err
	}
	p := s.processes[pid]
	switch word[2] {
	case "starts":
		s.starts++
		p = process{start: s.starts, state: ProcessAlive}
	case "stops", "continues":
		if p.state != ProcessUnknown { // an exited process does neither
			p.state = map[string]ProcessState{"stops": ProcessStopped, "continues": ProcessAlive}[word[2]]
		}
	case "exits":
		p.state = ProcessUnknown
	case "recorded":
		s.agent.Process = s.identity(pid)
		s.agent.PID = pid
	case "claimed":
		s.agent.PID = pid
	default:
		if err := p.move(word[2:], s.elapsed); err != nil {
			return err
		}
	}
	s.processes[pid] = p
	return nil
}

func (s *stage) agentEvent(line string, word []string, after func(string) (string, bool)) (bool, error) {
	last := word[len(word)-1]
	if rest, ok := after("it beats"); ok {
		return true, s.beatEvent(rest, last)
	}
	switch {
	case line == "it registers":
		s.agent.Registered, s.agent.Recorded = s.now(), "active"
	case strings.HasPrefix(line, "it was registered "):
		s.agent.Registered, s.agent.Recorded = s.now().Add(-ago(word[3])), "active"
	case strings.HasPrefix(line, "the registry says "):
		s.agent.Recorded = last
	case line == "its files say that it left":
		s.agent.Left, s.agent.Idle, s.agent.Process, s.agent.PID = "its files say that it does not run any more", true, protocol.Identity{}, 0
	case line == "its files cannot be read":
		s.agent.Left = ""
	case line == "it is booted":
		s.beat(s.now())
		s.agent.Registered, s.agent.Recorded, s.agent.Beat.Booted = s.now(), "active", true
	case line == "a boot script runs":
		s.beat(s.now())
		s.agent.Recorded, s.agent.Beat.Fresh = "active", true
	case strings.HasPrefix(line, "a task of "):
		s.task = ago(word[3])
	case line == "it stops beating":
		s.beatEvery = 0
	case strings.HasPrefix(line, "a heartbeat from "):
		s.beat(s.now().Add(-ago(word[3])))
	case line == "its heartbeat is touched":
		s.agent.Beat.Touched = s.now()
	case line == "its heartbeat vanishes":
		s.agent.Beat, s.agent.Tasks = protocol.Beat{}, nil
	case line == "its files move":
		s.signs++
		s.agent.Signs = "signs " + strconv.Itoa(s.signs)
	case line == "its files come back":
		s.agent.Signs = "signs " + strconv.Itoa(s.signs)
	case line == "its files vanish":
		s.agent.Signs = ""
	case strings.HasPrefix(line, "the operator holds it for "):
		s.agent.Held = last
	case line == "the operator releases it":
		s.agent.Held = ""
	default:
		return false, nil
	}
	return true, nil
}

func (s *stage) beatEvent(rest, last string) error {
	if strings.HasPrefix(rest, " every ") {
		s.beatEvery, s.nextBeat = ago(last), s.elapsed
		return nil
	}
	stamp := s.now()
	if strings.HasPrefix(rest, " stamped ahead ") {
		stamp = stamp.Add(ago(last))
	}
	s.beat(stamp)
	if word, ok := strings.CutPrefix(rest, " saying "); ok {
		s.agent.Status = word
	}
	if text, ok := strings.CutPrefix(rest, " complaining "); ok {
		s.agent.Complaint = text
	} else {
		s.agent.Complaint = ""
	}
	if ids, ok := strings.CutPrefix(rest, " naming "); ok {
		s.agent.Tasks = strings.Fields(strings.TrimPrefix(ids, "nothing"))
	}
	return nil
}

func (s *stage) expect(what string) error {
	first, rest, _ := strings.Cut(what, " ")
	want, got := rest, ""
	switch first {
	case "proof", "silence": // the kind of evidence of a death
		want, got = fmt.Sprint(first == "proof"), fmt.Sprint(s.v.State == protocol.AgentDead && s.v.Proof)
	case "changed", "unchanged":
		want, got = first, map[bool]string{true: "changed", false: "unchanged"}[s.changed]
	case "reason":
		got = string(s.v.Reason)
	case "error":
		got = s.v.Error
		if !s.v.InError {
			got = "none"
		}
	case "due":
		got = "never"
		if !s.v.Deadline.IsZero() {
			got = (s.v.Deadline.Sub(epoch.Add(s.offset))).Truncate(time.Second).String()
		}
	case "silent":
		got = s.v.Silent.Truncate(time.Second).String()
	case "fresh", "stale":
		limits := s.cfg.For(s.protocol, s.agent.Name)
		want, got = first, map[bool]string{true: "fresh", false: "stale"}[Fresh(s.agent, s.m, limits)]
	case "dropped":
		got = strings.Join(slices.Sorted(slices.Values(s.m.Dropped)), " ")
	default:
		state, why, _ := strings.Cut(what, " because ")
		if string(s.v.State) != state {
			return fmt.Errorf("got %s", s.v.State)
		}
		if !strings.Contains(said(s.v.Cause), why) {
			return fmt.Errorf("got because %s", said(s.v.Cause))
		}
		want = ""
	}
	if want != got {
		return fmt.Errorf("got %s", got)
	}
	return nil
}
