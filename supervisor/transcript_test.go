package supervisor_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor"
)

// The scripts in testdata are for reading; testdata/README.txt tells their words. Every file of an archive is a
// scene of its own. Lines that begin with "->" are everything that steward does in it.
func TestTranscripts(t *testing.T) {
	archives, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range archives {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, scene := range archive.Files {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar")+"/"+scene.Name, func(t *testing.T) {
				t.Parallel()
				play(t, string(scene.Data))
			})
		}
	}
}

func play(t *testing.T, script string) {
	t.Helper()
	s := newStage(t)
	want := ""
	for n, line := range strings.Split(script, "\n") {
		line = strings.TrimSpace(line)
		if expected, ok := strings.CutPrefix(line, "-> "); ok {
			want += expected + "\n"
			continue
		}
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := s.do(line); err != nil {
			t.Fatalf("line %d: %q: %v", n+1, line, err)
		}
	}
	s.rest()
	if got := s.log.String(); got != want {
		t.Errorf("want:\n%s\ngot:\n%s", want, got)
	}
}

func (s *stage) do(line string) error {
	words := strings.Fields(line)
	verb, words := words[0], words[1:]
	act, ok := map[string]func([]string) error{
		"at": s.doAt, "sleep": s.doSleep, "clock": s.doClock, "absent": s.doAbsent, "agent": s.doAgent, "task": s.doTask, "result": s.doResult, "load": s.doLoad, "show": s.doShow,
		"once": s.doOnce, "state": s.doState, "release": s.doRelease, "retries": s.doRetries,
		"lock": s.doLock, "plea": s.doPlea, "finding": s.doFinding, "event": s.doEvent, "mode": s.doMode,
		"fault": s.doFault, "trouble": s.doTrouble, "settle": s.doSettle, "say": s.doSay, "press": s.doPress,
		"hung": s.doHung, "doubt": s.doDoubt, "ask": s.doAsk, "daemon": s.doDaemon, "claims": s.doClaims, "explain": s.doExplain, "eater": s.doEater,
	}[verb]
	if !ok {
		return fmt.Errorf("no such word")
	}
	return act(words)
}

func readClock(word string) (time.Time, error) {
	var minutes, seconds int
	if _, err := fmt.Sscanf(word, "%d:%d", &minutes, &seconds); err != nil {
		return time.Time{}, err
	}
	return midnight.Add(time.Duration(minutes)*time.Minute + time.Duration(seconds)*time.Second), nil
}

func (s *stage) doAt(w []string) error {
	to, err := readClock(w[0])
	s.until(to)
	return err
}

// doSleep: the whole machine sleeps, the agents too.
func (s *stage) doSleep(w []string) error {
	to, err := readClock(w[1])
	s.rest()
	for _, f := range s.folders {
		for _, a := range f.sims {
			a.next = a.next.Add(to.Sub(s.now))
		}
	}
	s.eyes.slept += to.Sub(s.now)
	s.now, s.resumed = to, true
	return err
}

// doClock: the clock is set, back or forth. To its processes that is as if the machine had slept.
func (s *stage) doClock(w []string) error { return s.doSleep([]string{"until", w[0]}) }

// doAbsent: steward alone is away; another process of it starts later.
func (s *stage) doAbsent(w []string) error {
	to, err := readClock(w[1])
	if s.ran {
		s.rest()
	}
	s.restart()
	s.now = to
	for _, f := range s.folders { // whoever looks anew knows nothing of how long
		for i := range f.foreign.faults {
			f.foreign.faults[i].Since = to
		}
	}
	return err
}

func (s *stage) doOnce([]string) error {
	s.once = true
	s.restart()
	s.rest()
	return nil
}

// doDaemon: after single looks, one that stays.
func (s *stage) doDaemon([]string) error {
	s.once = false
	s.restart()
	return nil
}

func (s *stage) doLoad(w []string) error {
	for i := 0; i+1 < len(w); i += 2 {
		share := protocol.Share{}
		v := 0.0
		if w[i+1] != "unknown" {
			var err error
			if v, err = strconv.ParseFloat(w[i+1], 64); err != nil {
				return err
			}
			share = protocol.Used(v)
		}
		switch w[i] {
		case "cpu":
			s.load.CPU = share
		case "memory":
			s.load.Memory = share
		case "files":
			s.load.Files = share
		case "disk":
			s.load.Disk = share
		case "cores":
			s.load.Cores, s.load.Window = v, time.Second
		case "gigabytes":
			s.load.MemoryTotal = uint64(v * (1 << 30))
		case "exhausted": // in so many seconds
			s.load.Exhausted = time.Duration(v * float64(time.Second))
		}
	}
	return nil
}

func (s *stage) doShow(w []string) error {
	s.show[protocol.Verb(w[0])] = true
	return nil
}

func (s *stage) doRetries(w []string) (err error) {
	s.cfg.Tasks.RetriesPerHour, err = strconv.Atoi(w[1])
	return err
}

func (s *stage) doState(w []string) error {
	s.rest()
	subject := protocol.Subject{Project: "demo", Protocol: "agentstatus", Kind: protocol.KindTask, ID: w[0]}
	if v, ok := s.plan.Tasks.Find(subject); ok {
		s.note("%s is %s", w[0], v.State)
		return nil
	}
	subject.Kind = protocol.KindAgent
	s.note("%s is %s", w[0], s.plan.Agents.Of(subject).State)
	return nil
}

// doRelease: somebody else releases a held task.
func (s *stage) doRelease(w []string) error { return s.demo().show(s.demo().cards[w[0]], s.now) }

// doAsk: a worker asks whether it may begin a task, or somebody whether he may start a program.
func (s *stage) doAsk(w []string) error {
	s.rest()
	if s.asks == nil {
		s.asks = &supervisor.Admissions{State: func() *supervisor.State {
			return &supervisor.State{View: s.look(), Plan: s.plan, Config: s.cfg, Projects: []supervisor.ProjectStatus{{Name: "demo", Path: "/demo"}}}
		}}
	}
	q, name := supervisor.Admission{Project: "/demo", Task: w[0]}, w[0]
	if w[0] == "for" {
		q, name = supervisor.Admission{Project: "/demo", Who: w[1], PID: 77}, w[1]
	}
	word := "must wait"
	answer := s.asks.Ask(q, s.now)
	if answer.Admit {
		word = "may begin"
	}
	s.note("%s %s: %s", name, word, answer.Why)
	return nil
}

func (s *stage) sim(name string) *sim {
	for _, a := range s.demo().sims {
		if a.agent.Name == name {
			return a
		}
	}
	a := &sim{agent: protocol.Agent{Name: name, Status: "active", Recorded: "active", Ref: protocol.Ref{Path: "registry"}}, every: 15 * time.Second, next: s.now}
	s.demo().sims = append(s.demo().sims, a)
	return a
}

func (s *stage) doAgent(w []string) error {
	a := s.sim(w[0])
	switch w[1] {
	case "beats":
		a.silent, a.next = false, s.now
		a.agent.Status = "active"
	case "silent":
		a.silent = true
	case "process":
		if a.agent.Process.PID == 0 || w[2] == "new" {
			a.agent.Process = protocol.Identity{PID: 4242 + len(s.processes), Start: 7, Boot: "b"}
			w[2] = "alive"
		}
		s.processes[a.agent.Process] = heartbeat.ProcessState(w[2])
	case "names":
		a.tasks = w[2:]
	case "drops":
		a.tasks = slices.DeleteFunc(a.tasks, func(id string) bool { return slices.Contains(w[2:], id) })
	case "says":
		a.agent.Status = w[2]
	case "complains":
		a.agent.Complaint = strings.Join(w[2:], " ")
	case "used":
		v, err := strconv.ParseFloat(w[2], 64)
		a.agent.Used = protocol.Used(v)
		return err
	case "takes":
		return s.take(a.agent.Process, w[2:])
	case "last":
		to, err := readClock(w[2])
		a.agent.Beat, a.silent = protocol.Beat{Mark: "old", Touched: to, At: to}, true
		return err
	case "recorded":
		a.agent.Recorded = w[2]
	default:
		return s.doForeignAgent(a, w[1:])
	}
	return nil
}

func (s *stage) doTask(w []string) error {
	c := s.demo().cards[w[0]]
	switch w[1] {
	case "appears":
		return s.appear(w[0], w[2:])
	case "taken":
		c.named = "active_tasks"
	case "untaken":
		c.named = ""
	case "progress":
		c.named, c.progress = "progress", s.now
	case "at": // 40: it reports so many percent
		c.named, c.progress = "progress", s.now
		percent, err := strconv.ParseFloat(w[2], 64)
		c.percent = percent
		return err
	case "silent":
		c.task.Silent = true
	case "blocked":
		c.task.Block = strings.Join(w[3:], " ")
	case "free":
		c.task.Block = ""
	case "takes": // what the processes take that do nothing else
		return s.take(c.workers[len(c.workers)-1], w[2:])
	case "half-held": // a crash came between the notice and the hold
		c.notice = &protocol.Hold{Reason: protocol.HoldCapacity, ReleaseBy: s.now.Add(time.Minute)}
	case "half-retried": // a crash came between the schedule and the commit
		c.ledger = append(c.ledger, protocol.Attempt{N: len(c.ledger) + 1, Action: protocol.ActionRetry, Rule: "severity=warning", Code: "FLAKY", Due: s.now.Add(20 * time.Second)})
		c.open, c.held = false, true
		if len(w) > 2 { // by the operator
			k := &c.ledger[len(c.ledger)-1]
			k.Rule, k.Code, k.Due = "operator", "OPERATOR", s.now
		}
	case "retried": // an earlier steward took a result away and issued it again
		c.ledger = append(c.ledger, protocol.Attempt{N: len(c.ledger) + 1, Action: protocol.ActionRetry, Rule: w[2], Code: w[2], Due: s.now, Committed: true})
	case "unread": // what its ledger says of the last attempt cannot be read; "read": it can again
		c.ledger[len(c.ledger)-1].Unread = true
	case "read":
		c.ledger[len(c.ledger)-1].Unread = false
	case "loses":
		c.task.Ref = protocol.Ref{}
	default:
		return s.doForeignTask(c, w[1:])
	}
	return nil
}

func (s *stage) appear(id string, w []string) (err error) {
	t := protocol.Task{Request: protocol.Request{ID: id, Agent: "codex", Source: "livhana", Type: "execute", Priority: protocol.PriorityMedium, Timeout: 300 * time.Second}}
	since := s.now
	for i := 0; i+1 < len(w); i += 2 {
		switch w[i] {
		case "for":
			t.Agent = w[i+1]
		case "priority":
			t.Priority, _ = protocol.ParsePriority(w[i+1])
		case "timeout":
			t.Timeout, err = time.ParseDuration(w[i+1])
		case "throttle":
			v, e := strconv.ParseFloat(w[i+1], 64)
			t.Throttle, err = protocol.Used(v), e
		case "payload":
			t.Payload = w[i+1]
		case "type":
			t.Type = w[i+1]
		case "titled":
			t.Title = strings.ReplaceAll(w[i+1], "_", " ")
		case "asked":
			t.Directive = strings.ReplaceAll(w[i+1], "_", " ")
		case "updates":
			t.Progress.Every, err = time.ParseDuration(w[i+1])
		case "voice":
			t.Voice, t.Blocking = true, w[i+1] == "waits"
		case "names":
			t.Related = []string{w[i+1]}
		case "blocked":
			t.Block = w[i+1]
		case "since":
			since, err = readClock(w[i+1])
		default:
			return fmt.Errorf("no such word %q", w[i])
		}
	}
	s.demo().submit(t, since)
	return err
}

func (s *stage) doResult(w []string) error {
	f, id := s.demo(), w[0]
	if f.cards[id] == nil {
		s.demo().submit(protocol.Task{Request: protocol.Request{ID: id, Agent: "codex"}}, s.now)
	}
	o := protocol.Outcome{Status: w[1], Agent: f.cards[id].task.Agent}
	rest, since := w[2:], s.now
	if o.Status == "failed" && len(rest) > 0 {
		o.Failures = []protocol.Failure{{Code: rest[0], Message: "it went wrong"}}
		rest = rest[1:]
	}
	for i := 0; i+1 < len(rest); i += 2 {
		switch rest[i] {
		case "severity":
			o.Failures[0].Severity = rest[i+1]
		case "asks":
			o.ForHuman = []string{strings.Join(rest[i+1:], " ")}
			i = len(rest)
		case "says":
			o.Failures[0].Message = strings.Join(rest[i+1:], " ")
			i = len(rest)
		case "after":
			d, err := time.ParseDuration(rest[i+1])
			if err != nil {
				return err
			}
			o.RetryAfter = d
		case "since":
			to, err := readClock(rest[i+1])
			if err != nil {
				return err
			}
			since = to
		case "took":
			o.Took, _ = time.ParseDuration(rest[i+1])
		}
	}
	if o.Status == "late" {
		f.cards[id].late = &protocol.Ref{Path: "late", Sum: "late"}
		return nil
	}
	f.finish(id, o, since)
	return nil
}
