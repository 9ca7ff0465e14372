package ralph

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

const (
	lockWait    = 200 * time.Millisecond // for the kanban's lock; all other work on the project waits meanwhile
	lockRetry   = 2 * time.Second        // how long a lock found held is assumed to stay held
	commandWait = 5 * time.Second        // for the same lock in a command (protocol 002, Concurrent Access: timeout)
)

// writer carries out changes. Before each change it proves from new readings that the change still applies.
type writer struct {
	*reader
	verbs   map[protocol.Verb]func(context.Context, protocol.Change) error
	resumes resumer
	// patience is how long a command waits for the kanban's lock. It is 0 in the daemon, which waits shortly and tries again.
	patience time.Duration
	// When the kanban's lock was last found held, and by which processes.
	lockedAt time.Time
	lockedBy string
}

func newWriter(r *reader) *writer {
	w := &writer{reader: r, resumes: newResumer(r)}
	w.verbs = map[protocol.Verb]func(context.Context, protocol.Change) error{
		protocol.VerbConclude: w.conclude,
		protocol.VerbCancel:   w.cancel,
		protocol.VerbRequeue:  w.requeue,
		protocol.VerbReap:     w.reap,
		protocol.VerbAnswer:   w.answer,
	}
	return w
}

// ErrNoFlock means that the adapter has no way to lock the kanban and therefore must not write it.
var ErrNoFlock = errors.New("the kanban cannot be locked here, so it is not written")

// conclude marks lost work as failed, which in the program means "needs manual intervention". Before that it runs the resume
// command, once for each worker.
func (w *writer) conclude(ctx context.Context, c protocol.Change) error {
	if c.Code == protocol.CodeViolation {
		return w.closeViolation(ctx, c)
	}
	if resumed, err := w.resumeOnce(ctx, c); resumed || err != nil {
		return err
	}
	return w.mark(ctx, c, string(rune(working)), failed, func(kanban []byte) error {
		return w.failures.record(w.Folder, kanban, c.Subject.ID, c.Why)
	})
}

// cancel marks a task as not planned: the program never schedules it.
func (w *writer) cancel(ctx context.Context, c protocol.Change) error {
	return w.mark(ctx, c, string([]rune{todo, working, approval, failed}), dropped, nil)
}

// requeue has the program resume a failed or lost task, or without a resume command marks it as to be done.
func (w *writer) requeue(ctx context.Context, c protocol.Change) error {
	if len(w.opts.Resume) > 0 {
		n := recordedAnswer{Key: "retry", At: w.Now.UTC().Format(time.RFC3339Nano), Option: answerRetry, Why: folder.Short(c.Why, maxWords), Sum: c.Ref.Sum}
		return w.resume(ctx, c, n, recordedAnswer{})
	}
	return w.mark(ctx, c, string([]rune{failed, working}), todo, nil)
}

// mark changes one marker of the kanban under the kanban's own lock (protocol 002, Concurrent Access). If before is not
// nil, it is called once under the lock with the new text of the kanban; its error cancels the change.
func (w *writer) mark(ctx context.Context, c protocol.Change, from string, to byte, before func(kanban []byte) error) error {
	if w.opts.Flock == nil {
		return ErrNoFlock
	}
	change := func(old []byte) ([]byte, error) {
		if old == nil {
			return nil, folder.Moved("the kanban is gone")
		}
		text, err := setMarker(old, c.Subject.ID, c.Ref.Sum, from, to)
		switch {
		case err != nil || text == nil || c.Verb == protocol.VerbCancel:
			return text, err
		case c.Verb == protocol.VerbAnswer:
			return text, w.proveSettled(old, c)
		}
		return text, w.proveLost(old, c)
	}
	// A change that is already in place, or no longer applies, needs no lock.
	blob, err := w.Root.Read(kanbanFile, maxKanban)
	if err != nil {
		return err
	}
	if text, err := change(blob.Data); text == nil || err != nil {
		return err
	}
	recorded := before == nil
	return w.editKanban(ctx, func(old []byte) ([]byte, error) {
		text, err := change(old)
		if text != nil && err == nil && !recorded {
			recorded, err = true, before(text)
		}
		return text, err
	})
}

// editKanban changes the kanban's text under the kanban's own lock.
func (w *writer) editKanban(ctx context.Context, change func(old []byte) ([]byte, error)) error {
	if w.opts.Flock == nil {
		return ErrNoFlock
	}
	release, err := w.lockKanban(ctx)
	if err != nil {
		return err
	}
	defer release()
	return folder.Files{Folder: w.Folder}.Update(kanbanFile, maxKanban, change)
}

// lockKanban creates the lock file if it is missing and never removes it: a process that waits for the removed file would
// lock a different file.
func (w *writer) lockKanban(ctx context.Context) (release func(), err error) {
	const file = kanbanFile + ".lock"
	if _, err := w.Root.Stat(file); folder.Missing(err) {
		if err := w.Root.Create(file, nil, 0o644); err != nil && !errors.Is(err, jsonfile.ErrExist) {
			return nil, err
		}
	} else if err != nil {
		return nil, err
	}
	busy, limit := func() error {
		return folder.Moved("the kanban is locked by %s; tried again at the next scan", w.lockedBy)
	}, lockWait
	if w.patience > 0 {
		limit, busy = w.patience, func() error {
			return fmt.Errorf("the kanban has been locked by %s for %s; nothing was written, try again", w.lockedBy, w.patience)
		}
	}
	if since := w.Now.Sub(w.lockedAt); since >= 0 && since < lockRetry && w.lockedBy != "" && w.patience == 0 {
		return nil, busy()
	}
	wait, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	lock, err := w.Root.OpenLock(file)
	if err != nil {
		return nil, err
	}
	release, err = w.opts.Flock(wait, lock)
	if err != nil && wait.Err() != nil && ctx.Err() == nil {
		w.lockedAt, w.lockedBy = w.Now, w.holders(file)
		return nil, busy()
	}
	if err != nil {
		return nil, fmt.Errorf("lock the kanban: %w", err)
	}
	return release, nil
}

// holders names the processes that hold a lock file of the folder.
func (w *writer) holders(file string) string {
	held, _ := w.sys.holders(filepath.Join(w.real, Base, file))
	var names []string
	for _, id := range held[:min(len(held), 4)] {
		names = append(names, (&processTable{sys: &w.sys}).nameOf(id))
	}
	return cmp.Or(strings.Join(names, ", "), "another process")
}

// judgeRuns judges the newest worker and the planning runs of a task by their pid files and processes as they are now.
func (w *writer) judgeRuns(id string) []*worker {
	w.workers.list()
	w.table = readTable(&w.sys, w.real)
	list := w.workers.byTask[id].plans
	if newest := w.workers.newest(id); newest != nil {
		list = slices.Concat([]*worker{newest}, list)
	}
	for _, run := range list {
		w.judgeRun(run)
	}
	return list
}

func (w *writer) judgeRun(run *worker) {
	run.retired = false
	w.workers.scan(run)
	run.readPIDs(w.Folder)
	run.session = w.table.judge(run)
}

// proveLost proves again, before the change and under the lock, that no process works on a task in progress.
func (w *writer) proveLost(kanban []byte, c protocol.Change) error {
	id, items := c.Subject.ID, parseKanban(kanban)
	i := slices.IndexFunc(items, func(it item) bool { return it.id == id })
	if i < 0 || items[i].marker != working {
		return nil
	}
	w.judgeRuns(id)
	if !w.table.known {
		return folder.Moved("nothing proves that its worker is gone")
	}
	tr := &track{}
	if e := w.board.byID[id]; e != nil {
		tr = &e.track
	}
	d := w.view().judgeTask(&items[i], tr)
	switch {
	case d.presence == protocol.PresenceHere:
		return folder.Moved("%s is at work: %s", w.workers.newest(id).name, d.evidence)
	case c.Verb == protocol.VerbAnswer && d.resume != "":
		return folder.Moved("%s: %s", id, d.resume)
	case c.Verb != protocol.VerbRequeue && d.lost == "":
		return folder.Moved("nothing proves any more that %s is lost", id)
	}
	return nil
}

// proveSettled proves that a user may decide about a task: no process works on it, and its own program will not resume it.
func (w *writer) proveSettled(kanban []byte, c protocol.Change) error {
	if err := w.proveLost(kanban, c); err != nil {
		return err
	}
	for _, run := range w.judgeRuns(c.Subject.ID) {
		if run.session.presence == protocol.PresenceHere {
			return folder.Moved("%s is at work: %s", run.name, run.session.evidence)
		}
	}
	if newest := w.workers.newest(c.Subject.ID); newest != nil {
		return w.proveNotResumed(newest)
	}
	return nil
}

// proveNotResumed proves that the program itself is not about to resume a worker. The program finds workers to resume by
// their folders, whatever the kanban says. A worker whose last attempt was postponed waits for the end of its cooldown.
func (w *writer) proveNotResumed(run *worker) error {
	run.readResume(w.Folder)
	if !run.active {
		defer w.Patience.Clear(path.Join(run.dir(), resumeFile)) // no scan reads this file
	}
	r := run.resume.Value
	switch {
	case !run.resume.There:
		return nil
	case !run.resume.Good:
		return folder.Moved("%s of %s cannot be read, so its own program may still resume it", resumeFile, run.name)
	case r.usedUp() || !w.Now.Before(r.cooling):
		return nil
	}
	return folder.Moved("its own program resumes %s after %s (attempt %d of %d)", run.name, r.cooling.UTC().Format("15:04:05Z"), r.attempts+1, r.most)
}

// reap signals processes that outlived their leader. It signals a process only after proving again that it belongs to this
// worker.
func (w *writer) reap(_ context.Context, c protocol.Change) error {
	alive := slices.DeleteFunc(slices.Clone(c.Processes), w.sys.gone)
	if len(alive) == 0 {
		return nil
	}
	w.workers.list()
	run := w.workers.all[c.Subject.ID]
	if run == nil {
		return folder.Moved("the folder of %s is gone", c.Subject.ID)
	}
	w.table = readTable(&w.sys, w.real)
	w.judgeRun(run)
	sent := 0
	for _, id := range alive {
		if !slices.Contains(run.session.orphans, id) {
			continue
		}
		if err := w.sys.signal(proc.Identity(id), c.Status); err != nil {
			return err
		}
		sent++
	}
	if sent > 0 || !slices.ContainsFunc(alive, func(id protocol.Identity) bool { return !w.sys.gone(id) }) {
		return nil
	}
	return folder.Moved("nothing proves any more that these processes belong to %s", run.name)
}
