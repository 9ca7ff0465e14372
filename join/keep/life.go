package keep

import (
	"context"
	"slices"
	"time"

	"github.com/livhana/steward/platform/proc"
)

// restarts reports whether an operator waits for a restart of the agent.
func (k *Keeper) restarts(l *life) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(l.restarts) > 0
}

func newLife(k *Keeper, row Row, r *Record) *life {
	l := &life{k: k, row: row, name: row.label(), log: k.logOf(row), wake: newTrigger()}
	if r != nil {
		l.rec, l.saved = *r, r.Intent
	} else {
		l.rec = Record{Mark: newMark(k.State, row), Row: row.checksum(), Intent: 1}
	}
	if r != nil && r.row().fileName() != row.fileName() { // the project was renamed
		l.rec.Project = row.Project
		l.save(false)
		k.store.drop(r.row())
	}
	l.rec.Project, l.rec.Agent, l.rec.Dir, l.rec.Protocol = row.Project, row.Name, row.Dir, row.Protocol
	l.publish("waiting", "")
	return l
}

func (l *life) setDesired(row Row, wanted bool) {
	l.desired.Store(&desired{row, wanted})
	l.wake.set()
}

// run returns when ctx ends, or when the agent's row is gone and the agent has ended.
func (l *life) run(ctx context.Context) {
	for ctx.Err() == nil {
		w := l.desired.Load()
		switch {
		case !w.wanted:
			if l.remove(ctx) {
				return
			}
		case l.rec.Row != w.row.checksum():
			l.replace(ctx, w.row, "its row was changed")
		case l.k.restarts(l):
			l.restart(ctx, w.row)
		default:
			if l.row.Restart != w.row.Restart || w.row.Restart == WhenDue {
				l.adjust(w.row)
			}
			l.step(ctx)
		}
	}
	if l.child != nil {
		l.child.leave()
	}
}

// adjust follows a change of the row that needs no restart: the next life is started by it.
func (l *life) adjust(row Row) {
	if !slices.Equal(l.row.Command, row.Command) {
		l.path = ""
	}
	l.row = row
}

// step waits for the next event and handles it.
func (l *life) step(ctx context.Context) {
	switch {
	case l.child != nil:
		l.attend(ctx)
	case l.rec.State != active:
		l.awaitRequest(ctx)
	default:
		l.launch(ctx)
	}
}

// attend waits until the agent ends, or the keeper or operator requests something else.
func (l *life) attend(ctx context.Context) {
	l.idle.Store(false)
	select {
	case <-ctx.Done():
	case <-l.wake:
	case e := <-l.child.ended:
		l.handleEnd(ctx, e)
	}
}

// handleEnd handles the end of a life. The urgent part comes first: the next life, if any.
func (l *life) handleEnd(ctx context.Context, e Ending) {
	now, cfg := l.k.Now(), l.k.config()
	if ready := l.rec.Started.Add(cfg.Ready); e.Fault == "" && !e.At.Before(ready) {
		e.Ready = ready
	}
	if l.rec.Unit != "" {
		e = l.k.unitStatus(ctx, l.rec.Unit, e)
	}
	if e.Well() && !e.Asked && l.row.Restart != WhenDue {
		e.Left = l.k.Deps.Unfinished(l.row)
	}
	was, generation := l.rec.Process, l.rec.Generation
	l.child = nil
	l.rec.Process, l.rec.Last, l.rec.Unit = proc.Identity{}, &e, ""
	d := Next(l.name, l.row.Restart, l.rec.History, e, now, cfg)
	l.rec.History, l.rec.Why = d.History, d.Why
	switch d.Action {
	case Start:
		l.rec.NotBefore = d.At
		if !l.start(ctx) {
			l.save(false)
		}
	case Rest:
		l.stay(rested, now)
		l.k.presence.ended(l.row, was, e, !e.Well(), d.Why)
	case Fail:
		l.stay(failed, now)
		l.k.presence.ended(l.row, was, e, true, d.Why)
		l.alert()
	}
	if generation > 0 && e.Fault == "" {
		l.k.reap(ctx, was, l.rec.markOf(generation))
	}
	l.k.Log.Info("agent ended", "agent", l.name, "how", e.String(), "then", string(d.Action), "why", d.Why)
}

// stay records that no further life follows. A failure is durable on disk before it is announced.
func (l *life) stay(s state, now time.Time) {
	l.rec.State, l.rec.Since, l.rec.Boot = s, now, self().Boot
	l.save(s == failed)
	l.publish(string(s), l.rec.Why)
}

// alert alerts the operator.
func (l *life) alert() {
	if err := l.k.Deps.Failed(l.row, l.rec.Why, l.rec.Generation); err != nil {
		l.k.Log.Error("tell of the failed agent", "agent", l.name, "error", err)
	}
}

// awaitRequest is for an agent that rests or has failed. It lasts until a recovery answer, the operator or the configuration
// requests the agent again. The release of an operator's hold also starts it.
func (l *life) awaitRequest(ctx context.Context) {
	l.setIdle()
	held := l.k.held(l.row)
	again := l.held && !held || l.rec.State == failed && l.k.Deps.Again(l.row, l.rec.Since)
	if l.held = held; again {
		if l.rec.State == failed {
			l.k.Deps.Recovered(l.row)
		}
		l.resetHistory()
		l.save(true)
		return
	}
	select {
	case <-ctx.Done():
	case <-l.wake:
	}
}

// launch starts the agent, or waits while there is an obstacle.
func (l *life) launch(ctx context.Context) {
	if l.start(ctx) {
		return
	}
	if l.row.Restart != WhenDue { // Wake reports work
		l.setIdle()
	}
	timer := time.NewTimer(max(time.Millisecond, l.rec.NotBefore.Sub(l.k.Now())))
	defer timer.Stop()
	var due <-chan time.Time
	if l.rec.NotBefore.After(l.k.Now()) {
		due = timer.C // else it waits for the operator or the gate, which are checked at each tick
	}
	select {
	case <-ctx.Done():
	case <-l.wake:
	case <-due:
	}
}
