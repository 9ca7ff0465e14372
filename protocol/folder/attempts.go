package folder

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

// Attempts records attempts for protocols whose lost work goes back to its place in one step: one file per attempt, made
// before the work is moved and renamed after it, so that no crash grants an extra attempt.
//
//	<id>.<n>.sched.json   the order to take back the n-th attempt: rule, code, agent. The first writer wins.
//	<id>.<n>.taken.json   it was: the rename that made this name is the commit point.
type Attempts struct {
	dir     string // relative to the Root
	stamp   jsonfile.Stamp
	entries map[string][]protocol.Attempt
	unread  []string // files whose content could not be read
}

// NewAttempts returns the record in the folder dir. Enter creates the folder if it is missing.
func NewAttempts(dir string) *Attempts { return &Attempts{dir: dir} }

const (
	scheduled      = ".sched.json"
	taken          = ".taken.json"
	maxAttempt     = 64 << 10
	attemptVersion = 1 // of the files
)

// Refresh reads what is new on record. It costs one stat if nothing is new.
func (a *Attempts) Refresh(root *jsonfile.Root, p *jsonfile.TolerantReader, now time.Time) {
	st, err := root.Stat(a.dir)
	if errors.Is(err, jsonfile.ErrNotExist) {
		p.Clear(a.dir)
		a.clear(p, nil)
		a.entries, a.stamp = nil, jsonfile.Stamp{}
		return
	}
	if err == nil && a.entries != nil && st == a.stamp {
		return
	}
	names, st, err := root.List(a.dir)
	if err != nil {
		p.Unreadable(a.dir, err) // the last good reading stands
		return
	}
	p.Clear(a.dir)
	a.clear(p, a.readAll(root, p, names))
	a.stamp = jsonfile.Stamp{}
	if st.Settled(now) && len(a.unread) == 0 {
		a.stamp = st
	}
}

// clear forgets the faults of files that are no longer unread: they were read, or have another name by now.
func (a *Attempts) clear(p *jsonfile.TolerantReader, unread []string) {
	for _, file := range a.unread {
		if !slices.Contains(unread, file) {
			p.Clear(file)
		}
	}
	a.unread = unread
}

func (a *Attempts) readAll(root *jsonfile.Root, p *jsonfile.TolerantReader, names []string) (unread []string) {
	old := a.entries
	a.entries = map[string][]protocol.Attempt{}
	for _, name := range names {
		id, n, committed, ok := parseAttempt(name)
		if !ok {
			continue
		}
		file := a.dir + "/" + name
		known := func(k protocol.Attempt) bool { return k.N == n && k.Committed && !slices.Contains(a.unread, file) }
		if i := slices.IndexFunc(old[id], known); i >= 0 && committed {
			a.entries[id] = append(a.entries[id], old[id][i])
			continue
		}
		// A file that cannot be read counts as a retry: a damaged record must not grant extra attempts.
		k := protocol.Attempt{N: n, Action: protocol.ActionRetry, Committed: committed}
		o, _, err := root.Load(file, maxAttempt)
		if err == nil {
			err = o.Newer(attemptVersion)
		}
		if err != nil {
			p.Unreadable(file, err)
			unread = append(unread, file)
			k.Unread = p.Passing(file)
		} else {
			var e attempt
			Fill(o, &e)
			k.Action, k.Rule, k.Code, k.Agent, k.Due, k.Twice = cmp.Or(e.Action, k.Action), e.Rule, e.Code, e.Agent, e.TakenAt, e.Twice
		}
		a.entries[id] = append(a.entries[id], k)
	}
	for _, list := range a.entries {
		slices.SortFunc(list, func(x, y protocol.Attempt) int { return cmp.Compare(x.N, y.N) })
	}
	return unread
}

func parseAttempt(name string) (id string, n int, committed, ok bool) {
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

// Of lists the attempts of one piece of work, oldest first.
func (a *Attempts) Of(id string) []protocol.Attempt { return slices.Clone(a.entries[id]) }

// attempt is one file.
type attempt struct {
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

// Enter records the attempt that c takes back (c.Attempt is its number), before the work is moved. A record that exists
// already stays: a crash came between.
func (a *Attempts) Enter(root *jsonfile.Root, c protocol.Change, now time.Time) error {
	if c.Attempt < 1 || !jsonfile.PlainName(c.Subject.ID) {
		return fmt.Errorf("enter attempt %d of %q: no file can have such a name", c.Attempt, c.Subject.ID)
	}
	if err := root.Mkdir(a.dir, 0o755); err != nil {
		return err
	}
	doc, err := jsonfile.Encode(attempt{Version: attemptVersion, ID: c.Subject.ID, N: c.Attempt, Action: cmp.Or(c.Action, protocol.ActionRetry), Rule: c.Rule,
		Code: c.Code, Agent: c.Agent, TakenAt: now.UTC(), Twice: c.Twice, Why: c.Why})
	if err != nil {
		return err
	}
	if _, err := root.Stat(a.name(c, taken)); err == nil {
		return fmt.Errorf("attempt %d of %s is taken back already: %w", c.Attempt, c.Subject.ID, protocol.ErrConflict)
	}
	if err := root.Create(a.name(c, scheduled), doc, 0o644); err != nil && !errors.Is(err, jsonfile.ErrExist) {
		return err
	}
	return nil
}

// Commit records that the work of the attempt was moved. A second Commit is no error.
func (a *Attempts) Commit(root *jsonfile.Root, c protocol.Change) error {
	err := root.Rename(a.name(c, scheduled), a.name(c, taken))
	if errors.Is(err, jsonfile.ErrNotExist) || errors.Is(err, jsonfile.ErrExist) {
		if _, statErr := root.Stat(a.name(c, taken)); statErr == nil {
			return nil
		}
	}
	return err
}

func (a *Attempts) name(c protocol.Change, kind string) string {
	return a.dir + "/" + c.Subject.ID + "." + strconv.Itoa(c.Attempt) + kind
}
