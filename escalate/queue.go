package escalate

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/livhana/steward/protocol"
)

const (
	// sentencePause is the pause between two sentences. The listener needs it, and it gives time to see whether the
	// second sentence starts a burst.
	sentencePause = time.Second
	// sentenceStale is the age at which a sentence is no longer spoken.
	sentenceStale = 2 * time.Minute
)

var (
	errStale     = errors.New("it waited too long to be spoken")
	errNotNeeded = errors.New("it was cut short: it is settled")
)

// channelState is the queue of one channel and the call that is under way. Only the dispatcher's goroutine uses it.
type channelState struct {
	*caller
	queue  []*queued
	busy   bool
	now    call      // while busy
	rested time.Time // when the last call ended
}

// queued is a dispatch in one channel's queue.
type queued struct {
	*dispatch
	since time.Time
	hold  time.Time // earliest start
	fold  bool      // may be merged into one sentence with other such entries
}

// speaks reports whether the channel is the voice. It takes the listener's time, and no summary popup can replace its
// sentences.
func (w *channelState) speaks() bool { return w.Name == ChannelSpeech }

// serves reports whether the channel accepts such a job. A recovery is never spoken.
func (w *channelState) serves(job jobKind, silent bool) bool {
	return !w.speaks() || !silent && job != jobRecovery
}

// start gives the idle caller its next call.
func (w *channelState) start(j call) {
	if w.speaks() {
		j.stop = make(chan struct{})
	}
	w.busy, w.now = true, j
	w.calls <- j
}

// pause is the end of the pause after the last sentence; zero if none is due now.
func (w *channelState) pause(now time.Time) time.Time {
	if ready := w.rested.Add(sentencePause); w.speaks() && now.Before(ready) {
		return ready
	}
	return time.Time{}
}

// mute postpones every sentence that is not being spoken yet to the end of the burst, to be merged into one sentence.
// Sentences that already wait for an earlier burst are not postponed further.
func (w *channelState) mute(until time.Time) {
	for _, q := range w.queue {
		if w.speaks() && !q.fold {
			q.fold, q.hold = true, until
		}
	}
}

// next removes the entries of the next call from the queue. If it returns none, later is when the next entry is due
// (zero: the queue is empty).
func (w *channelState) next(now time.Time) (taken []*queued, later time.Time) {
	if len(w.queue) == 0 {
		return nil, time.Time{}
	}
	if ready := w.pause(now); !ready.IsZero() {
		return nil, ready
	}
	slices.SortStableFunc(w.queue, func(a, b *queued) int {
		return cmp.Or(a.urgency()-b.urgency(), a.since.Compare(b.since))
	})
	n := slices.IndexFunc(w.queue, func(q *queued) bool {
		if now.Before(q.hold) {
			later = earlier(later, q.hold)
			return false
		}
		return true
	})
	if n < 0 {
		return nil, later
	}
	first := w.queue[n]
	return w.remove(func(q *queued) bool { return q == first || first.fold && q.fold }), time.Time{}
}

// remove takes the entries out of the queue for which is reports true.
func (w *channelState) remove(is func(*queued) bool) (removed []*queued) {
	w.queue = slices.DeleteFunc(w.queue, func(q *queued) bool {
		yes := is(q)
		if yes {
			removed = append(removed, q)
		}
		return yes
	})
	return removed
}

// urgency orders a queue, lowest first. Withdrawals come first: a withdrawal was requested earlier than a notice in
// the queue, and may have the same popup key as the next notice.
func (d *dispatch) urgency() int {
	switch {
	case d.job == jobWithdraw:
		return 0
	case d.job == jobTell && d.severity == protocol.Critical:
		return 1
	case d.job == jobAnnounce:
		return 3
	}
	return 2
}
