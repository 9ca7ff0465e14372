package handoffs

import (
	"bytes"
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
	currentAgent string
	lastHandoff  string
	iteration    int64
	hasIteration bool
	agents       []agentEntry // by name
	locks        []lockEntry  // by resource
	findings     folder.Findings
}

type workflow struct {
	id, kind, spec string
	status         string // steward's own key: how it ended; "" while it runs
	started        jsonfile.Stated
}

// running reports whether a workflow runs.
// See docs/decisions.md, "A finished workflow stays in current_workflow, with a status".
func (w *workflow) running() bool { return (w.id != "" || w.kind != "") && w.status == "" }

// agentEntry is an agent's entry.
type agentEntry struct {
	name, status, complaint string
	last                    jsonfile.Stated // last_active
	sum                     jsonfile.Sum    // of the entry's meaning
}

// lockEntry is a lock's entry (protocol 001, Lock Protocol).
type lockEntry struct {
	resource, agent   string
	acquired, expires time.Time
	zoneless          bool   // its times name no zone
	fence             uint64 // fencing token of an entry that mirrors a lock granted by steward; 0: the agent's own
	sum               string // of the entry's meaning
	sign              string // changes when the agent does something, but not when steward renews its own entry
}

// lock returns the entry as a lock.
func (e *lockEntry) lock() protocol.Lock {
	return protocol.Lock{Resource: e.resource, Holder: e.agent, Acquired: e.acquired, Expires: e.expires, Zoneless: e.zoneless, Fence: e.fence,
		Ref: protocol.Ref{Path: stateFile, Sum: e.sum}}
}

// maxEntries bounds the agents, and the locks, of one state file.
const maxEntries = 500

func isOurs(o jsonfile.Object) bool {
	return o.Get("locks").Kind() == "object" || o.Get("agents").Kind() == "object"
}

// mentionsOurs reports whether an unparsable text contains keys of this protocol.
func mentionsOurs(text []byte) bool {
	return bytes.Contains(text, []byte(`"locks"`)) || bytes.Contains(text, []byte(`"agents"`))
}

func decodeState(o jsonfile.Object) state {
	if !isOurs(o) {
		return state{}
	}
	s := state{ours: true, currentAgent: text(o, "current_agent", 100), lastHandoff: text(o, "last_handoff", 200)}
	if v := o.Get("iteration"); v.Kind() != "missing" && v.Kind() != "null" {
		n, ok := v.Int()
		s.iteration, s.hasIteration = n, ok.OK()
		if !ok.OK() {
			s.findings.Schema(protocol.Low, "iteration", "must be a whole number")
		}
	}
	if w, ok := o.Object("current_workflow"); ok.OK() {
		s.workflow = workflow{id: text(w, "id", 200), kind: text(w, "type", 100), spec: text(w, "spec", maxText), started: w.FirstStated("started")}
		if status := text(w, "status", 40); ended(status) {
			s.workflow.status = status
		}
	}
	c := &s.findings
	for _, key := range []string{"agents", "locks"} {
		if kind := o.Get(key).Kind(); kind != "object" {
			c.Schema(protocol.Low, key, "must be an object, is %s", kind)
		}
	}
	s.agents = decodeEntries(o, "agents", c, decodeAgent)
	s.locks = decodeEntries(o, "locks", c, decodeLock)
	slices.SortFunc(s.agents, func(a, b agentEntry) int { return strings.Compare(a.name, b.name) })
	slices.SortFunc(s.locks, func(a, b lockEntry) int { return strings.Compare(a.resource, b.resource) })
	return s
}

// decodeEntries reads the entries of an object.
func decodeEntries[T any](o jsonfile.Object, key string, c *folder.Findings,
	decode func(v jsonfile.Value, name, field string, c *folder.Findings) (T, bool)) (list []T) {
	entries, _ := o.Object(key)
	for i, name := range entries.Keys() {
		if i >= maxEntries {
			c.Schema(protocol.Medium, key, "has over %d entries; the others are ignored", maxEntries)
			break
		}
		if e, ok := decode(entries.Get(name), name, key+"."+folder.Line(name, 60), c); ok {
			list = append(list, e)
		}
	}
	return list
}

func decodeAgent(v jsonfile.Value, name, field string, c *folder.Findings) (a agentEntry, ok bool) {
	if !usable(name) || !plain(name) {
		c.Schema(protocol.Medium, field, "is not a valid agent name")
		return a, false
	}
	a = agentEntry{name: name, sum: v.Meaning()}
	o, p := v.Object()
	if !p.OK() {
		c.Schema(protocol.Low, field, "must be an object, is %s", v.Kind())
		word, p := v.Text() // "builder": "active"
		a.status = strings.ToLower(folder.Line(word, 40))
		return a, p.OK()
	}
	a.status, a.complaint = strings.ToLower(text(o, "status", 40)), first(o, maxText, "error", "last_error")
	if a.last, p = o.Stated("last_active"); p == jsonfile.Wrong {
		c.Schema(protocol.Low, field+".last_active", "is not a time")
	}
	c.Read(o, &struct {
		Status string `json:"status" check:"required"`
	}{})
	return a, true
}

var holderKeys = []string{"agent", "owner", "holder"}

// decodeLock reads a lock. It skips the values that a client following the document treats as no lock (null, false, 0,
// "").
func decodeLock(v jsonfile.Value, resource, field string, c *folder.Findings) (l lockEntry, ok bool) {
	o, p := v.Object()
	switch {
	case slices.Contains([]string{"null", "false", "0", `""`}, string(v.Raw())):
		return l, false
	case !plain(resource):
		c.Schema(protocol.Medium, field, "is not a valid resource name")
		return l, false
	case !p.OK():
		c.Schema(protocol.Medium, field, "must be an object, is %s", v.Kind())
		return l, false
	}
	acquired, expires := o.FirstStated("acquired", "acquired_at"), o.FirstStated("expires", "expires_at")
	l = lockEntry{resource: resource, agent: first(o, 100, holderKeys...), acquired: acquired.At, expires: expires.At,
		zoneless: acquired.Zoneless || expires.Zoneless, fence: fenceOf(o), sum: string(v.Meaning())}
	if l.agent == "" {
		c.Schema(protocol.Medium, field, "names no agent: its holder cannot be checked")
		return l, false
	}
	l.sign = signOf(o, l.sum)
	return l, true
}

// working reports whether the status says that the agent is working. An unknown status counts as working only for an
// agent with a last_active time.
func (a *agentEntry) working() bool {
	switch a.status {
	case "active", "working", "in_progress", "busy", "running":
		return true
	case "", "stopped", "offline", "inactive", "paused", "pending", "blocked", "disabled", "unknown", "none":
		return false
	}
	return !a.idle() && !a.failed() && !a.last.At.IsZero()
}

// idle reports whether the agent is idle as the protocol intends, until it is activated (protocol 001, Agent States).
func (a *agentEntry) idle() bool {
	return a.status == "idle" || a.status == "ready" || a.status == "waiting" || a.completed()
}

func (a *agentEntry) completed() bool {
	return a.status == "completed" || a.status == "complete" || a.status == "done" || a.status == "finished"
}

func (a *agentEntry) failed() bool { return a.status == "error" || a.status == "failed" }

// event returns the event that a change to the agent's status means; "" for none.
func (a *agentEntry) event() string {
	switch {
	case a.working():
		return eventStarted
	case a.completed():
		return eventCompleted
	case a.failed():
		return eventError
	}
	return ""
}

// agent returns an agent's entry, or nil.
func (s *state) agent(name string) *agentEntry {
	i, ok := slices.BinarySearchFunc(s.agents, name, func(a agentEntry, name string) int { return strings.Compare(a.name, name) })
	if !ok {
		return nil
	}
	return &s.agents[i]
}

// lock returns a resource's entry, or nil.
func (s *state) lock(resource string) *lockEntry {
	i := slices.IndexFunc(s.locks, func(l lockEntry) bool { return l.resource == resource })
	if i < 0 {
		return nil
	}
	return &s.locks[i]
}
