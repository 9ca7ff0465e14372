package heartbeat

import (
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
	"pgregory.net/rapid"
)

// happenings are all possible events of an agent, as script lines of the transcripts.
var happenings = []string{
	"it beats", "it beats", "it beats", "it beats saying paused", "it beats saying active", "it beats saying error",
	"it beats naming a b", "it beats naming b c", "it beats naming nothing", "it beats stamped ahead 2h",
	"a heartbeat from 30s ago lies there", "a heartbeat from 3d ago lies there",
	"its heartbeat is touched", "its heartbeat vanishes", "its files move",
	"it registers", "it was registered 3d ago", "the registry says unknown",
	"process 42 starts", "process 42 recorded", "process 42 claimed", "process 42 exits", "process 42 stops", "process 42 continues",
	"process 43 starts", "process 43 recorded", "process 43 claimed", "process 43 exits",
	"its files vanish", "the operator holds it for testing", "the operator releases it",
	"the machine sleeps 14s", "the machine sleeps 8h", "the clock is set back 1h", "the clock is set forward 1h",
	"steward is away 1s", "steward is away 10m",
}

// life is a random sequence of events with the invariants that must hold in it.
type life struct {
	*stage
	t *rapid.T
	// silent is an upper bound of the awake silence, computed from beats alone.
	silent   time.Duration
	mark     string
	previous time.Time
}

func TestWhateverHappens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := life{stage: newStage(t), t: t}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			l.step()
		}
		l.expectDeadline()
	})
}

func (l *life) step() {
	l.elapsed += rapid.SampledFrom([]time.Duration{0, time.Second, lookEvery, lookEvery, 2 * lookEvery, 20 * time.Second}).Draw(l.t, "gap")
	event := ""
	if rapid.Bool().Draw(l.t, "happens") {
		event = rapid.SampledFrom(happenings).Draw(l.t, "event")
		if err := l.event(event); err != nil {
			l.t.Fatalf("%s: %v", event, err)
		}
	}
	before, wasFirst := l.m, l.previous.IsZero()
	if now := l.now(); !wasFirst {
		l.silent += min(max(0, now.Sub(l.previous)), 2*lookEvery)
	}
	l.previous = l.now()
	beat := l.agent.Beat.Mark != "" && l.agent.Beat.Mark != l.mark
	if beat {
		l.silent, l.mark = 0, l.agent.Beat.Mark
	}
	l.look()
	l.expectSilence(before)
	l.expectProof(before)
	if beat && l.agent.Beat.At.Equal(l.now()) {
		l.expectRevived(before)
	}
}

// expectSilence: no agent is dead by silence within the limit, and the silence is never overstated.
func (l *life) expectSilence(before Memory) {
	limits := l.cfg.For(l.protocol, l.agent.Name)
	if l.m.Silent < 0 || l.m.Mark != "" && !l.m.Stale && l.m.Silent > l.silent {
		l.t.Fatalf("silent %v, at most %v were watched", l.m.Silent, l.silent)
	}
	if dead := l.v.State == protocol.AgentDead; dead && !l.v.Proof {
		if l.m.Silent <= limits.Dead {
			l.t.Fatalf("dead by silence after %v", l.m.Silent)
		}
		if before.State != protocol.AgentDead && l.now().Before(l.resume) {
			l.t.Fatalf("dead by silence within the grace of a resume")
		}
	}
	if l.v.Changed != (before.State != l.m.State) {
		l.t.Fatalf("changed %v, but %s became %s", l.v.Changed, before.State, l.m.State)
	}
	if l.m.Covered < 0 || l.m.Covered > l.m.Observed {
		l.t.Fatalf("covered %v of %v", l.m.Covered, l.m.Observed)
	}
}

// expectProof: no agent is dead while its recorded process lives; proof comes only from the agent's own process.
func (l *life) expectProof(before Memory) {
	p, recorded := l.processes[l.agent.Process.PID], l.agent.Process.Proves()
	lives := recorded && p.start == l.agent.Process.Start && p.state == ProcessAlive
	if l.v.State != protocol.AgentDead {
		if l.v.Proof {
			l.t.Fatalf("proof of death of an agent that is %s", l.v.State)
		}
		return
	}
	if lives {
		l.t.Fatalf("dead, but its recorded process lives: %s", said(l.v.Cause))
	}
	if l.v.Proof && !recorded && before.Proven != l.m.Proven {
		l.t.Fatalf("proof by a process that was not proven before: %+v", l.m.Proven)
	}
}

// expectRevived: after a beat the agent is not dead, unless its process is found gone for the first time.
func (l *life) expectRevived(before Memory) {
	news := l.v.Proof && before.Process != ProcessGone || l.v.Proof && before.Proven != l.m.Proven
	if l.v.State == protocol.AgentDead && !news {
		l.t.Fatalf("it beats and is dead: %s", said(l.v.Cause))
	}
	if l.v.State == protocol.AgentUnknown || l.v.State == protocol.AgentLate {
		l.t.Fatalf("it beats and is %s: %s", l.v.State, said(l.v.Cause))
	}
}

// expectDeadline: without further events the State lasts until its Deadline and changes then.
func (l *life) expectDeadline() {
	state, deadline := l.v.State, l.v.Deadline
	if !deadline.IsZero() && !deadline.After(l.now()) {
		l.t.Fatalf("deadline %v is not after %v", deadline, l.now())
	}
	for range 60 {
		wait := lookEvery
		if left := deadline.Sub(l.now()); !deadline.IsZero() && left < wait {
			wait = left
		}
		l.elapsed += wait
		l.look()
		due := l.now().Equal(deadline)
		if due == (l.v.State == state) {
			l.t.Fatalf("%s at %v with deadline %v: %s, %s", state, l.now(), deadline, l.v.State, said(l.v.Cause))
		}
		if due {
			return
		}
	}
	if !deadline.IsZero() {
		l.t.Fatalf("deadline %v is too far away from %v", deadline, l.now())
	}
}

// TestSameFactsSameVerdict: the verdict depends on the arguments only.
func TestSameFactsSameVerdict(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := newStage(t), newStage(t)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			gap := time.Duration(rapid.IntRange(0, 30).Draw(t, "gap")) * time.Second
			event := rapid.SampledFrom(happenings).Draw(t, "event")
			for _, s := range []*stage{a, b} {
				s.elapsed += gap
				if err := s.event(event); err != nil {
					t.Fatalf("%s: %v", event, err)
				}
				s.look()
			}
			if a.v != b.v {
				t.Fatalf("%+v\n%+v", a.v, b.v)
			}
		}
	})
}
