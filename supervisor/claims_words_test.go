package supervisor_test

import (
	"fmt"
	"strconv"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor"
)

// takes is what the processes below one identity take of the machine.
type takes struct {
	cores  float64
	memory uint64
	before time.Duration // processor time spent until since
	since  time.Time
}

func (k *takes) spent(now time.Time) time.Duration {
	return k.before + time.Duration(k.cores*float64(now.Sub(k.since)))
}

// take: from now on the processes take so many cores and MiB. Until there were two scans nobody knows how many cores.
func (s *stage) take(id protocol.Identity, w []string) error {
	if s.eyes.takes == nil {
		s.eyes.takes = map[protocol.Identity]*takes{}
	}
	if w[0] == "nothing" {
		delete(s.eyes.takes, id)
		return nil
	}
	cores, err := strconv.ParseFloat(w[0], 64)
	if err != nil {
		return err
	}
	megabytes, err := strconv.ParseUint(w[1], 10, 40)
	k := &takes{cores: cores, memory: megabytes << 20, since: s.now}
	if known := s.eyes.takes[id]; known != nil {
		k.before = known.spent(s.now)
	}
	s.eyes.takes[id] = k
	return err
}

// doEater: a process that uses much of the machine, perhaps an agent's.
func (s *stage) doEater(w []string) error {
	if w[0] == "none" {
		s.load.Consumers = nil
		return nil
	}
	c := protocol.Consumer{Name: w[0], PID: 900 + len(s.load.Consumers)}
	cores, err := strconv.ParseFloat(w[1], 64)
	if err != nil {
		return err
	}
	megabytes, err := strconv.ParseUint(w[2], 10, 40)
	if c.CPU, c.Memory = cores, megabytes<<20; len(w) > 4 { // of codex
		c.Agent = w[4]
	}
	s.load.Consumers = append(s.load.Consumers, c)
	return err
}

// doClaims writes down what has room, what it is expected to take, and what the next task meets.
func (s *stage) doClaims([]string) error {
	s.rest()
	p := supervisor.State{View: s.look(), Plan: s.plan, Config: s.cfg}
	list, promised := p.Claims()
	for _, c := range list {
		text := fmt.Sprintf("%s has room: %.2f cores, %d MiB", c.Subject, c.Cores, c.MemoryBytes>>20)
		if c.Learnt {
			text += ", as learnt"
		}
		if c.Taken != nil {
			text += "; taken at " + s.clock(*c.Taken)
		}
		if c.MeasuredMemory != nil {
			text += fmt.Sprintf("; takes %d MiB", *c.MeasuredMemory>>20)
		}
		if c.MeasuredCores != nil {
			text += fmt.Sprintf(" and %.2f cores", *c.MeasuredCores)
		}
		s.note("%s", text)
	}
	s.note("the next one meets cpu %s, memory %s", percent(promised.CPU), percent(promised.Memory))
	return nil
}

// doExplain writes down what is held of a task, until when, and why.
func (s *stage) doExplain(w []string) error {
	s.rest()
	v := s.plan.Tasks.Of(protocol.Subject{Project: "demo", Protocol: "agentstatus", Kind: protocol.KindTask, ID: w[0]})
	until := ""
	if !v.NotBefore.IsZero() {
		until = " until " + s.clock(v.NotBefore)
	}
	s.note("%s is %s%s: %s", w[0], v.State, until, sentenceOf(v))
	return nil
}

func percent(s protocol.Share) string {
	v, known := s.Value()
	if !known {
		return "unknown"
	}
	return fmt.Sprintf("%.0f %%", 100*v)
}
