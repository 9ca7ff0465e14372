package envelope

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
)

// changes carry out the verbs that this protocol supports.
var changes = map[protocol.Verb]func(*Project, protocol.Change) error{
	protocol.VerbHold: (*Project).hold, protocol.VerbRelease: (*Project).release, protocol.VerbRenew: (*Project).renew,
	protocol.VerbLog: (*Project).logAudit, protocol.VerbAnswer: (*Project).answer,
}

// Apply carries out one change: hold, release, renew, log (Event "audit") or answer. Every file is compared with the
// judged version before it is moved, except by a release. Repeating a change after a crash leaves the same files as an
// uninterrupted change.
func (p *Project) Apply(ctx context.Context, c protocol.Change, now time.Time) error {
	carryOut := changes[c.Verb]
	switch {
	case carryOut == nil:
		return fmt.Errorf("%s: %w", c.Verb, protocol.ErrUnsupported)
	case c.Verb != protocol.VerbLog && c.Verb != protocol.VerbAnswer && !plain(c.Subject.ID):
		return fmt.Errorf("%s: %q is not a task id", c.Verb, c.Subject.ID)
	}
	return p.Change(ctx, now, func() error {
		p.sweepNotices()
		return carryOut(p, c)
	})
}

// fresh reads new messages, rereads the task's own files, and reads the notices; it returns nil for an unknown task.
func (p *Project) fresh(id string) *task {
	p.notices.read()
	return p.update(id)
}

// update is fresh for the messages only. The next scan rereads the task's files too, so it sees the change that follows
// without a hint.
func (p *Project) update(id string) *task {
	p.inbox.list()
	p.inbox.reread(p.board.tasks[id])
	p.inbox.readUnsettled()
	p.log.read()
	p.board.settle(p.Now)
	p.inbox.reread(p.board.tasks[id])
	return p.board.tasks[id]
}

// sweepNotices removes notices whose held message is gone. It runs under the guard, so no steward process is in the
// middle of a hold. While the task of a held file is unknown, because the file cannot be read, all notices stay.
func (p *Project) sweepNotices() {
	held := func(id string) bool { t := p.board.tasks[id]; return t != nil && t.anyHeld() }
	for id, n := range p.notices.byTask {
		if !n.Good || held(id) {
			continue
		}
		p.update(id)
		unknown := p.Patience.Has(p.opts.Messages)
		for name, f := range p.inbox.files {
			unknown = unknown || f.message == nil && strings.HasSuffix(name, heldExt)
		}
		if !held(id) && !unknown && p.notices.remove(id) == nil { // a failed removal is retried
			delete(p.notices.byTask, id)
		}
	}
}
