package mailbox

import (
	"time"

	"github.com/livhana/steward/protocol/jsonfile"
)

// place decides what the times of the records mean. A record whose stated time is unchanged keeps the earlier decision,
// because the file's age says nothing once another program has written to the file.
func (q *queue) place(was *queue, written time.Time, watched bool) {
	before := make(map[string]*record, len(was.tasks))
	for i := range was.tasks {
		before[was.tasks[i].id] = &was.tasks[i]
	}
	for i := range q.tasks {
		r := &q.tasks[i]
		r.created = r.createdAt.By(written)
		switch old := before[r.id]; {
		case old != nil && old.updatedAt == r.updatedAt && old.status == r.status:
			r.created, r.updated = old.created, old.updated
		case watched:
			r.updated = r.updatedAt.Seen(written)
		default:
			r.updated = r.updatedAt.By(written)
		}
	}
	for i := range q.done {
		r := &q.done[i]
		r.created, r.updated = r.createdAt.By(written), r.updatedAt.By(written)
	}
	q.order()
}

// place decides what the times of the roles mean.
func (b *board) place(written time.Time) {
	b.started = b.startedAt.By(written)
	for i := range b.roles {
		b.roles[i].at = b.roles[i].stated.By(written)
	}
}

// place decides what the times of the messages mean. A message that was there before keeps the earlier decision. If
// lastRead has changed since the last scan and disagrees with the file's write time, the reader's clock is wrong. Then the
// messages whose own times agreed with the file's count as read, whatever lastRead says.
func (m *mailbox) place(was *mailbox, written time.Time, watched bool) {
	before := make(map[jsonfile.Sum]*message, len(was.letters))
	for i := range was.letters {
		before[was.letters[i].raw] = &was.letters[i]
	}
	wrong := watched && m.lastRead != was.lastRead && written.Sub(m.lastRead.At).Abs() > jsonfile.ClockSlack
	for i := range m.letters {
		l := &m.letters[i]
		switch old := before[l.raw]; {
		case old != nil:
			l.at, l.agreed, l.read = old.at, old.agreed, old.read
		case watched:
			l.at, l.agreed = l.stated.Seen(written), written.Sub(l.stated.At).Abs() <= jsonfile.ClockSlack
		default:
			l.at = l.stated.By(written)
		}
		l.read = l.read || wrong && l.agreed
	}
}

// readBy reports whether a message counts as read: it is known to be read, or lastRead can cover it.
func (m *mailbox) readBy(l *message) bool {
	return l.read || m.lastRead.CanFollow(l.stated)
}
