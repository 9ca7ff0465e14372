package agentstatus

import (
	"context"
	"fmt"
	"hash/fnv"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
)

// Project is one project's adapter: what it has read of the project. It is used by one goroutine at a time.
type Project struct {
	*statusFiles
	dir      string // the project
	attempts *attempts
	tasks    *taskTable
	agents   *agentDirs
	log      *sharedLog
}

// forget drops all cached state. Folder calls it when the protocol's folder was recreated.
func (p *Project) forget() {
	p.Listings.Reset()
	p.attempts.forget()
	p.tasks.forget()
	p.agents.forget()
	p.log.forget()
}

// Observe returns a snapshot of the files. With hints it rereads only the hinted files and the few files of the
// agents.
func (p *Project) Observe(ctx context.Context, order protocol.ScanOrder) protocol.Snapshot {
	s, there := p.Scan(ctx, order)
	if !there {
		return s
	}
	p.probeAll()
	full := order.Full() || wide(order.Hints)
	p.log.retry(ctx)
	p.log.read()
	p.agents.read()
	if full {
		p.tasks.readAll()
		p.Through(p.Folder, attemptsDir, claimsDir)
		p.log.prune(p.Now, p.tasks.open)
	} else {
		p.tasks.readHinted(order.Hints)
	}
	clear(p.tasks.dirty)
	p.describe(&s)
	s.Locate(Base)
	p.tasks.retire()
	s.Again = p.Patience.Again()
	return s
}

// describe fills in the snapshot.
func (p *Project) describe(snap *protocol.Snapshot) {
	snap.LogsCalls, snap.Called, snap.LogSince = true, p.log.incidents, p.log.since
	known, agents := p.agents.all()
	snap.Tasks = make([]protocol.Task, 0, len(p.tasks.open))
	for _, id := range sortedKeys(p.tasks.open) {
		e := p.tasks.open[id]
		if t, ok := taskOf(p, e, known, agents); ok {
			snap.Tasks = append(snap.Tasks, t)
			snap.Findings = append(snap.Findings, e.findings()...)
		}
	}
	snap.Findings = append(snap.Findings, p.tasks.overlaps(snap.Tasks)...)
	p.updateSigns(known, agents)
	p.agents.describe(snap, agents)
	shared := func(file string) protocol.Subject { return protocol.Subject{Kind: protocol.KindProject, ID: file} }
	snap.Findings = append(snap.Findings, findingsAbout(shared(registry), registry, p.agents.registry.Value.issues)...)
	snap.Findings = append(snap.Findings, findingsAbout(shared(logFile), logFile, p.log.issues())...)
	snap.Faults = append(snap.Faults, p.Faults()...)
	for _, odd := range []map[string]protocol.Fault{p.tasks.odd, p.agents.odd} {
		for _, name := range sortedKeys(odd) {
			snap.Faults = append(snap.Faults, odd[name])
		}
	}
	if p.log.unwritten != nil {
		snap.Faults = append(snap.Faults, *p.log.unwritten)
	}
}

// findings lists what is wrong with those files of a task that can still be used.
func (e *entry) findings() []protocol.Finding {
	subject := protocol.Subject{Kind: protocol.KindTask, ID: e.id}
	r := e.asked()
	list := findingsAbout(subject, r.path, r.Value.issues)
	if o, result := e.ended(); o != nil {
		list = append(list, findingsAbout(subject, result.Path, o.issues)...)
	}
	if e.progress.Good {
		list = append(list, findingsAbout(subject, e.progress.path, e.progress.Value.issues)...)
	}
	for _, file := range e.missing {
		list = append(list, protocol.Finding{Subject: subject, Code: "artifact", Field: "payload.expected_artifacts", Severity: protocol.Medium,
			Text: fmt.Sprintf("completed, but the expected file is not there: %s", folder.Line(file, 200))})
	}
	return list
}

// taskOf builds what policies may know about a task. ok is false while no readable file names the task.
func taskOf(p *Project, e *entry, known directory, agents map[string]*agentFacts) (protocol.Task, bool) {
	asked := e.asked()
	r := &asked.Value
	o, resultRef := e.ended()
	if asked.path == "" && (o == nil || p.Patience.Passing(e.request.path) || p.Patience.Passing(e.held.path)) {
		return protocol.Task{}, false
	}
	t := protocol.Task{Request: protocol.Request{
		ID: e.id, Agent: known.canonical(r.Target), Source: r.Source, Type: r.Type, Title: r.title,
		Priority: r.priority, Timeout: r.timeout, Throttle: r.throttle, Created: capped(e.created(), p.Now),
		Related: r.Context.Related, Payload: r.payload, Directive: r.Context.Directive, Silent: r.silent, Voice: r.voice, Blocking: r.Coordination.Blocking, Ref: asked.ref(),
	},
		Record: protocol.Record{
			Attempts: e.record.attempts, Buried: e.record.buried, Cancelled: e.record.cancelled,
			CancelReason: e.record.reason, CancelWhy: e.record.why, Reopened: e.reopened(),
		}, Hold: e.hold()}
	t.Visible = e.request.Good && !e.result.There && o == nil
	if e.request.Good {
		t.Appeared = capped(appeared(e.request.Stamp), p.Now)
	}
	if o != nil {
		t.Outcome = outcomeOf(p, e, o, resultRef)
		if t.Agent == "" {
			t.Agent = known.canonical(o.Agent)
		}
	} else if len(r.Coordination.After) > 0 {
		t.Block = p.tasks.block(e.id, r)
	}
	e.agent = t.Agent
	var late *doc[outcome]
	switch {
	case e.overruled:
		late = e.present()
	case e.stray && p.Now.Before(e.strayDue):
		p.Patience.RetryAt(e.strayDue)
	case e.result.Good && (e.late() || e.stray):
		late = &e.result
	}
	if late != nil {
		ref := late.ref()
		t.Late = &ref
	}
	addEvidence(p, e, &t, agents)
	return t, true
}

func outcomeOf(p *Project, e *entry, o *outcome, ref protocol.Ref) *protocol.Outcome {
	out := o.Outcome
	out.Ref = ref
	out.Archived = path.Dir(ref.Path) == archiveDir
	written, f := e.present().Stamp.ModTime(), &e.record.first
	appeared := written.UTC()
	if out.Unrecorded = e.unrecorded(o); !out.Unrecorded && !o.Ours && (e.overruled || written.After(f.recorded)) {
		appeared = f.at // the file is a restored copy
	}
	unread := f.there && f.damaged && !o.Ours
	out.Unread, out.Sealed = unread && f.passing, unread && !f.passing
	if out.Appeared, out.At = capped(appeared, p.Now), capped(out.At, p.Now); o.zoneless {
		out.At = out.Appeared
	}
	return &out
}

// addEvidence adds what shows that an agent works on the present attempt. Only evidence newer than the moment when the
// request appeared counts.
func addEvidence(p *Project, e *entry, t *protocol.Task, agents map[string]*agentFacts) {
	logged := p.log.tasks[e.id]
	t.Logged = p.log.eventsOf(e)
	since := t.Appeared
	current := e.progress.There && (!t.Visible || !e.progress.Stamp.ModTime().Before(since))
	if current && e.progress.Good {
		t.Progress = e.progress.Value.Progress
		t.Progress.At = capped(e.progress.Value.stated.Seen(e.progress.Stamp.ModTime()), p.Now)
	}
	t.Progress.Every = e.asked().Value.every
	if !t.Visible {
		return
	}
	if logged != nil && logged.startedIn(since, len(e.record.attempts) > 0) {
		t.Named, t.Started = "task_started", capped(logged.started, p.Now)
	}
	if current {
		t.Named = "progress"
	}
	if e.claim.Good {
		t.Named, t.Workers, t.Claim = "claim", e.claim.Value.processes(), string(e.claim.Sum)
		t.Started = capped(e.claim.Value.At, p.Now)
		return
	}
	if f := agents[t.Agent]; f != nil {
		if at, named := f.named[e.id]; named && !at.Before(since) {
			t.Named = "active_tasks"
		}
	}
}

// maxModified is how many of a request's files_to_modify are compared with other tasks.
const maxModified = 1000

// overlaps reports open tasks that name the same file in files_to_modify. It skips two tasks if one comes after the
// other: they never run at the same time.
func (t *taskTable) overlaps(tasks []protocol.Task) []protocol.Finding {
	users := map[string][]string{} // by file
	var list []protocol.Finding
	for i := range tasks {
		task := &tasks[i]
		if task.Outcome != nil || task.Cancelled || task.Buried {
			continue
		}
		r := t.open[task.ID].asked()
		modify := r.Value.Payload.Modify
		var others []string
		shared := map[string][]string{}
		for _, file := range modify[:min(len(modify), maxModified)] {
			file = filepath.Clean(file)
			for _, other := range users[file] {
				before := t.open[other].asked().Value.Coordination.After
				if other == task.ID || slices.Contains(r.Value.Coordination.After, other) || slices.Contains(before, task.ID) {
					continue
				}
				if shared[other] == nil {
					others = append(others, other)
				}
				shared[other] = append(shared[other], file)
				break // with many tasks on one file, a finding for each pair would be too many
			}
			users[file] = append(users[file], task.ID)
		}
		for _, other := range others {
			list = append(list, protocol.Finding{Subject: protocol.Subject{Kind: protocol.KindTask, ID: task.ID}, Code: "overlap", Field: "payload.files_to_modify",
				Severity: protocol.Medium, Path: r.path,
				Text: fmt.Sprintf("tasks %s and %s are both open and both modify %s", task.ID, other, folder.Line(strings.Join(shared[other], ", "), 200))})
		}
	}
	return list
}

// signs are an agent's signs of life other than its heartbeat, as of the last scan, and the fingerprint of the last new
// one. A sign that vanishes does not count: steward itself archives what an attempt left.
type signs struct {
	seen map[string]bool
	sum  string
}

// updateSigns updates the agents' fingerprints. It runs after the tasks are described, which sets the agent that each
// progress file belongs to.
func (p *Project) updateSigns(known directory, agents map[string]*agentFacts) {
	now := map[string]map[string]bool{} // by agent
	add := func(agent, source string, mtime, size int64) {
		if now[agent] == nil {
			now[agent] = map[string]bool{}
		}
		now[agent][fmt.Sprintf("%s {%d %d}", source, mtime, size)] = true
	}
	for source, n := range p.log.lines {
		if n > 0 {
			add(known.canonical(source), "log "+source, 0, int64(n))
		}
	}
	for _, e := range p.tasks.open {
		if e.progress.There && e.agent != "" {
			add(e.agent, e.progress.path, e.progress.Stamp.MtimeNs, e.progress.Stamp.Size)
		}
	}
	old := p.agents.signs
	p.agents.signs = make(map[string]*signs, len(agents))
	for name, f := range agents {
		for _, h := range f.beats {
			if h.current.There {
				add(name, "current "+h.beat.path, h.current.Stamp.MtimeNs, h.current.Stamp.Size)
			}
			if len(f.beats) > 1 && h.beat.There {
				add(name, h.beat.path, h.beat.Stamp.MtimeNs, h.beat.Stamp.Size)
			}
		}
		for _, file := range p.agents.sources[name] {
			at := filepath.FromSlash(file)
			if !filepath.IsAbs(at) {
				at = filepath.Join(p.dir, at)
			}
			if st, err := os.Lstat(at); err == nil {
				add(name, "source "+file, st.ModTime().UnixNano(), st.Size())
			}
		}
		s := old[name]
		if s == nil {
			s = &signs{}
		}
		s.update(now[name])
		p.agents.signs[name], f.agent.Signs = s, s.sum
	}
}

// update changes the fingerprint only if a sign is new or has changed.
func (s *signs) update(now map[string]bool) {
	fresh := false
	for sign := range now {
		fresh = fresh || !s.seen[sign]
	}
	if s.seen = now; fresh {
		h := fnv.New64a()
		for _, sign := range sortedKeys(now) {
			fmt.Fprintln(h, sign)
		}
		s.sum = fmt.Sprintf("%x", h.Sum64())
	}
}
