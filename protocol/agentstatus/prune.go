package agentstatus

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/livhana/steward/protocol/folder"
)

// The bounds of pruning. A record goes only when its task has no file left at any of the last goneLooks rounds, and when
// nothing was written to the record for pruneAfter: a client that uses the id again within that time finds its attempts
// counted.
const (
	pruneAfter  = 30 * 24 * time.Hour
	goneLooks   = 6
	prunedAtOne = 2000 // tasks of one round whose files are looked for
)

// pruning is what the rounds have seen.
type pruning struct {
	gone map[string]int // rounds in a row in which the task had no file
	last string         // where the last round stopped
}

// recorded is a file of a task's record, as its name states it.
type recorded struct {
	file string
	n    int // 0: of the task as a whole
}

// prune removes the records of tasks that are gone for long. Folder calls it under the guard, once an hour.
func (p *Project) prune() {
	names, _, err := p.Root.List(attemptsDir)
	if err != nil {
		return
	}
	records := recordsOf(names)
	ids, seen, left := sortedKeys(records), map[string]int{}, prunedAtOne
	from, _ := slices.BinarySearch(ids, p.pruning.last)
	p.pruning.last = ""
	for i := range ids {
		id := ids[(from+i)%len(ids)]
		if p.tasks[id] != nil {
			continue
		}
		if left--; left < 0 {
			if p.pruning.last == "" {
				p.pruning.last = id
			}
			if n := p.pruning.gone[id]; n > 0 {
				seen[id] = n
			}
			continue
		}
		if p.anyFile(id, records[id]) {
			continue
		}
		seen[id] = p.pruning.gone[id] + 1
		if seen[id] >= goneLooks && p.untouched(records[id]) {
			p.removeRecord(records[id])
			delete(seen, id)
		}
	}
	p.pruning.gone = seen
}

// recordsOf groups the names by task. An id may end in a number itself: such a name counts for the shorter id, so that
// the record stays while either task is there.
func recordsOf(names []string) map[string][]recorded {
	records := map[string][]recorded{}
	for _, name := range names {
		head, kind, ok := cutLast(strings.TrimSuffix(name, ".json"))
		if !ok || !strings.HasSuffix(name, ".json") || !slices.Contains(recordKinds, kind) {
			continue
		}
		id, n := head, 0
		if short, number, ok := cutLast(head); ok {
			if i, err := strconv.Atoi(number); err == nil && i > 0 {
				id, n = short, i
			}
		}
		records[id] = append(records[id], recorded{attemptsDir + "/" + name, n})
	}
	return records
}

var recordKinds = []string{"sched", "result", "late", "held", "progress", "claim", "letter", "cancellation", "final", "decision",
	"dead", "freed", "cancelled"}

func cutLast(name string) (head, last string, ok bool) {
	i := strings.LastIndexByte(name, '.')
	if i <= 0 {
		return "", "", false
	}
	return name[:i], name[i+1:], true
}

// anyFile reports whether a task of that record has a file of its own. What cannot be looked at counts as there.
func (p *Project) anyFile(id string, record []recorded) bool {
	ids := []string{id}
	for _, a := range record {
		if whole := id + "." + strconv.Itoa(a.n); a.n > 0 && !slices.Contains(ids, whole) {
			ids = append(ids, whole)
		}
	}
	for _, id := range ids {
		files := newEntry(id).files
		for _, file := range files.all() {
			if _, err := p.Root.Stat(file); !folder.Missing(err) {
				return true
			}
		}
	}
	return false
}

// untouched reports whether nothing was written to the record for long.
func (p *Project) untouched(record []recorded) bool {
	for _, a := range record {
		st, err := p.Root.Stat(a.file)
		if err != nil || p.Now.Sub(appeared(st)) < pruneAfter {
			return false
		}
	}
	return true
}

// removeRecord removes the last attempt first: what a crash leaves is a shorter record without gaps.
func (p *Project) removeRecord(record []recorded) {
	slices.SortFunc(record, func(a, b recorded) int { return cmp.Compare(b.n, a.n) })
	for _, a := range record {
		if p.Root.Remove(a.file) != nil {
			return
		}
	}
}
