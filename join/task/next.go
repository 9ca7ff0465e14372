package task

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/livhana/steward/protocol/agentstatus"
	"github.com/livhana/steward/status/terminal"
)

// ErrNeedsHuman: the action needs the user's decision.
var ErrNeedsHuman = errors.New("it needs a human's decision")

// ParseNext reads TASK or TASK:N; N counts from 1.
func ParseNext(text string) (id string, n int, err error) {
	id, tail, cut := strings.Cut(text, ":")
	if !cut {
		return id, 1, nil
	}
	n, err = strconv.Atoi(tail)
	if err != nil || n < 1 {
		return "", 0, fmt.Errorf("%q is not TASK or TASK:N, with N from 1", text)
	}
	return id, n, nil
}

// Next returns the n-th next_action of a task's result. Errors: agentstatus.ErrNoTask when the result has no action
// with that number, ErrNeedsHuman when the action requires a decision and approved is false.
func Next(d agentstatus.Detail, n int, approved bool) (agentstatus.NextAction, error) {
	if d.Result == nil {
		return agentstatus.NextAction{}, noTask("it has no result yet")
	}
	if n > len(d.Result.Next) {
		return agentstatus.NextAction{}, noTask(fmt.Sprintf("its result has %d next actions, and no number %d", len(d.Result.Next), n))
	}
	next := d.Result.Next[n-1]
	if next.Human && !approved {
		return next, fmt.Errorf("%w: %s", ErrNeedsHuman, short(terminal.Clean(next.Action)))
	}
	return next, nil
}

// noTask is an error with its own words that matches agentstatus.ErrNoTask.
type noTask string

func (e noTask) Error() string      { return string(e) }
func (noTask) Is(target error) bool { return target == agentstatus.ErrNoTask }

// Follow fills the empty fields of an order from a next action of a task's result. Fields that are set stay.
func (o *Order) Follow(d agentstatus.Detail, next agentstatus.NextAction) {
	o.Related = append([]string{d.ID}, o.Related...)
	if o.Priority == "" {
		o.Priority = next.Priority
	}
	if o.Directive == "" {
		o.Directive = next.Action
	}
	if o.Type == Research && o.Own["query"] == nil {
		o.Own = map[string]any{"query": next.Action}
	}
}

// Line returns the shell command that submits a next action, quoted where needed. The action's text is a complete
// request only for a research task; the other types take --next-of together with their own flags.
func Line(id string, n int, next agentstatus.NextAction, project string) string {
	words := []string{"steward", "task", "submit", Research, "--next-of", id + ":" + strconv.Itoa(n)}
	if project != "" {
		words = append(words, "--project", project)
	}
	if next.Human {
		words = append(words, "--approved")
	}
	for i, w := range words {
		words[i] = terminal.ShellQuote(w)
	}
	return strings.Join(words, " ")
}
