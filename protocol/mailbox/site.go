package mailbox

import (
	"path"
	"slices"
	"strings"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// site is one of the two layouts: the program's, with the queue in Base itself, and the document's, with the queue in
// Base/tasks (protocol 003, File Locations). Older prompts write messages to the second while the program reads the first,
// so steward always reads both.
type site struct {
	dir    string // "" or "tasks"
	queue  jsonfile.Reading[queue]
	board  jsonfile.Reading[board]
	boxes  map[string]*jsonfile.Reading[mailbox] // by file name
	listed jsonfile.Stamp                        // stamp of the messages folder, if it had settled
}

func newSite(dir string) site {
	return site{dir: dir, boxes: map[string]*jsonfile.Reading[mailbox]{}}
}

func (s *site) queueFile() string          { return path.Join(s.dir, "queue.json") }
func (s *site) boardFile() string          { return path.Join(s.dir, "status.json") }
func (s *site) mailDir() string            { return path.Join(s.dir, "messages") }
func (s *site) boxFile(name string) string { return path.Join(s.mailDir(), name) }

// maxBoxes limits the mailboxes read of one folder.
const maxBoxes = 32

// isBox reports whether name is the file name of a mailbox: to-<agent>.json.
func isBox(name string) bool {
	return strings.HasPrefix(name, "to-") && strings.HasSuffix(name, ".json") && jsonfile.PlainName(name)
}

// read brings the site up to date. It costs a few stats if nothing changed. A queue that was read again keeps the previous
// index in before.
func (p *Project) read(s *site) {
	was := s.queue.Value
	if jsonfile.Load(p.Root, &p.Patience, &s.queue, s.queueFile(), maxQueue, decodeQueue) {
		s.queue.Value.before = was.byID
		s.queue.Value.place(&was, s.queue.Stamp.ModTime(), p.looked)
	}
	if jsonfile.Load(p.Root, &p.Patience, &s.board, s.boardFile(), maxFile, decodeBoard) {
		s.board.Value.place(s.board.Stamp.ModTime())
	}
	if !s.queue.Good { // the previous reading is no longer trusted
		s.queue.Value = queue{}
	}
	if !s.board.Good {
		s.board.Value = board{}
	}
	p.listBoxes(s)
	for name, box := range s.boxes {
		was := box.Value
		if jsonfile.Load(p.Root, &p.Patience, box, s.boxFile(name), maxFile, decodeMailbox) {
			box.Value.place(&was, box.Stamp.ModTime(), p.looked)
		}
		if !box.There {
			delete(s.boxes, name)
		}
	}
}

// listBoxes finds the mailboxes of the folder.
func (p *Project) listBoxes(s *site) {
	dir := s.mailDir()
	if st, err := p.Root.Stat(dir); err == nil && st == s.listed {
		return
	}
	names, st, err := p.Root.List(dir)
	s.listed = jsonfile.Stamp{}
	if err != nil {
		p.Patience.Unreadable(dir, err) // a missing folder is not a fault
		if folder.Missing(err) {
			clear(s.boxes)
		}
		return
	}
	p.Patience.Clear(dir)
	if st.Settled(p.Now) {
		s.listed = st
	}
	names = slices.DeleteFunc(names, func(n string) bool { return !isBox(n) })
	slices.Sort(names)
	for _, name := range names[:min(len(names), maxBoxes)] {
		if s.boxes[name] == nil {
			s.boxes[name] = &jsonfile.Reading[mailbox]{}
		}
	}
}

// refresh reads all files that exist.
func (p *Project) refresh() {
	for i := range p.sites {
		p.read(&p.sites[i])
	}
	jsonfile.LoadText(p.Root, &p.Patience, &p.pid, pidFile, 4<<10, decodePID)
	p.ledger.Refresh(p.Root, &p.Patience, p.Now)
}

// living returns the layout in use: the one that contains queue.json. If both do, or neither does, it is the program's.
func (p *Project) living() *site {
	if !p.sites[0].queue.There && p.sites[1].queue.There {
		return &p.sites[1]
	}
	return &p.sites[0]
}

// statusBoard returns the status.json of the layout in use, or else that of the other layout, with its path.
func (p *Project) statusBoard() (*jsonfile.Reading[board], string) {
	s := p.living()
	if !s.board.There {
		for i := range p.sites {
			if p.sites[i].board.There {
				s = &p.sites[i]
			}
		}
	}
	return &s.board, s.boardFile()
}

// located is a mailbox with its path.
type located struct {
	file   string // relative to Base
	name   string // to-developer.json
	living bool   // it belongs to the layout in use
	box    *jsonfile.Reading[mailbox]
}

// mail lists all mailboxes: those of the layout in use first, sorted by name within each folder.
func (p *Project) mail() []located {
	var list []located
	alive := p.living()
	for _, s := range []*site{alive, p.other(alive)} {
		for _, name := range sortedKeys(s.boxes) {
			if box := s.boxes[name]; box.Good {
				list = append(list, located{s.boxFile(name), name, s == alive, box})
			}
		}
	}
	return list
}

func (p *Project) other(s *site) *site {
	if s == &p.sites[0] {
		return &p.sites[1]
	}
	return &p.sites[0]
}

// Reads reports whether the last scan read the file (relative to the project). It returns no findings, because the
// snapshot contains them all.
func (p *Project) Reads(file string) (fields []protocol.Finding, read bool) {
	rel, inside := strings.CutPrefix(file, Base+"/")
	for i := range p.sites {
		s := &p.sites[i]
		read = read || rel == s.queueFile() || rel == s.boardFile() || path.Dir(rel) == s.mailDir() && s.boxes[path.Base(rel)] != nil
	}
	return nil, inside && (read || rel == pidFile)
}
