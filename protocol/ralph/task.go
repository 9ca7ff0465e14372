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

// setUp is the default of Options.Grace: how long a task may be in progress without a pid file, while its worker is being
// set up.
const setUp = time.Minute

// fate is the verdict on a task in progress.
type fate struct {
	lost     string // proof that no process works on it
	resume   string // how the program itself will still resume it
	planner  string // the planning run that is its only worker
	presence protocol.Presence
	evidence string
	idle     bool
}

// judgeTask decides whether a process works on a task in progress.
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
			// It is gone, not unproved: an earlier process of the worker may have ended.
			return fate{presence: protocol.PresenceGone, idle: true, evidence: "no pid file yet"}
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

// isSetUp reports whether the worker of a task in progress may still be starting, since it has no pid file; w is nil if it
// has no folder either. It is not starting once the kanban and the worker's folder have both been unchanged for the grace,
// or once steward has seen the task in this state for the grace. Both are needed: a kanban in use is rewritten again and
// again, and steward itself may have started a moment ago.
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

// planner returns the name of a living planning run for the task.
func (p *Project) planner(id string) string {
	for _, name := range sortedKeys(p.manned) {
		if w := p.manned[name]; w.plan && w.task == id && w.session.presence == protocol.PresenceHere {
			return name
		}
	}
	return ""
}

// unmanned says why a task without a worker's folder is lost.
func (p *Project) unmanned(id string) string {
	for _, w := range p.workers {
		if w.plan && w.task == id {
			return "only a planning run worked on it, and that is over"
		}
	}
	return "no worker folder is there for it"
}

// wait reports whether a time is still to come, and if so requests a scan at that time.
func (p *Project) wait(at time.Time) bool {
	if !p.Now.Before(at) {
		return false
	}
	p.Patience.RetryAt(at)
	return true
}

// resumes says how the program will itself resume a stopped worker; "" if it will not.
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

// givenUp says why the program no longer resumes the worker, according to resume-state.json; "" if the file does not say.
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

// tasks lists the kanban's tasks in its order: all open tasks, those that ended after Look.Since, and those that wait for
// the user, however old, because the user names them in commands.
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

// base returns the fields that all tasks of the kanban have in common.
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

// Failure codes of a failed task and of a cancelled task.
const (
	codeHuman     = "NEEDS_HUMAN"
	codeCancelled = "CANCELLED"
)

// ended returns a task that is over (protocol 002, Status Updates: "[*] needs manual intervention").
func (p *Project) ended(it *item, s state) protocol.Task {
	t := p.base(it)
	o := &protocol.Outcome{At: s.ended, Ref: t.Ref}
	if s.ended.After(p.Since) { // an earlier end is history, however it is dated: only commands ask for it
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

// taskFindings lists what a task's newest worker reports, and the worker's violations.
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
		return list // the task's failure contains the rest
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
