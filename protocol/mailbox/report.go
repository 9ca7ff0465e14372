package mailbox

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
)

// reportMessage is a completion report (protocol 003, Completion Report).
type reportMessage struct {
	Type     string      `json:"type"`
	Task     string      `json:"taskId"`
	Platform string      `json:"platform"`
	Status   string      `json:"status"`
	Summary  string      `json:"summary"`
	Created  []string    `json:"filesCreated"`
	Modified []string    `json:"filesModified"`
	Build    buildResult `json:"buildResult"`
	Issues   []string    `json:"issues,omitzero"`
	Next     []string    `json:"nextSteps,omitzero"`
	At       time.Time   `json:"timestamp"`
}

// buildResult is the result of a build (protocol 003, Build Result Object).
type buildResult struct {
	Status  string `json:"status"`
	Command string `json:"command,omitzero"`
	Errors  int    `json:"errors"`
	Output  string `json:"output,omitzero"`
}

// questionMessage is a question. The document defines none.
type questionMessage struct {
	Type     string    `json:"type"`
	Task     string    `json:"taskId"`
	Platform string    `json:"platform"`
	From     string    `json:"from"`
	Question string    `json:"question"`
	Options  []string  `json:"options,omitzero"`
	Blocking bool      `json:"blocking"`
	At       time.Time `json:"timestamp"`
}

// Report says how a task goes on or how it ended. Errors: protocol.ErrNoTask, ErrEnded, ErrTaken if another agent has the
// task, *InvalidError for an illegal step or a message that breaks the document, ErrUnsupported.
func (c *Client) Report(ctx context.Context, id string, rep protocol.Report, now time.Time) (protocol.Receipt, error) {
	role, err := "", error(nil)
	if rep.Agent != "" {
		if role, err = roleOf(rep.Agent); err != nil {
			return protocol.Receipt{}, err
		}
	}
	return c.act(ctx, now, func() (done protocol.Receipt, err error) {
		r, err := c.task(id)
		if err != nil {
			return done, err
		}
		if role == "" {
			role = c.implied(r, rep.Kind)
		}
		if r.status == completed && rep.Kind != protocol.ReportApproved {
			return done, protocol.ErrEnded
		}
		if claim := c.claimTo(r); c.held(claim) && claim.Agent != role {
			return done, taken(claim)
		}
		return c.carryOut(r, role, rep)
	})
}

// implied is the agent that a kind of report implies: the team lead judges, unless the developer refuses its task.
func (c *Client) implied(r *record, kind protocol.ReportKind) string {
	if kind == protocol.ReportRejected && r.status == inProgress && !c.reported(r) {
		return developer
	}
	return lead
}

// carryOut does what one kind of report means for that agent.
func (c *Client) carryOut(r *record, role string, rep protocol.Report) (done protocol.Receipt, err error) {
	review := r.status == awaitingReview || c.reported(r)
	switch {
	case rep.Kind == protocol.ReportBlocked:
		return c.ask(r, role, rep)
	case rep.Kind == protocol.ReportCancel:
		return done, fmt.Errorf("%w: protocol 003 has no cancellation; the team lead rejects the task instead (steward task reject)", protocol.ErrUnsupported)
	case role == developer && (rep.Kind == protocol.ReportDone || rep.Kind == protocol.ReportFailed):
		return c.complete(r, rep)
	}
	if err := c.alone(string(rep.Kind) + " task " + r.id); err != nil {
		return done, err
	}
	switch {
	case rep.Kind == protocol.ReportProgress && (r.status == inProgress || review):
		return c.receipt(r, protocol.TaskRunning, "status.json shows the activity; this protocol has no place for a percentage"), c.sign(role, "", nil)
	case rep.Kind == protocol.ReportReturned && (r.status == inProgress || role == lead && review):
		return reviewer{c.editor}.giveBack(r, role, rep.Summary)
	case rep.Kind == protocol.ReportFailed && role == lead && review:
		return reviewer{c.editor}.giveBack(r, role, rep.Summary)
	case rep.Kind == protocol.ReportApproved && role == lead:
		return reviewer{c.editor}.approve(r)
	case rep.Kind == protocol.ReportRejected, rep.Kind == protocol.ReportFailed && role == lead:
		return reviewer{c.editor}.reject(r, role, rep)
	case rep.Kind == protocol.ReportDone && role == lead && review:
		return reviewer{c.editor}.judge(r, rep)
	case rep.Kind == protocol.ReportDone && role == lead && r.status == inProgress:
		return c.assign(r, protocol.Order{ID: r.id, Text: rep.Summary, Document: rep.Document, Fields: rep.Fields})
	}
	return done, illegal(r, "the %s cannot report %q now", shownRole(role), rep.Kind)
}

// complete writes a completion report, and then lets the task await its review. A failure is reported the same way
// (protocol 003, Error Handling). While the orchestrator lives, it moves the task on itself when its developer has ended.
func (c *Client) complete(r *record, rep protocol.Report) (done protocol.Receipt, err error) {
	if r.status != inProgress {
		return done, illegal(r, "only a task in progress can be reported on")
	}
	if claim := c.claimTo(r); claim != nil && claim.Waiting {
		return done, illegal(r, "the developer must accept it first")
	}
	message := reportMessage{Type: completionReport, Task: r.id, Platform: c.platform(r.id), Status: awaitingReview, Summary: rep.Summary, Created: orEmpty(rep.Created),
		Modified: orEmpty(rep.Modified), Build: buildResult{Status: buildNotVerified}, Issues: rep.Issues, Next: rep.Next, At: c.Now.UTC()}
	if f := rep.Failure; f != nil || rep.Kind == protocol.ReportFailed {
		message.Build.Errors, message.Build.Output = max(1, len(rep.Issues)), strings.Join(rep.Issues, "\n")
		if f != nil {
			message.Summary = cmp.Or(rep.Summary, f.Message)
			message.Build.Output = cmp.Or(message.Build.Output, strings.TrimPrefix(f.Code+": "+f.Message, ": "))
		}
	}
	doc, err := compose(message, rep.Document, rep.Fields)
	if err == nil {
		err = checked(doc, completionReport, r.id)
	}
	if err != nil {
		return done, err
	}
	box := c.boxFor(lead)
	done = protocol.Receipt{ID: r.id, State: protocol.TaskWaiting, Path: folder.Absolute(c.Folder, box)}
	if err := c.send(box, doc, r.updatedAt.At); err != nil {
		return done, err
	}
	if why := c.orchestrator.yield(); why != "" {
		done.Note = why + ": it moves the task on when its developer has ended"
		return done, nil
	}
	if err := c.sign(developer, "idle", nil); err != nil {
		return done, err
	}
	if err := c.advanceTo(r, awaitingReview); err != nil {
		return done, err
	}
	return done, c.dropClaim(r.id)
}

func orEmpty(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// ask writes a question into the team lead's mailbox.
func (c *Client) ask(r *record, role string, rep protocol.Report) (done protocol.Receipt, err error) {
	doc, err := compose(questionMessage{Type: "question", Task: r.id, Platform: c.platform(r.id), From: shownRole(role), Question: rep.Summary,
		Options: rep.Options, Blocking: true, At: c.Now.UTC()}, rep.Document, rep.Fields)
	if err != nil {
		return done, err
	}
	m := decodeMessage(0, doc.Value())
	if m.question == nil || m.task != r.id || folder.FirstText(doc, "question") == "" {
		return done, folder.Refuse("the message is not a question about task %s: the text of the question is missing", r.id)
	}
	box := c.boxFor(lead)
	done = protocol.Receipt{ID: r.id, State: protocol.TaskWaiting, Path: folder.Absolute(c.Folder, box)}
	return done, c.send(box, doc, r.updatedAt.At)
}
