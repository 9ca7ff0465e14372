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

// daemon is a steward in one piece: this file is the only wiring in the program.
type Daemon struct {
	o        Options
	cfg      config.Config
	paths    platform.Paths
	log      *slog.Logger
	state    *jsonfile.Root
	alone    *platform.FileLock
	listener net.Listener
	ledger   *escalate.Ledger
	orders   *supervisor.Orders
	herald   *channels
	// unanswered has a token when an answer waits to be written.
	unanswered chan struct{}
	// metricsChanged has a token when the address of the metrics may have changed.
	metricsChanged chan struct{}
	journal        *supervisor.Journal
	gauge          *measure.Gauge
	watched        []config.ProjectRef // whose disks the gauge reads; guarded by mu
	watcher        *watch.Watcher
	unwatched      error // why there is none
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
	learnt         int64 // the mark of what learnt.json holds

	tenure *RunRecord
	// The loop's own: the last sign of life, its trouble, and whether an earlier crash is settled.
	beaten    time.Time
	beatErr   error
	bindErr   error
	recovered bool
	handOnce  sync.Once
	hands     bool
	order     service.Order     // systemd's, when steward is asked to end
	fail      func(cause error) // ends the loop

	mu sync.Mutex // guards cfg while it is reloaded
}

// Options say how a command starts the daemon.
type Options struct {
	// Dirs are the projects that the command names; none: those of the configuration.
	Dirs []string
	// Once: a single scan, decision and application, with nothing left held.
	Once bool
	// Manager is the service manager that started this process, "" by hand, and Line what is said to it.
	Manager string
	Line    *service.Line
	// Settings reads the configuration, and where this user's files are.
	Settings func() (config.Config, platform.Paths, error)
	Log      *slog.Logger
	Out, Err io.Writer
	Version  string
}

// newDaemon assembles the daemon. Nothing runs yet.
func New(o Options) (*Daemon, error) {
	h, once := &Daemon{o: o, log: o.Log, metricsChanged: make(chan struct{}, 1)}, o.Once
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
	h.gauge.Sample(time.Now()) // the processor is known from the second sample on
	h.exits, h.hints, h.gone = proc.NewWatcher(), make(chan supervisor.Hint), make(chan protocol.Identity)
	h.endings = make(chan ending, mostEndings)
	h.registry = prometheus.NewRegistry()
	h.metrics = supervisor.NewMetrics(h.registry, o.Version)
	if !once {
		h.openWatch()
	}
	var projects []supervisor.Project
	for _, ref := range refs {
		projects = append(projects, Open(ref, h.cfg, true))
	}
	h.loop = supervisor.New(h.cfg.Policies(), projects, memory, h.deps(), h.log, h.metrics)
	h.metrics.Serve(h.loop.State, h.ledger.Heads)
	h.admissions = &supervisor.Admissions{Picture: h.loop.State}
	return h, nil
}

// takeOver reads what the last run left.
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

// openState takes the state folder for this steward alone, and opens what lies in it.
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
	h.herald, h.unanswered = newChannels(h), make(chan struct{}, 1)
	h.onClose(func() { _ = h.herald.popups.Close() })
	return nil
}

// openWatch starts watching folders if the kernel lets us; without, looking every few seconds must do.
func (h *Daemon) openWatch() {
	w, err := watch.New()
	if err != nil {
		h.unwatched = err // each project says so
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

// byName gives a load its disks by the name of the project; the gauge knows folders only.
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

// run supervises until the context ends.
func (h *Daemon) Run(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	h.fail = stop
	crew, dismiss := context.WithCancel(context.WithoutCancel(ctx))
	var hands sync.WaitGroup
	defer func() { dismiss(); hands.Wait() }()
	// What the loop needs to let go properly stays until the loop has ended; a part that fails ends the loop.
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
	hire("deliver incidents", h.herald.Run)
	hire("pass hints on", h.passHints)
	hire("pass exits on", h.passExits)
	hire("end processes", h.endProcesses)
	hire("write answers", h.writeAnswers)
	hire("hear popups", h.herald.hearPopups)
	hire("serve the socket", h.serve)
	hire("serve metrics", h.serveMetrics)
	hire("reload on SIGHUP", h.onHangup)
	hire("keep the snapshot", h.keepSnapshot)
	hire("prune incidents", h.prune)
	hire("keep agents", h.keepAgents)
	h.configAccepted()
	h.loop.OnReady(h.announce)
	context.AfterFunc(ctx, h.o.Line.Stopping)
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

// errNotOrdered has the service manager start steward again: whoever sent the signal was not the one who may stop it.
var errNotOrdered = errors.New("ended by a signal that the service manager knows nothing of")

// once makes a single look-decide-act.
func (h *Daemon) Once(ctx context.Context) error {
	if err := h.loop.Once(ctx); err != nil {
		return err
	}
	h.snapshot()
	if h.loop.State() != nil {
		TellHowToBoot(h.o.Err, h.loop.State())
	}
	return nil
}

// lastState is what the last scan and decision showed; nil before the first.
func (h *Daemon) LastState() *supervisor.State { return h.loop.State() }
