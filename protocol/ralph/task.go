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

// defaultGrace is the default of Options.Grace.
const defaultGrace = time.Minute

func (o *Options) grace() time.Duration { return cmp.Or(o.Grace, defaultGrace) }

// kanbanView decides about tasks and agents. Its methods read the values of the last scan.
type kanbanView struct{ *reader }

// isRecent reports whether a time is not history. A zero time counts as recent.
func isRecent(at, since time.Time) bool { return at.IsZero() || !at.Before(since) }

// verdict is what is known about a task in progress.
type verdict struct {
	lost     string // proof that no process works on it
	resume   string // how the program itself will still resume it
	planner  string // the planning run that is its only worker
	presence protocol.Presence
	evidence string
	idle     bool
}

// judgeTasks judges the tasks in progress, by id.
func (v kanbanView) judgeTasks() map[string]verdict {
	verdicts := map[string]verdict{}
	for _, e := range v.board.open {
		if e.marker == working {
			verdicts[e.id] = v.judgeTask(&e.item, &e.track)
		}
	}
	return verdicts
}

// judgeTask decides whether a process works on a task in progress.
func (v kanbanView) judgeTask(it *item, tr *track) verdict {
	if !v.table.known {
		return verdict{idle: true, evidence: "its processes cannot be seen here, so nothing is expected of it"}
	}
	w, d := v.workers.newest(it.id), verdict{}
	if w != nil {
		d.presence, d.evidence = w.session.presence, w.session.evidence
	}
	if w != nil && d.presence != protocol.PresenceHere {
		if pid := v.table.visitor(w); pid != 0 {
			d.presence, d.evidence = protocol.PresenceHere, fmt.Sprintf("process %d works in its folder", pid)
		}
	}
	if d.presence == protocol.PresenceHere {
		tr.bare = time.Time{}
		return d
	}
	plans := v.workers.byTask[it.id].plans
	if i := slices.IndexFunc(plans, func(p *worker) bool { return p.session.presence == protocol.PresenceHere }); i >= 0 {
		tr.bare = time.Time{}
		d.planner, d.presence, d.idle = plans[i].name, protocol.PresenceGone, true
		return d
	}
	if d.presence == protocol.PresenceUnproved {
		if v.isSetUp(w, tr) {
			// It is gone, not unproved: an earlier process of the worker may have ended.
			return verdict{presence: protocol.PresenceGone, idle: true, evidence: "no pid file yet"}
		}
		d.presence, d.evidence = protocol.PresenceGone, "no pid file is there, and no process works in its folder"
	}
	switch {
	case it.duplicate:
		return d
	case w == nil && len(plans) > 0:
		return verdict{lost: "only a planning run worked on it, and that is over"}
	case w == nil:
		return verdict{lost: "no worker folder is there for it"}
	}
	if d.resume = v.resumes(w); d.resume != "" {
		d.idle = true
		return d
	}
	if v.resuming[it.id] {
		d.resume, d.idle = "it has stopped, and steward has started the resume command for it"+w.givenUp(), true
		return d
	}
	d.lost = w.name + ": " + d.evidence + w.givenUp()
	return d
}

// isSetUp reports whether the worker of a task in progress may still be starting, since it has no pid file; w is nil if it
// has no folder either. It is not starting once the kanban and the worker's folder have both been unchanged for the grace,
// or once steward has seen the task in this state for the grace. Both are needed: a kanban in use is rewritten again and
// again, and steward itself may have started a moment ago.
func (v kanbanView) isSetUp(w *worker, tr *track) bool {
	name := ""
	newest := v.board.file.Stamp.ModTime()
	if tr.live {
		newest = folder.Later(newest, tr.ended)
	}
	if w != nil {
		name, newest = w.name, folder.Later(newest, w.made)
		if w.epoch > 0 {
			newest = folder.Later(newest, time.Unix(w.epoch, 0))
		}
	}
	if tr.bare.IsZero() || tr.bareOf != name || v.Now.Before(tr.bare) {
		tr.bare, tr.bareOf = v.Now, name
	}
	due := tr.bare.Add(v.opts.grace())
	if quiet := newest.Add(v.opts.grace()); quiet.Before(due) {
		due = quiet
	}
	return v.Wait(due)
}

// resumes says how the program will itself resume a stopped worker; "" if it will not.
func (v kanbanView) resumes(w *worker) string {
	r, state := &w.resume, w.resume.Value
	switch {
	case r.There && !r.Good:
		return "resume-state.json cannot be read, so its own resume may still come"
	case !r.There && !(v.orchestrator.here() && w.names["workspace"] && w.names["prd.md"]):
		return ""
	case !r.There:
		state.most = mostResumes
	case state.usedUp():
		return ""
	}
	text := fmt.Sprintf("it has stopped, and its own program resumes it: attempt %d of %d", state.attempts+1, state.most)
	if v.Wait(state.cooling) {
		text += ", not before " + state.cooling.UTC().Format("15:04:05Z")
	}
	if !v.orchestrator.here() {
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

// tasks lists the tasks that the scan is about, in the kanban's order.
func (v kanbanView) tasks(verdicts map[string]verdict) []protocol.Task {
	list := make([]protocol.Task, 0, len(v.board.listed))
	for _, e := range v.board.listed {
		t := protocol.Task{Request: protocol.Request{
			ID: e.id, Title: e.title, Priority: e.priority, Timeout: protocol.NoTimeout,
			Related: slices.Clone(e.related), Ref: protocol.Ref{Path: path.Join(Base, kanbanFile), Sum: e.sum},
		}, Handling: protocol.Handling{Foreign: true, Answers: true}}
		w := v.workers.newest(e.id)
		if w != nil && e.marker != todo {
			t.Agent, t.Steps = w.name, w.steps()
		}
		if hasEnded(e.marker) {
			v.describeEnded(&t, e, w)
		} else {
			v.describeOpen(&t, e, w, verdicts[e.id])
		}
		list = append(list, t)
	}
	return list
}

func (v kanbanView) describeOpen(t *protocol.Task, e *entry, w *worker, d verdict) {
	switch e.marker {
	case todo:
		t.Visible = true
		return
	case approval:
		t.Named, t.Awaits = "pending approval", "approval of its pull request"
	case working:
		t.Named, t.Lost = "kanban", d.lost
	}
	if w == nil {
		t.Agent = d.planner
		return
	}
	if e.marker == working && !v.opts.NoWatch {
		t.Violation = v.violation(w)
	}
	if w.epoch > 0 {
		t.Started = v.Past(time.Unix(w.epoch, 0).UTC())
	}
	if c := &w.checkpoint; c.Good || c.There {
		t.Progress = protocol.Progress{Step: c.Value.step, At: v.Past(c.Value.at.By(c.Stamp.ModTime()))}
	}
}

// Failure codes of a failed task and of a cancelled task.
const (
	codeHuman     = "NEEDS_HUMAN"
	codeCancelled = "CANCELLED"
)

// describeEnded describes a task that is over (protocol 002, Status Updates: "[*] needs manual intervention").
func (v kanbanView) describeEnded(t *protocol.Task, e *entry, w *worker) {
	o := &protocol.Outcome{At: e.ended, Agent: t.Agent, Ref: t.Ref}
	if e.ended.After(v.Since) { // an earlier end is history, however it is dated: only commands ask for it
		o.Appeared = e.ended
	}
	switch e.marker {
	case complete:
		o.Status = "completed"
	case failed:
		o.Status = "failed"
		message := failureReason(w) + v.blockedBy(e.id)
		if k, ok := v.failures.find(&e.item); ok {
			message = "steward marked it: " + k.why
		}
		o.Failures = []protocol.Failure{{Code: codeHuman, Severity: "error", Message: message}}
	case dropped:
		o.Status, t.Cancelled = "cancelled", true
		o.Failures = []protocol.Failure{{Code: codeCancelled, Severity: "error", Message: "not planned"}}
	}
	t.Outcome = o
}

// blockedBy names the open tasks that depend on a failed task; "" if there are none.
func (v kanbanView) blockedBy(id string) string {
	var ids []string
	for _, e := range v.board.open {
		if slices.Contains(e.related, id) {
			ids = append(ids, e.id)
		}
	}
	if len(ids) == 0 {
		return ""
	}
	return "; it blocks " + folder.Line(strings.Join(ids, ", "), 200)
}
