package handoffs

import (
	"strconv"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// Locks that steward grants are real ones, of the kernel. Their entries in the state file are for agents that only
// read that: a mirror, with the holding's number beside the document's own keys.

// lockEntry is the mirror's entry (protocol 001, Lock Protocol; fence and pid are ours).
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

// leastFence is below every number of ours, which begin at the clock (microseconds since 1970): an agent may have a field
// of that name of its own.
const leastFence = 1e15

// fenceOf is the number in a lock's entry; 0 for an entry that an agent made by itself.
func fenceOf(lock jsonfile.Object) uint64 {
	n, ok := lock.Int("fence")
	if !ok.OK() || n < leastFence {
		return 0
	}
	return uint64(n)
}

// signOf is what an entry says of its agent's life: all of it, but of a mirror only which holding it is.
func signOf(lock jsonfile.Object, sum string) string {
	if fence := fenceOf(lock); fence > 0 {
		return "fence " + strconv.FormatUint(fence, 10)
	}
	return sum
}

// granted completes a mirror's lock by what is known of the real one. Its end is that of the whole holding, so that
// one over its time shows, however often the entry was prolonged.
func (p *Project) granted(k *claim, l *protocol.Lock) bool {
	if k.fence == 0 || p.grants == nil {
		return false
	}
	g, ok := p.grants(k.resource)
	if !ok || g.Fence != k.fence || g.Holder != k.agent {
		return false
	}
	l.Fence, l.Process = g.Fence, g.Process
	if g.Process.Proves() { // else the entry's own end is all there is to go by, and its holder prolongs it
		l.Expires = g.Expires
	}
	return true
}

// isHeld reports whether an entry mirrors a lock that somebody still holds, or may hold.
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
