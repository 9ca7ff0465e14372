package agentstatus

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// changes carry out one change each. The guard lock is held, and the folders are probed.
var changes = map[protocol.Verb]func(*Project, protocol.Change) error{
	protocol.VerbHold:     holdTask,
	protocol.VerbRelease:  releaseTask,
	protocol.VerbRenew:    renewHold,
	protocol.VerbRetry:    retryTask,
	protocol.VerbBury:     buryTask,
	protocol.VerbConclude: concludeTask,
	protocol.VerbCancel:   cancelTask,
	protocol.VerbFile:     fileLate,
	protocol.VerbRecord:   recordResult,
	protocol.VerbMark:     markAgent,
	protocol.VerbLog:      logIfNew,
	protocol.VerbPause:    func(s *Project, c protocol.Change) error { return setHeld(s, c.Subject.ID, c.Why) },
	protocol.VerbResume:   func(s *Project, c protocol.Change) error { return setHeld(s, c.Subject.ID, "") },
	protocol.VerbAnswer:   writeDecision,
}

// batchSize is how many changes are made per acquisition of the guard lock: workers and other steward commands wait
// for that lock. The log lines of one batch must fit into the queue of unwritten lines (mostQueued).
const batchSize = 200

// Apply carries out one change. It compares every file with what was judged before it moves or replaces the file.
// After a crash, applying the same change again ends in the same files.
func (p *Project) Apply(ctx context.Context, c protocol.Change, now time.Time) error {
	return p.ApplyAll(ctx, []protocol.Change{c}, now)[0]
}

// ApplyAll carries out changes of one verb. Many holds, releases, renewals or log events wait for the disk once per
// batch; after a crash, each of them is made or not made. Other changes are carried out one by one.
// See docs/decisions.md, "A batch waits for the disk once".
func (p *Project) ApplyAll(ctx context.Context, list []protocol.Change, now time.Time) []error {
	errs := make([]error, len(list))
	for i, n := 0, 0; i < len(list); i += n {
		switch n = 1; list[i].Verb {
		case protocol.VerbHold, protocol.VerbRelease, protocol.VerbRenew, protocol.VerbLog:
			n = min(batchSize, len(list)-i)
		}
		p.applyBatch(ctx, list[i:i+n], errs[i:i+n], now)
	}
	return errs
}

// applyBatch carries out changes under one guard lock, and sets the error of each.
func (p *Project) applyBatch(ctx context.Context, list []protocol.Change, errs []error, now time.Time) {
	accepted := false
	for i, c := range list {
		errs[i] = accepts(c)
		accepted = accepted || errs[i] == nil
	}
	if !accepted {
		return
	}
	err := ctx.Err()
	if err == nil {
		err = p.Change(ctx, now, func() error { return p.makeAll(list, errs) })
	}
	for i := range errs {
		errs[i] = cmp.Or(errs[i], err)
	}
}

// makeAll makes the accepted changes, and writes their log lines.
func (p *Project) makeAll(list []protocol.Change, errs []error) (err error) {
	for _, c := range list { // the next scan reads their subjects, with or without a hint
		if c.Subject.Kind == protocol.KindTask {
			p.tasks.dirty[c.Subject.ID] = true
		}
	}
	p.probeAll()
	if len(list) > 1 {
		p.waits = []jsonfile.Option{jsonfile.Volatile}
	}
	for i, c := range list {
		if errs[i] == nil {
			errs[i] = folder.Conflict(changes[c.Verb](p, c))
		}
	}
	p.waits = nil
	if len(list) > 1 {
		err = p.Root.SyncFolder(tasksDir)
	}
	p.log.flush()
	return err
}

// accepts rejects a change that this protocol does not support, and a subject whose name cannot be a file name.
func accepts(c protocol.Change) error {
	switch {
	case changes[c.Verb] == nil:
		return fmt.Errorf("%s: %w", c.Verb, protocol.ErrUnsupported)
	case c.Subject.Kind == protocol.KindTask && !plainID(c.Subject.ID):
		return fmt.Errorf("%s: %q is not a task id", c.Verb, c.Subject.ID)
	case c.Subject.Kind == protocol.KindAgent && !plainID(c.Subject.ID):
		return fmt.Errorf("%s: %q is not a valid agent name", c.Verb, c.Subject.ID)
	}
	return nil
}

// markAgent writes an agent's state into the registry (VerbMark). It changes the agent's status and last_seen and the
// registry's updated_at, and not one byte more.
func markAgent(p *Project, c protocol.Change) error {
	name := c.Subject.ID
	sets := []jsonfile.Set{set(c.Status, "agents", name, "status"), set(jsonfile.FormatTime(p.Now), "updated_at")}
	seen := c.Seen
	if c.Reason == protocol.ReasonBeats || c.Reason == protocol.ReasonError {
		seen = p.Now // the agent is alive
	}
	wrote, err := p.editRegistry(func(o jsonfile.Object) ([]jsonfile.Set, error) {
		m, ok := decodeRegistry(o).agents[name]
		switch {
		case !ok:
			return nil, folder.Moved("the registry does not list %s", name)
		case m.status == c.Status:
			return nil, nil
		case m.status != c.Ref.Sum:
			return nil, folder.Moved("the registry says %q of %s now", folder.Line(m.status, 40), name)
		}
		if seen.Truncate(time.Second).After(m.seen) {
			return append(slices.Clip(sets), set(jsonfile.FormatTime(seen), "agents", name, "last_seen")), nil
		}
		return sets, nil
	})
	if err != nil || !wrote {
		return err
	}
	event := "agent_" + c.Status
	switch c.Reason {
	case protocol.ReasonBeats:
		event = "agent_recovered"
	case protocol.ReasonSilent, protocol.ReasonGone:
		event = "agent_dead"
	}
	p.log.report(event, c)
	return nil
}

// setHeld records or removes the operator's hold of an agent (VerbPause, VerbResume).
func setHeld(p *Project, agent, why string) error {
	return p.agents.editRecord(agent, func(r *agentRecord) { r.Held = why })
}

// logIfNew writes the line of an event in the name of the agent that it is about (VerbLog), unless the log has it.
func logIfNew(p *Project, c protocol.Change) error {
	p.log.read()
	line := logLine{EventType: c.Event, TaskID: c.Subject.ID, Source: c.Agent, Message: c.Why, Metadata: map[string]any{"logged_by": ourName}}
	if c.Event == eventIncident {
		if slices.Contains(p.log.incidents, c.Code) {
			return nil
		}
		line.Source, line.Target, line.Metadata["incident"] = ourName, c.Agent, c.Code
		if c.Subject.Kind != protocol.KindTask {
			line.TaskID, line.Target = "", c.Subject.ID
		}
	} else {
		if p.log.names(c.Subject.ID, c.Event) {
			return nil
		}
		if !c.Until.IsZero() {
			line.Timestamp = jsonfile.FormatTime(c.Until)
		}
		if e := p.tasks.open[c.Subject.ID]; e != nil {
			if slices.Contains(p.log.eventsOf(e), c.Event) {
				return nil
			}
			if line.Target = e.asked().Value.Source; c.Event == eventCreated {
				line.Source, line.Target = line.Target, c.Agent
			}
		}
	}
	line.Source = cmp.Or(line.Source, ourName)
	return p.log.write(line, p.waits...)
}
