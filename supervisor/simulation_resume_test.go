package supervisor_test

import (
	"slices"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor/decide"
)

// resume is what the laws about a resume remember of this run of steward.
type resume struct {
	until  time.Time // the end of the grace; zero: no resume in this run
	paced  time.Time // when the last overdue retry was released
	run    int
	forgot time.Time // when a run last began without the newest memory
	blind  bool      // steward is away, and the clock was set back since: what ends now may seem to have ended long ago
}

// reissuePace is how far apart the overdue retries are released after a resume.
const reissuePace = 5 * time.Second

// checkResume: within the grace after a resume no agent dies by silence, no lock is broken and no work is given up, and
// the retries that fell due before its end are released one by one.
func (m *simulation) checkResume(v decide.View, p decide.Plan) {
	r := &m.resume
	if r.run != m.brain.starts {
		r.run, r.until, r.paced = m.brain.starts, time.Time{}, time.Time{}
	}
	if end := v.Now.Add(m.cfg.Heartbeat.ResumeGrace); v.Resumed || r.until.After(end) {
		r.until = end
	}
	if v.Now.Before(r.until) {
		m.checkGrace(p, v)
	}
	for _, c := range p.Changes {
		if h := taskIn(v, c.Subject).Hold; c.Verb == protocol.VerbRelease && c.Reason == protocol.ReasonDue && h != nil &&
			h.Reason == protocol.HoldRetry && h.NotBefore.Before(r.until) && !m.back {
			if d := v.Now.Sub(r.paced); d < reissuePace {
				m.Fatalf("pace: %s, which fell due at %v, is released %v after another overdue retry", c.Subject, h.NotBefore, d)
			}
			r.paced = v.Now
		}
	}
}

func (m *simulation) checkGrace(p decide.Plan, v decide.View) {
	for subject, a := range p.Agents.All() {
		if a.State == protocol.AgentDead && a.Changed && !a.Proof {
			m.Fatalf("grace: %s is called dead by silence within the grace until %v: %+v", subject, m.resume.until, a.Cause)
		}
	}
	for _, c := range p.Changes {
		switch {
		case c.Verb == protocol.VerbUnlock:
			m.Fatalf("grace: %s is broken within the grace until %v: %s", c.Subject, m.resume.until, c.Why)
		case c.Verb == protocol.VerbConclude && (c.Twice || taskIn(v, c.Subject).Lost != ""):
			m.Fatalf("grace: %s is given up within the grace until %v: %s", c.Subject, m.resume.until, c.Why)
		}
	}
}

// checkTwice: work that is given up because its agent is silent, without proof that the agent is gone, may have run twice,
// and every run after it says so.
func (m *simulation) checkTwice(v decide.View, p decide.Plan) {
	for _, c := range p.Changes {
		t := taskIn(v, c.Subject)
		switch {
		case c.Twice:
		case c.Verb == protocol.VerbConclude && len(t.Workers) == 0 && t.Lost == "":
			agent := c.Subject
			agent.Kind, agent.ID = protocol.KindAgent, t.Agent
			if a := p.Agents.Of(agent); a.State == protocol.AgentDead && !a.Proof {
				m.Fatalf("twice: %s is given up by silence, and not marked as possibly run twice: %s", c.Subject, c.Why)
			}
		case c.Verb == protocol.VerbRetry && t.Outcome != nil && t.Outcome.Twice:
			m.Fatalf("twice: %s is issued again after a run that may go on, and not marked as possibly run twice", c.Subject)
		}
	}
}

// checkResult sees each change before it is made: a client's deferral stays readable for a while, and the first result of
// an attempt is never filed as a second one.
func (m *simulation) checkResult(c protocol.Change) {
	card := m.cardOf(c.Subject)
	if card == nil || card.result == nil || c.Ref != card.result.Ref || c.Rule == "operator" {
		return
	}
	j, o := m.job(card), card.result
	switch {
	case c.Verb == protocol.VerbRetry && o.Status == "deferred" && !o.Ours && !m.back && m.now().Before(o.Appeared.Add(m.cfg.Tasks.Settle)):
		m.Fatalf("settle: the deferral of %s by its client is lifted %v after it came", c.Subject, m.now().Sub(o.Appeared))
	case c.Verb == protocol.VerbFile && !o.Ours && j.first:
		m.Fatalf("lost: the only result of an attempt at %s (%s) is filed as a second one", c.Subject, word(*o))
	}
}

func (m *simulation) cardOf(subject protocol.Subject) *card {
	if j := m.jobs[subject]; j != nil && subject.Kind == protocol.KindTask {
		return j.s.files.cards[j.id]
	}
	return nil
}

// prove enters what an adapter proves of work that nobody does any more.
func (m *simulation) prove(s *site, tasks []protocol.Task) {
	for i := range tasks {
		t := &tasks[i]
		c := s.files.cards[t.ID]
		if t.Lost = ""; !s.proves || t.Named == "" || len(t.Workers) > 0 {
			continue
		}
		if !slices.ContainsFunc(m.works, func(w *attempt) bool { return w.c == c && w.lives() }) && !m.handed(s, c) {
			t.Lost = "the process that took it is gone"
		}
	}
}

// handed reports whether a living process of the project still writes its result of the task.
func (m *simulation) handed(s *site, c *card) bool {
	for _, a := range s.actors {
		if slices.ContainsFunc(a.serving(), func(p *proc) bool { return p.has(c) }) {
			return true
		}
	}
	return false
}

// dozes lets the machine sleep where much depends on it: retries wait, an agent is about to be called dead, work has just
// been lost, or the memory cannot be saved.
func (m *simulation) dozes() bool {
	if !m.odds(15) {
		return false
	}
	waiting, ripe := 0, m.brain.unsave
	for _, s := range m.sites {
		for _, id := range s.files.order {
			if h := s.files.cards[id].hold(); h != nil && h.Reason == protocol.HoldRetry && h.NotBefore.After(m.now()) {
				waiting++
			}
		}
		for _, a := range s.actors {
			silent := m.awake - a.heard
			ripe = ripe || silent > 55*time.Second && silent < 85*time.Second
		}
	}
	if waiting < 2 && !ripe {
		return false
	}
	m.sleeps(m.between(time.Minute, 30*time.Minute))
	return true
}

// sleeps lets the machine sleep: its clock moves, and nothing else does.
func (m *simulation) sleeps(d time.Duration) {
	m.offset += d
	m.set, m.stepped = true, m.awake
	m.note("the machine sleeps for %v", d)
}

// remembers gives a run of steward the memory that it finds: now and then none, because it is lost, damaged or of a newer
// steward, or an older one, from a copy.
func (b *brain) remembers() decide.Memory {
	m := b.m
	if m.kind != mixed || b.starts == 0 || !m.odds(15) {
		return b.saved
	}
	m.resume.forgot = m.now()
	for _, s := range m.sites {
		s.paid = nil // the budget of the hour may start anew
	}
	clear(m.promises.hold)
	if len(b.copies) > 0 && m.odds(50) {
		m.note("steward finds an older memory")
		return pick(m, b.copies)
	}
	m.note("steward finds no memory")
	return decide.Memory{}
}

// copySaved keeps a copy of the memory now and then.
func (b *brain) copySaved() {
	if b.m.kind == mixed && b.m.awake-b.copied > 20*time.Second {
		b.copied = b.m.awake
		b.copies = append(b.copies, b.saved)
	}
}

// checkEffort: a change that fails is tried again for a while only, and more and more seldom.
func (m *simulation) checkEffort(d *place, c protocol.Change, err error) {
	key := string(c.Verb) + " " + c.Subject.String() + " " + c.Event
	if err == nil {
		delete(d.failures, key)
		return
	}
	list := slices.DeleteFunc(d.failures[key], func(at time.Duration) bool { return m.awake-at > time.Minute })
	if d.failures[key] = append(list, m.awake); len(list) >= 12 {
		m.Fatalf("no rest: %s of %s fails for the %dth time within a minute: %v", c.Verb, c.Subject, len(list)+1, err)
	}
}
