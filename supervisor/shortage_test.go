package supervisor_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
)

// TestStarving: a task that others overtake for very long is told of, once; a queue that is worked off is not, nor is the
// gate called shut through which others go.
func TestStarving(t *testing.T) {
	s := newStage(t)
	s.cfg.Capacity.StarveAfter, s.cfg.Capacity.AlarmAfter, s.cfg.Capacity.PromoteAfter = 4*time.Minute, 3*time.Minute, time.Hour
	s.load.Cores, s.load.MemoryTotal, s.load.Window, s.load.CPU = 1, 64<<30, time.Second, protocol.Used(0.05)
	a := s.sim("codex")
	a.tasks = nil
	f := s.demo()
	f.submit(protocol.Task{Request: protocol.Request{ID: "first", Agent: "codex", Timeout: time.Hour}}, s.now)
	s.until(s.now.Add(time.Second))
	s.show["words"] = true
	for _, id := range []string{"low", "also"} {
		f.submit(protocol.Task{Request: protocol.Request{ID: id, Agent: "codex", Timeout: time.Hour}}, s.now)
	}
	for i := range 10 {
		f.submit(protocol.Task{Request: protocol.Request{ID: fmt.Sprint("high", i), Agent: "codex", Priority: protocol.PriorityHigh, Timeout: time.Hour}}, s.now)
	}
	s.until(s.now.Add(time.Second))
	for i := -1; i < 9; i++ { // one minute each
		id := fmt.Sprint("high", i)
		if i < 0 {
			id = "first"
		}
		f.cards[id].named, a.tasks, s.load.CPU = "active_tasks", []string{id}, protocol.Used(1)
		s.until(s.now.Add(time.Minute))
		f.finish(id, protocol.Outcome{Status: "completed", Agent: "codex"}, s.now)
		s.until(s.now.Add(time.Second))
	}
	log := s.log.String()
	if strings.Contains(log, "No room") {
		t.Errorf("a gate is called shut through which others go:\n%s", log)
	}
	if n := strings.Count(log, "alert medium queue"); n != 1 {
		t.Errorf("%d alerts:\n%s", n, log)
	}
	for _, words := range []string{"9 tasks have waited for room since 00:00:01 UTC",
		"Others were admitted meanwhile. These wait: demo:task/also, demo:task/high3, demo:task/high4, demo:task/high5, demo:task/high6 and 4 more. 'steward explain' says",
		"Jesse, tasks have waited for room for very long."} {
		if !strings.Contains(log, words) {
			t.Errorf("nobody is told %q:\n%s", words, log)
		}
	}
}
