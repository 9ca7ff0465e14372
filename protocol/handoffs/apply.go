package handoffs

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// verbs carry out the changes that this protocol supports.
var verbs = map[protocol.Verb]func(*Project, protocol.Change) error{
	protocol.VerbRequeue: (*Project).requeue, protocol.VerbUnlock: (*Project).unlock, protocol.VerbLog: (*Project).logEvent,
	protocol.VerbAnswer: (*Project).answer,
}

// Apply carries out one change: VerbRequeue, VerbUnlock, VerbLog or VerbAnswer. Every file is compared with the judged
// version before it is moved or replaced. Repeating a change after a crash leaves the same files as an uninterrupted
// change.
func (p *Project) Apply(ctx context.Context, c protocol.Change, now time.Time) error {
	carryOut := verbs[c.Verb]
	if carryOut == nil {
		return fmt.Errorf("%s: %w", c.Verb, protocol.ErrUnsupported)
	}
	if c.Subject.Kind == protocol.KindTask && !usable(c.Subject.ID) {
		return fmt.Errorf("%s: %q is not an id for a handoff", c.Verb, folder.Line(c.Subject.ID, 100))
	}
	return p.Change(ctx, now, func() error { return carryOut(p, c) })
}

// requeue puts an accepted, failed or rejected handoff back where agents find it (protocol 001, Retry Protocol). It
// records the requeue, renames the file, and then completes the record. It keeps the status in the file, unless that is
// "failed" or "rejected". See docs/decisions.md, "Lost work of handoffs and mailbox is requeued in one step".
func (p *Project) requeue(c protocol.Change) error {
	at, name, ok := placeOf(c.Ref.Path)
	if c.Subject.Kind != protocol.KindTask || !ok {
		return folder.Moved("%q is the place of no handoff", folder.Line(c.Ref.Path, 200))
	}
	p.claims.read()
	if k, ok := p.claims.records[c.Subject.ID]; ok {
		switch {
		case k.Intent != nil && !k.Intent.Accept: // a crash cut its agent's report short
			p.boxes.read(nil)
			return performer{p}.perform(k, true)
		case c.Claim != "" && k.sum != c.Claim:
			return folder.Moved("its agent has reported, or it was taken again")
		}
	}
	if at == flat || at == pending {
		return p.requeueInPlace(c, at)
	}
	from, to := c.Ref.Path, path.Join(pending.dir(), name)
	_, hereErr := p.Root.Stat(from)
	if hereErr != nil && !folder.Missing(hereErr) {
		return hereErr
	}
	_, backErr := p.Root.Stat(to)
	switch here, back := hereErr == nil, backErr == nil; {
	case here && back:
		return folder.Moved("it lies in pending and in %s", at)
	case back: // already moved, by a run that crashed or finished
		return p.requeued(c)
	case !here:
		return folder.Moved("it is no longer in %s", at)
	}
	m, blob, err := p.loadMessage(c)
	if err != nil {
		return err
	}
	if c.Ref.Sum == "" || string(blob.Sum) != c.Ref.Sum {
		return folder.Moved("%s was rewritten", from)
	}
	if err := p.Needs(pending.dir()); err != nil {
		return err
	}
	if err := p.recordRequeue(c, m.to, blob); err != nil {
		return err
	}
	sum := blob.Sum
	if m.stopped() { // after a crash here the status says pending, and the record is still open
		if sum, err = p.setStatus(from, blob, pending.String()); err != nil {
			return err
		}
	}
	if err := p.Root.RenameIf(from, to, sum); err != nil {
		return err
	}
	return p.requeued(c)
}

// requeueInPlace is requeue for a message directly in handoffs/, whose status replaces the folder, and for a failed or
// rejected message in pending/. Only the status changes.
func (p *Project) requeueInPlace(c protocol.Change, at box) error {
	m, blob, err := p.loadMessage(c)
	if err != nil {
		return err
	}
	h := handoff{box: at, Reading: jsonfile.Reading[handoffMessage]{Value: m}}
	switch {
	case m.id != c.Subject.ID || h.foreign():
		return folder.Moved("it is another handoff now")
	case h.where() == pending && !m.stopped():
		return p.requeued(c)
	case h.where() != accepted && !m.stopped() || c.Ref.Sum == "" || string(blob.Sum) != c.Ref.Sum:
		return folder.Moved("%s was rewritten", c.Ref.Path)
	}
	taker := m.to
	if at == pending {
		taker = "" // its agent gave it back without taking it
	}
	if err := p.recordRequeue(c, taker, blob); err != nil {
		return err
	}
	if _, err := p.setStatus(c.Ref.Path, blob, pending.String()); err != nil {
		return err
	}
	return p.requeued(c)
}

// requeued completes a requeue, which may have been moved by a run that crashed: the claim ends, its agent is idle, and the
// escalation of a fatal error is settled.
func (p *Project) requeued(c protocol.Change) error {
	v, act := p.view(), performer{p}
	if k, ok := p.claims.records[c.Subject.ID]; ok {
		if k.Worker != nil && act.active(k.Agent) && !act.busyElsewhere(&handoffMessage{id: k.Handoff, to: k.Agent}) {
			if err := act.writeState(&stateChange{Agent: k.Agent, Status: agentIdle}, p.Now, false); err != nil {
				return err
			}
		}
		if err := p.claims.remove(k.Handoff); err != nil {
			return err
		}
	}
	for _, h := range v.handoffs {
		if e := &h.Value; e.kind == typeEscalation && e.about == c.Subject.ID && e.call.reason == reasonFatal && h.where() == pending {
			if err := act.place(e.id, &intent{Box: completed.String(), Status: completed.String()}, true); err != nil {
				return err
			}
		}
	}
	return p.attempts.Commit(p.Root, c)
}

// loadMessage reads the message that a change refers to.
func (p *Project) loadMessage(c protocol.Change) (m handoffMessage, blob jsonfile.Blob, err error) {
	o, blob, err := p.Root.Load(c.Ref.Path, maxFile)
	if err != nil {
		return m, blob, err
	}
	return decodeMessage(o, c.Ref.Path), blob, nil
}

// recordRequeue records a requeue, and when the agent ("" for none) took the handoff.
func (p *Project) recordRequeue(c protocol.Change, agent string, blob jsonfile.Blob) error {
	if err := p.attempts.Enter(p.Root, c, p.Now); err != nil {
		return err
	}
	taken := arrived(blob.Stamp)
	if known := p.signs.took[agent]; known.After(taken) {
		taken = known
	}
	return p.releases.addHandoff(c.Subject.ID, agent, taken)
}

// setStatus changes the status of a message and the keys that are given, nothing else. It returns the sum of the new content.
func (p *Project) setStatus(file string, blob jsonfile.Blob, status string, more ...jsonfile.Set) (jsonfile.Sum, error) {
	doc, err := jsonfile.Edit(blob.Data, append(more, jsonfile.Set{Path: []string{"status"}, Value: status})...)
	if err != nil {
		return blob.Sum, err
	}
	late, err := p.Root.Replace(file, doc, blob.Sum)
	_ = late.Close()
	return jsonfile.SumOf(doc), err
}

// unlock removes one lock's entry if it is the judged one, and changes no other byte.
func (p *Project) unlock(c protocol.Change) error {
	resource := c.Subject.ID
	if c.Subject.Kind != protocol.KindLock || c.Ref.Sum == "" {
		return folder.Moved("%s is not a lock that was judged", c.Subject)
	}
	o, _, err := p.Root.Load(stateFile, maxFile)
	if folder.Missing(err) {
		return nil // no file, no lock
	}
	if err != nil {
		return err
	}
	if sets, err := dropLock(o, resource, c.Ref.Sum); err != nil || len(sets) == 0 {
		return err
	}
	locks, _ := o.Object("locks")
	entry, _ := locks.Object(resource)
	if real, ok := p.grants.find(resource, fenceOf(entry)); ok && real.Kernel {
		return folder.Moved("the lock on %s is held by a living process", folder.Line(resource, 100))
	}
	if err := p.releases.addLock(resource, locks.Get(resource), c); err != nil {
		return err
	}
	return p.state.edit(func(o jsonfile.Object) ([]jsonfile.Set, error) { return dropLock(o, resource, c.Ref.Sum) })
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
	case string(v.Meaning()) != sum:
		return nil, folder.Moved("the lock on %s was taken or renewed meanwhile", folder.Line(resource, 100))
	}
	return []jsonfile.Set{jsonfile.Remove("locks", resource)}, nil
}

// logEvent appends an event in the name of its agent, unless the log already contains it.
func (p *Project) logEvent(c protocol.Change) error {
	if !slices.Contains(eventOrder, c.Event) {
		return folder.Moved("%q is not one of the protocol's events", folder.Line(c.Event, 40))
	}
	at := c.Until
	if at.IsZero() {
		at = p.Now
	}
	p.log.read()
	if p.log.has(&protocol.Event{Subject: c.Subject, Name: c.Event, Agent: c.Agent, At: at}) {
		return nil
	}
	c.Until = at
	return p.appendEvent(c)
}

// appendEvent appends an event that happened at c.Until.
func (p *Project) appendEvent(c protocol.Change) error {
	data, err := jsonfile.EncodeLine(logLine{Event: c.Event, Agent: c.Agent, Timestamp: jsonfile.FormatTime(c.Until), Context: p.contextOf(c)})
	if err != nil {
		return err
	}
	if p.log.tail.Seen() { // do not recreate a log that was removed
		return p.Root.Append(logFile, data, jsonfile.Existing)
	}
	return p.Root.Append(logFile, data)
}

// contextOf returns the workflow, spec and handoff that an event is about: from the message, else from the state file.
func (p *Project) contextOf(c protocol.Change) logContext {
	k := logContext{LoggedBy: "steward"}
	if c.Event == eventError || c.Event == eventEscalated {
		k.Message = folder.Line(c.Why, maxText)
	}
	if c.Subject.Kind == protocol.KindTask {
		k.Handoff = c.Subject.ID
		if _, _, ok := placeOf(c.Ref.Path); ok {
			if o, _, err := p.Root.Load(c.Ref.Path, maxFile); err == nil {
				m := decodeMessage(o, c.Ref.Path)
				k.Workflow, k.Spec = m.work.kind, m.work.spec
				return k
			}
		}
	}
	p.state.read()
	s := p.state.current()
	k.Workflow, k.Spec = cmp.Or(s.workflow.kind, s.workflow.id), s.workflow.spec
	return k
}
