package mailbox

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// Apply carries out one change. All changes but an answer require that no orchestrator lives, because the orchestrator
// writes these files without checking for other writers. Apply compares every file with the version that was judged. If
// the same change is applied again after a crash, the resulting files are the same.
func (p *Project) Apply(ctx context.Context, c protocol.Change, now time.Time) error {
	act := p.verb(c.Verb)
	switch {
	case act == nil:
		return fmt.Errorf("%s: %w", c.Verb, protocol.ErrUnsupported)
	case c.Subject.Kind == protocol.KindTask && !plainID(c.Subject.ID):
		return fmt.Errorf("%s: %q is not a task id", c.Verb, c.Subject.ID)
	}
	if c.Verb == protocol.VerbAnswer {
		return p.Change(ctx, now, func() error { return act(c) })
	}
	p.Begin(now)
	if err := p.Open(); err != nil {
		return folder.Conflict(err)
	}
	if err := p.yield(); err != nil {
		return err
	}
	return folder.Conflict(p.Guarded(ctx, func() error {
		if err := p.yield(); err != nil { // the orchestrator may have started during the wait for the lock
			return err
		}
		return act(c)
	}))
}

// yield checks again whether the orchestrator lives, and returns a conflict if it does.
func (p *Project) yield() error {
	p.look()
	if why := p.chief.yield(); why != "" {
		return folder.Moved("%s", why)
	}
	return nil
}

func (p *Project) verb(v protocol.Verb) func(protocol.Change) error {
	switch v {
	case protocol.VerbRequeue:
		return p.requeue
	case protocol.VerbMark:
		return p.correctRunning
	case protocol.VerbFile:
		return p.clearLetters
	case protocol.VerbAnswer:
		return p.answer
	}
	return nil
}

// requeue sets one task back to pending in the document's way (protocol 003, Task State Transitions): a task in progress
// is rejected with a reason and reset; a rejected task is reset. A task that awaits review stays, because its work is
// done. The attempt is recorded before the edit and committed after it.
func (p *Project) requeue(c protocol.Change) error {
	id, s := c.Subject.ID, p.living()
	_, err := p.Edit(folder.Edit{File: s.queueFile(), Max: maxQueue, Judge: func(o jsonfile.Object) ([]jsonfile.Set, error) {
		i, r := findTask(o, id)
		switch {
		case r == nil:
			return nil, folder.Moved("task %s is not in the queue any more", id)
		case r.status == pending, p.workedOnSince(c, r):
			return nil, nil
		case r.status == awaitingReview:
			return nil, folder.Moved("task %s awaits its review: only a person or the team lead ends that", id)
		case string(r.sum) != c.Ref.Sum:
			return nil, folder.Moved("task %s is %s now", id, r.status)
		case r.status != inProgress && r.status != rejected:
			return nil, folder.Moved("task %s is %s", id, r.status)
		}
		return p.reset(o, i, r), p.ledger.Enter(p.Root, c, p.Now)
	}, Again: func(o jsonfile.Object) ([]jsonfile.Set, error) {
		// A queue that a client wrote late takes precedence: reset the task only if it is still the task that was judged.
		i, r := findTask(o, id)
		if r == nil || string(r.sum) != c.Ref.Sum {
			return nil, nil
		}
		return p.reset(o, i, r), nil
	}})
	if err != nil {
		return err
	}
	if err := p.ledger.Commit(p.Root, c); err != nil && !folder.Missing(err) {
		return err
	}
	return nil
}

// workedOnSince reports whether the recorded but uncommitted attempt was carried out and the task has been taken again
// since. Then only the record remains to be completed.
func (p *Project) workedOnSince(c protocol.Change, r *record) bool {
	return slices.ContainsFunc(p.ledger.Of(c.Subject.ID), func(k protocol.Attempt) bool {
		return k.N == c.Attempt && !k.Committed && r.updatedAt.Latest().After(k.Due.Add(clockStep))
	})
}

// reset returns the edit that sets the i-th task of tasks[] back to pending. The steps in_progress → rejected → pending
// are made in one write, so that a client that has the queue open loses nothing to a second write. The rejection leaves
// its reason in the task (protocol 003, Review Failures), unless the task already has one. current and the times are
// updated to match.
func (p *Project) reset(o jsonfile.Object, i int, r *record) []jsonfile.Set {
	in := func(key string) []string { return []string{"tasks", strconv.Itoa(i), key} }
	now := jsonfile.FormatTime(p.Now)
	sets := []jsonfile.Set{{Path: in("status"), Value: pending}, {Path: in("updatedAt"), Value: now}}
	if r.status == inProgress && r.reason == "" {
		sets = append(sets, jsonfile.Set{Path: in("rejectionReason"), Value: p.unled()})
	}
	if current, _ := o.String("current"); current == r.id {
		sets = append(sets, jsonfile.Set{Path: []string{"current"}, Value: nil})
	}
	if o.Has("lastUpdated") {
		sets = append(sets, jsonfile.Set{Path: []string{"lastUpdated"}, Value: now})
	}
	return sets
}

// findTask finds the first task of tasks[] with the id, in the document as it is now.
func findTask(o jsonfile.Object, id string) (int, *record) {
	items, _ := o.Array("tasks")
	for i, v := range items {
		entry, ok := v.Object()
		if !ok.OK() {
			continue
		}
		if own, _ := entry.String("id"); own == id {
			r := decodeRecord(entry)
			return i, &r
		}
	}
	return 0, nil
}

// correctRunning sets the orchestrator's running flag in status.json to false, because its process is gone. It changes
// only that key, whatever status the supervisor would write for an agent.
func (p *Project) correctRunning(c protocol.Change) error {
	board, file := p.statusBoard()
	switch {
	case c.Subject.ID != orchestrator:
		return fmt.Errorf("mark %s: %w", c.Subject.ID, protocol.ErrUnsupported)
	case !board.There:
		return folder.Moved("there is no status.json")
	case p.chief.verdict != gone && board.Value.running:
		return folder.Moved("nothing proves that the orchestrator is gone")
	}
	_, err := p.Edit(folder.Edit{File: file, Max: maxFile, Judge: func(o jsonfile.Object) ([]jsonfile.Set, error) {
		entry, _ := o.Object(orchestrator)
		running, _ := entry.Bool("running")
		switch {
		case !running:
			return nil, nil
		case string(jsonfile.SumOf(entry.Value().Raw())) != c.Ref.Sum:
			return nil, folder.Moved("the orchestrator's entry in %s has changed", file)
		}
		return []jsonfile.Set{{Path: []string{orchestrator, "running"}, Value: false}}, nil
	}})
	return err
}

// clearLetters removes the messages of a completed task from one mailbox (protocol 003, Clearing Messages). lastRead and
// the messages of other tasks stay.
func (p *Project) clearLetters(c protocol.Change) error {
	q := &p.living().queue
	if _, done := q.Value.byID[c.Subject.ID]; !q.Good || !done {
		return folder.Moved("task %s is not completed", c.Subject.ID)
	}
	if c.Ref.Sum == "" || !slices.ContainsFunc(p.mail(), func(m located) bool { return m.file == c.Ref.Path }) {
		return folder.Moved("there is no mailbox %s", line(c.Ref.Path, 80))
	}
	_, err := p.Edit(folder.Edit{File: c.Ref.Path, Max: maxFile, If: jsonfile.Sum(c.Ref.Sum),
		Judge: func(o jsonfile.Object) ([]jsonfile.Set, error) { return letterRemovals(o, c.Subject.ID), nil }})
	return err
}

// letterRemovals removes the messages about a task, the last one first so that the indexes of the others stay valid.
func letterRemovals(o jsonfile.Object, id string) (sets []jsonfile.Set) {
	items, _ := o.Array("messages")
	for i, v := range slices.Backward(items) {
		m, _ := v.Object()
		if own, _ := m.String("taskId"); own == id {
			sets = append(sets, jsonfile.Remove("messages", strconv.Itoa(i)))
		}
	}
	return sets
}
