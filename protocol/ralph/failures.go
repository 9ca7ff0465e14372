package ralph

import (
	"bytes"
	"fmt"
	"time"

	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// failuresFile is steward's own record of the tasks that it marked as failed, one task per line. The kanban has no field
// for the time and the reason of a mark.
const failuresFile = own + "/marks.jsonl"

const maxFailures = 256 << 10 // bytes of the record that are kept and read

// failureLine is one line of the record. Sum is the checksum of the task's text as marked: if the text has changed since,
// the failure is no longer steward's.
type failureLine struct {
	Task string `json:"task"`
	Sum  string `json:"sum"`
	At   string `json:"at"`
	Why  string `json:"why"`
}

// failure is the record of one task.
type failure struct {
	sum, why string
	at       time.Time
}

// failures holds the newest record of each task that steward marked as failed.
type failures struct {
	tail  folder.Tail
	of    map[string]failure
	fresh bool // lines were read that the board does not show yet
}

func newFailures() failures {
	return failures{tail: folder.Tail{File: failuresFile, Max: maxFailures, Last: maxFailures}, of: map[string]failure{}}
}

// read reads the lines appended to the record. It costs one stat if there are none.
func (l *failures) read(f *folder.Folder) {
	_ = l.tail.Read(f, func() { clear(l.of) }, func(line []byte, _ int64) {
		if id, k := decodeFailure(line); id != "" {
			l.of[id], l.fresh = k, true
		}
	})
}

// decodeFailure reads one line; an invalid line yields an empty id.
func decodeFailure(line []byte) (id string, k failure) {
	o := parseLine(line)
	id, _ = o.String("task")
	at, ok := o.Time("at")
	if !isTaskID(id) || !ok.OK() {
		return "", failure{}
	}
	k.at = at
	k.sum, _ = o.String("sum")
	k.why, _ = o.String("why")
	k.why = folder.Line(k.why, 300)
	return id, k
}

// find returns the record of a task, if the task's text in the kanban still matches it.
func (l *failures) find(it *item) (failure, bool) {
	k, ok := l.of[it.id]
	return k, ok && it.marker == failed && k.sum == it.sum
}

// record writes down that a task is about to be marked, and why. It runs before the mark is made: a crash in between
// leaves a line that matches no task, or that matches once the mark is made after all.
func (l *failures) record(f *folder.Folder, kanban []byte, id, why string) error {
	l.read(f)
	why = folder.Line(why, 300)
	for _, it := range parseKanban(kanban) {
		if it.id != id {
			continue
		}
		if k := l.of[id]; k.sum == it.sum && k.why == why && f.Now.Sub(k.at).Abs() < time.Minute {
			return nil // recorded before a crash that prevented the mark
		}
		if err := trimLog(f.Root, failuresFile, maxFailures); err != nil {
			return err
		}
		line, err := jsonfile.EncodeLine(failureLine{Task: id, Sum: it.sum, At: f.Now.UTC().Format(time.RFC3339Nano), Why: why})
		if err != nil {
			return err
		}
		if err := f.Root.Append(failuresFile, line); err != nil {
			return fmt.Errorf("record the mark: %w", err)
		}
	}
	return nil
}

// trimLog keeps the newer half of a log that has grown beyond most bytes.
func trimLog(root *jsonfile.Root, file string, most int64) error {
	st, err := root.Stat(file)
	if folder.Missing(err) || err == nil && st.Size <= most {
		return nil
	}
	if err != nil {
		return err
	}
	data, _, err := root.ReadAt(file, st.Size-most/2, most)
	if err != nil {
		return err
	}
	_, data, _ = bytes.Cut(data, []byte("\n"))
	late, err := root.Replace(file, data, jsonfile.Any)
	_ = late.Close()
	return err
}
