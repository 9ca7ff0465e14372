package decide

import (
	"iter"
	"math"
	"slices"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
)

// tellTask tells the user of a task, unless its result is history. Of the alert the rule gives what is particular to it.
func (r *taskRuling) tellTask(c *taskCase, a rules.Alert, n rules.Notice) *condition {
	if c.ancient() {
		return &condition{Alert: rules.Alert{Notice: &n}} // it is told to no one
	}
	a.Subject, a.Agent, a.Silent = c.subject, c.t.Agent, c.t.Silent
	keyed := a
	if c.t.Foreign { // its agent may change or become known later; the incident is the same
		keyed.Agent = ""
	}
	a.Key = KeyOf(keyed)
	n.Title, n.Quote = title(c.t), c.t.Directive
	r.tell(a, n)
	return &r.conditions[len(r.conditions)-1]
}

// title names a task for people.
func title(t *protocol.Task) string {
	switch {
	case t.Title != "" && t.Foreign && t.Title != t.ID:
		return t.ID + " (" + t.Title + ")"
	case t.Title != "":
		return t.Title
	}
	return "Task " + t.ID
}

// tellOverrun warns of a task over its time while its agent goes on with it (000, Timeout Behavior).
func (r *taskRuling) tellOverrun(c *taskCase, f protocol.Facts) {
	r.tellTask(c, rules.Alert{Kind: "overrun", Severity: protocol.Medium, Occurrence: rfc3339(f.At)},
		rules.Notice{Phrase: protocol.PhraseOverrun, Facts: f})
}

// overdue is what is known of a task that is over its time since then.
func overdue(c *taskCase, since time.Time) protocol.Facts {
	f := protocol.Facts{Agent: c.t.Agent, At: since, Limit: c.timeout(), Base: protocol.PhraseGoesOn}
	if !c.agent.alive() {
		f.Base, f.Name = protocol.PhraseAgentIs, string(c.agent.state())
	}
	return f
}

// OpenTasksOf lists the tasks in flight that have no result: the agent's own, and, when the agent is proved to be gone,
// those of its children that wait for it.
func OpenTasksOf(s *protocol.Snapshot, agent string) []*protocol.Task {
	var open []*protocol.Task
	a, _ := s.Agent(agent)
	for t := range unsettled(s) {
		if (t.Agent == agent || led(a, t)) && t.Outcome == nil && t.Hold == nil && t.Named != "" {
			open = append(open, t)
		}
	}
	return open
}

// led reports whether a child of the agent, which is proved to be gone, has the task.
func led(a *protocol.Agent, t *protocol.Task) bool {
	return a != nil && a.Presence == protocol.PresenceGone && t.Agent != a.Name && slices.Contains(a.Tasks, t.ID)
}

func idsOf(tasks []*protocol.Task) []string {
	ids := make([]string, 0, len(tasks))
	for _, t := range tasks {
		ids = append(ids, t.ID)
	}
	return ids
}

// allSilent reports whether all of these tasks were requested without voice.
func allSilent(tasks []*protocol.Task) bool {
	return len(tasks) > 0 && !slices.ContainsFunc(tasks, func(t *protocol.Task) bool { return !t.Silent })
}

// unsettled iterates over the tasks that have not completed, as far as the snapshot was divided.
func unsettled(s *protocol.Snapshot) iter.Seq[*protocol.Task] {
	return func(yield func(*protocol.Task) bool) {
		if s.Divided == nil {
			for i := range s.Tasks {
				if !yield(&s.Tasks[i]) {
					return
				}
			}
			return
		}
		for _, i := range s.Divided.Rest {
			if !yield(&s.Tasks[i]) {
				return
			}
		}
	}
}

func rfc3339(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Saying is what the user is told aloud of a task for which the user listens. It needs no answer, is no incident, and is not
// said again after a crash. See docs/decisions.md, "Progress and results are spoken without an incident".
type Saying struct {
	Subject protocol.Subject
	rules.Notice
	Text string // in words
}

// How much of the results, and of the progress, of tasks is spoken ([escalate] results, progress).
const (
	SayNothing  = "off"
	SayBlocking = "blocking" // results that the orchestrator waits for
	SayAll      = "all"
	SayQuarters = "25%" // progress at each quarter
	SayEach     = "each"
)

// sayProgress speaks the progress that the request asked for (000, Pattern 3: Progressive Updates).
func sayProgress(c *taskCase, r *taskRuling) {
	p, said := c.t.Progress, r.next.Said
	step := map[string]float64{SayQuarters: 25, SayEach: 1}[c.cfg.Progress]
	if !c.t.Voice || p.Every <= 0 || p.At.IsZero() || step == 0 || p.Percent >= 100 || !(math.Floor(p.Percent/step) > math.Floor(said/step)) {
		return
	}
	r.next.Said = p.Percent
	r.say(c, rules.Notice{Phrase: protocol.PhraseSaidProgress, Facts: protocol.Facts{Count: int(p.Percent), Text: p.Step}})
}

// sayResult speaks a completed result (000, Test 1: "reports to Jesse via voice"). A failure is told by its incident.
func sayResult(c *taskCase, r *taskRuling) {
	if c.t.Voice && (c.cfg.Results == SayAll || c.cfg.Results == SayBlocking && c.t.Blocking) && len(c.t.Outcome.ForHuman) == 0 {
		r.say(c, rules.Notice{Phrase: protocol.PhraseSaidResult, Facts: protocol.Facts{Text: c.t.Outcome.Summary}})
	}
}

func (r *taskRuling) say(c *taskCase, n rules.Notice) {
	n.Title = title(c.t)
	r.says = append(r.says, Saying{Subject: c.subject, Notice: n})
}
