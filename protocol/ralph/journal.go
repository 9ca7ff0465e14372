package ralph

import (
	"bytes"
	"cmp"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol/jsonfile"
)

// eventLogs are the one that the program writes and the one that the document describes (protocol 002, Event Log Format).
var eventLogs = [2]string{path.Join(logsDir, "activity.jsonl"), path.Join(logsDir, "events.jsonl")}

const (
	logChunk   = 256 << 10
	logPerLook = 4 * logChunk
	maxHeard   = 512 // workers of whom the log told
)

// journal is what the event logs told of each worker.
type journal struct {
	tails [len(eventLogs)]tail
	heard map[string]*heard
}

func newJournal() journal { return journal{heard: map[string]*heard{}} }

// tail is how far a growing file was read.
type tail struct {
	begun  bool
	inode  uint64
	offset int64
	torn   bool // the offset lies inside a line: it ends at the next newline
}

// heard is what is remembered of one worker's events.
type heard struct {
	n      int
	at     time.Time
	event  string
	failed time.Time // of its newest error event
	error  string
}

// readLogs reads what was appended since the last look. A log that shrank was rotated in place.
func (p *Project) readLogs() {
	for i, file := range eventLogs {
		p.readTail(&p.log.tails[i], file)
	}
	p.log.prune(p.workers)
}

func (p *Project) readTail(t *tail, file string) {
	st, err := p.root.Stat(file)
	if isMissing(err) {
		*t = tail{}
		p.patience.Clear(file)
		return
	}
	if err != nil {
		p.patience.Unreadable(file, err)
		return
	}
	if t.begun && (st.Inode != t.inode || st.Size < t.offset) {
		*t = tail{begun: true}
	}
	if !t.begun || st.Size-t.offset > logPerLook {
		t.offset = max(0, st.Size-logChunk)
		t.torn = t.offset > 0
	}
	t.begun, t.inode = true, st.Inode
	for range logPerLook / logChunk {
		if st.Size <= t.offset {
			break
		}
		data, now, err := p.root.ReadAt(file, t.offset, logChunk)
		if err != nil {
			p.patience.Unreadable(file, err)
			return
		}
		if len(data) == 0 || now.Size < t.offset {
			break
		}
		if !p.log.take(t, data, p.now) {
			break
		}
	}
	p.patience.Clear(file)
}

// take reads the whole lines of a chunk. It reports whether there may be more behind them.
func (j *journal) take(t *tail, data []byte, now time.Time) bool {
	end := bytes.LastIndexByte(data, '\n') + 1
	if end == 0 {
		if len(data) < logChunk {
			return false // a line that is being written
		}
		t.offset, t.torn = t.offset+int64(len(data)), true // nobody writes such lines
		return true
	}
	t.offset += int64(end)
	for line := range bytes.Lines(data[:end]) {
		if t.torn {
			t.torn = false
			continue
		}
		j.hear(decodeEvent(bytes.TrimSpace(line), now))
	}
	return end == len(data)
}

// event is one line of an event log.
type event struct {
	worker, name, text string
	at                 time.Time
}

// decodeEvent reads a line in either of the two shapes; one that is none has no worker.
func decodeEvent(line []byte, now time.Time) event {
	if len(line) == 0 || len(line) > maxSmall {
		return event{}
	}
	o, err := jsonfile.Parse(line)
	if err != nil {
		return event{}
	}
	first := func(keys ...string) string {
		for _, k := range keys {
			if s, ok := o.String(k); ok.OK() {
				return s
			}
		}
		return ""
	}
	e := event{worker: first("worker_id"), name: clean(first("event", "event_type"), 80)}
	if _, _, _, err := workerName(e.worker); err != nil || len(e.worker) > 200 {
		return event{}
	}
	for _, k := range []string{"ts", "timestamp"} {
		if at, ok := o.Time(k); ok.OK() {
			e.at = at
			break
		}
	}
	if e.at.After(now) {
		e.at = now
	}
	e.text = clean(strings.TrimPrefix(strings.TrimSuffix(first("error_type")+": "+first("message"), ": "), ": "), 300)
	return e
}

func (j *journal) hear(e event) {
	if e.worker == "" {
		return
	}
	h := j.heard[e.worker]
	if h == nil {
		h = &heard{}
		j.heard[e.worker] = h
	}
	h.n++
	h.at, h.event = e.at, e.name
	if e.name == "error" {
		h.failed, h.error = e.at, cmp.Or(e.text, "an error without a message")
	}
}

// prune keeps the memory bounded: first go those whose folders are gone, then those heard of longest ago.
func (j *journal) prune(there map[string]*worker) {
	if len(j.heard) <= maxHeard {
		return
	}
	names := sortedKeys(j.heard)
	slices.SortStableFunc(names, func(a, b string) int {
		if (there[a] == nil) != (there[b] == nil) {
			return map[bool]int{true: -1, false: 1}[there[a] == nil]
		}
		return j.heard[a].at.Compare(j.heard[b].at)
	})
	for _, name := range names[:len(names)-maxHeard] {
		delete(j.heard, name)
	}
}

// violationLog is the end of logs/violations.log (protocol 002, On Violation).
type violationLog struct {
	stamp   jsonfile.Stamp
	rest    bool
	entries []violation
}

// violation is one entry of that log.
type violation struct {
	worker string // "" where none is named
	at     time.Time
	text   string
}

const (
	violationsFile = logsDir + "/violations.log"
	maxViolations  = 64
)

func (p *Project) readViolations() {
	v := &p.told
	st, err := p.root.Stat(violationsFile)
	if isMissing(err) {
		*v = violationLog{}
		p.patience.Clear(violationsFile)
		return
	}
	if err == nil && v.rest && st == v.stamp {
		return
	}
	var data []byte
	from := max(0, st.Size-maxSmall)
	if err == nil {
		data, st, err = p.root.ReadAt(violationsFile, from, maxSmall)
	}
	if err != nil {
		p.patience.Unreadable(violationsFile, err)
		return
	}
	if from > 0 {
		_, data, _ = bytes.Cut(data, []byte("\n"))
	}
	p.patience.Clear(violationsFile)
	*v = violationLog{stamp: st, rest: st.Settled(p.now), entries: decodeViolations(data)}
	for i := range v.entries {
		if e := &v.entries[i]; e.at.IsZero() {
			e.at = st.ModTime()
		}
	}
}

var (
	workerWord = regexp.MustCompile(`worker-[A-Za-z]{2,10}-[0-9]{1,4}-[A-Za-z0-9-]{1,60}`)
	timeWord   = regexp.MustCompile(`[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}[0-9.,:+Z-]*`)
)

// decodeViolations reads the log's entries, oldest first. The document gives it no form: the program writes blocks
// between lines of "=", with a line "Timestamp:" and one "Agent Dir:"; anything else is taken line by line.
func decodeViolations(text []byte) []violation {
	var list []violation
	add := func(text string) {
		v := violation{worker: workerWord.FindString(text)}
		if _, _, _, err := workerName(v.worker); err != nil {
			v.worker = ""
		}
		v.at, _ = jsonfile.ParseTime(timeWord.FindString(text))
		var said []string
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(line)
			if line != "" && !strings.HasPrefix(line, "Timestamp:") && !strings.HasPrefix(line, "Agent Dir:") {
				said = append(said, line)
			}
		}
		v.text = clean(strings.Join(said, "; "), 300)
		list = append(list, v)
	}
	for block := range bytes.SplitSeq(text, []byte("==========")) {
		block = bytes.Trim(block, "=\r\n\t ")
		switch {
		case len(block) == 0:
		case bytes.Contains(block, []byte("Timestamp:")):
			add(string(block))
		default:
			for line := range bytes.Lines(block) {
				if len(bytes.TrimSpace(line)) > 0 {
					add(string(line))
				}
			}
		}
		if len(list) > 2*maxViolations {
			list = slices.Clone(list[len(list)-maxViolations:])
		}
	}
	return list[max(0, len(list)-maxViolations):]
}
