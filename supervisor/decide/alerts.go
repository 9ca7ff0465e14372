package decide

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status/words"
)

// MaxSummary is the longest summary of an incident, in characters.
const MaxSummary = 80

// Clip shortens a text to n characters.
func Clip(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n-1]) + "…"
}

// settleIncidents resolves incidents that the files no longer show: conditions when they are absent, events when their task
// has moved on. Incidents of projects that were not scanned stay as they are.
func (d *decision) settleIncidents() {
	var over []rules.Alert
	for key, head := range d.view.Incidents {
		if head.State == rules.Resolved || head.Foreign || d.present[key] {
			continue
		}
		why := d.over(head)
		if why == "" {
			d.keepStanding(key)
		} else {
			over = append(over, rules.Alert{Key: key, Subject: head.Subject, Severity: head.Severity, Resolve: true, Detail: why})
		}
	}
	slices.SortFunc(over, func(a, b rules.Alert) int { return strings.Compare(a.Key, b.Key) })
	d.plan.Alerts = append(d.plan.Alerts, over...)
}

// over says why an incident is over, "" while it is not.
func (d *decision) over(head rules.Head) string {
	subject := head.Subject
	s := d.snapshotOf(subject)
	switch {
	case head.Lasting:
		return d.movedOn(subject)
	case subject.Kind == protocol.KindMachine && subject.Project == "":
		return "it is no longer so"
	case subject.Kind == protocol.KindProject:
		if !d.scanned(subject.Project) {
			return ""
		}
		return "it is no longer so"
	case s == nil:
		return ""
	}
	if v, ok := d.plan.Agents.Find(subject); ok {
		return fmt.Sprintf("%s is %s", subject.ID, v.State)
	}
	if _, ok := d.plan.Tasks.Find(subject); !ok && len(s.Faults) > 0 {
		return "" // the file that would show it may be the unreadable one
	}
	return "it is no longer so"
}

// movedOn says why an event about a task no longer needs the user.
func (d *decision) movedOn(subject protocol.Subject) string {
	v, ok := d.plan.Tasks.Find(subject)
	switch {
	case !ok:
		return "" // the task is no longer listed, and the user has not settled the incident
	case d.cancelled[subject]:
		return "the task was cancelled"
	case v.State == protocol.TaskDone:
		return "the task completed"
	case v.State == protocol.TaskRunning || v.State == protocol.TaskPending:
		return "the task was issued again"
	}
	return ""
}

// alertFailure tells the user of a failure that no retry will fix.
func (k *taskJudge) alertFailure(r rules.Ruling) {
	summary, spoken, detail := words.Announce(*k.t, r, k.env.cfg.Human)
	if asks := k.t.Outcome.ForHuman; len(asks) > 0 {
		detail += fmt.Sprintf(" It asks: %s.", strings.Join(asks, "; "))
	}
	severity := protocol.High
	if r.Fatal {
		severity = protocol.Critical
	}
	if r.Action == protocol.ActionDefer {
		severity = protocol.Medium
	} else {
		k.countCall()
	}
	a := rules.Alert{Kind: "task_failed", Code: r.Code, Severity: severity, Blocking: r.Fatal || r.Status == "blocked" || k.t.Blocking || len(k.t.Outcome.ForHuman) > 0, Lasting: true, Options: ofFailure(k.t, mayChange(k.s)),
		Summary: summary, Spoken: spoken, Detail: detail, Occurrence: k.t.Outcome.Ref.Sum}
	if k.t.Outcome.Ref == k.t.Ref { // it ends without a result of its own, and may fail again with the same text
		k.alert(condition{Alert: a, dated: true})
		return
	}
	k.alert(condition{Alert: a})
}

func (k *taskJudge) keyOf(a rules.Alert) string {
	if k.t.Foreign { // its agent may change or become known later; the incident is the same
		return rules.Key(k.subject.Project, k.subject.Protocol, k.subject.ID, "", a.Kind, a.Code)
	}
	return rules.Key(k.subject.Project, k.subject.Protocol, k.subject.ID, k.t.Agent, a.Kind, a.Code)
}

func (k *taskJudge) alert(c condition) {
	if k.old() {
		return
	}
	c.Subject, c.Agent, c.Silent = k.subject, k.t.Agent, k.t.Silent
	c.Key = k.keyOf(c.Alert)
	k.tell(c)
}

// old reports whether the result is history: it came long before the first scan of the project.
func (k *taskJudge) old() bool {
	o := k.t.Outcome
	return o != nil && !k.next.News && o.Appeared.Before(k.since.Add(-k.env.cfg.Tasks.History))
}

// alertForHuman tells the user what a result leaves for him to decide (000: next_actions, requires_jesse), after success
// too.
func (k *taskJudge) alertForHuman() {
	asks := k.t.Outcome.ForHuman
	if len(asks) == 0 {
		return
	}
	k.countCall()
	k.alert(condition{Alert: rules.Alert{Kind: "decision", Severity: protocol.High, Blocking: true, Lasting: true, Options: ofDecision(mayChange(k.s)),
		Summary:    "Your decision is needed: " + asks[0],
		Detail:     fmt.Sprintf("%s asks: %s.%s", title(k.t), strings.Join(asks, "; "), directive(k.t)),
		Spoken:     fmt.Sprintf("%s, your decision is needed: %s.", k.env.cfg.Human, asks[0]),
		Occurrence: k.t.Outcome.Ref.Sum}})
}

// alertStalled notices that a task's progress updates do not come.
func (k *taskJudge) alertStalled(last time.Time) {
	k.alert(condition{Alert: rules.Alert{Kind: "stalled", Severity: protocol.Medium,
		Summary:    "No progress of " + title(k.t),
		Detail:     fmt.Sprintf("It promised an update every %s; the last sign was at %s.%s", span(k.t.Progress.Every), clock(last), directive(k.t)),
		Spoken:     fmt.Sprintf("No progress of %s.", title(k.t)),
		Occurrence: last.Format(time.RFC3339)}})
}

// alertOverrun warns of a task over its time while its agent goes on with it (000, Timeout Behavior).
func (k *taskJudge) alertOverrun(deadline time.Time) {
	k.alert(condition{Alert: rules.Alert{Kind: "overrun", Severity: protocol.Medium,
		Summary:    fmt.Sprintf("%s is over its time; %s", title(k.t), k.goesOn()),
		Detail:     fmt.Sprintf("Its limit of %s passed at %s.%s", span(k.timeout()), deadline.UTC().Format(time.RFC3339), directive(k.t)),
		Spoken:     fmt.Sprintf("%s is over its time.", title(k.t)),
		Occurrence: deadline.UTC().Format(time.RFC3339)}})
}

// alertUntaken notes a task that no agent took within its own time.
func (k *taskJudge) alertUntaken() {
	why := "its agent is not known here"
	if k.agent != nil {
		why = fmt.Sprintf("%s is %s", k.t.Agent, k.agent.verdict.State)
	}
	k.alert(condition{Alert: rules.Alert{Kind: "untaken", Severity: protocol.Medium,
		Summary:    fmt.Sprintf("Nobody has taken %s for %s", title(k.t), span(k.timeout())),
		Detail:     fmt.Sprintf("Its request lies open since %s; %s.%s", k.next.Open.Format(time.RFC3339), why, directive(k.t)),
		Spoken:     fmt.Sprintf("Nobody takes %s.", title(k.t)),
		Occurrence: k.next.Open.Format(time.RFC3339)}})
}

// alertBudget tells that the project's hourly retries are used up.
func (k *taskJudge) alertBudget() {
	k.tell(condition{Alert: rules.Alert{Kind: "retry_budget", Severity: protocol.High, Subject: k.s.Subject(protocol.KindProject, k.s.Project),
		Summary: fmt.Sprintf("%s has used its %d retries of this hour", k.s.Project, k.env.cfg.Tasks.RetriesPerHour),
		Detail:  "Further retries wait until the hour is over ([tasks] retries_per_hour).",
		Spoken:  fmt.Sprintf("%s, the retries of project %s are used up.", k.env.cfg.Human, k.s.Project)}})
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

func directive(t *protocol.Task) string {
	if t.Directive == "" {
		return ""
	}
	return fmt.Sprintf(" You had asked: “%s”", t.Directive)
}

// clock is a time of day for a message.
func clock(t time.Time) string { return t.UTC().Format("15:04:05 UTC") }

// datedAfter is how old a moment must be to be shown with its date.
const datedAfter = 20 * time.Hour

// moment is clock, with the date if it is old.
func moment(t, now time.Time) string {
	if now.Sub(t) > datedAfter {
		return t.UTC().Format("2006-01-02 15:04 UTC")
	}
	return clock(t)
}

// span is a duration for a message.
func span(d time.Duration) string {
	if d >= 2*time.Minute && d%time.Minute == 0 {
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return fmt.Sprintf("%d s", d.Round(time.Second)/time.Second)
}

// The options that steward itself offers for a task that needs a decision.
const (
	OptionRetry    = "retry"    // issue it again, whatever the rules say
	OptionComplete = "complete" // the work itself is done: what waits for it may begin
	OptionLeave    = "leave"    // leave it as it is
	OptionDone     = "done"     // the human has taken care of it
	OptionWait     = "wait"     // for the rules to take their course
	OptionGiveUp   = "give_up"  // end the tasks of a dead agent
)

// ofFailure, ofDecision and ofDeath are the options that steward offers for a task that failed for good, for a result that
// leaves a decision to the user, and for an agent that died with tasks.
// See docs/decisions.md, ""It is done" is an option of its own where work waits for a mark (002)".
func ofFailure(t *protocol.Task, act bool) []rules.Option {
	if !act {
		return []rules.Option{{ID: OptionLeave, Label: "Leave it"}}
	}
	list := []rules.Option{{ID: OptionRetry, Label: "Run it again"}, {ID: OptionLeave, Label: "Leave it"}}
	if t.Answers {
		list = append(list, rules.Option{ID: OptionComplete, Label: "It is done"})
	}
	return list
}

func ofDecision(act bool) []rules.Option {
	if !act {
		return []rules.Option{{ID: OptionDone, Label: "Taken care of"}}
	}
	return []rules.Option{{ID: OptionDone, Label: "Taken care of"}, {ID: OptionRetry, Label: "Run it again"}}
}

func ofDeath() []rules.Option {
	return []rules.Option{{ID: OptionRetry, Label: "Issue its tasks again"}, {ID: OptionWait, Label: "Wait"},
		{ID: OptionGiveUp, Label: "Give its tasks up", Dangerous: true}}
}

// CareOptions is offered where steward itself can do nothing: it settles the incident, with the reason that the user gives.
func CareOptions() []rules.Option {
	return []rules.Option{{ID: OptionDone, Label: "Taken care of"}}
}
