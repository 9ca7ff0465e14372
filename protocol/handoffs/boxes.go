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

// box is where a message lies (protocol 001, Handoff Storage), in the order of its way.
type box uint8

const (
	flat box = iota // in handoffs/ itself, as some do: its status says what the folder else would
	pending
	accepted
	completed
)

// places are read in this order, so that a message which moves on meanwhile is seen at least once.
var places = [...]box{flat, pending, accepted, completed}

func (at box) String() string { return [...]string{"", "pending", "accepted", "completed"}[at] }

// dir is the folder, relative to Base.
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

// note is a message that somebody may still ask about: it is open, or ended a short while ago.
type note struct {
	file string
	at   box
	jsonfile.Reading[message]
	appeared time.Time // when it came to this place, by the file system's clock
	noticed  time.Time // by ours
	early    bool      // it lay there at the first look
	quiet    bool      // it had been closed before: nothing of its past is news
}

// counts reports whether it can be used, and is a message at all: others may keep files in handoffs/ itself.
func (n *note) counts() bool { return n.Good && !n.alien() }

func (n *note) alien() bool { return n.at == flat && n.Value.alien }

// where is the place that counts: the folder, or the status of a message that lies in none.
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

// ended is when it came to its end, by its own words or by the file system's.
func (n *note) ended() time.Time {
	if at := n.Value.completedAt.By(n.appeared); !at.IsZero() {
		return at
	}
	if n.at == flat {
		return n.Stamp.ModTime()
	}
	return n.appeared
}

// accepted is when it was taken in hand, by its own words or by the file system's.
func (n *note) accepted() time.Time {
	if at := n.Value.acceptedAt.By(n.appeared); !at.IsZero() {
		return at
	}
	return n.appeared
}

// boxes is what was read of the folders.
type boxes struct {
	notes  map[string]*note   // by file
	most   int                // notes there were since the map was made
	closed map[string]*closed // by file
	stamps map[string]jsonfile.Stamp
	dirty  map[string]bool      // names that Apply has moved since the last look
	sent   map[string]string    // the newest message of each agent
	took   map[string]time.Time // when each agent last took something in hand
	tally  counts
}

func newBoxes() boxes {
	return boxes{notes: map[string]*note{}, closed: map[string]*closed{}, stamps: map[string]jsonfile.Stamp{}, dirty: map[string]bool{},
		sent: map[string]string{}, took: map[string]time.Time{}}
}

// readBoxes reads what may have changed: everything open in a full look, else what the hints name and what had not
// settled.
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

// readPlace lists one folder, when entries have come or gone, and refreshes what it holds.
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

// census takes up what is new in a folder, and forgets what has left it and is of no interest any more.
func (p *Project) census(at box) {
	dir := at.dir()
	files, st, err := p.Root.List(dir)
	delete(p.stamps, dir)
	switch {
	case folder.Missing(err):
		p.Patience.Clear(dir)
		p.stamps[dir] = jsonfile.Stamp{}
	case err != nil:
		p.Patience.Unreadable(dir, err) // the last good reading stands
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

// How many ended messages stay listed, for how long each of them at least, and how many more are counted.
const (
	keepEnded = 100
	keepAtAll = 10 * time.Second
	keepTold  = 2000
)

// history sorts the messages that lay in completed/ when steward came: the newest ones are listed, more of them are
// read once for the figures, and the rest is passed over.
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

// came is when a file came to where it lies: a rename shows in the change time, where the system has one.
func came(st jsonfile.Stamp) time.Time {
	if st.CtimeNs != 0 {
		return time.Unix(0, st.CtimeNs)
	}
	return st.ModTime()
}

func (p *Project) newNote(at box, file string) *note {
	return &note{file: file, at: at, noticed: p.Now, early: p.began.IsZero()}
}

// adopt takes a message up, to be read.
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

// refresh reads a message again, and forgets one that has left.
func (p *Project) refresh(file string) {
	n := p.notes[file]
	before, stopped := n.Sum, n.Value.stopped()
	p.load(n)
	if !n.There {
		delete(p.notes, file)
		return
	}
	if n.Sum != before && (n.at == flat || stopped) {
		n.appeared, n.noticed = came(n.Stamp), p.Now // its content has moved it on
	}
}

// revisit takes a hint at a message. For a closed one it makes sure first that there is something new.
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

// retire closes what ended before history began, and the oldest of too many ended messages.
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
	if p.most > 4*len(p.notes)+keepEnded { // a map keeps the room that it once needed
		small := make(map[string]*note, len(p.notes))
		for file, n := range p.notes {
			small[file] = n
		}
		p.notes, p.most = small, len(small)
	}
}

// Reads reports whether the file (relative to the project) is one that this protocol reads, and what is wrong with its own
// fields. A message that ended long ago is read for it.
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
