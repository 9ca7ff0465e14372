package ralph

import (
	"bytes"
	"fmt"
	"time"

	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// marksFile is steward's own record of the tasks that it marked as failed, one task per line. The kanban has no field for
// the time and the reason of a mark.
const marksFile = own + "/marks.jsonl"

const maxMarks = 256 << 10 // bytes of the record that are kept and read

// markLine is one line of the record. Sum is the checksum of the task's text as marked: if the text has changed since, the
// failure is no longer steward's.
type markLine struct {
	Task string `json:"task"`
	Sum  string `json:"sum"`
	At   string `json:"at"`
	Why  string `json:"why"`
}

// marking is the recorded mark of one task.
type marking struct {
	sum, why string
	at       time.Time
}

// failures holds the newest marking of each task.
type failures struct {
	tail folder.Tail
	of   map[string]marking
}

func newMarks() failures {
	return failures{tail: folder.Tail{File: marksFile, Max: maxMarks, Last: maxMarks}, of: map[string]marking{}}
}

// readMarks reads the lines appended to the record. It costs one stat if there are none.
func (p *Project) readMarks() {
	m := &p.marked
	_ = m.tail.Read(p.Folder, func() { m.of = map[string]marking{} }, func(line []byte, _ int64) {
		if id, k := decodeMark(bytes.TrimSpace(line)); id != "" {
			m.of[id] = k
			p.board.fresh = true
		}
	})
}

// decodeMark reads one line; an invalid line yields an empty id.
func decodeMark(line []byte) (id string, k marking) {
	if len(line) == 0 || len(line) > maxSmall {
		return "", marking{}
	}
	o, err := jsonfile.Parse(line)
	if err != nil {
		return "", marking{}
	}
	id, _ = o.String("task")
	at, ok := o.Time("at")
	if !isTaskID(id) || !ok.OK() {
		return "", marking{}
	}
	k.at = at
	k.sum, _ = o.String("sum")
	k.why, _ = o.String("why")
	k.why = folder.Line(k.why, 300)
	return id, k
}

// markOf returns the recorded mark of a task, if the task's text in the kanban still matches it.
func (p *Project) markOf(it *item) (marking, bool) {
	k, ok := p.marked.of[it.id]
	return k, ok && it.marker == failed && k.sum == it.sum
}

// record writes down that a task is about to be marked, and why. It runs before the mark is made: a crash in between
// leaves a line that matches no task, or that matches once the mark is made after all.
func (p *Project) record(kanban []byte, id, why string) error {
	p.readMarks()
	why = folder.Line(why, 300)
	for _, it := range parseKanban(kanban) {
		if it.id != id {
			continue
		}
		if m := p.marked.of[id]; m.sum == it.sum && m.why == why && p.Now.Sub(m.at).Abs() < time.Minute {
			return nil // recorded before a crash that prevented the mark
		}
		if err := p.trimMarks(); err != nil {
			return err
		}
		line, err := jsonfile.EncodeLine(markLine{Task: id, Sum: it.sum, At: p.Now.UTC().Format(time.RFC3339Nano), Why: why})
		if err != nil {
			return err
		}
		if err := p.Root.Append(marksFile, line); err != nil {
			return fmt.Errorf("record the mark: %w", err)
		}
	}
	return nil
}

// trimMarks keeps the newer half of a record that has grown too long.
func (p *Project) trimMarks() error {
	st, err := p.Root.Stat(marksFile)
	if folder.Missing(err) || err == nil && st.Size <= maxMarks {
		return nil
	}
	if err != nil {
		return err
	}
	data, _, err := p.Root.ReadAt(marksFile, st.Size-maxMarks/2, maxMarks)
	if err != nil {
		return err
	}
	_, data, _ = bytes.Cut(data, []byte("\n"))
	late, err := p.Root.Replace(marksFile, data, jsonfile.Any)
	_ = late.Close()
	return err
}
