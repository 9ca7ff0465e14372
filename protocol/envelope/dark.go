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

// smells reports whether unparsable text mentions a deployment.
func smells(raw []byte) bool { return bytes.Contains(bytes.ToUpper(raw), []byte("DEPLOY")) }

// load updates a slot's reading, and records whether an unreadable message may be a deployment: if its text cannot be
// parsed, by its words; if steward cannot read the file but an agent may, always.
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

// unreadable reports whether an agent may be able to read a file that steward cannot: a file that is too big, a link, or
// forbidden.
func (p *Project) unreadable(file string) bool {
	if st, err := p.Root.Stat(file); err != nil {
		return st.Mode&fs.ModeSymlink != 0
	}
	_, err := p.Root.Read(file, maxFile)
	return errors.Is(err, jsonfile.ErrTooBig) || errors.Is(err, jsonfile.ErrPermission)
}

// maxDark bounds these findings. The remaining ones appear once the first are repaired.
const maxDark = 50

// darkFindings reports unreadable messages that may be deployments, so that none passes the gate unnoticed.
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

// darkLine records that the line just read may be a deployment.
func (j *journal) darkLine() {
	if len(j.dark) < maxBadLines {
		j.dark = append(j.dark, j.lines)
	}
}
