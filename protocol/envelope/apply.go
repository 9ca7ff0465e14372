package envelope

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// Apply carries out one change: hold, release, renew, log (Event "audit") or answer. Every file is compared with the
// judged version before it is moved, except by a release. Repeating a change after a crash leaves the same files as an
// uninterrupted change.
func (p *Project) Apply(ctx context.Context, c protocol.Change, now time.Time) error {
	act := p.verb(c.Verb)
	switch {
	case act == nil:
		return fmt.Errorf("%s: %w", c.Verb, protocol.ErrUnsupported)
	case c.Verb != protocol.VerbLog && c.Verb != protocol.VerbAnswer && !plain(c.Subject.ID):
		return fmt.Errorf("%s: %q is not a task id", c.Verb, c.Subject.ID)
	}
	return p.Change(ctx, now, func() error {
		p.sweep()
		return act(c)
	})
}

func (p *Project) verb(v protocol.Verb) func(protocol.Change) error {
	switch v {
	case protocol.VerbHold:
		return p.hold
	case protocol.VerbRelease:
		return p.release
	case protocol.VerbRenew:
		return p.renew
	case protocol.VerbLog:
		return p.logAudit
	case protocol.VerbAnswer:
		return p.answer
	}
	return nil
}

// fresh reads new files, and rereads the task's own files and notice; it returns nil for an unknown task. The next scan
// rereads these files too, so it sees the change that follows without a hint.
func (p *Project) fresh(id string) *taskState {
	p.freshen(id)
	p.readNotice(id)
	p.shelf.notices[id] = lookAgain(p.shelf.notices[id])
	return p.tasks[id]
}

// freshen is fresh for the messages only.
func (p *Project) freshen(id string) {
	p.list()
	p.touch(id)
	again := p.shelf.unrest
	p.shelf.unrest = map[string]bool{}
	for name := range again {
		p.readFile(name)
	}
	p.readLog()
	p.settle()
	p.touch(id)
}

// lookAgain makes the next scan reread a notice that may be written now.
func lookAgain(n *noticeReading) *noticeReading {
	if n == nil {
		return &noticeReading{There: true}
	}
	n.Rest = false
	return n
}

// touch marks a task's files, held or not, for rereading.
func (p *Project) touch(id string) {
	t := p.tasks[id]
	if t == nil {
		return
	}
	for _, m := range t.messages {
		if !m.inLog() {
			name := path.Base(openName(m.file))
			p.shelf.unrest[name], p.shelf.unrest[name+".held"] = true, true
		}
	}
}

func isTaken(err error) bool { return errors.Is(err, jsonfile.ErrExist) }
