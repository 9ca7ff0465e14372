// Package ledger keeps attempts on record for protocols whose lost work goes back to its place in one step: one file
// per attempt, made before the work is moved and renamed after it, so that no crash gives an attempt away.
package ledger

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// Ledger is one project's folder of attempts.
//
//	<id>.<n>.sched.json   the n-th attempt is to be taken back: rule, code, agent. First writer wins.
//	<id>.<n>.taken.json   it was: the rename that made this name is the commit point.
type Ledger struct {
	dir     string // relative to the Root
	stamp   jsonfile.Stamp
	entries map[string][]protocol.Attempt
	unread  []string // files of which it could not be read what they say
}

// New is the ledger in the folder dir, which Enter makes in its parent folder when it is missing.
func New(dir string) *Ledger { return &Ledger{dir: dir} }

const (
	scheduled = ".sched.json"
	taken     = ".taken.json"
	maxEntry  = 64 << 10
	version   = 1 // of the files
)

// Refresh reads what is new on record. It costs one stat when nothing is.
func (l *Ledger) Refresh(root *jsonfile.Root, p *jsonfile.TolerantReader, now time.Time) {
	st, err := root.Stat(l.dir)
	if errors.Is(err, jsonfile.ErrNotExist) {
		p.Clear(l.dir)
		l.clear(p, nil)
		l.entries, l.stamp = nil, jsonfile.Stamp{}
		return
	}
	if err == nil && l.entries != nil && st == l.stamp {
		return
	}
	names, st, err := root.List(l.dir)
	if err != nil {
		p.Unreadable(l.dir, err) // the last good reading stands
		return
	}
	p.Clear(l.dir)
	l.clear(p, l.readAll(root, p, names))
	l.stamp = jsonfile.Stamp{}
	if st.Settled(now) && len(l.unread) == 0 {
		l.stamp = st
	}
}

// clear takes those files off the book that are no longer unread: they were read, or have another name by now.
func (l *Ledger) clear(p *jsonfile.TolerantReader, unread []string) {
	for _, file := range l.unread {
		if !slices.Contains(unread, file) {
			p.Clear(file)
		}
	}
	l.unread = unread
}

func (l *Ledger) readAll(root *jsonfile.Root, p *jsonfile.TolerantReader, names []string) (unread []string) {
	old := l.entries
	l.entries = map[string][]protocol.Attempt{}
	for _, name := range names {
		id, n, committed, ok := parseName(name)
		if !ok {
			continue
		}
		file := l.dir + "/" + name
		known := func(k protocol.Attempt) bool { return k.N == n && k.Committed && !slices.Contains(l.unread, file) }
		if i := slices.IndexFunc(old[id], known); i >= 0 && committed {
			l.entries[id] = append(l.entries[id], old[id][i])
			continue
		}
		// One that cannot be read counts as a retry: a damaged ledger must not give attempts away.
		k := protocol.Attempt{N: n, Action: protocol.ActionRetry, Committed: committed}
		o, _, err := root.Load(file, maxEntry)
		if err == nil {
			err = o.Newer(version)
		}
		if err != nil {
			p.Unreadable(file, err)
			unread = append(unread, file)
			k.Unread = p.Passing(file)
		} else {
			decode(o, &k)
		}
		l.entries[id] = append(l.entries[id], k)
	}
	for _, list := range l.entries {
		slices.SortFunc(list, func(a, b protocol.Attempt) int { return cmp.Compare(a.N, b.N) })
	}
	return unread
}

func parseName(name string) (id string, n int, committed, ok bool) {
	head, committed := strings.CutSuffix(name, taken)
	if !committed {
		var sched bool
		if head, sched = strings.CutSuffix(name, scheduled); !sched {
			return "", 0, false, false
		}
	}
	i := strings.LastIndexByte(head, '.')
	if i <= 0 {
		return "", 0, false, false
	}
	n, err := strconv.Atoi(head[i+1:])
	return head[:i], n, committed, err == nil && n > 0
}

// Takings are the attempts of one piece of work on record, oldest first.
func (l *Ledger) Takings(id string) []protocol.Attempt { return slices.Clone(l.entries[id]) }

// entry is a file of the ledger.
type entry struct {
	Version int       `json:"version"`
	ID      string    `json:"id"`
	N       int       `json:"n"`
	Action  string    `json:"action"`
	Rule    string    `json:"rule"`
	Code    string    `json:"code"`
	Agent   string    `json:"agent"`
	TakenAt time.Time `json:"taken_at"`
	Twice   bool      `json:"may_have_run_twice,omitzero"`
	Why     string    `json:"why"`
}

func decode(o jsonfile.Object, k *protocol.Attempt) {
	if action, ok := o.String("action"); ok.OK() {
		k.Action = action
	}
	k.Rule, _ = o.String("rule")
	k.Code, _ = o.String("code")
	k.Agent, _ = o.String("agent")
	k.Due, _ = o.Time("taken_at")
	k.Twice, _ = o.Bool("may_have_run_twice")
}

// Enter puts the attempt that c takes back on record (c.Attempt is its number), before the work is moved. An entry
// that stands there already is as good: a crash came between.
func (l *Ledger) Enter(root *jsonfile.Root, c protocol.Change, now time.Time) error {
	if c.Attempt < 1 || !jsonfile.PlainName(c.Subject.ID) {
		return fmt.Errorf("enter attempt %d of %q: no such name can be on record", c.Attempt, c.Subject.ID)
	}
	if err := root.Mkdir(l.dir, 0o755); err != nil {
		return err
	}
	doc, err := jsonfile.Encode(entry{Version: version, ID: c.Subject.ID, N: c.Attempt, Action: cmp.Or(c.Action, protocol.ActionRetry), Rule: c.Rule,
		Code: c.Code, Agent: c.Agent, TakenAt: now.UTC(), Twice: c.Twice, Why: c.Why})
	if err != nil {
		return err
	}
	if _, err := root.Stat(l.name(c, taken)); err == nil {
		return fmt.Errorf("attempt %d of %s is taken back already: %w", c.Attempt, c.Subject.ID, protocol.ErrConflict)
	}
	if err := root.Create(l.name(c, scheduled), doc, 0o644); err != nil && !errors.Is(err, jsonfile.ErrExist) {
		return err
	}
	return nil
}

// Commit says that the work of the attempt was moved. Doing it twice is no error.
func (l *Ledger) Commit(root *jsonfile.Root, c protocol.Change) error {
	err := root.Rename(l.name(c, scheduled), l.name(c, taken))
	if errors.Is(err, jsonfile.ErrNotExist) || errors.Is(err, jsonfile.ErrExist) {
		if _, statErr := root.Stat(l.name(c, taken)); statErr == nil {
			return nil
		}
	}
	return err
}

// Committed reports whether the attempt of c stands on record as taken back.
func (l *Ledger) Committed(root *jsonfile.Root, c protocol.Change) bool {
	_, err := root.Stat(l.name(c, taken))
	return err == nil
}

func (l *Ledger) name(c protocol.Change, kind string) string {
	return l.dir + "/" + c.Subject.ID + "." + strconv.Itoa(c.Attempt) + kind
}
