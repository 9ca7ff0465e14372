package views

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/status/terminal"
	"github.com/livhana/steward/supervisor"
)

// Explanation shows everything known about a subject. Nothing is cut, because the user asks for the full reason.
func Explanation(p *terminal.Page, e status.Explanation) {
	switch {
	case e.Agent != nil:
		verdictPart(p, e.Subject, string(e.Agent.State), whyOf(*e.Agent))
		factsPart(p, append(agentFacts(p, *e.Agent, e.AgentEvidence), keptFact(e.Kept)))
	case e.Kept != nil:
		verdictPart(p, e.Subject, e.Kept.State, e.Kept.Why)
		factsPart(p, [][2]string{keptFact(e.Kept)})
	case e.Task != nil:
		verdictPart(p, e.Subject, string(e.Task.State), e.Task.Why)
		factsPart(p, taskFacts(p, *e.Task, e.TaskEvidence))
	case e.Lock != nil:
		verdictPart(p, e.Subject, string(e.Lock.State), e.Lock.Why)
		factsPart(p, lockFacts(p, *e.Lock, e.LockEvidence))
	case e.Plea != nil:
		verdictPart(p, e.Subject, "open", e.Plea.Text)
		factsPart(p, pleaFacts(p, e.Plea))
	case e.Incident != nil:
		verdictPart(p, e.Subject, string(e.Incident.State), e.Incident.Summary)
		factsPart(p, incidentFacts(p, *e.Incident))
	case e.Daemon != nil:
		p.Full("no steward is running, so how %s is now is not known; this is what the journal has on it", terminal.Clean(e.Subject))
	default:
		p.Full("%s is no longer in the files; the journal still knows it", terminal.Clean(e.Subject))
	}
	for _, f := range e.Findings {
		p.Full("  %s: %s%s", terminal.Clean(string(f.Severity)), problemWords(f.Field, f.Text), inFile(f.Path, f.Text))
	}
	Section(p, "Incidents", "", incidentRows(p, e.Incidents, false))
	if len(e.Journal) == 0 {
		p.Styled(terminal.Dim, "the journal has nothing on it")
		return
	}
	p.Title("Journal")
	for _, entry := range e.Journal {
		what, details := told(entry, p.Now)
		p.Full("  %s  %s", p.Clock(entry.At), what)
		for _, line := range details {
			p.Full("            %s", line)
		}
	}
}

func verdictPart(p *terminal.Page, subject, state, why string) {
	p.Full("%s is %s", terminal.Clean(subject), p.Dye(terminal.Clean(state), terminal.Styles[state]))
	if why = terminal.Clean(terminal.LocalTimes(why, p.Now)); why != "" {
		p.Full("  %s", why)
	}
}

// factsPart prints pairs of a name and a value; it omits pairs without a value.
func factsPart(p *terminal.Page, facts [][2]string) {
	width := 0
	for _, f := range facts {
		if f[1] != "" {
			width = max(width, terminal.Cells(f[0]))
		}
	}
	if width > 0 {
		p.Title("Evidence")
	}
	for _, f := range facts {
		if f[1] != "" {
			p.Full("  %-*s  %s", width, f[0], terminal.Clean(f[1]))
		}
	}
}

// keptFact says how steward starts the agent.
func keptFact(k *status.Kept) [2]string {
	switch {
	case k == nil:
		return [2]string{}
	case k.Role:
		return [2]string{"started by", fmt.Sprintf("steward, when work waits ([[role]]); now %s, %s", cmp.Or(k.Why, k.State), terminal.Plural(k.Tasks, "waiting task"))}
	}
	return [2]string{"started by", "steward ([[agent]]); now " + cmp.Or(k.Why, k.State)}
}

func agentFacts(p *terminal.Page, a supervisor.AgentReport, e *status.AgentEvidence) [][2]string {
	facts := [][2]string{
		{"says", a.Status},
		{"last beat", whenWords(p, a.LastBeat)},
		{"silent", terminal.Seconds(a.SilentSeconds)},
		{"tasks", strings.Join(a.Tasks, ", ")},
	}
	if e == nil {
		return facts
	}
	proof, beats, watched := "", "", ""
	if e.Proof {
		proof = "proved dead, not only silent"
	}
	if e.Beats > 0 {
		beats = fmt.Sprintf("%d seen, the last gap %s, the longest %s", e.Beats, terminal.Seconds(e.LastGap), terminal.Seconds(e.Longest))
	}
	if e.Observed > 0 {
		watched = fmt.Sprintf("%s, with a beat recent enough for %.1f %% of it", terminal.Seconds(e.Observed), 100*e.Covered/e.Observed)
	}
	return append(facts, [][2]string{
		{"limits", fmt.Sprintf("late after %s of silence, dead after %s; hung after %s without a sign of its processes", terminal.Seconds(e.Late), terminal.Seconds(e.Dead), terminal.Seconds(e.Hung))},
		{"reason", string(e.Reason)},
		{"since", whenWords(p, e.Since)},
		{"changes", whenWords(p, e.Deadline)},
		{"proof", proof},
		{"process", number(e.Process)},
		{"beats", beats},
		{"watched", watched},
		{"registry", e.Recorded},
		{"held", e.Held},
	}...)
}

func number(n *int) string {
	if n == nil {
		return ""
	}
	return strconv.Itoa(*n)
}

func taskFacts(p *terminal.Page, t supervisor.TaskReport, e *status.TaskEvidence) [][2]string {
	facts := [][2]string{
		{"agent", t.Agent}, {"type", t.Type}, {"priority", t.Priority.String()}, {"attempt", strconv.Itoa(t.Attempt)},
		{"due", whenWords(p, t.NotBefore)}, {"progress", progressFact(p, t.Progress)},
	}
	for _, s := range t.Steps {
		facts = append(facts, [2]string{"step", stepFact(s)})
	}
	if e == nil {
		return facts
	}
	timeout := ""
	if e.Timeout > 0 {
		timeout = terminal.Seconds(e.Timeout)
	}
	facts = append(facts, [][2]string{
		{"created", whenWords(p, e.Created)}, {"first seen", whenWords(p, e.FirstSeen)}, {"running since", whenWords(p, e.Running)}, {"shown by", e.Named},
		{"timeout", timeout}, {"blocked", e.Block}, {"held", holdFact(p, e.Hold)}, {"largest users", gateFact(e.Hold)}, {"asked for", e.Directive}, {"related", strings.Join(e.Related, ", ")},
	}...)
	for _, k := range e.Takings {
		facts = append(facts, [2]string{"taken back", takingFact(p, k)})
	}
	if o := e.Outcome; o != nil {
		facts = append(facts, [2]string{"result", outcomeFact(p, o)})
		for _, f := range o.Failures {
			facts = append(facts, [2]string{"failure", failureFact(f)})
		}
	}
	if e.Buried {
		facts = append(facts, [2]string{"dead letter", "on record"})
	}
	if e.Cancelled {
		facts = append(facts, [2]string{"cancelled", cmp.Or(e.CancelWhy, "yes")})
	}
	for _, next := range t.Next {
		facts = append(facts, [2]string{"next", next})
	}
	return facts
}

// stepFact is a step's result on one line; unset values are omitted.
func stepFact(s protocol.Step) string {
	words := []string{s.Name, cmp.Or(s.Gate, s.Status)}
	if s.ExitCode != nil {
		words = append(words, fmt.Sprintf("exit code %d", *s.ExitCode))
	}
	if s.Seconds > 0 {
		words = append(words, terminal.Seconds(s.Seconds))
	}
	if s.Iterations > 0 {
		words = append(words, fmt.Sprintf("iterations %d", s.Iterations))
	}
	if s.Runs > 1 {
		words = append(words, fmt.Sprintf("run %d", s.Runs))
	}
	return terminal.Clean(join(append(words, s.PR, s.Report, s.Logs)...))
}

func progressFact(p *terminal.Page, r *supervisor.ProgressReport) string {
	if r == nil || r.At.IsZero() {
		return ""
	}
	return join(fmt.Sprintf("%.0f %%", r.Percent), r.Step, p.Ago(&r.At))
}

func holdFact(p *terminal.Page, h *status.HoldFact) string {
	if h == nil {
		return ""
	}
	lease, due := "", ""
	if h.ReleaseBy != nil {
		lease = "freed at " + p.Clock(*h.ReleaseBy) + " at the latest, unless steward renews it"
	}
	if h.NotBefore != nil {
		due = "due " + p.Ago(h.NotBefore)
	}
	return join(h.Reason, strings.Join(h.Dimensions, " and "), whenWords(p, h.Since), due, lease)
}

// gateFact names the largest consumers of the resource that was too full.
func gateFact(h *status.HoldFact) string {
	if h == nil || h.Gate == nil {
		return ""
	}
	var names []string
	for _, c := range h.Gate.Consumers[:min(capacity.ConsumersShown, len(h.Gate.Consumers))] {
		takes := fmt.Sprintf("%.1f cores, %s", c.CPU, mebibytes(c.Memory))
		if c.Files > 0 {
			takes += ", " + terminal.Plural(c.Files, "file")
		}
		names = append(names, fmt.Sprintf("%s (%s)", join(c.Name, "pid "+strconv.Itoa(c.PID), c.Agent), takes))
	}
	return strings.Join(names, "; ")
}

func takingFact(p *terminal.Page, k protocol.Attempt) string {
	what := fmt.Sprintf("%d: %s after %s, rule %s, due %s", k.N, k.Action, k.Code, k.Rule, p.Clock(k.Due))
	if k.Twice {
		what += ", may have run twice"
	}
	return what
}

func outcomeFact(p *terminal.Page, o *status.Outcome) string {
	by := o.Agent
	if o.Ours {
		by = "steward, for " + o.Agent
	}
	return join(o.Status, by, whenWords(p, o.At), o.Summary)
}

func failureFact(f protocol.Failure) string {
	where := f.File
	if f.File != "" && f.Line > 0 {
		where = fmt.Sprintf("%s:%d", f.File, f.Line)
	}
	return join(f.Code, f.Severity, where, f.Message)
}

func lockFacts(p *terminal.Page, l supervisor.LockReport, e *status.LockEvidence) [][2]string {
	facts := [][2]string{{"holder", l.Holder}, {"expires", whenWords(p, l.Expires)}}
	if e == nil {
		return facts
	}
	facts = append(facts, [2]string{"process", number(e.Process)}, [2]string{"acquired", whenWords(p, e.Acquired)})
	if e.Waiting != nil && len(e.Waiting) == 0 {
		facts = append(facts, [2]string{"waits", "no process"})
	}
	for _, w := range e.Waiting {
		facts = append(facts, [2]string{"waits", join("process "+strconv.Itoa(w.PID), terminal.OneWord(strings.Join(w.Command, " ")))})
	}
	return facts
}

func pleaFacts(p *terminal.Page, l *protocol.Question) [][2]string {
	facts := [][2]string{{"asked by", l.Agent}, {"task", l.Task}, {"severity", string(l.Severity)}, {"detail", l.Detail}}
	if l.Blocking {
		facts = append(facts, [2]string{"blocks work", "yes"})
	}
	if !l.Due.IsZero() {
		facts = append(facts, [2]string{"told to the human", whenWords(p, &l.Due)})
	}
	for i, o := range l.Options {
		facts = append(facts, [2]string{"option", strconv.Itoa(i+1) + ": " + o})
	}
	return facts
}

func incidentFacts(p *terminal.Page, i escalate.Incident) [][2]string {
	blocking := ""
	if i.Blocking {
		blocking = "yes"
	}
	facts := [][2]string{
		{"severity", string(i.Severity)}, {"about", i.About}, {"agent", i.Agent}, {"code", i.Code}, {"detail", terminal.LocalTimes(i.Detail, p.Now)}, {"blocks work", blocking},
		{"happened", fmt.Sprintf("%d×, first %s, last %s", i.Count, whenWords(p, &i.First), whenWords(p, &i.Last))},
	}
	if i.Silent {
		facts = append(facts, [2]string{"voice", "never spoken of, because the task's request says voice_mode_active: false"})
	}
	if i.State == rules.Acked || i.State == rules.Snoozed {
		facts = append(facts, [2]string{"quiet until", p.Clock(i.AckedUntil)})
	}
	if i.State == rules.Resolved {
		facts = append(facts, [2]string{"resolved", join(whenWords(p, &i.ResolvedAt), "by "+string(i.ResolvedBy), i.Why)})
	}
	for _, o := range i.Options {
		facts = append(facts, [2]string{"option", o.ID + ": " + o.Label})
	}
	if a := i.Answer; a != nil {
		written := "not written yet"
		if !a.Carried.IsZero() {
			written = "written " + whenWords(p, &a.Carried)
		}
		facts = append(facts, [2]string{"answer", join(a.Label, "by "+a.By, "through "+a.Via, written, a.Why, a.Problem)})
	}
	for _, d := range i.Deliveries {
		facts = append(facts, [2]string{"delivery", join(d.Channel, d.Result, whenWords(p, &d.At), d.Error)})
	}
	return facts
}

// whenWords is a time with its distance from now; "" for none.
func whenWords(p *terminal.Page, t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return p.Clock(*t) + " (" + p.Ago(t) + ")"
}

// join joins the non-empty parts.
func join(parts ...string) string {
	var said []string
	for _, part := range parts {
		if part != "" {
			said = append(said, part)
		}
	}
	return strings.Join(said, ", ")
}
