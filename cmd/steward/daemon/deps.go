package daemon

import (
	"context"
	"path/filepath"
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/agentstatus"
	"github.com/livhana/steward/supervisor"
	"github.com/livhana/steward/supervisor/decide"
)

// deps returns the supervisor's dependencies.
func (h *Daemon) deps() supervisor.Deps {
	d := supervisor.Deps{
		Measure:   h.measure,
		Usage:     h.gauge.Usage,
		Alarms:    h.gauge.Alarms(),
		Watch:     h.watch,
		Consumers: h.consumers,
		// h.admissions is set after deps returns; the loop calls Promised later still.
		Promised: func(now time.Time) []decide.Promise { return h.admissions.Promised(now) },
		Inspect: func(pid int) (protocol.Identity, bool) {
			id, err := proc.Inspect(pid)
			return protocol.Identity(id), err == nil
		},
		Follow:    func(id protocol.Identity) { _ = h.exits.Add(proc.Identity(id)) },
		Check:     ProcessState,
		Stop:      h.stop,
		Hints:     h.hints,
		Exits:     h.gone,
		Tell:      h.tell,
		Incidents: h.ledger.Heads,
		Orders:    h.orders,
		Save:      h.save,
		Heartbeat: h.selfHeartbeat,
		HandOver:  h.handsOver,
		Note: func(e supervisor.Entry) {
			if err := h.journal.Write(e); err != nil {
				h.log.Error("journal", "error", err)
			}
		},
	}
	return d
}

// measure samples the gauges. Near the limit it also finds the largest consumers, for the notices. While no agent is
// registered there is nothing to hold, so the scan of all processes is skipped.
func (h *Daemon) measure(now time.Time) capacity.Load {
	load := h.gauge.Sample(now)
	h.mu.Lock()
	cfg, refs := h.cfg.Capacity, h.watched
	h.mu.Unlock()
	load = ByProjectName(load, refs)
	if p := h.loop.State(); cfg.IsNear(load) && p != nil && p.Plan.Agents.Len() > 0 {
		load.Consumers = h.consumers()
	}
	return load
}

// consumers returns the largest consumers, as many of each kind as a notice names.
func (h *Daemon) consumers() []protocol.Consumer { return h.gauge.Candidates(capacity.ConsumersShown) }

// freshFor is the maximum age of a reading that is shown to a user who is watching.
const freshFor = 900 * time.Millisecond

// freshLoad returns the state with the current load; the loop's state has the load of its last decision.
func (h *Daemon) freshLoad(p *supervisor.State) *supervisor.State {
	now := time.Now()
	if age := now.Sub(p.View.Load.At); age >= 0 && age < freshFor {
		return p
	}
	fresh := *p
	fresh.View.Now, fresh.View.Load = now, h.measure(now)
	return &fresh
}

func (h *Daemon) watch(project, root string, dirs []string) error {
	if h.watcher == nil {
		return h.unwatched
	}
	full := make([]string, 0, len(dirs))
	for _, dir := range dirs {
		full = append(full, filepath.Join(root, filepath.FromSlash(dir)))
	}
	_, err := h.watcher.Set(project, full)
	return err
}

// passHints forwards the watcher's events to the loop. The watcher's queue merges events while the loop is busy.
func (h *Daemon) passHints(ctx context.Context) error {
	if h.watcher == nil {
		<-ctx.Done()
		return nil
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-h.watcher.Events():
			select {
			// An overflow has no path: scan everything.
			case h.hints <- supervisor.Hint{Project: e.Key, Path: e.Path, Lost: e.Lost}:
			case <-ctx.Done():
				return nil
			}
		}
	}
}

func (h *Daemon) passExits(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case id := <-h.exits.Exits():
			select {
			case h.gone <- protocol.Identity(id):
			case <-ctx.Done():
				return nil
			}
		}
	}
}

func ProcessState(id protocol.Identity) heartbeat.ProcessState {
	switch proc.Check(proc.Identity(id)) {
	case proc.Alive:
		return heartbeat.ProcessAlive
	case proc.Stopped:
		return heartbeat.ProcessStopped
	case proc.Gone:
		return heartbeat.ProcessGone
	}
	return heartbeat.ProcessUnknown
}

// tell records an alert in the ledger; the dispatcher delivers it from there.
func (h *Daemon) tell(a rules.Alert) error {
	a.Options = h.escalation().Mark(a.Options)
	i, outcome, err := h.ledger.Raise(a, time.Now())
	if outcome == rules.OutcomeNew || outcome == rules.OutcomeReopened {
		h.log.Warn("incident", "key", i.Key, "severity", i.Severity, "summary", i.Summary)
	}
	return err
}

// Connect returns a client for the tasks of the project at dir.
func Connect(dir string) *agentstatus.Client {
	return agentstatus.Connect(dir, agentstatus.ClientOptions{Guard: GuardLock, Alive: MayLive})
}

// MayLive returns false only for a process that is proved to be gone.
func MayLive(id protocol.Identity) bool { return ProcessState(id) != heartbeat.ProcessGone }
