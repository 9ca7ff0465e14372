package handoffs

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// closed is a message that is no longer listed. It costs only this entry until its file changes.
type closed struct {
	box         box
	mtime, size int64
	message     *summary // nil: skipped unread
}

// boxes reads the message folders.
type boxes struct {
	*source
	listed  map[string]*handoff // by file
	closed  map[string]*closed  // by file
	listing [len(places)]folder.Listing
	tracker *tracker
	signs   *signs
}

func newBoxes(s *source, t *tracker, signs *signs) *boxes {
	b := &boxes{source: s, listed: map[string]*handoff{}, closed: map[string]*closed{}, tracker: t, signs: signs}
	for i := range b.listing {
		b.listing[i].Strict = true
	}
	return b
}

// read lists the folders in which entries appeared or disappeared, and refreshes the listed messages. Of the closed
// messages it examines only the hinted ones.
func (b *boxes) read(hinted map[string]bool) {
	for _, at := range places {
		for name := range hinted {
			b.reopen(at, at.dir()+"/"+name)
		}
		if l := &b.listing[at]; l.Read(b.Folder, at.dir()) {
			b.adopt(at, l.Names)
		}
		for file, h := range b.listed {
			if h.box == at {
				b.refresh(file)
			}
		}
	}
}

// adopt adopts a folder's new messages, and drops closed messages that have left it.
func (b *boxes) adopt(at box, names []string) {
	present := make(map[string]bool, len(names))
	var fresh []string
	for _, name := range names {
		file := at.dir() + "/" + name
		if !isMessage(name) {
			continue
		}
		present[file] = true
		if b.listed[file] == nil && b.closed[file] == nil {
			fresh = append(fresh, file)
		}
	}
	maps.DeleteFunc(b.closed, func(file string, c *closed) bool { return c.box == at && !present[file] })
	if at == completed && b.began.IsZero() {
		fresh = b.history(fresh)
	}
	for _, file := range fresh {
		b.listed[file] = b.newHandoff(at, file)
	}
}

// How many ended messages stay listed, how long each stays at least, and how many are read for the figures.
const (
	keepEnded   = 100
	keepAtLeast = 10 * time.Second
	keepCounted = 2000
)

// history sorts the messages found in completed/ at the first scan. It lists the newest, reads some more once for the
// figures, and skips the rest.
func (b *boxes) history(files []string) (listed []string) {
	stamps := map[string]jsonfile.Stamp{}
	files = slices.DeleteFunc(files, func(file string) bool {
		st, err := b.Root.Stat(file)
		if err != nil || !st.Mode.IsRegular() {
			listed = append(listed, file)
			return true
		}
		stamps[file] = st
		return false
	})
	slices.SortFunc(files, func(x, y string) int {
		return cmp.Or(arrived(stamps[y]).Compare(arrived(stamps[x])), strings.Compare(x, y))
	})
	for i, file := range files {
		switch st := stamps[file]; {
		case i < keepEnded && !arrived(st).Before(b.Since):
			listed = append(listed, file)
		case i < keepCounted:
			h := b.newHandoff(completed, file)
			b.load(h)
			b.close(h)
		default:
			b.closed[file] = &closed{box: completed, mtime: st.MtimeNs, size: st.Size}
		}
	}
	return listed
}

func (b *boxes) newHandoff(at box, file string) *handoff {
	return &handoff{file: file, box: at, noticed: b.Now, early: b.began.IsZero()}
}

// load reads a message if it changed.
func (b *boxes) load(h *handoff) {
	if !jsonfile.Load(b.Root, &b.Patience, &h.Reading, h.file, maxFile, func(o jsonfile.Object) handoffMessage { return decodeMessage(o, h.file) }) {
		return
	}
	if h.appeared.IsZero() {
		h.appeared = capped(arrived(h.Stamp), b.Now)
	}
	if id := h.Value.id; !usable(id) && !h.foreign() {
		b.Patience.Refuse(h.file, "\""+folder.Line(id, 60)+"\" is not an id for a handoff: it cannot be used as a file name", "use a UUID")
	} else {
		b.Patience.Clear(h.file)
	}
}

// refresh rereads a message, and forgets it if its file is gone.
func (b *boxes) refresh(file string) {
	h := b.listed[file]
	before, stopped := h.Sum, h.Value.stopped()
	b.load(h)
	if !h.There {
		delete(b.listed, file)
		return
	}
	if h.Sum != before && (h.box == flat || stopped) {
		h.appeared, h.noticed = arrived(h.Stamp), b.Now // the new content is a new stage
	}
}

// reopen lists a closed message again if its file has changed.
func (b *boxes) reopen(at box, file string) {
	c := b.closed[file]
	if c == nil {
		return
	}
	st, err := b.Root.Stat(file)
	if err == nil && st.MtimeNs == c.mtime && st.Size == c.size {
		return
	}
	delete(b.closed, file)
	if !folder.Missing(err) {
		h := b.newHandoff(at, file)
		h.reopened = true
		b.listed[file] = h
	}
}

// retire closes messages that ended before the observed period, and the oldest ended messages beyond keepEnded.
func (b *boxes) retire() {
	var ended []*handoff
	for _, h := range b.listed {
		switch {
		case !h.counts() || h.where() != completed || !h.early && b.Now.Sub(h.noticed) <= keepAtLeast:
		case h.ended().Before(b.Since):
			b.close(h)
		default:
			ended = append(ended, h)
		}
	}
	if len(ended) > keepEnded {
		slices.SortFunc(ended, func(x, y *handoff) int { return cmp.Or(y.ended().Compare(x.ended()), strings.Compare(x.file, y.file)) })
		for _, h := range ended[keepEnded:] {
			b.close(h)
		}
	}
}

// close removes a message from the list and adds it to the counts.
func (b *boxes) close(h *handoff) {
	c := &closed{box: h.box, mtime: h.Stamp.MtimeNs, size: h.Stamp.Size}
	if h.Good {
		c.message = b.tracker.summary(h)
		b.signs.addSent(&h.Value)
		b.tracker.forget(h)
	}
	b.closed[h.file] = c
	b.Patience.Clear(h.file)
	delete(b.listed, h.file)
}

// summaries lists what the measures need of all messages.
func (b *boxes) summaries() (list []*summary) {
	for _, c := range b.closed {
		if c.message != nil {
			list = append(list, c.message)
		}
	}
	for _, h := range b.listed {
		if h.counts() {
			list = append(list, b.tracker.summary(h))
		}
	}
	return list
}

// exists reports whether there is a handoff with that id, or with that id in its file name.
func (b *boxes) exists(id string) bool {
	if slices.ContainsFunc(b.summaries(), func(m *summary) bool { return m.id == id }) {
		return true
	}
	id = strings.TrimSuffix(id, ".json")
	if !usable(id) {
		return false
	}
	for _, at := range places {
		for _, name := range []string{id, "handoff-" + id, strings.TrimPrefix(id, "handoff-")} {
			if _, err := b.Root.Stat(at.dir() + "/" + name + ".json"); err == nil && name != "" {
				return true
			}
		}
	}
	return false
}

// handoff is a message still of interest: it is open, or ended recently.
type handoff struct {
	file string
	box  box
	jsonfile.Reading[handoffMessage]
	appeared time.Time // when it arrived in this place, by the file system's clock
	noticed  time.Time // the same, by steward's clock
	early    bool      // it was there at the first scan
	reopened bool      // it was closed before: its past events are not news
}

// counts reports whether the file is usable and a message at all: other tools may keep files in handoffs/ itself.
func (h *handoff) counts() bool { return h.Good && !h.foreign() }

func (h *handoff) foreign() bool { return h.box == flat && h.Value.foreign }

// where returns the place that counts: the folder, or the status of a message directly in handoffs/.
func (h *handoff) where() box {
	if h.box != flat {
		return h.box
	}
	switch status := h.Value.status; {
	case slices.Contains([]string{"accepted", "in_progress", "active", "working"}, status):
		return accepted
	case ended(status), status == statusRejected, status == statusFailed:
		return completed
	}
	return pending
}

// ended reports whether a status says that the work is over, for a message or a workflow.
func ended(status string) bool {
	return slices.Contains([]string{"completed", "complete", "done", "finished", statusCancelled}, status)
}

// ended returns when the handoff ended, by its own timestamp or else by the file system's.
func (h *handoff) ended() time.Time {
	if at := h.Value.completedAt.By(h.appeared); !at.IsZero() {
		return at
	}
	if h.box == flat {
		return h.Stamp.ModTime()
	}
	return h.appeared
}

// accepted returns when the handoff was accepted, by its own timestamp or else by the file system's.
func (h *handoff) accepted() time.Time {
	if at := h.Value.acceptedAt.By(h.appeared); !at.IsZero() {
		return at
	}
	return h.appeared
}
