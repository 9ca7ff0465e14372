package handoffs

import (
	"strconv"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// Locks that steward grants are kernel locks. Their entries in the state file mirror them for agents that read only that
// file. A mirrored entry adds the fencing token to the document's own keys.

// lockEntry is a mirrored entry (protocol 001, Lock Protocol). fence and pid are steward's additions.
type lockEntry struct {
	Agent    string `json:"agent"`
	Acquired string `json:"acquired"`
	Expires  string `json:"expires"`
	Fence    uint64 `json:"fence"`
	PID      int    `json:"pid,omitzero"`
}

func entryFor(k protocol.Lock) lockEntry {
	return lockEntry{k.Holder, jsonfile.FormatTime(k.Acquired), jsonfile.FormatTime(k.Expires), k.Fence, k.Process.PID}
}

// leastFence is below every fencing token of steward's, which start at the clock (microseconds since 1970). An agent may
// use a field of that name for smaller numbers.
const leastFence = 1e15

// fenceOf returns the fencing token in a lock's entry; 0 for an entry that an agent wrote itself.
func fenceOf(lock jsonfile.Object) uint64 {
	n, ok := lock.Int("fence")
	if !ok.OK() || n < leastFence {
		return 0
	}
	return uint64(n)
}

// signOf returns the part of an entry that shows life of its agent: the whole entry, but only the fencing token of a
// mirrored entry, which steward renews itself.
func signOf(lock jsonfile.Object, sum string) string {
	if fence := fenceOf(lock); fence > 0 {
		return "fence " + strconv.FormatUint(fence, 10)
	}
	return sum
}

// granted completes a mirrored lock with what is known of the real one. The lock ends when the whole lease ends, so an
// overdue lock is visible however often its entry was renewed.
func (p *Project) granted(k *claim, l *protocol.Lock) bool {
	if k.fence == 0 || p.grants == nil {
		return false
	}
	g, ok := p.grants(k.resource)
	if !ok || g.Fence != k.fence || g.Holder != k.agent {
		return false
	}
	l.Fence, l.Process = g.Fence, g.Process
	if g.Process.Proves() { // otherwise only the entry's own end is known, and its holder renews it
		l.Expires = g.Expires
	}
	return true
}

// isHeld reports whether an entry mirrors a lock that is still held, or may be.
func (p *Project) isHeld(o jsonfile.Object, resource string) bool {
	locks, _ := o.Object("locks")
	entry, _ := locks.Object(resource)
	fence := fenceOf(entry)
	if fence == 0 || p.grants == nil {
		return false
	}
	g, ok := p.grants(resource)
	return ok && g.Fence == fence && g.Kernel
}
