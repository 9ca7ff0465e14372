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

// releases is the record of the locks that steward released, and of the handoffs that it requeued. A lock stays a sign of
// its holder's life, and so does the acceptance of a handoff: what steward does must not look like an action of the agent.
type releases struct {
	*source
	loaded  bool
	holders map[string][]string // the signs of the released locks, by their previous holders
	last    map[string]string   // sum of the last released lock per resource
	broken  times               // when steward last released an agent's lock, per resource
	took    times               // when the agent of a requeued handoff last took a handoff
}

const maxReleases = 20 // per holder

func newReleases(s *source) *releases {
	return &releases{source: s, holders: map[string][]string{}, last: map[string]string{}, broken: times{}, took: times{}}
}

// releasedLock is a line of the record: a lock about to be removed.
type releasedLock struct {
	At       string          `json:"at"`
	Resource string          `json:"resource"`
	Lock     json.RawMessage `json:"lock"`
	Sum      string          `json:"sum"`
	Reason   string          `json:"reason"`
	Why      string          `json:"why"`
}

// requeuedHandoff is a line of the record: a handoff about to be requeued. Its acceptance remains a sign of the agent's
// life at that time, and at no other.
type requeuedHandoff struct {
	At       string `json:"at"`
	Handoff  string `json:"handoff"`
	Agent    string `json:"agent"`
	Accepted string `json:"accepted"`
}

// addLock records a lock before it is removed.
func (r *releases) addLock(resource string, lock jsonfile.Value, c protocol.Change) error {
	r.read()
	sum := string(lock.Meaning())
	if r.last[resource] == sum {
		return nil // recorded before a crash
	}
	var raw bytes.Buffer
	if err := json.Compact(&raw, lock.Raw()); err != nil {
		return err
	}
	return r.write(releasedLock{At: jsonfile.FormatTime(r.Now), Resource: resource, Lock: raw.Bytes(), Sum: sum, Reason: string(c.Reason), Why: c.Why})
}

// addHandoff records when an agent took the handoff that is about to be requeued.
func (r *releases) addHandoff(id, agent string, at time.Time) error {
	r.read()
	at = at.Truncate(time.Second)
	if !usable(agent) || !at.After(r.took[agent]) {
		return nil // recorded before a crash, or a newer time is known
	}
	return r.write(requeuedHandoff{At: jsonfile.FormatTime(r.Now), Handoff: id, Agent: agent, Accepted: jsonfile.FormatTime(at)})
}

// write appends a line. A full record first moves over the older record, which is no longer read. A line that another
// process appends meanwhile goes to the file that it has open.
func (r *releases) write(entry any) error {
	line, err := json.Marshal(entry)
	if err != nil {
		return err
	}
	if st, err := r.Root.Stat(releasesFile); err == nil && st.Size >= maxFile {
		if err := r.Root.Remove(oldReleasesFile); err == nil || folder.Missing(err) {
			_ = r.Root.Rename(releasesFile, oldReleasesFile)
		}
	}
	if err := r.Root.Append(releasesFile, line); err != nil {
		return err
	}
	r.readLine(line)
	return nil
}

// read reads the record once; after that only Apply adds to it.
func (r *releases) read() {
	if r.loaded {
		return
	}
	for _, file := range []string{oldReleasesFile, releasesFile} {
		st, err := r.Root.Stat(file)
		if err != nil {
			continue
		}
		data, _, err := r.Root.ReadAt(file, max(0, st.Size-maxFile), maxFile)
		if err != nil {
			return
		}
		for line := range bytes.Lines(data) {
			r.readLine(bytes.TrimSpace(line))
		}
	}
	r.loaded = true
}

func (r *releases) readLine(line []byte) {
	o, err := jsonfile.Parse(line)
	if err != nil {
		return
	}
	if at, ok := o.Time("accepted"); ok.OK() {
		r.took.advance(text(o, "agent", 200), at)
		return
	}
	lock, _ := o.Object("lock")
	resource, _ := o.String("resource")
	holder, sum := first(lock, 100, holderKeys...), text(o, "sum", 64)
	if holder == "" || sum == "" {
		return
	}
	r.last[resource] = sum
	if at, ok := o.Time("at"); ok.OK() && fenceOf(lock) == 0 {
		r.broken.advance(resource, at)
	}
	sign := signOf(lock, sum)
	if list := r.holders[holder]; !slices.Contains(list, sign) {
		list = append(slices.Clip(list), sign)
		r.holders[holder] = list[max(0, len(list)-maxReleases):]
	}
}

// times holds one time per name. A time only advances.
type times map[string]time.Time

func (t times) advance(name string, at time.Time) {
	if old, known := t[name]; name != "" && at.After(old) && (known || len(t) < 2*maxEntries) {
		t[name] = at
	}
}

// signs are signs of the agents' life outside their own entries. What other agents do with a message, and its removal
// from the list, are no signs of life.
type signs struct {
	sent map[string]string // the newest message of each agent
	took times             // when each agent last took a handoff
}

func newSigns() *signs { return &signs{map[string]string{}, times{}} }

// addSent records a message as its sender's newest.
func (s *signs) addSent(m *handoffMessage) {
	newest := m.created.At.Format("20060102150405.000") + " " + m.id
	if m.from != "" && newest > s.sent[m.from] && len(s.sent) < 2*maxEntries {
		s.sent[m.from] = newest
	}
}

// addTaken records when an agent last took a handoff: the newest time at which a file arrived among the accepted ones, or
// changed there. The time only advances, so a handoff that leaves, or that steward requeues, is no sign of life.
func (s *signs) addTaken(h *handoff) {
	if h.where() != accepted {
		return
	}
	at := arrived(h.Stamp)
	if h.Stamp.CtimeNs == 0 && !h.early {
		at = h.noticed // without a change time, a rename leaves no trace in the file
	}
	s.took.advance(h.Value.to, at)
}
