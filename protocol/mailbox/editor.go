package mailbox

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// editor makes the single edits of which the actions of a Client consist.
type editor struct {
	writer
	docs map[string]jsonfile.Object // the documents that one call has loaded, by file
}

// alone returns an error while the orchestrator lives, which would overwrite what is about to be written.
func (e editor) alone(what string) error {
	why := e.orchestrator.yield()
	if why == "" {
		return nil
	}
	return fmt.Errorf("%s: %s, and it rewrites queue.json and status.json without a lock: stop it (claude-orchestrator stop) and repeat the command", what, why)
}

// task returns an open or completed task, and an error if no task has that id.
func (e editor) task(id string) (*record, error) {
	used, _ := e.inUse()
	q := &used.queue.Value
	for i := range q.tasks {
		if q.tasks[i].id == id {
			return &q.tasks[i], nil
		}
	}
	if i, ok := q.byID[id]; ok {
		return &q.done[i], nil
	}
	return nil, fmt.Errorf("task %s: %w in %s", line(id, 80), protocol.ErrNoTask, e.Shown(used.queueFile()))
}

// change edits one task of queue.json. It returns a conflict if the task is not the one that was read.
func (e editor) change(r *record, edit func(o jsonfile.Object, i int) ([]jsonfile.Set, error)) error {
	used, _ := e.inUse()
	_, err := e.Edit(folder.Edit{File: used.queueFile(), Max: maxQueue, Judge: func(o jsonfile.Object) ([]jsonfile.Set, error) {
		i, now := findTask(o, r.id)
		if now == nil || now.sum != r.sum {
			return nil, folder.Moved("task %s was changed by another program", r.id)
		}
		return edit(o, i)
	}})
	return err
}

// advanceTo gives a task a new status.
func (e editor) advanceTo(r *record, status string, more ...func(i int) jsonfile.Set) error {
	return e.change(r, func(o jsonfile.Object, i int) ([]jsonfile.Set, error) {
		sets := e.advance(o, i, r.id, status)
		for _, set := range more {
			sets = append(sets, set(i))
		}
		return sets, nil
	})
}

// sign shows what an agent does in status.json: with status "" only that it is active. A missing status.json stays missing.
func (e editor) sign(role, status string, task any) error {
	st := e.status()
	if !st.There {
		return nil
	}
	_, err := e.Edit(folder.Edit{File: st.file, Max: maxFile, Judge: func(o jsonfile.Object) ([]jsonfile.Set, error) {
		key := developer
		if role == lead {
			if key = "techLead"; !o.Has(key) && o.Has("teamLead") {
				key = "teamLead"
			}
		}
		sets := []jsonfile.Set{{Path: []string{key, "lastActivity"}, Value: jsonfile.FormatTime(e.Now)}}
		if status != "" {
			sets = append(sets, jsonfile.Set{Path: []string{key, "status"}, Value: status})
			if role == developer {
				sets = append(sets, jsonfile.Set{Path: []string{key, "currentTask"}, Value: task})
			}
		}
		return sets, nil
	}})
	return err
}

// markRead updates lastRead of an agent's mailbox (protocol 003, Reading Messages). lastRead is never older than a message.
func (e editor) markRead(file string) error {
	if _, err := e.Root.Stat(file); folder.Missing(err) {
		return nil
	}
	_, err := e.Edit(folder.Edit{File: file, Max: maxFile, Judge: func(o jsonfile.Object) ([]jsonfile.Set, error) {
		at := e.Now
		for _, l := range decodeMailbox(o).messages {
			if l.stated.At.Sub(e.Now) < jsonfile.ClockSlack {
				at = folder.Later(at, l.stated.At.Add(time.Second-1)) // steward writes whole seconds
			}
		}
		return []jsonfile.Set{{Path: []string{"lastRead"}, Value: jsonfile.FormatTime(at)}}, nil
	}})
	return err
}

// boxFor returns the mailbox that the document names for the messages to an agent.
func (e editor) boxFor(role string) string {
	used, _ := e.inUse()
	if role == lead {
		return used.boxFile("to-team-lead.json")
	}
	return used.boxFile("to-developer.json")
}

// raw returns the item of a list with that sum, as the file has it; nil if it is gone.
func (e editor) raw(file, list string, sum jsonfile.Sum) json.RawMessage {
	o, known := e.docs[file]
	if !known {
		o, _, _ = e.Root.Load(file, maxQueue) // on an error the list is empty
		e.docs[file] = o
	}
	items, _ := o.Array(list)
	for _, v := range items {
		if jsonfile.SumOf(v.Raw()) == sum {
			return json.RawMessage(v.Raw())
		}
	}
	return nil
}

// retry puts a task back to pending, as an attempt on record.
func (e editor) retry(r *record, action, code, why string) error {
	n := 1
	for _, k := range e.attempts.Of(r.id) {
		if k.Committed {
			n = k.N + 1
		}
	}
	return e.requeue(protocol.Change{Verb: protocol.VerbRequeue, Subject: about(protocol.KindTask, r.id), Why: why, Agent: developer,
		Judged: protocol.Judged{Ref: protocol.Ref{Sum: string(r.sum)}}, Entry: protocol.Entry{Action: action, Rule: "code=" + code, Code: code, Attempt: n}})
}

// platform returns the platform of a task's messages, else the project's, else custom.
func (e editor) platform(task string) string {
	if last := e.sent[topic{task, taskAssignment}]; last.n > 0 {
		m, _ := jsonfile.Parse(e.raw(last.file, "messages", last.raw))
		if word, _ := m.String("platform"); slices.Contains(platforms, word) {
			return word
		}
	}
	config, _, _ := e.Root.Load("config.json", maxFile)
	if word, _ := config.String("platform"); slices.Contains(platforms, word) {
		return word
	}
	return "custom"
}

// send appends a message to a mailbox, unless one with the same content that is not older than since is there already.
func (e editor) send(box string, doc jsonfile.Object, since time.Time) error {
	want := content(doc.Value())
	return e.post(box, json.RawMessage(doc.Value().Raw()), func(o jsonfile.Object) (bool, error) {
		items, _ := o.Array("messages")
		return slices.ContainsFunc(items, func(v jsonfile.Value) bool {
			m, _ := v.Object()
			return content(v) == want && !m.FirstStated("timestamp").Latest().Before(since)
		}), nil
	})
}

func (e editor) receipt(r *record, state protocol.TaskState, note string) protocol.Receipt {
	used, _ := e.inUse()
	return protocol.Receipt{ID: r.id, State: state, Path: folder.Absolute(e.Folder, used.queueFile()), Note: note}
}
