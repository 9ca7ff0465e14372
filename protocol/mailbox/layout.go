package mailbox

import (
	"iter"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// layout is one of the two layouts: the program's, with the queue in Base itself, and the document's, with the queue in
// Base/tasks (protocol 003, File Locations). Older prompts write messages to the second while the program reads the first,
// so steward always reads both.
type layout struct {
	dir     string // "" or "tasks"
	queue   jsonfile.Reading[queue]
	board   jsonfile.Reading[board]
	listing folder.Listing                        // of the messages folder
	boxes   map[string]*jsonfile.Reading[mailbox] // by file name
}

func newLayout(dir string) layout {
	return layout{dir: dir, listing: folder.Listing{Strict: true}, boxes: map[string]*jsonfile.Reading[mailbox]{}}
}

func (l *layout) queueFile() string          { return path.Join(l.dir, "queue.json") }
func (l *layout) boardFile() string          { return path.Join(l.dir, "status.json") }
func (l *layout) mailDir() string            { return path.Join(l.dir, "messages") }
func (l *layout) boxFile(name string) string { return path.Join(l.mailDir(), name) }

// maxBoxes limits the mailboxes read of one folder.
const maxBoxes = 32

// isBox reports whether name is the file name of a mailbox: to-<agent>.json.
func isBox(name string) bool {
	return strings.HasPrefix(name, "to-") && strings.HasSuffix(name, ".json") && jsonfile.PlainName(name)
}

// read brings the layout up to date. watched reports whether
// steward read these files before: then it saw everything new appear.
func (l *layout) read(f *folder.Folder, watched bool) {
	was := l.queue.Value
	if jsonfile.Load(f.Root, &f.Patience, &l.queue, l.queueFile(), maxQueue, decodeQueue) {
		l.queue.Value.place(&was, l.queue.Stamp.ModTime(), watched)
	}
	if jsonfile.Load(f.Root, &f.Patience, &l.board, l.boardFile(), maxFile, decodeBoard) {
		l.board.Value.place(l.board.Stamp.ModTime())
	}
	if !l.queue.Good { // the previous reading is no longer trusted
		l.queue.Value = queue{}
	}
	if !l.board.Good {
		l.board.Value = board{}
	}
	l.findBoxes(f)
	for name, box := range l.boxes {
		was := box.Value
		if jsonfile.Load(f.Root, &f.Patience, box, l.boxFile(name), maxFile, decodeMailbox) {
			box.Value.place(&was, box.Stamp.ModTime(), watched)
		}
		if !box.There {
			delete(l.boxes, name)
		}
	}
}

// findBoxes finds the mailboxes of the folder.
func (l *layout) findBoxes(f *folder.Folder) {
	if !l.listing.Read(f, l.mailDir()) {
		return
	}
	if !l.listing.There {
		clear(l.boxes)
	}
	names := slices.DeleteFunc(slices.Clone(l.listing.Names), func(n string) bool { return !isBox(n) })
	for _, name := range names[:min(len(names), maxBoxes)] {
		if l.boxes[name] == nil {
			l.boxes[name] = &jsonfile.Reading[mailbox]{}
		}
	}
}

// located is a mailbox with its path.
type located struct {
	*jsonfile.Reading[mailbox]
	file string // relative to Base
	name string // to-developer.json
	used bool   // it belongs to the layout in use
}

func (l *layout) mail(used bool) (list []located) {
	for _, name := range slices.Sorted(maps.Keys(l.boxes)) {
		if box := l.boxes[name]; box.Good {
			list = append(list, located{box, l.boxFile(name), name, used})
		}
	}
	return list
}

// allMessages yields every message with its mailbox.
func allMessages(mail []located) iter.Seq2[located, *message] {
	return func(yield func(located, *message) bool) {
		for _, m := range mail {
			for i := range m.Value.messages {
				if !yield(m, &m.Value.messages[i]) {
					return
				}
			}
		}
	}
}

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
	before := make(map[jsonfile.Sum]*message, len(was.messages))
	for i := range was.messages {
		before[was.messages[i].raw] = &was.messages[i]
	}
	wrong := watched && m.lastRead != was.lastRead && written.Sub(m.lastRead.At).Abs() > jsonfile.ClockSlack
	for i := range m.messages {
		l := &m.messages[i]
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
func (m *mailbox) readBy(l *message) bool { return l.read || m.lastRead.CanFollow(l.stated) }
