package supervisor_test

import (
	"container/heap"
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor/decide"
)

// simulation is a machine, its projects, their agents and steward, all of it moved by one seed. Nothing in it asks the
// real clock, starts a goroutine, or goes through a map in the map's own order.
type simulation struct {
	seed   uint64
	kind   kind
	chance *rand.Rand
	cfg    decide.Config

	// awake is how long the machine has been awake; offset is what sleeps and steps of its clock add to that.
	awake, offset time.Duration
	back          bool          // its clock was set back at least once
	set           bool          // or stepped at all, back or forth
	stepped       time.Duration // when that was
	events        agenda
	seq           int
	words         map[string]bool // that a person gave, where steward asks; nil: it acts
	quiet         bool            // nothing new happens any more
	promises      promises
	resume        resume
	strict        bool // the gate is held to what was promised, besides to what the gauges show

	sites   []*site
	machine machine
	brain   *brain
	pids    int
	works   []*attempt
	jobs    map[protocol.Subject]*job

	log    strings.Builder
	broken string // the law that broke first
}

// kind is what sort of world a seed makes.
type kind int

const (
	mixed   kind = iota // all sorts of faults
	calm                // none, so that exact figures can be asked for
	herded              // a burst of tasks of one core each, without faults
	monthly             // a long time of everyday work, without a transcript
)

// event is something that happens at a time of the awake clock.
type event struct {
	at  time.Duration
	seq int
	do  func()
}

// agenda orders the events; of two at one time the one that was entered first comes first.
type agenda []event

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	return a[i].at < a[j].at || a[i].at == a[j].at && a[i].seq < a[j].seq
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)   { *a = append(*a, x.(event)) }
func (a *agenda) Pop() any {
	old := *a
	e := old[len(old)-1]
	*a = old[:len(old)-1]
	return e
}

// site is one project: its files, and who works there.
type site struct {
	name   string
	files  *folder
	actors []*actor
	gone   bool // its folder is not there
	full   bool // its disk is
	slow   time.Duration
	proves bool        // its adapter proves that nobody works on a task any more
	paid   []time.Time // when the rules' retries were made
}

// now is what the machine's clock says.
func (m *simulation) now() time.Time { return midnight.Add(m.awake + m.offset) }

// after enters an event.
func (m *simulation) after(d time.Duration, do func()) {
	m.seq++
	heap.Push(&m.events, event{m.awake + max(d, 0), m.seq, do})
}

// run lets the world go on for so long.
func (m *simulation) run(d time.Duration) {
	for end := m.awake + d; ; {
		next, tick := end, m.brain.next()
		if len(m.events) > 0 && m.events[0].at < next {
			next = m.events[0].at
		}
		if tick < next {
			m.awake = max(m.awake, tick)
			m.brain.tick()
			continue
		}
		if next == end {
			m.awake = end
			return
		}
		e := heap.Pop(&m.events).(event)
		m.awake = max(m.awake, e.at)
		e.do()
	}
}

// lost stops a seed whose world broke a law.
type lost struct{ why string }

// Fatalf ends the seed: the first law that breaks says most.
func (m *simulation) Fatalf(format string, args ...any) {
	panic(lost{fmt.Sprintf("at %s: ", m.moment()) + fmt.Sprintf(format, args...)})
}

// Helper makes the simulation a fataler.
func (m *simulation) Helper() {}

func (m *simulation) moment() string {
	return fmt.Sprintf("%8.3f s (%s)", m.awake.Seconds(), m.now().Format("15:04:05.000"))
}

// note writes a line of the transcript.
func (m *simulation) note(format string, args ...any) {
	if m.kind == monthly {
		return
	}
	fmt.Fprintf(&m.log, m.moment()+" "+format+"\n", args...)
}

// sum is the transcript in one number.
func (m *simulation) sum() uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(m.log.String()))
	return h.Sum64()
}

// between draws a duration, in whole milliseconds.
func (m *simulation) between(from, to time.Duration) time.Duration {
	return from + time.Duration(m.chance.Int64N(int64((to-from)/time.Millisecond)+1))*time.Millisecond
}

// odds is true in so many of a hundred cases.
func (m *simulation) odds(percent int) bool { return m.chance.IntN(100) < percent }

// pick draws one of a list.
func pick[T any](m *simulation, list []T) T { return list[m.chance.IntN(len(list))] }

// identity makes up a process.
func (m *simulation) identity() protocol.Identity {
	m.pids++
	return protocol.Identity{PID: 1000 + m.pids, Start: uint64(100 + m.pids), Boot: "boot"}
}

// newSimulation makes the world of a seed.
func newSimulation(seed uint64) *simulation {
	m := &simulation{seed: seed, chance: rand.New(rand.NewPCG(seed, 7)), cfg: settings(), jobs: map[protocol.Subject]*job{}}
	switch {
	case seed%8 == 3:
		m.kind = herded
	case seed%8 == 6:
		m.kind = calm
	}
	m.cfg.Capacity.SampleNear, m.cfg.Capacity.DiskLimit = time.Second, 0.95
	m.promises.hold, m.promises.open = map[*card]map[int]struct{}{}, map[*card]int{}
	if seed%4 == 1 { // else no world is long enough for it
		m.cfg.Capacity.AlarmAfter, m.cfg.Capacity.StarveAfter = time.Minute, 2*time.Minute
	}
	m.cfg.Tasks.RetriesPerHour = pick(m, []int{8, 20, 60})
	m.cfg.Tasks.History = pick(m, []time.Duration{10 * time.Minute, 10 * time.Minute, time.Hour})
	m.strict = gateByClaims || os.Getenv("STEWARD_SIM_GATE") != ""
	m.machine = newMachine(m)
	m.brain = newBrain(m)
	projects := 1 + m.chance.IntN(4)
	if m.kind == herded {
		projects = 1 + m.chance.IntN(2)
	}
	for i := range projects {
		s := &site{name: fmt.Sprintf("p%d", i+1), files: newFolder(), proves: m.odds(50)}
		s.files.step = func() error { return m.step(s) }
		m.sites = append(m.sites, s)
	}
	for i := range m.crowd() {
		s := m.sites[i%len(m.sites)]
		m.hire(s, fmt.Sprintf("a%d", i+1))
	}
	return m
}

// crowd is how many agents there are.
func (m *simulation) crowd() int {
	if m.kind == herded {
		return min(12, 2*int(m.machine.cores)+m.chance.IntN(3))
	}
	return 2 + m.chance.IntN(1+m.chance.IntN(11))
}

// machine is what the gauges read: what runs, and what others do on it.
type machine struct {
	m       *simulation
	cores   float64
	memory  uint64 // bytes
	foreign float64
	strange uint64  // bytes that others use
	running float64 // cores that the agents' work asks for
	held    uint64  // bytes that it has
	noise   float64

	busy    float64 // core-seconds since the last sample
	counted time.Duration
	sampled time.Duration
	ended   time.Duration // when work last ended
	before  float64       // foreign, as last sampled
	other   uint64        // strange, as last sampled
	blind   bool          // no gauge can be read
}

func newMachine(m *simulation) machine {
	x := machine{m: m, cores: float64(pick(m, []int{2, 4, 8, 16})), memory: 32 << 30, noise: 0.01}
	x.strange = 4 << 30
	if m.kind != mixed {
		x.noise = 0
	}
	if m.kind == herded {
		x.cores = float64(pick(m, []int{2, 4, 8}))
	}
	return x
}

// accrue adds up what was used since the last change.
func (x *machine) accrue() {
	x.busy += min(x.running+x.foreign, x.cores) * (x.m.awake - x.counted).Seconds()
	x.counted = x.m.awake
}

// load lets work begin (sign 1) or end (-1).
func (x *machine) load(w *attempt, sign int) {
	x.accrue()
	x.running = max(0, x.running+float64(sign)*w.cores)
	if sign < 0 {
		x.ended = x.m.awake
	}
	x.held += uint64(sign) * w.memory
}

// sample reads the gauges.
func (x *machine) sample(now time.Time) capacity.Load {
	x.accrue()
	used, window := x.running+x.foreign, x.m.awake-x.sampled
	if window > 0 {
		used = x.busy / window.Seconds()
	}
	x.busy, x.sampled, x.before, x.other = 0, x.m.awake, x.foreign, x.strange
	if x.blind {
		return capacity.Load{At: now}
	}
	wobble := (2*x.m.chance.Float64() - 1) * x.noise
	ask := x.running + x.foreign
	return capacity.Load{
		CPU:    protocol.Used(min(1, max(0, used/x.cores+wobble))),
		Memory: protocol.Used(min(1, float64(x.strange+x.held)/float64(x.memory))),
		Files:  protocol.Used(0.1), Disk: protocol.Used(0.5), At: now, Window: window,
		Stalled: protocol.Used(max(0, ask-x.cores) / max(ask, 1)), Cores: x.cores, MemoryTotal: x.memory,
	}
}

// look is what a project's files say.
func (m *simulation) look(s *site, look protocol.ScanOrder) protocol.Snapshot {
	m.names(s)
	snap := s.files.Observe(context.Background(), look)
	seenAt(snap.Agents, m.now())
	kept := snap.Tasks[:0]
	for _, t := range snap.Tasks {
		if o := t.Outcome; o != nil && t.Hold == nil && t.Late == nil && o.Appeared.Before(look.Since) {
			continue // history; a later result keeps a task on the list, as in the adapters
		}
		t.Claim = claimOf(s.files.cards[t.ID])
		kept = append(kept, t)
	}
	snap.Tasks = kept
	m.prove(s, kept)
	return snap
}

// names enters which tasks the agents' heartbeats name.
func (m *simulation) names(s *site) {
	for _, a := range s.actors {
		if a.style != lister {
			continue
		}
		for _, id := range s.files.order {
			c := s.files.cards[id]
			if c.task.Agent != a.name {
				continue
			}
			c.named = ""
			for _, listed := range a.rec.agent.Tasks {
				if listed == id && c.open && c.result == nil {
					c.named = "active_tasks"
				}
			}
		}
	}
}

func claimOf(c *card) string {
	if c == nil || len(c.workers) == 0 {
		return ""
	}
	return fmt.Sprint(c.workers)
}

// process returns the state of a process.
func (m *simulation) process(id protocol.Identity) heartbeat.ProcessState {
	for _, s := range m.sites {
		for _, a := range s.actors {
			for _, p := range a.procs {
				if p.id != id {
					continue
				}
				switch {
				case !p.alive:
					return heartbeat.ProcessGone
				case p.stopped:
					return heartbeat.ProcessStopped
				}
				return heartbeat.ProcessAlive
			}
		}
	}
	return heartbeat.ProcessGone
}

// inspect gives the process that carries a pid.
func (m *simulation) inspect(pid int) protocol.Identity {
	for _, s := range m.sites {
		for _, a := range s.actors {
			for _, p := range a.procs {
				if p.id.PID == pid && p.alive {
					return p.id
				}
			}
		}
	}
	return protocol.Identity{PID: pid}
}

// usage is what the scan of processes says of those that are asked for.
func (m *simulation) usage(now time.Time) []capacity.Usage {
	var list []capacity.Usage
	for _, s := range m.sites {
		for _, a := range s.actors {
			for _, p := range a.procs {
				if !p.alive {
					continue
				}
				u := capacity.Usage{Identity: p.id, At: now, CPU: p.spent(m.awake), Memory: 50 << 20, Processes: 1 + len(p.works), Tree: fmt.Sprint(len(p.works))}
				for _, w := range p.works {
					if p.moves() {
						u.Cores += w.cores
					}
					u.Memory += w.memory
				}
				u.Written = uint64(u.CPU)
				list = append(list, u)
			}
		}
	}
	return list
}
