package agentstatus

import (
	"context"
	"fmt"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// changes carry out one change each. The guard lock is held, and the folders are probed.
var changes = map[protocol.Verb]func(*state, protocol.Change) error{
	protocol.VerbHold:     one(holdAll),
	protocol.VerbRelease:  release,
	protocol.VerbRenew:    renew,
	protocol.VerbRetry:    retry,
	protocol.VerbBury:     bury,
	protocol.VerbConclude: conclude,
	protocol.VerbCancel:   cancel,
	protocol.VerbFile:     fileLate,
	protocol.VerbRecord:   record,
	protocol.VerbMark:     mark,
	protocol.VerbLog:      one(logEvents),
	protocol.VerbPause:    func(s *state, c protocol.Change) error { return setHeld(s, c.Subject.ID, c.Why) },
	protocol.VerbResume:   func(s *state, c protocol.Change) error { return setHeld(s, c.Subject.ID, "") },
	protocol.VerbAnswer:   answer,
}

// batches carry out many changes of a verb with shared waits for the disk.
var batches = map[protocol.Verb]func(*state, []protocol.Change) []error{
	protocol.VerbHold:    holdAll,
	protocol.VerbRelease: func(s *state, list []protocol.Change) []error { return eachInOne(s, list, releaseQuickly) },
	protocol.VerbRenew:   func(s *state, list []protocol.Change) []error { return eachInOne(s, list, renew) },
	protocol.VerbLog:     logEvents,
}

func one(batch func(*state, []protocol.Change) []error) func(*state, protocol.Change) error {
	return func(s *state, c protocol.Change) error { return batch(s, []protocol.Change{c})[0] }
}

// Apply carries out one change. It compares every file with what was judged before it moves or replaces the file.
// After a crash, applying the same change again ends in the same files.
func (p *Project) Apply(ctx context.Context, c protocol.Change, now time.Time) error {
	if err := accepts(c); err != nil {
		return err
	}
	return p.Change(ctx, now, func() error {
		p.expect(c)
		p.probeAll()
		return changes[c.Verb](p.state, c)
	})
}

// accepts rejects a change that this protocol does not support, and a subject whose name cannot be a file name.
func accepts(c protocol.Change) error {
	switch {
	case changes[c.Verb] == nil:
		return fmt.Errorf("%s: %w", c.Verb, protocol.ErrUnsupported)
	case c.Subject.Kind == protocol.KindTask && !plainID(c.Subject.ID):
		return fmt.Errorf("%s: %q is not a task id", c.Verb, c.Subject.ID)
	case c.Subject.Kind == protocol.KindAgent && !plainID(c.Subject.ID):
		return fmt.Errorf("%s: %q is not a name for an agent", c.Verb, c.Subject.ID)
	}
	return nil
}

// expect makes the next scan read the subject of the change, with or without a hint.
func (s *state) expect(c protocol.Change) {
	if c.Subject.Kind == protocol.KindTask {
		s.tasks.dirty[c.Subject.ID] = true
	}
}

// setHeld records or removes the operator's hold of an agent (VerbPause, VerbResume).
func setHeld(s *state, agent, why string) error {
	return s.agents.editRecord(agent, func(r *agentRecord) { r.Held = why })
}

// batchSize is how many changes are made per acquisition of the guard lock: workers and other steward commands wait
// for that lock. The log lines of one batch must fit into the queue of unwritten lines (mostQueued).
const batchSize = 200

// ApplyAll carries out changes of one verb. Holds, releases, renewals and log events share their waits for the disk;
// other changes are applied one by one.
func (p *Project) ApplyAll(ctx context.Context, list []protocol.Change, now time.Time) []error {
	errs := make([]error, 0, len(list))
	for len(list) > 0 {
		n := min(batchSize, len(list))
		errs = append(errs, p.applyBatch(ctx, list[:n], now)...)
		list = list[n:]
	}
	return errs
}

func (p *Project) applyBatch(ctx context.Context, list []protocol.Change, now time.Time) []error {
	errs := make([]error, len(list))
	batch := batches[list[0].Verb]
	var sound []protocol.Change
	var at []int
	for i, c := range list {
		switch {
		case ctx.Err() != nil:
			errs[i] = ctx.Err()
		case batch == nil:
			errs[i] = p.Apply(ctx, c, now)
		default:
			if errs[i] = accepts(c); errs[i] == nil {
				sound, at = append(sound, c), append(at, i)
			}
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
		done = batch(p.state, sound)
		return nil
	})
	for k, i := range at {
		if errs[i] = err; err == nil {
			errs[i] = folder.Conflict(done[k])
		}
	}
	return errs
}

// eachInOne makes each change without waiting for the disk, and waits once at the end.
func eachInOne(s *state, list []protocol.Change, act func(*state, protocol.Change) error) []error {
	s.waits = []jsonfile.Option{jsonfile.Volatile}
	defer func() { s.waits = nil }()
	errs := make([]error, len(list))
	for i, c := range list {
		errs[i] = act(s, c)
	}
	if err := s.Root.SyncFolder(tasksDir); err != nil {
		for i := range errs {
			if errs[i] == nil {
				errs[i] = err
			}
		}
	}
	s.log.flush()
	return errs
}
