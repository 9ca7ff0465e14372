package ralph

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// The options of an answer about a task. Any other answer is text, which is recorded and changes nothing. That includes
// "done", which says that the incident is dealt with. A user who means that the work is done, so that dependent tasks may
// begin, chooses answerComplete.
const (
	answerRetry    = "retry"    // retry the task
	answerComplete = "complete" // the work is done
	answerLeave    = "leave"    // leave the task as it is
)

// The states of a recorded answer.
const (
	stateTaken   = "taken"   // about to be carried out; after a crash it is unknown whether it was
	stateWritten = "written" // carried out
	stateStarted = "started" // the resume command is running or has run
	stateFailed  = "failed"  // the resume command could not be started, or failed at once
)

// recordedAnswer is the record of a user's answer.
type recordedAnswer struct {
	Key    string `json:"incident"`
	At     string `json:"decided_at"`
	By     string `json:"decided_by"`
	Option string `json:"decision"`
	Label  string `json:"label"`
	Why    string `json:"rationale"`
	Sum    string `json:"sum"`    // of the task's text that the user saw
	Marker string `json:"marker"` // the task's marker before the answer was carried out
	State  string `json:"state"`
	Since  string `json:"since"` // when the answer entered the state
	Error  string `json:"error,omitzero"`
}

// answers holds the newest answers about one task.
type answers struct {
	Task    string           `json:"task"`
	Answers []recordedAnswer `json:"answers"` // oldest first
}

const (
	answersDir = own + "/answers"
	maxAnswers = 10   // per task
	maxWords   = 4000 // characters of each text of an answer
)

func answersFile(id string) string { return answersDir + "/" + id + ".json" }

func answerOf(c protocol.Change) recordedAnswer {
	a := c.Answer
	return recordedAnswer{Key: folder.Line(a.Key, 200), At: a.At.UTC().Format(time.RFC3339Nano), By: folder.Line(a.By, 200), Option: folder.Line(a.Option, 200),
		Label: folder.Short(a.Label, maxWords), Why: folder.Short(a.Why, maxWords), Sum: c.Ref.Sum}
}

// is reports whether both are the same answer. The key alone is not enough: a reopened incident keeps its key.
func (a *recordedAnswer) is(other *recordedAnswer) bool {
	return a.Key == other.Key && a.At == other.At
}

func (a *recordedAnswer) failure() error { return fmt.Errorf("%w: %s", ErrResume, a.Error) }

func decodeAnswers(text []byte) (answers, error) {
	var list answers
	err := jsonfile.Decode(text, &list)
	return list, err
}

// put adds an answer to those of its task, or replaces it there, and keeps the newest maxAnswers.
func (l *answers) put(a recordedAnswer) {
	for i := range l.Answers {
		if old := &l.Answers[i]; old.is(&a) {
			if a.Marker == "" {
				a.Marker = old.Marker
			}
			*old = a
			return
		}
	}
	l.Answers = append(l.Answers, a)
	l.Answers = l.Answers[max(0, len(l.Answers)-maxAnswers):]
}

// record writes down that an answer is in a state. It replaces an earlier record of the same answer.
func (w *writer) record(id string, a recordedAnswer, state string) error {
	a.State, a.Since = state, w.Now.UTC().Format(time.RFC3339Nano)
	err := w.Root.Mkdir(answersDir, 0o755)
	if err == nil {
		err = folder.Files{Folder: w.Folder}.Update(answersFile(id), maxFile, func(old []byte) ([]byte, error) {
			var list answers
			if old != nil {
				if err := jsonfile.Decode(old, &list); err != nil {
					return nil, err
				}
			}
			list.Task = id
			list.put(a)
			return jsonfile.Encode(list)
		})
	}
	if err != nil {
		return fmt.Errorf("record the answer: %w", err)
	}
	return nil
}

// recorded returns the record of an answer; the zero answer if none exists.
func (w *writer) recorded(id string, n recordedAnswer) (recordedAnswer, error) {
	blob, err := w.Root.Read(answersFile(id), maxFile)
	var list answers
	if err == nil {
		list, err = decodeAnswers(blob.Data)
	}
	if folder.IgnoreMissing(err) != nil {
		return recordedAnswer{}, fmt.Errorf("read the answers on record: %w", err)
	}
	for _, a := range list.Answers {
		if a.is(&n) {
			return a, nil
		}
	}
	return recordedAnswer{}, nil
}

// answer carries out a user's decision about a task. The kanban has a marker for the effect (protocol 002, Status Updates)
// but no field for the user's text. That text is recorded in steward's own folder before anything is changed, so that one
// answer has one effect despite crashes.
func (w *writer) answer(ctx context.Context, c protocol.Change) error {
	id, a := c.Subject.ID, c.Answer
	if a == nil || a.Key == "" || a.At.IsZero() || a.Option == "" && strings.TrimSpace(folder.Line(a.Label, maxWords)) == "" {
		return fmt.Errorf("%s %s: the answer lacks its incident, its time or its words", c.Verb, c.Subject)
	}
	if a.Option == answerLeave && strings.TrimSpace(a.Why) == "" {
		return nil
	}
	n := answerOf(c)
	old, err := w.recorded(id, n)
	if err != nil {
		return err
	}
	switch {
	case old.State == stateFailed:
		return old.failure()
	case old.State != "" && old.State != stateTaken:
		return nil
	case a.Option == answerRetry && len(w.opts.Resume) > 0:
		return w.resume(ctx, c, n, old)
	case a.Option == answerRetry:
		return w.decide(ctx, c, n, todo)
	case a.Option == answerComplete:
		return w.decide(ctx, c, n, complete)
	}
	_, it, err := w.item(id)
	switch {
	case err != nil:
		return err
	case it.sum != c.Ref.Sum:
		return folder.Moved("the line of %s is not the one that was judged", id)
	}
	return w.record(id, n, stateWritten)
}

// item reads the kanban and finds a task in it.
func (w *writer) item(id string) (kanban []byte, it *item, err error) {
	blob, err := w.Root.Read(kanbanFile, maxKanban)
	if err == nil {
		it, err = itemOf(blob.Data, id)
	}
	return blob.Data, it, err
}

// decide marks a failed or lost task as the user decided. A task whose pull request is open is neither: it is complete
// when the pull request is merged, and its program marks it then (protocol 002, Status Updates: post-PR merge).
func (w *writer) decide(ctx context.Context, c protocol.Change, a recordedAnswer, to byte) error {
	id := c.Subject.ID
	err := w.mark(ctx, c, string([]rune{failed, working}), to, func([]byte) error { return w.record(id, a, stateTaken) })
	if err != nil {
		return err
	}
	return w.record(id, a, stateWritten)
}

// resumeOnce runs the resume command for lost work, unless it was run for this worker before. It reports whether it did. A
// command that fails at once changes nothing. See docs/decisions.md, "Lost work is resumed once before it is marked (002)".
func (w *writer) resumeOnce(ctx context.Context, c protocol.Change) (resumed bool, err error) {
	newest := w.workers.newest(c.Subject.ID)
	if len(w.opts.Resume) == 0 || newest == nil {
		return false, nil
	}
	n := recordedAnswer{Key: "automatic " + newest.name, Option: answerRetry, Why: folder.Short(c.Why, maxWords), Sum: c.Ref.Sum}
	old, err := w.recorded(c.Subject.ID, n)
	if err != nil || old.State != "" && old.State != stateTaken {
		return false, err
	}
	if err = w.resume(ctx, c, n, old); errors.Is(err, ErrResume) {
		return false, nil
	}
	return true, err
}

// resume lets the program itself resume a failed or lost task. It records the answer before it starts the command. After a
// crash it is unknown whether the command started: it counts as started if it still runs, or if the task's marker has
// changed. Otherwise it had no effect and is run.
func (w *writer) resume(ctx context.Context, c protocol.Change, a, old recordedAnswer) error {
	id := c.Subject.ID
	busy, err := w.resumes.busy(id)
	switch {
	case err != nil:
		return err
	case busy && old.State == stateTaken:
		return w.record(id, a, stateStarted)
	case busy:
		return folder.Moved("a resume command for %s still runs", id)
	}
	kanban, it, err := w.item(id)
	switch {
	case err != nil:
		return err
	case it.marker == todo: // the task is already to be done
		return w.record(id, a, stateWritten)
	case old.State == stateTaken && old.Marker != string(rune(it.marker)):
		return w.record(id, a, stateStarted)
	case it.sum != c.Ref.Sum:
		return folder.Moved("the line of %s is not the one that was judged", id)
	case it.marker != failed && it.marker != working:
		return folder.Moved("%s is marked [%c]", id, it.marker)
	}
	if err := w.proveSettled(kanban, c); err != nil {
		return err
	}
	a.Marker = string(rune(it.marker))
	if err := w.record(id, a, stateTaken); err != nil {
		return err
	}
	if err := w.resumes.run(ctx, id); err != nil {
		if errors.Is(err, protocol.ErrConflict) {
			return err
		}
		a.Error = folder.Line(err.Error(), 400)
		return errors.Join(w.record(id, a, stateFailed), a.failure())
	}
	return w.record(id, a, stateStarted)
}
