package ralph

import (
	"bytes"
	"cmp"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// eventLogs are the log that the program writes and the log that the document describes (protocol 002, Event Log Format).
var eventLogs = [2]string{path.Join(logsDir, "activity.jsonl"), path.Join(logsDir, "events.jsonl")}

const (
	logChunk = 256 << 10 // bytes of an existing log that the first scan reads
	maxHeard = 512       // workers whose events are kept
)

// journal holds what the event logs report about each worker.
type journal struct {
	tails [len(eventLogs)]folder.Tail
	heard map[string]*heard
}

func newJournal() journal {
	j := journal{heard: map[string]*heard{}}
	for i, file := range eventLogs {
		j.tails[i] = folder.Tail{File: file, Max: logChunk, Last: logChunk}
	}
	return j
}

// heard summarizes one worker's events.
type heard struct {
	n      int
	at     time.Time
	event  string
	failed time.Time // of its newest error event
	error  string
}

// readLogs reads the lines appended since the last scan. A log that shrank was rotated in place.
func (p *Project) readLogs() {
	j := &p.log
	for i := range j.tails {
		_ = j.tails[i].Read(p.Folder, func() {}, func(line []byte, _ int64) { j.hear(decodeEvent(bytes.TrimSpace(line))) })
	}
	j.prune(p.workers)
}

// event is one line of an event log.
type event struct {
	worker, name, text string
	at                 jsonfile.Stated
}

// decodeEvent reads a line in either of the two formats; an invalid line yields an event without a worker.
func decodeEvent(line []byte) event {
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
	e := event{worker: first("worker_id"), name: folder.Line(first("event", "event_type"), 80)}
	if _, _, _, err := workerName(e.worker); err != nil || len(e.worker) > 200 {
		return event{}
	}
	e.at = o.FirstStated("ts", "timestamp")
	e.text = folder.Line(strings.TrimPrefix(strings.TrimSuffix(first("error_type")+": "+first("message"), ": "), ": "), 300)
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
	h.at, h.event = e.at.At, e.name
	if e.name == "error" {
		h.failed, h.error = e.at.Latest(), cmp.Or(e.text, "an error without a message")
	}
}

// prune keeps memory bounded. It drops first the workers whose folders are gone, then those with the oldest events.
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
	worker string // "" if the entry names none
	stated jsonfile.Stated
	at     time.Time // the meaning of stated; the log's mtime if the entry states no time
	text   string
}

const (
	violationsFile = logsDir + "/violations.log"
	maxViolations  = 64
)

func (p *Project) readViolations() {
	v := &p.told
	st, err := p.Root.Stat(violationsFile)
	if folder.Missing(err) {
		*v = violationLog{}
		p.Patience.Clear(violationsFile)
		return
	}
	if err == nil && v.rest && st == v.stamp {
		return
	}
	var data []byte
	from := max(0, st.Size-maxSmall)
	if err == nil {
		data, st, err = p.Root.ReadAt(violationsFile, from, maxSmall)
	}
	if err != nil {
		p.Patience.Unreadable(violationsFile, err)
		return
	}
	if from > 0 {
		_, data, _ = bytes.Cut(data, []byte("\n"))
	}
	p.Patience.Clear(violationsFile)
	*v = violationLog{stamp: st, rest: st.Settled(p.Now), entries: decodeViolations(data)}
	for i := range v.entries {
		if e := &v.entries[i]; e.stated.At.IsZero() {
			e.at = st.ModTime()
		} else {
			e.at = e.stated.By(st.ModTime())
		}
	}
}

var (
	workerWord = lazily(`worker-[A-Za-z]{2,10}-[0-9]{1,4}-[A-Za-z0-9-]{1,60}`)
	timeWord   = lazily(`[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}[0-9.,:+Z-]*`)
)

// decodeViolations reads the log's entries, oldest first. The document defines no format. The program writes blocks
// between lines of "=", with a line "Timestamp:" and a line "Agent Dir:"; any other text is read line by line.
func decodeViolations(text []byte) []violation {
	var list []violation
	add := func(text string) {
		v := violation{worker: workerWord().FindString(text)}
		if _, _, _, err := workerName(v.worker); err != nil {
			v.worker = ""
		}
		v.stated = jsonfile.ParseStated(timeWord().FindString(text))
		var said []string
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(line)
			if line != "" && !strings.HasPrefix(line, "Timestamp:") && !strings.HasPrefix(line, "Agent Dir:") {
				said = append(said, line)
			}
		}
		v.text = folder.Line(strings.Join(said, "; "), 300)
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

// lazily compiles a pattern on first use, because a short command of steward needs none.
func lazily(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}
