package ralph

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
)

// setUp is how long work may be in hand without a pid file that says by whom, unless Options say otherwise: its worker is
// being set up.
const setUp = time.Minute

// fate is what becomes of a task in hand.
type fate struct {
	lost     string // what proves that nobody works on it
	resume   string // what the program itself will still do about it
	planner  string // the planning run that alone works on it
	presence protocol.Presence
	evidence string
	idle     bool
}

// judgeTask says whether somebody works on a task that is in hand.
func (p *Project) judgeTask(c *processScan, it *item, st *state) fate {
	w := p.newest[it.id]
	if !c.known {
		return fate{idle: true, evidence: "its processes cannot be seen here, so nothing is expected of it"}
	}
	f := fate{}
	if w != nil {
		f.presence, f.evidence = w.session.presence, w.session.evidence
		if f.presence == protocol.PresenceHere {
			st.bare = time.Time{}
			return f
		}
		if pid := p.visitor(c, w); pid != 0 {
			st.bare = time.Time{}
			return fate{presence: protocol.PresenceHere, evidence: fmt.Sprintf("process %d works in its folder", pid)}
		}
	}
	if f.planner = p.planner(it.id); f.planner != "" {
		st.bare = time.Time{}
		f.presence, f.idle = protocol.PresenceGone, true
		return f
	}
	if f.presence == protocol.PresenceUnproved {
		if p.isSetUp(w, st) {
			return fate{presence: protocol.PresenceGone, idle: true, evidence: "no pid file yet"} // an earlier process of it may have ended
		}
		f.presence, f.evidence = protocol.PresenceGone, "no pid file is there, and nobody works in its folder"
	}
	switch {
	case it.twice:
		return f
	case w == nil:
		return fate{lost: p.unmanned(it.id)}
	}
	if f.resume = p.resumes(w); f.resume != "" {
		f.idle = true
		return f
	}
	f.lost = w.name + ": " + f.evidence + w.givenUp()
	return f
}

// isSetUp reports whether the worker of a task in hand (nil: none has a folder yet) may still be on its way, since no pid
// file is there. It is not when the kanban and the worker's folder have both rested for the grace, nor when we have seen
// it so for as long: a kanban in use is written again and again, and steward itself may have begun a moment ago.
func (p *Project) isSetUp(w *worker, st *state) bool {
	name := ""
	newest := p.board.file.Stamp.ModTime()
	if st.live {
		newest = latest(newest, st.ended)
	}
	if w != nil {
		name, newest = w.name, latest(newest, w.made)
		if w.epoch > 0 {
			newest = latest(newest, time.Unix(w.epoch, 0))
		}
	}
	if st.bare.IsZero() || st.bareOf != name || p.Now.Before(st.bare) {
		st.bare, st.bareOf = p.Now, name
	}
	grace := cmp.Or(p.opts.Grace, setUp)
	due := st.bare.Add(grace)
	if quiet := newest.Add(grace); quiet.Before(due) {
		due = quiet
	}
	return p.wait(due)
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// planner names a living planning run for the task.
func (p *Project) planner(id string) string {
	for _, name := range sortedKeys(p.manned) {
		if w := p.manned[name]; w.plan && w.task == id && w.session.presence == protocol.PresenceHere {
			return name
		}
	}
	return ""
}

// unmanned says who worked on a task that has no worker's folder.
func (p *Project) unmanned(id string) string {
	for _, w := range p.workers {
		if w.plan && w.task == id {
			return "only a planning run worked on it, and that is over"
		}
	}
	return "no worker folder is there for it"
}

// wait reports whether a moment is still to come, and asks for a look then.
func (p *Project) wait(at time.Time) bool {
	if !p.Now.Before(at) {
		return false
	}
	p.Patience.RetryAt(at)
	return true
}

// resumes says what the program's own resuming will do for a worker that has stopped; "" when nothing more comes.
func (p *Project) resumes(w *worker) string {
	here := p.chief.presence == protocol.PresenceHere
	r := &w.resume
	switch {
	case r.There && !r.Good:
		return "resume-state.json cannot be read, so its own resume may still come"
	case !r.There && !(here && w.names["workspace"] && w.names["prd.md"]):
		return ""
	case r.Value.terminal || r.There && r.Value.attempts >= r.Value.most:
		return ""
	}
	state := r.Value
	if !r.There {
		state.most = mostResumes
	}
	text := fmt.Sprintf("it has stopped, and its own program resumes it: attempt %d of %d", state.attempts+1, state.most)
	if p.wait(state.cooling) {
		text += ", not before " + state.cooling.UTC().Format("15:04:05Z")
	}
	if !here {
		text += ", once an orchestrator runs"
	}
	return text
}

// givenUp says why the program itself resumes the worker no more, as its resume-state.json has it; "" when it does not say.
func (w *worker) givenUp() string {
	r := w.resume.Value
	switch {
	case !w.resume.There || !w.resume.Good:
		return ""
	case r.terminal && r.reason != "":
		return "; its own program does not resume it any more: " + r.reason
	case r.terminal:
		return "; its own program does not resume it any more"
	case r.attempts >= r.most:
		return fmt.Sprintf("; its own program has used up its attempts to resume it: %d of %d", r.attempts, r.most)
	}
	return ""
}

// isNews reports whether an ended task is to be listed.
func (p *Project) isNews(i int) bool {
	_, found := slices.BinarySearch(p.board.since(p.Since), i)
	return found
}

// tasks lists the kanban's tasks in its order: all open ones, those that ended after Look.Since, and those that wait for
// a human, however long: he names them in his commands.
func (p *Project) tasks(fates map[string]fate) []protocol.Task {
	which := slices.Concat(p.board.open, p.board.since(p.Since), p.board.calls)
	slices.Sort(which)
	which = slices.Compact(which)
	list := make([]protocol.Task, 0, len(which))
	for _, i := range which {
		if it := &p.board.file.Value[i]; hasEnded(it.marker) {
			list = append(list, p.ended(it, p.board.state[i]))
		} else {
			list = append(list, p.openTask(it, fates[it.id]))
		}
	}
	return list
}

// base is what all tasks of the kanban have in common.
func (p *Project) base(it *item) protocol.Task {
	return protocol.Task{ID: it.id, Title: it.title, Priority: it.priority, Timeout: protocol.NoTimeout, Foreign: true, Answers: true,
		Related: slices.Clone(it.related), Ref: protocol.Ref{Path: path.Join(Base, kanbanFile), Sum: it.sum}}
}

func (p *Project) openTask(it *item, f fate) protocol.Task {
	t := p.base(it)
	switch it.marker {
	case todo:
		t.Visible = true
		return t
	case approval:
		t.Named, t.Awaits = "pending approval", "approval of its pull request"
	case working:
		t.Named, t.Lost = "kanban", f.lost
	}
	w := p.newest[it.id]
	if w == nil {
		t.Agent = f.planner
		return t
	}
	t.Agent, t.Steps = w.name, p.steps(w)
	if w.epoch > 0 {
		t.Started = p.capped(time.Unix(w.epoch, 0).UTC())
	}
	if c := w.point.Value; w.point.Good || w.point.There {
		t.Progress = protocol.Progress{Step: c.step, At: p.capped(c.at.By(w.point.Stamp.ModTime()))}
	}
	return t
}

// Codes of a failed task's failure, and of a cancelled one.
const (
	codeHuman     = "NEEDS_HUMAN"
	codeCancelled = "CANCELLED"
)

// ended makes a task that is over (protocol 002, Status Updates: "[*] needs manual intervention").
func (p *Project) ended(it *item, s state) protocol.Task {
	t := p.base(it)
	o := &protocol.Outcome{At: s.ended, Ref: t.Ref}
	if s.ended.After(p.Since) { // what came before counts as history, however it is dated: only commands ask for it
		o.Appeared = s.ended
	}
	w := p.newest[it.id]
	if w != nil {
		t.Agent, o.Agent, t.Steps = w.name, w.name, p.steps(w)
	}
	switch it.marker {
	case complete:
		o.Status = "completed"
	case failed:
		o.Status = "failed"
		o.Failures = []protocol.Failure{{Code: codeHuman, Severity: "error", Message: reason(w) + p.blocking(it.id)}}
		if m, ok := p.markOf(it); ok {
			o.Failures[0].Message = "steward marked it: " + m.why
		}
	case dropped:
		o.Status, t.Cancelled = "cancelled", true
		o.Failures = []protocol.Failure{{Code: codeCancelled, Severity: "error", Message: "not planned"}}
	}
	t.Outcome = o
	return t
}

// taskFindings says what a task's newest worker reports, and what it did wrong.
func (p *Project) taskFindings(w *worker, f fate) []protocol.Finding {
	i, known := p.board.where[w.task]
	if !known {
		return nil
	}
	marker := p.board.file.Value[i].marker
	if marker != working && marker != approval && marker != failed {
		return nil
	}
	var list []protocol.Finding
	add := func(code, field string, severity protocol.Severity, format string, args ...any) {
		f := protocol.Finding{Subject: task(w.task), Code: code, Field: field, Severity: severity, Text: fmt.Sprintf(format, args...)}
		if severity == protocol.High {
			f.Settle = "Reviewed"
		}
		list = append(list, f)
	}
	if v := w.violation; v.Good && v.Value != "" {
		severity := protocol.Low
		if strings.HasPrefix(v.Value, "WORKSPACE_VIOLATION") {
			severity = protocol.High
		}
		add("violation", violationFile, severity, "%s says: %s", w.name, v.Value)
	}
	if v := p.lastViolation(w); v != nil {
		add("violation", "violations.log", protocol.High, "%s", v.text)
	}
	if marker == failed {
		return list // the rest is in its failure
	}
	for _, name := range sortedKeys(w.results) {
		p.stepFindings(w, w.results[name], folder.Line(name, 80), add)
	}
	if f.resume != "" {
		add("resume_pending", "", protocol.Low, "%s", f.resume)
	}
	for _, text := range w.blocked.Value {
		add("blocked", folder.Line(text, 80), protocol.Low, "its summary says that it is blocked: %s", text)
	}
	return list
}

func (p *Project) lastViolation(w *worker) *violation {
	for i := len(p.told.entries) - 1; i >= 0; i-- {
		if v := &p.told.entries[i]; v.worker == w.name && p.isRecent(v.at) {
			return v
		}
	}
	return nil
}
