package supervisor_test

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor/decide"
)

// eyes are what the stage's steward sees of processes, and how well.
type eyes struct {
	trees map[protocol.Identity]*capacity.Usage
	takes map[protocol.Identity]*takes
	slept time.Duration // in which no loop runs
	doubt int
	ended map[protocol.Subject]time.Time
}

// see fills in what processes do. Each of them runs an idle loop, which takes a little of the processor.
func (e *eyes) see(v *decide.View) {
	for _, u := range e.trees {
		seen := *u
		seen.At, seen.CPU = v.Now, u.CPU+(v.Now.Sub(midnight)-e.slept)/250
		v.Usage = append(v.Usage, seen)
	}
	for id, k := range e.takes {
		v.Usage = append(v.Usage, capacity.Usage{Identity: id, At: v.Now, Cores: k.cores, CPU: k.spent(v.Now), Memory: k.memory})
	}
	slices.SortFunc(v.Usage, func(a, b capacity.Usage) int { return cmp.Compare(a.Identity.PID, b.Identity.PID) })
	v.Doubt = e.doubt
}

// noteEnds writes down whose processes are ended, as the loop orders it: each hanging once.
func (s *stage) noteEnds(plan decide.Plan) {
	for _, end := range plan.Ends {
		if s.eyes.ended[end.Subject].Equal(end.Since) {
			continue
		}
		if s.eyes.ended == nil {
			s.eyes.ended = map[protocol.Subject]time.Time{}
		}
		s.eyes.ended[end.Subject] = end.Since
		for _, id := range end.Roots {
			s.note("end %s", s.whose(id, end.Subject.ID))
		}
	}
}

// whose says what a process is to an agent, or to a task that a worker has in hand.
func (s *stage) whose(id protocol.Identity, agent string) string {
	for _, task := range s.demo().order {
		if i := slices.Index(s.demo().cards[task].workers, id); i >= 0 {
			return [...]string{"worker", "runner"}[i] + " of " + task
		}
	}
	return "process of " + agent
}

// doMoves: what an agent's processes do.
func (s *stage) doMoves(a *sim, w []string) error {
	ids := append([]protocol.Identity{a.agent.Process}, a.agent.Others...)
	switch w[0] {
	case "seen":
		if s.eyes.trees == nil {
			s.eyes.trees = map[protocol.Identity]*capacity.Usage{}
		}
		for _, id := range ids {
			s.eyes.trees[id] = &capacity.Usage{Identity: id, Tree: "one"}
		}
	case "unseen":
		for _, id := range ids {
			delete(s.eyes.trees, id)
		}
	case "moves":
		if s.eyes.trees[ids[0]] == nil {
			return fmt.Errorf("nobody sees it")
		}
		s.eyes.trees[ids[len(ids)-1]].CPU += 3 * time.Second
	case "kept":
		a.agent.Kept = true
	case "claimed": // a file names its process, and none of our commands has recorded it
		a.agent.PID, a.agent.Process = a.agent.Process.PID, protocol.Identity{}
	default:
		return fmt.Errorf("no such word %q", w[0])
	}
	return nil
}

// doHung: what follows when an agent hangs.
func (s *stage) doHung(w []string) error {
	s.cfg.Heartbeat.HungAction = w[0]
	return nil
}

// doDoubt: how much speaks against our own eyes.
func (s *stage) doDoubt(w []string) (err error) {
	s.eyes.doubt, err = strconv.Atoi(w[0])
	return err
}
