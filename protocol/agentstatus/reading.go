package agentstatus

import (
	"path"
	"strings"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// load refreshes a reading and reports whether it read the file. It costs one stat if the file did not change, and
// nothing if the file was missing and its folder did not change.
func load[T any](p *Project, r *jsonfile.Reading[T], file string, decode func(jsonfile.Object) T) (read bool) {
	if !p.changed[path.Dir(file)] && (!r.There || r.Still(p.Root, file)) && !p.Patience.Has(file) {
		return false
	}
	return jsonfile.Load(p.Root, &p.Patience, r, file, maxFile, decode)
}

// spoken is a document that names the task it belongs to.
type spoken interface{ task() string }

// loadOf is load for a file of one task. A file whose content names another task than its file name is a Fault, and
// no policy may act on it.
func loadOf[T spoken](p *Project, r *jsonfile.Reading[T], file, id string, decode func(jsonfile.Object) T) {
	if !load(p, r, file, decode) {
		return
	}
	if inside := r.Value.task(); !same(inside, id) {
		r.Good = false
		p.Patience.Refuse(file, "the task_id inside is \""+folder.Line(inside, 60)+"\", not the one in the file's name",
			"rename the file or correct its task_id; until then the file is left alone")
		return
	}
	p.Patience.Clear(file)
}

// same reports whether the id inside a document is the id in its file's name. A document without an id is identified
// by its file name; the missing field is a finding.
func same(inside, name string) bool { return inside == "" || inside == name }

// faults lists the files and names that cannot be used, in a fixed order.
func (p *Project) faults() []protocol.Fault {
	list := p.Faults()
	for _, odd := range []map[string]protocol.Fault{p.oddTasks, p.oddAgents} {
		for _, name := range sortedKeys(odd) {
			list = append(list, odd[name])
		}
	}
	if p.log.unwritten != nil {
		list = append(list, *p.log.unwritten)
	}
	return list
}

// odd records the Fault of a name that cannot be used. The Fault keeps the time when it was first seen.
func (p *Project) odd(old, next map[string]protocol.Fault, where, problem, hint string) {
	f := protocol.Fault{Path: where, Problem: problem, Hint: hint, Since: p.Now}
	key := where + " " + problem
	if was, ok := old[key]; ok {
		f.Since = was.Since
	}
	next[key] = f
}

// Reads reports whether the last scan read the file (relative to the project), and returns the findings about its own
// fields.
func (p *Project) Reads(file string) (fields []protocol.Finding, read bool) {
	rel, inside := strings.CutPrefix(file, Base+"/")
	if !inside {
		return nil, false
	}
	dir, name := path.Dir(rel), path.Base(rel)
	if id, _, ok := parseTaskFile(name); ok && p.tasks[id] != nil {
		e := p.tasks[id]
		issues, ok := map[string][]issue{e.files.request: e.request.Value.issues, e.files.held: e.held.Value.issues, e.files.archived: e.archived.Value.issues,
			e.files.result: e.result.Value.issues, e.files.archivedResult: e.archivedResult.Value.issues, e.files.progress: e.progress.Value.issues, e.files.notice: nil}[rel]
		return findings(protocol.Subject{Kind: protocol.KindTask, ID: id}, file, issues), ok
	}
	atDesk := p.bench.desks[dir] != nil && (rel == beatFile(dir) || rel == currentFile(dir))
	return nil, atDesk || p.bench.desks[rel] != nil || p.bench.singles[rel] != nil || rel == registry || rel == logFile
}
