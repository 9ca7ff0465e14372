package ralph

import (
	"errors"
	"slices"
	"time"

	"github.com/livhana/steward/protocol/jsonfile"
)

// since lists the tasks that ended after a time, in the kanban's order; a zero time means all. If there are too many, it
// lists the newest.
func (b *board) since(from time.Time) []int {
	if b.known && b.newsFrom.Equal(from) {
		return b.news
	}
	news := []int{}
	for _, i := range b.over {
		if from.IsZero() || b.state[i].ended.After(from) {
			news = append(news, i)
		}
	}
	b.news, b.newsFrom, b.known = b.newest(news), from, true
	return b.news
}

// sameEnd is the largest distance between the kanban's stamp and the worker's last sign at which the stamp counts as the
// task's end. For a task that ended long ago the stamp says nothing: every change of another task renews it.
const sameEnd = 10 * time.Minute

// dateEndings sets the end times of newly read tasks, as far as files show them.
func (p *Project) dateEndings() {
	b := &p.board
	if !b.fresh {
		return
	}
	b.fresh, b.known = false, false
	for id, i := range b.where {
		s, w := &b.state[i], p.newest[id]
		if m, ok := p.markOf(&b.file.Value[i]); ok {
			s.ended = p.capped(m.at)
			continue
		}
		if s.live || !s.ended.IsZero() || w == nil {
			continue
		}
		s.ended = p.capped(w.made)
		if s.since.Sub(s.ended) < sameEnd {
			s.ended = s.since
		}
	}
	b.calls = b.calls[:0]
	for _, i := range b.over {
		if b.file.Value[i].marker == failed {
			b.calls = append(b.calls, i)
		}
	}
	b.calls = b.newest(b.calls)
}

// newest keeps at most maxEnded ended tasks, in the kanban's order: the newest, and of those without a time the first.
func (b *board) newest(list []int) []int {
	if len(list) > maxEnded {
		slices.SortStableFunc(list, func(x, y int) int { return b.state[y].ended.Compare(b.state[x].ended) })
		list = list[:maxEnded]
		slices.Sort(list)
	}
	return list
}

// noteMissing reports a missing kanban as a fault if there are workers. It waits first, because a kanban that is being
// rewritten reappears within moments.
func (p *Project) noteMissing() {
	if p.board.file.There || len(p.workers) == 0 {
		p.bare, p.board.gone = nil, time.Time{}
		return
	}
	b := &p.board
	if b.gone.IsZero() {
		b.gone = p.Now
	}
	if !p.wait(b.gone.Add(jsonfile.BadAfter)) {
		p.bare = p.Fault(p.bare, kanbanFile, errNoKanban)
	}
}

var errNoKanban = errors.New("the kanban is missing, and workers are there")
