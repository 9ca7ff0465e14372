package keep

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/platform/service"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
	"github.com/livhana/steward/status"
)

// The places where agents can run.
const (
	PlaceAuto    = "auto"    // service if steward itself is a service and the manager can be reached, else session
	PlaceService = "service" // a transient systemd service for each agent
	PlaceSession = "session" // a session for each agent
)

// Deps are the keeper's connections to the rest of steward. Several goroutines may call them at once.
type Deps struct {
	// Enroll records in the project's files that a process acts for the agent.
	Enroll func(ctx context.Context, row Row, id protocol.Identity) error
	// Leave records there that the process has ended; failed: no restart follows, and why says so.
	Leave func(ctx context.Context, row Row, id protocol.Identity, e Ending, failed bool, why string) error
	// Admit reports whether the agent may start now: there is room, and for WhenDue work waits for it. last is how its
	// last life ended; nil: it had none. A refusal comes with the reason. It must not block.
	Admit func(row Row, last *Ending) (ok bool, why string)
	// Unfinished says what work an agent that exited with code 0 has left behind because it failed; "" for none.
	Unfinished func(row Row) string
	// Held reports whether the operator holds the agent, which prevents its start.
	Held func(row Row) bool
	// Failed alerts the operator, once for each life that is not followed by a restart. Again reports whether the
	// operator's answer since then asks for a start.
	Failed func(row Row, why string, life int) error
	Again  func(row Row, since time.Time) bool
	// Recovered closes that alert.
	Recovered func(row Row)
}

// Options configure a keeper.
type Options struct {
	// State is the absolute path of the state folder. The process that runs a keeper in it must hold a lock on a file
	// there, opened with close-on-exec (platform.Lock), from before Run until the process ends. The lock does more than
	// exclude a second keeper. A child that a killed keeper leaves between fork and exec shares the lock, and carries
	// no mark yet by which it could be found. Once the lock is acquired, every such child has executed its program or
	// is gone.
	State string
	Root  *jsonfile.Root // State, opened
	Deps  Deps
	Now   func() time.Time
	Log   *slog.Logger
	// OpenUnits connects to the service manager on first use; nil: there is no manager, and every agent runs in a
	// session.
	OpenUnits func(context.Context) (*service.Units, error)
	// Managed: steward is a service itself, so PlaceAuto runs agents as services.
	Managed bool
	// Environ is the environment that the agents inherit.
	Environ []string
}

// Keeper starts the configured agents and keeps them running. When it stops it leaves them running for the next keeper
// to adopt. See docs/decisions.md, "Agents outlive steward".
type Keeper struct {
	Options
	store         store
	presence      *presence
	reaps         chan struct{}                  // a slot for each tree that is being ended
	leftProcesses func() ([]proc.Process, error) // all processes of an earlier steward's agents, read once for all lives
	hook          func(step string)

	mu    sync.Mutex
	cfg   Config
	rows  map[string]Row
	aside map[string]bool // set aside: configured, but not to be started or ended now
	lives map[string]*life
	wake  trigger // when rows may have changed
	wg    sync.WaitGroup

	unitsMu    sync.Mutex // guards unitsConn and unitsRetry
	unitsConn  *service.Units
	unitsRetry time.Time // when to retry a manager that could not be reached

	adopting sync.WaitGroup // lives that have not yet found out what an earlier steward has left
}

// life keeps one agent. Its own goroutine owns every field except wake, desired, idle, public and restarts.
type life struct {
	k     *Keeper
	row   Row
	rec   Record
	name  string
	log   string
	env   []string // without the life's mark
	path  string   // of the program; "" until found
	saved int      // the Intent that is on disk
	child *child   // nil: no process
	held  bool     // the operator held it at the last check

	wake    trigger // when desired has changed, or a check is due
	desired atomic.Pointer[desired]
	idle    atomic.Bool // waits for an external condition, and must be woken at each tick
	public  atomic.Pointer[status.Kept]

	restarts []chan struct{} // each is closed after a restart that an operator waits for; guarded by the keeper's mu
}

// desired is what the configuration wants of an agent.
type desired struct {
	row    Row
	wanted bool
}

// trigger wakes a goroutine; it holds at most one token.
type trigger chan struct{}

func newTrigger() trigger { return make(trigger, 1) }

func (t trigger) set() {
	select {
	case t <- struct{}{}:
	default:
	}
}

func (k *Keeper) config() Config {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.cfg
}

// logOf is the path of an agent's log.
func (k *Keeper) logOf(row Row) string { return LogFile(k.State, row.Project, row.Name) }

// LogFile is the path of the log of an agent, in a state folder.
func LogFile(state, project, agent string) string {
	return filepath.Join(state, Folder, Row{Project: project, Name: agent}.fileName()+".log")
}

// self is the identity of the keeper's process.
func self() proc.Identity {
	id, _ := proc.Inspect(os.Getpid())
	return id
}

// save writes the record. A failure is logged but not fatal: the marks in the processes still tell the next steward
// what runs.
func (l *life) save(lasting bool) {
	if err := l.k.store.save(l.row, &l.rec, lasting); err != nil {
		l.k.Log.Error("write the agent's record", "agent", l.name, "error", err)
		return
	}
	l.saved = l.rec.Intent
}

func (l *life) publish(state, why string) {
	kept := status.Kept{Project: l.row.Project, Agent: l.row.Name, Protocol: l.row.Protocol, State: state, Why: why,
		Lives: l.rec.Generation, Restarts: l.rec.History.Count, Since: l.rec.Since}
	if l.child != nil {
		kept.PID, kept.Since, kept.Place = l.rec.Process.PID, l.rec.Started, PlaceSession
		if l.rec.Unit != "" {
			kept.Place = PlaceService
		}
	}
	l.public.Store(&kept)
}

// resetHistory resets the history: the agent may start at once, with its full number of restarts.
func (l *life) resetHistory() {
	l.rec.State, l.rec.Since, l.rec.History, l.rec.NotBefore = active, time.Time{}, History{}, time.Time{}
}

// setIdle makes the keeper check this life at each tick from now on.
func (l *life) setIdle() {
	if !l.idle.Swap(true) {
		l.k.wake.set()
	}
}

// running announces that the agent runs.
func (l *life) running(how string) {
	l.publish("running", "")
	if l.rec.Process.PID > 0 {
		l.k.presence.started(l.row, l.rec.Process)
	}
	l.k.Log.Info("agent "+how, "agent", l.name, "pid", l.rec.Process.PID, "life", l.rec.Generation, "place", l.public.Load().Place)
}
