package capacity_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/protocol"
)

// settings are those of the scripts in testdata and equal the shipped defaults.
func settings() capacity.Config {
	return capacity.Config{
		Threshold: 0.8, RetryAfter: time.Minute, Hysteresis: 0.05, Calm: 3 * time.Second, CalmMemory: 10 * time.Second,
		PromoteAfter: 10 * time.Minute, AlarmAfter: 10 * time.Minute, StarveAfter: 30 * time.Minute, Near: 0.1,
		ClaimCores: 1, ClaimMemoryMB: 1024, ClaimDecays: 10 * time.Second, ClaimLapses: 30 * time.Second,
		SampleEvery: time.Second, SampleNear: 250 * time.Millisecond, SampleIdle: 4 * time.Second,
	}
}

var midnight = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// The scripts in testdata read like this (see testdata/README.txt):
//
//	at 00:10
//	load memory 0.93
//	task t7 high
//	-> 00:10 hold t7: memory is at 93 %, over the limit of 80 %
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.script")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".script"), func(t *testing.T) {
			want, got := play(t, file)
			if want != got {
				t.Errorf("%s\nwant:\n%s\ngot:\n%s", file, want, got)
			}
		})
	}
}

// play runs a script; it returns the expected and the actual lines.
func play(t *testing.T, file string) (want, got string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m := &stage{cfg: settings(), agents: map[string]protocol.Share{}, now: midnight, sampling: true}
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if expected, ok := strings.CutPrefix(line, "-> "); ok {
			want += expected + "\n"
			continue
		}
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := m.do(strings.Fields(line)); err != nil {
			t.Fatalf("%s:%d: %q: %v", file, n, line, err)
		}
	}
	m.judge()
	return want, m.log.String()
}

// stage is the state of one script.
type stage struct {
	cfg      capacity.Config
	now      time.Time
	load     capacity.Load
	sampling bool
	tasks    []capacity.Waiter
	agents   map[string]protocol.Share
	mem      capacity.Memory
	wake     time.Time
	log      strings.Builder
}

func (m *stage) do(words []string) error {
	switch words[0] {
	case "at":
		return m.goTo(words[1])
	case "asleep":
		to, err := readClock(words[2])
		m.judge()
		m.now = to
		m.sample()
		return err
	case "gauge":
		m.sampling = words[1] == "works"
	case "load":
		return m.setLoad(words[1:])
	case "agent":
		share, err := readShare(words[2])
		m.agents[words[1]] = share
		return err
	case "task":
		return m.addTask(words[1:])
	case "gone":
		m.drop(words[1])
	case "restart":
		return m.restart()
	case "forget":
		m.mem = capacity.Memory{}
	case "show":
		return m.show(words[1])
	default:
		return fmt.Errorf("no such word")
	}
	return nil
}

// goTo samples and judges at every second up to the given time.
func (m *stage) goTo(clock string) error {
	to, err := readClock(clock)
	if err != nil {
		return err
	}
	for m.now.Before(to) {
		m.judge()
		m.now = m.now.Add(time.Second)
	}
	m.sample()
	return nil
}

func (m *stage) sample() {
	if m.sampling {
		m.load.At = m.now
	}
}

func (m *stage) judge() {
	m.sample()
	for i := range m.tasks {
		m.tasks[i].AgentUsed = m.agents[m.tasks[i].Agent.ID]
	}
	verdicts, mem, wake := capacity.Admit(capacity.Work{Waiters: m.tasks}, m.load, m.mem, m.now, m.cfg)
	m.mem, m.wake = mem, wake
	for _, v := range verdicts {
		m.follow(v)
	}
}

// follow applies a verdict and records the changes.
func (m *stage) follow(v capacity.Verdict) {
	for i, w := range m.tasks {
		if w.Subject != v.Subject {
			continue
		}
		if v.Admit {
			m.note("admit %s", v.Subject.ID)
			m.drop(v.Subject.ID)
		} else if !w.Held {
			m.note("hold %s: %s", v.Subject.ID, said(v))
			m.tasks[i].Held = true
		}
		return
	}
}

func (m *stage) note(format string, args ...any) {
	fmt.Fprintf(&m.log, m.clock(m.now)+" "+format+"\n", args...)
}

func (m *stage) clock(t time.Time) string {
	s := int(t.Sub(midnight).Round(time.Second).Seconds())
	return fmt.Sprintf("%02d:%02d", s/60, s%60)
}

func (m *stage) setLoad(words []string) error {
	for i := 0; i+1 < len(words); i += 2 {
		share, err := readShare(words[i+1])
		if err != nil {
			return err
		}
		switch words[i] {
		case "cpu":
			m.load.CPU = share
		case "memory":
			m.load.Memory = share
		case "files":
			m.load.Files = share
		case "disk":
			m.load.Disk = share
		default:
			return fmt.Errorf("no dimension %q", words[i])
		}
	}
	return nil
}

func (m *stage) addTask(words []string) error {
	p, known := protocol.ParsePriority(words[1])
	if !known {
		return fmt.Errorf("no priority %q", words[1])
	}
	w := capacity.Waiter{Subject: task(words[0]), Priority: p, Since: m.now}
	for i := 2; i+1 < len(words); i += 2 {
		var err error
		switch words[i] {
		case "throttle":
			w.Throttle, err = readShare(words[i+1])
		case "for":
			w.Agent = protocol.Subject{Project: "demo", Kind: protocol.KindAgent, ID: words[i+1]}
		default:
			err = fmt.Errorf("no such word %q", words[i])
		}
		if err != nil {
			return err
		}
	}
	m.tasks = append(m.tasks, w)
	return nil
}

func (m *stage) drop(id string) {
	for i, w := range m.tasks {
		if w.Subject.ID == id {
			m.tasks = append(m.tasks[:i:i], m.tasks[i+1:]...)
			return
		}
	}
}

// restart converts the memory to its stored form and back.
func (m *stage) restart() error {
	b, err := json.Marshal(m.mem)
	if err != nil {
		return err
	}
	m.mem = capacity.Memory{}
	return json.Unmarshal(b, &m.mem)
}

// show prints state that is not visible in holds and admissions.
func (m *stage) show(what string) error {
	m.judge()
	switch what {
	case "wake":
		if m.wake.IsZero() {
			m.note("wakes never")
		} else {
			m.note("wakes at %s", m.clock(m.wake))
		}
	case "gates":
		for _, g := range m.mem.Closed(m.cfg) {
			m.note("%s keeps %d since %s", strings.TrimSpace(g.Dimension+" "+g.Agent.ID), g.Waiting, m.clock(g.Since))
		}
	case "memory":
		m.note("remembers %d", len(m.mem.Held))
	default:
		return fmt.Errorf("nothing to show")
	}
	return nil
}

func task(id string) protocol.Subject {
	return protocol.Subject{Project: "demo", Protocol: "agentstatus", Kind: protocol.KindTask, ID: id}
}

func readShare(word string) (protocol.Share, error) {
	if word == "unknown" {
		return protocol.Share{}, nil
	}
	v, err := strconv.ParseFloat(word, 64)
	return protocol.Used(v), err
}

func readClock(word string) (time.Time, error) {
	var minutes, seconds int
	if _, err := fmt.Sscanf(word, "%d:%d", &minutes, &seconds); err != nil {
		return time.Time{}, err
	}
	return midnight.Add(time.Duration(minutes)*time.Minute + time.Duration(seconds)*time.Second), nil
}
