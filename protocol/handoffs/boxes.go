package handoffs

import (
	"cmp"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// box is where a message lies (protocol 001, Handoff Storage), in the order of its progress.
type box uint8

const (
	flat box = iota // directly in handoffs/, as some clients do: the status replaces the folder
	pending
	accepted
	completed
)

// places are read in this order, so that a message moved during a scan is seen at least once.
var places = [...]box{flat, pending, accepted, completed}

func (at box) String() string { return [...]string{"", "pending", "accepted", "completed"}[at] }

// dir returns the folder, relative to Base.
func (at box) dir() string { return path.Join(boxDir, at.String()) }

// placeOf splits the path of a message, relative to Base.
func placeOf(file string) (at box, name string, ok bool) {
	dir, name := path.Split(file)
	for _, at := range places {
		if dir == at.dir()+"/" && isMessage(name) {
			return at, name, true
		}
	}
	return 0, "", false
}

func isMessage(name string) bool {
	return strings.HasSuffix(name, ".json") && !strings.HasPrefix(name, ".") && name != ".json"
}

// note is a message still of interest: it is open, or ended recently.
type note struct {
	file string
	at   box
	jsonfile.Reading[message]
	appeared time.Time // when it arrived in this place, by the file system's clock
	noticed  time.Time // the same, by steward's clock
	early    bool      // it was there at the first scan
	quiet    bool      // it was closed before: its past events are not news
}

// counts reports whether the file is usable and a message at all: other tools may keep files in handoffs/ itself.
func (n *note) counts() bool { return n.Good && !n.alien() }

func (n *note) alien() bool { return n.at == flat && n.Value.alien }

// where returns the place that counts: the folder, or the status of a message directly in handoffs/.
func (n *note) where() box {
	if n.at != flat {
		return n.at
	}
	switch n.Value.status {
	case "accepted", "in_progress", "active", "working":
		return accepted
	case "completed", "complete", "done", "finished", "rejected", "failed", "cancelled":
		return completed
	}
	return pending
}

// ended returns when the handoff ended, by its own timestamp or else by the file system's.
func (n *note) ended() time.Time {
	if at := n.Value.completedAt.By(n.appeared); !at.IsZero() {
		return at
	}
	if n.at == flat {
		return n.Stamp.ModTime()
	}
	return n.appeared
}

// accepted returns when the handoff was accepted, by its own timestamp or else by the file system's.
func (n *note) accepted() time.Time {
	if at := n.Value.acceptedAt.By(n.appeared); !at.IsZero() {
		return at
	}
	return n.appeared
}

// boxes is the state of the message folders.
type boxes struct {
	notes  map[string]*note   // by file
	most   int                // largest number of notes since the map was made
	closed map[string]*closed // by file
	stamps map[string]jsonfile.Stamp
	dirty  map[string]bool      // names that Apply has changed since the last scan
	sent   map[string]string    // the newest message of each agent
	took   map[string]time.Time // when each agent last took a handoff
	tally  counts
}

func newBoxes() boxes {
	return boxes{notes: map[string]*note{}, closed: map[string]*closed{}, stamps: map[string]jsonfile.Stamp{}, dirty: map[string]bool{},
		sent: map[string]string{}, took: map[string]time.Time{}}
}

// readBoxes reads what may have changed: everything open in a full scan, otherwise the hinted messages and those that had
// not settled.
func (p *Project) readBoxes(full bool, names map[string]bool) {
	for name := range p.dirty {
		names[name] = true
	}
	clear(p.dirty)
	if full {
		for _, at := range places {
			p.readPlace(at)
		}
	} else {
		for file, n := range p.notes {
			if !n.AtRest() || p.Patience.Has(file) {
				names[path.Base(file)] = true
			}
		}
	}
	for name := range names {
		for _, at := range places {
			p.revisit(at, at.dir()+"/"+name)
		}
	}
}

// readPlace lists one folder if entries appeared or disappeared, and refreshes its messages.
func (p *Project) readPlace(at box) {
	dir := at.dir()
	st, err := p.Root.Stat(dir)
	if folder.Missing(err) {
		st, err = jsonfile.Stamp{}, nil
	}
	if known, ok := p.stamps[dir]; err != nil || !ok || known != st {
		p.census(at)
	}
	for file, n := range p.notes {
		if n.at == at {
			p.refresh(file)
		}
	}
}

// census adopts a folder's new messages, and drops closed messages that have left it.
func (p *Project) census(at box) {
	dir := at.dir()
	files, st, err := p.Root.List(dir)
	delete(p.stamps, dir)
	switch {
	case folder.Missing(err):
		p.Patience.Clear(dir)
		p.stamps[dir] = jsonfile.Stamp{}
	case err != nil:
		p.Patience.Unreadable(dir, err) // keep the last good reading
		return
	default:
		p.Patience.Clear(dir)
		if st.Settled(p.Now) {
			p.stamps[dir] = st
		}
	}
	present := make(map[string]bool, len(files))
	var fresh []string
	for _, name := range files {
		file := dir + "/" + name
		if !isMessage(name) {
			continue
		}
		present[file] = true
		if p.notes[file] == nil && p.closed[file] == nil {
			fresh = append(fresh, file)
		}
	}
	for file, c := range p.closed {
		if c.at == at && !present[file] {
			p.drop(file)
		}
	}
	if at == completed && p.began.IsZero() {
		fresh = p.history(fresh)
	}
	for _, file := range fresh {
		p.adopt(at, file)
	}
}

// How many ended messages stay listed, how long each stays at least, and how many are read for the figures.
const (
	keepEnded = 100
	keepAtAll = 10 * time.Second
	keepTold  = 2000
)

// history sorts the messages found in completed/ at the first scan. It lists the newest, reads some more once for the
// figures, and skips the rest.
func (p *Project) history(files []string) (listed []string) {
	type old struct {
		file string
		st   jsonfile.Stamp
	}
	all := make([]old, 0, len(files))
	for _, file := range files {
		st, err := p.Root.Stat(file)
		if err != nil || !st.Mode.IsRegular() {
			listed = append(listed, file)
			continue
		}
		all = append(all, old{file, st})
	}
	slices.SortFunc(all, func(a, b old) int {
		return cmp.Or(came(b.st).Compare(came(a.st)), strings.Compare(a.file, b.file))
	})
	for i, o := range all {
		switch {
		case i < keepEnded && !came(o.st).Before(p.Since):
			listed = append(listed, o.file)
		case i < keepTold:
			n := p.newNote(completed, o.file)
			p.load(n)
			p.close(n)
		default:
			p.closed[o.file] = &closed{at: completed, mtime: o.st.MtimeNs, size: o.st.Size}
		}
	}
	return listed
}

// came returns when a file arrived in its place: a rename updates the change time, where the system has one.
func came(st jsonfile.Stamp) time.Time {
	if st.CtimeNs != 0 {
		return time.Unix(0, st.CtimeNs)
	}
	return st.ModTime()
}

func (p *Project) newNote(at box, file string) *note {
	return &note{file: file, at: at, noticed: p.Now, early: p.began.IsZero()}
}

// adopt starts to track a message, without reading it yet.
func (p *Project) adopt(at box, file string) *note {
	n := p.newNote(at, file)
	p.notes[file] = n
	return n
}

// load reads a message if it changed.
func (p *Project) load(n *note) {
	read := jsonfile.Load(p.Root, &p.Patience, &n.Reading, n.file, maxFile, func(o jsonfile.Object) message { return decodeMessage(o, n.file) })
	if !read {
		return
	}
	if n.appeared.IsZero() {
		n.appeared = came(n.Stamp)
		if n.appeared.After(p.Now) {
			n.appeared = p.Now
		}
	}
	if id := n.Value.id; !usable(id) && !n.alien() {
		p.Patience.Refuse(n.file, "\""+folder.Line(id, 60)+"\" is not an id for a handoff: it cannot be used as a file name", "use a UUID")
	} else {
		p.Patience.Clear(n.file)
	}
}

// refresh rereads a message, and forgets it if its file is gone.
func (p *Project) refresh(file string) {
	n := p.notes[file]
	before, stopped := n.Sum, n.Value.stopped()
	p.load(n)
	if !n.There {
		delete(p.notes, file)
		return
	}
	if n.Sum != before && (n.at == flat || stopped) {
		n.appeared, n.noticed = came(n.Stamp), p.Now // the new content is a new stage
	}
}

// revisit handles a hint for a message. It rereads a closed message only if its file has changed.
func (p *Project) revisit(at box, file string) {
	if p.notes[file] != nil {
		p.refresh(file)
		return
	}
	st, err := p.Root.Stat(file)
	quiet := false
	if c := p.closed[file]; c != nil {
		if err == nil && st.MtimeNs == c.mtime && st.Size == c.size {
			return
		}
		p.drop(file)
		quiet = true
	}
	if folder.Missing(err) {
		p.Patience.Clear(file)
		return
	}
	p.adopt(at, file).quiet = quiet
	p.refresh(file)
}

// retire closes messages that ended before the observed period, and the oldest ended messages beyond keepEnded.
func (p *Project) retire() {
	var ended []*note
	p.most = max(p.most, len(p.notes))
	for _, n := range p.notes {
		switch {
		case !n.counts() || n.where() != completed || !n.early && p.Now.Sub(n.noticed) <= keepAtAll:
		case n.ended().Before(p.Since):
			p.close(n)
		default:
			ended = append(ended, n)
		}
	}
	if len(ended) > keepEnded {
		slices.SortFunc(ended, func(a, b *note) int { return cmp.Or(b.ended().Compare(a.ended()), strings.Compare(a.file, b.file)) })
		for _, n := range ended[keepEnded:] {
			p.close(n)
		}
	}
	if p.most > 4*len(p.notes)+keepEnded { // a map does not shrink by itself
		small := make(map[string]*note, len(p.notes))
		for file, n := range p.notes {
			small[file] = n
		}
		p.notes, p.most = small, len(small)
	}
}

// Reads reports whether this protocol reads the file (relative to the project), and returns the findings about its own
// fields. It reads even a message that ended long ago.
func (p *Project) Reads(file string) (fields []protocol.Finding, read bool) {
	rel, inside := strings.CutPrefix(file, Base+"/")
	at, _, ok := placeOf(rel)
	if !inside || !ok || p.Root == nil {
		return nil, inside && (rel == stateFile && p.state.Good && p.state.Value.ours || rel == logFile)
	}
	n := p.notes[rel]
	if n == nil {
		n = p.newNote(at, rel)
		p.load(n)
	}
	for _, i := range n.Value.issues {
		f := i.about(protocol.Subject{Kind: protocol.KindTask, ID: n.Value.id})
		f.Path = file
		fields = append(fields, f)
	}
	return fields, n.Good && !n.alien()
}
