package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/capacity/measure"
	"github.com/livhana/steward/config"
	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/join/keep"
	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/platform/service"
	"github.com/livhana/steward/platform/watch"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
	"github.com/livhana/steward/status/terminal"
	"github.com/livhana/steward/supervisor"
	"github.com/livhana/steward/supervisor/decide"
)

// Daemon is a complete steward. The program's only wiring is in this file.
type Daemon struct {
	options  Options
	cfg      config.Config
	paths    platform.Paths
	log      *slog.Logger
	state    *jsonfile.Root
	alone    *platform.FileLock
	listener net.Listener
	ledger   *escalate.Ledger
	orders   *supervisor.Orders
	channels *channels
	// unanswered has a token when an answer waits to be written.
	unanswered chan struct{}
	// metricsChanged has a token when the address of the metrics may have changed.
	metricsChanged chan struct{}
	journal        *supervisor.Journal
	gauge          *measure.Gauge
	watched        []config.ProjectRef // whose disks the gauge reads; guarded by mu
	watcher        *watch.Watcher
	unwatched      error // why watcher is nil
	exits          *proc.Watcher
	hints          chan supervisor.Hint
	gone           chan protocol.Identity
	endings        chan ending
	registry       *prometheus.Registry
	metrics        *supervisor.Metrics
	loop           *supervisor.Supervisor
	keeper         *keep.Keeper // guarded by mu
	admissions     *supervisor.Admissions
	grants         grants
	closers        []func()
	learnt         int64 // the mark of the costs stored in learnt.json

	record *RunRecord
	// Only the loop uses these: the time of the last heartbeat, the last errors of writing it and of binding the socket
	// again, and whether an earlier crash is settled.
	beaten    time.Time
	beatErr   error
	bindErr   error
	recovered bool
	handOnce  sync.Once
	hands     bool
	order     service.Order     // systemd's queued job when steward is asked to stop
	fail      func(cause error) // ends the loop

	mu sync.Mutex // guards cfg while it is reloaded
}

// Options say how a command starts the daemon.
type Options struct {
	// Dirs are the projects that the command names; if there are none, those of the configuration.
	Dirs []string
	// Once: scan, decide and apply a single time, and leave no hold behind.
	Once bool
	// Manager is the service manager that started this process, "" if started by hand. Line sends messages to it.
	Manager string
	Line    *service.Line
	// Settings reads the configuration and returns the paths of this user's files.
	Settings func() (config.Config, platform.Paths, error)
	Log      *slog.Logger
	Out, Err io.Writer
	Version  string
}

// New assembles the daemon. Nothing runs yet.
func New(o Options) (*Daemon, error) {
	h, once := &Daemon{options: o, log: o.Log, metricsChanged: make(chan struct{}, 1)}, o.Once
	var err error
	if h.cfg, h.paths, err = o.Settings(); err != nil {
		return nil, err
	}
	refs, twins, err := h.projects(h.cfg)
	if err != nil {
		return nil, err
	}
	h.tellProjects(refs, twins)
	if err := h.openState(once); err != nil {
		h.Close()
		return nil, err
	}
	memory, err := h.takeOver(once)
	if err != nil {
		h.Close()
		return nil, err
	}
	h.watched, h.gauge = refs, measure.New(PathsOf(refs)...)
	h.gauge.Sample(time.Now()) // the processor load is known only from the second sample on
	h.exits, h.hints, h.gone = proc.NewWatcher(), make(chan supervisor.Hint), make(chan protocol.Identity)
	h.endings = make(chan ending, mostEndings)
	h.registry = prometheus.NewRegistry()
	h.metrics = supervisor.NewMetrics(h.registry, o.Version)
	if !once {
		h.openWatch()
	}
	var projects []supervisor.Project
	for _, ref := range refs {
		projects = append(projects, OpenProject(ref, h.cfg, true))
	}
	h.loop = supervisor.New(h.cfg.Policies(), projects, memory, h.deps(), h.log, h.metrics)
	h.metrics.Serve(h.loop.State, h.ledger.Heads)
	h.admissions = &supervisor.Admissions{Picture: h.loop.State}
	return h, nil
}

// takeOver reads the state that the last run left.
func (h *Daemon) takeOver(once bool) (decide.Memory, error) {
	var err error
	if h.orders, err = supervisor.OpenOrders(h.state); err != nil {
		return decide.Memory{}, err
	}
	if err := h.clearSnapshot(); err != nil {
		return decide.Memory{}, err
	}
	if !once {
		if err := h.startRun(time.Now()); err != nil {
			return decide.Memory{}, err
		}
		h.catchCrash()
	}
	return h.remembered()
}

// openState locks the state folder for this steward and opens the files in it.
func (h *Daemon) openState(once bool) error {
	if err := platform.PrivateDir(h.paths.State); err != nil {
		return fmt.Errorf("open the state folder: %w", err)
	}
	var err error
	if h.alone, err = LockState(h.paths.State); err != nil {
		if errors.Is(err, platform.ErrLocked) {
			return terminal.Report(err, "another steward is running with this state folder (%s)%s", h.paths.State, WhoRuns(h.paths.State))
		}
		return err
	}
	h.onClose(func() { _ = h.alone.Unlock() })
	if h.state, err = jsonfile.Open(h.paths.State); err != nil {
		return err
	}
	h.onClose(func() { _ = h.state.Close() })
	_, _ = h.state.Sweep(".", time.Now())
	if !once {
		if h.listener, err = platform.Listen(h.paths.Socket); err != nil {
			return err
		}
		h.onClose(func() { _ = h.listener.Close() })
	}
	if err := h.openLedger(); err != nil {
		return err
	}
	h.journal, err = supervisor.OpenJournal(filepath.Join(h.paths.State, JournalFile))
	if err != nil {
		return err
	}
	h.onClose(func() { _ = h.journal.Close() })
	return nil
}

func (h *Daemon) openLedger() error {
	ledger, faults, err := escalate.Open(filepath.Join(h.paths.State, "incidents"))
	if err != nil {
		return err
	}
	h.ledger = ledger
	for _, f := range faults {
		h.log.Error("incident file set aside", "path", f.Path, "problem", f.Problem)
		if err := h.tell(incidentAsideAlert(f)); err != nil {
			return err
		}
	}
	h.channels, h.unanswered = newChannels(h), make(chan struct{}, 1)
	h.onClose(func() { _ = h.channels.popups.Close() })
	return nil
}

// openWatch starts watching folders if the kernel allows it. Otherwise the loop scans every few seconds.
func (h *Daemon) openWatch() {
	w, err := watch.New()
	if err != nil {
		h.unwatched = err // each project reports it
		return
	}
	h.watcher = w
	h.metrics.Watches(w.Descriptors)
}

func PathsOf(refs []config.ProjectRef) []string {
	var paths []string
	for _, r := range refs {
		paths = append(paths, r.Path)
	}
	return paths
}

// ByProjectName keys the load's disks by project name; the gauge knows only folders.
func ByProjectName(load capacity.Load, refs []config.ProjectRef) capacity.Load {
	disks := make(map[string]capacity.Disk, len(refs))
	for _, r := range refs {
		if d, known := load.Disks[r.Path]; known {
			disks[r.Name] = d
		}
	}
	load.Disks = disks
	return load
}

func (h *Daemon) onClose(f func()) { h.closers = append(h.closers, f) }

func (h *Daemon) Close() {
	for i := len(h.closers) - 1; i >= 0; i-- {
		h.closers[i]()
	}
	h.closers = nil
}

// Run supervises until the context ends.
func (h *Daemon) Run(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	h.fail = stop
	crew, dismiss := context.WithCancel(context.WithoutCancel(ctx))
	var hands sync.WaitGroup
	defer func() { dismiss(); hands.Wait() }()
	// The helpers run until the loop has ended, because the loop needs them to release everything properly. A helper
	// that fails ends the loop.
	hire := func(name string, run func(context.Context) error) {
		hands.Go(func() {
			if err := run(crew); err != nil && crew.Err() == nil {
				stop(fmt.Errorf("%s: %w", name, err))
			}
		})
	}
	if h.watcher != nil {
		hire("watch folders", h.watcher.Run)
	}
	hire("watch processes", h.exits.Run)
	hire("feel pressure", h.gauge.Run)
	hire("deliver incidents", h.channels.Run)
	hire("pass hints on", h.passHints)
	hire("pass exits on", h.passExits)
	hire("end processes", h.endProcesses)
	hire("write answers", h.writeAnswers)
	hire("hear popups", h.channels.hearPopups)
	hire("serve the socket", h.serve)
	hire("serve metrics", h.serveMetrics)
	hire("reload on SIGHUP", h.onHangup)
	hire("keep the snapshot", h.keepSnapshot)
	hire("prune incidents", h.prune)
	hire("keep agents", h.keepAgents)
	h.configAccepted()
	h.loop.OnReady(h.announce)
	context.AfterFunc(ctx, h.options.Line.Stopping)
	err := h.loop.Run(ctx)
	h.snapshot()
	defer func() { h.beat(time.Now(), "stopped"); h.endRun(err) }()
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	if err == nil && h.order == service.OrderNone {
		err = errNotOrdered
	}
	return err
}

// errNotOrdered makes the service manager start steward again: the manager did not send the signal, so its sender was
// not entitled to stop steward for good.
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
