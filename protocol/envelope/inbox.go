package envelope

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
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

// source is what the readers of messages share: where they read, and where they enter what they read.
type source struct {
	*folder.Folder
	deployers deployers
	board     *board
	audit     *auditLog
	watching  bool // the first scan is done: steward sees every later message arrive
}

func (s *source) add(m *message) {
	s.board.add(m)
	s.audit.want(m)
}

func (s *source) remove(m *message) {
	s.board.remove(m)
	s.audit.forget(m)
}

// inbox reads the message folder.
type inbox struct {
	*source
	dir       string
	listing   folder.Listing
	files     map[string]*messageFile // by file name
	order     []string                // the file names at the last listing, sorted
	next      int                     // where in order the next full scan continues
	unsettled map[string]bool         // file names to reread, even without a hint
	badNames  []string                // names that are not valid for a message's file, sorted
}

// messageFile is one file of the folder.
type messageFile struct {
	jsonfile.Reading[*message]
	message   *message // the reading's message, once it is on the board
	mayDeploy bool     // the file is unreadable, and may be a deployment
}

func newInbox(s *source, dir string) *inbox {
	return &inbox{source: s, dir: dir, listing: folder.Listing{Strict: true}, files: map[string]*messageFile{}, unsettled: map[string]bool{}}
}

// isMessage reports whether a file of that name in the folder is a message.
func isMessage(name string) bool {
	return !strings.HasPrefix(name, ".") && (strings.HasSuffix(name, messageExt) || strings.HasSuffix(name, heldExt))
}

// has reports whether a message stands in the file.
func (in *inbox) has(file string) bool {
	f := in.files[path.Base(file)]
	return f != nil && f.message != nil
}

// perScan is how many more messages a full scan rereads in turn, so that a message rewritten in place without a hint
// is found within a few scans. The bound keeps a long history from slowing down every scan.
const perScan = 200

// readAll rereads files that appeared or disappeared, files that have not settled, the newest assignment of each live
// task, and some of the others in turn. An unchanged message costs one stat.
func (in *inbox) readAll() {
	in.list()
	for _, t := range in.board.live {
		if t.assigned != nil && path.Dir(t.assigned.file) == in.dir {
			in.unsettled[path.Base(t.assigned.file)] = true
		}
	}
	for range min(perScan, len(in.order)) {
		in.next = (in.next + 1) % len(in.order)
		in.unsettled[in.order[in.next]] = true
	}
	in.readUnsettled()
}

// readHinted reads the files that hints name, and those that were in trouble or had not settled.
func (in *inbox) readHinted(hints []string) {
	for _, hint := range hints {
		if dir, name := path.Split(hint); path.Clean(dir) == in.dir && isMessage(name) && jsonfile.PlainName(name) {
			in.unsettled[name] = true
		}
	}
	in.readUnsettled()
}

func (in *inbox) readUnsettled() {
	names := in.unsettled
	in.unsettled = map[string]bool{}
	for name := range names {
		in.readFile(name)
	}
}

// reread makes the next read cover a task's files, held or not.
func (in *inbox) reread(t *task) {
	if t == nil {
		return
	}
	for _, m := range t.messages {
		if !m.inLog() {
			name := path.Base(openName(m.file))
			in.unsettled[name], in.unsettled[name+".held"] = true, true
		}
	}
}

// list updates the files from the folder's listing, if that has changed.
func (in *inbox) list() {
	if !in.listing.Read(in.Folder, in.dir) {
		return
	}
	names := in.listing.Names
	for _, name := range in.badNames {
		if !slices.Contains(names, name) {
			in.Patience.Clear(path.Join(in.dir, name))
		}
	}
	in.order, in.badNames = in.order[:0], nil
	there := make(map[string]bool, len(names))
	for _, name := range names {
		switch {
		case !isMessage(name):
		case !jsonfile.PlainName(name):
			in.badNames = append(in.badNames, name)
			in.Patience.Refuse(path.Join(in.dir, name), "the file's name is too long, or holds what no file name should", "rename it")
		default:
			there[name], in.order = true, append(in.order, name)
			if in.files[name] == nil {
				in.unsettled[name] = true
			}
		}
	}
	for name := range in.files {
		if !there[name] {
			in.unsettled[name] = true
		}
	}
}

// readFile brings the message of one file up to date, also on the board.
func (in *inbox) readFile(name string) {
	f := in.files[name]
	if f == nil {
		f = &messageFile{}
		in.files[name] = f
	}
	file := path.Join(in.dir, name)
	read := in.load(f, file)
	if !f.There {
		delete(in.files, name)
	}
	switch {
	case !f.Good:
		in.replace(f, nil)
	case read:
		in.describe(f, name, file)
		in.replace(f, f.Value)
	}
	if !f.AtRest() || in.Patience.Has(file) && !in.Patience.Refused(file) {
		in.unsettled[name] = true
	}
}

// describe adds to a message what only its file shows.
func (in *inbox) describe(f *messageFile, name, file string) {
	m, written := f.Value, f.Stamp.ModTime()
	m.nameAfterFile(name)
	m.place(file, written)
	m.held, m.fileSum, m.appeared = strings.HasSuffix(name, heldExt), f.Sum, appeared(f.Stamp)
	m.history = written.Before(in.Since)
	switch {
	case f.message != nil:
		m.seen = f.message.seen // a message corrected in its file keeps that time
	case in.watching && in.Now.Before(written):
		m.seen = in.Now
	case in.watching:
		m.seen = written
	}
	if problem, hint := m.fault(); problem != "" {
		in.Patience.Refuse(file, problem, hint)
	} else {
		in.Patience.Clear(file)
	}
}

// replace replaces a file's message on the board; nil removes it.
func (in *inbox) replace(f *messageFile, m *message) {
	if f.message != nil {
		in.remove(f.message)
	}
	if f.message = m; m != nil {
		in.add(m)
	}
}

// appeared returns when a file became visible to agents: its change time, where the system has one.
func appeared(st jsonfile.Stamp) time.Time {
	if st.CtimeNs == 0 {
		return st.ModTime().UTC()
	}
	return time.Unix(0, st.CtimeNs).UTC()
}

// load reads a file if it has changed, and records whether an unreadable message may be a deployment: if its text cannot
// be parsed, by its words; if steward cannot read the file but an agent may, always.
func (in *inbox) load(f *messageFile, file string) (read bool) {
	tried := false
	read = jsonfile.LoadText(in.Root, &in.Patience, &f.Reading, file, maxFile, func(raw []byte) (*message, error) {
		tried, f.mayDeploy = true, false
		o, err := jsonfile.Parse(raw)
		if err != nil {
			f.mayDeploy = mentionsDeploy(raw)
			var e *jsonfile.Error
			if errors.As(err, &e) {
				e.Path = file
			}
			return nil, err
		}
		return decode(o, in.deployers), nil
	})
	switch {
	case !f.There || !in.Patience.Has(file):
		f.mayDeploy = false
	case !tried && !f.Good:
		f.mayDeploy = f.mayDeploy || in.hidden(file)
	}
	return read
}

// hidden reports whether an agent may be able to read a file that steward cannot: a file that is too big, a link, or
// forbidden.
func (in *inbox) hidden(file string) bool {
	if st, err := in.Root.Stat(file); err != nil {
		return st.Mode&fs.ModeSymlink != 0
	}
	_, err := in.Root.Read(file, maxFile)
	return errors.Is(err, jsonfile.ErrTooBig) || errors.Is(err, jsonfile.ErrPermission)
}

// maxUnreadable bounds these findings. The remaining ones appear once the first are repaired.
const maxUnreadable = 50

// unreadableFindings reports unreadable messages that may be deployments, so that none passes the gate unnoticed.
func (p *Project) unreadableFindings() (list []protocol.Finding) {
	add := func(file, what string) {
		f := finding("security_gate", protocol.Critical, "a message that cannot be read may be a deployment: %s", what)
		f.Field, f.Path = path.Base(file), file
		list = append(list, f)
	}
	for _, t := range p.Patience.Troubles() {
		if f := p.inbox.files[path.Base(t.Path)]; f != nil && f.mayDeploy && path.Dir(t.Path) == p.opts.Messages {
			add(t.Path, t.Path)
		}
	}
	for _, name := range p.inbox.badNames {
		file := p.Shown(path.Join(p.opts.Messages, name))
		add(file, file)
	}
	for _, line := range p.log.mayDeploy {
		add(p.opts.Log, fmt.Sprintf("%s, line %d", p.opts.Log, line))
	}
	return list[:min(len(list), maxUnreadable)]
}
