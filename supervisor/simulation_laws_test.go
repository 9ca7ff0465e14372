package supervisor_test

import (
	"reflect"
	"slices"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor"
	"github.com/livhana/steward/supervisor/decide"
)

// How much the laws notice is measured by breaking one rule at a time. Within 200 seeds they fail when
//   - a silent agent's work is given up before its deadline (early, seed 7),
//   - work given up by silence is not marked as possibly run twice (twice, seed 4),
//   - silence kills within the grace after a resume (grace, seed 17),
//   - a client's deferral is lifted at once (settle, seed 6),
//   - work proved to be lost is given up within the grace (grace, seed 28),
//   - history does not reach back over a time without scans (lost, seed 164),
//   - a failing change is tried again without a pause (no rest, seed 53).
// They do not notice within 200 seeds when history ignores that the memory could not be saved, or when exits of processes are
// ignored until the next scan. TestSampleAfterSleep names a rule that they do not reach at all.

// Nobody can tell a process that has stopped beating from one that ended unless its identity is on record. What follows
// says what steward may do to whom, by what really is so.

// lively reports whether the agent gives what steward must see as life: it beats, or a process on record lives.
func (a *actor) lively() bool {
	if a.able() && a.m.awake-a.heard < 75*time.Second {
		return true
	}
	return a.proof == recorded && len(a.serving()) > 0
}

// seen reports whether the last look is young, and showed the agent as it has been since.
func (d *place) seen(a *actor) bool {
	return d.looked && a.m.awake-d.fullAt < 6*time.Second && a.turned < d.fullAt
}

// unseen reports whether the agent changed after the last look, which is young: nobody could know.
func (d *place) unseen(a *actor) bool {
	return a.turned >= d.fullAt && a.m.awake-d.fullAt < 6*time.Second
}

// checkTake is the law that nothing is issued twice: whoever takes a task is alone with it, unless the ledger says that
// it may run twice, and what is completed is never begun again.
func (m *simulation) checkTake(w *attempt) {
	j := m.job(w.c)
	twice := slices.ContainsFunc(w.c.ledger, func(k protocol.Attempt) bool { return k.Twice })
	for _, other := range m.works {
		if other.c == w.c && other.lives() && !twice {
			m.Fatalf("issued twice: %s is begun by %s (%d) while process %d has it since %v", w.id, w.p.a.name, w.p.id.PID, other.p.id.PID, other.from)
		}
	}
	if j.delivered {
		m.Fatalf("issued twice: %s is begun again although it was completed", w.id)
	}
	if j.reported[w.n] && !twice {
		m.Fatalf("issued twice: %s is begun again without a retry on record, although its attempt %d has had a result", w.id, w.n+1)
	}
	j.starts++
}

// takenAway counts the results that are on record as taken away.
func (c *card) takenAway() (n int) {
	for _, k := range c.ledger {
		if k.Committed {
			n++
		}
	}
	return n
}

// inHand lists the attempts at a task that live, and did before the last look.
func (m *simulation) inHand(d *place, id string) (list []*attempt) {
	for _, w := range m.works {
		if w.id == id && w.p.a.s == d.s && w.lives() && w.from < d.fullAt {
			list = append(list, w)
		}
	}
	return list
}

// checkChange is the law that no living agent is harmed. It sees each change in the moment before it is made.
func (m *simulation) checkChange(d *place, c protocol.Change) {
	if c.Reason == protocol.ReasonOperator || c.Reason == protocol.ReasonStopping {
		return
	}
	m.checkEarly(d, c)
	m.checkResult(c)
	switch c.Verb {
	case protocol.VerbReap:
		m.Fatalf("harm: %s of %s, which has left nobody behind", c.Verb, c.Subject)
	case protocol.VerbMark:
		if a := d.s.actor(c.Subject.ID); c.Status == "error" && a != nil && a.lively() && d.seen(a) {
			m.Fatalf("harm: %s is entered as %s, and lives: %s", c.Subject, c.Status, c.Why)
		}
	case protocol.VerbUnlock:
		m.checkUnlock(d, c)
	case protocol.VerbConclude, protocol.VerbRequeue, protocol.VerbRetry, protocol.VerbCancel, protocol.VerbBury:
		card := d.s.files.cards[c.Subject.ID]
		for _, w := range m.inHand(d, c.Subject.ID) {
			marked := c.Twice || slices.ContainsFunc(card.ledger, func(k protocol.Attempt) bool { return k.Twice })
			if (c.Verb == protocol.VerbCancel || c.Verb == protocol.VerbBury) && card.result != nil { // the result says so itself
				marked = marked || card.result.Twice
			}
			if c.Verb == protocol.VerbConclude && w.p.a.lively() && !d.unseen(w.p.a) && w.p == w.p.a.procs[len(w.p.a.procs)-1] || !marked {
				m.Fatalf("harm: %s of %s, which process %d of %s works on: %s", c.Verb, c.Subject, w.p.id.PID, w.p.a.name, c.Why)
			}
		}
		if card != nil && card.result != nil && card.result.Succeeded() && c.Verb == protocol.VerbRetry && c.Ref == card.result.Ref {
			m.Fatalf("lost: a completed result of %s is taken away", c.Subject)
		}
	}
}

func (s *site) actor(name string) *actor {
	for _, a := range s.actors {
		if a.name == name {
			return a
		}
	}
	return nil
}

func (m *simulation) checkUnlock(d *place, c protocol.Change) {
	for _, l := range d.s.files.foreign.locks {
		a := d.s.actor(l.Holder)
		if l.Resource != c.Subject.ID || a == nil {
			continue
		}
		if l.Process.Proves() && slices.ContainsFunc(a.procs, func(p *proc) bool { return p.id == l.Process && p.alive }) ||
			!l.Process.Proves() && a.lively() && d.seen(a) {
			m.Fatalf("harm: the lock on %s of %s, which lives, is broken: %s", l.Resource, l.Holder, c.Why)
		}
	}
}

// ended is what matters of a card before a change.
type ended struct{ committed int }

func snapshotOf(c *card) (e ended) {
	if c == nil {
		return e
	}
	for _, k := range c.ledger {
		if k.Committed {
			e.committed++
		}
	}
	return e
}

// checkApplied compares the ledger with the rules after each change.
func (m *simulation) checkApplied(d *place, c protocol.Change, before ended, err error) {
	card := d.s.files.cards[c.Subject.ID]
	if card == nil || c.Subject.Kind != protocol.KindTask {
		return
	}
	if card.open == card.held {
		m.Fatalf("lost: the request of %s lies in %v places", c.Subject, map[bool]int{false: 0, true: 2}[card.open])
	}
	m.checkRecord(d, card, c, err)
	for n, o := range card.taken {
		if o.Succeeded() {
			m.Fatalf("lost: result %d of %s was a success, and is filed away", n, c.Subject)
		}
	}
	if now := snapshotOf(card); now.committed == before.committed || c.Action != protocol.ActionRetry || c.Rule == "operator" {
		return
	}
	m.checkAttempts(d.s, card)
}

// checkAttempts: no rule is ever used more often than it allows, nor any project's budget of an hour.
func (m *simulation) checkAttempts(s *site, c *card) {
	spent, all := map[string]int{}, 0
	for _, k := range c.ledger {
		if k.Committed && k.Rule != "operator" {
			spent[k.Rule]++
			if k.Action == protocol.ActionRetry {
				all++
			}
		}
	}
	for _, rule := range m.cfg.Retry.Rules {
		n, most := spent[rule.Name()], rule.Attempts
		if rule.Action == protocol.ActionRetry {
			most-- // the first attempt is none of the rule's
		}
		if n > max(most, 0) || all >= m.cfg.Retry.MaxAttempts {
			m.Fatalf("attempts: %s was issued %d times more by %s, which allows %d", c.task.ID, n, rule.Name(), most)
		}
	}
	now := m.now()
	s.paid = append(slices.DeleteFunc(s.paid, func(at time.Time) bool { return now.Sub(at) >= 55*time.Minute }), now) // they were paid for some time before they were made
	if len(s.paid) > m.cfg.Tasks.RetriesPerHour && !m.back {
		m.Fatalf("attempts: %d retries within an hour in %s, which may have %d", len(s.paid), s.name, m.cfg.Tasks.RetriesPerHour)
	}
}

// checkPlan sees every decision.
func (m *simulation) checkPlan(v decide.View, old decide.Memory, p decide.Plan) {
	seen := map[protocol.Subject]bool{}
	for _, c := range p.Changes {
		if c.Verb != protocol.VerbLog && seen[c.Subject] {
			m.Fatalf("%v is changed twice in one plan", c.Subject)
		}
		seen[c.Subject] = seen[c.Subject] || c.Verb != protocol.VerbLog
		if c.Verb == protocol.VerbHold {
			if t := taskIn(v, c.Subject); t.Named != "" || t.Outcome != nil || len(t.Workers) > 0 {
				m.Fatalf("harm: %s is held (%s), and in hand: %s", c.Subject, c.Why, t.Named)
			}
		}
	}
	if m.words != nil { // nothing else is promised there
		m.checkAgents(p)
		return
	}
	if !p.Wake.IsZero() && !p.Wake.After(v.Now) {
		m.Fatalf("it wakes at %v, which is not after %v", p.Wake, v.Now)
	}
	m.checkAgents(p)
	m.checkGate(v, old, p)
	m.checkPromises(v, old, p)
	m.checkResume(v, p)
	m.checkTwice(v, p)
	for subject, verdict := range p.Tasks.All() { // in whatever order: each is entered with its own
		if j := m.jobs[subject]; j != nil { // else its files were cleared away since the look
			j.last, j.why = verdict.State, sentenceOf(verdict)
		}
	}
	if m.brain.decided%101 == 0 {
		m.checkDump(v, old, p)
	}
}

func subjectOf(s *site, kind protocol.Kind, id string) protocol.Subject {
	return protocol.Subject{Project: s.name, Protocol: "agentstatus", Kind: kind, ID: id}
}

func taskIn(v decide.View, subject protocol.Subject) protocol.Task {
	for i := range v.Snapshots {
		s := &v.Snapshots[i]
		for j := range s.Tasks {
			if s.Subject(protocol.KindTask, s.Tasks[j].ID) == subject {
				return s.Tasks[j]
			}
		}
	}
	return protocol.Task{}
}

// checkAgents: nobody who lives is called dead.
func (m *simulation) checkAgents(p decide.Plan) {
	for _, d := range m.brain.desks {
		for _, a := range d.s.actors {
			v, known := p.Agents.Find(subjectOf(d.s, protocol.KindAgent, a.name))
			if known && v.State == protocol.AgentDead && a.lively() && d.seen(a) {
				m.Fatalf("harm: %s is called dead, and lives: %+v", a.name, v.Cause)
			}
		}
	}
}

// checkDump decides once more on what a dump of everything gives back, and weighs the memory.
func (m *simulation) checkDump(v decide.View, old decide.Memory, p decide.Plan) {
	var view decide.View
	var memory decide.Memory
	reread(m, v, &view)
	reread(m, old, &memory)
	again := supervisor.Decide(view, memory, m.cfg)
	if a, b := dump(m, p), dump(m, again); a != b {
		m.Fatalf("a dump leads to another plan:\n%s\n%s", a, b)
	}
	if !reflect.DeepEqual(flat(p.Tasks), flat(again.Tasks)) {
		m.Fatalf("a dump leads to other verdicts:\n%v\n%v", p.Tasks, again.Tasks)
	}
	agents, tasks := 0, 0
	for _, s := range m.sites {
		agents, tasks = agents+len(s.actors), tasks+len(s.files.order)
	}
	kept := p.Memory
	kept.Gate.Learnt = nil // it has a bound of its own, in kinds
	if n, most := len(encoded(m, kept)), 6000+2000*agents+1000*tasks; n > most {
		m.Fatalf("the memory has %d bytes for %d agents and %d tasks; at most %d", n, agents, tasks, most)
	}
}

// checkEnd is the law that nothing is lost: once the world is quiet, every task has ended for good, or stands where a
// human is told that it stands.
func (m *simulation) checkEnd() {
	m.checkGateEnd()
	for _, s := range m.sites {
		for _, id := range s.files.order {
			if why := m.unsettled(s, s.files.cards[id]); why != "" {
				m.Fatalf("lost: %s of %s: %s (%s: %s)", id, s.name, why, m.job(s.files.cards[id]).last, m.job(s.files.cards[id]).why)
			}
		}
		for _, l := range s.files.foreign.locks {
			// A lock whose process lives stays, however silent its agent is: the human was told that it is overdue.
			if a := s.actor(l.Holder); !a.able() && !slices.ContainsFunc(a.procs, func(p *proc) bool { return p.id == l.Process && p.moves() }) {
				m.Fatalf("lost: the lock on %s outlives its holder %s: %+v", l.Resource, l.Holder, verdictOnLock(m.brain.plan, l.Resource))
			}
		}
	}
}

// unsettled says what is wrong with the end of a task, "" if nothing is.
func (m *simulation) unsettled(s *site, c *card) string {
	j, a := m.job(c), s.actor(c.task.Agent)
	switch {
	case slices.ContainsFunc(m.works, func(w *attempt) bool { return w.c == c && w.lives() }):
		return "it still runs"
	case c.late != nil:
		return "a late result was not put on record"
	case c.result == nil && c.held:
		return "it is still held"
	case c.result == nil && a.able() && !c.cancelled:
		return "nobody takes it although its agent lives"
	case c.result == nil && !m.told(s, c, true):
		return "it lies there, and nobody was told"
	case c.result == nil:
		return ""
	case c.held || c.notice != nil:
		return "it has a result, and is still held"
	case j.delivered && !c.result.Succeeded():
		return "it was completed, and its result says otherwise"
	case c.result.Succeeded() || c.cancelled || c.result.Status == "odd":
		return ""
	case !c.result.Appeared.After(m.resume.forgot): // it failed before the time that steward remembers
		return ""
	case j.blind:
		return ""
	case !m.told(s, c, false):
		return "it failed (" + word(*c.result) + "), and nobody was told"
	case c.buried:
		return ""
	case j.last != protocol.TaskFailed && j.last != protocol.TaskDead:
		return "it failed, and has no end"
	}
	return ""
}

// told reports whether there was an incident about the task, or, while it is open, is one about it or its agent.
func (m *simulation) told(s *site, c *card, open bool) bool {
	for _, h := range m.brain.heads {
		if open && h.State == rules.Resolved && h.ResolvedBy == rules.ByFiles {
			continue
		}
		if h.Subject == subjectOf(s, protocol.KindTask, c.task.ID) || open && h.Subject == subjectOf(s, protocol.KindAgent, c.task.Agent) {
			return true
		}
	}
	return false
}

// letIn lists the tasks that a plan admits because there is room.
func letIn(old decide.Memory, p decide.Plan, s *site) (ids []string) {
	for _, id := range s.files.order {
		if s.files.cards[id].result != nil {
			continue
		}
		subject := subjectOf(s, protocol.KindTask, id)
		v, t := p.Tasks.Of(subject), p.Memory.Tasks.Of(subject)
		fresh := t.Judged && !old.Tasks.Of(subject).Judged && v.State == protocol.TaskPending && t.Run == max(old.Tasks.Of(subject).Run, 1) &&
			v.Reason != protocol.ReasonTooLate && !old.Tasks.Of(subject).Held
		released := slices.ContainsFunc(p.Changes, func(c protocol.Change) bool {
			return c.Subject == subject && c.Verb == protocol.VerbRelease && (c.Reason == protocol.ReasonRoom || c.Reason == protocol.ReasonDue)
		})
		if fresh || released {
			ids = append(ids, id)
		}
	}
	return ids
}

// checkGate: whatever is admitted finds room by the last readings; in a herd also by what runs and was admitted before.
func (m *simulation) checkGate(v decide.View, old decide.Memory, p decide.Plan) {
	load := v.Load.Fresh(v.Now)
	for _, s := range m.sites {
		for _, id := range letIn(old, p, s) {
			c := s.files.cards[id]
			limit := c.task.Throttle.Or(m.cfg.Capacity.Threshold) + 0.02
			if cpu, memory := load.CPU.Or(0), load.Memory.Or(0); (cpu > limit || memory > limit) && m.exact(old, p.Memory) {
				m.Fatalf("gate: %s is admitted at %.3f of the processor and %.3f of the memory; its limit is %.3f: %s", id, cpu, memory, limit,
					sentenceOf(p.Tasks.Of(subjectOf(s, protocol.KindTask, id))))
			}
			m.checkOvertaking(v, p, s, id)
			if m.kind == herded {
				m.checkClaims(s, id, limit)
			}
			m.job(c).admitted, m.job(c).since = true, m.awake
		}
	}
}

// exact reports whether the readings alone tell how full the machine is: nothing that ended is counted as room beside them.
func (m *simulation) exact(old, next decide.Memory) bool {
	if m.strict {
		return m.awake-m.machine.ended > 8*time.Second // its result may come some seconds later, and makes room for five more
	}
	return len(old.Gate.Freed)+len(next.Gate.Freed) == 0
}

// claims reports whether the work takes room, or was promised it: what nobody takes loses its claim.
func (j *job) claims(now time.Duration) bool {
	return j.admitted && (j.taken || now-j.since < 30*time.Second)
}

// checkClaims adds up what the others take: foreign as last sampled, what runs and what was admitted. An agent that works
// on one task at a time takes no more than one.
func (m *simulation) checkClaims(s *site, id string, limit float64) {
	cores, memory := m.machine.before, m.machine.other
	for _, other := range m.sites {
		for _, a := range other.actors {
			n := 0
			for _, t := range other.files.order {
				c := other.files.cards[t]
				if j := m.job(c); c.task.Agent == a.name && j.claims(m.awake) && (other != s || t != id) && n < a.width && a.able() {
					cores, memory, n = cores+j.cores, memory+j.memory, n+1
				}
			}
		}
	}
	own := m.job(s.files.cards[id])
	slack := m.machine.cores // whatever happens, no more than twice the machine is admitted
	if m.strict {
		slack = 0
	}
	if cores > limit*m.machine.cores+slack {
		m.Fatalf("gate: %s is admitted beside %.2f cores of others; its limit leaves %.2f of %.0f", id, cores, limit*m.machine.cores, m.machine.cores)
	}
	if float64(memory+own.memory) > limit*float64(m.machine.memory) {
		m.Fatalf("gate: %s is admitted beside %d MB of others", id, memory>>20)
	}
}

// verdictOnLock is what the last plan holds of a lock.
func verdictOnLock(p decide.Plan, resource string) (v heartbeat.LockVerdict) {
	for subject, verdict := range p.Locks.All() {
		if subject.ID == resource {
			v = verdict
		}
	}
	return v
}
