package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

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
	"github.com/livhana/steward/supervisor"
	"github.com/livhana/steward/supervisor/decide"
)

func (a *app) runCommand() *cobra.Command {
	var dirs []string
	var once, managed bool
	c := &cobra.Command{
		Use:   "run",
		Short: "Supervise projects in the foreground (what the service runs)",
		Long:  "run supervises the projects of the configuration, or those given, or else the current folder. It needs no\nconfiguration. A folder that is not there yet is told and waited for. With --once it looks, decides and acts a single time,\nleaves nothing held, and exits.\n\nIt goes on when whoever reads its output has gone; an interrupt ends it.",
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case once && managed:
				return usageError{errors.New("run: use --once or --service, not both")}
			case !once:
				outliveReader()
			}
			if managed {
				return a.runManaged(c.Context(), dirs)
			}
			h, err := a.furnish(dirs, once, under{line: service.Connect()})
			if err != nil {
				return err
			}
			defer h.close()
			if once {
				return h.once(c.Context())
			}
			return h.run(c.Context())
		},
	}
	c.Flags().StringArrayVar(&dirs, "project", nil, "supervise this `DIR` (may be repeated)")
	c.Flags().BoolVar(&once, "once", false, "one look, then exit")
	c.Flags().BoolVar(&managed, "service", false, "run under a service manager: only the projects of the configuration, starts paced after failures")
	return c
}

// daemon is a steward in one piece: this file is the only wiring in the program.
type daemon struct {
	app      *app
	dirs     []string
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

	under
	tenure *runRecord
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

// under is the service manager that started this process.
type under struct {
	manager string // "" by hand
	line    *service.Line
}

// furnish puts the daemon together. Nothing runs yet.
func (a *app) furnish(dirs []string, once bool, u under) (*daemon, error) {
	h := &daemon{app: a, dirs: dirs, log: a.logger(), under: u, metricsChanged: make(chan struct{}, 1)}
	var err error
	if h.cfg, h.paths, err = a.settings(); err != nil {
		return nil, err
	}
	refs, twins, err := h.projects(h.cfg)
	if err == nil {
		err = h.selectProjects(once)
	}
	if err != nil {
		return nil, err
	}
	h.tellProjects(refs, twins)
	if err := h.openState(once); err != nil {
		h.close()
		return nil, err
	}
	memory, err := h.takeOver(once)
	if err != nil {
		h.close()
		return nil, err
	}
	h.watched, h.gauge = refs, measure.New(pathsOf(refs)...)
	h.gauge.Sample(time.Now()) // the processor is known from the second sample on
	h.exits, h.hints, h.gone = proc.NewWatcher(), make(chan supervisor.Hint), make(chan protocol.Identity)
	h.endings = make(chan ending, mostEndings)
	h.registry = prometheus.NewRegistry()
	h.metrics = supervisor.NewMetrics(h.registry, version())
	if !once {
		h.openWatch()
	}
	var projects []supervisor.Project
	for _, ref := range refs {
		projects = append(projects, projectOf(ref, h.cfg, true))
	}
	h.loop = supervisor.New(h.cfg.Policies(), projects, memory, h.deps(), h.log, h.metrics)
	h.metrics.Serve(h.loop.State, h.ledger.Heads)
	h.admissions = &supervisor.Admissions{Picture: h.loop.State}
	return h, nil
}

// takeOver reads what the last run left.
func (h *daemon) takeOver(once bool) (decide.Memory, error) {
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

// projects lists what is to be supervised: flags, else the configuration, else the current folder.
func (h *daemon) projects(cfg config.Config) ([]config.ProjectRef, []twin, error) {
	cwd, err := os.Getwd()
	if err != nil {
		return nil, nil, fmt.Errorf("find the current folder: %w", err)
	}
	dirs := h.dirs
	if len(dirs) == 0 && len(cfg.Projects) == 0 && h.manager == "" {
		dirs = []string{cwd}
	}
	home, _ := os.UserHomeDir()
	if len(dirs) > 0 {
		cfg.Projects = only(cfg.Projects, dirs, home, cwd)
	}
	rows, twins := apart(cfg.Projects, home, cwd)
	cfg.Projects = rows
	refs, err := cfg.ProjectList(home, cwd)
	return refs, twins, err
}

// openState takes the state folder for this steward alone, and opens what lies in it.
func (h *daemon) openState(once bool) error {
	if err := platform.PrivateDir(h.paths.State); err != nil {
		return fmt.Errorf("open the state folder: %w", err)
	}
	var err error
	if h.alone, err = takeState(h.paths.State); err != nil {
		if errors.Is(err, platform.ErrLocked) {
			return report(err, "another steward is running with this state folder (%s)%s", h.paths.State, whoRuns(h.paths.State))
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
	h.journal, err = supervisor.OpenJournal(filepath.Join(h.paths.State, journalFile))
	if err != nil {
		return err
	}
	h.onClose(func() { _ = h.journal.Close() })
	return nil
}

func (h *daemon) openLedger() error {
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
	h.herald, h.unanswered = newHerald(h), make(chan struct{}, 1)
	h.onClose(func() { _ = h.herald.popups.Close() })
	return nil
}

// openWatch starts watching folders if the kernel lets us; without, looking every few seconds must do.
func (h *daemon) openWatch() {
	w, err := watch.New()
	if err != nil {
		h.unwatched = err // each project says so
		return
	}
	h.watcher = w
	h.metrics.Watches(w.Descriptors)
}

func pathsOf(refs []config.ProjectRef) []string {
	var paths []string
	for _, r := range refs {
		paths = append(paths, r.Path)
	}
	return paths
}

// byName gives a load its disks by the name of the project; the gauge knows folders only.
func byName(load capacity.Load, refs []config.ProjectRef) capacity.Load {
	disks := make(map[string]capacity.Disk, len(refs))
	for _, r := range refs {
		if d, known := load.Disks[r.Path]; known {
			disks[r.Name] = d
		}
	}
	load.Disks = disks
	return load
}

func (h *daemon) onClose(f func()) { h.closers = append(h.closers, f) }

func (h *daemon) close() {
	for i := len(h.closers) - 1; i >= 0; i-- {
		h.closers[i]()
	}
	h.closers = nil
}

// run supervises until the context ends.
func (h *daemon) run(ctx context.Context) error {
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
	context.AfterFunc(ctx, h.line.Stopping)
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
func (h *daemon) once(ctx context.Context) error {
	if err := h.loop.Once(ctx); err != nil {
		return err
	}
	h.snapshot()
	if h.loop.State() != nil {
		tellHowToBoot(h.app.err, h.loop.State())
	}
	return h.app.printDone(h.loop.State())
}
