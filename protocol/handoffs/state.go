package handoffs

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// state is the shared state file (protocol 001, Shared State File), as far as steward reads it. A document with neither
// locks nor agents is not this protocol's: other tools use the same file name.
type state struct {
	ours         bool
	workflow     workflow
	agent        string // current_agent
	last         string // last_handoff
	iteration    int64
	hasIteration bool
	agents       []member // by name
	locks        []claim  // by resource
	issues       []issue
}

type workflow struct {
	id, kind, spec string
	started        jsonfile.Stated
}

// member is an agent's entry.
type member struct {
	name, status, complaint string
	last                    time.Time
	zoneless                bool         // last names no zone
	sum                     jsonfile.Sum // of the entry's meaning
}

// claim is a lock's entry (protocol 001, Lock Protocol).
type claim struct {
	resource, agent   string
	acquired, expires time.Time
	zoneless          bool   // its times name no zone
	fence             uint64 // fencing token of an entry that mirrors a lock granted by steward; 0: the agent's own
	sum               string // of the entry's meaning
	sign              string // changes when the agent does something, but not when steward renews its own entry
}

// meaning returns the sum of a value's content, regardless of formatting. A client that rewrites the whole file in its
// own style does not change the other entries that it copies.
func meaning(v jsonfile.Value) jsonfile.Sum {
	d := json.NewDecoder(bytes.NewReader(v.Raw()))
	d.UseNumber()
	var any any
	if err := d.Decode(&any); err != nil {
		return jsonfile.SumOf(v.Raw())
	}
	plain, err := json.Marshal(any)
	if err != nil {
		return jsonfile.SumOf(v.Raw())
	}
	return jsonfile.SumOf(plain)
}

// maxEntries bounds the agents, and the locks, of one state file.
const maxEntries = 500

func isOurs(o jsonfile.Object) bool {
	return o.Get("locks").Kind() == "object" || o.Get("agents").Kind() == "object"
}

// readState brings the state file up to date.
func (p *Project) readState() {
	jsonfile.LoadText(p.Root, &p.Patience, &p.state, stateFile, maxFile, func(doc []byte) (state, error) {
		v, err := jsonfile.ParseValue(doc)
		if err != nil {
			p.claimed = bytes.Contains(doc, []byte(`"locks"`)) || bytes.Contains(doc, []byte(`"agents"`))
			return state{}, err
		}
		o, _ := v.Object()
		return decodeState(o), nil
	})
}

// theState returns the state file if it is this protocol's.
func (p *Project) theState() (*state, bool) {
	if !p.state.Good || !p.state.Value.ours {
		return &state{}, false
	}
	return &p.state.Value, true
}

func decodeState(o jsonfile.Object) state {
	if !isOurs(o) {
		return state{}
	}
	c := &check{}
	s := state{ours: true, agent: text(o, "current_agent", 100), last: text(o, "last_handoff", 200)}
	if v := o.Get("iteration"); v.Kind() != "missing" && v.Kind() != "null" {
		n, ok := v.Int()
		s.iteration, s.hasIteration = n, ok.OK()
		if !ok.OK() {
			c.add(protocol.Low, "iteration", "must be a whole number")
		}
	}
	if w, ok := o.Object("current_workflow"); ok.OK() {
		s.workflow = workflow{id: text(w, "id", 200), kind: text(w, "type", 100), spec: text(w, "spec", maxText)}
		s.workflow.started = w.FirstStated("started")
	}
	for _, key := range []string{"agents", "locks"} {
		if kind := o.Get(key).Kind(); kind != "object" {
			c.add(protocol.Low, key, "must be an object, is %s", kind)
		}
	}
	agents, _ := o.Object("agents")
	s.agents = decodeMembers(agents, c)
	locks, _ := o.Object("locks")
	s.locks = decodeLocks(locks, c)
	s.issues = c.issues
	return s
}

func decodeMembers(agents jsonfile.Object, c *check) []member {
	var list []member
	for i, name := range agents.Keys() {
		v, field := agents.Get(name), "agents."+folder.Line(name, 60)
		switch o, ok := v.Object(); {
		case i >= maxEntries:
			c.add(protocol.Medium, "agents", "has over %d entries; the others are passed over", maxEntries)
			return list
		case !usable(name) || !plain(name):
			c.add(protocol.Medium, field, "is not a name for an agent")
		case !ok.OK():
			if word, ok := v.Text(); ok.OK() { // "builder": "active"
				list = append(list, member{name: name, status: strings.ToLower(folder.Line(word, 40)), sum: meaning(v)})
			}
			c.add(protocol.Low, field, "must be an object, is %s", v.Kind())
		default:
			m := member{name: name, status: strings.ToLower(text(o, "status", 40)), sum: meaning(v)}
			m.last, _ = o.Time("last_active")
			m.zoneless = o.Get("last_active").Zoneless()
			if _, ok := o.Time("last_active"); ok == jsonfile.Wrong {
				c.add(protocol.Low, field+".last_active", "is not a time")
			}
			m.complaint = first(o, maxText, "error", "last_error")
			c.need(o.Get("status"), field+".status", "string")
			list = append(list, m)
		}
	}
	slices.SortFunc(list, func(a, b member) int { return strings.Compare(a.name, b.name) })
	return list
}

// decodeLocks reads the locks. It skips the values that a client following the document treats as no lock (null, false,
// 0, "").
func decodeLocks(locks jsonfile.Object, c *check) []claim {
	var list []claim
	for i, resource := range locks.Keys() {
		v, field := locks.Get(resource), "locks."+folder.Line(resource, 60)
		o, ok := v.Object()
		k := claim{resource: resource}
		raw := string(v.Raw())
		switch {
		case i >= maxEntries:
			c.add(protocol.Medium, "locks", "has over %d entries; the others are passed over", maxEntries)
			return list
		case raw == "null" || raw == "false" || raw == "0" || raw == `""`:
			continue
		case !plain(resource):
			c.add(protocol.Medium, field, "is not a name for a resource")
			continue
		case ok.OK():
			k.agent = first(o, 100, "agent", "owner", "holder")
			k.acquired = firstTime(o, "acquired", "acquired_at")
			k.expires = firstTime(o, "expires", "expires_at")
			k.zoneless = zoneless(o, "acquired", "acquired_at", "expires", "expires_at")
			k.fence = fenceOf(o)
		default:
			c.add(protocol.Medium, field, "must be an object, is %s", v.Kind())
			continue
		}
		if k.agent == "" {
			c.add(protocol.Medium, field, "names no agent: nobody can say whether its holder lives")
			continue
		}
		k.sum = string(meaning(v))
		k.sign = signOf(o, k.sum)
		list = append(list, k)
	}
	slices.SortFunc(list, func(a, b claim) int { return strings.Compare(a.resource, b.resource) })
	return list
}

func firstTime(o jsonfile.Object, keys ...string) time.Time {
	for _, key := range keys {
		if at, ok := o.Time(key); ok.OK() {
			return at
		}
	}
	return time.Time{}
}

// zoneless reports whether one of the times names no zone.
func zoneless(o jsonfile.Object, keys ...string) bool {
	return slices.ContainsFunc(keys, func(key string) bool { return o.Get(key).Zoneless() })
}

// working reports whether the status says that the agent is working. An unknown status counts as working only for an
// agent with a last_active time.
func (m *member) working() bool {
	switch m.status {
	case "active", "working", "in_progress", "busy", "running":
		return true
	case "", "idle", "completed", "complete", "done", "finished", "stopped", "offline", "inactive", "ready", "waiting", "paused", "pending",
		"blocked", "error", "failed", "disabled", "unknown", "none":
		return false
	}
	return !m.last.IsZero()
}

// rests reports whether the agent is idle as the protocol intends, until it is activated (protocol 001, Agent States).
func (m *member) rests() bool {
	switch m.status {
	case "idle", "ready", "waiting":
		return true
	}
	return m.completed()
}

func (m *member) completed() bool {
	return m.status == "completed" || m.status == "complete" || m.status == "done" || m.status == "finished"
}

func (m *member) failed() bool { return m.status == "error" || m.status == "failed" }

func (s *state) member(name string) (*member, bool) {
	i, ok := slices.BinarySearchFunc(s.agents, name, func(m member, name string) int { return strings.Compare(m.name, name) })
	if !ok {
		return nil, false
	}
	return &s.agents[i], true
}
