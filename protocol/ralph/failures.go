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
	jsonfile.Reading[map[string]failure]
}

// read reads the record if it has changed, and reports that.
func (l *failures) read(f *folder.Folder) bool {
	return jsonfile.LoadText(f.Root, &f.Patience, &l.Reading, failuresFile, 2*maxFailures, func(text []byte) (map[string]failure, error) {
		of := map[string]failure{}
		for line := range bytes.Lines(text) {
			if id, k := decodeFailure(line); id != "" {
				of[id] = k
			}
		}
		return of, nil
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
	k, ok := l.Value[it.id]
	return k, ok && it.marker == failed && k.sum == it.sum
}

// record writes down that a task is about to be marked, and why. It runs before the mark is made: a crash in between
// leaves a line that matches no task, or that matches once the mark is made after all. The older half of a record that has
// grown too long is dropped.
func (l *failures) record(f *folder.Folder, kanban []byte, id, why string) error {
	l.read(f)
	it, err := itemOf(kanban, id)
	if err != nil {
		return err
	}
	why = folder.Line(why, 300)
	if k := l.Value[id]; k.sum == it.sum && k.why == why && f.Now.Sub(k.at).Abs() < time.Minute {
		return nil // recorded before a crash that prevented the mark
	}
	line, err := jsonfile.EncodeLine(failureLine{Task: id, Sum: it.sum, At: f.Now.UTC().Format(time.RFC3339Nano), Why: why})
	if err != nil {
		return err
	}
	err = folder.Files{Folder: f}.Update(failuresFile, 2*maxFailures, func(old []byte) ([]byte, error) {
		if len(old) > maxFailures {
			_, old, _ = bytes.Cut(old[len(old)-maxFailures/2:], []byte("\n"))
		}
		if n := len(old); n > 0 && old[n-1] != '\n' {
			old = append(old, '\n') // a torn line
		}
		return append(append(old, line...), '\n'), nil
	})
	if err != nil {
		return fmt.Errorf("record the mark: %w", err)
	}
	return nil
}
