package handoffs

import (
	"context"
	"fmt"
	"path"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// Apply carries out one change: VerbRequeue, VerbUnlock or VerbLog. Every file is compared with what was judged before
// it is moved or replaced. After a crash in the middle, the same change applied again ends in the same files.
func (p *Project) Apply(ctx context.Context, c protocol.Change, now time.Time) error {
	p.now = now
	act := p.verb(c.Verb)
	if act == nil {
		return fmt.Errorf("%s: %w", c.Verb, protocol.ErrUnsupported)
	}
	if c.Subject.Kind == protocol.KindTask && !usable(c.Subject.ID) {
		return fmt.Errorf("%s: %q is no id for a handoff", c.Verb, clean(c.Subject.ID, 100))
	}
	if err := p.open(); err != nil {
		return conflict(err)
	}
	return conflict(p.guarded(ctx, func() error { return act(c) }))
}

func (p *Project) verb(v protocol.Verb) func(protocol.Change) error {
	switch v {
	case protocol.VerbRequeue:
		return p.requeue
	case protocol.VerbUnlock:
		return p.unlock
	case protocol.VerbLog:
		return p.logEvent
	}
	return nil
}

// requeue puts an accepted handoff back where agents find it (protocol 001, Retry Protocol): on record first, then the
// rename, then the record's own end. The status inside stays as its last writer left it.
func (p *Project) requeue(c protocol.Change) error {
	at, name, ok := placeOf(c.Ref.Path)
	if c.Subject.Kind != protocol.KindTask || !ok {
		return moved("%q is the place of no handoff", clean(c.Ref.Path, 200))
	}
	p.dirty[name] = true
	if at == flat {
		return p.requeueFlat(c)
	}
	from, to := path.Join(accepted.dir(), name), path.Join(pending.dir(), name)
	_, hereErr := p.root.Stat(from)
	if hereErr != nil && !isMissing(hereErr) {
		return hereErr
	}
	_, backErr := p.root.Stat(to)
	switch here, back := hereErr == nil, backErr == nil; {
	case here && back:
		return moved("it lies in pending and in accepted")
	case back: // moved already: a crash came between, or it is all done
		return p.ledger.Commit(p.root, c)
	case !here:
		return moved("it is no longer accepted")
	}
	if err := p.sameAs(from, c); err != nil {
		return err
	}
	if err := p.ledger.Enter(p.root, c, p.now); err != nil {
		return err
	}
	if err := p.root.MkdirAll(pending.dir(), 0o755); err != nil {
		return err
	}
	if err := p.root.RenameIf(from, to, jsonfile.Sum(c.Ref.Sum)); err != nil {
		return err
	}
	return p.ledger.Commit(p.root, c)
}

// sameAs makes sure that a message is the one that was judged.
func (p *Project) sameAs(file string, c protocol.Change) error {
	blob, err := p.root.Read(file, maxFile)
	if err != nil {
		return err
	}
	if c.Ref.Sum == "" || string(blob.Sum) != c.Ref.Sum {
		return moved("%s was written anew", file)
	}
	return nil
}

// requeueFlat is requeue for a message that lies in no folder: its status says what the folder else would.
func (p *Project) requeueFlat(c protocol.Change) error {
	o, blob, err := p.root.Load(c.Ref.Path, maxFile)
	if err != nil {
		return err
	}
	n := note{at: flat}
	n.Value = decodeMessage(o, c.Ref.Path)
	switch {
	case n.Value.id != c.Subject.ID:
		return moved("it is another handoff now")
	case n.where() == pending:
		return p.ledger.Commit(p.root, c)
	case n.where() != accepted || c.Ref.Sum == "" || string(blob.Sum) != c.Ref.Sum:
		return moved("%s was written anew", c.Ref.Path)
	}
	if err := p.ledger.Enter(p.root, c, p.now); err != nil {
		return err
	}
	doc, err := jsonfile.Edit(blob.Data, jsonfile.Set{Path: []string{"status"}, Value: pending.String()})
	if err != nil {
		return err
	}
	late, err := p.root.Replace(c.Ref.Path, doc, blob.Sum)
	_ = late.Close()
	if err != nil {
		return err
	}
	return p.ledger.Commit(p.root, c)
}
