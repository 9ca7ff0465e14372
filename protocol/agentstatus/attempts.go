package agentstatus

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// nextFree returns the first unused name for a file of that kind.
func (a *attempts) nextFree(id, kind string) (string, error) {
	if n := a.count(id, kind) + 1; n <= maxAttempts {
		return attemptFile(id, n, kind), nil
	}
	return "", fmt.Errorf("file the %s of task %s: over %d are on record", kind, id, maxAttempts)
}

// count returns how many files of that kind are on record.
func (a *attempts) count(id, kind string) (n int) {
	for n < maxAttempts && a.Has(attemptFile(id, n+1, kind)) {
		n++
	}
	return n
}

// create puts a new file of that kind on record.
func (a *attempts) create(id, kind string, doc []byte, mode fs.FileMode) (file string, err error) {
	if file, err = a.nextFree(id, kind); err != nil {
		return "", err
	}
	return file, a.Root.Create(file, doc, mode)
}

// archive moves a file into the record, if its content has that sum.
func (a *attempts) archive(id, kind, file string, expect jsonfile.Sum) error {
	to, err := a.nextFree(id, kind)
	if err != nil {
		return err
	}
	return a.Root.RenameIf(file, to, expect)
}

// onRecord reports whether a file of that kind matches.
func (a *attempts) onRecord(id, kind string, match func(jsonfile.Blob) bool) bool {
	for n := range a.count(id, kind) {
		if blob, err := a.Root.Read(attemptFile(id, n+1, kind), maxFile); err == nil && match(blob) {
			return true
		}
	}
	return false
}

func withSum(sum jsonfile.Sum) func(jsonfile.Blob) bool {
	return func(b jsonfile.Blob) bool { return b.Sum == sum }
}

func cutLast(name string) (head, last string, ok bool) {
	i := strings.LastIndexByte(name, '.')
	if i <= 0 {
		return "", "", false
	}
	return name[:i], name[i+1:], true
}

// The limits of pruning. A record is removed only if its task had no file in each of the last goneRounds rounds, and
// if nothing was written to the record for pruneAfter: a client that reuses the id within that time finds its
// attempts counted. See docs/decisions.md, "A task's record of attempts goes 30 days after its last change".
const (
	pruneAfter = 30 * 24 * time.Hour
	goneRounds = 6
)

// recorded is a file of a task's record, parsed from its name.
type recorded struct {
	file, kind string
	n          int // attempt number; 0: the file belongs to the task as a whole
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
		records[id] = append(records[id], recorded{attemptsDir + "/" + name, kind, n})
	}
	return records
}

// openSchedules lists the tasks whose newest schedule is not carried out, from the file names alone.
func (a *attempts) openSchedules() map[string]bool {
	names, _, err := a.Root.List(attemptsDir)
	if err != nil {
		return nil
	}
	open := map[string]bool{}
	for id, record := range recordsOf(names) {
		n := 0
		for _, r := range record {
			switch r.kind {
			case "sched":
				n++
			case "result":
				n--
			}
		}
		open[id] = n > 0
	}
	return open
}

// prune removes the records of tasks that are long gone. Folder calls it under the guard lock, once an hour.
func (a *attempts) prune() {
	names, _, err := a.Root.List(attemptsDir)
	if err != nil {
		return
	}
	live, ok := a.live()
	if !ok {
		return
	}
	gone := map[string]int{}
	for id, record := range recordsOf(names) {
		if live[id] || slices.ContainsFunc(record, func(r recorded) bool { return r.n > 0 && live[id+"."+strconv.Itoa(r.n)] }) {
			continue
		}
		gone[id] = a.gone[id] + 1
		if gone[id] >= goneRounds && a.untouched(record) {
			a.removeRecord(record)
			delete(gone, id)
		}
	}
	a.gone = gone
}

// live lists the tasks that have a file or a claim; ok is false if that is unknown.
func (a *attempts) live() (live map[string]bool, ok bool) {
	live = map[string]bool{}
	for _, dir := range []string{tasksDir, archiveDir, claimsDir} {
		_, err := a.Root.Each(dir, func(name []byte) {
			if id, _, ok := parseTaskFile(name); ok {
				live[string(id)] = true
			} else if id, ok := strings.CutSuffix(string(name), ".json"); ok && dir == claimsDir {
				live[id] = true
			}
		})
		if err != nil && !folder.Missing(err) {
			return nil, false
		}
	}
	return live, true
}

// untouched reports whether nothing was written to the record for pruneAfter.
func (a *attempts) untouched(record []recorded) bool {
	return !slices.ContainsFunc(record, func(r recorded) bool {
		st, err := a.Root.Stat(r.file)
		return err != nil || a.Now.Sub(appeared(st)) < pruneAfter
	})
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
