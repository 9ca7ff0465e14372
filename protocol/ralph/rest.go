package ralph

import (
	"path"

	"github.com/livhana/steward/protocol"
)

// maxDozing bounds how many resting workers one full look makes sure of.
const maxDozing = 32

// quiet are the workers with pid files that are over: their sessions were seen to be empty, and so they stay, whoever
// gets their numbers later. Thousands of them lie there for ever.
type quiet struct {
	workers map[string]*worker
	queue   []string // who is looked at next
}

// retire puts the workers to rest that have nothing more to tell.
func (p *Project) retire(c *processScan) {
	if !c.known || !p.board.file.Good {
		return
	}
	for name, w := range p.live {
		if w.hasPID() && p.isOver(w) {
			p.quiet.workers[name] = w
			delete(p.manned, name)
			delete(p.live, name)
			p.calm(w)
		}
	}
}

// isOver reports whether a worker's sessions are proved to be empty, on files at rest, and nobody waits for it.
func (p *Project) isOver(w *worker) bool {
	if w.session.presence != protocol.PresenceGone {
		return false
	}
	for i, name := range pidFiles {
		if r := &w.pids[i]; r.There != w.names[name] || !r.AtRest() {
			return false
		}
	}
	if w.plan || p.newest[w.task] != w {
		return true
	}
	i, known := p.board.where[w.task]
	if !known {
		return true
	}
	marker := p.board.file.Value[i].marker
	return marker == complete || hasEnded(marker) && !p.isNews(i)
}

// wake takes a worker out of its rest.
func (p *Project) wake(w *worker) {
	if p.quiet.workers[w.name] == nil {
		return
	}
	delete(p.quiet.workers, w.name)
	if w.hasPID() {
		p.manned[w.name] = w
	}
}

// doze makes sure of some of those that rest: one whose pid file was written anew is not over.
func (p *Project) doze() {
	q := &p.quiet
	if len(q.queue) == 0 {
		q.queue = sortedKeys(q.workers)
	}
	n := min(maxDozing, len(q.queue))
	for _, name := range q.queue[:n] {
		w := q.workers[name]
		if w == nil {
			continue
		}
		p.scan(w)
		for i, file := range pidFiles {
			if st, err := p.Root.Stat(path.Join(w.dir(), file)); w.names[file] && (err != nil || st != w.pids[i].Stamp) {
				p.wake(w)
			}
		}
	}
	q.queue = q.queue[n:]
}
