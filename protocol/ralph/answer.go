package ralph

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
)

// The options of an answer about a task. Any other answer is text, which is recorded and changes nothing. That includes
// "done", which says that the incident is dealt with. A user who means that the work is done, so that dependent tasks may
// begin, chooses answerComplete.
const (
	answerRetry    = "retry"    // retry the task
	answerComplete = "complete" // the work is done
	answerLeave    = "leave"    // leave the task as it is
)

// answer carries out a user's decision about a task. The kanban has a marker for the effect (protocol 002, Status Updates)
// but no field for the user's text. That text is recorded in steward's own folder before anything is changed, so that one
// answer has one effect despite crashes.
func (p *Project) answer(ctx context.Context, c protocol.Change) error {
	a := c.Answer
	if a == nil || a.Key == "" || a.At.IsZero() || a.Option == "" && strings.TrimSpace(folder.Line(a.Label, maxWords)) == "" {
		return fmt.Errorf("%s %s: the answer lacks its incident, its time or its words", c.Verb, c.Subject)
	}
	if a.Option == answerLeave && strings.TrimSpace(a.Why) == "" {
		return nil
	}
	n := noteOf(c)
	old, err := p.noted(c.Subject.ID, n)
	switch {
	case err != nil:
		return err
	case old.State == stateFailed:
		return old.failure()
	case old.State != "" && old.State != stateTaken:
		return nil
	}
	switch {
	case a.Option == answerRetry && len(p.opts.Resume) > 0:
		return p.resumeTask(ctx, c, n, old)
	case a.Option == answerRetry:
		return p.settle(ctx, c, n, todo)
	case a.Option == answerComplete:
		return p.settle(ctx, c, n, complete)
	}
	if _, err := p.asked(c); err != nil {
		return err
	}
	return p.note(c.Subject.ID, n.in(stateWritten, p.Now))
}

// settle marks a failed or lost task as the user decided. A task whose pull request is open is neither: it is complete
// when the pull request is merged, and its program marks it then (protocol 002, Status Updates: post-PR merge).
func (p *Project) settle(ctx context.Context, c protocol.Change, n note, to byte) error {
	err := p.remark(ctx, c, string([]rune{failed, working}), to, func([]byte) error {
		return p.note(c.Subject.ID, n.in(stateTaken, p.Now))
	})
	if err != nil {
		return err
	}
	return p.note(c.Subject.ID, n.in(stateWritten, p.Now))
}

// asked returns the task's line in the kanban, if it is still the line that the user saw.
func (p *Project) asked(c protocol.Change) (*item, error) {
	blob, err := p.Root.Read(kanbanFile, maxKanban)
	if err != nil {
		return nil, err
	}
	it, err := itemOf(blob.Data, c.Subject.ID)
	if err == nil && it.sum != c.Ref.Sum {
		err = folder.Moved("the line of %s is not the one that was judged", it.id)
	}
	return it, err
}

// atRest proves that a user may decide about a task: no process works on it, and its own program will not resume it.
func (p *Project) atRest(kanban []byte, c protocol.Change) error {
	if err := p.nobodyWorksOn(kanban, c); err != nil {
		return err
	}
	id := c.Subject.ID
	p.relist()
	table := p.count()
	for _, name := range sortedKeys(p.workers) {
		run := p.workers[name]
		if run.task != id || run != p.newest[id] && !run.plan {
			continue
		}
		p.wake(run)
		p.scan(run)
		p.readPIDs(run)
		if run.session = p.judge(table, run); run.session.presence == protocol.PresenceHere {
			return folder.Moved("%s is at work: %s", run.name, run.session.evidence)
		}
	}
	if w := p.newest[id]; w != nil {
		return p.leftAlone(w)
	}
	return nil
}

// leftAlone proves that the program itself is not about to resume a worker. The program finds workers to resume by their
// folders, whatever the kanban says. A worker whose last attempt was postponed waits for the end of its cooldown.
func (p *Project) leftAlone(w *worker) error {
	p.readResume(w)
	if !w.active {
		defer p.Patience.Clear(path.Join(w.dir(), resumeFile)) // no scan reads this file
	}
	r := &w.resume
	switch {
	case !r.There:
		return nil
	case !r.Good:
		return folder.Moved("%s of %s cannot be read, so its own program may still resume it", resumeFile, w.name)
	case r.Value.terminal || r.Value.attempts >= r.Value.most || !p.Now.Before(r.Value.cooling):
		return nil
	}
	return folder.Moved("its own program resumes %s after %s (attempt %d of %d)", w.name, r.Value.cooling.UTC().Format("15:04:05Z"),
		r.Value.attempts+1, r.Value.most)
}
