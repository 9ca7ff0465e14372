package envelope

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// smells reports whether what cannot be parsed speaks of a deployment.
func smells(raw []byte) bool { return bytes.Contains(bytes.ToUpper(raw), []byte("DEPLOY")) }

// load brings a slot's reading up to date, and notes whether a message that cannot be read may be a deployment: by
// its words where it cannot be parsed, else because nobody knows what is in it.
func (p *Project) load(s *slot, file string) (read bool) {
	tried := false
	read = jsonfile.LoadText(p.Root, &p.Patience, &s.reading, file, maxFile, func(raw []byte) (*message, error) {
		tried, s.dark = true, false
		o, err := jsonfile.Parse(raw)
		if err != nil {
			s.dark = smells(raw)
			var e *jsonfile.Error
			if errors.As(err, &e) {
				e.Path = file
			}
			return nil, err
		}
		return decode(o, p.opts.Deployers), nil
	})
	switch {
	case !s.reading.There || !p.Patience.Has(file):
		s.dark = false
	case !tried && !s.reading.Good:
		s.dark = s.dark || p.unreadable(file)
	}
	return read
}

// unreadable reports whether an agent may read in the file what we cannot: it is too big for us, a link, or forbidden.
func (p *Project) unreadable(file string) bool {
	if st, err := p.Root.Stat(file); err != nil {
		return st.Mode&fs.ModeSymlink != 0
	}
	_, err := p.Root.Read(file, maxFile)
	return errors.Is(err, jsonfile.ErrTooBig) || errors.Is(err, jsonfile.ErrPermission)
}

// maxDark bounds these findings: whoever repairs the first sees the next.
const maxDark = 50

// darkFindings is about messages that cannot be read: nothing may slip through the gate unseen.
func (p *Project) darkFindings() []protocol.Finding {
	var list []protocol.Finding
	add := func(file, field, what string) {
		if len(list) < maxDark {
			list = append(list, protocol.Finding{Subject: p.place(), Code: "security_gate", Field: field, Severity: protocol.Critical, Path: file,
				Text: "a message that cannot be read may be a deployment: " + what})
		}
	}
	for _, t := range p.Patience.Troubles() {
		if s := p.shelf.slots[path.Base(t.Path)]; s != nil && s.dark && path.Dir(t.Path) == p.opts.Messages {
			add(t.Path, path.Base(t.Path), t.Path)
		}
	}
	for _, file := range sortedKeys(p.shelf.odd) {
		add(file, path.Base(file), file)
	}
	for _, line := range p.journal.dark {
		add(p.opts.Log, path.Base(p.opts.Log), fmt.Sprintf("%s, line %d", p.opts.Log, line))
	}
	return list
}

// darkLine notes that the line that was just read may be a deployment.
func (j *journal) darkLine() {
	if len(j.dark) < maxBadLines {
		j.dark = append(j.dark, j.lines)
	}
}
