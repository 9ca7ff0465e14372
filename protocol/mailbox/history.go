package mailbox

import (
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// history is what steward remembers of earlier scans: files show the state of a task, but not how it got there.
type history struct {
	tracks   map[string]*track
	followed jsonfile.Sum // of the last queue that was followed; "" before the first
	reviews  int          // observed steps awaiting_review → completed
	reviewed time.Duration
}

func newHistory() history { return history{tracks: map[string]*track{}} }

// track is the history of one task.
type track struct {
	status     string
	since      time.Time // when it entered that state: its own updatedAt, or the time of the scan
	changed    time.Time // when a change was last observed; zero if none was
	rejections int
	illegal    string // the last step, if the document does not define it
}

// steps are the transitions of protocol 003, Task State Transitions: those of its list, and the one that only its diagram
// shows (in_progress → rejected).
var steps = map[[2]string]bool{
	{pending, inProgress}: true, {inProgress, awaitingReview}: true, {inProgress, rejected}: true,
	{awaitingReview, completed}: true, {awaitingReview, rejected}: true, {rejected, pending}: true,
}

var states = map[string]bool{pending: true, inProgress: true, awaitingReview: true, completed: true, rejected: true}

// follow compares the queue with its previous reading.
func (p *Project) follow() {
	s, h := p.living(), &p.history
	if !s.queue.Good || s.queue.Sum == h.followed {
		return
	}
	q, first := &s.queue.Value, h.followed == ""
	h.followed = s.queue.Sum
	open := make(map[string]bool, len(q.tasks))
	for i := range q.tasks {
		r := &q.tasks[i]
		open[r.id] = true
		t := h.tracks[r.id]
		if t == nil {
			t = p.begin(r)
			if _, ended := q.before[r.id]; ended && !first {
				t.status, t.rejections = completed, 0 // it came back from completed[]
			}
		}
		p.step(t, r.status, r)
	}
	for id, t := range h.tracks {
		if open[id] {
			continue
		}
		i, ended := q.byID[id]
		if !ended {
			delete(h.tracks, id)
			continue
		}
		p.step(t, completed, &q.done[i])
	}
}

// begin starts the track of a task that is seen for the first time.
func (p *Project) begin(r *record) *track {
	t := &track{status: r.status, since: p.past(r.ended())}
	if t.since.IsZero() {
		t.since = p.Now
	}
	if r.status == rejected {
		t.rejections = 1
	}
	p.history.tracks[r.id] = t
	return t
}

// step records that a task went from one state to another.
func (p *Project) step(t *track, to string, r *record) {
	from := t.status
	if from == to {
		return
	}
	at := p.Now
	if u := p.past(r.updated); u.After(t.since) {
		at = u
	}
	if from == awaitingReview && to == completed {
		p.history.reviews++
		p.history.reviewed += at.Sub(t.since)
	}
	if to == rejected {
		t.rejections++
	}
	t.illegal = ""
	if states[from] && states[to] && !steps[[2]string{from, to}] && !p.tookBack(r.id, to, t.since) {
		t.illegal = from + " → " + to
	}
	t.status, t.since, t.changed = to, at, p.Now
}

// tookBack reports whether steward itself made a step to pending.
func (p *Project) tookBack(id, to string, since time.Time) bool {
	k, ok := p.lastTaking(id)
	return ok && to == pending && !k.Due.Before(since.Truncate(time.Second))
}

func (p *Project) lastTaking(id string) (protocol.Attempt, bool) {
	list := p.ledger.Of(id)
	if len(list) == 0 {
		return protocol.Attempt{}, false
	}
	return list[len(list)-1], true
}

// rejectedCode is the code of a rejected task's failure, and of the ledger entry for its requeue.
const rejectedCode = "REJECTED"

// rejections returns how often a task was rejected: the highest count among the file, the ledger and steward's own
// observations.
func (p *Project) rejections(r *record) int {
	onRecord := 0
	for _, k := range p.ledger.Of(r.id) {
		if k.Code == rejectedCode {
			onRecord++
		}
	}
	if r.status == rejected {
		if k, ok := p.lastTaking(r.id); !ok || k.Committed || k.Code != rejectedCode {
			onRecord++
		}
	}
	n := max(onRecord, r.rejections)
	if t := p.history.tracks[r.id]; t != nil {
		n = max(n, t.rejections)
	}
	return n
}

// prune drops the tracks of ended tasks that are no longer shown.
func (h *history) prune(shown map[string]bool) {
	for id := range h.tracks {
		if !shown[id] {
			delete(h.tracks, id)
		}
	}
}
