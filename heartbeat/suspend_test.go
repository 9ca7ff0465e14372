package heartbeat

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
)

// sleeper is one agent on a machine that sleeps repeatedly.
type sleeper struct {
	agent protocol.Agent
	every time.Duration // awake time between two beats
	next  time.Duration
	mute  bool
	m     Memory
	state protocol.AgentState
}

// machine runs sleepers in awake time; the wall clock is ahead of it by the time slept.
type machine struct {
	awake, slept time.Duration
	nextLook     time.Duration
	lastLook     time.Time
	resume       time.Time
	cfg          Config
	agents       []*sleeper
	beats        int
	// deaths counts live agents judged dead; naive counts those that the rule now − last_heartbeat > dead would judge
	// dead.
	deaths, naive int
	naiveDead     map[*sleeper]bool
}

func newMachine(random *rand.Rand) *machine {
	s := &machine{cfg: document(), naiveDead: map[*sleeper]bool{}}
	for i := range 8 {
		every := []time.Duration{15 * time.Second, 30 * time.Second}[i%2]
		if i == 7 {
			every = time.Minute
			s.cfg.Agents["slow"] = Limits{Dead: 3 * time.Minute}
		}
		name := map[bool]string{true: "slow", false: strconv.Itoa(i)}[i == 7]
		s.agents = append(s.agents, &sleeper{agent: protocol.Agent{Name: name}, every: every, next: time.Duration(random.Int64N(int64(every)))})
	}
	return s
}

func (s *machine) now() time.Time { return epoch.Add(s.awake + s.slept) }

func (s *machine) run(until time.Duration) {
	for {
		next, agent := s.nextLook, (*sleeper)(nil)
		for _, a := range s.agents {
			if !a.mute && a.next <= next {
				next, agent = a.next, a
			}
		}
		if next > until {
			s.awake = until
			return
		}
		s.awake = next
		if agent == nil {
			s.nextLook += s.look()
			continue
		}
		s.beats++
		agent.agent.Beat = protocol.Beat{Mark: strconv.Itoa(s.beats), At: s.now(), Touched: s.now()}
		agent.next += agent.every
	}
}

// look judges every agent and schedules the next scan: at the next Deadline, if that is before the next full scan.
func (s *machine) look() time.Duration {
	wait := lookEvery
	now := s.now()
	if Resumed(s.lastLook, now, lookEvery) {
		s.resume = now.Add(s.cfg.ResumeGrace)
	}
	s.lastLook = now
	for _, a := range s.agents {
		limits := s.cfg.For("agentstatus", a.agent.Name)
		var v Verdict
		v, a.m = Judge(Facts{Agent: a.agent}, a.m, Clock{Now: now, LookEvery: lookEvery, ResumeUntil: s.resume}, limits, s.cfg)
		if v.State == protocol.AgentDead && v.Changed && !a.mute {
			s.deaths++
		}
		naive := !a.agent.Beat.At.IsZero() && now.Sub(a.agent.Beat.At) > limits.Dead
		if naive && !s.naiveDead[a] && !a.mute {
			s.naive++
		}
		a.state, s.naiveDead[a] = v.State, naive
		if !v.Deadline.IsZero() {
			wait = min(wait, v.Deadline.Sub(now))
		}
	}
	return wait
}

// window is how long the machine stays awake: at night repeatedly for a moment, as closed laptops do.
func window(random *rand.Rand, n int) time.Duration {
	if n%20 < 10 {
		return time.Second + time.Duration(random.Int64N(int64(3*time.Second)))
	}
	return 20*time.Second + time.Duration(random.Int64N(int64(5*time.Minute)))
}

func nap(random *rand.Rand) time.Duration {
	if random.IntN(4) == 0 {
		return time.Second + time.Duration(random.Int64N(int64(2*time.Minute)))
	}
	return 2*time.Minute + time.Duration(random.Int64N(int64(10*time.Hour)))
}

// TestSuspends: 1,000 suspends make none of 8 live agents dead, although every overnight sleep is a death by the rule
// now − last_heartbeat > dead; and agents that really die in between are found in time.
func TestSuspends(t *testing.T) {
	random := rand.New(rand.NewPCG(20251022, 90))
	s := newMachine(random)
	for n := range 1000 {
		s.run(s.awake + window(random, n))
		s.slept += nap(random)
		s.nextLook = s.awake // worst case: a hint comes at once, so each awake moment has two scans
		if n%50 == 49 {
			s.run(s.awake + 2*time.Minute)
			s.expectDeathFound(t, s.agents[n/50%len(s.agents)])
		}
	}
	t.Logf("%v awake, %v asleep: %d false deaths; naively %d", s.awake, s.slept, s.deaths, s.naive)
	if s.deaths != 0 {
		t.Errorf("%d live agents were called dead", s.deaths)
	}
	if s.naive < 1000 {
		t.Errorf("the naive rule was wrong only %d times: this simulation proves nothing", s.naive)
	}
}

// expectDeathFound makes one agent die after a beat, and then come back.
func (s *machine) expectDeathFound(t *testing.T, a *sleeper) {
	t.Helper()
	limit := s.cfg.For("agentstatus", a.agent.Name).Dead
	s.run(a.next)
	died := s.awake
	a.mute = true
	s.run(died + limit)
	if a.state == protocol.AgentDead {
		t.Errorf("%s: called dead within %v", a.agent.Name, limit)
	}
	s.run(died + limit + lookEvery)
	if a.state == protocol.AgentDead {
		a.mute, a.next = false, s.awake
		s.run(s.awake + lookEvery)
		if a.state != protocol.AgentAlive {
			t.Errorf("%s: beats again and is %s", a.agent.Name, a.state)
		}
		return
	}
	t.Errorf("%s: dead for %v and called %s", a.agent.Name, limit+lookEvery, a.state)
	a.mute, a.next = false, s.awake
}
