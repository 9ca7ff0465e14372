package heartbeat

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
	"pgregory.net/rapid"
)

// movements are events in which the agent moves; rests are all other events.
var (
	movements = []string{"it beats", "its files move", "it registers", "process 42 works 2s", "process 42 forks", "process 42 writes"}
	rests     = []string{
		"process 42 is seen", "process 42 is seen", "process 42 is out of sight", "process 42 stops", "process 42 continues",
		"a task of 10s is in flight", "a task of 60s is in flight", "no task is in flight", "steward beats for it",
		"the operator holds it for testing", "the operator releases it",
		"the machine sleeps 14s", "the machine sleeps 8h", "the clock is set back 1h", "the clock is set forward 1h",
		"steward is away 1s", "steward is away 10m", "steward doubts itself 1", "steward doubts itself 0",
	}
)

// TestWhoMovesNeverHangs: whatever happens, and however the machine sleeps, an agent is hung only when nothing of it
// has moved for the allowed awake time, and only while its activity is known.
func TestWhoMovesNeverHangs(t *testing.T) {
	hung := 0 // scans
	rapid.Check(t, func(t *rapid.T) {
		s := newStage(t)
		s.cfg.Late, s.cfg.Dead, s.cfg.Hung = 10*time.Second, 20*time.Second, 40*time.Second
		for _, line := range []string{"process 42 starts", "process 42 is seen", "process 42 recorded", "it beats"} {
			if err := s.event(line); err != nil {
				t.Fatal(err)
			}
		}
		var moved time.Duration // the time of the last movement, in awake time
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			gap := rapid.SampledFrom([]time.Duration{0, time.Second, lookEvery, 2 * lookEvery, 20 * time.Second}).Draw(t, "gap")
			for range rapid.SampledFrom([]int{1, 1, 2, 10}).Draw(t, "looks") {
				s.elapsed += gap
				s.look()
				s.expectHanging(moved)
				if s.v.State == protocol.AgentHung {
					hung++
				}
			}
			event := rapid.SampledFrom(slices.Concat(movements, rests, rests, rests)).Draw(t, "event")
			if event == "steward beats for it" {
				s.keep()
			} else if err := s.event(event); err != nil {
				t.Fatalf("%s: %v", event, err)
			}
			unseen := strings.HasPrefix(event, "process") && !s.processes[42].did.Known
			if slices.Contains(movements, event) && !unseen {
				moved = s.elapsed
			}
			s.look()
			s.expectHanging(moved)
		}
		(&life{stage: s, t: t}).expectDeadline()
	})
	if hung == 0 {
		t.Error("nobody ever hung: this test proves nothing")
	}
}

// expectHanging checks what must be true of an agent judged hung; moved is when it moved last.
func (s *stage) expectHanging(moved time.Duration) {
	s.t.Helper()
	if s.v.State != protocol.AgentHung {
		return
	}
	most := s.cfg.Hung
	if s.task > 0 {
		most = s.task
	}
	p := s.processes[42]
	switch {
	case s.elapsed-moved <= most:
		s.t.Fatalf("hung, and it moved %v ago: %s", s.elapsed-moved, said(s.v.Cause))
	case s.agent.Held != "" || p.state != ProcessAlive:
		s.t.Fatalf("hung, and held %q, its process %s", s.agent.Held, p.state)
	case s.agent.Kept && s.task == 0:
		s.t.Fatalf("hung, and it may wait for its human")
	case !s.m.Pace.Seen || s.m.Pace.Blind > blindMost:
		s.t.Fatalf("hung, and nobody can see it: %+v", s.m.Pace)
	}
}

// TestSleepsNeverHang: a machine that sleeps again and again does not make an agent hung before the awake limit, and
// does after it.
func TestSleepsNeverHang(t *testing.T) {
	for _, nap := range []string{"14s", "2m", "8h"} {
		s := newStage(t)
		s.play("at 00:00 process 42 starts; process 42 is seen; process 42 recorded; it beats")
		for range 100 { // 40 s awake, of which ten count: the others are in the grace
			s.run(s.elapsed + 40*time.Second)
			if err := s.event("the machine sleeps " + nap); err != nil {
				t.Fatal(err)
			}
			s.look()
			if s.v.State == protocol.AgentHung && s.elapsed < 10*time.Minute {
				t.Fatalf("naps of %s: hung after %v awake", nap, s.elapsed)
			}
		}
		if s.v.State != protocol.AgentHung {
			t.Errorf("naps of %s: %s after %v awake, still for %v", nap, s.v.State, s.elapsed, s.m.Still)
		}
	}
}

// TestGapsAreItsOwn: the gaps between beats are those of the agent's own beats, not of beats by steward, and a
// registration or a pause does not shorten them.
func TestGapsAreItsOwn(t *testing.T) {
	for name, tc := range map[string]struct {
		script string
		beats  int
		last   time.Duration
	}{
		"its own":                     {"at 00:00 it beats\nat 00:30 it beats\nat 01:15 it beats", 2, 45 * time.Second},
		"the first has none":          {"at 00:00 it registers\nat 00:10 it beats", 1, 0},
		"steward's do not count":      {"at 00:00 steward beats for it every 25s\nat 10:00 expect alive", 0, 0},
		"nor the gap that they cut":   {"at 00:00 it beats\nat 00:30 it beats\nat 01:00 steward beats for it every 999s\nat 01:10 it beats", 1, 0},
		"nor that from a registering": {"at 00:00 it beats\nat 00:30 it beats\nat 02:00 it registers\nat 02:05 it beats", 1, 0},
		"nor that from a pause": {"at 00:00 it beats\nat 00:30 it beats\nat 00:40 the operator holds it for testing\n" +
			"at 05:00 the operator releases it\nat 05:10 it beats", 1, 0},
	} {
		s := newStage(t)
		s.play(tc.script)
		if s.m.Beats != tc.beats || tc.beats > 1 && s.m.LastGap != tc.last {
			t.Errorf("%s: %d beats, the last gap %v", name, s.m.Beats, s.m.LastGap)
		}
	}
}
