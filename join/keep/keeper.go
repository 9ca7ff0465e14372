package keep

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/platform/service"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// Where agents live.
const (
	PlaceAuto    = "auto"    // a service where steward itself is one and the manager can be reached, else a session
	PlaceService = "service" // a transient service each, of systemd
	PlaceSession = "session" // a session each
)

// Doors are the keeper's ways to the world. All may be called from several goroutines.
type Deps struct {
	// Enroll says in the project's files that a process speaks for the agent.
	Enroll func(ctx context.Context, row Row, id protocol.Identity) error
	// Leave says there that it is over; failed with the reason why.
	Leave func(ctx context.Context, row Row, id protocol.Identity, e Ending, failed bool, why string) error
	// Admit asks the capacity gate; a no comes with the reason and when to ask again. It must not block.
	Admit func(row Row) (ok bool, why string, again time.Duration)
	// Held reports whether the operator holds the agent: then it is not started.
	Held func(row Row) bool
	// Failed calls the human, once for each life that was the last one; Again reports whether the answer, since then, is
	// to start it again.
	Failed func(row Row, why string, life int) error
	Again  func(row Row, since time.Time) bool
	// Recovered ends that call.
	Recovered func(row Row)
}

// Options are what a keeper is made with.
type Options struct {
	// State is the state folder's path, absolute. Whoever runs a keeper in it holds a lock that is opened there with
	// close-on-exec (platform.Lock), from before Run to the end of the process. It does more than to keep a second keeper
	// away: a child that a killed one leaves between fork and exec shares the lock, and bears no mark by which it could be
	// found. With the lock comes the knowledge that all of them run their programs, or are gone.
	State string
	Root  *jsonfile.Root // the same, open
	Doors Deps
	Now   func() time.Time
	Log   *slog.Logger
	// OpenUnits reaches the manager that starts services, once it is needed; nil: there is none, and all live in sessions.
	OpenUnits func(context.Context) (*service.Units, error)
	// Managed: steward is a service itself, so PlaceAuto makes services of the agents.
	Managed bool
	// Environ is what the agents inherit.
	Environ []string
}

// Keeper starts the configured agents and keeps them. Stopping it leaves them running, for the next one to adopt.
type Keeper struct {
	Options
	store    store
	presence *presence
	reaps    chan struct{}                  // a slot for each tree that may be ended at a time
	sweep    func() ([]proc.Process, error) // all processes of an earlier steward's agents: one look serves all lives
	hook     func(step string)

	mu    sync.Mutex
	cfg   Config
	rows  map[string]Row
	spare map[string]bool // configured, but nobody's to start or to end now
	lives map[string]*life
	news  chan struct{} // one token when rows may have changed
	hands sync.WaitGroup

	manager sync.Mutex // guards the next two
	reached *service.Units
	unitsAt time.Time // when a manager that could not be reached is looked for again

	settling sync.WaitGroup // lives that do not know yet what an earlier steward has left of them
}

// New makes a keeper. Nothing is started yet, and nothing looked at.
func New(o Options) *Keeper {
	k := &Keeper{Options: o, store: store{o.Root}, reaps: make(chan struct{}, 2), hook: func(string) {},
		rows: map[string]Row{}, spare: map[string]bool{}, lives: map[string]*life{}, news: make(chan struct{}, 1)}
	k.presence = newPresence(o.Doors, o.Log)
	k.sweep = sync.OnceValues(func() ([]proc.Process, error) { return proc.Marked(envHouse, house(k.State)) })
	return k
}

// Set puts settings and rows in force. Agents whose row is gone are ended, those whose command has changed are ended and
// started anew. Rows that are set aside are neither started nor ended.
func (k *Keeper) Set(cfg Config, rows, aside []Row) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cfg = cfg
	clear(k.rows)
	clear(k.spare)
	for _, r := range rows {
		k.rows[r.id()] = r
	}
	for _, r := range aside {
		k.spare[r.id()] = true
	}
	k.again()
}

// How often lives that wait for somebody are asked about; and while there are none, how often the logs are looked at.
const (
	tick     = time.Second
	logsTick = 5 * time.Second
)

// pace is the time until the next look.
func (k *Keeper) pace() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, l := range k.lives {
		if l.idle.Load() {
			return tick
		}
	}
	return logsTick
}

// Run keeps the agents until ctx ends, and then leaves them alone.
func (k *Keeper) Run(ctx context.Context) error {
	if len(k.store.all()) > 0 || len(k.configured()) > 0 {
		if err := k.Root.MkdirAll(Folder, 0o700); err != nil {
			return err
		}
	}
	defer k.closeUnits()
	begun := k.Now()
	if k.hire(ctx) {
		k.hands.Go(func() {
			k.settling.Wait()
			k.Log.Info("agents looked at", "agents", len(k.List()), "took", k.Now().Sub(begun))
		})
	}
	k.hands.Go(func() {
		k.settling.Wait() // what waits for disks must not slow down the adoption
		k.presence.run(ctx)
	})
	defer k.hands.Wait()
	beat := time.NewTimer(tick)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-k.news:
			if k.hire(ctx) {
				beat.Reset(k.pace())
			} else {
				beat.Stop() // nobody to look after: sleep until the configuration changes
			}
		case <-beat.C:
			k.look()
			beat.Reset(k.pace())
		}
	}
}

func (k *Keeper) configured() map[string]Row {
	k.mu.Lock()
	defer k.mu.Unlock()
	return maps.Clone(k.rows)
}

// hire has a life for every row, and for every record whose row is gone; it tells the lives there are what is wanted now.
func (k *Keeper) hire(ctx context.Context) (any bool) {
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
		l.want(row, wanted)
		delete(gone, key)
	}
	for _, key := range slices.Sorted(maps.Keys(rows)) {
		if k.lives[key] == nil {
			k.begin(ctx, rows[key], records[key], true)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(gone)) {
		if !k.spare[key] {
			k.begin(ctx, gone[key].row(), gone[key], false)
		}
	}
	return len(k.lives) > 0
}

// begin starts looking after one agent. The caller holds mu.
func (k *Keeper) begin(ctx context.Context, row Row, r *Record, wanted bool) {
	l := newLife(k, row, r)
	l.want(row, wanted)
	k.lives[row.id()] = l
	k.settling.Add(1)
	k.hands.Go(func() {
		l.settle(ctx)
		k.settling.Done()
		l.run(ctx)
		k.mu.Lock()
		delete(k.lives, row.id())
		k.mu.Unlock()
		if ctx.Err() == nil {
			k.again()
		}
	})
}

// again has the rows gone through once more: one may have come back while its agent was being ended.
func (k *Keeper) again() {
	select {
	case k.news <- struct{}{}:
	default:
	}
}

// look keeps the logs in bounds, and wakes the lives that wait for somebody.
func (k *Keeper) look() {
	k.mu.Lock()
	lives := slices.Collect(maps.Values(k.lives))
	k.mu.Unlock()
	for _, l := range lives {
		if err := trimLog(l.log); err != nil {
			k.Log.Error("cut the agent's log", "agent", l.name, "error", err)
		}
		if l.idle.Load() {
			l.poke()
		}
	}
}

func (k *Keeper) config() Config {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.cfg
}

// Kept is what the keeper knows of one agent, for the operator.
type Kept struct {
	Project  string    `json:"project"`
	Agent    string    `json:"agent"`
	State    string    `json:"state"` // running, waiting, held, rested, failed, ending
	PID      int       `json:"pid,omitempty"`
	Place    string    `json:"place,omitempty"`
	Lives    int       `json:"lives"`    // begun since the record was made
	Restarts int       `json:"restarts"` // in a row
	Since    time.Time `json:"since,omitzero"`
	Why      string    `json:"why,omitempty"`
}

// List tells of all agents, by folder and name.
func (k *Keeper) List() []Kept {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := make([]Kept, 0, len(k.lives))
	for _, key := range slices.Sorted(maps.Keys(k.lives)) {
		all = append(all, *k.lives[key].public.Load())
	}
	return all
}

// ErrNotKept: the keeper starts no such agent.
var ErrNotKept = errors.New("the keeper starts no such agent")

// Restart ends an agent and starts it anew, with all its restarts before it. It returns once the next life began, or waits
// for the operator or the capacity gate, and tells which.
func (k *Keeper) Restart(ctx context.Context, project, agent string) (Kept, error) {
	done := make(chan struct{})
	l := k.ask(project, agent, done)
	if l == nil {
		return Kept{}, ErrNotKept
	}
	l.poke()
	select {
	case <-done:
		return *l.public.Load(), nil
	case <-ctx.Done():
		return Kept{}, ctx.Err()
	}
}

// ask enters the wish for a restart; nil without such an agent.
func (k *Keeper) ask(project, agent string, done chan struct{}) *life {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, l := range k.lives {
		if shown := l.public.Load(); shown.Project == project && shown.Agent == agent && l.wish.Load().wanted {
			l.restarts = append(l.restarts, done)
			return l
		}
	}
	return nil
}

// restarts reports whether an operator waits for a restart of the agent.
func (k *Keeper) restarts(l *life) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(l.restarts) > 0
}

// logOf is where an agent's words go.
func (k *Keeper) logOf(row Row) string { return filepath.Join(k.State, Folder, row.fileName()+".log") }

// self is the keeper's own process.
func self() proc.Identity {
	id, _ := proc.Inspect(os.Getpid())
	return id
}
