package handoffs

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// locks lists the locks of the state file (protocol 001, Lock Protocol). They do not ensure mutual exclusion: clients
// that follow the document occasionally overlap. The policy decides which locks may be released.
func (p *Project) locks(s *state) (list []protocol.Lock, wrong []protocol.Finding) {
	for i := range s.locks {
		k := &s.locks[i]
		l := protocol.Lock{Resource: k.resource, Holder: k.agent, Acquired: k.acquired, Expires: k.expires, Zoneless: k.zoneless,
			Ref: protocol.Ref{Path: stateFile, Sum: k.sum}}
		if p.granted(k, &l) {
			list = append(list, l)
			continue
		}
		list = append(list, l)
		if _, known := s.member(k.agent); !known {
			wrong = append(wrong, issue{codeLock, "agent", "held by " + k.agent + ", whom the state file does not list", protocol.Low}.
				about(protocol.Subject{Kind: protocol.KindLock, ID: k.resource}))
		}
	}
	return list, wrong
}

// unlock removes one lock's entry if it is the judged one, and changes no other byte.
func (p *Project) unlock(c protocol.Change) error {
	resource := c.Subject.ID
	if c.Subject.Kind != protocol.KindLock || c.Ref.Sum == "" {
		return folder.Moved("%s is not a lock that was judged", c.Subject)
	}
	blob, err := p.Root.Read(stateFile, maxFile)
	if folder.Missing(err) {
		return nil // no file, no lock
	}
	if err != nil {
		return err
	}
	o, err := jsonfile.Parse(blob.Data)
	if err != nil {
		return err
	}
	if sets, err := dropLock(o, resource, c.Ref.Sum); err != nil || len(sets) == 0 {
		return err
	}
	if p.isHeld(o, resource) {
		return folder.Moved("the lock on %s is held by a living process", folder.Line(resource, 100))
	}
	locks, _ := o.Object("locks")
	if err := p.bury(resource, locks.Get(resource), c); err != nil {
		return err
	}
	return p.editState(func(o jsonfile.Object) ([]jsonfile.Set, error) { return dropLock(o, resource, c.Ref.Sum) })
}

// dropLock returns the edit that removes a lock, if the lock still has that sum. A missing lock needs no edit.
func dropLock(o jsonfile.Object, resource, sum string) ([]jsonfile.Set, error) {
	if !isOurs(o) {
		return nil, folder.Moved("the state file has another shape now")
	}
	locks, _ := o.Object("locks")
	v := locks.Get(resource)
	switch {
	case v.Kind() == "missing":
		return nil, nil
	case string(meaning(v)) != sum:
		return nil, folder.Moved("the lock on %s was taken or renewed meanwhile", folder.Line(resource, 100))
	}
	return []jsonfile.Set{jsonfile.Remove("locks", resource)}, nil
}

// tombs are the locks that steward released, by their previous holders. They still count as signs of life: a release by
// steward must not look like an action of the holder.
type tombs struct {
	read    bool
	holders map[string][]string
	last    map[string]string    // sum per resource
	broken  map[string]time.Time // when steward last released an agent's lock, per resource
	took    map[string]time.Time // when the agent of a requeued handoff last took a handoff
}

const maxTombs = 20 // per holder

func newTombs() tombs {
	return tombs{holders: map[string][]string{}, last: map[string]string{}, broken: map[string]time.Time{}, took: map[string]time.Time{}}
}

// tombstone is a line of steward/tombstones.jsonl: a lock about to be removed.
type tombstone struct {
	At       string          `json:"at"`
	Resource string          `json:"resource"`
	Lock     json.RawMessage `json:"lock"`
	Sum      string          `json:"sum"`
	Reason   string          `json:"reason"`
	Why      string          `json:"why"`
}

// bury records a lock before it is removed.
func (p *Project) bury(resource string, lock jsonfile.Value, c protocol.Change) error {
	p.readTombs()
	sum := string(meaning(lock))
	if p.tombs.last[resource] == sum {
		return nil // recorded before a crash
	}
	var raw bytes.Buffer
	if err := json.Compact(&raw, lock.Raw()); err != nil {
		return err
	}
	line, err := json.Marshal(tombstone{At: jsonfile.FormatTime(p.Now), Resource: resource, Lock: raw.Bytes(), Sum: sum, Reason: string(c.Reason), Why: c.Why})
	if err != nil {
		return err
	}
	p.rotateTombs()
	if err := p.Root.Append(tombFile, line); err != nil {
		return err
	}
	p.tombs.take(line)
	return nil
}

// putBack is a line of steward/tombstones.jsonl: a handoff about to be requeued. Its acceptance remains a sign of the
// agent's life at that time, and at no other.
type putBack struct {
	At       string `json:"at"`
	Handoff  string `json:"handoff"`
	Agent    string `json:"agent"`
	Accepted string `json:"accepted"`
}

// remember records when an agent took the handoff that is about to be requeued.
func (p *Project) remember(id, agent string, at time.Time) error {
	p.readTombs()
	if known := p.took[agent]; known.After(at) {
		at = known
	}
	at = at.Truncate(time.Second)
	if !usable(agent) || !at.After(p.tombs.took[agent]) {
		return nil // recorded before a crash, or a newer time is known
	}
	line, err := json.Marshal(putBack{At: jsonfile.FormatTime(p.Now), Handoff: id, Agent: agent, Accepted: jsonfile.FormatTime(at)})
	if err != nil {
		return err
	}
	p.rotateTombs()
	if err := p.Root.Append(tombFile, line); err != nil {
		return err
	}
	p.tombs.take(line)
	return nil
}

// readTombs reads the record once; after that only Apply adds to it.
func (p *Project) readTombs() {
	if p.tombs.read {
		return
	}
	p.tombs.read = true
	for _, file := range []string{oldTombFile, tombFile} {
		st, err := p.Root.Stat(file)
		if err != nil {
			continue
		}
		data, _, err := p.Root.ReadAt(file, max(0, st.Size-maxFile), maxFile)
		if err != nil {
			p.tombs.read = false
			return
		}
		for line := range bytes.Lines(data) {
			p.tombs.take(bytes.TrimSpace(line))
		}
	}
}

// rotateTombs moves a full record over the older record, which is no longer read. A line that another process appends
// meanwhile goes to the file that it has open.
func (p *Project) rotateTombs() {
	if st, err := p.Root.Stat(tombFile); err != nil || st.Size < maxFile {
		return
	}
	if err := p.Root.Remove(oldTombFile); err == nil || folder.Missing(err) {
		_ = p.Root.Rename(tombFile, oldTombFile)
	}
}

func (t *tombs) take(line []byte) {
	o, err := jsonfile.Parse(line)
	if err != nil {
		return
	}
	if at, ok := o.Time("accepted"); ok.OK() {
		advance(t.took, text(o, "agent", 200), at)
		return
	}
	lock, _ := o.Object("lock")
	resource, _ := o.String("resource")
	holder, sum := first(lock, 100, "agent", "owner", "holder"), text(o, "sum", 64)
	if holder == "" || sum == "" {
		return
	}
	t.last[resource] = sum
	if at, ok := o.Time("at"); ok.OK() && fenceOf(lock) == 0 {
		advance(t.broken, resource, at)
	}
	sum = signOf(lock, sum)
	if list := t.holders[holder]; !slices.Contains(list, sum) {
		list = append(slices.Clip(list), sum)
		t.holders[holder] = list[max(0, len(list)-maxTombs):]
	}
}

// claims returns the signs of an agent's locks, including locks that steward released.
func (p *Project) claims(s *state, agent string) []string {
	list := slices.Clone(p.tombs.holders[agent])
	for i := range s.locks {
		if k := &s.locks[i]; k.agent == agent {
			list = append(list, k.sign)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// capped returns a claimed time, at most now.
func capped(at, now time.Time) time.Time {
	if at.After(now) {
		return now
	}
	return at
}
