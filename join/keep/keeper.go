package keep

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/status"
)

// New makes a keeper. It neither starts nor reads anything.
func New(o Options) *Keeper {
	k := &Keeper{Options: o, store: store{o.Root}, reaps: make(chan struct{}, 2), hook: func(string) {},
		rows: map[string]Row{}, aside: map[string]bool{}, lives: map[string]*life{}, wake: newTrigger()}
	k.presence = &presence{deps: o.Deps, log: o.Log, latest: map[string]presenceNotice{}, wake: newTrigger()}
	k.leftProcesses = sync.OnceValues(func() ([]proc.Process, error) { return proc.Marked(envKeeper, stateMark(k.State)) })
	return k
}

// Set applies settings and rows. Agents whose row is gone are ended; agents whose command has changed are restarted.
// Rows in aside are neither started nor ended.
func (k *Keeper) Set(cfg Config, rows, aside []Row) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cfg = cfg
	clear(k.rows)
	clear(k.aside)
	for _, r := range rows {
		k.rows[r.id()] = r
	}
	for _, r := range aside {
		k.aside[r.id()] = true
	}
	k.wake.set()
}

// The interval of checks while a life waits for an external condition; and otherwise, when only the logs are checked.
const (
	idleInterval = time.Second
	logsInterval = 5 * time.Second
)

// checkInterval is the time until the next check.
func (k *Keeper) checkInterval() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, l := range k.lives {
		if l.idle.Load() {
			return idleInterval
		}
	}
	return logsInterval
}

// Run keeps the agents until ctx ends, and then leaves them running.
func (k *Keeper) Run(ctx context.Context) error {
	if len(k.store.all()) > 0 || len(k.configured()) > 0 {
		if err := k.Root.MkdirAll(Folder, 0o700); err != nil {
			return err
		}
	}
	defer k.closeUnits()
	begun := k.Now()
	if k.updateLives(ctx) {
		k.wg.Go(func() {
			k.adopting.Wait()
			k.Log.Info("agents looked at", "agents", len(k.List()), "took", k.Now().Sub(begun))
		})
	}
	k.wg.Go(func() {
		k.adopting.Wait() // disk waits must not slow down the adoption
		k.presence.run(ctx)
	})
	defer k.wg.Wait()
	beat := time.NewTimer(idleInterval)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-k.wake:
			if k.updateLives(ctx) {
				beat.Reset(k.checkInterval())
			} else {
				beat.Stop() // no lives: sleep until the configuration changes
			}
		case <-beat.C:
			k.checkLives()
			beat.Reset(k.checkInterval())
		}
	}
}

func (k *Keeper) configured() map[string]Row {
	k.mu.Lock()
	defer k.mu.Unlock()
	return maps.Clone(k.rows)
}

// updateLives creates a life for every row, and for every record whose row is gone. It passes the current rows to the
// existing lives.
func (k *Keeper) updateLives(ctx context.Context) (any bool) {
	rows := k.configured()
	gone := map[string]*Record{}
	records := map[string]*Record{}
	for _, r := range k.store.all() {
		key := r.row().id()
		records[key] = r
		if _, wanted := rows[key]; !wanted {
			gone[key] = r
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for key, l := range k.lives {
		row, wanted := k.rows[key]
		l.setDesired(row, wanted)
		delete(gone, key)
	}
	for _, key := range slices.Sorted(maps.Keys(rows)) {
		if k.lives[key] == nil {
			k.begin(ctx, rows[key], records[key], true)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(gone)) {
		if !k.aside[key] {
			k.begin(ctx, gone[key].row(), gone[key], false)
		}
	}
	return len(k.lives) > 0
}

// begin starts keeping one agent. The caller holds mu.
func (k *Keeper) begin(ctx context.Context, row Row, r *Record, wanted bool) {
	l := newLife(k, row, r)
	l.setDesired(row, wanted)
	k.lives[row.id()] = l
	k.adopting.Add(1)
	k.wg.Go(func() {
		l.adoptLeft(ctx)
		k.adopting.Done()
		l.run(ctx)
		k.mu.Lock()
		delete(k.lives, row.id())
		k.mu.Unlock()
		if ctx.Err() == nil {
			k.wake.set() // the row may have come back while its agent was being ended
		}
	})
}

// checkLives bounds the logs, and wakes the waiting lives.
func (k *Keeper) checkLives() {
	k.mu.Lock()
	lives := slices.Collect(maps.Values(k.lives))
	k.mu.Unlock()
	for _, l := range lives {
		if err := trimLog(l.log); err != nil {
			k.Log.Error("cut the agent's log", "agent", l.name, "error", err)
		}
		if l.idle.Load() {
			l.wake.set()
		}
	}
}

// List returns all agents, by folder and name.
func (k *Keeper) List() []status.Kept {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := make([]status.Kept, 0, len(k.lives))
	for _, key := range slices.Sorted(maps.Keys(k.lives)) {
		all = append(all, *k.lives[key].public.Load())
	}
	return all
}

// ErrNotKept: the keeper starts no such agent.
var ErrNotKept = errors.New("the keeper starts no such agent")

// Restart ends an agent and starts it again, with its full number of restarts. It returns when the next life has begun,
// or waits for the operator or the capacity gate; the result says which.
func (k *Keeper) Restart(ctx context.Context, project, agent string) (status.Kept, error) {
	done := make(chan struct{})
	l := k.find(project, agent)
	if l == nil {
		return status.Kept{}, ErrNotKept
	}
	k.mu.Lock()
	l.restarts = append(l.restarts, done)
	k.mu.Unlock()
	l.wake.set()
	select {
	case <-done:
		return *l.public.Load(), nil
	case <-ctx.Done():
		return status.Kept{}, ctx.Err()
	}
}

// EndAll ends all agents that a steward with this state folder has started, before steward is removed. No keeper may
// run.
func EndAll(ctx context.Context, o Options, stop time.Duration) (ended int, err error) {
	k := New(o)
	k.cfg.Stop = stop
	defer k.closeUnits()
	for _, r := range k.store.all() {
		living := proc.Check(r.Process) != proc.Gone && r.Process.PID > 0
		if e := k.finish(ctx, r); e != nil {
			err = errors.Join(err, e)
			continue
		}
		if living {
			ended++
		}
		k.store.drop(r.row())
	}
	return ended, err
}
