package agentstatus

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/livhana/steward/protocol/folder"
)

// The limits of pruning. A record is removed only if its task had no file in each of the last goneRounds rounds, and
// if nothing was written to the record for pruneAfter: a client that reuses the id within that time finds its
// attempts counted.
const (
	pruneAfter  = 30 * 24 * time.Hour
	goneRounds  = 6
	prunedAtOne = 2000 // tasks that one round checks
)

// recorded is a file of a task's record, parsed from its name.
type recorded struct {
	file string
	n    int // attempt number; 0: the file belongs to the task as a whole
}

// prune removes the records of tasks that are long gone. Folder calls it under the guard lock, once an hour.
func (a *attempts) prune(open func(id string) bool) {
	names, _, err := a.Root.List(attemptsDir)
	if err != nil {
		return
	}
	records := recordsOf(names)
	ids, gone, left := sortedKeys(records), map[string]int{}, prunedAtOne
	from, _ := slices.BinarySearch(ids, a.pruned)
	a.pruned = ""
	for i := range ids {
		id := ids[(from+i)%len(ids)]
		if open(id) {
			continue
		}
		if left--; left < 0 {
			a.pruned = cmp.Or(a.pruned, id)
			if n := a.gone[id]; n > 0 {
				gone[id] = n
			}
			continue
		}
		if a.anyFile(id, records[id]) {
			continue
		}
		gone[id] = a.gone[id] + 1
		if gone[id] >= goneRounds && a.untouched(records[id]) {
			a.removeRecord(records[id])
			delete(gone, id)
		}
	}
	a.gone = gone
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

// anyFile reports whether a task of that record has a file of its own. A file that cannot be checked counts as
// present.
func (a *attempts) anyFile(id string, record []recorded) bool {
	ids := []string{id}
	for _, r := range record {
		if whole := id + "." + strconv.Itoa(r.n); r.n > 0 && !slices.Contains(ids, whole) {
			ids = append(ids, whole)
		}
	}
	for _, id := range ids {
		for _, file := range newEntry(id).paths() {
			if _, err := a.Root.Stat(file); !folder.Missing(err) {
				return true
			}
		}
	}
	return false
}

// untouched reports whether nothing was written to the record for pruneAfter.
func (a *attempts) untouched(record []recorded) bool {
	for _, r := range record {
		st, err := a.Root.Stat(r.file)
		if err != nil || a.Now.Sub(appeared(st)) < pruneAfter {
			return false
		}
	}
	return true
}

// removeRecord removes the last attempt first: a crash leaves a shorter record without gaps.
func (a *attempts) removeRecord(record []recorded) {
	slices.SortFunc(record, func(x, y recorded) int { return cmp.Compare(y.n, x.n) })
	for _, r := range record {
		if a.Root.Remove(r.file) != nil {
			return
		}
	}
}
