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
	maxMarks = 256 // far more popups than any server shows
	maxKey   = 256 // bytes; a popup with a longer key is not recorded
)

// popupRef identifies a popup: the id that its server returned, which is valid only for that instance of the server.
// An instance is the bus (GetId: new for every start of a bus, so that another bus at the same address differs) and
// the server's unique name on it (never reused by a bus). A popupRef without an id is a popup that should be shown
// but was lost with its server, or a popup of a system without ids.
type popupRef struct {
	Bus   string `json:"bus,omitempty"`
	Owner string `json:"owner,omitempty"`
	ID    uint32 `json:"id,omitempty"`
}

// sameLife reports whether the id of m is valid for the server of at. An unknown instance matches no other.
func (m popupRef) sameLife(at popupRef) bool {
	return m.ID != 0 && m.Bus != "" && m.Owner != "" && m.Bus == at.Bus && m.Owner == at.Owner
}

// popupStore records on disk which popup is shown for which key, for the next run, however this run ends. The effect
// of a kill depends on its moment:
//
//	before Notify is sent      nothing is lost; the caller's own state says that the message is still to be shown
//	before the id is written   the popup is shown but not recorded. A server that supports stack tags (dunst, mako)
//	                           replaces it with the next popup of this key; elsewhere it stays until it expires or is
//	                           closed: at most one popup per kill. Recording an intent first would not help, because
//	                           no server can list its popups, and a guessed id may be another program's
//	during a replacement       nothing is lost; the id on disk stays valid. If the server had dropped the old popup
//	                           (or returns a new id), this is the previous case
//	before a close is written  the book has a popup that is gone: withdrawing it has no effect, replacing it opens it
//	                           under a new id (or the same one), which replaces the old one in the book
//	while the file is written  the old or the new file, and a leftover that the next write removes
//
// A closed popup is removed from the book at once. A pressed popup is removed when the caller withdraws it or shows
// it again, as it must: if a kill swallows the press, the popup comes back with new buttons.
//
// A nil popupStore records nothing.
type popupStore struct {
	dir     string
	once    sync.Once
	writer  sync.Mutex // held while the file is written; taken before mu
	unsaved atomic.Uint64

	mu      sync.Mutex // held only briefly
	left    []entry    // popups of the previous run
	entries []entry    // the oldest first
	version uint64     // version of entries
	saved   uint64     // version in the file
	due     bool       // a write is scheduled that has not read entries yet
	shut    bool
}

type entry struct {
	Key string `json:"key"`
	popupRef
}

// newBook returns the store of a state folder; nil if dir is empty.
func newBook(dir string) *popupStore {
	if dir == "" {
		return nil
	}
	return &popupStore{dir: dir}
}

// inherited returns the popups of the previous run, the oldest first.
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

// put records that the popup of a key is shown. If the server returned the id of another key's popup, it has replaced
// that popup.
func (b *popupStore) put(key string, m popupRef) {
	if len(key) > maxKey || !utf8.ValidString(key) {
		return
	}
	if len(m.Bus) > maxName || len(m.Owner) > maxName { // longer than the D-Bus specification allows
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

// void records that the popup of a key was lost with its server. The key stays, because the popup must be shown
// again.
func (b *popupStore) void(key string) {
	b.change(func(all []entry) []entry {
		if i := index(all, key); i >= 0 {
			all[i].popupRef = popupRef{}
		}
		return all
	})
}

// drop records that the popup of a key is gone and not wanted any more.
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

// flush writes pending changes and waits until that is done or ctx ends.
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
	case <-ctx.Done(): // a hanging disk must not block popups
	}
}

// later writes pending changes without blocking its caller, the goroutine that reads the bus.
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

// write saves the newest state. A queued write returns early if an earlier one has already saved it.
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

// close writes pending changes. Later changes are not recorded.
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

// failed returns the number of failed writes.
func (b *popupStore) failed() uint64 {
	if b == nil {
		return 0
	}
	return b.unsaved.Load()
}

// tag returns the stack tag of a key, for servers that replace popups by tag. Different state folders of one user
// yield different tags.
func (b *popupStore) tag(key string) string {
	if b == nil {
		return ""
	}
	sum := sha256.Sum256([]byte(b.dir + "\x00" + key))
	return "steward." + hex.EncodeToString(sum[:8])
}
