package supervisor_test

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor"
	"github.com/livhana/steward/supervisor/decide"
)

// What steward promises of time, order and words: nothing comes early, nobody is overtaken or forgotten, and what ends
// badly is told.

// promises is what these laws remember of the world.
type promises struct {
	idle time.Duration              // since when the machine is idle, nobody has a claim, and all projects are in sight
	hold map[*card]map[int]struct{} // the attempts that were held for want of room
	open map[*card]int              // the attempts that were released before they were due: steward stopped
	runs int                        // of steward, as last seen
}

// checkPromises sees every decision.
func (m *simulation) checkPromises(v decide.View, old decide.Memory, p decide.Plan) {
	if m.promises.runs != m.brain.starts || v.Resumed {
		m.promises.runs, m.promises.idle = m.brain.starts, m.awake
		for _, j := range m.jobs {
			j.shut, j.starves, j.failed = m.awake, m.awake, m.awake
		}
	}
	m.checkHeldInTime(v, old, p)
	m.checkClaimants(v, p)
	m.checkForgotten(v, p)
	m.checkShut(v, old, p)
	m.checkTold(v, p)
	if m.brain.decided%5 == 0 {
		m.checkAnnounced(v, p)
	}
}

// checkHeldInTime: a request is held for want of room at its first judgement, within two seconds, or never; and never
// after it lay open for so long that it counts as taken.
func (m *simulation) checkHeldInTime(v decide.View, old decide.Memory, p decide.Plan) {
	for _, c := range p.Changes {
		if c.Verb != protocol.VerbHold || c.Reason != protocol.ReasonCapacity {
			continue
		}
		t := taskIn(v, c.Subject)
		if !t.Visible || v.Now.Sub(t.Appeared) > m.cfg.Tasks.Presume+m.cfg.Tasks.Judge {
			m.Fatalf("harm: %s is held for want of room %v after it came into sight", c.Subject, v.Now.Sub(t.Appeared))
		}
		if known, any := old.Tasks.Find(c.Subject); any && known.Judged && known.Run == 1+m.committed(c.Subject) {
			m.Fatalf("harm: %s is held for want of room, and was admitted before", c.Subject)
		}
	}
}

// committed counts the results of a task that are on record as taken away.
func (m *simulation) committed(subject protocol.Subject) int {
	j := m.jobs[subject]
	if j == nil {
		return 0
	}
	return j.s.files.cards[j.id].takenAway()
}

// checkClaimants: only open tasks of living agents have a claim.
func (m *simulation) checkClaimants(v decide.View, p decide.Plan) {
	for _, c := range p.Claims {
		if c.Subject.Kind != protocol.KindTask || c.Absent {
			continue
		}
		t := taskIn(v, c.Subject)
		if a, known := p.Agents.Find(c.Agent); t.ID == "" || t.Outcome != nil || known && a.State == protocol.AgentDead {
			m.Fatalf("claims: %s has one since %v; it is there: %t, has ended: %t, its agent is %s", c.Subject, c.Since, t.ID != "", t.Outcome != nil, a.State)
		}
	}
}

// checkForgotten: on an idle machine nothing is kept for want of room, nor a retry that is due.
func (m *simulation) checkForgotten(v decide.View, p decide.Plan) {
	load := v.Load.Fresh(v.Now)
	busy := load.CPU.Or(1) > 0.2 || load.Memory.Or(1) > 0.2 || len(p.Claims) > 0 || m.brain.unsave // nothing is done then
	for _, d := range m.brain.desks {                                                              // nothing is known of the tasks in a folder that is gone, or on a disk that hangs
		busy = busy || len(d.snapshots) != 1 || d.s.slow > 0 || d.busy && m.awake-d.since > 3*time.Second
	}
	if busy {
		m.promises.idle = m.awake
	}
	if m.awake-m.promises.idle < 25*time.Second || v.Now.Before(p.Memory.ResumeUntil) {
		return
	}
	for _, d := range m.brain.desks {
		if d.busy || d.s.gone || d.s.full || d.rests {
			continue
		}
		for _, t := range d.snapshots[0].Tasks {
			h := t.Hold
			if h == nil || h.Half || t.Outcome != nil || h.Reason == protocol.HoldBlocked || v.Now.Sub(h.NotBefore) < 25*time.Second && h.Reason == protocol.HoldRetry {
				continue
			}
			paced := h.Reason == protocol.HoldRetry && (m.back || h.NotBefore.Before(p.Memory.ResumeUntil)) // one by one after a sleep
			subject := subjectOf(d.s, protocol.KindTask, t.ID)
			if !paced && v.Now.Sub(h.Since) > 25*time.Second && !m.inHandNow(d.s, t.ID) &&
				!slices.ContainsFunc(p.Changes, func(c protocol.Change) bool {
					return c.Subject == subject && c.Verb != protocol.VerbRenew && c.Verb != protocol.VerbLog
				}) {
				m.Fatalf("forgotten: %s is held (%s) although the machine has been idle for %v: %s", t.ID, h.Reason, m.awake-m.promises.idle, sentenceOf(p.Tasks.Of(subject)))
			}
		}
	}
}

// inHandNow reports whether somebody works on a task, be it held or not.
func (m *simulation) inHandNow(s *site, id string) bool {
	return slices.ContainsFunc(m.works, func(w *attempt) bool { return w.id == id && w.p.a.s == s && w.lives() })
}

// checkOvertaking: nobody is admitted before one who comes first in the queue and whose limit is no lower.
func (m *simulation) checkOvertaking(v decide.View, p decide.Plan, s *site, id string) {
	mine := m.waiterOf(v, p, subjectOf(s, protocol.KindTask, id))
	for subject := range p.Memory.Gate.Held {
		t := taskIn(v, subject)
		if state := p.Tasks.Of(subject).State; t.ID == "" || state != protocol.TaskDeferred && state != protocol.TaskWaiting || m.stuck(subject.Project) {
			continue
		}
		other := m.waiterOf(v, p, subject)
		if other.rank > mine.rank && other.limit >= mine.limit {
			m.Fatalf("order: %s (%v since %v) is admitted before %s (%v since %v), which waits: %s", id, mine.rank, mine.since, subject.ID, other.rank, other.since,
				sentenceOf(p.Tasks.Of(subject)))
		}
		if other.rank == mine.rank && other.since.Before(mine.since) && other.limit >= mine.limit {
			m.Fatalf("order: %s (%v) is admitted before %s, as urgent and older (%v): %s", id, mine.since, subject.ID, other.since, sentenceOf(p.Tasks.Of(subject)))
		}
	}
}

// stuck reports whether nothing may be changed in a project now.
func (m *simulation) stuck(project string) bool {
	d := m.brain.desk(project)
	return d.s.gone || d.busy && m.awake-d.since >= 30*time.Second
}

// inQueue is where a task stands in the queue.
type inQueue struct {
	rank  protocol.Priority
	since time.Time
	limit float64
}

func (m *simulation) waiterOf(v decide.View, p decide.Plan, subject protocol.Subject) inQueue {
	t := taskIn(v, subject)
	since := p.Memory.Tasks.Of(subject).FirstSeen
	return inQueue{capacity.Effective(t.Priority, since, v.Now, m.cfg.Capacity.PromoteAfter), since, t.Throttle.Or(m.cfg.Capacity.Threshold)}
}

// checkShut: a gate that has admitted nobody for long is told of, and so is who waits for very long although others go.
func (m *simulation) checkShut(v decide.View, old decide.Memory, p decide.Plan) {
	load, after := v.Load.Fresh(v.Now), m.cfg.Capacity.AlarmAfter
	told := m.toldOfMachine(p)
	let := false
	for _, s := range m.sites {
		let = let || len(letIn(old, p, s)) > 0
	}
	for subject, j := range m.jobs {
		_, waits := p.Memory.Gate.Held[subject]
		full := load.CPU.Or(0) > m.limitOf(j)+0.02 // all the time for the same reason
		if !waits || !full || let || m.brain.unsave || m.back || m.stuck(subject.Project) || m.kind == monthly {
			j.shut = m.awake
		}
		if !waits || m.brain.unsave || m.back || m.stuck(subject.Project) {
			j.starves = m.awake
		}
		if m.awake-j.starves > m.cfg.Capacity.StarveAfter+30*time.Second && !told {
			m.Fatalf("untold: %s has waited for %v whoever else went, and nobody was told: %+v", subject.ID, m.awake-j.starves, p.Memory.Gate.Closed(m.cfg.Capacity))
		}
		if m.awake-j.shut > after+30*time.Second && !told {
			m.Fatalf("untold: %s has waited for %v before a full machine, and nobody was told: %+v", subject.ID, m.awake-j.shut, p.Memory.Gate.Closed(m.cfg.Capacity))
		}
	}
}

func (m *simulation) limitOf(j *job) float64 {
	return j.s.files.cards[j.id].task.Throttle.Or(m.cfg.Capacity.Threshold)
}

// toldOfMachine reports whether an incident about the machine is open or being raised.
func (m *simulation) toldOfMachine(p decide.Plan) bool {
	for _, h := range m.brain.heads {
		if h.Subject.Kind == protocol.KindMachine && h.State != rules.Resolved || h.Subject.Kind == protocol.KindMachine && h.ResolvedBy == rules.ByOperator {
			return true
		}
	}
	return slices.ContainsFunc(p.Alerts, func(a rules.Alert) bool { return a.Subject.Kind == protocol.KindMachine && !a.Resolve })
}

// checkTold: what has failed for good is told within ten seconds after steward knows.
func (m *simulation) checkTold(v decide.View, p decide.Plan) {
	for subject, verdict := range p.Tasks.All() {
		j := m.jobs[subject]
		if j == nil {
			continue
		}
		c := j.s.files.cards[j.id]
		failed := (verdict.State == protocol.TaskFailed || verdict.State == protocol.TaskDead) && taskIn(v, subject).Outcome != nil && c.result != nil && !c.cancelled &&
			c.result.Appeared.After(m.resume.forgot)
		if d := m.brain.desk(subject.Project); !failed || d.busy || d.s.slow > 0 || m.brain.unsave || m.told(j.s, c, false) || slices.ContainsFunc(p.Alerts, func(a rules.Alert) bool { return a.Subject == subject }) ||
			slices.ContainsFunc(slices.Concat(p.Changes, p.Waiting), func(c protocol.Change) bool { return c.Subject == subject && c.Verb == protocol.VerbCancel }) {
			j.failed = m.awake
		}
		if m.awake-j.failed > 10*time.Second {
			m.Fatalf("untold: %s is %s (%s) for %v, and nobody was told", subject.ID, verdict.State, sentenceOf(verdict), m.awake-j.failed)
		}
	}
}

// checkAnnounced: nothing falls due by the clock alone before the moment for which the plan asked.
func (m *simulation) checkAnnounced(v decide.View, p decide.Plan) {
	until := v.Now.Add(m.cfg.LookEvery)
	if len(p.Memory.Gate.Held) > 0 { // then it is judged by every sample
		until = v.Now.Add(m.cfg.Capacity.SampleEvery)
	}
	for _, at := range append(slices.Collect(maps.Values(p.Looks)), p.Wake) {
		if !at.IsZero() && at.Before(until) {
			until = at
		}
	}
	later := v
	later.Now, later.Resumed = until.Add(-5*time.Millisecond), false
	if !later.Now.After(v.Now) || v.Resumed {
		return
	}
	next := supervisor.Decide(later, p.Memory, m.cfg)
	for _, c := range next.Changes {
		_, queued := p.Memory.Gate.Held[c.Subject] // what is promised fades from sample to sample
		known := func(x protocol.Change) bool { return x.Subject == c.Subject }
		// A lease is renewed with half of it to spare, and together with others.
		if c.Verb != protocol.VerbRenew && !slices.ContainsFunc(slices.Concat(p.Changes, p.Waiting), known) && !(queued && c.Verb == protocol.VerbRelease) {
			m.Fatalf("unannounced: %s of %s (%s: %s) falls due by %v; the plan of %v asks for nothing before %v", c.Verb, c.Subject, c.Reason, c.Why,
				later.Now.Sub(v.Now), v.Now, p.Wake)
		}
	}
	for _, a := range next.Alerts {
		_, queued := p.Memory.Gate.Held[a.Subject]
		gate := queued && a.Resolve || a.Subject.Kind == protocol.KindMachine && len(p.Memory.Gate.Held) > 0 // as above
		if !gate && !slices.ContainsFunc(p.Alerts, func(x rules.Alert) bool { return x.Key == a.Key }) {
			m.Fatalf("unannounced: alert %s of %v: %s (%t) falls due by %v; the plan of %v asks for no look before %v", a.Kind, a.Subject, a.Summary, a.Resolve,
				later.Now.Sub(v.Now), v.Now, p.Wake)
		}
	}
}

// checkEarly sees each change before it is made: nothing is issued before its time, nor does any result lead to a retry
// sooner than the rule says.
func (m *simulation) checkEarly(d *place, c protocol.Change) {
	card := d.s.files.cards[c.Subject.ID]
	if card == nil || c.Subject.Kind != protocol.KindTask || m.back {
		return
	}
	switch n := len(card.ledger); {
	case c.Verb == protocol.VerbRelease && (c.Reason == protocol.ReasonDue || c.Reason == protocol.ReasonRoom):
		if n > 0 && card.ledger[n-1].Committed && card.ledger[n-1].Due.After(m.now()) && m.promises.open[card] != n {
			m.Fatalf("early: %s is issued again at %v, and due at %v", card.task.ID, m.now(), card.ledger[n-1].Due)
		}
		if by := m.superseded(d, card); n > 0 && card.ledger[n-1].Action == protocol.ActionRetry && card.notice != nil && card.notice.Reason == protocol.HoldRetry && by != "" {
			m.Fatalf("unwanted: %s is issued again although %s asks for the same, and later", card.task.ID, by)
		}
	case c.Verb == protocol.VerbRetry && card.result != nil && c.Ref == card.result.Ref && c.Rule != "operator":
		if least := m.leastDelay(card, c.Rule); c.Until.Before(card.result.Appeared.Add(least)) {
			m.Fatalf("early: %s failed (%s) at %v and is to run again at %v; %s says after %v", card.task.ID, word(*card.result), card.result.Appeared, c.Until, c.Rule, least)
		}
	case c.Verb == protocol.VerbConclude && c.Twice:
		for _, w := range m.inHand(d, c.Subject.ID) {
			from := w.from // a successor of the same name may have taken it once more
			for _, before := range m.works {
				if before.c == card && before.n == w.n {
					from = min(from, before.from)
				}
			}
			// Of one whose files do not say when it began its time runs since the request came into sight, and with a clock that
			// was set meanwhile it is anybody's guess.
			if tells := w.p.a.style == reporter || w.p.a.style == claimer; !tells {
				from = min(from, m.job(card).shown)
			}
			if (!m.set || m.stepped < from) && m.awake-from < card.task.Timeout {
				m.Fatalf("early: %s is given up by silence %v after it was taken; its time is %v", card.task.ID, m.awake-from, card.task.Timeout)
			}
		}
		from := m.job(card).shown // nobody can have taken it before, whether the attempt lives or not
		for _, w := range m.works {
			if w.c == card && w.n == card.takenAway() {
				from = min(from, w.from)
			}
		}
		if (!m.set || m.stepped < from) && m.awake-from < card.task.Timeout {
			m.Fatalf("early: %s is given up by silence %v after it came into sight; its time is %v", card.task.ID, m.awake-from, card.task.Timeout)
		}
	}
}

// superseded names a newer request for the same, which the last look has listed.
func (m *simulation) superseded(d *place, c *card) string {
	for _, snap := range d.snapshots {
		for _, t := range snap.Tasks {
			other := d.s.files.cards[t.ID]
			if other != nil && c.task.Payload != "" && other.task.Payload == c.task.Payload && other.task.Created.After(c.task.Created) && !other.cancelled && m.job(other).asked < d.fullAt-time.Second {
				return t.ID
			}
		}
	}
	return ""
}

// leastDelay is what a rule asks for after this result, without what is added by chance.
func (m *simulation) leastDelay(c *card, name string) time.Duration {
	used := 0
	for _, k := range c.ledger {
		if k.Rule == name && k.Committed {
			used++
		}
	}
	for _, rule := range m.cfg.Retry.Rules {
		if rule.Name() != name || rule.Action == rules.ActionWait {
			continue
		}
		base := rule.Delay
		if rule.Action == protocol.ActionDefer {
			base = max(base, c.result.RetryAfter)
		}
		return min(time.Duration(float64(base)*math.Pow(max(rule.Factor, 1), float64(used))), rule.MaxDelay)
	}
	return 0
}

// checkRecord sees each change after it was made: the ledger counts without a gap, and one attempt waits for room once.
func (m *simulation) checkRecord(d *place, card *card, c protocol.Change, err error) {
	for i, k := range card.ledger {
		if k.N != i+1 || !k.Committed && i < len(card.ledger)-1 {
			m.Fatalf("attempts: entry %d of %s is about attempt %d (committed %t)", i+1, card.task.ID, k.N, k.Committed)
		}
	}
	if err == nil && (c.Verb == protocol.VerbRelease || c.Verb == protocol.VerbRetry) {
		m.job(card).shown = m.awake
	}
	held, n := m.promises.hold[card], card.takenAway()
	switch {
	case err != nil:
	case c.Verb == protocol.VerbHold && c.Reason == protocol.ReasonCapacity && card.held:
		if _, again := held[n]; again && !m.back { // with a clock that was set back it may look like new
			m.Fatalf("harm: attempt %d of %s is held for want of room a second time", n+1, card.task.ID)
		}
		if held == nil {
			held = map[int]struct{}{}
			m.promises.hold[card] = held
		}
		held[n] = struct{}{}
	case c.Verb == protocol.VerbRelease && (c.Reason == protocol.ReasonStopping || c.Reason == protocol.ReasonRepair):
		delete(held, n) // fail open: the next steward may judge it anew
		m.promises.open[card] = n
	}
}

// checkHolds: at rest everything that is held says so, and for how long.
func (m *simulation) checkHolds() {
	for _, s := range m.sites {
		for _, id := range s.files.order {
			if c := s.files.cards[id]; c.held && (c.notice == nil || !c.notice.ReleaseBy.After(m.now())) {
				m.Fatalf("held: %s of %s is out of sight, and its notice is %+v", id, s.name, c.notice)
			}
		}
	}
}

// checkGateEnd: once nothing is left to do, nobody has a claim, and nobody waits.
func (m *simulation) checkGateEnd() {
	g := m.brain.memory.Gate
	if len(g.Held)+len(g.Reservations)+len(g.Freed) > 0 {
		m.Fatalf("claims: at the end there are left %v, %v, %v", g.Held, g.Reservations, g.Freed)
	}
}
