package supervisor_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
)

// job is what a task really is: what it costs, how long it takes, how its attempts end.
type job struct {
	s         *site
	id        string
	cores     float64
	memory    uint64
	lasts     time.Duration
	script    []protocol.Outcome // of the first attempts; then it is completed
	hopeless  bool               // it fails like the last of the script for ever
	starts    int
	reported  map[int]bool  // those of them that have their result
	had       map[int]bool  // those of them of which any result came
	first     bool          // the result that lies there is the first of its attempt
	mixed     bool          // the result of a lost attempt was taken for that of the present one
	blind     bool          // its result came while steward was away, and after the clock was set back in that time
	shown     time.Duration // when the request came into sight last
	delivered bool          // a completed result was handed in
	admitted  bool          // admitted, and not over
	taken     bool          // in hand
	since     time.Duration // when it was admitted
	last      protocol.TaskState
	why       string
	asked     time.Duration
	starves   time.Duration // since when it waits for room
	shut      time.Duration // since when it waits before a gate that was shut all the time
	failed    time.Duration // since when it has failed for good, and nobody was told
}

// job returns the job of a card.
func (m *simulation) job(c *card) *job { return m.brain.jobs[c] }

// assign enters all work: when it comes, who does it, and how it ends.
func (m *simulation) assign() {
	n := 3 + m.chance.IntN(15)
	if m.odds(20) {
		n += m.chance.IntN(43)
	}
	if m.kind == herded {
		n = 20 + m.chance.IntN(31)
	}
	for i := range n {
		s := pick(m, m.sites)
		if len(s.actors) == 0 {
			continue
		}
		id, a := fmt.Sprintf("t%02d", i+1), pick(m, s.actors)
		at := m.between(10*time.Second, m.lasting())
		if m.kind == herded {
			at = 10*time.Second + m.between(0, time.Second)
		}
		m.after(at, func() { m.submit(s, a, id) })
	}
}

// lasting is how long things go on happening.
func (m *simulation) lasting() time.Duration {
	if m.kind == herded {
		return time.Minute
	}
	return time.Duration(3+m.seed%6) * time.Minute
}

// submit puts a request into a project.
func (m *simulation) submit(s *site, a *actor, id string) {
	if s.gone {
		m.after(5*time.Second, func() { m.submit(s, a, id) })
		return
	}
	t := protocol.Task{Request: protocol.Request{
		ID: id, Agent: a.name, Source: "livhana", Type: "execute", Priority: protocol.Priority(m.chance.IntN(4)),
		Timeout: m.between(time.Minute, 6*time.Minute),
	}}
	j := &job{s: s, id: id, cores: 1, memory: 256 << 20, lasts: m.between(5*time.Second, 90*time.Second), reported: map[int]bool{}, had: map[int]bool{}, shown: m.awake, asked: m.awake, shut: m.awake, starves: m.awake, failed: m.awake}
	if m.kind == herded {
		j.lasts = m.between(10*time.Second, 40*time.Second)
	} else {
		m.vary(&t, j)
	}
	s.files.submit(t, m.now())
	c := s.files.cards[id]
	m.brain.jobs[c] = j
	m.jobs[subjectOf(s, protocol.KindTask, id)] = j
	m.note("%s: %s for %s is asked for: %s, %v of work, %.1f cores, %d MB, then %s", s.name, id, a.name, t.Priority, j.lasts, j.cores, j.memory>>20, told(j))
	m.hint(s)
}

func told(j *job) string {
	var words []string
	for _, o := range j.script {
		words = append(words, word(o))
	}
	if !j.hopeless {
		words = append(words, "completed")
	}
	return strings.Join(words, ", ")
}

// vary makes one task unlike the others.
func (m *simulation) vary(t *protocol.Task, j *job) {
	j.cores, j.memory = float64(1+m.chance.IntN(20))/10, uint64(64+m.chance.IntN(2000))<<20
	switch {
	case m.odds(10): // it takes longer than it may
		j.lasts = t.Timeout + m.between(0, 3*time.Minute)
	case m.odds(20):
		t.Throttle = protocol.Used(float64(pick(m, []int{30, 50, 70, 90})) / 100)
	case m.odds(10):
		t.Progress.Every = 30 * time.Second
	case m.odds(10):
		t.Payload = pick(m, []string{"same", "alike"})
	}
	if m.odds(6) {
		t.Block = "waits for " + pick(m, []string{"t01", "t02"})
		m.after(m.between(20*time.Second, 4*time.Minute), func() { j.s.files.cards[j.id].task.Block = "" })
	}
	for range m.chance.IntN(4) {
		if m.odds(45) {
			j.script = append(j.script, m.failure())
		}
	}
	j.hopeless = len(j.script) > 0 && m.odds(30)
}

// failure draws one of the ways in which attempts fail.
func (m *simulation) failure() protocol.Outcome {
	switch m.chance.IntN(12) {
	case 0:
		return protocol.Outcome{Status: "timeout"}
	case 1:
		return protocol.Outcome{Status: "deferred", RetryAfter: time.Minute}
	case 2:
		return protocol.Outcome{Status: "blocked"}
	case 3:
		return protocol.Outcome{Status: "odd"}
	}
	code := pick(m, []string{"FILE_NOT_FOUND", "GIT_CONFLICT", "FLAKY", "FLAKY", "FLAKY", "RATE_LIMITED", "CAPACITY_EXCEEDED", "EXECUTION_FAILED"})
	f := protocol.Failure{Code: code, Message: "it went wrong", Severity: pick(m, []string{"", "warning", "error", "error", "fatal"})}
	if code == "RATE_LIMITED" {
		f.Message = fmt.Sprintf("too many requests, retry after %d seconds", 30+m.chance.IntN(120))
	}
	return protocol.Outcome{Status: "failed", Failures: []protocol.Failure{f}}
}

// outcome is how this attempt ends.
func (m *simulation) outcome(w *attempt) protocol.Outcome {
	j := m.job(w.c)
	o := protocol.Outcome{Status: "completed"}
	switch n := j.starts - 1; {
	case n < len(j.script):
		o = j.script[n]
	case j.hopeless:
		o = j.script[len(j.script)-1]
	case m.kind == mixed && m.chance.IntN(15) == 0:
		o.ForHuman = []string{"which way?"}
	}
	o.Agent = w.p.a.name
	return o
}
