package agentstatus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// Apply carries out one change. It compares every file with what was judged before it moves or replaces the file.
// After a crash, applying the same change again ends in the same files.
func (p *Project) Apply(ctx context.Context, c protocol.Change, now time.Time) error {
	if err := p.accepts(c); err != nil {
		return err
	}
	return p.Change(ctx, now, func() error {
		p.expect(c)
		p.probeAll()
		return p.verb(c.Verb)(c)
	})
}

// accepts rejects a change that this protocol does not support, and a subject whose name cannot be a file name.
func (p *Project) accepts(c protocol.Change) error {
	switch {
	case p.verb(c.Verb) == nil:
		return fmt.Errorf("%s: %w", c.Verb, protocol.ErrUnsupported)
	case c.Subject.Kind == protocol.KindTask && !plainID(c.Subject.ID):
		return fmt.Errorf("%s: %q is not a task id", c.Verb, c.Subject.ID)
	case c.Subject.Kind == protocol.KindAgent && !plainID(c.Subject.ID):
		return fmt.Errorf("%s: %q is not a name for an agent", c.Verb, c.Subject.ID)
	}
	return nil
}

// expect makes the next scan read the subject of the change, with or without a hint.
func (p *Project) expect(c protocol.Change) {
	if c.Subject.Kind == protocol.KindTask {
		p.dirty[c.Subject.ID] = true
	} else {
		p.dirtyAgents = true
	}
}

func (p *Project) probeAll() {
	p.probe(".", tasksDir, archiveDir, attemptsDir, claimsDir, agentsDir, sharedDir)
}

func (p *Project) verb(v protocol.Verb) func(protocol.Change) error {
	switch v {
	case protocol.VerbHold:
		return p.hold
	case protocol.VerbRelease:
		return p.release
	case protocol.VerbRenew:
		return p.renew
	case protocol.VerbRetry:
		return p.retry
	case protocol.VerbBury:
		return p.bury
	case protocol.VerbConclude:
		return p.conclude
	case protocol.VerbCancel:
		return p.cancel
	case protocol.VerbFile:
		return p.file
	case protocol.VerbRecord:
		return p.setFirst
	case protocol.VerbMark:
		return p.mark
	case protocol.VerbLog:
		return p.logEvent
	case protocol.VerbPause:
		return p.pauseAgent
	case protocol.VerbResume:
		return p.resumeAgent
	case protocol.VerbAnswer:
		return p.answer
	}
	return nil
}

// fresh rereads a task's files now, whether or not their folders seem unchanged.
func (p *Project) fresh(id string) *entry {
	p.changed[tasksDir], p.changed[archiveDir], p.changed[attemptsDir], p.changed[claimsDir] = true, true, true, true
	return p.refresh(id)
}

// putNotice writes the deferral notice of a hold.
func (p *Project) putNotice(c protocol.Change, opts ...jsonfile.Option) error {
	n := notice{TaskID: c.Subject.ID, Status: "deferred", Reason: c.Hold, HeldBy: ourName, HeldAt: p.Now.UTC(), NotBefore: c.Until.UTC(),
		ReleaseBy: c.ReleaseBy.UTC(), Why: c.Why, Release: "steward release " + c.Subject.ID}
	if wait := c.Until.Sub(p.Now); wait > 0 {
		n.RetryAfter = int64((wait + time.Second - 1) / time.Second)
	}
	if c.Until.IsZero() {
		n.NotBefore = time.Time{}
	}
	if g := c.Gate; g != nil {
		n.Dimension, n.Threshold, n.Consumers = g.Dimension, g.Limit, g.Consumers
		if v, ok := g.Used.Value(); ok {
			n.Load = &v
		}
	}
	doc, err := jsonfile.Encode(n)
	if err != nil {
		return err
	}
	late, err := p.Root.Replace(taskFile(c.Subject.ID, noticeExt), doc, jsonfile.Any, opts...)
	_ = late.Close()
	return err
}

// release makes a held task visible to agents again. It compares nothing: a release is right whatever the request
// says now. A cancelled task gets its result first, because a crash may have cut that off.
func (p *Project) release(c protocol.Change) error {
	e := p.fresh(c.Subject.ID)
	o, _ := e.ended()
	vain := e.record.cancelled && o == nil && (e.held.Good || e.cancelledInVain(o))
	if !e.held.There && !e.notice.There && !vain {
		return nil
	}
	if vain {
		if err := p.endIt(e, c); err != nil {
			return err
		}
	}
	was := e.held.There
	if was && c.Reason == protocol.ReasonOperator && c.Hold == protocol.HoldBlocked {
		// Record the release so that workers release the task too: they check the order of a chain themselves.
		doc, err := jsonfile.Encode(map[string]any{"task_id": e.id, "at": jsonfile.FormatTime(p.Now), "why": c.Why})
		if err != nil {
			return err
		}
		if err := p.Root.Create(freedFile(e.id), doc, 0o644); err != nil && !errors.Is(err, jsonfile.ErrExist) {
			return err
		}
	}
	if err := p.show(e); err != nil {
		return err
	}
	if was {
		p.told("task_released", c)
	}
	return nil
}

// show is release without the log. It restores the request first and removes the notice second: a crash in between
// leaves a visible task with an old notice, which the next scan removes. If a new request was written meanwhile, the
// new request stays and the held request is archived.
func (p *Project) show(e *entry) error {
	held, open := e.files.held, e.files.request
	if p.has(held) {
		to := open
		if p.has(open) {
			var err error
			if to, err = p.nextFree(e.id, "held"); err != nil {
				return err
			}
		}
		if err := p.Root.Rename(held, to, p.waits...); err != nil {
			return err
		}
	}
	if err := p.Root.Remove(e.files.notice, p.waits...); err != nil && !folder.Missing(err) {
		return err
	}
	return nil
}

// renew extends the lease in the notice.
func (p *Project) renew(c protocol.Change) error {
	e := p.fresh(c.Subject.ID)
	if !e.held.There {
		return folder.Moved("it is no longer held")
	}
	if !e.notice.Good {
		c.Hold = protocol.HoldCapacity
		if k := e.record.last(); k != nil {
			c.Hold, c.Until = protocol.HoldRetry, k.Due
		}
		return p.putNotice(c, p.waits...)
	}
	late, err := p.Root.Update(e.files.notice, maxFile, func(old []byte) ([]byte, error) {
		return jsonfile.Edit(old, jsonfile.Set{Path: []string{"release_by"}, Value: jsonfile.FormatTime(c.ReleaseBy)})
	}, p.waits...)
	_ = late.Close()
	return err
}
