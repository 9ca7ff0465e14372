package ralph

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
)

// What a human can decide about a task. Anything else are words, which are kept and change nothing: "done" among them,
// by which he says that an incident is dealt with. That the work is done, so that what waits for it may begin, he says with
// a word of its own.
const (
	answerRetry    = "retry"    // have it done again
	answerComplete = "complete" // the work is done
	answerLeave    = "leave"    // it stays as it is
)

// answer carries out a human's decision about a task. The kanban has a place for what follows from it (protocol 002, Status
// Updates), and none for his words: those are put on record in steward's own folder, before anything is changed, so that
// one answer has one effect whatever crashes.
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

// settle marks a failed or lost task as the human has decided. One whose pull request waits is no such task: it is complete
// when that is merged, and its program sees to it (protocol 002, Status Updates: post-PR merge).
func (p *Project) settle(ctx context.Context, c protocol.Change, n note, to byte) error {
	err := p.remark(ctx, c, string([]rune{failed, working}), to, func([]byte) error {
		return p.note(c.Subject.ID, n.in(stateTaken, p.Now))
	})
	if err != nil {
		return err
	}
	return p.note(c.Subject.ID, n.in(stateWritten, p.Now))
}

// asked is the task's line in the kanban, if it is the one that the human saw.
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

// atRest proves that a task may be decided about by hand: nobody works on it, and its own program will not go on with it.
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

// leftAlone proves that the program itself is not about to resume a worker. It looks for workers to resume by their
// folders, whatever the kanban says; those whose last attempt was put off wait for the end of the cooldown.
func (p *Project) leftAlone(w *worker) error {
	p.readResume(w)
	if !w.active {
		defer p.Patience.Clear(path.Join(w.dir(), resumeFile)) // no look reads it
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
