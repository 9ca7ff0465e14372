package mailbox

import (
	"context"
	"fmt"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
)

// Accept takes a task. The developer takes an assignment, and the team lead takes a task to analyse: the task goes to
// in_progress. The team lead also takes a report to review it: the task keeps its state. Errors: protocol.ErrNoTask, ErrTaken,
// ErrEnded, *InvalidError.
func (c *Client) Accept(ctx context.Context, id string, a protocol.Acceptance, now time.Time) (protocol.Receipt, error) {
	role, err := roleOf(a.Agent)
	if err == nil && len(a.Fields) > 0 {
		err = folder.Refuse("protocol 003 has no message for an acceptance, so --set and --document have no effect here")
	}
	if err != nil {
		return protocol.Receipt{}, err
	}
	return c.act(ctx, now, func() (done protocol.Receipt, err error) {
		r, err := c.task(id)
		if err != nil {
			return done, err
		}
		kind, err := c.mayAccept(r, role)
		if err != nil {
			return done, err
		}
		if done, err = c.take(r, role, kind, a.Worker); err != nil {
			return done, err
		}
		if a.Estimate != "" {
			done.Note = "this protocol has no place for an estimate"
		}
		for _, question := range a.Questions {
			if _, err := c.ask(r, role, protocol.Report{Kind: protocol.ReportBlocked, Summary: question}); err != nil {
				return done, err
			}
		}
		return done, nil
	})
}

// mayAccept checks that it is the agent's turn, and returns what it gets.
func (c *Client) mayAccept(r *record, role string) (kind string, err error) {
	who, kind := c.turn(r)
	claim := c.claimTo(r)
	switch {
	case r.status == completed:
		return "", protocol.ErrEnded
	case c.orchestrator.lives():
		return "", c.alone("accept task " + r.id)
	case who == role:
		return kind, nil
	case c.held(claim):
		return "", taken(claim)
	case who == lead && r.status == pending:
		return "", illegal(r, "the team lead must assign it first")
	case who != "":
		return "", illegal(r, "it waits for the %s", shownRole(who))
	case r.status == inProgress:
		return "", fmt.Errorf("%w: queue.json does not say which", protocol.ErrTaken)
	}
	return "", illegal(r, "the team lead must assign it again first")
}

// take records the claim, shows the agent at work, marks its messages as read, and moves the task on.
func (c *Client) take(r *record, role, kind string, worker protocol.Identity) (done protocol.Receipt, err error) {
	status, task, box, next := "implementing", any(r.id), c.boxFor(developer), inProgress
	switch {
	case kind == completionReport:
		status, box, next = "reviewing", c.boxFor(lead), awaitingReview
	case role == lead:
		status, box = "analyzing", ""
	}
	claim := workClaim{Task: r.id, Agent: role, Taken: c.Now.UTC().Truncate(time.Second), Worker: worker}
	if r.status == awaitingReview {
		claim.Taken = r.updatedAt.At // its state stays
	}
	claim.Reports = c.sent[topic{r.id, completionReport}].n
	done = protocol.Receipt{ID: r.id, State: taskStates[next], Path: c.assignment(r).Path}
	if err := c.putClaim(claim); err != nil {
		return done, err
	}
	if err := c.sign(role, status, task); err != nil {
		return done, err
	}
	if box != "" {
		if err := c.markRead(box); err != nil {
			return done, err
		}
	}
	if r.status == awaitingReview {
		return done, nil
	}
	return done, c.advanceTo(r, next)
}

// illegal returns the error about a step that the task's state does not allow (protocol 003, Task State Transitions).
func illegal(r *record, why string, args ...any) error {
	return folder.Refuse("it is %s: %s", r.status, fmt.Sprintf(why, args...))
}

func taken(claim *workClaim) error {
	return fmt.Errorf("%w: the %s", protocol.ErrTaken, shownRole(claim.Agent))
}

// shownRole is an agent's name in the document.
func shownRole(role string) string {
	if role == lead {
		return "team-lead"
	}
	return role
}
