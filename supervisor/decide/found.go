package decide

import (
	"strconv"
	"strings"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
)

// judgeFound rules on what a snapshot shows beside agents, locks and tasks: questions, findings and events.
func judgeFound(e *env, s *protocol.Snapshot) (r ruling) {
	work := tasksByID(s)
	for i := range s.Questions {
		question(e, s, &s.Questions[i], work, &r)
	}
	for i := range s.Findings {
		finding(s, &s.Findings[i], work, &r)
	}
	// Log lines for what happened, in the log that steward keeps for the protocol.
	for _, e := range s.Events {
		r.change(s, quote(protocol.ReasonSeen, e.Text), protocol.Change{Verb: protocol.VerbLog, Subject: s.Subject(e.Subject.Kind, e.Subject.ID),
			Judged: protocol.Judged{Ref: e.Ref}, Until: e.At, Agent: e.Agent, Entry: protocol.Entry{Event: e.Name}})
	}
	return r
}

// question makes an incident of an agent's question once it is due.
func question(e *env, s *protocol.Snapshot, p *protocol.Question, work func(id string) *protocol.Task, r *ruling) {
	if due := plain(p.Due); !p.Due.IsZero() && e.now.Before(due) {
		r.wakeAt(due, e.now)
		return
	}
	a := rules.Alert{Kind: "plea", Severity: p.Severity, Subject: s.Subject(protocol.KindQuestion, p.ID), Agent: p.Agent, Blocking: p.Blocking,
		Occurrence: p.Ref.Sum, Options: numbered(p.Options)}
	n := rules.Notice{Phrase: protocol.PhraseQuestion, Facts: protocol.Facts{Agent: p.Agent, Text: p.Text, Name: p.Detail, Task: p.Task,
		Count: max(0, len(a.Options)-rules.MaxOptions)}}
	if t := work(p.Task); t != nil {
		a.Silent, n.Quote = t.Silent, t.Directive
	}
	r.tell(a, n)
}

// numbered offers an agent's own options under their positions in its list. Blank options are left out, and so are
// duplicates.
func numbered(labels []string) (list []rules.Option) {
	seen := map[string]bool{"": true}
	for n, label := range labels {
		if bare := strings.TrimSpace(label); !seen[bare] {
			seen[bare] = true
			list = append(list, rules.Option{ID: strconv.Itoa(n + 1), Label: label})
		}
	}
	return list
}

// tasksByID finds the tasks of a snapshot by their ids. The index is built at the first call.
func tasksByID(s *protocol.Snapshot) func(id string) *protocol.Task {
	var all map[string]*protocol.Task
	return func(id string) *protocol.Task {
		if id == "" {
			return nil
		}
		if all == nil {
			all = make(map[string]*protocol.Task, len(s.Tasks))
			for i := range s.Tasks {
				all[s.Tasks[i].ID] = &s.Tasks[i]
			}
		}
		return all[id]
	}
}

// finding tells the user of a grave finding, and of one for which its protocol needs a person; the rest is only listed.
// See docs/decisions.md, "High and critical findings become incidents".
func finding(s *protocol.Snapshot, f *protocol.Finding, work func(id string) *protocol.Task, r *ruling) {
	if f.Severity.Rank() < protocol.High.Rank() && !f.Call {
		return
	}
	// The subject may be a task or an agent with incidents of its own; the code keeps them apart.
	a := rules.Alert{Kind: "finding", Code: strings.TrimSpace(f.Code + " " + f.Field), Severity: f.Severity,
		Subject: s.Subject(f.Subject.Kind, f.Subject.ID), Blocking: f.Severity == protocol.Critical}
	n := rules.Notice{Phrase: protocol.PhraseFinding, Facts: protocol.Facts{Text: named(s, f), Name: s.Protocol}}
	var t *protocol.Task
	switch a.Subject.Kind {
	case protocol.KindAgent:
		a.Agent = a.Subject.ID
		n.List = pidsToEnd(s, a.Agent)
	case protocol.KindTask:
		if t = work(a.Subject.ID); t != nil {
			a.Silent, n.Quote = t.Silent, t.Directive
		}
	}
	a.Options = optionsOfFinding(s, f, t)
	r.tell(a, n)
	r.conditions[len(r.conditions)-1].words = f.Text // the same text on another day is another condition
}

// named is a finding's text with its subject, for a reader who sees nothing else.
func named(s *protocol.Snapshot, f *protocol.Finding) string {
	who := f.Subject.ID
	if f.Subject.Kind == protocol.KindProject {
		who = s.Project
	}
	if who == "" || strings.Contains(f.Text, who) {
		return f.Text
	}
	return who + ": " + f.Text
}

// optionsOfFinding are the options where a decision settles the finding: what settles it, and another run of failed work.
func optionsOfFinding(s *protocol.Snapshot, f *protocol.Finding, t *protocol.Task) []rules.Option {
	if f.Settle == "" {
		return nil
	}
	var list []rules.Option
	if t != nil && t.Requeue && t.Outcome != nil && !t.Outcome.Succeeded() && mayOffer(s) {
		list = options(OptionRetry)
	}
	return append(list, rules.Option{ID: OptionDone, Label: f.Settle})
}

// pidsToEnd lists the processes that outlived their leader where steward only observes: a person may end them.
func pidsToEnd(s *protocol.Snapshot, agent string) (pids []string) {
	if a, known := s.Agent(agent); known && !s.Act && !s.Asks() {
		for _, o := range a.Orphans {
			pids = append(pids, strconv.Itoa(o.PID))
		}
	}
	return pids
}
