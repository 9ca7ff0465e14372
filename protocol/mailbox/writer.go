package mailbox

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// writer carries out changes.
type writer struct{ *reader }

// requeue sets one task back to pending in the document's way (protocol 003, Task State Transitions): a task in progress
// is rejected with a reason and reset; a rejected task is reset. A task that awaits review stays, because its work is
// done. The attempt is recorded before the edit and committed after it.
// See docs/decisions.md, "Work of a dead 003 orchestrator goes in_progress → rejected → pending in one write".
func (w writer) requeue(c protocol.Change) error {
	id, reason := c.Subject.ID, w.absence()
	if c.Why != "" && c.Code == returnedCode {
		reason = c.Why
	}
	used, _ := w.inUse()
	_, err := w.Edit(folder.Edit{File: used.queueFile(), Max: maxQueue, Judge: func(o jsonfile.Object) ([]jsonfile.Set, error) {
		i, r := findTask(o, id)
		switch {
		case r == nil:
			return nil, folder.Moved("task %s is not in the queue any more", id)
		case r.status == pending, w.takenSince(c, r):
			return nil, nil
		case r.status == awaitingReview:
			return nil, folder.Moved("task %s awaits its review: only a person or the team lead ends that", id)
		case string(r.sum) != c.Ref.Sum:
			return nil, folder.Moved("task %s is %s now", id, r.status)
		case r.status != inProgress && r.status != rejected:
			return nil, folder.Moved("task %s is %s", id, r.status)
		}
		return w.reset(o, i, r, reason), w.attempts.Enter(w.Root, c, w.Now)
	}, Again: func(o jsonfile.Object) ([]jsonfile.Set, error) {
		// A queue that a client wrote late takes precedence: reset the task only if it is still the task that was judged.
		i, r := findTask(o, id)
		if r == nil || string(r.sum) != c.Ref.Sum {
			return nil, nil
		}
		return w.reset(o, i, r, reason), nil
	}})
	if err != nil {
		return err
	}
	if err := w.attempts.Commit(w.Root, c); err != nil && !folder.Missing(err) {
		return err
	}
	return nil
}

// takenSince reports whether the recorded but uncommitted attempt was carried out and the task has been taken again since.
// Then only the record remains to be completed.
func (w writer) takenSince(c protocol.Change, r *record) bool {
	return slices.ContainsFunc(w.attempts.Of(c.Subject.ID), func(k protocol.Attempt) bool {
		return k.N == c.Attempt && !k.Committed && r.updatedAt.Latest().After(k.Due.Add(clockStep))
	})
}

// reset returns the edit that sets the i-th task of tasks[] back to pending. The steps in_progress → rejected → pending
// are made in one write, so that a client that has the queue open loses nothing to a second write. The rejection leaves
// its reason in the task (protocol 003, Review Failures), unless the task already has one.
func (w writer) reset(o jsonfile.Object, i int, r *record, reason string) []jsonfile.Set {
	sets := w.advance(o, i, r.id, pending)
	if r.status == inProgress && r.reason == "" {
		sets = append(sets, inTask(i, "rejectionReason", reason))
	}
	return sets
}

// advance returns the edit that gives the i-th task of tasks[] a new status. current and the times are updated to match.
func (w writer) advance(o jsonfile.Object, i int, id, status string) []jsonfile.Set {
	now := jsonfile.FormatTime(w.Now)
	sets := []jsonfile.Set{inTask(i, "status", status), inTask(i, "updatedAt", now)}
	switch current, _ := o.String("current"); {
	case status == inProgress:
		sets = append(sets, jsonfile.Set{Path: []string{"current"}, Value: id})
	case current == id:
		sets = append(sets, jsonfile.Set{Path: []string{"current"}, Value: nil})
	}
	if o.Has("lastUpdated") {
		sets = append(sets, jsonfile.Set{Path: []string{"lastUpdated"}, Value: now})
	}
	return sets
}

func inTask(i int, key string, value any) jsonfile.Set {
	return jsonfile.Set{Path: []string{"tasks", strconv.Itoa(i), key}, Value: value}
}

// findTask finds the first task of tasks[] with the id, in the document as it is now.
func findTask(o jsonfile.Object, id string) (int, *record) {
	items, _ := o.Array("tasks")
	for i, v := range items {
		entry, _ := v.Object()
		if own, _ := entry.String("id"); own == id {
			r := decodeRecord(entry)
			return i, &r
		}
	}
	return 0, nil
}

// correctRunning sets the orchestrator's running flag in status.json to false, because its process is gone. It changes
// only that key, whatever status the supervisor would write for an agent.
func (w writer) correctRunning(c protocol.Change) error {
	st := w.status()
	switch {
	case c.Subject.ID != orchestratorName:
		return fmt.Errorf("mark %s: %w", c.Subject.ID, protocol.ErrUnsupported)
	case !st.There:
		return folder.Moved("there is no status.json")
	case w.orchestrator.verdict != gone && st.Value.running:
		return folder.Moved("nothing proves that the orchestrator is gone")
	}
	_, err := w.Edit(folder.Edit{File: st.file, Max: maxFile, Judge: func(o jsonfile.Object) ([]jsonfile.Set, error) {
		entry, _ := o.Object(orchestratorName)
		running, _ := entry.Bool("running")
		switch {
		case !running:
			return nil, nil
		case string(jsonfile.SumOf(entry.Value().Raw())) != c.Ref.Sum:
			return nil, folder.Moved("the orchestrator's entry in %s has changed", st.file)
		}
		return []jsonfile.Set{{Path: []string{orchestratorName, "running"}, Value: false}}, nil
	}})
	return err
}

// clearMessages removes the messages of a completed task from one mailbox (protocol 003, Clearing Messages). lastRead and
// the messages of other tasks stay.
func (w writer) clearMessages(c protocol.Change) error {
	used, _ := w.inUse()
	if _, done := used.queue.Value.byID[c.Subject.ID]; !used.queue.Good || !done {
		return folder.Moved("task %s is not completed", c.Subject.ID)
	}
	if c.Ref.Sum == "" || !slices.ContainsFunc(w.mail(), func(m located) bool { return m.file == c.Ref.Path }) {
		return folder.Moved("there is no mailbox %s", line(c.Ref.Path, 80))
	}
	_, err := w.Edit(folder.Edit{File: c.Ref.Path, Max: maxFile, If: jsonfile.Sum(c.Ref.Sum),
		Judge: func(o jsonfile.Object) ([]jsonfile.Set, error) { return messageRemovals(o, c.Subject.ID), nil }})
	return err
}

// messageRemovals removes the messages about a task, the last one first so that the indexes of the others stay valid.
func messageRemovals(o jsonfile.Object, id string) (sets []jsonfile.Set) {
	items, _ := o.Array("messages")
	for i, v := range slices.Backward(items) {
		m, _ := v.Object()
		if own, _ := m.String("taskId"); own == id {
			sets = append(sets, jsonfile.Remove("messages", strconv.Itoa(i)))
		}
	}
	return sets
}
