package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// State is the state of a lock.
type State string

// The states. A damaged lock cannot be granted until a user breaks it.
const (
	StateHeld    State = "held"
	StateOverdue State = "overdue"
	StateFree    State = "free"
	StateDamaged State = "damaged"
)

// The kinds: a kernel lock that steward grants, and an entry that an agent made by itself (protocol 001).
const (
	KindReal    = "real"
	KindContent = "content"
)

// Status describes a lock and its holder. For a free lock it describes the last grant.
type Status struct {
	Name    string   `json:"name"`
	Kind    string   `json:"kind"`
	State   State    `json:"state"`
	Agent   string   `json:"agent,omitempty"`
	PID     int      `json:"pid,omitempty"`
	Command []string `json:"command,omitempty"`
	Host    string   `json:"host,omitempty"`
	Fence   uint64   `json:"fence,omitempty"`
	// Since is when the lock was taken. Expires is when its TTL ends or ended.
	Since   time.Time `json:"since,omitzero"`
	Expires time.Time `json:"expires,omitzero"`
	TTL     float64   `json:"ttl_seconds,omitempty"`
	// Alive: the holder of a held lock is alive. For a real lock this is proved, for a content lock it is a guess.
	Alive bool `json:"alive"`
	// Outlived: the command has ended, but processes that it started keep the lock.
	Outlived bool   `json:"outlived,omitempty"`
	Why      string `json:"why"`
	// Holders are the processes that hold the lock, as far as known.
	Holders []proc.Identity `json:"-"`
	rival   *protocol.Rival
}

// List returns all locks of the project, by name. It never tries to take a kernel lock: even that would disturb others.
func (l *Locks) List(ctx context.Context) ([]Status, error) {
	now := l.opts.Now()
	names, err := l.folder.names()
	if err != nil {
		return nil, fmt.Errorf("list the locks: %w", err)
	}
	var list []Status
	for file, name := range names {
		list = append(list, l.status(name, file, now))
	}
	content, err := l.content(ctx, now)
	if err != nil {
		return list, fmt.Errorf("list the locks of agents: %w", err)
	}
	list = append(list, content...)
	slices.SortStableFunc(list, func(a, b Status) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// content lists the locks that agents entered by themselves.
func (l *Locks) content(ctx context.Context, now time.Time) (list []Status, err error) {
	all, err := l.mirror.Locks(ctx, now)
	for i := range all {
		if !l.isMirror(&all[i]) {
			list = append(list, contentStatus(&all[i], now))
		}
	}
	return list, err
}

// isMirror reports whether an entry mirrors a lock that steward granted: its fencing token was granted, or was about to
// be.
func (l *Locks) isMirror(r *protocol.Rival) bool {
	if r.Fence == 0 {
		return false
	}
	file, err := fileName(r.Resource)
	if err != nil {
		return false
	}
	rec, ceiling, err := l.folder.read(r.Resource, file)
	return (err == nil || errors.Is(err, ErrDamaged)) && r.Fence <= rec.next(ceiling, l.opts.Now())
}

func contentStatus(r *protocol.Rival, now time.Time) Status {
	s := Status{Name: r.Resource, Kind: KindContent, State: StateHeld, Agent: r.Holder, Since: r.Acquired, Expires: r.Expires,
		Alive: r.Alive, Why: r.Why, rival: r}
	if !r.Expires.IsZero() && !now.Before(r.Expires) {
		s.State = StateOverdue
	}
	return s
}

// status returns the status of a real lock.
func (l *Locks) status(name, file string, now time.Time) Status {
	rec, _, err := l.folder.read(name, file)
	if errors.Is(err, jsonfile.ErrNotExist) {
		return Status{Name: name, Kind: KindReal, State: StateFree, Why: "it was never held"}
	}
	held := l.procs.holders(rec, l.folder.path(file, lockSuffix))
	s := Status{Name: name, Kind: KindReal, Agent: rec.Agent, Command: rec.Command, Host: rec.Host, Fence: rec.Fence, Since: rec.Acquired, TTL: rec.TTL,
		Alive: held.yes, Holders: held.by}
	if len(held.by) > 0 {
		s.PID = held.by[0].PID
	}
	if !rec.Acquired.IsZero() {
		s.Expires = rec.ends()
	}
	switch {
	case err != nil:
		s.State, s.Why = StateDamaged, err.Error()
		return s
	case !held.yes && rec.Broken != nil:
		s.State, s.Why = StateFree, fmt.Sprintf("broken by %s: %s", rec.Broken.By, rec.Broken.Why)
	case !held.yes:
		s.State, s.Why = StateFree, "it is not held"
	case !s.Expires.IsZero() && !now.Before(s.Expires):
		s.State, s.Why = StateOverdue, "held for longer than it was taken for"
	default:
		s.State, s.Why = StateHeld, "held"
	}
	if held.yes && held.left {
		s.Outlived = true
		s.Why += ", by what its command left behind"
	}
	if held.yes && !held.sure {
		s.Why += fmt.Sprintf(", as far as can be told from here (taken on %s)", rec.Host)
	}
	return s
}

// Granted returns the newest grant of a lock for an adapter: its fencing token, its holder, its expiry, and the process
// that holds or last held it. Kernel: the lock is still held. ok is false if there was no grant.
func (l *Locks) Granted(resource string) (k protocol.Lock, ok bool) {
	file, err := fileName(resource)
	if err != nil {
		return k, false
	}
	rec, _, err := l.folder.read(resource, file)
	if err != nil || rec.Process.PID == 0 {
		return k, false
	}
	k = protocol.Lock{Resource: rec.Name, Holder: rec.Agent, Acquired: rec.Acquired, Expires: rec.ends(), Fence: rec.Fence}
	held := l.procs.holders(rec, l.folder.path(file, lockSuffix))
	k.Kernel = held.yes
	switch {
	case len(held.by) > 0:
		k.Process = protocol.Identity(held.by[len(held.by)-1])
	case rec.Host == l.procs.host:
		k.Process = protocol.Identity(rec.Process)
	}
	return k, true
}
