package task

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/livhana/steward/protocol/agentstatus"
)

// ErrNeedsHuman: the action waits for a human's word.
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

// Next gives the n-th next_action of a task's result. Errors: agentstatus.ErrNoTask when the result has none of that
// number, ErrNeedsHuman unless it is approved.
func Next(d agentstatus.Detail, n int, approved bool) (agentstatus.NextAction, error) {
	if d.Result == nil {
		return agentstatus.NextAction{}, noResult{}
	}
	if n > len(d.Result.Next) {
		return agentstatus.NextAction{}, fmt.Errorf("its result has %d next actions: %w of number %d", len(d.Result.Next), errNone, n)
	}
	next := d.Result.Next[n-1]
	if next.Human && !approved {
		return next, fmt.Errorf("%w: %s", ErrNeedsHuman, short(Plain(next.Action)))
	}
	return next, nil
}

// errNone reads "no action" and is a task that does not exist to callers.
var errNone = noneError{}

type noneError struct{}

func (noneError) Error() string        { return "there is none" }
func (noneError) Is(target error) bool { return target == agentstatus.ErrNoTask }

// Follow fills an order from the next action of a task's result: what is set already stays.
func (o *Order) Follow(d agentstatus.Detail, next agentstatus.NextAction) {
	o.Related = append([]string{d.ID}, o.Related...)
	if o.Priority == "" {
		o.Priority = next.Priority
	}
	if o.Directive == "" {
		o.Directive = next.Action
	}
	if o.Type == Research && o.Query == "" {
		o.Query = next.Action
	}
}

// Line is the command that submits a next action: words for a shell, each quoted where it must be. A text can be asked
// for as it stands only in a research task; for the other types the same flag goes with their own.
func Line(id string, n int, next agentstatus.NextAction, project string) string {
	words := []string{"steward", "task", "submit", Research, "--next-of", id + ":" + strconv.Itoa(n)}
	if project != "" {
		words = append(words, "--project", project)
	}
	if next.Human {
		words = append(words, "--approved")
	}
	for i, w := range words {
		words[i] = Quote(w)
	}
	return strings.Join(words, " ")
}

// Quote makes one word for a POSIX shell.
func Quote(s string) string {
	isPlain := func(r rune) bool {
		return r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r)) || strings.ContainsRune("_-./:@%+=,", r)
	}
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !isPlain(r) }) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// noResult is the next action of a task that has not ended: there is none of that kind yet, which is no missing task.
type noResult struct{}

func (noResult) Error() string { return "it has no result yet" }

func (noResult) Is(target error) bool { return target == agentstatus.ErrNoTask }
