package supervisor_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
)

// TestSimulatedMonth is a month of everyday traffic: what steward remembers and plans on the last days is no more than on
// the third.
func TestSimulatedMonth(t *testing.T) {
	t.Parallel()
	days := 9
	if os.Getenv("STEWARD_LONG") == "1" {
		days = 30
	}
	m := newMonth()
	defer func() {
		if why, broke := recover().(lost); broke {
			t.Fatal(why.why)
		}
	}()
	var early, late [2]int
	for day := 1; day <= days; day++ {
		memory, plan := m.day(day)
		t.Logf("day %2d: %d bytes of memory, %d of plans; %d decisions, %d changes, %d incidents, %d tasks listed", day, memory, plan,
			m.brain.decided, m.brain.changes, len(m.brain.heads), m.brain.memory.Tasks.Len())
		switch {
		case day >= 2 && day <= 4:
			early = [2]int{max(early[0], memory), max(early[1], plan)}
		case day > days-3:
			late = [2]int{max(late[0], memory), max(late[1], plan)}
		}
	}
	for i, what := range []string{"the memory", "a plan"} {
		if float64(late[i]) > 1.3*float64(early[i])+2000 {
			t.Errorf("%s grew from %d bytes around day 3 to %d at day %d", what, early[i], late[i], days)
		}
	}
}

// newMonth makes three projects with three agents each.
func newMonth() *simulation {
	m := newSimulation(1)
	m.kind, m.sites, m.events = monthly, nil, nil
	m.chance = rand.New(rand.NewPCG(30, 30))
	m.cfg = settings()
	m.cfg.LookEvery, m.cfg.Capacity.SampleEvery, m.cfg.Capacity.SampleNear = 5*time.Minute, 5*time.Second, 5*time.Second
	m.cfg.Tasks.History = 20 * time.Minute
	m.cfg.Heartbeat.Late, m.cfg.Heartbeat.Dead, m.cfg.Capacity.DiskLimit = 15*time.Minute, 30*time.Minute, 0.95
	m.machine.cores = 16
	for i := range 3 {
		s := &site{name: fmt.Sprintf("p%d", i+1), files: newFolder()}
		s.files.step = func() error { return m.step(s) }
		m.sites = append(m.sites, s)
	}
	m.brain.start()
	for i := range 9 {
		m.engage(m.sites[i%3])
	}
	m.traffic()
	m.mishaps()
	return m
}

// engage hires an agent of a name that was never there before, for about a day.
func (m *simulation) engage(s *site) {
	m.seq++
	a := m.hire(s, fmt.Sprintf("session-%d", m.seq))
	a.every, a.poll = m.between(5*time.Minute, 10*time.Minute), m.between(time.Minute, 2*time.Minute)
	m.after(m.between(12*time.Hour, 36*time.Hour), func() {
		for _, p := range a.procs {
			p.die()
		}
		m.engage(s)
		m.after(time.Hour, func() { // its files are cleared away
			s.actors = slices.DeleteFunc(s.actors, func(x *actor) bool { return x == a })
			s.files.sims = slices.DeleteFunc(s.files.sims, func(x *sim) bool { return x == a.rec })
		})
	})
}

// traffic asks for six tasks an hour, for as long as the month lasts.
func (m *simulation) traffic() {
	m.after(m.between(2*time.Minute, 18*time.Minute), m.traffic)
	s := pick(m, m.sites)
	m.submit(s, pick(m, s.actors), fmt.Sprintf("t%06d", m.seq))
}

// mishaps lets an agent die, a disk fill up or steward start anew every few hours.
func (m *simulation) mishaps() {
	m.after(m.between(time.Hour, 5*time.Hour), m.mishaps)
	s := pick(m, m.sites)
	switch a := pick(m, s.actors); m.chance.IntN(5) {
	case 0:
		m.kills(a, pick(m, a.procs))
	case 1:
		m.brain.kill("from outside")
	case 2:
		m.locks(s, a)
	case 3:
		m.forAWhile(time.Minute, 10*time.Minute, func(on bool) { s.full = on })
	default:
		m.forAWhile(time.Minute, 20*time.Minute, func(on bool) {
			m.machine.accrue()
			m.machine.foreign = map[bool]float64{true: m.machine.cores}[on]
		})
	}
}

// day plays one day and gives the most that the memory and a plan came to, in bytes.
func (m *simulation) day(n int) (memory, plan int) {
	for m.awake < time.Duration(n)*24*time.Hour {
		m.run(time.Hour)
		m.tidy()
		if m.chance.IntN(6) == 0 {
			m.settle()
		}
		kept := m.brain.memory
		kept.Gate.Learnt = nil // it has a bound of its own, in kinds
		memory = max(memory, len(encoded(m, kept)))
		plan = max(plan, len(encoded(m, m.brain.plan)))
	}
	return memory, plan
}

// tidy clears away what ended two hours ago, as agents do, and what nobody asks for any more.
func (m *simulation) tidy() {
	now := m.now()
	for _, s := range m.sites {
		s.files.order = slices.DeleteFunc(s.files.order, func(id string) bool {
			c := s.files.cards[id]
			gone := c.result != nil && !c.held && now.Sub(c.result.Appeared) > 2*time.Hour || now.Sub(c.task.Created) > 24*time.Hour
			if gone {
				delete(s.files.cards, id)
				delete(m.brain.jobs, c)
				delete(m.jobs, subjectOf(s, protocol.KindTask, id))
			}
			return gone
		})
		s.files.applied = nil
		for _, a := range s.actors {
			a.procs = slices.DeleteFunc(a.procs, func(p *proc) bool { return !p.alive && len(a.procs) > 4 && p != a.procs[len(a.procs)-1] })
		}
	}
	m.works = slices.DeleteFunc(m.works, func(w *attempt) bool { return !w.lives() })
}

// settle is the human's round: every incident is settled, and the ledger drops what was.
func (m *simulation) settle() {
	b := m.brain
	next := maps.Clone(b.heads)
	for key, h := range b.heads {
		if h.State == rules.Resolved {
			delete(next, key)
			continue
		}
		h.State, h.ResolvedBy = rules.Resolved, rules.ByOperator
		next[key] = h
	}
	b.heads = next
}
