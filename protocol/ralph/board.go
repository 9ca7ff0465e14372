package ralph

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// taskBoard is the last good reading of the kanban, with the changes that steward observed in it.
type taskBoard struct {
	file         jsonfile.Reading[[]item]
	doubt        jsonfile.Sum // checksum of a text from which tasks were missing
	from         time.Time    // since when that text has been there
	tasks        []*entry     // the first line of each id
	byID         map[string]*entry
	undated      bool // some end times are not set yet
	lineFindings []protocol.Finding
	gone         time.Time       // since when the kanban is missing; zero: it exists
	fault        *protocol.Fault // it is missing although worker folders exist

	// What a scan is about.
	open   []*entry
	listed []*entry // the open tasks and the ended ones that are shown, in the kanban's order
}

// entry is a task of the board.
type entry struct {
	item
	track
	news bool // it ended after the time from which on history is shown
}

// track is what steward observed of a task since it has had its marker.
type track struct {
	since time.Time // the kanban's mtime when the marker was first seen
	ended time.Time // when the task ended; zero: long ago or unknown
	live  bool      // steward observed the change; ended is its time, whatever the new marker

	// bare is since when the task has been seen in progress without a pid file. bareOf is its worker at that time; "" if
	// it had no worker folder.
	bare   time.Time
	bareOf string
}

// read brings the board up to date. If tasks are missing from the text, a writer may be at work, so the text counts only
// after it has stood for a while (protocol 002, Status Updates: only markers change, and tasks are added).
func (b *taskBoard) read(f *folder.Folder) {
	was := b.file.Value
	read := jsonfile.LoadText(f.Root, &f.Patience, &b.file, kanbanFile, maxKanban, func(text []byte) ([]item, error) {
		if len(bytes.TrimSpace(text)) == 0 {
			return nil, fmt.Errorf("%w: the kanban is empty", jsonfile.ErrTorn)
		}
		items := parseKanban(text)
		if len(items) == 0 && !utf8.Valid(text) {
			return nil, fmt.Errorf("%w: the kanban is no text", jsonfile.ErrBad)
		}
		if missing := missingFrom(items, was); missing != "" {
			if sum := jsonfile.SumOf(text); b.doubt != sum {
				b.doubt, b.from = sum, f.Now
			}
			if f.Now.Sub(b.from) < jsonfile.BadAfter {
				return nil, fmt.Errorf("%w: the task %s is not there any more", jsonfile.ErrTorn, missing)
			}
		}
		b.doubt = ""
		return items, nil
	})
	if read || !b.file.There && b.byID != nil {
		b.enter(len(was) > 0, f.Past(b.file.Stamp.ModTime()), f.Now)
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

// enter takes over the tasks that were read. A task whose marker is unchanged keeps its track. seen reports whether
// steward had read tasks before.
func (b *taskBoard) enter(seen bool, stamp, now time.Time) {
	items, was := b.file.Value, b.byID
	b.tasks, b.byID = make([]*entry, 0, len(items)), make(map[string]*entry, len(items))
	for i := range items {
		e := &entry{item: items[i], track: track{since: stamp}}
		if b.byID[e.id] != nil {
			continue
		}
		switch old := was[e.id]; {
		case old != nil && old.marker == e.marker:
			e.track = old.track
		case old != nil || seen && hasEnded(e.marker): // steward saw it change, or saw it appear as ended
			e.ended, e.live = now, true
		}
		b.tasks, b.byID[e.id] = append(b.tasks, e), e
	}
	b.undated, b.lineFindings = true, kanbanFindings(items)
}

// sameEnd is the largest distance between the kanban's stamp and the worker's last sign at which the stamp counts as the
// task's end. For a task that ended long ago the stamp says nothing: every change of another task renews it.
const sameEnd = 10 * time.Minute

// dateEndings sets the end times of newly read tasks, as far as files show them.
func (b *taskBoard) dateEndings(f *folder.Folder, marked *failures, ws *workers) {
	if !b.undated {
		return
	}
	b.undated = false
	for _, e := range b.tasks {
		w := ws.newest(e.id)
		if m, ok := marked.find(&e.item); ok {
			e.ended = f.Past(m.at)
		} else if !e.live && e.ended.IsZero() && w != nil {
			if e.ended = f.Past(w.made); e.since.Sub(e.ended) < sameEnd {
				e.ended = e.since
			}
		}
	}
}

// choose selects the tasks that a scan is about: all open ones, those that ended after since, and those that wait for the
// user, however old, because the user names them in commands. A zero since means all.
func (b *taskBoard) choose(since time.Time) {
	b.open = nil
	var news, calls []*entry
	for _, e := range b.tasks {
		e.news = false
		if !hasEnded(e.marker) {
			if isMarker(e.marker) {
				b.open = append(b.open, e)
			}
			continue
		}
		if since.IsZero() || e.ended.After(since) {
			news = append(news, e)
		}
		if e.marker == failed {
			calls = append(calls, e)
		}
	}
	news = newestEnded(news)
	for _, e := range news {
		e.news = true
	}
	b.listed = slices.Concat(b.open, news, newestEnded(calls))
	slices.SortFunc(b.listed, func(x, y *entry) int { return cmp.Compare(x.line, y.line) })
	b.listed = slices.Compact(b.listed)
}

// newestEnded keeps at most maxEnded ended tasks: the newest, and of those without a time the first.
func newestEnded(list []*entry) []*entry {
	if len(list) > maxEnded {
		slices.SortStableFunc(list, func(x, y *entry) int { return y.ended.Compare(x.ended) })
		list = list[:maxEnded]
	}
	return list
}

// noteMissing reports a missing kanban as a fault if there are workers. It waits first, because a kanban that is being
// rewritten reappears within moments.
func (b *taskBoard) noteMissing(f *folder.Folder, workers bool) {
	if b.file.There || !workers {
		b.fault, b.gone = nil, time.Time{}
		return
	}
	if b.gone.IsZero() {
		b.gone = f.Now
	}
	if !f.Wait(b.gone.Add(jsonfile.BadAfter)) {
		b.fault = f.Fault(b.fault, kanbanFile, errNoKanban)
	}
}

var errNoKanban = errors.New("the kanban is missing, and workers are there")
