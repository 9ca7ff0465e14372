package supervisor_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor"
	"github.com/livhana/steward/supervisor/decide"
)

// TestDecideProperties plays chance: whatever happens, a plan comes to rest, is the same from a dump (both checked by
// the stage), leaves running work alone, changes a thing once, and never spends more attempts than the rules allow.
func TestDecideProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newStage(t)
		s.after = func(v decide.View, p decide.Plan) { checkPlan(t, s, v, p) }
		for _, name := range []string{"codex", "other"} {
			s.sim(name)
		}
		for range rapid.IntRange(3, 25).Draw(t, "steps") {
			happen(t, s)
			checkAttempts(t, s)
		}
	})
}

// happen lets one thing happen by chance, and some time go by.
func happen(t *rapid.T, s *stage) {
	f := s.demo()
	a := s.sim(rapid.SampledFrom([]string{"codex", "other"}).Draw(t, "agent"))
	id := fmt.Sprint("t", rapid.IntRange(1, 4).Draw(t, "task"))
	c := f.cards[id]
	switch rapid.SampledFrom([]string{"submit", "submit", "take", "take", "finish", "finish", "finish", "silent", "beats", "process", "load", "sleep", "restart", "block", "late", "crash"}).Draw(t, "what") {
	case "submit":
		if c == nil {
			task := protocol.Task{Request: protocol.Request{ID: id, Agent: a.agent.Name, Priority: protocol.Priority(rapid.IntRange(0, 3).Draw(t, "priority")), Timeout: time.Minute}}
			// t4 is work that goes back in one step.
			if task.Foreign, task.Requeue = id == "t4", id == "t4"; task.Foreign {
				task.Timeout = protocol.NoTimeout
			}
			task.Payload = rapid.SampledFrom([]string{"", "p"}).Draw(t, "payload")
			f.submit(task, s.now)
		}
	case "take":
		if c != nil && c.open && c.result == nil {
			c.named = rapid.SampledFrom([]string{"active_tasks", "progress", ""}).Draw(t, "named")
			if c.task.Foreign {
				c.named = "accepted"
			}
			c.listed = c.listed || c.named == "active_tasks"
			if c.named == "progress" && rapid.Bool().Draw(t, "reports") {
				c.progress = s.now
			}
			a.tasks = []string{id}
		}
	case "finish":
		if c != nil && (c.open || c.held) {
			f.finish(id, drawOutcome(t), s.now)
		}
	case "silent":
		a.silent = true
	case "beats":
		a.silent, a.next = false, s.now
	case "process":
		a.agent.Process = protocol.Identity{PID: 10 + len(a.agent.Name), Start: 1, Boot: "b"}
		s.processes[a.agent.Process] = rapid.SampledFrom([]heartbeat.ProcessState{heartbeat.ProcessAlive, heartbeat.ProcessGone, heartbeat.ProcessStopped, heartbeat.ProcessUnknown}).Draw(t, "process")
	case "load":
		s.load.CPU = protocol.Used(rapid.Float64Range(0, 1).Draw(t, "cpu"))
		s.load.Memory = protocol.Share{}
	case "sleep":
		s.rest()
		s.now, s.resumed = s.now.Add(time.Hour), true
	case "restart":
		s.restart()
	case "block":
		if c != nil {
			c.task.Block = rapid.SampledFrom([]string{"", "wait"}).Draw(t, "block")
		}
	case "late":
		if c != nil && c.result != nil {
			c.late = &protocol.Ref{Path: "late", Sum: "late"}
		}
	case "crash":
		crashWithin(t, s)
	}
	s.until(s.now.Add(time.Duration(rapid.IntRange(0, 90_000).Draw(t, "ms")) * time.Millisecond))
}

// crashWithin kills steward between two steps of a change.
func crashWithin(t *rapid.T, s *stage) {
	left := rapid.IntRange(0, 4).Draw(t, "steps before the crash")
	s.demo().step = func() error {
		if left--; left < 0 {
			return errKilled
		}
		return nil
	}
	plan := supervisor.Decide(s.look(), s.memory, s.cfg)
	s.memory = plan.Memory
	for _, a := range plan.Alerts {
		s.raise(a)
	}
	for _, c := range plan.Changes {
		if err := s.demo().Apply(context.Background(), c, s.now); err != nil {
			break
		}
	}
	s.demo().step = func() error { return nil }
	s.restart()
}

func drawOutcome(t *rapid.T) protocol.Outcome {
	status := rapid.SampledFrom([]string{"completed", "failed", "failed", "failed", "timeout", "deferred", "blocked", "odd"}).Draw(t, "status")
	o := protocol.Outcome{Status: status, Agent: "codex"}
	if status == "failed" {
		code := rapid.SampledFrom([]string{"FILE_NOT_FOUND", "GIT_CONFLICT", "RATE_LIMITED", "FLAKY", "CAPACITY_EXCEEDED"}).Draw(t, "code")
		o.Failures = []protocol.Failure{{Code: code, Severity: rapid.SampledFrom([]string{"", "warning", "error", "fatal"}).Draw(t, "severity"), Message: "resets 3pm"}}
	}
	return o
}

func checkPlan(t *rapid.T, s *stage, v decide.View, p decide.Plan) {
	t.Helper()
	snap := &v.Snapshots[0]
	seen := map[protocol.Subject]bool{}
	for _, c := range p.Changes {
		if c.Verb != protocol.VerbLog && seen[c.Subject] {
			t.Fatalf("%v is changed twice in one plan", c.Subject)
		}
		seen[c.Subject] = seen[c.Subject] || c.Verb != protocol.VerbLog
		if c.Subject.Kind != protocol.KindTask {
			continue
		}
		card := s.demo().cards[c.Subject.ID]
		agent := p.Agents.Of(snap.Subject(protocol.KindAgent, card.task.Agent))
		lives := agent.State == protocol.AgentAlive || agent.State == protocol.AgentLate
		running := card.open && card.result == nil && card.named != ""
		switch c.Verb {
		case protocol.VerbRequeue:
			if running && lives && c.Reason == protocol.ReasonLost {
				t.Fatalf("%s of %s, which %s works on", c.Verb, c.Subject, card.task.Agent)
			}
		case protocol.VerbConclude:
			running = running && !dropped(s, card, v.Now)
			fallthrough
		case protocol.VerbHold, protocol.VerbRetry, protocol.VerbCancel:
			if running && lives {
				t.Fatalf("%s of %s, which %s works on", c.Verb, c.Subject, card.task.Agent)
			}
		}
		// What must wait for other work is held whenever nobody has it in hand; what must wait for room, at once or never.
		late := c.Hold != protocol.HoldBlocked && v.Now.Sub(card.appeared) > s.cfg.Tasks.Presume+s.cfg.Tasks.Judge
		if c.Verb == protocol.VerbHold && !card.task.Foreign && (late || card.result != nil) {
			t.Fatalf("held %v after it appeared", v.Now.Sub(card.appeared))
		}
	}
	if !p.Wake.IsZero() && !p.Wake.After(v.Now) {
		t.Fatalf("wakes at %v, which is not after %v", p.Wake, v.Now)
	}
}

// dropped reports whether a task is known to be given up although a progress file still names it: its agent listed
// it, lists others now, and has reported nothing on it since.
func dropped(s *stage, c *card, now time.Time) bool {
	return c.listed && !slices.Contains(s.sim(c.task.Agent).agent.Tasks, c.task.ID) && now.Sub(c.progress) >= s.cfg.Tasks.Presume
}

// checkAttempts compares the ledger with the rules.
func checkAttempts(t *rapid.T, s *stage) {
	t.Helper()
	for id, c := range s.demo().cards {
		spent := map[string]int{}
		for _, k := range c.ledger {
			if k.Committed && k.Action == protocol.ActionRetry {
				spent[k.Rule]++
			}
		}
		for _, rule := range s.cfg.Retry.Rules {
			if n := spent[rule.Name()]; rule.Action == protocol.ActionRetry && n >= rule.Attempts {
				t.Fatalf("%s: %d retries by %s, which allows %d attempts", id, n, rule.Name(), rule.Attempts)
			}
		}
	}
}
