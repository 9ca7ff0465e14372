package decide

import (
	"strconv"
	"strings"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
)

// questions makes an incident of each agent's question once it is due.
func questions(e *env, s *protocol.Snapshot) (r ruling) {
	work := tasksByID(s)
	for i := range s.Questions {
		p := &s.Questions[i]
		if due := plain(p.Due); !p.Due.IsZero() && e.now.Before(due) {
			r.wakeAt(due, e.now)
			continue
		}
		a := rules.Alert{Kind: "plea", Severity: p.Severity, Subject: s.Subject(protocol.KindQuestion, p.ID), Agent: p.Agent, Blocking: p.Blocking,
			Summary: p.Agent + ": " + p.Text, Detail: p.Detail, Occurrence: p.Ref.Sum,
			Spoken: e.cfg.Human + ", " + p.Agent + " asks: " + p.Text}
		a.Detail = strings.TrimSpace(whole(a.Summary) + "\n" + a.Detail)
		if p.Task != "" {
			a.Detail = strings.TrimSpace(a.Detail + "\nTask: " + p.Task)
		}
		if t := work(p.Task); t != nil {
			a.Silent, a.Detail = t.Silent, strings.TrimSpace(a.Detail+"\n"+strings.TrimSpace(directive(t)))
		}
		a.Options = numbered(p.Options)
		if rest := len(a.Options) - rules.MaxOptions; rest > 0 {
			a.Detail = strings.TrimSpace(a.Detail + "\n" + strconv.Itoa(rest) + " more options are left out")
		}
		r.tell(condition{Alert: a})
	}
	return r
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

// findings tells the user of grave findings, and of those for which their protocol needs a person; the rest is only listed.
// See docs/decisions.md, "High and critical findings become incidents".
func findings(e *env, s *protocol.Snapshot) (r ruling) {
	work := tasksByID(s)
	for i := range s.Findings {
		f := &s.Findings[i]
		if f.Severity.Rank() < protocol.High.Rank() && !f.Call {
			continue
		}
		subject := s.Subject(f.Subject.Kind, f.Subject.ID)
		text := named(s, f)
		// The subject may be a task or an agent with incidents of its own; the code keeps them apart.
		a := rules.Alert{Kind: "finding", Code: strings.TrimSpace(f.Code + " " + f.Field), Severity: f.Severity, Subject: subject,
			Blocking: f.Severity == protocol.Critical, Summary: text, Detail: whole(text), Spoken: e.cfg.Human + ", " + text + "."}
		var t *protocol.Task
		switch subject.Kind {
		case protocol.KindAgent:
			a.Agent = subject.ID
			a.Detail = strings.TrimSpace(a.Detail + "\n" + endByHand(s, subject.ID))
		case protocol.KindTask:
			if t = work(subject.ID); t != nil {
				a.Silent, a.Detail = t.Silent, strings.TrimSpace(a.Detail+"\n"+strings.TrimSpace(directive(t)))
			}
		}
		a.Options = ofFinding(s, f, t)
		r.tell(condition{Alert: a, words: f.Text}) // the same text on another day is another condition
	}
	return r
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

// ofFinding are the options where a decision settles the finding: what settles it, and another run of failed work.
func ofFinding(s *protocol.Snapshot, f *protocol.Finding, t *protocol.Task) []rules.Option {
	if f.Settle == "" {
		return nil
	}
	settle := rules.Option{ID: OptionDone, Label: f.Settle}
	if t != nil && t.Requeue && t.Outcome != nil && !t.Outcome.Succeeded() && mayChange(s) {
		return []rules.Option{{ID: OptionRetry, Label: "Run it again"}, settle}
	}
	return []rules.Option{settle}
}

// endByHand says how a person ends the processes that outlived their leader where steward only observes.
func endByHand(s *protocol.Snapshot, agent string) string {
	a, known := s.Agent(agent)
	if !known || len(a.Orphans) == 0 || s.Act {
		return ""
	}
	var pids []string
	for _, o := range a.Orphans {
		pids = append(pids, strconv.Itoa(o.PID))
	}
	return "steward only observes " + s.Protocol + " here and ends no process. To end them: kill " + strings.Join(pids, " ") +
		". To let steward do it: [project.mode] " + s.Protocol + " = \"act\"."
}

// whole is a text that the summary cuts, "" if it does not.
func whole(summary string) string {
	if Clip(summary, MaxSummary) == summary {
		return ""
	}
	return summary
}

// events orders log lines for what happened, in the log that steward keeps for the protocol.
func events(s *protocol.Snapshot) (r ruling) {
	for _, e := range s.Events {
		r.change(s, protocol.Change{Verb: protocol.VerbLog, Subject: s.Subject(e.Subject.Kind, e.Subject.ID), Reason: protocol.ReasonSeen,
			Why: e.Text, Judged: protocol.Judged{Ref: e.Ref}, Until: e.At, Agent: e.Agent, Entry: protocol.Entry{Event: e.Name}})
	}
	return r
}

// Reap is what is remembered of processes that outlived their leader.
type Reap struct {
	Seen  time.Time `json:"seen"`
	Asked time.Time `json:"asked,omitzero"` // when they were asked to end
}

// orphanGrace is how long orphans may take to end by themselves, and then after SIGTERM.
const orphanGrace = 10 * time.Second

// reapOrphans ends the processes of an agent that outlived their leader: SIGTERM first, then SIGKILL. The adapter proved
// whose processes they are, and proves it again before each signal. See docs/decisions.md, "Orphans get SIGTERM, and SIGKILL ten seconds later".
func (k *agentJudge) reapOrphans() {
	if len(k.agent.Orphans) == 0 {
		return
	}
	if k.reap.Seen.IsZero() {
		k.reap.Seen = k.env.now
	}
	signal, due := "SIGTERM", k.reap.Seen.Add(orphanGrace)
	if !k.reap.Asked.IsZero() {
		signal, due = "SIGKILL", k.reap.Asked.Add(orphanGrace)
	}
	if k.env.resuming() && due.Before(k.env.resumeUntil) {
		due = k.env.resumeUntil
	}
	if k.env.now.Before(due) {
		k.rescanAt(due, k.env.now)
	} else if k.change(k.s, protocol.Change{Verb: protocol.VerbReap, Subject: k.subject, Reason: protocol.ReasonOrphaned, Agent: k.agent.Name,
		Why: strconv.Itoa(len(k.agent.Orphans)) + " of its processes outlived their leader", Status: signal, Processes: k.agent.Orphans}) {
		k.reap.Asked = k.env.now
	}
}

// The life events of a task in the shared log (protocol 000, Coordination Log Schema).
const (
	eventCreated   = "task_created"
	eventStarted   = "task_started"
	eventCompleted = "task_completed"
	eventFailed    = "task_failed"
	eventCalled    = "escalation"
)

// log orders the life events that the client has not logged itself within LogAfter. Events before the first scan ever are
// not logged. See docs/decisions.md, "Lines of the shared log (000) stand in the order of writing".
func (k *taskJudge) log() {
	t := k.t
	if t.Ref.Path != "" {
		at := t.Appeared
		if at.IsZero() || k.next.Run > 1 || t.Hold != nil || k.next.FirstSeen.Before(at) {
			at = k.next.FirstSeen
		}
		k.event(eventCreated, at, "Task created for ", t.Agent)
	}
	if !k.next.Running.IsZero() && k.next.Run == 1 {
		k.event(eventStarted, k.next.Running, "Task started by ", t.Agent)
	}
	// A cancellation has its own line, and a status outside the protocol's list means nothing.
	if o := t.Outcome; o != nil && t.Hold == nil && !t.Cancelled && k.next.Counted != "" {
		switch k.verdict.State {
		case protocol.TaskDone:
			k.event(eventCompleted, o.Appeared, "Task completed by ", o.Agent)
		case protocol.TaskFailed, protocol.TaskDead:
			k.event(eventFailed, o.Appeared, "", k.verdict.Why)
		}
	}
}

func (k *taskJudge) event(event string, at time.Time, what, who string) {
	at = plain(at)
	if k.t.HasLogged(event) || !at.After(k.since) || !k.s.LogSince.IsZero() && !at.After(plain(k.s.LogSince).Add(time.Second)) {
		return // the part of the log that was not read may have the line
	}
	due := at.Add(k.env.cfg.Tasks.LogAfter)
	if k.env.now.Before(due) {
		k.unsettled = true
		k.wake(due)
		return
	}
	k.change(protocol.Change{Verb: protocol.VerbLog, Reason: protocol.ReasonSeen, Entry: protocol.Entry{Event: event}, Until: at, Why: what + who})
}
