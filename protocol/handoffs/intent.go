package handoffs

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// stateChange is what an action writes into the state file (protocol 001, Shared State File). Empty fields change nothing.
type stateChange struct {
	Agent     string       `json:"agent,omitzero"` // whose last_active is set
	Status    string       `json:"status,omitzero"`
	Last      string       `json:"last_handoff,omitzero"`
	Iteration int64        `json:"iteration,omitzero"`
	Begin     *workflowDoc `json:"begin,omitzero"` // the new current_workflow
	End       string       `json:"end,omitzero"`   // the id of the workflow that ends, with this status
	As        string       `json:"as,omitzero"`
}

type workflowDoc struct {
	ID      string `json:"id"`
	Type    string `json:"type"`
	Started string `json:"started"`
	Spec    string `json:"spec,omitzero"`
}

// The statuses that steward writes for an agent.
const (
	agentActive    = "active"
	agentIdle      = "idle"
	agentCompleted = "completed"
)

// sets returns the edits of a state file. again: a crash came before, so a newer entry of the agent stays.
func (c *stateChange) sets(o jsonfile.Object, at time.Time, again bool) (sets []jsonfile.Set) {
	s := decodeState(o)
	set := func(value any, path ...string) { sets = append(sets, jsonfile.Set{Path: path, Value: value}) }
	a := s.agent(c.Agent)
	kind := o.Get("agents").Kind()
	if c.Agent != "" && usable(c.Agent) && plain(c.Agent) && kind != "array" && !(again && a != nil && a.last.At.After(at)) {
		agents, _ := o.Object("agents")
		if entry := agents.Get(c.Agent).Kind(); entry != "object" && entry != "missing" && entry != "null" {
			set(agentDoc{Status: cmp.Or(c.Status, agentIdle), Last: jsonfile.FormatTime(at)}, "agents", c.Agent)
		} else {
			if c.Status != "" || a == nil {
				set(cmp.Or(c.Status, agentIdle), "agents", c.Agent, "status")
			}
			set(jsonfile.FormatTime(at), "agents", c.Agent, "last_active")
		}
		switch {
		case c.Status == agentActive:
			set(c.Agent, "current_agent")
		case c.Status != "" && s.currentAgent == c.Agent:
			set(nil, "current_agent")
		}
	}
	if c.Begin != nil {
		set(c.Begin, "current_workflow")
	}
	if c.Last != "" {
		set(c.Last, "last_handoff")
	}
	if c.Iteration > 0 {
		set(c.Iteration, "iteration")
	}
	if c.End != "" && s.workflow.id == c.End {
		set(c.As, "current_workflow", "status")
		set(jsonfile.FormatTime(at), "current_workflow", "completed")
	}
	return sets
}

// performer performs actions in a project.
type performer struct{ *Project }

// carryOut records an action and performs it. An id of "" stands for an action on no handoff, which is not recorded.
func (p performer) carryOut(c claimRecord) error {
	if c.Handoff != "" {
		if err := p.claims.put(c); err != nil {
			return err
		}
	}
	return p.perform(c, false)
}

// perform makes the writes of an action, in an order in which each can be repeated after a crash. again: some of them may
// have been made.
func (p performer) perform(c claimRecord, again bool) error {
	in := c.Intent
	for _, doc := range in.Messages {
		if err := p.create(doc, in.At, again); err != nil {
			return err
		}
	}
	if err := p.place(c.Handoff, in, again); err != nil {
		return err
	}
	for _, id := range in.Close {
		if err := p.place(id, &intent{Box: completed.String(), Status: completed.String()}, again); err != nil {
			return err
		}
	}
	starts := in.Accept && !p.active(in.State.Agent)
	if err := p.writeState(&in.State, in.At, again); err != nil {
		return err
	}
	if in.Event != "" {
		p.note(in.Event, c.Handoff, in, again)
	}
	if starts {
		p.note(eventStarted, "", in, again)
	}
	if c.Handoff == "" {
		return nil
	}
	if in.Accept {
		c.Intent = nil
		return p.claims.put(c)
	}
	return p.claims.remove(c.Handoff)
}

// active reports whether the state file lists the agent as working.
func (p performer) active(agent string) bool {
	p.state.read()
	a := p.state.current().agent(agent)
	return a != nil && a.working()
}

// create creates a message where agents look for it, once, and logs it in its sender's name.
func (p performer) create(doc []byte, at time.Time, again bool) error {
	o, err := jsonfile.Parse(doc)
	if err != nil {
		return err
	}
	m := decodeMessage(o, "")
	p.boxes.read(nil)
	if p.boxes.exists(m.id) {
		return nil
	}
	text, err := jsonfile.Encode(json.RawMessage(doc)) // the same bytes, whether doc comes from a record or not
	if err != nil {
		return err
	}
	file := path.Join(p.inbox().dir(), "handoff-"+m.id+".json")
	if err := p.Root.Create(file, text, 0o644); err != nil && !errors.Is(err, jsonfile.ErrExist) {
		return err
	}
	in := &intent{At: at, State: stateChange{Agent: m.from}, Why: m.call.text}
	switch {
	case m.kind == typeEscalation:
		p.note(eventEscalated, m.id, in, again)
	case m.isWork():
		p.note(eventCreated, m.id, in, again)
	}
	return nil
}

// inbox returns where new messages go: to pending/, or to handoffs/ itself if this project works without folders.
func (p performer) inbox() box {
	if p.Needs(pending.dir()) != nil {
		return flat
	}
	used := map[box]bool{}
	for _, h := range p.boxes.listed {
		if h.counts() {
			used[h.box] = true
		}
	}
	for _, k := range p.boxes.closed {
		used[k.box] = true
	}
	if used[flat] && len(used) == 1 {
		return flat
	}
	return pending
}

// place moves the message of an action to its folder, and sets its status and further keys. It does nothing if the message is gone.
func (p performer) place(id string, in *intent, again bool) error {
	if id == "" || in.Status == "" {
		return nil
	}
	p.boxes.read(nil)
	h := p.view().find(id)
	switch {
	case h == nil:
		return nil
	case in.Accept && h.where() != pending && !again:
		return fmt.Errorf("handoff %s: %w", id, protocol.ErrTaken)
	}
	file, sum := h.file, h.Sum
	if target := path.Join(boxDir, in.Box, path.Base(file)); h.box != flat && h.box.String() != in.Box {
		if err := p.Needs(path.Dir(target)); err != nil {
			return err
		}
		if err := p.Root.RenameIf(file, target, sum); err != nil {
			return err
		}
		file = target
	}
	blob, err := p.Root.Read(file, maxFile)
	if err != nil {
		return err
	}
	if h.box == flat && blob.Sum != sum {
		return folder.Moved("%s was rewritten", file)
	}
	var more []jsonfile.Set
	for _, key := range sortedKeys(in.Set) {
		more = append(more, jsonfile.Set{Path: []string{key}, Value: in.Set[key]})
	}
	if in.Accept {
		more = append(more, jsonfile.Remove("error")) // of an earlier attempt
	}
	_, err = p.setStatus(file, blob, in.Status, more...)
	return err
}

// writeState edits the state file. A project may have none, or one that belongs to another tool.
func (p performer) writeState(c *stateChange, at time.Time, again bool) error {
	if _, err := p.Root.Stat(stateFile); folder.Missing(err) {
		return nil
	}
	return p.state.edit(func(o jsonfile.Object) ([]jsonfile.Set, error) {
		if !isOurs(o) {
			return nil, nil
		}
		return c.sets(o, at, again), nil
	})
}

// note logs an event of the action's agent, about a handoff or, with "", about the agent itself. The daemon writes the line
// if this fails.
func (p performer) note(event, id string, in *intent, again bool) {
	agent := in.State.Agent
	c := protocol.Change{Agent: agent, Until: in.At, Why: in.Why, Entry: protocol.Entry{Event: event},
		Subject: protocol.Subject{Kind: protocol.KindAgent, ID: agent}}
	if id != "" && event != eventCompleted {
		c.Subject = protocol.Subject{Kind: protocol.KindTask, ID: id}
		p.boxes.read(nil)
		if h := p.view().find(id); h != nil {
			c.Ref.Path = h.file
		}
	}
	if again {
		_ = p.logEvent(c)
		return
	}
	_ = p.appendEvent(c)
}

// repair completes the actions that a crash cut short, and removes the claims on handoffs that others have moved. It drops
// an acceptance that had moved nothing yet. What cannot be completed now is tried again by the next action.
func (p performer) repair() {
	for _, id := range sortedKeys(p.claims.records) {
		c, h := p.claims.records[id], p.view().find(id)
		switch taken := h != nil && h.where() == accepted; {
		case c.Intent == nil && taken:
		case c.Intent == nil, c.Intent.Accept && !taken:
			_ = p.claims.remove(id)
		default:
			_ = p.perform(c, true)
			p.boxes.read(nil)
		}
	}
}
