package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"time"

	"github.com/livhana/steward/config"
	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/platform/desktop"
	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/platform/service"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/status/terminal"
	"github.com/livhana/steward/supervisor"
	"github.com/livhana/steward/supervisor/decide"
	"github.com/prometheus/client_golang/prometheus"
)

// Daemon is a complete steward. This file creates all its parts and connects them.
type Daemon struct {
	*reports
	options       Options
	paths         platform.Paths
	listener      net.Listener // of the socket; nil in a single scan
	store         *store
	run           *run
	heartbeat     *selfHeartbeat
	machine       *machine
	channels      *channels
	answers       *answers
	agents        *agents
	endings       *endings
	metricsServer *metricsServer
	loop          *supervisor.Supervisor
	admissions    *supervisor.Admissions
	grants        grants
	closers       []func()
}

// New assembles the daemon. Nothing runs yet.
func New(o Options) (*Daemon, error) {
	cfg, paths, err := o.Settings()
	if err != nil {
		return nil, err
	}
	refs, twins, err := Projects(cfg, o.Dirs, o.Manager != "")
	if err != nil {
		return nil, err
	}
	h := &Daemon{options: o, paths: paths, reports: &reports{settings: &settings{}, log: o.Log}}
	h.settings.set(cfg, refs)
	tellProjects(o, refs, twins)
	if err := h.assemble(cfg, refs); err != nil {
		h.Close()
		return nil, err
	}
	return h, nil
}

func (h *Daemon) assemble(cfg config.Config, refs []config.ProjectRef) error {
	if err := h.openState(); err != nil {
		return err
	}
	orders, err := supervisor.OpenOrders(h.store.root)
	if err != nil {
		return err
	}
	h.run = &run{options: h.options, store: h.store}
	if !h.options.Once {
		h.run.start(time.Now())
	}
	memory, err := h.store.remembered()
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	metrics := supervisor.NewMetrics(registry, h.options.Version)
	h.metricsServer = &metricsServer{reports: h.reports, registry: registry, changed: newWakeup()}
	h.machine = newMachine(h.settings, !h.options.Once)
	h.endings = newEndings(h.reports)
	h.onClose(h.endings.Close)
	h.answers = &answers{reports: h.reports, due: newWakeup()}
	h.channels = &channels{reports: h.reports, popups: desktop.NewPopups(), state: h.store.root, answers: h.answers,
		delivered: metrics.Delivered, changed: newWakeup(), known: map[string]status.Channel{}}
	h.onClose(func() { _ = h.channels.popups.Close() })
	h.heartbeat = &selfHeartbeat{run: h.run, listener: h.listener, socket: h.paths.Socket}
	h.agents = newAgents(h.options, h.store, h.paths)
	h.loop = supervisor.New(cfg.Policies(), openProjects(refs, cfg), memory, h.deps(orders), h.log, metrics)
	metrics.Serve(h.loop.State, h.ledger.Heads, h.machine.watches())
	h.admissions = &supervisor.Admissions{State: h.loop.State, Stops: h.agents.stops}
	// These ask the loop, which needs them itself.
	h.machine.loop, h.answers.loop, h.heartbeat.loop, h.agents.loop, h.agents.admissions = h.loop, h.loop, h.loop, h.loop, h.admissions
	h.answers.start = h.agents.startAgain
	return nil
}

// openState locks the state folder for this steward and opens the files in it.
func (h *Daemon) openState() error {
	if err := platform.PrivateDir(h.paths.State); err != nil {
		return fmt.Errorf("open the state folder: %w", err)
	}
	alone, err := LockState(h.paths.State)
	if errors.Is(err, platform.ErrLocked) {
		return terminal.Report(err, "another steward is running with this state folder (%s)%s", h.paths.State, WhoRuns(h.paths.State))
	}
	if err != nil {
		return err
	}
	h.onClose(func() { _ = alone.Unlock() })
	root, err := jsonfile.Open(h.paths.State)
	if err != nil {
		return err
	}
	h.onClose(func() { _ = root.Close() })
	_ = root.Sweep(".", time.Now())
	if !h.options.Once {
		if h.listener, err = platform.Listen(h.paths.Socket); err != nil {
			return err
		}
		h.onClose(func() { _ = h.listener.Close() })
	}
	var faults []protocol.Fault
	if h.ledger, faults, err = escalate.Open(filepath.Join(h.paths.State, "incidents")); err != nil {
		return err
	}
	h.store = &store{reports: h.reports, dir: h.paths.State, root: root}
	for _, f := range faults {
		h.log.Error("incident file set aside", "path", f.Path, "problem", f.Problem)
		if err := h.tell(incidentFileAlert(f)); err != nil {
			return err
		}
	}
	if h.journal, err = supervisor.OpenJournal(filepath.Join(h.paths.State, JournalFile)); err != nil {
		return err
	}
	h.onClose(func() { _ = h.journal.Close() })
	return nil
}

// deps returns the supervisor's dependencies.
func (h *Daemon) deps(orders *supervisor.Orders) supervisor.Deps {
	return supervisor.Deps{
		Measure:   h.machine.measure,
		Usage:     h.machine.gauge.Usage,
		Alarms:    h.machine.gauge.Alarms(),
		Watch:     h.machine.watch,
		Consumers: h.machine.consumers,
		// h.admissions is set after deps returns; the loop calls Promised later still.
		Promised: func(now time.Time) []decide.Promise { return h.admissions.Promised(now) },
		Inspect: func(pid int) (protocol.Identity, bool) {
			id, err := proc.Inspect(pid)
			return protocol.Identity(id), err == nil
		},
		Follow:    func(id protocol.Identity) { _ = h.machine.exits.Add(proc.Identity(id)) },
		Check:     ProcessState,
		Stop:      h.endings.end,
		Hints:     h.machine.hints,
		Exits:     h.machine.gone,
		Tell:      func(alert rules.Alert) error { return h.tell(h.agents.offerStart(alert)) },
		Say:       h.channels.say,
		Incidents: h.ledger.Heads,
		Orders:    orders,
		Save:      h.store.save,
		Heartbeat: func(now time.Time) { h.heartbeat.pulse(now); h.agents.decided.wake() },
		HandOver:  h.run.handsOver,
		Note:      h.note,
	}
}

func (h *Daemon) onClose(f func()) { h.closers = append(h.closers, f) }

func (h *Daemon) Close() {
	for i := len(h.closers) - 1; i >= 0; i-- {
		h.closers[i]()
	}
	h.closers = nil
}

// Run supervises until the context ends. The helpers run until the loop has ended, because the loop needs them to release
// everything properly. A helper that fails ends the loop.
func (h *Daemon) Run(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	h.heartbeat.fail = stop
	helpers, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	defer func() { cancel(); wg.Wait() }()
	for _, helper := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"watch folders", h.machine.watchFolders},
		{"watch processes", h.machine.exits.Run},
		{"feel pressure", h.machine.gauge.Run},
		{"deliver incidents", h.channels.Run},
		{"pass exits on", h.machine.passExits},
		{"write answers", h.answers.Run},
		{"hear popups", h.channels.hearPopups},
		{"serve the socket", h.serve},
		{"serve metrics", h.metricsServer.Run},
		{"reload on SIGHUP", h.onHangup},
		{"keep the snapshot", func(ctx context.Context) error { return every(ctx, snapshotEvery, h.snapshot) }},
		{"prune incidents", h.prune},
		{"keep agents", h.agents.Run},
	} {
		wg.Go(func() {
			if err := helper.run(helpers); err != nil && helpers.Err() == nil {
				stop(fmt.Errorf("%s: %w", helper.name, err))
			}
		})
	}
	h.resolve(configAlert(), configAccepted)
	h.loop.OnReady(h.announce)
	context.AfterFunc(ctx, h.options.Line.Stopping)
	err := h.loop.Run(ctx)
	h.snapshot()
	defer func() { h.heartbeat.beat(time.Now(), "stopped"); h.run.end(err) }()
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	if err == nil && h.run.order == service.OrderNone {
		err = errNotOrdered
	}
	return err
}

// errNotOrdered makes the service manager start steward again: the manager did not send the signal, so its sender was
// not entitled to stop steward for good. See docs/decisions.md, "A SIGTERM that systemd did not request ends in a restart".
var errNotOrdered = errors.New("ended by a signal that the service manager knows nothing of")

// Once runs a single scan, decision and application.
func (h *Daemon) Once(ctx context.Context) error {
	if err := h.loop.Once(ctx); err != nil {
		return err
	}
	h.snapshot()
	if h.loop.State() != nil {
		TellHowToBoot(h.options.Err, h.loop.State())
	}
	return nil
}

// LastState returns the state after the last scan and decision; nil before the first.
func (h *Daemon) LastState() *supervisor.State { return h.loop.State() }
