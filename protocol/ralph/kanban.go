package ralph

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// The markers of a task (protocol 002, Status Updates).
const (
	todo     = ' '
	working  = '='
	approval = 'P'
	complete = 'x'
	failed   = '*'
	dropped  = 'N'
)

// maxItems limits the tasks read of one kanban.
const maxItems = 20000

// item is one task of the kanban.
type item struct {
	id       string
	marker   byte
	title    string
	priority protocol.Priority
	word     string // the text of a priority that the document does not define
	related  []string
	sum      string // checksum of the task's line and its fields
	line     int    // from 1
	offset   int    // of the marker byte in the text
	twice    bool   // another line carries the same id
}

// itemLine matches what Chief Wiggum's own parser accepts as a task, but with any marker.
var itemLine = lazily(`^- \[([^\]])\] \*\*\[([A-Za-z]{2,10}-[0-9]{1,4})\]\*\*(.*)$`)

var itemHead = []byte("- [")

var taskID = lazily(`[A-Za-z]{2,10}-[0-9]{1,4}`)

// isTaskID reports whether s is a task id in the kanban's form, which is also part of worker folders' names.
func isTaskID(s string) bool { return taskID().FindString(s) == s && s != "" }

// parseKanban reads the tasks of a kanban in the order of the text. It accepts any text and skips what is not a task.
func parseKanban(text []byte) []item {
	var items []item
	first := map[string]int{}
	offset, number := 0, 0
	begin := -1 // where the block of the last item begins
	end := 0
	shut := func() {
		if begin >= 0 {
			it := &items[len(items)-1]
			it.sum = string(jsonfile.SumOf(bytes.TrimRight(text[begin:end], "\r\n")))
			readFields(it, text[begin:end])
		}
		begin = -1
	}
	for line := range bytes.Lines(text) {
		number++
		bare := bytes.TrimRight(line, "\r\n")
		var m [][]byte
		if bytes.HasPrefix(bare, itemHead) {
			m = itemLine().FindSubmatch(bare)
		}
		blank := len(bytes.TrimSpace(bare)) == 0
		switch {
		case m != nil:
			shut()
			if len(items) == maxItems {
				return items
			}
			it := item{id: string(m[2]), marker: m[1][0], title: folder.Line(strings.TrimSpace(string(m[3])), 200), line: number,
				offset: offset + len("- ["), priority: protocol.PriorityMedium}
			if len(m[1]) > 1 {
				it.marker = '?' // more than one byte: not a marker of the document
			}
			if i, ok := first[it.id]; ok {
				it.twice, items[i].twice = true, true
			} else {
				first[it.id] = len(items)
			}
			items = append(items, it)
			begin, end = offset, offset+len(line)
		case begin >= 0 && !blank && bare[0] != ' ' && bare[0] != '\t':
			shut() // a heading, or text that belongs to no task
		case begin >= 0 && !blank:
			end = offset + len(line)
		}
		offset += len(line)
	}
	shut()
	return items
}

// fieldLine is "  - Key: value" or "  Key: value", indented by exactly two spaces.
var fieldLine = lazily(`^  (?:- )?([A-Za-z][A-Za-z ]*):\s*(.*)$`)

func readFields(it *item, block []byte) {
	for line := range bytes.Lines(block) {
		if !bytes.Contains(line, []byte("riorit")) && !bytes.Contains(line, []byte("ependenc")) &&
			!bytes.Contains(line, []byte("RIORIT")) && !bytes.Contains(line, []byte("EPENDENC")) {
			continue // most lines are descriptions
		}
		m := fieldLine().FindSubmatch(bytes.TrimRight(line, "\r\n \t"))
		if m == nil {
			continue
		}
		value := string(m[2])
		switch strings.ToLower(strings.TrimSpace(string(m[1]))) {
		case "priority":
			known := false
			if it.priority, known = protocol.ParsePriority(value); !known {
				it.word = folder.Line(value, 40)
			}
		case "dependencies":
			it.related = taskID().FindAllString(value, 100)
		}
	}
}

func isMarker(m byte) bool {
	switch m {
	case todo, working, approval, complete, failed, dropped:
		return true
	}
	return false
}

// board is the last good reading of the kanban, with the changes observed in it.
type board struct {
	file  jsonfile.Reading[[]item]
	doubt jsonfile.Sum // checksum of a text from which tasks were missing
	from  time.Time    // since when that text has been there
	state []state      // of each item
	where map[string]int
	fresh bool // some end times are not set yet
	open  []int
	over  []int // ended tasks: there may be thousands, so results about them are cached
	news  []int // tasks of over that ended after newsFrom
	calls []int // failed tasks of over, which wait for the user; a bounded number
	known bool  // news is valid for newsFrom
	odd   []protocol.Finding
	gone  time.Time // since when the kanban is missing; zero: it exists

	newsFrom time.Time
}

// state describes how long a task has had its marker.
type state struct {
	since time.Time // the kanban's mtime when the marker was first seen
	ended time.Time // when the task ended; zero: long ago or unknown
	live  bool      // steward observed the change; ended is its time, whatever the new marker

	// bare is since when the task has been seen in progress without a pid file. bareOf is its worker at that time; "" if
	// it had no worker folder.
	bare   time.Time
	bareOf string
}

// readKanban brings the board up to date. If tasks are missing from the text, a writer may be at work, so the text counts
// only after it has stood for a while (protocol 002, Status Updates: only markers change, and tasks are added).
func (p *Project) readKanban() {
	b := &p.board
	was := b.file.Value
	read := jsonfile.LoadText(p.Root, &p.Patience, &b.file, kanbanFile, maxKanban, func(text []byte) ([]item, error) {
		if len(bytes.TrimSpace(text)) == 0 {
			return nil, fmt.Errorf("%w: the kanban is empty", jsonfile.ErrTorn)
		}
		items := parseKanban(text)
		if len(items) == 0 && !utf8.Valid(text) {
			return nil, fmt.Errorf("%w: the kanban is no text", jsonfile.ErrBad)
		}
		missing := missingFrom(items, was)
		if missing == "" {
			b.doubt = ""
			return items, nil
		}
		if sum := jsonfile.SumOf(text); b.doubt != sum {
			b.doubt, b.from = sum, p.Now
		}
		if p.Now.Sub(b.from) < jsonfile.BadAfter {
			return nil, fmt.Errorf("%w: the task %s is not there any more", jsonfile.ErrTorn, missing)
		}
		b.doubt = ""
		return items, nil
	})
	if read || !b.file.There && b.where != nil {
		b.note(was, p.capped(b.file.Stamp.ModTime()), p.Now)
	}
}

// missingFrom returns the id of a task that was there before and is missing now.
func missingFrom(now, before []item) string {
	if len(before) == 0 {
		return ""
	}
	there := make(map[string]bool, len(now))
	for i := range now {
		there[now[i].id] = true
	}
	for i := range before {
		if !there[before[i].id] {
			return before[i].id
		}
	}
	return ""
}

// note keeps the states of those tasks whose marker is unchanged.
func (b *board) note(was []item, stamp, now time.Time) {
	where, states := make(map[string]int, len(b.file.Value)), make([]state, len(b.file.Value))
	for i := range b.file.Value {
		it := &b.file.Value[i]
		if _, twice := where[it.id]; twice {
			continue
		}
		where[it.id] = i
		old, known := b.where[it.id]
		switch {
		case known && was[old].marker == it.marker:
			states[i] = b.state[old]
		case known || len(was) > 0 && hasEnded(it.marker): // steward saw it change, or saw it appear as ended
			states[i] = state{since: stamp, ended: now, live: true}
		default:
			states[i] = state{since: stamp}
		}
	}
	b.where, b.state = where, states
	b.open, b.over, b.calls, b.known, b.fresh = nil, nil, nil, false, true
	for i := range b.file.Value {
		it := &b.file.Value[i]
		switch {
		case where[it.id] != i:
		case hasEnded(it.marker):
			b.over = append(b.over, i)
		case isMarker(it.marker):
			b.open = append(b.open, i)
		}
	}
	b.odd = b.findings()
}

func hasEnded(marker byte) bool { return marker == complete || marker == failed || marker == dropped }

// capped returns a file's time; a time in the future counts as now.
func (p *Project) capped(t time.Time) time.Time {
	if t.After(p.Now) {
		return p.Now
	}
	return t
}

// mark returns the kanban with one task's marker changed and every other byte unchanged. It returns nil if the marker is
// already set.
func mark(text []byte, id, sum string, from string, to byte) ([]byte, error) {
	found, err := itemOf(text, id)
	if err != nil {
		return nil, err
	}
	switch {
	case found.marker == to:
		return nil, nil
	case found.sum != sum:
		return nil, folder.Moved("the line of %s is not the one that was judged", id)
	case found.marker == dropped:
		return nil, folder.Moved("%s is not planned ([N]); write [ ] into its line of the kanban to have it done after all", id)
	case !strings.ContainsRune(from, rune(found.marker)):
		return nil, folder.Moved("%s is marked [%c]", id, found.marker)
	}
	out := bytes.Clone(text)
	out[found.offset] = to
	return out, nil
}

// itemOf finds the only task of that id in a kanban.
func itemOf(text []byte, id string) (*item, error) {
	for _, it := range parseKanban(text) {
		switch {
		case it.id != id:
		case it.twice:
			return nil, fmt.Errorf("two lines of the kanban carry the id %s: %w", id, errAmbiguous)
		default:
			return &it, nil
		}
	}
	return nil, folder.Moved("the kanban does not show %s any more", id)
}

var errAmbiguous = errors.New("it is not clear which is meant")

// findings lists the irregularities of the kanban's lines, up to a limit.
func (b *board) findings() []protocol.Finding {
	known := make(map[string]bool, len(b.file.Value))
	for i := range b.file.Value {
		known[b.file.Value[i].id] = true
	}
	var list []protocol.Finding
	add := func(it *item, code, field, format string, args ...any) {
		list = append(list, protocol.Finding{Subject: task(it.id), Code: code, Field: field, Severity: protocol.Low, Text: fmt.Sprintf(format, args...)})
	}
	told := map[string]bool{}
	for i := range b.file.Value {
		it := &b.file.Value[i]
		if len(list) >= 100 {
			break
		}
		if it.twice && !told[it.id] {
			told[it.id] = true
			add(it, "schema", "id", "line %d: the id stands on more than one line", it.line)
		}
		if !isMarker(it.marker) {
			add(it, "schema", "marker", "line %d: the marker is none of [ ] [=] [P] [x] [*] [N]", it.line)
		}
		if it.word != "" {
			add(it, "schema", "Priority", "line %d: the priority %q is none of CRITICAL, HIGH, MEDIUM, LOW", it.line, it.word)
		}
		for _, dep := range it.related {
			if !known[dep] && it.marker != complete && it.marker != dropped {
				add(it, "dependency", dep, "it waits for %s, which the kanban does not show", dep)
			}
		}
	}
	return list
}

func task(id string) protocol.Subject {
	return protocol.Subject{Kind: protocol.KindTask, ID: id}
}
