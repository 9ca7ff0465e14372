package mailbox

import (
	"maps"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// history is what steward remembers of earlier scans: files show the state of a task, but not how it got there.
type history struct {
	tracks   map[string]*track
	followed jsonfile.Sum   // of the last queue that was followed; "" before the first
	ended    map[string]int // the ended tasks of that queue
	reviews  int            // observed steps awaiting_review → completed
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
func (h *history) follow(clock *folder.Clock, r *jsonfile.Reading[queue], attempts *folder.Attempts) {
	if !r.Good || r.Sum == h.followed {
		return
	}
	q := &r.Value
	h.followed = r.Sum
	open := make(map[string]bool, len(q.tasks))
	for i := range q.tasks {
		r := &q.tasks[i]
		open[r.id] = true
		t := h.tracks[r.id]
		if t == nil {
			t = newTrack(clock, r)
			h.tracks[r.id] = t
			if _, ended := h.ended[r.id]; ended {
				t.status, t.rejections = completed, 0 // it came back from completed[]
			}
		}
		h.step(clock, t, r.status, r, attempts)
	}
	for id, t := range h.tracks {
		if open[id] {
			continue
		}
		if i, ended := q.byID[id]; ended {
			h.step(clock, t, completed, &q.done[i], attempts)
		} else {
			delete(h.tracks, id)
		}
	}
	h.ended = q.byID
}

// newTrack starts the track of a task that is seen for the first time.
func newTrack(clock *folder.Clock, r *record) *track {
	t := &track{status: r.status, since: clock.Past(r.ended())}
	if t.since.IsZero() {
		t.since = clock.Now
	}
	if r.status == rejected {
		t.rejections = 1
	}
	return t
}

// step records that a task went from one state to another.
func (h *history) step(clock *folder.Clock, t *track, to string, r *record, attempts *folder.Attempts) {
	from := t.status
	if from == to {
		return
	}
	at := clock.Now
	if u := clock.Past(r.updated); u.After(t.since) {
		at = u
	}
	if from == awaitingReview && to == completed {
		h.reviews++
		h.reviewed += at.Sub(t.since)
	}
	if to == rejected {
		t.rejections++
	}
	last := lastAttempt(attempts, r.id)
	resetByUs := to == pending && last != nil && !last.Due.Before(t.since.Truncate(time.Second))
	t.illegal = ""
	if states[from] && states[to] && !steps[[2]string{from, to}] && !resetByUs {
		t.illegal = from + " → " + to
	}
	t.status, t.since, t.changed = to, at, clock.Now
}

// lastAttempt returns the newest recorded attempt of a task; nil if none exists.
func lastAttempt(attempts *folder.Attempts, id string) *protocol.Attempt {
	list := attempts.Of(id)
	if len(list) == 0 {
		return nil
	}
	return &list[len(list)-1]
}

// prune drops the tracks of ended tasks that are no longer shown.
func (h *history) prune(shown []*record) {
	kept := make(map[string]bool, len(shown))
	for _, r := range shown {
		kept[r.id] = true
	}
	maps.DeleteFunc(h.tracks, func(id string, _ *track) bool { return !kept[id] })
}
