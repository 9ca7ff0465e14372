package ralph

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

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
	id        string
	marker    byte
	title     string
	priority  protocol.Priority
	word      string // the text of a priority that the document does not define
	related   []string
	sum       string // checksum of the task's line and its fields
	line      int    // from 1
	offset    int    // of the marker byte in the text
	end       int    // of the task's last line in the text
	duplicate bool   // another line carries the same id
}

// itemLine matches what Chief Wiggum's own parser accepts as a task, but with any marker.
var itemLine = folder.Pattern(`^- \[([^\]])\] \*\*\[([A-Za-z]{2,10}-[0-9]{1,4})\]\*\*(.*)$`)

var itemHead = []byte("- [")

var taskID = folder.Pattern(`[A-Za-z]{2,10}-[0-9]{1,4}`)

// isTaskID reports whether s is a task id in the kanban's form, which is also part of worker folders' names.
func isTaskID(s string) bool { return taskID().FindString(s) == s && s != "" }

// parseKanban reads the tasks of a kanban in the order of the text. It accepts any text and skips what is not a task.
func parseKanban(text []byte) []item {
	var items []item
	first := map[string]int{}
	offset, number := 0, 0
	begin := -1 // where the block of the last item begins
	end := 0
	finish := func() {
		if begin >= 0 {
			it := &items[len(items)-1]
			it.end = end
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
			finish()
			if len(items) == maxItems {
				return items
			}
			it := item{id: string(m[2]), marker: m[1][0], title: folder.Line(strings.TrimSpace(string(m[3])), 200), line: number,
				offset: offset + len("- ["), priority: protocol.PriorityMedium}
			if len(m[1]) > 1 {
				it.marker = '?' // more than one byte: not a marker of the document
			}
			if i, ok := first[it.id]; ok {
				it.duplicate, items[i].duplicate = true, true
			} else {
				first[it.id] = len(items)
			}
			items = append(items, it)
			begin, end = offset, offset+len(line)
		case begin >= 0 && !blank && bare[0] != ' ' && bare[0] != '\t':
			finish() // a heading, or text that belongs to no task
		case begin >= 0 && !blank:
			end = offset + len(line)
		}
		offset += len(line)
	}
	finish()
	return items
}

// readFields reads "  - Key: value" or "  Key: value", indented by exactly two spaces.
func readFields(it *item, block []byte) {
	for line := range strings.Lines(string(block)) {
		line, indented := strings.CutPrefix(line, "  ")
		key, value, found := strings.Cut(strings.TrimPrefix(line, "- "), ":")
		if !indented || !found {
			continue
		}
		value = strings.TrimSpace(value)
		switch strings.ToLower(strings.TrimRight(key, " ")) {
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

func isMarker(m byte) bool { return m == todo || m == working || m == approval || hasEnded(m) }

func hasEnded(m byte) bool { return m == complete || m == failed || m == dropped }

// setMarker returns the kanban with one task's marker changed and every other byte unchanged. It returns nil if the marker
// is already set.
func setMarker(text []byte, id, sum string, from string, to byte) ([]byte, error) {
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
		return nil, folder.Moved("%s is not planned ([N]); to have it done, write [ ] into its line of the kanban", id)
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
		case it.duplicate:
			return nil, fmt.Errorf("two lines of the kanban carry the id %s: %w", id, errAmbiguous)
		default:
			return &it, nil
		}
	}
	return nil, folder.Moved("the kanban does not show %s any more", id)
}

// textOf returns the lines of one task in a kanban; "" if it has none.
func textOf(text []byte, id string) string {
	it, err := itemOf(text, id)
	if err != nil {
		return ""
	}
	return string(bytes.ToValidUTF8(text[it.offset-len("- ["):it.end], []byte("�")))
}

var errAmbiguous = errors.New("it is not clear which is meant")

// kanbanFindings lists the irregularities of the kanban's lines, up to a limit.
func kanbanFindings(items []item) []protocol.Finding {
	known := make(map[string]bool, len(items))
	for i := range items {
		known[items[i].id] = true
	}
	var list []protocol.Finding
	add := func(it *item, code, field, format string, args ...any) {
		list = append(list, protocol.Finding{Subject: task(it.id), Code: code, Field: field, Severity: protocol.Low, Text: fmt.Sprintf(format, args...)})
	}
	told := map[string]bool{}
	for i := range items {
		it := &items[i]
		if len(list) >= 100 {
			break
		}
		if it.duplicate && !told[it.id] {
			told[it.id] = true
			add(it, "schema", "id", "line %d: the id stands on more than one line", it.line)
		}
		if !isMarker(it.marker) {
			add(it, "schema", "marker", "line %d: the marker is not one of [ ] [=] [P] [x] [*] [N]", it.line)
		}
		if it.word != "" {
			add(it, "schema", "Priority", "line %d: the priority %q is not one of CRITICAL, HIGH, MEDIUM, LOW", it.line, it.word)
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
