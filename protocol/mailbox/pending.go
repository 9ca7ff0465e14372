package mailbox

import (
	"cmp"
	"context"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
)

// turn returns the agent whose turn it is to act on a task, and what it gets: a task to analyse, an assignment or a
// completion report. "" means that no agent can take the task.
func (r *reader) turn(t *record) (role, kind string) {
	claim := r.claimTo(t)
	switch {
	case r.held(claim):
		return "", ""
	case t.status == pending:
		if r.sent[topic{t.id, taskAssignment}].n > 0 {
			return developer, taskAssignment
		}
		return lead, "task"
	case t.status == inProgress && claim != nil && claim.Waiting:
		return developer, taskAssignment
	case t.status == awaitingReview, r.reported(t):
		return lead, completionReport
	}
	return "", ""
}

// topic is what messages of one type say about one task.
type topic struct{ task, kind string }

// sent are the messages about a topic in the layout in use: the newest with its file, and how many there are.
type sent struct {
	*message
	file string
	n    int
}

// sort finds the messages about each topic.
func (r *reader) sort() {
	r.sent = map[topic]sent{}
	used, _ := r.inUse()
	for m, l := range allMessages(used.mail(true)) {
		at := topic{l.task, l.kind}
		last := r.sent[at]
		if last.message == nil || !l.at.Before(last.at) {
			last.message, last.file = l, m.file
		}
		last.n++
		r.sent[at] = last
	}
}

// reported reports whether the developer has reported on a task in progress, whose status was not updated: a crash came
// between, or the orchestrator ended. Its work is done.
func (r *reader) reported(t *record) bool {
	last := r.sent[topic{t.id, completionReport}]
	if claim := r.claimTo(t); claim != nil {
		return t.status == inProgress && last.n > claim.Reports
	}
	return t.status == inProgress && last.n > 0 && !last.at.Before(t.updated.Truncate(time.Second))
}

// Pending lists the tasks that wait for an agent, as the program orders them: by priority, then by age.
func (c *Client) Pending(ctx context.Context, agent string, now time.Time) (list []protocol.Assignment, err error) {
	role := ""
	if agent != "" {
		if role, err = roleOf(agent); err != nil {
			return nil, err
		}
	}
	if err := c.open(ctx, now); err != nil {
		return nil, err
	}
	used, _ := c.inUse()
	for i := range used.queue.Value.tasks {
		r := &used.queue.Value.tasks[i]
		if who, _ := c.turn(r); who != "" && (role == "" || who == role) {
			list = append(list, c.assignment(r))
		}
	}
	return folder.MostUrgentFirst(list), nil
}

// Show returns one task.
func (c *Client) Show(ctx context.Context, id string, now time.Time) (protocol.Assignment, error) {
	if err := c.open(ctx, now); err != nil {
		return protocol.Assignment{}, err
	}
	r, err := c.task(id)
	if err != nil {
		return protocol.Assignment{}, err
	}
	return c.assignment(r), nil
}

// taskStates says how steward names the protocol's states.
var taskStates = map[string]protocol.TaskState{pending: protocol.TaskPending, inProgress: protocol.TaskRunning,
	awaitingReview: protocol.TaskWaiting, completed: protocol.TaskDone, rejected: protocol.TaskWaiting}

// assignment describes a task. Its message is the newest report if the task awaits its review, else the newest assignment,
// else its entry in queue.json. The reason of a rejection is in that entry.
func (c *Client) assignment(r *record) protocol.Assignment {
	used, _ := c.inUse()
	a := protocol.Assignment{ID: r.id, Agent: developer, Source: "team-lead", Title: r.title, State: taskStates[r.status], Priority: r.priority,
		Created: c.Past(r.created), Attempt: 1, Path: folder.Absolute(c.Folder, used.queueFile()), Waits: c.orchestrator.yield()}
	for _, k := range c.attempts.Of(r.id) {
		if k.Committed && k.Action == protocol.ActionRetry {
			a.Attempt++
		}
	}
	if r.status == rejected && c.view().rejections(r) < mostAttempts { // protocol 003, Task State Transitions: reset for retry
		a.State, a.Waits = protocol.TaskWaiting, cmp.Or(a.Waits, "rejected: the team lead assigns it again")
	}
	who, kind := c.turn(r)
	if claim := c.claimTo(r); claim != nil {
		who, a.Worker = claim.Agent, claim.Worker
		if claim.Waiting {
			a.State = protocol.TaskPending
		}
	}
	if r.status == rejected && c.view().rejections(r) >= mostAttempts {
		a.State = protocol.TaskFailed
	}
	if a.Type = cmp.Or(kind, r.kind); who == lead {
		a.Agent = "team-lead"
	}
	if kind == "task" {
		a.Source = "user"
	}
	message, entry := sent{}, c.raw(used.queueFile(), "tasks", r.sum)
	if entry == nil {
		entry = c.raw(used.queueFile(), "completed", r.sum)
	}
	if r.status == awaitingReview || kind == completionReport {
		message = c.sent[topic{r.id, completionReport}]
	}
	if message.message == nil && r.status != completed {
		message = c.sent[topic{r.id, taskAssignment}]
	}
	if a.Message = entry; message.message != nil {
		a.Path, a.Message = folder.Absolute(c.Folder, message.file), c.raw(message.file, "messages", message.raw)
		if r.reason != "" {
			a.Feedback = append(a.Feedback, entry)
		}
	}
	if answer := c.sent[topic{r.id, answerKind}]; answer.message != nil && r.status != completed {
		a.Feedback = append(a.Feedback, c.raw(answer.file, "messages", answer.raw))
	}
	return a
}
