package handoffs

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// afterBreak is how long steward does not grant a resource after releasing an agent's lock on it: the previous holder may
// still be about to write.
const afterBreak = 15 * time.Second

// MirrorOptions are the settings of a Mirror.
type MirrorOptions struct {
	Options
	TTL   time.Duration // lifetime of a lock that names no end
	Watch time.Duration // how long an overdue lock must be seen unchanged before it may be released
	Life  time.Duration // how long after its last_active an agent counts as alive
}

// Mirror keeps entries in the state file for the locks that steward grants, and knows which of the agents' locks conflict
// with them. A project whose state file is missing, or belongs to another tool, has neither. Only one goroutine may use a
// Mirror at a time.
type Mirror struct {
	p      *Project
	opts   MirrorOptions
	seen   map[string]sighting
	before map[string]jsonfile.Value // the holder's own entry that the mirrored entry replaced, per resource
}

// sighting records since when an agent's lock has been seen unchanged.
type sighting struct {
	sum   string
	since time.Time
}

// OpenMirror returns the Mirror of the project at dir (absolute). It reads nothing yet.
func OpenMirror(dir string, opts MirrorOptions) *Mirror {
	return &Mirror{p: New(dir, opts.Options), opts: opts, seen: map[string]sighting{}, before: map[string]jsonfile.Value{}}
}

// Close closes all files, after a last check for late writes.
func (m *Mirror) Close() { m.p.Close() }

// Settle merges clients' late writes to replaced state files, and reports whether more may come.
func (m *Mirror) Settle(ctx context.Context, now time.Time) (more bool) {
	_, there := m.p.Scan(ctx, protocol.ScanOrder{Now: now, Since: now})
	return there && m.p.Watched() > 0
}

// Locks lists the entries of the state file by resource, including mirrored ones.
func (m *Mirror) Locks(ctx context.Context, now time.Time) (list []protocol.Rival, err error) {
	_, err = m.open(ctx, now)
	if err != nil || m.p.Root == nil {
		return nil, err
	}
	m.p.state.read()
	s := m.p.state.current()
	for i := range s.locks {
		l, _ := m.p.grants.lock(&s.locks[i])
		r := m.rival(s, l)
		if l.Fence == 0 { // the real lock of a mirrored entry may be unknown: use the entry's own fencing token
			r.Fence = s.locks[i].fence
		}
		list = append(list, *r)
	}
	return list, nil
}

// Claim enters k, a lock that steward is about to grant, as the resource's lock. If an agent's own lock is in the way, or
// was until a moment ago, Claim returns it and changes nothing. A mirrored entry up to k's fencing token was left by a
// dead holder, because k's caller holds the real lock. Claim releases an agent's overdue lock once its holder has shown
// no life for long enough (protocol 001, Same-File Conflicts); the caller must claim k again later.
func (m *Mirror) Claim(ctx context.Context, k protocol.Lock, now time.Time) (*protocol.Rival, error) {
	return m.enter(ctx, k, now, func(s *state, e *lockEntry) *protocol.Rival {
		switch {
		case e == nil:
			m.p.releases = newReleases(m.p.source) // another process may have added to it
			m.p.releases.read()
			if free := m.p.releases.broken[k.Resource].Add(afterBreak); now.Before(free) {
				return &protocol.Rival{Lock: protocol.Lock{Resource: k.Resource}, Again: free,
					Why: fmt.Sprintf("the lock was taken away from its holder a moment ago; it rests until %s", free.UTC().Format("15:04:05 UTC"))}
			}
			return nil
		case e.fence > 0 && e.fence <= k.Fence, e.agent == k.Holder && e.fence == 0:
			return nil
		}
		return m.rival(s, e.lock())
	})
}

// Renew extends k's entry to k.Expires, and restores an entry that a client has lost. If an agent's own lock is in its
// place, Renew returns that lock and leaves it.
func (m *Mirror) Renew(ctx context.Context, k protocol.Lock, now time.Time) (*protocol.Rival, error) {
	return m.enter(ctx, k, now, func(s *state, e *lockEntry) *protocol.Rival {
		if e == nil || e.agent == k.Holder && (e.fence == 0 || e.fence == k.Fence) {
			return nil
		}
		return m.rival(s, e.lock())
	})
}

// Drop removes k's entry, if it is still k's. It restores the agent's own entry that k's entry replaced.
func (m *Mirror) Drop(ctx context.Context, k protocol.Lock, now time.Time) error {
	ours, err := m.open(ctx, now)
	if err != nil || !ours {
		return err
	}
	return m.p.Guarded(ctx, func() error {
		return m.p.state.edit(func(o jsonfile.Object) ([]jsonfile.Set, error) {
			locks, _ := o.Object("locks")
			entry, _ := locks.Object(k.Resource)
			if !isOurs(o) || fenceOf(entry) != k.Fence || first(entry, 100, "agent") != k.Holder {
				return nil, nil
			}
			if own, had := m.before[k.Resource]; had {
				return []jsonfile.Set{{Path: []string{"locks", k.Resource}, Value: own}}, nil
			}
			return []jsonfile.Set{jsonfile.Remove("locks", k.Resource)}, nil
		})
	})
}

// Break releases an agent's lock that is still as it was seen, else it returns protocol.ErrConflict.
func (m *Mirror) Break(ctx context.Context, l protocol.Lock, why string, now time.Time) error {
	return m.unlock(ctx, l, protocol.ReasonOperator, why, now)
}

func (m *Mirror) unlock(ctx context.Context, l protocol.Lock, reason protocol.Reason, why string, now time.Time) error {
	return m.p.Apply(ctx, protocol.Change{Verb: protocol.VerbUnlock, Subject: protocol.Subject{Kind: protocol.KindLock, ID: l.Resource},
		Reason: reason, Why: why, Judged: protocol.Judged{Ref: l.Ref}, Agent: l.Holder}, now)
}

// enter writes k's entry unless judge finds a rival. judge receives the resource's present entry (nil: none).
func (m *Mirror) enter(ctx context.Context, k protocol.Lock, now time.Time,
	judge func(*state, *lockEntry) *protocol.Rival) (rival *protocol.Rival, err error) {
	ours, err := m.open(ctx, now)
	if err != nil || !ours {
		return nil, err
	}
	err = m.p.Guarded(ctx, func() error {
		return m.p.state.edit(func(o jsonfile.Object) ([]jsonfile.Set, error) {
			rival = nil
			if !holdsLocks(o) {
				return nil, nil // the file now belongs to another tool
			}
			s := decodeState(o)
			there := s.lock(k.Resource)
			if rival = judge(&s, there); rival != nil {
				return nil, nil
			}
			if locks, _ := o.Object("locks"); there != nil && there.fence == 0 {
				m.before[k.Resource] = locks.Get(k.Resource)
			}
			return []jsonfile.Set{{Path: []string{"locks", k.Resource}, Value: entryFor(k)}}, nil
		})
	})
	if err == nil && rival != nil && rival.Ref.Sum != "" && !rival.Again.IsZero() && !now.Before(rival.Again) {
		// It is the overdue lock of a holder that shows no life.
		if err := m.unlock(ctx, rival.Lock, protocol.ReasonExpired, rival.Why, now); err != nil && !errors.Is(err, protocol.ErrConflict) {
			return nil, err
		}
		rival.Again = now.Add(afterBreak)
	}
	return rival, err
}

// ends returns when an agent's lock ends. Times without a zone give only a duration, which starts when the lock was first
// seen.
func (m *Mirror) ends(l protocol.Lock, seen time.Time) time.Time {
	switch {
	case l.Expires.IsZero() && (l.Acquired.IsZero() || l.Zoneless):
		return seen.Add(m.opts.TTL)
	case l.Expires.IsZero():
		return l.Acquired.Add(m.opts.TTL)
	case !l.Zoneless || l.Fence > 0:
		return l.Expires
	case l.Acquired.IsZero():
		return l.Expires.Add(jsonfile.ZoneSlack)
	}
	return seen.Add(l.Expires.Sub(l.Acquired))
}

// rival describes an agent's lock: when it ends, whether its holder shows life, and when it may be released if the holder
// does not.
func (m *Mirror) rival(s *state, l protocol.Lock) *protocol.Rival {
	now, seen := m.p.Now, m.seen[l.Resource]
	if seen.sum != l.Ref.Sum {
		seen = sighting{l.Ref.Sum, now}
		m.seen[l.Resource] = seen
	}
	l.Expires = m.ends(l, seen.since)
	r := &protocol.Rival{Lock: l, Why: fmt.Sprintf("%s holds it until %s", l.Holder, l.Expires.UTC().Format("15:04:05 UTC"))}
	if a := s.agent(l.Holder); a != nil {
		st, _ := m.p.Root.Stat(stateFile)
		last := a.last.By(st.ModTime())
		r.Alive = !last.IsZero() && now.Sub(last) < m.opts.Life
	}
	switch expired := !now.Before(l.Expires); {
	case !expired:
		r.Again = l.Expires
	case r.Alive:
		r.Why = l.Holder + " holds it over its time, and shows life"
	default:
		r.Why = l.Holder + " holds it over its time, and shows no sign of life"
		r.Again = seen.since.Add(m.opts.Watch)
	}
	return r
}

// open opens the folder and checks that the state file can be read and belongs to this protocol. ours is false if there
// is no state file, or another tool's. open waits up to two seconds for a writer to finish.
func (m *Mirror) open(ctx context.Context, now time.Time) (ours bool, err error) {
	m.p.Scan(ctx, protocol.ScanOrder{Now: now, Since: now})
	if m.p.Root == nil {
		err := m.p.Open()
		if folder.Missing(err) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	text, o, err := m.p.state.whole(ctx)
	switch {
	case folder.Missing(err):
		return false, nil
	case err == nil:
		return holdsLocks(o), nil
	case (errors.Is(err, jsonfile.ErrBad) || errors.Is(err, jsonfile.ErrTorn)) && !mentionsOurs(text):
		return false, nil // not a document of this protocol
	}
	return false, err
}

// holdsLocks reports whether locks can be entered into the document.
func holdsLocks(o jsonfile.Object) bool {
	switch o.Get("locks").Kind() {
	case "object", "missing", "null":
		return isOurs(o)
	}
	return false
}

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
			f := finding(codeLock, protocol.Low, "agent", "held by %s, an agent that the state file does not list", e.agent)
			f.Subject = protocol.Subject{Kind: protocol.KindLock, ID: e.resource}
			wrong = append(wrong, f)
		}
	}
	return list, wrong
}
