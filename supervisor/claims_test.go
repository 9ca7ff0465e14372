package supervisor_test

import (
	"fmt"
	"strings"

	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/protocol"
)

// doStartedAgent: agents that one of our own commands started, and workers that share a name.
func (s *stage) doStartedAgent(a *sim, w []string) error {
	switch w[0] {
	case "other": // a further process of the same name
		if len(a.agent.Others) == 0 || w[1] == "new" {
			a.agent.Others = append(a.agent.Others, protocol.Identity{PID: 5000 + len(s.processes), Start: 7, Boot: "b"})
			w[1] = "alive"
		}
		s.processes[a.agent.Others[len(a.agent.Others)-1]] = heartbeat.ProcessState(w[1])
	case "keeper":
		a.agent.Keeper = protocol.Identity{PID: 99, Start: 7, Boot: "b"}
		s.processes[a.agent.Keeper] = heartbeat.ProcessState(w[1])
	case "left":
		a.agent.Left, a.agent.Idle, a.silent = strings.Join(w[1:], " "), true, true
		a.agent.Process, a.agent.Keeper = protocol.Identity{}, protocol.Identity{}
	case "claims":
		a.agent.Claims = true
	case "ended":
		a.agent.Ending, a.agent.Keeper, a.silent = strings.Join(w[1:], " "), protocol.Identity{}, true
	default:
		return s.doMoves(a, w)
	}
	return nil
}

// doClaim: a worker has the task in hand.
func (s *stage) doClaim(c *card, w []string) error {
	switch w[0] {
	case "claimed": // by a worker, perhaps one of the processes of an agent, and the process that runs it
		c.named = "claim"
		c.workers = []protocol.Identity{{PID: 6000 + len(s.processes), Start: 7, Boot: "b"}, {PID: 6001 + len(s.processes), Start: 7, Boot: "b"}}
		if len(w) > 1 && w[1] == "alone" { // its worker does it itself
			c.workers, w = c.workers[:1], w[:1]
		}
		if len(w) > 2 { // by codex [other]
			a := s.sim(w[2]).agent
			c.workers[0] = append([]protocol.Identity{a.Process}, a.Others...)[len(w)-3]
		}
		for _, id := range c.workers {
			s.processes[id] = heartbeat.ProcessAlive
		}
	case "worker", "runner": // gone | alive
		i := map[string]int{"worker": 0, "runner": 1}[w[0]]
		s.processes[c.workers[i]] = heartbeat.ProcessState(w[1])
	case "given-back":
		c.named, c.workers = "", nil
	default:
		return fmt.Errorf("no such word %q", w[0])
	}
	return nil
}
