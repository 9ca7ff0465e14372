package daemon

import (
	"context"
	"path/filepath"
	"sync"
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/capacity/measure"
	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/platform/watch"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/agentstatus"
	"github.com/livhana/steward/supervisor"
)

// machine is what the daemon sees of the machine: the load, file events, and the ends of processes.
type machine struct {
	settings  *settings
	loop      *supervisor.Supervisor
	gauge     *measure.Gauge
	watcher   *watch.Watcher
	unwatched error // why watcher is nil
	exits     *proc.Watcher
	hints     chan supervisor.Hint
	gone      chan protocol.Identity
}

// newMachine opens the gauges and watchers. Nothing runs yet. watching: watch folders, if the kernel allows it; otherwise
// the loop scans every few seconds.
func newMachine(s *settings, watching bool) *machine {
	m := &machine{settings: s, gauge: measure.New(PathsOf(s.projects())...), exits: proc.NewWatcher(), hints: make(chan supervisor.Hint), gone: make(chan protocol.Identity)}
	if watching {
		m.watcher, m.unwatched = watch.New() // each project reports why it is not watched
	}
	return m
}

// measure samples the gauges. Near the limit it also finds the largest consumers, for the notices. While no agent is
// registered there is nothing to hold, so the scan of all processes is skipped.
func (m *machine) measure(now time.Time) capacity.Load {
	load := m.gauge.Sample(now)
	load = ByProjectName(load, m.settings.projects())
	if p := m.loop.State(); m.settings.config().Capacity.IsNear(load) && p != nil && p.Plan.Agents.Len() > 0 {
		load.Consumers = m.consumers()
	}
	return load
}

// consumers returns the largest consumers, as many of each kind as a notice names.
func (m *machine) consumers() []protocol.Consumer { return m.gauge.Candidates(capacity.ConsumersShown) }

// freshFor is the maximum age of a reading that is shown to a user who is watching.
const freshFor = 900 * time.Millisecond

// fresh returns the state with the current load; the loop's state has the load of its last decision.
func (m *machine) fresh(p *supervisor.State) *supervisor.State {
	now := time.Now()
	if age := now.Sub(p.View.Load.At); age >= 0 && age < freshFor {
		return p
	}
	fresh := *p
	fresh.View.Now, fresh.View.Load = now, m.measure(now)
	return &fresh
}

func (m *machine) watch(project, root string, dirs []string) error {
	if m.watcher == nil {
		return m.unwatched
	}
	full := make([]string, 0, len(dirs))
	for _, dir := range dirs {
		full = append(full, filepath.Join(root, filepath.FromSlash(dir)))
	}
	_, err := m.watcher.Set(project, full)
	return err
}

// watches counts the watched folders; nil if folders are not watched.
func (m *machine) watches() func() int {
	if m.watcher == nil {
		return nil
	}
	return m.watcher.Descriptors
}

// watchFolders forwards the watcher's events to the loop. The watcher's queue merges events while the loop is busy.
func (m *machine) watchFolders(ctx context.Context) error {
	if m.watcher == nil {
		return nil
	}
	var passing sync.WaitGroup
	defer passing.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	passing.Go(func() {
		_ = forward(ctx, m.watcher.Events(), m.hints, func(e watch.Event) supervisor.Hint {
			return supervisor.Hint{Project: e.Key, Path: e.Path, Lost: e.Lost} // an overflow has no path: scan everything
		})
	})
	return m.watcher.Run(ctx)
}

func (m *machine) passExits(ctx context.Context) error {
	return forward(ctx, m.exits.Exits(), m.gone, func(id proc.Identity) protocol.Identity { return protocol.Identity(id) })
}

// forward passes converted values on until ctx ends.
func forward[A, B any](ctx context.Context, from <-chan A, to chan<- B, convert func(A) B) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case v := <-from:
			select {
			case to <- convert(v):
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

// Connect returns a client for the tasks of the project at dir.
func Connect(dir string) *agentstatus.Client {
	return agentstatus.Connect(dir, agentstatus.ClientOptions{Guard: GuardLock, Alive: MayLive})
}

// MayLive returns false only for a process that is proved to be gone.
func MayLive(id protocol.Identity) bool { return ProcessState(id) != heartbeat.ProcessGone }
