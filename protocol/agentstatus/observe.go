package agentstatus

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
)

// Observe returns a snapshot of the files. With hints it rereads only the hinted files and the few files of the
// agents.
func (p *Project) Observe(ctx context.Context, look protocol.Look) protocol.Snapshot {
	s, there := p.Look(ctx, look)
	if !there {
		return s
	}
	p.probe(".", tasksDir, archiveDir, attemptsDir, claimsDir, agentsDir, sharedDir)
	full := look.Full() || wide(look.Hints)
	p.retell(ctx)
	p.readLog()
	desks := p.desksToRead(full, look.Hints)
	p.readAgents(desks)
	p.through(sharedDir)
	if full {
		p.readAll()
		p.through(attemptsDir, claimsDir)
		p.log.prune(p.Now, p.tasks)
	} else {
		if fresh := p.readHinted(look.Hints); desks != nil && len(fresh) > 0 {
			p.readAgents(p.desksOf(fresh))
		}
	}
	clear(p.dirty)
	p.describe(&s)
	s.Locate(Base)
	p.retire()
	s.Again = p.Patience.Again()
	return s
}

// desksFresh is how long hinted scans reuse what was read of the agents' folders. A task is judged by the load that
// its agent reports, and heartbeats give no hints, so the folders must be reread regularly. But consecutive scans
// must not each read a hundred folders.
const desksFresh = 500 * time.Millisecond

// desksToRead lists the agents' folders that this scan reads: nil for all, else the hinted folders and the folders
// whose files were in trouble or had not settled.
func (p *Project) desksToRead(full bool, hints []string) []string {
	if full || p.changed["."] || p.changed[agentsDir] || p.dirtyAgents || p.Now.Sub(p.desksAt) >= desksFresh || p.Now.Before(p.desksAt) {
		p.dirtyAgents, p.desksAt = false, p.Now
		return nil
	}
	hinted := map[string]bool{}
	for _, hint := range hints {
		if rel, ok := strings.CutPrefix(hint, Base+"/"); ok {
			desk, _, _ := strings.Cut(rel, "/")
			hinted[desk] = true
		}
	}
	desks := make([]string, 0, len(hinted))
	for desk, d := range p.bench.desks {
		if hinted[desk] || !d.atRest() || p.Patience.Has(beatFile(desk)) || p.Patience.Has(currentFile(desk)) {
			desks = append(desks, desk)
		}
	}
	return desks
}

// atRest reports whether the cached content stands until a change is reported.
func (d *place) atRest() bool {
	return d.beat.AtRest() && d.current.AtRest()
}

// wide reports whether a hint names a whole folder, or a file that a hinted scan does not read.
func wide(hints []string) bool {
	for _, hint := range hints {
		rel, _ := strings.CutPrefix(hint, Base+"/")
		switch {
		case hint == Base, rel == tasksDir, rel == archiveDir, strings.HasPrefix(rel, attemptsDir):
			return true
		}
	}
	return false
}

// readHinted refreshes the hinted tasks, the tasks that Apply changed, and the tasks with a file that was in trouble
// or had not settled. It returns the hinted tasks that were not known before.
func (p *Project) readHinted(hints []string) (fresh []string) {
	done := make(map[string]bool, len(hints)+len(p.dirty))
	for id := range p.dirty {
		done[id] = true
		p.revisit(id)
	}
	for _, hint := range hints {
		rel, ok := strings.CutPrefix(hint, Base+"/")
		if !ok {
			continue
		}
		dir, name := path.Split(rel)
		dir = path.Clean(dir)
		id, _, ok := parseTaskFile(name)
		switch dir {
		case tasksDir, archiveDir:
		case claimsDir:
			id, ok = strings.CutSuffix(name, ".json")
		default:
			continue
		}
		if ok && plainID(id) && !done[id] {
			known := p.tasks[id] != nil
			done[id] = true
			if p.revisit(id); !known && p.tasks[id] != nil {
				fresh = append(fresh, id)
			}
		}
	}
	for id, e := range p.tasks {
		if !done[id] && (!e.atRest() || p.inTrouble(e)) {
			p.refresh(id)
		}
	}
	return fresh
}

// desksOf lists the folders of the agents that the new tasks are addressed to: a task is judged by its agent's newest
// heartbeat, even if both were written within desksFresh.
func (p *Project) desksOf(tasks []string) []string {
	desks := []string{}
	for _, id := range tasks {
		r, _ := p.tasks[id].asked()
		if r == nil {
			continue
		}
		for _, label := range []string{r.target, aliases[fold(r.target)]} {
			if dir := p.deskOf(label); p.bench.desks[dir] != nil && !slices.Contains(desks, dir) {
				desks = append(desks, dir)
			}
		}
	}
	return desks
}

// describe fills in the snapshot.
func (p *Project) describe(s *protocol.Snapshot) {
	s.LogsCalls, s.Called, s.LogSince = true, p.log.calls, p.log.since
	known, agents := p.roster()
	s.Tasks = make([]protocol.Task, 0, len(p.tasks))
	for _, id := range sortedKeys(p.tasks) {
		e := p.tasks[id]
		if t, ok := p.task(e, known, agents); ok {
			s.Tasks = append(s.Tasks, t)
			s.Findings = append(s.Findings, e.findings()...)
		}
	}
	s.Findings = append(s.Findings, p.overlaps(s.Tasks)...)
	p.watchSigns(known, agents)
	odd := map[string]protocol.Fault{}
	s.Agents = make([]protocol.Agent, 0, len(agents))
	for _, name := range sortedKeys(agents) {
		a := agents[name]
		if !plainID(name) {
			p.odd(p.oddAgents, odd, path.Join(Base, a.file), "\""+folder.Line(name, 60)+"\" is not a name for an agent: it cannot be used as a file name",
				"use a plain name for the agent")
			continue
		}
		if r := p.bench.cards[cardPath(name)]; r != nil && r.Good && r.Value.over(p.Now) {
			continue
		}
		s.Agents = append(s.Agents, a.agent)
		s.Findings = append(s.Findings, findings(protocol.Subject{Kind: protocol.KindAgent, ID: name}, a.file, a.issues)...)
	}
	p.oddAgents = odd
	shared := func(file string) protocol.Subject {
		return protocol.Subject{Kind: protocol.KindProject, ID: file}
	}
	s.Findings = append(s.Findings, findings(shared(registry), registry, p.bench.registry.Value.issues)...)
	s.Findings = append(s.Findings, findings(shared(logFile), logFile, p.log.issues())...)
	s.Faults = append(s.Faults, p.faults()...)
}

func findings(subject protocol.Subject, file string, issues []issue) []protocol.Finding {
	if len(issues) == 0 {
		return nil
	}
	list := make([]protocol.Finding, 0, len(issues))
	for _, i := range issues {
		list = append(list, protocol.Finding{Subject: subject, Code: i.code, Field: i.field, Severity: i.severity, Text: i.text, Path: file})
	}
	return list
}

// findings lists what is wrong with those files of a task that can still be used.
func (e *entry) findings() []protocol.Finding {
	subject := protocol.Subject{Kind: protocol.KindTask, ID: e.id}
	r, request := e.asked()
	list := findings(subject, request.Path, r.issues)
	if o, result := e.ended(); o != nil {
		list = append(list, findings(subject, result.Path, o.issues)...)
	}
	if e.progress.Good {
		list = append(list, findings(subject, e.files.progress, e.progress.Value.issues)...)
	}
	for _, file := range e.missing {
		list = append(list, protocol.Finding{Subject: subject, Code: "artifact", Field: "payload.expected_artifacts", Severity: protocol.Medium,
			Text: fmt.Sprintf("completed, but the expected file is not there: %s", folder.Line(file, 200))})
	}
	return list
}
