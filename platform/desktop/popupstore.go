package desktop

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"sync"
	"sync/atomic"
	"unicode/utf8"
)

const (
	maxMarks = 256 // far more than any server keeps on the screen
	maxKey   = 256 // bytes; a popup of a longer key is not remembered
)

// popupRef says where a popup stands: the id that its server gave, which means this popup in that life of the server
// only. A life is the bus (GetId: made anew by every start of a bus, so that another bus at the same address is another
// one) and the server's unique name on it (never given twice by one bus). A mark without an id is a popup that should
// stand and went with its server, or one of a system that gives no ids.
type popupRef struct {
	Bus   string `json:"bus,omitempty"`
	Owner string `json:"owner,omitempty"`
	ID    uint32 `json:"id,omitempty"`
}

// sameLife says whether the id of m counts for the server that at comes from. A life that is not known is like no other.
func (m popupRef) sameLife(at popupRef) bool {
	return m.ID != 0 && m.Bus != "" && m.Owner != "" && m.Bus == at.Bus && m.Owner == at.Owner
}

// popupStore remembers on disk which popup stands for which key, for the run after this one, however this one ends. What a
// kill leaves, by the moment at which it comes:
//
//	before Notify is sent     nothing; the caller's own books say that this message is still to be shown
//	before the id is written  the popup stands and no book names it. A server that knows stack tags (dunst, mako) puts
//	                          the next one of this key in its place; elsewhere this one stays until it expires or is
//	                          closed: one popup per kill, and never more. No intent written before helps, because
//	                          no server can be asked for its popups, and an id that is guessed may be somebody else's
//	while it is replaced      nothing: the id on disk stays right. Where the server had dropped the old popup (or
//	                          gives a new id), this is the case before
//	before a closing is noted the book names a popup that is gone: withdrawing it does nothing, replacing it opens it
//	                          under a new id (or the same one), and that is written in place of the old one
//	while the file is written the old file or the new one, and a leftover that the next write takes away
//
// A closed popup leaves the book at once. A pressed one leaves it when the caller withdraws it or shows it anew, as
// it must: a press that a kill swallows brings the popup back, with fresh buttons.
//
// A nil book remembers nothing.
type popupStore struct {
	dir     string
	once    sync.Once
	writer  sync.Mutex // held while the file is written; taken before mu
	unsaved atomic.Uint64

	mu      sync.Mutex // held for moments only
	left    []entry    // what the run before left
	entries []entry    // by age, the oldest first
	version uint64     // of entries
	saved   uint64     // the version in the file
	due     bool       // a write is on its way that has not looked at entries yet
	shut    bool
}

type entry struct {
	Key string `json:"key"`
	popupRef
}

// newBook gives the book of a state folder; nil without one.
func newBook(dir string) *popupStore {
	if dir == "" {
		return nil
	}
	return &popupStore{dir: dir}
}

// inherited gives what the run before left, the oldest first.
func (b *popupStore) inherited() []entry {
	if b == nil {
		return nil
	}
	b.once.Do(func() {
		left := readMarks(b.dir)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.left, b.entries = left, slices.Clone(left)
	})
	return b.left
}

// put notes that the popup of a key stands. A server that gives the id of another key's popup has replaced that one.
func (b *popupStore) put(key string, m popupRef) {
	if len(key) > maxKey || !utf8.ValidString(key) {
		return
	}
	if len(m.Bus) > maxName || len(m.Owner) > maxName { // no bus that keeps to the specification
		m = popupRef{}
	}
	b.change(func(all []entry) []entry {
		for i := range all {
			if all[i].popupRef == m && m.ID != 0 && all[i].Key != key {
				all[i].popupRef = popupRef{}
			}
		}
		if i := index(all, key); i >= 0 {
			all[i].popupRef = m
			return all
		}
		all = append(all, entry{key, m})
		return all[max(0, len(all)-maxMarks):]
	})
}

// void notes that the popup of a key went with its server. The key stays: it is to be shown anew.
func (b *popupStore) void(key string) {
	b.change(func(all []entry) []entry {
		if i := index(all, key); i >= 0 {
			all[i].popupRef = popupRef{}
		}
		return all
	})
}

// drop notes that the popup of a key is gone and is not wanted back.
func (b *popupStore) drop(key string) {
	b.change(func(all []entry) []entry {
		return slices.DeleteFunc(all, func(e entry) bool { return e.Key == key })
	})
}

func index(all []entry, key string) int {
	return slices.IndexFunc(all, func(e entry) bool { return e.Key == key })
}

func (b *popupStore) change(f func([]entry) []entry) {
	if b == nil {
		return
	}
	b.inherited()
	b.mu.Lock()
	defer b.mu.Unlock()
	next := f(slices.Clone(b.entries))
	if !slices.Equal(next, b.entries) {
		b.entries = next
		b.version++
	}
}

// flush writes what has changed, and stays until that is done or ctx ends.
func (b *popupStore) flush(ctx context.Context) {
	if b == nil || b.clean() {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.write()
	}()
	select {
	case <-done:
	case <-ctx.Done(): // a disk that hangs holds up no popup
	}
}

// later writes what has changed without holding up its caller, the goroutine that reads the bus.
func (b *popupStore) later() {
	if b == nil || b.clean() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.due {
		b.due = true
		go b.write()
	}
}

func (b *popupStore) clean() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.saved == b.version
}

// write saves the newest state; who waited for an older write may find it done.
func (b *popupStore) write() {
	b.writer.Lock()
	defer b.writer.Unlock()
	b.mu.Lock()
	b.due = false
	all, version, idle := b.entries, b.version, b.shut || b.saved == b.version
	b.mu.Unlock()
	if idle {
		return
	}
	if err := writeMarks(b.dir, all); err != nil {
		b.unsaved.Add(1)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.saved = version
}

// close writes the rest. What happens from here on is not ours to note.
func (b *popupStore) close() {
	if b == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	b.flush(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shut = true
}

// failed counts the writes that did not work.
func (b *popupStore) failed() uint64 {
	if b == nil {
		return 0
	}
	return b.unsaved.Load()
}

// tag names the popup of a key to servers that put one popup in the place of another by name. Two state folders of one
// user have nothing in common.
func (b *popupStore) tag(key string) string {
	if b == nil {
		return ""
	}
	sum := sha256.Sum256([]byte(b.dir + "\x00" + key))
	return "steward." + hex.EncodeToString(sum[:8])
}
