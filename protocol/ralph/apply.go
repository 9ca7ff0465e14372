package ralph

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	lockWait = 200 * time.Millisecond // for the kanban's lock; all other work on the project waits meanwhile
	lockRest = 2 * time.Second        // how long a lock found held is assumed to stay held
)

// shut records when the kanban's lock was last found held, and by which processes.
type shut struct {
	at time.Time
	by string
}

// ErrNoFlock means that the adapter has no way to lock the kanban and therefore must not write it.
var ErrNoFlock = errors.New("the kanban cannot be locked here, so it is not written")

// Apply carries out one change. It writes the kanban only under the kanban's own lock, and changes one byte of it.
func (p *Project) Apply(ctx context.Context, c protocol.Change, now time.Time) error {
	act := p.verb(c.Verb)
	if act == nil {
		return fmt.Errorf("%s: %w", c.Verb, protocol.ErrUnsupported)
	}
	if c.Verb == protocol.VerbAnswer && c.Subject.Kind != protocol.KindTask {
		return fmt.Errorf("%s %s: %w", c.Verb, c.Subject, protocol.ErrUnsupported)
	}
	if c.Verb == protocol.VerbReap {
		if _, _, _, err := workerName(c.Subject.ID); c.Subject.Kind != protocol.KindAgent || err != nil {
			return fmt.Errorf("%s: %q is not a worker", c.Verb, c.Subject.ID)
		}
	} else if c.Subject.Kind != protocol.KindTask || !isTaskID(c.Subject.ID) {
		return fmt.Errorf("%s: %q is not a task id", c.Verb, c.Subject.ID)
	}
	return p.Change(ctx, now, func() error {
		p.dirty = true // the next scan sees the change even without a hint
		return act(ctx, c)
	})
}

func (p *Project) verb(v protocol.Verb) func(context.Context, protocol.Change) error {
	switch v {
	case protocol.VerbConclude:
		return p.conclude
	case protocol.VerbCancel:
		return p.cancel
	case protocol.VerbRequeue:
		return p.requeue
	case protocol.VerbReap:
		return p.reap
	case protocol.VerbAnswer:
		return p.answer
	}
	return nil
}

// conclude marks lost work as failed, which in the program means "needs manual intervention".
func (p *Project) conclude(ctx context.Context, c protocol.Change) error {
	return p.remark(ctx, c, string(rune(working)), failed, func(kanban []byte) error { return p.record(kanban, c.Subject.ID, c.Why) })
}

// cancel marks a task as not planned: the program never schedules it.
func (p *Project) cancel(ctx context.Context, c protocol.Change) error {
	return p.remark(ctx, c, string([]rune{todo, working, approval, failed}), dropped, nil)
}

// requeue marks a failed or lost task as to be done.
func (p *Project) requeue(ctx context.Context, c protocol.Change) error {
	return p.remark(ctx, c, string([]rune{failed, working}), todo, nil)
}

// remark changes one marker of the kanban under the kanban's own lock (protocol 002, Concurrent Access). It creates the
// lock file if it is missing and never removes it: a process that waits for the removed file would lock a different file.
// If before is not nil, it is called once under the lock with the new text of the kanban; its error cancels the change.
func (p *Project) remark(ctx context.Context, c protocol.Change, from string, to byte, before func(kanban []byte) error) error {
	if p.opts.Flock == nil {
		return ErrNoFlock
	}
	change := func(old []byte) ([]byte, error) {
		if old == nil {
			return nil, folder.Moved("the kanban is gone")
		}
		text, err := mark(old, c.Subject.ID, c.Ref.Sum, from, to)
		if err != nil || text == nil || c.Verb == protocol.VerbCancel {
			return text, err
		}
		if c.Verb == protocol.VerbAnswer {
			return text, p.atRest(old, c)
		}
		return text, p.nobodyWorksOn(old, c)
	}
	// A change that is already in place, or no longer applies, needs no lock.
	blob, err := p.Root.Read(kanbanFile, maxKanban)
	if err != nil {
		return err
	}
	if text, err := change(blob.Data); text == nil || err != nil {
		return err
	}
	release, err := p.lockKanban(ctx)
	if err != nil {
		return err
	}
	defer release()
	recorded := false
	late, err := p.Root.Update(kanbanFile, maxKanban, func(old []byte) ([]byte, error) {
		text, err := change(old)
		if text != nil && err == nil && before != nil && !recorded {
			recorded, err = true, before(text)
		}
		return text, err
	})
	_ = late.Close()
	return err
}

func (p *Project) lockKanban(ctx context.Context) (release func(), err error) {
	const file = kanbanFile + ".lock"
	if _, err := p.Root.Stat(file); folder.Missing(err) {
		if err := p.Root.Create(file, nil, 0o644); err != nil && !errors.Is(err, jsonfile.ErrExist) {
			return nil, err
		}
	} else if err != nil {
		return nil, err
	}
	busy := func() error {
		return folder.Moved("the kanban is locked by %s; tried again at the next look", p.shut.by)
	}
	if since := p.Now.Sub(p.shut.at); since >= 0 && since < lockRest && p.shut.by != "" {
		return nil, busy()
	}
	wait, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	lock, err := p.Root.OpenLock(file)
	if err != nil {
		return nil, err
	}
	release, err = p.opts.Flock(wait, lock)
	if err != nil && wait.Err() != nil && ctx.Err() == nil {
		p.shut = shut{at: p.Now, by: p.holder(file)}
		return nil, busy()
	}
	if err != nil {
		return nil, fmt.Errorf("lock the kanban: %w", err)
	}
	return release, nil
}

// holder names the processes that hold a lock file of the folder.
func (p *Project) holder(file string) string {
	held, _ := p.sys.holders(filepath.Join(p.real, Base, file))
	var names []string
	for _, id := range held[:min(len(held), 4)] {
		names = append(names, p.nameOf(&processScan{sys: &p.sys}, id))
	}
	return cmp.Or(strings.Join(names, ", "), "somebody")
}

// nobodyWorksOn proves again, before the change and under the lock, that no process works on a task in progress.
func (p *Project) nobodyWorksOn(kanban []byte, change protocol.Change) error {
	id, items := change.Subject.ID, parseKanban(kanban)
	i := slices.IndexFunc(items, func(it item) bool { return it.id == id })
	if i < 0 || items[i].marker != working {
		return nil
	}
	p.relist()
	c := p.count()
	if !c.known {
		return folder.Moved("nothing proves that its worker is gone")
	}
	w := p.newest[id]
	for _, run := range p.workers {
		if run == w || run.plan && run.task == id {
			p.wake(run)
			p.scan(run)
			p.readPIDs(run)
			run.session = p.judge(c, run)
		}
	}
	st := &state{}
	if at, known := p.board.where[id]; known {
		st = &p.board.state[at]
	}
	f := p.judgeTask(c, &items[i], st)
	switch {
	case f.presence == protocol.PresenceHere:
		return folder.Moved("%s is at work: %s", w.name, f.evidence)
	case change.Verb == protocol.VerbAnswer && f.resume != "":
		return folder.Moved("%s: %s", id, f.resume)
	case change.Verb != protocol.VerbRequeue && f.lost == "":
		return folder.Moved("nothing proves any more that %s is lost", id)
	}
	return nil
}

// relist picks up new worker folders.
func (p *Project) relist() {
	names, _ := p.list(workersDir)
	p.listWorkers(names)
}

// reap signals processes that outlived their leader. It signals a process only after proving again that it belongs to this
// worker.
func (p *Project) reap(_ context.Context, c protocol.Change) error {
	alive := slices.DeleteFunc(slices.Clone(c.Processes), p.gone)
	if len(alive) == 0 {
		return nil
	}
	p.relist()
	w := p.workers[c.Subject.ID]
	if w == nil {
		return folder.Moved("the folder of %s is gone", c.Subject.ID)
	}
	p.scan(w)
	p.readPIDs(w)
	proved := p.judge(p.count(), w).orphans
	sent := 0
	for _, id := range alive {
		if !slices.Contains(proved, id) {
			continue
		}
		if err := p.sys.signal(proc.Identity(id), c.Status); err != nil {
			return err
		}
		sent++
	}
	if sent > 0 || !slices.ContainsFunc(alive, func(id protocol.Identity) bool { return !p.gone(id) }) {
		return nil
	}
	return folder.Moved("nothing proves any more that these processes belong to %s", w.name)
}
