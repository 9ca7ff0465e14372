package ralph

import (
	"bytes"
	"cmp"
	"maps"
	"path"
	"strings"
	"time"

	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// eventFiles are the log that the program writes and the log that the document describes (protocol 002, Event Log Format).
var eventFiles = [2]string{path.Join(logsDir, "activity.jsonl"), path.Join(logsDir, "events.jsonl")}

const (
	logChunk   = 256 << 10 // bytes of an existing log that the first scan reads
	maxWorkers = 512       // workers whose events are kept, although their folders are gone
)

// eventLog holds what the event logs report about each worker.
type eventLog struct {
	tails [len(eventFiles)]folder.Tail
	of    map[string]*workerEvents
}

// workerEvents summarizes one worker's events.
type workerEvents struct {
	n      int
	at     time.Time
	event  string
	failed time.Time // of its newest error event
	error  string
}

func newEventLog() eventLog {
	l := eventLog{of: map[string]*workerEvents{}}
	for i, file := range eventFiles {
		l.tails[i] = folder.Tail{File: file, Max: logChunk, Last: logChunk}
	}
	return l
}

// read reads the lines appended since the last scan. A log that shrank was rotated in place.
func (l *eventLog) read(f *folder.Folder, workers map[string]*worker) {
	for i := range l.tails {
		_ = l.tails[i].Read(f, func() {}, func(line []byte, _ int64) { l.add(decodeEvent(line)) })
	}
	l.prune(workers)
}

func (l *eventLog) add(e event) {
	if e.worker == "" {
		return
	}
	w := l.of[e.worker]
	if w == nil {
		w = &workerEvents{}
		l.of[e.worker] = w
	}
	w.n++
	w.at, w.event = e.at.At, e.name
	if e.name == "error" {
		w.failed, w.error = e.at.Latest(), cmp.Or(e.text, "an error without a message")
	}
}

// prune keeps memory bounded: it drops the workers whose folders are gone.
func (l *eventLog) prune(workers map[string]*worker) {
	if len(l.of) > maxWorkers {
		maps.DeleteFunc(l.of, func(name string, _ *workerEvents) bool { return workers[name] == nil })
	}
}

// event is one line of an event log.
type event struct {
	worker, name, text string
	at                 jsonfile.Stated
}

// decodeEvent reads a line in either of the two formats; an invalid line yields an event without a worker.
func decodeEvent(line []byte) event {
	o := parseLine(line)
	e := event{worker: folder.FirstText(o, "worker_id"), name: folder.Line(folder.FirstText(o, "event", "event_type"), 80)}
	if _, _, _, err := workerName(e.worker); err != nil || len(e.worker) > 200 {
		return event{}
	}
	e.at = o.FirstStated("ts", "timestamp")
	e.text = folder.Line(strings.Trim(folder.FirstText(o, "error_type")+": "+folder.FirstText(o, "message"), ": "), 300)
	return e
}

// parseLine parses one line of a log; an invalid line yields an empty object.
func parseLine(line []byte) jsonfile.Object {
	if len(line) > maxSmall {
		return jsonfile.Object{}
	}
	o, _ := jsonfile.Parse(bytes.TrimSpace(line))
	return o
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

// readViolations reads the end of logs/violations.log (protocol 002, On Violation).
func readViolations(f *folder.Folder, r *jsonfile.Reading[[]violation]) {
	read := jsonfile.LoadText(f.Root, &f.Patience, r, violationsFile, maxKanban, func(text []byte) ([]violation, error) {
		if n := len(text); n > maxSmall {
			_, text, _ = bytes.Cut(text[n-maxSmall:], []byte("\n"))
		}
		return decodeViolations(text), nil
	})
	for i := range r.Value {
		if e := &r.Value[i]; read && e.stated.At.IsZero() {
			e.at = r.Stamp.ModTime()
		} else if read {
			e.at = e.stated.By(r.Stamp.ModTime())
		}
	}
}

var (
	workerWord = folder.Pattern(`worker-[A-Za-z]{2,10}-[0-9]{1,4}-[A-Za-z0-9-]{1,60}`)
	timeWord   = folder.Pattern(`[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}[0-9.,:+Z-]*`)
)

// decodeViolations reads the log's newest entries, oldest first. The document defines no format. The program writes blocks
// between lines of "=", with a line "Timestamp:" and a line "Agent Dir:"; any other text is read line by line.
func decodeViolations(text []byte) []violation {
	var parts []string
	for block := range strings.SplitSeq(string(text), "==========") {
		block = strings.Trim(block, "=\r\n\t ")
		if strings.Contains(block, "Timestamp:") {
			parts = append(parts, block)
			continue
		}
		for line := range strings.Lines(block) {
			if strings.TrimSpace(line) != "" {
				parts = append(parts, line)
			}
		}
	}
	var list []violation
	for _, part := range parts[max(0, len(parts)-maxViolations):] {
		list = append(list, decodeViolationEntry(part))
	}
	return list
}

func decodeViolationEntry(text string) violation {
	v := violation{worker: workerWord().FindString(text), stated: jsonfile.ParseStated(timeWord().FindString(text))}
	if _, _, _, err := workerName(v.worker); err != nil {
		v.worker = ""
	}
	var said []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "Timestamp:") && !strings.HasPrefix(line, "Agent Dir:") {
			said = append(said, line)
		}
	}
	v.text = folder.Line(strings.Join(said, "; "), 300)
	return v
}
