package agentstatus

import (
	"path"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// begin starts a look or a change at that moment.
func (p *Project) begin(now time.Time) {
	p.now = now
	p.patience.Begin(now)
}

// load brings a reading up to date and reports whether the file was read. It costs one stat when the file did not
// change, and nothing at all when the file was missing and its folder did not change.
func load[T any](p *Project, r *jsonfile.Reading[T], file string, decode func(jsonfile.Object) T) (read bool) {
	if !r.There && !p.patience.Has(file) && !p.changed[path.Dir(file)] {
		return false
	}
	return jsonfile.Load(p.root, &p.patience, r, file, maxFile, decode)
}

// spoken is a document that says which task it speaks of.
type spoken interface{ task() string }

// loadOf is load for a file of one task: one whose content speaks of another task than its name is a Fault, and no
// policy may act on it.
func loadOf[T spoken](p *Project, r *jsonfile.Reading[T], file, id string, decode func(jsonfile.Object) T) {
	if !load(p, r, file, decode) {
		return
	}
	if inside := r.Value.task(); !same(inside, id) {
		r.Good = false
		p.patience.Refuse(file, "the task_id inside is \""+clean(inside, 60)+"\", not the one in the file's name",
			"rename the file or correct its task_id; until then the file is left alone")
		return
	}
	p.patience.Clear(file)
}

// same reports whether the id inside a document is the one in its file's name. A document without an id is taken
// by its name; the missing field is a finding.
func same(inside, name string) bool { return inside == "" || inside == name }

// still is what is wrong with a file that is not read but opened or written; it keeps the moment in which the trouble
// began. old is nil when there was none.
func (p *Project) still(old *jsonfile.Trouble, file string, err error) *jsonfile.Trouble {
	t := &jsonfile.Trouble{Path: file, Since: p.now}
	if old != nil {
		t.Since = old.Since
	}
	t.Problem, t.Hint = jsonfile.Describe(err)
	return t
}

// faults lists what stays unusable, in a fixed order.
func (p *Project) faults() []protocol.Fault {
	troubles := p.patience.Troubles()
	var list []protocol.Fault
	for i := range troubles {
		list = append(list, faultOf(&troubles[i]))
	}
	for _, odd := range []map[string]protocol.Fault{p.oddTasks, p.oddAgents} {
		for _, name := range sortedKeys(odd) {
			list = append(list, odd[name])
		}
	}
	if p.log.unwritten != nil {
		list = append(list, faultOf(p.log.unwritten))
	}
	return list
}

func faultOf(t *jsonfile.Trouble) protocol.Fault {
	return protocol.Fault{Path: path.Join(Base, escaped(t.Path)), Problem: clean(t.Problem, problemLimit), Hint: t.Hint, Since: t.Since}
}

// odd is the Fault of a name that cannot be used; it keeps the moment in which it was first seen.
func (p *Project) odd(old, next map[string]protocol.Fault, where, problem, hint string) {
	f := protocol.Fault{Path: where, Problem: problem, Hint: hint, Since: p.now}
	key := where + " " + problem
	if was, ok := old[key]; ok {
		f.Since = was.Since
	}
	next[key] = f
}

// problemLimit keeps a fault to a line or two: a document nested ten thousand deep has a path as long.
const problemLimit = 400
