package ralph

import (
	"path"

	"github.com/livhana/steward/protocol"
)

// maxDozing limits how many resting workers one full scan checks again.
const maxDozing = 32

// quiet holds the finished workers that still have pid files. Their sessions were seen to be empty and stay so, even if
// the system reuses their pids. Thousands of such folders can accumulate.
type quiet struct {
	workers map[string]*worker
	queue   []string // workers to check next
}

// retire moves workers with nothing more to report to quiet.
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

// isOver reports whether a worker's sessions are proved empty by settled files, and no task still needs the worker.
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

// wake takes a worker out of quiet.
func (p *Project) wake(w *worker) {
	if p.quiet.workers[w.name] == nil {
		return
	}
	delete(p.quiet.workers, w.name)
	if w.hasPID() {
		p.manned[w.name] = w
	}
}

// doze checks some of the resting workers again: a worker whose pid file was rewritten is not over.
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
