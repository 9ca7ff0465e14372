package envelope

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
)

// Observe returns the current snapshot. With hints, it rereads only the hinted files and the new lines of the logs.
func (p *Project) Observe(ctx context.Context, order protocol.ScanOrder) protocol.Snapshot {
	first := p.Root == nil || !p.Root.Alive()
	s, there := p.Scan(ctx, order)
	if !there {
		return s
	}
	if first {
		p.audit.read() // before the first messages, so that recorded messages are not copied again
	}
	if order.Full() || first || p.wide(order.Hints) {
		p.inbox.readAll()
	} else {
		p.inbox.readHinted(order.Hints)
	}
	p.notices.read()
	p.log.read()
	p.works.read()
	p.audit.read()
	p.source.watching = true
	p.board.settle(p.Now)
	p.describe(&s)
	s.Locate("")
	s.Again = p.Patience.Again()
	return s
}

// wide reports whether a hint names a whole folder, which needs a full scan.
func (p *Project) wide(hints []string) bool {
	return slices.ContainsFunc(hints, func(hint string) bool {
		return hint == "." || hint == p.opts.Messages || strings.HasPrefix(p.opts.Messages, hint+"/")
	})
}

// describe fills in the snapshot.
func (p *Project) describe(s *protocol.Snapshot) {
	v := p.view()
	list := p.board.listed(p.Since)
	s.Agents = agents(list)
	for _, t := range list {
		if t.assigned != nil {
			s.Tasks = append(s.Tasks, v.task(t))
		}
		s.Questions = append(s.Questions, v.questions(t)...)
		for _, f := range v.taskFindings(t) {
			f.Subject = p.subject(t.id)
			s.Findings = append(s.Findings, f)
		}
	}
	calls := v.callsOfTheDay()
	for _, found := range [][]protocol.Finding{v.refusalFindings(list), v.orderFindings(list), v.unreviewedFindings(), v.unusableFindings(),
		p.unreadableFindings(), v.callFindings(calls)} {
		for _, f := range found {
			if f.Subject == (protocol.Subject{}) {
				f.Subject = p.subject("")
			}
			s.Findings = append(s.Findings, f)
		}
	}
	s.Faults = append(s.Faults, p.faults()...)
	s.Events = append(p.auditEvents(), v.refusals(list)...)
	if len(v.duties()) > 0 {
		s.Due = []string{orchestrator}
	}
	s.Measures = v.measures(calls)
}

// faults lists the files that cannot be used.
func (p *Project) faults() []protocol.Fault {
	list := p.Faults()
	return append(list[:min(len(list), maxFaults)], p.log.allFaults()...)
}

// maxFaults bounds the Faults of a snapshot. The remaining ones appear once the first are repaired.
const maxFaults = 200

// view is what one scan or change sees: the tasks, the time and the limits. Its methods change no task.
type view struct {
	*board
	*folder.Clock
	opts     *Options
	notices  map[string]*noticeReading
	inUse    func(file string) bool // reports whether that file holds a message
	attempts func(id string) []protocol.Attempt
}

func (p *Project) view() *view {
	return &view{board: p.board, Clock: &p.Clock, opts: &p.opts, notices: p.notices.byTask, inUse: p.inbox.has, attempts: p.works.attempts.Of}
}

// task returns a task's entry in the snapshot.
func (v *view) task(t *task) protocol.Task {
	m, a := t.assigned, t.assigned.assignment
	named, awaits := t.inHand()
	k := protocol.Task{Request: protocol.Request{
		ID: t.id, Agent: clean(m.to, maxText), Source: clean(m.from, maxText), Type: strings.ToLower(clean(m.to, maxText)),
		Title: a.title, Priority: a.priority, Timeout: protocol.NoTimeout, Created: m.at, Related: a.related, Ref: m.ref(),
	}, Handling: protocol.Handling{Foreign: true, Requeue: true}, Record: protocol.Record{Attempts: v.attempts(t.id)}, Hold: v.hold(t),
		Visible: t.visible(), Flight: protocol.Flight{Named: named}, Awaits: awaits, Block: v.block(t), Appeared: m.appeared}
	if m.inLog() {
		k.Appeared = m.came()
	}
	if t.stage != stageAssigned && !t.taken.IsZero() {
		k.Started = t.taken
	}
	if t.over() {
		k.Outcome = t.outcome()
	}
	if m := t.failed(); m != nil {
		f := *m.blocker.failure
		k.Outcome = &protocol.Outcome{Status: "failed", At: m.at, Appeared: m.at, Agent: m.from, Summary: f.Message, Failures: []protocol.Failure{f}, Ref: m.ref()}
	}
	if c := t.cancelled; c != nil {
		k.Cancelled, k.CancelReason, k.CancelWhy = true, protocol.ReasonOperator, c.answer.text
	}
	if c := t.work; c != nil && !t.over() && t.stage != stageReview {
		k.Progress = protocol.Progress{Percent: c.Percent, Step: c.Step, At: c.Stepped}
	}
	if c := t.claim(); c != nil && !c.Waiting {
		k.Claim = c.mark()
		if c.Worker.Proves() && !t.stuck {
			k.Workers = []protocol.Identity{c.Worker}
		}
	}
	return k
}

// inHand returns the evidence that the task is in hand, and what it then waits for beyond its agent's control.
func (t *task) inHand() (named, awaits string) {
	c := t.claim()
	switch {
	case c != nil && !c.Waiting && t.stage != stageAcknowledged:
		named = "claimed"
	case t.stage != stageAssigned && t.stage != stageRejected: // rejected work is its agent's to take again
		named = string(t.stage)
	}
	switch {
	case t.over():
		return "", ""
	case t.stuck:
		return "blocked", "its blocker to be resolved"
	case t.stopped:
		return named, "a new assignment: it was stopped"
	case t.stage == stageReview:
		return named, "review by the orchestrator"
	case named == "" && t.asks():
		return "", "its question to be answered"
	}
	return named, ""
}

func (t *task) outcome() *protocol.Outcome {
	o := &protocol.Outcome{Status: "completed", At: t.end, Appeared: t.end, Agent: t.assigned.to}
	if t.cancelled != nil {
		o.Status, o.Ref = "cancelled", t.cancelled.ref()
		return o
	}
	if t.done != nil {
		o.Summary, o.Ref = t.done.output.summary, protocol.Ref{Path: t.done.file, Sum: string(t.done.sum)}
		o.Agent = cmp.Or(t.done.from, o.Agent)
	}
	return o
}

// soon is the remaining lease reported for a hold that must cover more assignments. It causes an immediate renewal, which
// holds the others too. Reporting no hold at all would look like a manual release.
const soon = 500 * time.Millisecond

// hold returns how the task is held, or nil. Half means a notice without a held message: a crash between two steps, or
// a held file that was removed. Unheld messages beside a held one leave the task held, but Visible. A held assignment
// without its notice is still held: releasing it would open the gate.
func (v *view) hold(t *task) *protocol.Hold {
	n := v.notices[t.id]
	if n == nil && !t.anyHeld() {
		return nil
	}
	h := protocol.Hold{Reason: protocol.HoldBlocked}
	if n != nil && n.Good {
		h = n.Value
	}
	h.Half = !t.anyHeld()
	if by := v.Now.Add(soon); !h.Half && t.visible() && by.Before(h.ReleaseBy) && v.block(t) != "" {
		h.ReleaseBy = by
	}
	return &h
}

// block returns why the task must wait regardless of the load; "" if nothing blocks it. A task in hand is never
// blocked.
func (v *view) block(t *task) string {
	if t.stage != stageAssigned || t.claim() != nil {
		return ""
	}
	var why []string
	if lacks := v.incomplete(t); lacks != "" {
		why = append(why, "incomplete: "+lacks)
	}
	if d := decideAll(v.board, t.deployments(), v.Now); d.block != "" {
		why = append(why, d.block)
	}
	if list, _ := waitsOf(v.board, t); len(list) > 0 && v.cycles[t.id] == "" {
		why = append(why, waitText(list...))
	}
	return strings.Join(why, "; ")
}

// incomplete returns the required fields that the task's newest assignment lacks. If the name of a held assignment is
// in use by another message, that message replaces the assignment, so nothing is missing.
func (v *view) incomplete(t *task) string {
	m := t.assigned
	if m == nil || t.stage != stageAssigned || m.held && v.inUse(openName(m.file)) {
		return ""
	}
	return clean(m.assignment.lacks, maxText)
}

// maxAgents bounds the agents of a snapshot.
const maxAgents = 100

// agents returns the agents that open tasks name. The protocol has no heartbeat, so no sign of life is expected from
// them.
func agents(list []*task) []protocol.Agent {
	names := map[string]bool{}
	for _, t := range list {
		if t.over() {
			continue
		}
		for _, m := range t.messages {
			for _, name := range append([]string{m.from, m.to}, m.also...) {
				if f := fold(name); plain(name) && f != orchestrator && f != "HUMAN" && name != sender {
					names[name] = true
				}
			}
		}
	}
	var all []protocol.Agent
	for _, name := range sortedKeys(names)[:min(len(names), maxAgents)] {
		all = append(all, protocol.Agent{Name: name, Idle: true})
	}
	return all
}

// measures returns the project's figures (protocol 004, Monitoring: task completion times, rejection rates).
func (v *view) measures(calls int) []protocol.Measure {
	if v.messages == 0 {
		return nil
	}
	f := v.totals
	list := []protocol.Measure{{Name: "human_escalations_24h", Value: float64(calls)}, {Name: "rejections", Value: float64(f.rejected)}}
	if f.approved > 0 {
		list = append(list, protocol.Measure{Name: "completion_seconds", Value: (f.spent / time.Duration(f.approved)).Seconds()})
	}
	if f.submitted > 0 {
		list = append(list, protocol.Measure{Name: "rejection_rate", Value: float64(f.rejected) / float64(f.submitted)})
	}
	slices.SortFunc(list, func(a, b protocol.Measure) int { return cmp.Compare(a.Name, b.Name) })
	return list
}
