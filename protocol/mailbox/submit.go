package mailbox

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// newTask is a task as the program adds it to queue.json.
type newTask struct {
	ID          string    `json:"id"`
	Type        string    `json:"type"`
	Priority    string    `json:"priority"`
	Title       string    `json:"title"`
	Description string    `json:"description"`
	Status      string    `json:"status"`
	Created     time.Time `json:"createdAt"`
}

// assignmentMessage is a task assignment (protocol 003, Task Assignment).
type assignmentMessage struct {
	Type         string    `json:"type"`
	Task         string    `json:"taskId"`
	Platform     string    `json:"platform"`
	Title        string    `json:"title"`
	Instructions string    `json:"instructions"`
	Files        []string  `json:"filesToCreate"`
	Architecture string    `json:"architecture"`
	At           time.Time `json:"timestamp"`
}

// anyArchitecture stands for an architecture that the lead leaves open. The program's prompt uses the same words.
const anyArchitecture = "Follow existing patterns"

// Submit adds a task to queue.json for the team lead, or assigns a task to the developer: a task that queue.json does not
// list is added, and a rejected one is reset to pending. Errors: *InvalidError, protocol.ErrEnded, protocol.ErrTaken if the
// task is in another agent's hands.
func (c *Client) Submit(ctx context.Context, o protocol.Order, now time.Time) (protocol.Receipt, error) {
	assigns, err := checkOrder(&o)
	if err != nil {
		return protocol.Receipt{}, err
	}
	return c.act(ctx, now, func() (done protocol.Receipt, err error) {
		known := (*record)(nil)
		if o.ID == "" {
			o.ID = c.freshID()
		} else if known, err = c.task(o.ID); err != nil {
			known = nil
		}
		switch {
		case assigns:
			return c.assign(known, o)
		case known != nil:
			return done, fmt.Errorf("task %s: %w in queue.json", o.ID, jsonfile.ErrExist)
		}
		return c.addTask(o)
	})
}

// checkOrder completes an order, and reports whether it assigns a task to the developer.
func checkOrder(o *protocol.Order) (assigns bool, err error) {
	from, to := lead, lead
	for _, agent := range []struct {
		name string
		role *string
	}{{o.From, &from}, {o.To, &to}} {
		if agent.name != "" && agent.name != "user" {
			if *agent.role, err = roleOf(agent.name); err != nil {
				return false, err
			}
		}
	}
	assigns = to == developer || o.To == "" && (o.From != "" && from == lead || o.Type == taskAssignment || o.Document != nil)
	switch {
	case to != developer && to != lead && to != orchestratorName:
		return false, fmt.Errorf("%w: protocol 003 gives tasks to the team-lead and the developer only, not to %s", protocol.ErrUnsupported, o.To)
	case len(o.After) > 0:
		return false, fmt.Errorf("%w: tasks of protocol 003 cannot wait for other tasks: submit it when %s is completed", protocol.ErrUnsupported, line(o.After[0], 80))
	case assigns && o.Type != "" && o.Type != taskAssignment:
		return false, folder.Refuse("the developer gets messages of type %s, not %q", taskAssignment, line(o.Type, 40))
	}
	if doc, err := jsonfile.Parse(o.Document); err == nil && o.ID == "" {
		o.ID = folder.FirstText(doc, "taskId", "id")
	}
	if o.Title == "" {
		first, _, _ := strings.Cut(strings.TrimSpace(o.Text), "\n")
		o.Title = line(first, 120)
	}
	if o.ID != "" && !plainID(o.ID) {
		return false, folder.Refuse("%q is not a task id: it cannot be used as a file name", line(o.ID, 80))
	}
	return assigns, nil
}

var numberedID = regexp.MustCompile(`^task-(\d{1,9})$`)

// freshID returns the next id in the program's form: task-001.
func (c *Client) freshID() string {
	used, _ := c.inUse()
	most := 0
	for _, r := range slices.Concat(used.queue.Value.tasks, used.queue.Value.done) {
		if m := numberedID.FindStringSubmatch(r.id); m != nil {
			n, _ := strconv.Atoi(m[1])
			most = max(most, n)
		}
	}
	return fmt.Sprintf("task-%03d", most+1)
}

// addTask adds a pending task to queue.json.
func (c *Client) addTask(o protocol.Order) (done protocol.Receipt, err error) {
	if err := c.alone("submit task " + o.ID); err != nil {
		return done, err
	}
	doc, err := compose(newTask{ID: o.ID, Type: cmp.Or(o.Type, "feature"), Priority: cmp.Or(o.Priority, "medium"), Title: o.Title,
		Description: cmp.Or(o.Text, o.Title), Status: pending, Created: c.Now.UTC()}, o.Document, o.Fields)
	if err != nil {
		return done, err
	}
	r, problems := decodeRecord(doc), []string{}
	if r.id != o.ID || r.status != pending {
		problems = append(problems, "id and status of a new task cannot be changed")
	}
	if folder.FirstText(doc, "title") == "" {
		problems = append(problems, "title is empty")
	}
	if word, _ := doc.String("priority"); !slices.Contains([]string{"high", "medium", "low"}, word) {
		problems = append(problems, fmt.Sprintf("priority is %q; it must be high, medium or low", line(word, 40)))
	}
	if err := folder.Invalid(problems); err != nil {
		return done, err
	}
	used, _ := c.inUse()
	_, err = c.Edit(folder.Edit{File: used.queueFile(), Max: maxQueue, Judge: func(q jsonfile.Object) ([]jsonfile.Set, error) {
		if _, there := findTask(q, o.ID); there != nil {
			return nil, nil
		}
		return []jsonfile.Set{{Path: []string{"tasks", "-"}, Value: json.RawMessage(doc.Value().Raw())}, {Path: []string{"lastUpdated"}, Value: jsonfile.FormatTime(c.Now)}}, nil
	}})
	return protocol.Receipt{ID: o.ID, State: protocol.TaskPending, Path: folder.Absolute(c.Folder, used.queueFile())}, err
}

// assign writes a task assignment for the developer. known is the task's entry in queue.json, nil if it is not listed.
func (c *Client) assign(known *record, o protocol.Order) (done protocol.Receipt, err error) {
	if err := c.mayAssign(known, o.ID); err != nil {
		return done, err
	}
	if known != nil {
		o.Title = cmp.Or(o.Title, known.title)
	}
	doc, err := compose(assignmentMessage{Type: taskAssignment, Task: o.ID, Platform: c.platform(o.ID), Title: o.Title, Instructions: o.Text,
		Files: []string{}, Architecture: anyArchitecture, At: c.Now.UTC()}, o.Document, o.Fields)
	if err == nil {
		err = checked(doc, taskAssignment, o.ID)
	}
	if err != nil {
		return done, err
	}
	done = protocol.Receipt{ID: o.ID, State: protocol.TaskPending, Path: folder.Absolute(c.Folder, c.boxFor(developer))}
	if known == nil {
		o.Document, o.Fields, o.Type = nil, nil, ""
		o.Title, o.Text = cmp.Or(folder.FirstText(doc, "title"), o.Title), folder.FirstText(doc, "instructions")
		if _, err := c.addTask(o); err != nil {
			return done, err
		}
	}
	if err = c.handOver(known, doc); err != nil && known == nil {
		err = fmt.Errorf("%w; task %s is in queue.json without its message: repair the mailbox, and submit it again with the id %[2]s", err, o.ID)
	}
	return done, err
}

// mayAssign checks the task's state before an assignment.
func (c *Client) mayAssign(r *record, id string) error {
	switch {
	case r == nil || r.status == inProgress && c.orchestrator.lives(): // the lead's own process assigns what the orchestrator has started
		return nil
	case r.status == completed:
		return protocol.ErrEnded
	case r.status == awaitingReview || c.reported(r):
		return illegal(r, "approve or reject its report first")
	}
	if claim := c.claimTo(r); c.held(claim) && claim.Agent != lead {
		return taken(claim)
	}
	return c.alone("assign task " + id)
}

// handOver delivers an assignment, and then leaves the task to the developer: a rejected task becomes pending, and of a task
// in progress the developer gets the claim.
func (c *Client) handOver(r *record, doc jsonfile.Object) error {
	if err := c.send(c.boxFor(developer), doc, time.Time{}); err != nil || r == nil {
		return err
	}
	switch {
	case c.orchestrator.lives():
		return nil
	case r.status == inProgress:
		n := c.sent[topic{r.id, completionReport}].n
		if err := c.putClaim(workClaim{Task: r.id, Agent: developer, Taken: r.updatedAt.At, Reports: n, Waiting: true}); err != nil {
			return err
		}
		return c.sign(lead, "idle", nil)
	case r.status == rejected:
		return c.retry(r, protocol.ActionRetry, rejectedCode, "assigned again")
	}
	return nil
}

// compose makes a message: document if there is one, else m; with fields set by their paths.
func compose(m any, document json.RawMessage, fields map[string]any) (o jsonfile.Object, err error) {
	doc := []byte(document)
	if document == nil {
		if doc, err = jsonfile.Encode(m); err != nil {
			return o, err
		}
	}
	if doc, err = folder.SetFields(doc, fields); err != nil {
		return o, err
	}
	if len(doc) > maxMessage {
		return o, folder.Refuse("the message has %d bytes; the limit is %d", len(doc), maxMessage)
	}
	if o, err = jsonfile.Parse(doc); err != nil {
		return o, folder.Refuse("the message is not a JSON document: %v", err)
	}
	return o, nil
}

// checked returns an *InvalidError unless the message is of that type, about that task, and as the document describes it.
func checked(o jsonfile.Object, kind, task string) error {
	if m := decodeMessage(0, o.Value()); m.kind != kind || m.task != task {
		return folder.Refuse("the message is of type %q about task %q; it must be of type %s about task %s", m.kind, m.task, kind, task)
	}
	return CheckMessage(o.Value().Raw())
}

// content is the checksum of a message without its time.
func content(v jsonfile.Value) jsonfile.Sum {
	doc, err := jsonfile.Edit(v.Raw(), jsonfile.Remove("timestamp"))
	if err != nil {
		return jsonfile.SumOf(v.Raw())
	}
	if v, err = jsonfile.ParseValue(doc); err != nil {
		return jsonfile.SumOf(doc)
	}
	return v.Meaning()
}
