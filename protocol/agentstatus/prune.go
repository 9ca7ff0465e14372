package agentstatus

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/livhana/steward/protocol/folder"
)

// The limits of pruning. A record is removed only if its task had no file in each of the last goneLooks rounds, and
// if nothing was written to the record for pruneAfter: a client that reuses the id within that time finds its
// attempts counted.
const (
	pruneAfter  = 30 * 24 * time.Hour
	goneLooks   = 6
	prunedAtOne = 2000 // tasks that one round checks
)

// pruning is the state between rounds.
type pruning struct {
	gone map[string]int // consecutive rounds in which the task had no file
	last string         // where the last round stopped
}

// recorded is a file of a task's record, parsed from its name.
type recorded struct {
	file string
	n    int // attempt number; 0: the file belongs to the task as a whole
}

// prune removes the records of tasks that are long gone. Folder calls it under the guard lock, once an hour.
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

// recordsOf groups the names by task. An id may itself end in a number: such a name counts for the shorter id, so
// that the record stays while either task exists.
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

// anyFile reports whether a task of that record has a file of its own. A file that cannot be checked counts as
// present.
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

// untouched reports whether nothing was written to the record for pruneAfter.
func (p *Project) untouched(record []recorded) bool {
	for _, a := range record {
		st, err := p.Root.Stat(a.file)
		if err != nil || p.Now.Sub(appeared(st)) < pruneAfter {
			return false
		}
	}
	return true
}

// removeRecord removes the last attempt first: a crash leaves a shorter record without gaps.
func (p *Project) removeRecord(record []recorded) {
	slices.SortFunc(record, func(a, b recorded) int { return cmp.Compare(b.n, a.n) })
	for _, a := range record {
		if p.Root.Remove(a.file) != nil {
			return
		}
	}
}
