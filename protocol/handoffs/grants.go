package handoffs

import (
	"strconv"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// Locks that steward grants are kernel locks. Their entries in the state file mirror them for agents that read only that
// file. A mirrored entry adds the fencing token to the document's own keys.

// mirrorEntry is a mirrored entry (protocol 001, Lock Protocol). fence and pid are steward's additions.
type mirrorEntry struct {
	Agent    string `json:"agent"`
	Acquired string `json:"acquired"`
	Expires  string `json:"expires"`
	Fence    uint64 `json:"fence"`
	PID      int    `json:"pid,omitzero"`
}

func entryFor(l protocol.Lock) mirrorEntry {
	return mirrorEntry{l.Holder, jsonfile.FormatTime(l.Acquired), jsonfile.FormatTime(l.Expires), l.Fence, l.Process.PID}
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

// grants is Options.Granted.
type grants func(resource string) (protocol.Lock, bool)

// find returns the lock that steward granted with that fencing token.
func (g grants) find(resource string, fence uint64) (l protocol.Lock, ok bool) {
	if fence == 0 || g == nil {
		return l, false
	}
	l, ok = g(resource)
	return l, ok && l.Fence == fence
}

// lock returns an entry as a lock. A mirrored entry is completed with what is known of the real lock. The lock ends when
// the whole lease ends, so an overdue lock is visible however often its entry was renewed.
func (g grants) lock(e *lockEntry) (l protocol.Lock, granted bool) {
	l = e.lock()
	l.Fence = 0
	real, ok := g.find(e.resource, e.fence)
	if !ok || real.Holder != e.agent {
		return l, false
	}
	l.Fence, l.Process = real.Fence, real.Process
	if real.Process.Proves() { // otherwise only the entry's own end is known, and its holder renews it
		l.Expires = real.Expires
	}
	return l, true
}

// locks lists the locks of the state file (protocol 001, Lock Protocol). They do not ensure mutual exclusion: clients
// that follow the document occasionally overlap. The policy decides which locks may be released.
func (g grants) locks(s *state) (list []protocol.Lock, wrong []protocol.Finding) {
	for i := range s.locks {
		e := &s.locks[i]
		l, granted := g.lock(e)
		list = append(list, l)
		if !granted && s.agent(e.agent) == nil {
			f := finding(codeLock, protocol.Low, "agent", "held by %s, whom the state file does not list", e.agent)
			f.Subject = protocol.Subject{Kind: protocol.KindLock, ID: e.resource}
			wrong = append(wrong, f)
		}
	}
	return list, wrong
}
