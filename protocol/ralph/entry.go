package ralph

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
)

// Limits on a new task of the kanban.
const (
	maxTitle    = 200 // characters: a longer title is cut when the kanban is read
	maxField    = 16 << 10
	maxPoints   = 100 // of one list
	plainPrefix = "TASK"
	syncPrefix  = "GH" // the program gives these ids to issues of GitHub, so a new one may collide with an issue
)

// Keys of the fields that each new task has. `wiggum validate` requires the first two.
const (
	keyText     = "Description"
	keyPriority = "Priority"
	keyAfter    = "Dependencies"
)

var fieldKey = folder.Pattern(`^[A-Za-z][A-Za-z0-9 _-]{0,39}$`)

// taskEntry is a new task of the kanban: its line, and below it its fields, each a text or a list of points.
type taskEntry struct {
	id, title string
	keys      []string
	fields    map[string][]string
	lists     map[string]bool
	problems  []string
}

// entryOf checks an order and makes the kanban's entry of it, without an id and without its dependencies.
func entryOf(o protocol.Order) *taskEntry {
	e := &taskEntry{fields: map[string][]string{}, lists: map[string]bool{}}
	for _, refused := range []struct {
		given bool
		what  string
	}{
		{o.From != "", "the kanban has no field for the author of a task"},
		{o.To != "" && o.To != orchestratorName, "the kanban names no agent: Chief Wiggum gives each task to a worker of its own"},
		{o.Type != "", "a task of the kanban has no type"},
		{len(o.Document) > 0, "a task of the kanban is text, not a JSON document: give its title, its text and its fields"},
	} {
		if refused.given {
			e.problems = append(e.problems, refused.what)
		}
	}
	e.title = e.line("title", o.Title)
	e.set(keyText, cmp.Or(strings.TrimSpace(o.Text), o.Title))
	e.set(keyPriority, strings.ToUpper(cmp.Or(o.Priority, protocol.PriorityMedium.String())))
	e.set(keyAfter, cmp.Or(strings.Join(o.After, ", "), "none"))
	for _, key := range slices.Sorted(maps.Keys(o.Fields)) {
		e.set(key, o.Fields[key])
	}
	if len(e.problems) == 0 {
		e.checkKnown()
	}
	return e
}

// checkKnown checks the fields whose values the document defines.
func (e *taskEntry) checkKnown() {
	if words := e.fields[keyPriority]; e.lists[keyPriority] || !slices.Contains([]string{"CRITICAL", "HIGH", "MEDIUM", "LOW"}, words[0]) {
		e.problems = append(e.problems, fmt.Sprintf("the priority %q is not one of CRITICAL, HIGH, MEDIUM, LOW", strings.Join(words, ", ")))
	}
	if e.lists[keyAfter] {
		e.fields[keyAfter], e.lists[keyAfter] = []string{strings.Join(e.fields[keyAfter], ", ")}, false
	}
	for _, word := range e.after() {
		if !isTaskID(word) {
			e.problems = append(e.problems, fmt.Sprintf("the dependency %q is not a task id", folder.Line(word, 80)))
		}
	}
}

// after lists the ids that the new task depends on.
func (e *taskEntry) after() []string {
	var ids []string
	for word := range strings.SplitSeq(e.fields[keyAfter][0], ",") {
		if word = strings.TrimSpace(word); word != "" && !strings.EqualFold(word, "none") {
			ids = append(ids, word)
		}
	}
	return ids
}

// set sets one field; a list becomes one point per line below it.
func (e *taskEntry) set(key string, value any) {
	if known := slices.IndexFunc(e.keys, func(k string) bool { return strings.EqualFold(k, key) }); known >= 0 {
		key = e.keys[known]
	} else if e.keys = append(e.keys, key); !fieldKey().MatchString(key) {
		e.problems = append(e.problems, fmt.Sprintf("%q cannot be a field of the kanban: a key has letters, digits and spaces, 40 at most", folder.Line(key, 80)))
	}
	var words []string
	e.lists[key] = false
	switch v := value.(type) {
	case []any:
		e.lists[key] = true
		for _, point := range v[:min(len(v), maxPoints+1)] {
			words = append(words, e.plain(key, point))
		}
	default:
		words = []string{e.plain(key, v)}
	}
	if len(words) == 0 || len(words) > maxPoints {
		e.problems = append(e.problems, fmt.Sprintf("%s has %d points; 1 to %d are possible", folder.Line(key, 40), len(words), maxPoints))
		words = []string{""}
	}
	e.fields[key] = words
}

// plain turns a value into one line.
func (e *taskEntry) plain(key string, value any) string {
	switch v := value.(type) {
	case string:
		return e.line(key, v)
	case bool, int, int64, float64:
		return fmt.Sprint(v)
	}
	e.problems = append(e.problems, fmt.Sprintf("%s is neither text nor a list of texts", folder.Line(key, 40)))
	return ""
}

// line makes one line of a text, as the program does: the kanban has no field of several lines. A line that reads like a
// task is refused, because the program changes markers wherever such text stands.
func (e *taskEntry) line(key, text string) string {
	line := strings.Join(strings.Fields(text), " ")
	problem, key := "", folder.Line(key, 40)
	switch {
	case line == "":
		problem = "is empty"
	case !utf8.ValidString(line) || strings.ContainsFunc(line, unicode.IsControl):
		problem = "has characters that are not text"
	case key == "title" && utf8.RuneCountInString(line) > maxTitle:
		problem = fmt.Sprintf("has more than %d characters", maxTitle)
	case len(line) > maxField:
		problem = fmt.Sprintf("has more than %d bytes", maxField)
	case taskLike().MatchString(line):
		problem = "contains a task line of the kanban, whose marker Chief Wiggum would change"
	}
	if problem != "" {
		e.problems = append(e.problems, fmt.Sprintf("%s %s", key, problem))
	}
	return line
}

var taskLike = folder.Pattern(`\[[^\]]*\] \*\*\[|\*\*\[[A-Za-z]{2,10}-[0-9]{1,4}\]\*\*`)

// text is the entry as it stands in the kanban.
func (e *taskEntry) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "- [ ] **[%s]** %s\n", e.id, e.title)
	for _, key := range e.keys {
		if !e.lists[key] {
			fmt.Fprintf(&b, "  - %s: %s\n", key, e.fields[key][0])
			continue
		}
		fmt.Fprintf(&b, "  - %s:\n", key)
		for _, point := range e.fields[key] {
			fmt.Fprintf(&b, "    - %s\n", point)
		}
	}
	return b.String()
}

// addTo returns the kanban with the entry at its end, where the program itself adds tasks. All other bytes stay.
func (e *taskEntry) addTo(kanban []byte) ([]byte, error) {
	before := len(parseKanban(kanban))
	text := bytes.Clone(kanban)
	if len(text) > 0 && text[len(text)-1] != '\n' {
		text = append(text, '\n')
	}
	text = append(append(text, '\n'), e.text()...)
	items := parseKanban(text)
	if n := len(items); len(text) > maxKanban || n != before+1 || items[n-1].id != e.id || items[n-1].title != e.title || items[n-1].duplicate {
		return nil, fmt.Errorf("the kanban cannot take one more task: %d tasks, %d bytes", before, len(kanban))
	}
	return text, nil
}

var anyTaskID = folder.Pattern(`\b([A-Za-z]{2,10})-([0-9]{1,4})\b`)

// nextID returns an id that neither the kanban's text nor a worker's folder uses. Its prefix is the most frequent one of
// the kanban's tasks. A finished task may be named in a comment only, so the whole text counts.
func nextID(kanban []byte, folders []string) (string, error) {
	prefix, count := plainPrefix, map[string]int{}
	for _, it := range parseKanban(kanban) {
		p, _, _ := strings.Cut(it.id, "-")
		if count[p]++; p != syncPrefix && (count[p] > count[prefix] || count[p] == count[prefix] && p == plainPrefix) {
			prefix = p
		}
	}
	highest, width := 0, 3
	for _, m := range anyTaskID().FindAllStringSubmatch(string(kanban)+"\n"+strings.Join(folders, "\n"), -1) {
		if n, err := strconv.Atoi(m[2]); err == nil && m[1] == prefix && n >= highest {
			highest, width = n, max(3, len(m[2]))
		}
	}
	if highest == 9999 {
		return "", fmt.Errorf("all ids with the prefix %s are in use; give an id with another prefix", prefix)
	}
	return fmt.Sprintf("%s-%0*d", prefix, width, highest+1), nil
}

// isUsed reports whether the kanban or a worker's folder uses an id.
func isUsed(kanban []byte, folders []string, id string) bool {
	return slices.ContainsFunc(parseKanban(kanban), func(it item) bool { return it.id == id }) || isArchived(kanban, id) ||
		slices.ContainsFunc(folders, func(name string) bool { of, _, _, err := workerName(name); return err == nil && of == id })
}

// isArchived reports whether a task was completed and moved to the kanban's comment of finished tasks
// (`wiggum validate cleanup`).
func isArchived(kanban []byte, id string) bool {
	for line := range bytes.Lines(kanban) {
		if rest, ok := bytes.CutPrefix(line, []byte("<!-- done:")); ok && slices.Contains(anyTaskID().FindAllString(string(rest), -1), id) {
			return true
		}
	}
	return false
}
