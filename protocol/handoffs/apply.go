package handoffs

import (
	"context"
	"fmt"
	"path"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// Apply carries out one change: VerbRequeue, VerbUnlock, VerbLog or VerbAnswer. Every file is compared with the judged
// version before it is moved or replaced. Repeating a change after a crash leaves the same files as an uninterrupted
// change.
func (p *Project) Apply(ctx context.Context, c protocol.Change, now time.Time) error {
	act := p.verb(c.Verb)
	if act == nil {
		return fmt.Errorf("%s: %w", c.Verb, protocol.ErrUnsupported)
	}
	if c.Subject.Kind == protocol.KindTask && !usable(c.Subject.ID) {
		return fmt.Errorf("%s: %q is not an id for a handoff", c.Verb, folder.Line(c.Subject.ID, 100))
	}
	return p.Change(ctx, now, func() error { return act(c) })
}

func (p *Project) verb(v protocol.Verb) func(protocol.Change) error {
	switch v {
	case protocol.VerbRequeue:
		return p.requeue
	case protocol.VerbUnlock:
		return p.unlock
	case protocol.VerbLog:
		return p.logEvent
	case protocol.VerbAnswer:
		return p.answer
	}
	return nil
}

// requeue puts an accepted, failed or rejected handoff back where agents find it (protocol 001, Retry Protocol). It
// records the requeue, renames the file, and then completes the record. It keeps the status in the file, unless that is
// "failed" or "rejected".
func (p *Project) requeue(c protocol.Change) error {
	at, name, ok := placeOf(c.Ref.Path)
	if c.Subject.Kind != protocol.KindTask || !ok {
		return folder.Moved("%q is the place of no handoff", folder.Line(c.Ref.Path, 200))
	}
	p.dirty[name] = true
	if at == flat || at == pending {
		return p.requeueInPlace(c, at)
	}
	from, to := c.Ref.Path, path.Join(pending.dir(), name)
	st, hereErr := p.Root.Stat(from)
	if hereErr != nil && !folder.Missing(hereErr) {
		return hereErr
	}
	_, backErr := p.Root.Stat(to)
	switch here, back := hereErr == nil, backErr == nil; {
	case here && back:
		return folder.Moved("it lies in pending and in %s", at)
	case back: // already moved, by a run that crashed or finished
		return p.ledger.Commit(p.Root, c)
	case !here:
		return folder.Moved("it is no longer in %s", at)
	}
	m, blob, err := p.sameAs(from, c)
	if err != nil {
		return err
	}
	if err := p.Needs(pending.dir()); err != nil {
		return err
	}
	if err := p.ledger.Enter(p.Root, c, p.Now); err != nil {
		return err
	}
	if err := p.remember(c.Subject.ID, m.to, came(st)); err != nil {
		return err
	}
	sum := blob.Sum
	if m.stopped() { // after a crash here the status says pending, and the record is still open
		if sum, err = p.restate(from, blob, pending); err != nil {
			return err
		}
	}
	if err := p.Root.RenameIf(from, to, sum); err != nil {
		return err
	}
	return p.ledger.Commit(p.Root, c)
}

// sameAs checks that a message is the judged one.
func (p *Project) sameAs(file string, c protocol.Change) (m message, blob jsonfile.Blob, err error) {
	o, blob, err := p.Root.Load(file, maxFile)
	switch {
	case err != nil:
		return m, blob, err
	case c.Ref.Sum == "" || string(blob.Sum) != c.Ref.Sum:
		return m, blob, folder.Moved("%s was written anew", file)
	}
	return decodeMessage(o, file), blob, nil
}

// restate changes only the status of a message. It returns the sum of the new content.
func (p *Project) restate(file string, blob jsonfile.Blob, to box) (jsonfile.Sum, error) {
	doc, err := jsonfile.Edit(blob.Data, jsonfile.Set{Path: []string{"status"}, Value: to.String()})
	if err != nil {
		return blob.Sum, err
	}
	late, err := p.Root.Replace(file, doc, blob.Sum)
	_ = late.Close()
	return jsonfile.SumOf(doc), err
}

// requeueInPlace is requeue for a message directly in handoffs/, whose status replaces the folder, and for a failed or
// rejected message in pending/. Only the status changes.
func (p *Project) requeueInPlace(c protocol.Change, at box) error {
	o, blob, err := p.Root.Load(c.Ref.Path, maxFile)
	if err != nil {
		return err
	}
	n := note{at: at}
	n.Value = decodeMessage(o, c.Ref.Path)
	switch {
	case n.Value.id != c.Subject.ID || n.alien():
		return folder.Moved("it is another handoff now")
	case n.where() == pending && !n.Value.stopped():
		return p.ledger.Commit(p.Root, c)
	case n.where() != accepted && !n.Value.stopped() || c.Ref.Sum == "" || string(blob.Sum) != c.Ref.Sum:
		return folder.Moved("%s was written anew", c.Ref.Path)
	}
	st, err := p.Root.Stat(c.Ref.Path)
	if err != nil {
		return err
	}
	if err := p.ledger.Enter(p.Root, c, p.Now); err != nil {
		return err
	}
	if at == flat {
		if err := p.remember(c.Subject.ID, n.Value.to, came(st)); err != nil {
			return err
		}
	}
	if _, err := p.restate(c.Ref.Path, blob, pending); err != nil {
		return err
	}
	return p.ledger.Commit(p.Root, c)
}
