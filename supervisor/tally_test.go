package supervisor_test

import (
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor"
	"github.com/livhana/steward/supervisor/decide"
)

// TestTally: what the document's success metrics are made of, each thing counted once.
func TestTally(t *testing.T) {
	for name, c := range map[string]struct {
		script []string
		want   decide.Tally
	}{
		"completed": {[]string{"at 00:10", "task t1 appears", "at 00:30", "result t1 completed", "at 05:00"},
			decide.Tally{Completed: 1, Latency: 20 * time.Second, Followed: 1}},
		"failed": {[]string{"at 00:10", "task t1 appears", "at 00:20", "result t1 failed GIT_CONFLICT", "at 05:00"},
			decide.Tally{Failed: 1, Latency: 10 * time.Second, ForHuman: 1, Followed: 1}},
		"failed, then right after all": {[]string{"at 00:10", "task t1 appears", "at 00:20", "result t1 failed GIT_CONFLICT", "at 01:00", "result t1 completed", "at 05:00"},
			decide.Tally{Completed: 1, Latency: 50 * time.Second, ForHuman: 1, Followed: 1}},
		"right at the second attempt": {[]string{"at 00:10", "task t1 appears", "at 00:20", "result t1 failed FILE_NOT_FOUND", "at 01:10", "result t1 completed", "at 05:00"},
			decide.Tally{Completed: 1, Latency: time.Minute, Followed: 1}},
		"lost twice": {[]string{"agent codex process alive", "agent codex beats", "at 00:10", "task t1 appears", "at 00:11", "task t1 taken", "at 00:20", "agent codex process gone",
			"at 00:30", "agent codex process new", "agent codex beats", "at 01:10", "task t1 taken", "at 01:20", "agent codex process gone", "at 02:00"},
			decide.Tally{Failed: 1, Lost: 2, ForHuman: 1, Latency: 70 * time.Second, Followed: 1}},
		"lost while the memory is full": {[]string{"agent codex process alive", "agent codex beats", "at 00:10", "task t1 appears", "at 00:11", "task t1 taken", "at 00:15", "load memory 0.95", "at 00:20", "agent codex process gone",
			"at 00:21", "load memory 0.1", "at 00:40"}, decide.Tally{Lost: 1, Overloaded: 1}},
		"lost long after the memory was full": {[]string{"agent codex process alive", "at 00:02", "load memory 0.95", "at 00:05", "load memory 0.1", "agent codex beats", "at 00:10", "task t1 appears", "at 00:11", "task t1 taken", "at 00:40", "agent codex beats", "at 01:00", "agent codex process gone",
			"at 01:10"}, decide.Tally{Lost: 1}},
		"a decision after success": {[]string{"at 00:10", "task t1 appears", "at 00:20", "result t1 completed asks Deploy?", "at 05:00"},
			decide.Tally{Completed: 1, ForHuman: 1, Latency: 10 * time.Second, Followed: 1}},
		"held for a while": {[]string{"load memory 0.95", "at 00:10", "task t1 appears", "at 01:10", "load memory 0.1", "at 02:30", "result t1 completed", "at 03:00"},
			decide.Tally{Completed: 1, Latency: 70 * time.Second, Followed: 1}},
		"history":   {[]string{"task t1 appears", "absent until 00:10", "result t1 completed since 00:01", "at 00:20"}, decide.Tally{}},
		"cancelled": {[]string{"at 00:10", "task t1 appears payload p", "at 00:20", "result t1 failed FILE_NOT_FOUND", "task t2 appears payload p", "at 00:30"}, decide.Tally{}},
		"restart counts nothing again": {[]string{"at 00:10", "task t1 appears", "at 00:30", "result t1 completed", "at 00:40", "absent until 01:00", "at 02:00"},
			decide.Tally{Completed: 1, Latency: 20 * time.Second, Followed: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			for _, line := range c.script {
				if err := s.do(line); err != nil {
					t.Fatalf("%s: %v", line, err)
				}
			}
			s.rest()
			if got := s.memory.Projects["demo"].Tally; got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// TestGoals: each of the document's figures, met and missed.
func TestGoals(t *testing.T) {
	picture := func(tally decide.Tally) *supervisor.State {
		return &supervisor.State{Plan: decide.Plan{Memory: decide.Memory{Projects: map[string]decide.ProjectMemory{"demo": {Tally: tally}}}}}
	}
	good := picture(decide.Tally{Completed: 99, Failed: 1, Latency: 2900 * time.Second, Spoken: 4, Followed: 100}).Goals()
	bad := picture(decide.Tally{Completed: 95, Failed: 5, Latency: 3000 * time.Second, Spoken: 5, Overloaded: 1, Followed: 99, ByHand: 1}).Goals()
	none := picture(decide.Tally{}).Goals()
	for i := range good {
		if good[i].Name == "heartbeat_uptime" {
			continue // no agent in these pictures
		}
		if !good[i].OK || bad[i].OK {
			t.Errorf("%s: %v is %t, %v is %t", good[i].Name, *good[i].Value, good[i].OK, *bad[i].Value, bad[i].OK)
		}
		if none[i].Value != nil && good[i].Name != "overload_crashes" && good[i].Name != "copy_paste_events" {
			t.Errorf("%s of nothing is %v", none[i].Name, *none[i].Value)
		}
	}
}

// TestHundredLooksAreOneAlert: the same failure, seen again and again, calls nobody twice.
func TestHundredLooksAreOneAlert(t *testing.T) {
	s := newStage(t)
	s.demo().submit(protocol.Task{Request: protocol.Request{ID: "t1", Agent: "codex"}}, s.now)
	s.until(midnight.Add(time.Minute))
	s.demo().finish("t1", failure("GIT_CONFLICT"), s.now)
	s.until(midnight.Add(10 * time.Minute))
	if s.demo().looks < 100 || s.alerts != 1 {
		t.Errorf("%d looks, %d alerts", s.demo().looks, s.alerts)
	}
}
