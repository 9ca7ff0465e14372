package envelope

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// letter is a message that steward writes for an agent or the orchestrator: the document's fields in the document's order.
type letter struct {
	task   string
	fields []jsonfile.Set
}

// newLetter begins a message with the fields that every message has.
func newLetter(word, task, from string) *letter {
	l := &letter{task: task}
	return l.set("message_type", word).set("task_id", task).set("from_agent", from)
}

// set sets a field, by its path with dots. A later value of the same field replaces an earlier one.
func (l *letter) set(key string, value any) *letter {
	if list, ok := value.([]string); ok && list == nil {
		value = []string{}
	}
	l.fields = append(l.fields, jsonfile.Set{Path: strings.Split(key, "."), Value: value})
	return l
}

// override applies what the caller gave: the keys of a complete document, then single fields.
func (l *letter) override(document json.RawMessage, fields map[string]any) error {
	if len(document) > 0 {
		o, err := jsonfile.Parse(document)
		if err != nil {
			return folder.Refuse("the document cannot be read: %v", err)
		}
		for _, key := range o.Keys() {
			l.fields = append(l.fields, jsonfile.Set{Path: []string{key}, Value: o.Get(key)})
		}
	}
	for _, key := range sortedKeys(fields) {
		l.set(key, fields[key])
	}
	return nil
}

// encode checks the message as strictly as the document is. The error lists every problem.
func (l *letter) encode() (o jsonfile.Object, doc []byte, err error) {
	if doc, err = jsonfile.Edit([]byte("{}\n"), l.fields...); err != nil {
		return o, nil, folder.Refuse("%v", err)
	}
	o, _ = jsonfile.Parse(doc)
	problems := tableFor(o).Problems(o)
	for _, own := range l.fields[:2] { // the type and the task
		if got, _ := o.String(own.Path[0]); got != own.Value {
			problems = append(problems, fmt.Sprintf("%s is %q here; it must be %q", own.Path[0], folder.Line(got, 80), own.Value))
		}
	}
	if len(doc) > maxFile/8 {
		problems = append(problems, fmt.Sprintf("the message has %d bytes; the limit is %d", len(doc), maxFile/8))
	}
	return o, doc, folder.Invalid(problems)
}

// stamp returns the time of a message about a task: later than all its messages, in milliseconds.
// See docs/decisions.md, "Our messages have milliseconds (004)".
func (c *Client) stamp(t *task) string {
	at := c.p.Now
	if t != nil {
		for _, m := range t.messages {
			at = folder.Later(at, m.at.Add(time.Millisecond))
		}
		if t.assigned != nil && isAuditor(t.assigned.to) { // an approval must be later than what it reviewed
			at = folder.Later(at, lastDelivery(c.p.board, t.project(), at).Add(time.Millisecond))
		}
	}
	if at = at.Truncate(time.Millisecond); at.Nanosecond() == 0 {
		at = at.Add(time.Millisecond)
	}
	return at.UTC().Format("2006-01-02T15:04:05.000Z")
}

// send writes a message: as a file of its own, or as a line where the task's assignment is a line, or where the project has
// only a log. It returns the file.
func (c *Client) send(kind string, l *letter, toLog bool) (file string, err error) {
	_, doc, err := l.encode()
	if err != nil {
		return "", err
	}
	p := c.p
	files := folder.Files{Folder: p.Folder}
	if toLog = toLog && files.Has(p.opts.Log); toLog || !files.Has(p.opts.Messages) {
		var line bytes.Buffer
		if err := json.Compact(&line, doc); err != nil {
			return "", err
		}
		return p.opts.Log, p.Root.Append(p.opts.Log, line.Bytes(), jsonfile.Existing)
	}
	base := kind + "-" + l.task
	if len(base) > 200 {
		base = kind + "-" + string(jsonfile.SumOf([]byte(l.task)))
	}
	name := base + messageExt
	for n := 2; n < 1000; n++ {
		if !files.Has(path.Join(p.opts.Messages, name+".held")) { // a held message keeps its name
			err = p.Root.Create(path.Join(p.opts.Messages, name), doc, 0o644)
			if !errors.Is(err, jsonfile.ErrExist) {
				break
			}
		}
		name = fmt.Sprintf("%s-%d%s", base, n, messageExt)
	}
	p.inbox.unsettled[name] = true
	return path.Join(p.opts.Messages, name), err
}

// Types of an Order beside the document's message types.
const (
	orderPipeline   = "pipeline"
	orderReview     = "security_review"
	orderDeployment = "deployment"
)

// reviewRequirements and reviewCriteria are those of the document (protocol 004, Security Review Flow).
var (
	reviewRequirements = []string{"Review all code for security vulnerabilities", "Check production readiness checklist",
		"Assess scalability and performance", "Verify error handling and robustness"}
	reviewCriteria = []string{"✓ Security vulnerabilities identified", "✓ Production readiness validated", "✓ Scalability assessed",
		"✓ Clear approval/rejection decision"}
)

// Submit sends a TASK_ASSIGNMENT. Lines of the text that begin with "✓" are acceptance criteria, the others requirements.
// Type "security_review" is for SECURITY_AUDITOR, with the document's requirements where none are given; "deployment" is
// for DEPLOYMENT; "pipeline" is work for the whole pipeline of roles, for ORCHESTRATOR, which names their order in
// "pipeline". Errors: *protocol.InvalidError, jsonfile.ErrExist, ErrNoTask if a task of After is unknown, ErrAbsent.
func (c *Client) Submit(ctx context.Context, o protocol.Order, now time.Time) (r protocol.Receipt, err error) {
	err = c.guarded(ctx, now, func() error {
		for _, id := range o.After {
			if t := c.p.board.tasks[id]; t == nil || t.assigned == nil {
				return fmt.Errorf("--after %s: %w", folder.Line(id, 80), protocol.ErrNoTask)
			}
		}
		l, err := c.order(o)
		if err != nil {
			return err
		}
		if t := c.p.board.tasks[l.task]; t != nil && t.assigned != nil && c.p.view().incomplete(t) == "" {
			return fmt.Errorf("task %s: %w", folder.Line(l.task, 80), jsonfile.ErrExist)
		}
		file, err := c.send("assignment", l, false)
		if err == nil {
			r = c.receipt(l.task, file)
		}
		return err
	})
	return r, err
}

// receivers are the agents that the types of an Order imply.
var receivers = map[string]string{"": "", "task_assignment": "", orderPipeline: "ORCHESTRATOR", orderReview: "SECURITY_AUDITOR", orderDeployment: "DEPLOYMENT"}

// order is an Order as a message.
func (c *Client) order(o protocol.Order) (*letter, error) {
	kind := strings.ToLower(o.Type)
	if o.Fields["pipeline"] != nil {
		kind = orderPipeline
	}
	implied, known := receivers[kind]
	if !known {
		return nil, folder.Refuse("type %q is not one of task_assignment, pipeline, security_review, deployment", folder.Line(o.Type, 40))
	}
	given, _ := jsonfile.Parse(o.Document)
	of := func(key string) string { s, _ := given.String(key); return s }
	to, from := cmp.Or(o.To, of("to_agent"), implied), "ORCHESTRATOR"
	if kind == orderPipeline {
		from = "human"
	}
	l := newLetter("TASK_ASSIGNMENT", cmp.Or(o.ID, of("task_id"), newTaskID(to)), cmp.Or(o.From, of("from_agent"), from))
	title, requirements, criteria := readText(o)
	if kind == orderReview {
		requirements, criteria = append(requirements, reviewRequirements...), append(criteria, reviewCriteria...)
		title = cmp.Or(title, "Security review")
	} else if len(requirements) == 0 && title != "" {
		requirements = []string{title}
	}
	l.set("to_agent", to).set("timestamp", c.stamp(c.p.board.tasks[l.task])).set("task_name", title).set("priority", cmp.Or(o.Priority, "medium"))
	l.set("requirements", requirements).set("acceptance_criteria", criteria)
	if kind == orderReview {
		l.set("files_to_review", []string{"."})
	}
	if project, _ := o.Fields["context.project"].(string); c.p.source.deployers.has(to) {
		l.set("related_tasks", c.newestReview(project))
	}
	if kind == orderPipeline {
		l.set("context.project", l.task)
	}
	if l.set("blocked_by", nil); len(o.After) > 0 {
		l.set("blocked_by", o.After)
	}
	if err := l.override(o.Document, o.Fields); err != nil {
		return nil, err
	}
	if o.To != "" {
		l.set("to_agent", o.To)
	}
	if o.From != "" {
		l.set("from_agent", o.From)
	}
	if kind == orderPipeline {
		roles, err := pipelineRoles(cmp.Or(o.Fields["pipeline"], any(list(given, "pipeline"))))
		if err != nil {
			return nil, err
		}
		if l.set("pipeline", roles); len(l.task) > 100 {
			return nil, folder.Refuse("task_id is longer than 100 characters: the ids of the pipeline's tasks begin with it")
		}
	}
	return l, nil
}

// newTaskID makes an id that begins with the agent's name, as the document's own ids do.
func newTaskID(agent string) string {
	name := strings.ToLower(agentName(agent))
	if !plain(name) || len(name) > 40 {
		name = "task"
	}
	return name + "_" + strings.ToLower(rand.Text()[:8])
}

// readText divides an order's text into requirements and criteria. The title is its first line if it has none of its own.
func readText(o protocol.Order) (title string, requirements, criteria []string) {
	title = o.Title
	for line := range strings.Lines(o.Text) {
		line = strings.TrimSpace(line)
		switch item := strings.TrimSpace(strings.TrimLeft(line, "-*•")); {
		case item == "":
		case strings.HasPrefix(item, "✓"):
			criteria = append(criteria, item)
		default:
			title = cmp.Or(title, folder.Line(item, maxText))
			requirements = append(requirements, item)
		}
	}
	return title, requirements, criteria
}

// newestReview returns the newest security review of a project, if it has one.
func (c *Client) newestReview(project string) (ids []string) {
	var newest *task
	for _, t := range c.p.board.tasks {
		if t.assigned != nil && isAuditor(t.assigned.to) && t.project() == strings.ToLower(project) && (newest == nil || t.begun.After(newest.begun)) {
			newest, ids = t, []string{t.id}
		}
	}
	return ids
}

// sender is steward's own name in a message that no agent sends.
const sender = "steward"

// eventIncomplete asks for the refusal of an assignment that lacks required fields.
const eventIncomplete = "incomplete"

// refusals lists the assignments whose sender must be told that required fields are missing, once for each version.
func (v *view) refusals(list []*task) (events []protocol.Event) {
	for _, t := range list {
		if v.incomplete(t) == "" || refused(t) {
			continue
		}
		events = append(events, protocol.Event{Subject: protocol.Subject{Kind: protocol.KindTask, ID: t.id}, Name: eventIncomplete, Agent: t.assigned.from,
			At: t.assigned.at, Text: "its sender does not know yet that the assignment is incomplete", Ref: t.assigned.ref()})
	}
	return events
}

// refused reports whether the sender of the newest assignment was told that it is incomplete.
func refused(t *task) bool {
	return slices.ContainsFunc(t.messages, func(m *message) bool {
		return m.kind == rejects && m.from == sender && m.answer.question == string(t.assigned.sum)
	})
}

// refuse tells the sender of an incomplete assignment which fields are missing, in a TASK_REJECTION: no message of the document is nearer.
// See docs/decisions.md, "steward refuses an incomplete assignment in its own name (004)".
func (p *Project) refuse(e protocol.Change) error {
	t := p.fresh(e.Subject.ID)
	switch {
	case t == nil || t.assigned == nil || openName(t.assigned.file) != openName(e.Ref.Path) || t.assigned.ref().Sum != e.Ref.Sum:
		return folder.Moved("the assignment is not the one that was judged")
	case refused(t):
		return nil
	case p.view().incomplete(t) == "":
		return folder.Moved("the assignment is complete now")
	}
	c := &Client{p}
	l := newLetter("TASK_REJECTION", t.id, sender).set("to_agent", cmp.Or(t.assigned.from, orchestrator)).set("timestamp", c.stamp(t))
	l.set("reason", "The assignment is incomplete, so its agent cannot begin").set("issues", strings.Split(t.assigned.assignment.lacks, "; "))
	l.set("action_required", "Send the assignment again with these fields").set("next_review", "When the corrected assignment arrives")
	_, err := c.send("rejection", l.set("in_reply_to", string(t.assigned.sum)), t.assigned.inLog())
	return err
}
