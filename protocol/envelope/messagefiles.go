package envelope

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// The file extensions of a message, and of a message that steward holds.
const (
	messageExt = ".json"
	heldExt    = ".json.held"
)

// messageFiles is the state of the message folder: one slot per file.
type messageFiles struct {
	slots   map[string]*slot          // by file name
	stamp   jsonfile.Stamp            // of the folder at its last listing; zero if it had not settled
	order   []string                  // the file names of that listing, sorted
	turn    int                       // where in order the next full scan continues
	notices map[string]*noticeReading // hold notices, by task
	unrest  map[string]bool           // file names to reread, even without a hint
	odd     map[string]protocol.Fault // names that are not valid for a message's file
	refused map[string]protocol.Fault // files whose message lacks required fields
}

// slot is one file of the folder.
type slot struct {
	reading jsonfile.Reading[*message]
	message *message // the reading's message, once it is in the book
	dark    bool     // unreadable, and may be a deployment
}

func newShelf() messageFiles {
	return messageFiles{slots: map[string]*slot{}, notices: map[string]*noticeReading{}, unrest: map[string]bool{}, refused: map[string]protocol.Fault{}}
}

// isMessage reports whether a file of that name in the folder is a message.
func isMessage(name string) bool {
	return !strings.HasPrefix(name, ".") && (strings.HasSuffix(name, messageExt) || strings.HasSuffix(name, heldExt))
}

// filePath is the path of a file of the folder.
func (p *Project) filePath(name string) string { return path.Join(p.opts.Messages, name) }

// perLook is how many more messages a full scan rereads in turn, so that a message rewritten in place without a hint
// is found within a few scans. The bound keeps a long history from slowing down every scan.
const perLook = 200

// readFolder rereads files that appeared or disappeared, files that have not settled, the newest assignment of each
// live task, and some of the others in turn. An unchanged message costs one stat.
func (p *Project) readFolder() {
	p.list()
	again := p.shelf.unrest
	p.shelf.unrest = map[string]bool{}
	for _, t := range p.live {
		if t.assigned != nil && path.Dir(t.assigned.file) == p.opts.Messages {
			again[path.Base(t.assigned.file)] = true
		}
	}
	for range min(perLook, len(p.shelf.order)) {
		p.shelf.turn = (p.shelf.turn + 1) % len(p.shelf.order)
		again[p.shelf.order[p.shelf.turn]] = true
	}
	for name := range again {
		p.readFile(name)
	}
	p.readNotices()
}

// list updates the slots from the folder's listing, if that has changed.
func (p *Project) list() {
	dir := p.opts.Messages
	if st, err := p.Root.Stat(dir); err == nil && st == p.shelf.stamp {
		return
	}
	names, st, err := p.Root.List(dir)
	p.shelf.stamp = jsonfile.Stamp{}
	if err == nil && st.Settled(p.Now) {
		p.shelf.stamp = st
	}
	switch {
	case folder.Missing(err):
		p.Patience.Clear(dir)
		names, err = nil, nil
		p.shelf.odd = nil
	case err != nil:
		p.Patience.Unreadable(dir, err)
		return // keep the last good reading
	default:
		p.Patience.Clear(dir)
	}
	p.take(names)
}

func (p *Project) take(names []string) {
	odd, there := map[string]protocol.Fault{}, make(map[string]bool, len(names))
	p.shelf.order = p.shelf.order[:0]
	for _, name := range names {
		if !isMessage(name) {
			continue
		}
		if !jsonfile.PlainName(name) {
			p.refuseName(odd, name)
			continue
		}
		there[name] = true
		p.shelf.order = append(p.shelf.order, name)
		if p.shelf.slots[name] == nil {
			p.shelf.slots[name] = &slot{}
			p.shelf.unrest[name] = true
		}
	}
	slices.Sort(p.shelf.order)
	for name := range p.shelf.slots {
		if !there[name] {
			p.shelf.unrest[name] = true
		}
	}
	p.shelf.odd = odd
}

func (p *Project) refuseName(odd map[string]protocol.Fault, name string) {
	file := path.Join(p.opts.Messages, strconv.Quote(folder.Short(name, maxText)))
	since := p.Now
	if old, ok := p.shelf.odd[file]; ok {
		since = old.Since
	}
	odd[file] = protocol.Fault{Path: file, Problem: "the file's name is too long, or holds what no file name should", Hint: "rename it", Since: since}
}

// readHinted reads the files that hints name, and those that were in trouble or had not settled.
func (p *Project) readHinted(hints []string) {
	again := p.shelf.unrest
	p.shelf.unrest = map[string]bool{}
	for _, hint := range hints {
		dir, name := path.Split(hint)
		switch dir = path.Clean(dir); {
		case dir == p.opts.Messages && isMessage(name) && jsonfile.PlainName(name):
			again[name] = true
		case dir == holdsDir:
			p.readNotice(strings.TrimSuffix(name, messageExt))
		}
	}
	for name := range again {
		p.readFile(name)
	}
	for id, n := range p.shelf.notices {
		if !n.AtRest() || p.Patience.Has(noticeFile(id)) {
			p.readNotice(id)
		}
	}
}

// wide reports whether a hint names a whole folder, which needs a full scan.
func (p *Project) wide(hints []string) bool {
	for _, hint := range hints {
		for _, dir := range []string{p.opts.Messages, holdsDir} {
			if hint == dir || hint == "." || strings.HasPrefix(dir, hint+"/") {
				return true
			}
		}
	}
	return false
}

// readFile updates the message of one file, including its entry in the book.
func (p *Project) readFile(name string) {
	s := p.shelf.slots[name]
	if s == nil {
		s = &slot{}
		p.shelf.slots[name] = s
	}
	file := p.filePath(name)
	r := &s.reading
	read := p.load(s, file)
	if !r.There {
		delete(p.shelf.slots, name)
	}
	if !r.AtRest() || p.Patience.Has(file) {
		p.shelf.unrest[name] = true
	} else {
		delete(p.shelf.unrest, name)
	}
	switch {
	case !r.Good:
		p.drop(s)
	case read:
		since, fresh := p.shelf.refused[file].Since, s.message == nil
		seen := p.seenOf(s)
		p.drop(s)
		s.message = r.Value
		s.message.held = strings.HasSuffix(name, heldExt)
		s.message.adopt(name)
		s.message.place(file, r.Stamp.ModTime())
		if s.message.seen = seen; fresh && p.looked {
			s.message.seen = earlier(r.Stamp.ModTime(), p.Now)
		}
		s.message.history = r.Stamp.ModTime().Before(p.Since)
		p.refuseFields(file, s.message, since)
		p.add(s.message)
	}
}

// seenOf returns when steward saw the slot's message arrive. A message corrected in its file keeps that time.
func (p *Project) seenOf(s *slot) time.Time {
	if s.message == nil {
		return time.Time{}
	}
	return s.message.seen
}

// drop removes a slot's message from the book.
func (p *Project) drop(s *slot) {
	if s.message != nil {
		p.remove(s.message)
		delete(p.shelf.refused, s.message.file)
		s.message = nil
	}
}

// refuseFields records a Fault for a file whose message lacks required fields.
func (p *Project) refuseFields(file string, m *message, since time.Time) {
	if problem, hint := m.fault(); problem != "" {
		if since.IsZero() {
			since = p.Now
		}
		p.shelf.refused[file] = protocol.Fault{Path: file, Problem: problem, Hint: hint, Since: since}
	}
}

// fault returns which required fields the message lacks; "" if it lacks none.
func (m *message) fault() (problem, hint string) {
	switch {
	case m.unusable != "":
		return m.unusable + "; the message cannot be tracked", "see protocol 004, Message Types"
	case m.kind == assigns && m.assignment.lacks != "":
		return strings.Join(m.faults, "; "), "protocol 004 lists these fields as required; the assignment is held until they are there: correct the file, or send it anew under its name"
	case len(m.faults) > 0:
		return strings.Join(m.faults, "; "), "protocol 004 lists these fields as required; the message is tracked all the same"
	}
	return "", ""
}

// appeared returns when a file became visible to agents: its change time, where the system has one.
func appeared(st jsonfile.Stamp) time.Time {
	if st.CtimeNs == 0 {
		return st.ModTime().UTC()
	}
	return time.Unix(0, st.CtimeNs).UTC()
}

// Reads reports whether the last scan read the file (relative to the project), and returns the findings about the
// fields of its messages.
func (p *Project) Reads(file string) (fields []protocol.Finding, read bool) {
	list := p.journal.messages
	if file != p.opts.Log {
		s := p.shelf.slots[path.Base(file)]
		if s == nil || path.Dir(file) != p.opts.Messages {
			return nil, false
		}
		if list = nil; s.message != nil {
			list = []*message{s.message}
		}
	}
	for _, m := range list {
		subject := protocol.Subject{Kind: protocol.KindTask, ID: m.task}
		if m.task == "" {
			subject = p.place()
		}
		for _, i := range m.issues {
			fields = append(fields, protocol.Finding{Subject: subject, Code: i.code, Field: i.field,
				Severity: i.severity, Text: i.text, Path: file})
		}
	}
	return fields, true
}
