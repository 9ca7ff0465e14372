package agentstatus

import (
	"context"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// batchSize is how many changes are made per acquisition of the guard lock: workers and other steward commands wait
// for that lock. The log lines of one batch must fit into the queue of unwritten lines (mostUntold).
const batchSize = 200

var _ protocol.Batcher = (*Project)(nil)

// ApplyAll carries out changes of one verb. Holds, releases, renewals and log events share their waits for the disk;
// other changes are applied one by one.
func (p *Project) ApplyAll(ctx context.Context, changes []protocol.Change, now time.Time) []error {
	errs := make([]error, 0, len(changes))
	for len(changes) > 0 {
		n := min(batchSize, len(changes))
		errs = append(errs, p.applyBatch(ctx, changes[:n], now)...)
		changes = changes[n:]
	}
	return errs
}

func (p *Project) applyBatch(ctx context.Context, changes []protocol.Change, now time.Time) []error {
	errs := make([]error, len(changes))
	act := p.together(changes[0].Verb)
	if act == nil || ctx.Err() != nil {
		for i, c := range changes {
			if errs[i] = ctx.Err(); errs[i] == nil {
				errs[i] = p.Apply(ctx, c, now)
			}
		}
		return errs
	}
	sound, at := make([]protocol.Change, 0, len(changes)), make([]int, 0, len(changes))
	for i, c := range changes {
		if errs[i] = p.accepts(c); errs[i] == nil {
			sound, at = append(sound, c), append(at, i)
		}
	}
	if len(sound) == 0 {
		return errs
	}
	var done []error
	err := p.Change(ctx, now, func() error {
		for _, c := range sound {
			p.expect(c)
		}
		p.probeAll()
		done = act(sound)
		return nil
	})
	for k, i := range at {
		if errs[i] = err; err == nil {
			errs[i] = folder.Conflict(done[k])
		}
	}
	return errs
}

// together returns the batch function of the verb, or nil if the verb has none.
func (p *Project) together(v protocol.Verb) func([]protocol.Change) []error {
	switch v {
	case protocol.VerbHold:
		return p.holdAll
	case protocol.VerbRelease:
		return func(list []protocol.Change) []error { return p.inOne(list, p.letOut) }
	case protocol.VerbLog:
		return p.logEvents
	case protocol.VerbRenew:
		return func(list []protocol.Change) []error { return p.inOne(list, p.renew) }
	}
	return nil
}

// inOne makes each change without waiting for the disk, and waits once at the end.
func (p *Project) inOne(list []protocol.Change, act func(protocol.Change) error) []error {
	p.waits = []jsonfile.Option{jsonfile.Volatile}
	defer func() { p.waits = nil }()
	errs := make([]error, len(list))
	for i, c := range list {
		errs[i] = act(c)
	}
	if err := p.Root.SyncFolder(tasksDir); err != nil {
		for i := range errs {
			if errs[i] == nil {
				errs[i] = err
			}
		}
	}
	p.tellAll()
	return errs
}

// letOut is release for a batch. When steward stops, it does not reread each task but only renames the request back.
// It rereads a cancelled task, because a crash may have cut off its result.
func (p *Project) letOut(c protocol.Change) error {
	e := p.tasks[c.Subject.ID]
	if c.Reason != protocol.ReasonStopping || e == nil || e.record.cancelled {
		return p.release(c)
	}
	was := p.has(e.files.held)
	if err := p.show(e); err != nil {
		return err
	}
	if was {
		p.queueTold("task_released", c)
	}
	return nil
}
