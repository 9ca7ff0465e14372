package supervisor

import (
	"strconv"
	"strings"
	"time"

	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/protocol"
)

// pleas makes every agent's call for a human an incident, once it is due.
func (d *decision) pleas(s *protocol.Snapshot) {
	for i := range s.Pleas {
		p := &s.Pleas[i]
		if due := plain(p.Due); !p.Due.IsZero() && d.now.Before(due) {
			d.wake(due)
			continue
		}
		a := escalate.Alert{Kind: "plea", Severity: p.Severity, Subject: s.Subject(protocol.KindPlea, p.ID), Agent: p.Agent, Blocking: p.Blocking,
			Summary: p.Agent + ": " + p.Text, Detail: p.Detail, Occurrence: p.Ref.Sum,
			Spoken: d.cfg.Human + ", " + p.Agent + " asks: " + p.Text}
		a.Detail = strings.TrimSpace(whole(a.Summary) + "\n" + a.Detail)
		if p.Task != "" {
			a.Detail = strings.TrimSpace(a.Detail + "\nTask: " + p.Task)
		}
		for n, o := range p.Options {
			a.Options = append(a.Options, escalate.Option{ID: strconv.Itoa(n + 1), Label: o})
		}
		d.alert(a)
	}
}

// findings tells the human of what is grave; the rest is only listed.
func (d *decision) findings(s *protocol.Snapshot) {
	for _, f := range s.Findings {
		if f.Severity.Rank() < protocol.High.Rank() {
			continue
		}
		subject := s.Subject(f.Subject.Kind, f.Subject.ID)
		code := f.Code
		if f.Field != "" {
			code += " " + f.Field
		}
		agent := ""
		if subject.Kind == protocol.KindAgent {
			agent = subject.ID
		}
		// Its subject may be a task or an agent with incidents of its own; the code keeps them apart.
		d.alert(escalate.Alert{Kind: "finding", Code: code, Severity: f.Severity, Subject: subject, Agent: agent,
			Blocking: f.Severity == protocol.Critical, Summary: f.Text, Detail: whole(f.Text), Spoken: d.cfg.Human + ", " + f.Text + "."})
	}
}

// whole is a sentence that a summary cuts; "" when it does not.
func whole(summary string) string {
	if clip(summary, maxSummary) == summary {
		return ""
	}
	return summary
}

// events has what happened entered in the log that steward keeps for the protocol.
func (d *decision) events(s *protocol.Snapshot) {
	for _, e := range s.Events {
		d.change(s, protocol.Change{Verb: protocol.VerbLog, Subject: s.Subject(e.Subject.Kind, e.Subject.ID), Reason: protocol.ReasonSeen,
			Why: e.Text, Ref: e.Ref, Until: e.At, Agent: e.Agent, Event: e.Name})
	}
}

// Reap is what is remembered of processes that outlived their leader.
type Reap struct {
	Seen  time.Time `json:"seen"`
	Asked time.Time `json:"asked,omitzero"` // when they were asked to end
}

// How long orphans may take to end by themselves, and then when asked.
const orphanGrace = 10 * time.Second

// reap ends the processes of an agent that outlived their leader: asked first, then killed. Whose they are was proved
// by the adapter, which proves it anew before each signal.
func (d *decision) reap(s *protocol.Snapshot, l *agentLook) {
	if len(l.agent.Orphans) == 0 {
		return
	}
	subject := s.Subject(protocol.KindAgent, l.agent.Name)
	r := d.old.Reaps[subject]
	if r.Seen.IsZero() {
		r.Seen = d.now
	}
	signal, due := "SIGTERM", r.Seen.Add(orphanGrace)
	if !r.Asked.IsZero() {
		signal, due = "SIGKILL", r.Asked.Add(orphanGrace)
	}
	if d.resuming() && due.Before(d.plan.Memory.ResumeUntil) {
		due = d.plan.Memory.ResumeUntil
	}
	if d.now.Before(due) {
		d.lookAgain(s.Project, due)
	} else if d.change(s, protocol.Change{Verb: protocol.VerbReap, Subject: subject, Reason: protocol.ReasonOrphaned, Agent: l.agent.Name,
		Why: strconv.Itoa(len(l.agent.Orphans)) + " of its processes outlived their leader", Status: signal, Processes: l.agent.Orphans}) {
		r.Asked = d.now
	}
	if d.plan.Memory.Reaps == nil {
		d.plan.Memory.Reaps = map[protocol.Subject]Reap{}
	}
	d.plan.Memory.Reaps[subject] = r
}
