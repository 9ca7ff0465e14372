package heartbeat

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The script lines for the activity of an agent's processes and for steward's own trouble.

// move executes a script line about a process: "is seen", "is out of sight", "works 3s", "forks", "writes".
func (p *process) move(words []string, elapsed time.Duration) error {
	switch strings.Join(words[:min(len(words), 2)], " ") {
	case "is seen":
		p.did.Known = true
	case "is out": // of sight
		p.did.Known = false
	case "forks":
		p.did.Tree = "family of " + elapsed.String()
	case "writes":
		p.did.Written++
	default:
		if len(words) != 2 || words[0] != "works" {
			return fmt.Errorf("no such process event")
		}
		p.did.CPU += ago(words[1])
	}
	return nil
}

// idles is half a percent of a processor, the use of an idle event loop.
const idles = 200

// activity is what a scan sees of a process. Every process runs an idle loop.
func (s *stage) activity(pid int) Activity {
	did := s.processes[pid].did
	did.CPU += s.elapsed / idles
	return did
}

// keep writes the heartbeat as steward.
func (s *stage) keep() {
	s.beat(s.now())
	s.agent.Kept, s.agent.Beat.Kept = true, true
	s.nextKept = s.elapsed + s.keptEvery
}

// trouble executes a script line about steward's own trouble; it reports whether the line was one.
func (s *stage) trouble(line, last string) bool {
	switch {
	case strings.HasPrefix(line, "steward beats for it every "):
		s.keptEvery, s.nextKept = ago(last), s.elapsed
	case strings.HasPrefix(line, "a task of "): // … is in flight
		s.task = ago(strings.Fields(line)[3])
	case line == "no task is in flight":
		s.task = 0
	case strings.HasPrefix(line, "steward doubts itself "):
		s.doubt, _ = strconv.Atoi(last)
	case strings.HasPrefix(line, "verdicts of silence wait "):
		s.wait = s.now().Add(ago(last))
	case strings.HasPrefix(line, "nobody hangs for less than "):
		s.cfg.Agents[s.agent.Name] = Limits{Hung: ago(last)}
	default:
		return false
	}
	return true
}

func last(words []string) string { return words[len(words)-1] }
