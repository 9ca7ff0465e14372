package supervisor_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor/decide"
)

// foreign is what the other protocols bring into a folder: locks, calls for a human, findings, events, orphans.
type foreign struct {
	observed bool
	asks     bool
	yield    string
	locks    []protocol.Lock
	pleas    []protocol.Question
	findings []protocol.Finding
	events   []protocol.Event
	faults   []protocol.Fault
	stubborn bool // orphans do not end when asked
}

func (f *foreign) fill(s *protocol.Snapshot) {
	if s.Yield = f.yield; f.asks {
		s.Mode = protocol.ModeAsk
	}
	s.Locks, s.Questions = slices.Clone(f.locks), slices.Clone(f.pleas)
	s.Findings, s.Events, s.Faults = slices.Clone(f.findings), slices.Clone(f.events), slices.Clone(f.faults)
}

// applyForeign carries out the verbs that protocol 000 lacks.
func (f *folder) applyForeign(c protocol.Change) (done bool, err error) {
	switch c.Verb {
	case protocol.VerbUnlock:
		return true, f.do(func() {
			f.foreign.locks = slices.DeleteFunc(f.foreign.locks, func(l protocol.Lock) bool { return l.Resource == c.Subject.ID })
		})
	case protocol.VerbReap:
		return true, f.do(func() {
			if f.foreign.stubborn && c.Status == "SIGTERM" {
				return
			}
			for _, a := range f.sims {
				if a.agent.Name == c.Subject.ID {
					a.agent.Orphans = nil
				}
			}
		})
	case protocol.VerbRequeue:
		return true, f.requeue(f.cards[c.Subject.ID], c)
	case protocol.VerbLog:
		before := len(f.foreign.events)
		rest := slices.DeleteFunc(slices.Clone(f.foreign.events), func(e protocol.Event) bool { return e.Name == c.Event && e.Subject.ID == c.Subject.ID })
		if len(rest) == before {
			return false, nil
		}
		return true, f.do(func() { f.foreign.events = rest })
	}
	return false, nil
}

func (f *folder) requeue(t *card, c protocol.Change) error {
	switch n := len(t.ledger); {
	case n < c.Attempt:
		k := protocol.Attempt{N: c.Attempt, Action: c.Action, Rule: c.Rule, Code: c.Code, Agent: c.Agent, Twice: c.Twice}
		if err := f.do(func() { t.ledger = append(t.ledger, k) }); err != nil {
			return err
		}
	case t.ledger[c.Attempt-1].Committed:
		return errMoved
	}
	return f.do(
		func() { t.named, t.task.Lost, t.result, t.workers = "", "", nil, nil },
		func() { t.ledger[c.Attempt-1].Committed = true })
}

func (s *stage) doMode(w []string) error {
	f := &s.demo().foreign
	switch w[0] {
	case "observe", "ask", "act":
		f.observed, f.asks = w[0] != "act", w[0] == "ask"
	case "yield":
		f.yield = strings.Join(w[1:], " ")
	default:
		return fmt.Errorf("no such word %q", w[0])
	}
	return nil
}

// doLock: lock R by A until 30:00 | lock R gone
func (s *stage) doLock(w []string) error {
	f := &s.demo().foreign
	f.locks = slices.DeleteFunc(f.locks, func(l protocol.Lock) bool { return l.Resource == w[0] })
	if w[1] == "gone" {
		return nil
	}
	until, err := readClock(w[4])
	f.locks = append(f.locks, protocol.Lock{Resource: w[0], Holder: w[2], Expires: until, Ref: protocol.Ref{Path: "state.json", Sum: strings.Join(w, " ")}})
	return err
}

// doPlea: question P by A [for T] [blocking] [due 05:00] says TEXT | question P gone
func (s *stage) doPlea(w []string) error {
	f := &s.demo().foreign
	if w[1] == "gone" {
		f.pleas = slices.DeleteFunc(f.pleas, func(p protocol.Question) bool { return p.ID == w[0] })
		return nil
	}
	p := protocol.Question{ID: w[0], Agent: w[2], Severity: protocol.High, Options: []string{"JWT", "OAuth"}, Ref: protocol.Ref{Sum: w[0]}}
	for i := 3; i < len(w); i++ {
		switch w[i] {
		case "blocking":
			p.Blocking = true
		case "for":
			p.Task = w[i+1]
			i++
		case "due":
			at, err := readClock(w[i+1])
			if err != nil {
				return err
			}
			p.Due = at
		case "says":
			p.Text = strings.Join(w[i+1:], " ")
			i = len(w)
		}
	}
	f.pleas = append(f.pleas, p)
	return nil
}

// doFinding: finding CODE on T SEVERITY [call] [decide] TEXT | finding CODE gone
func (s *stage) doFinding(w []string) error {
	f := &s.demo().foreign
	f.findings = slices.DeleteFunc(f.findings, func(x protocol.Finding) bool { return x.Code == w[0] })
	if w[1] == "gone" {
		return nil
	}
	x, text := protocol.Finding{Subject: protocol.Subject{Kind: protocol.KindTask, ID: w[2]}, Code: w[0], Severity: protocol.Severity(w[3])}, w[4:]
	if x.Call = text[0] == "call"; x.Call {
		text = text[1:]
	}
	if text[0] == "decide" {
		x.Settle, text = "Taken care of", text[1:]
	}
	x.Text = strings.Join(text, " ")
	f.findings = append(f.findings, x)
	return nil
}

// doFault: fault PATH PROBLEM | fault PATH gone
func (s *stage) doFault(w []string) error {
	f := &s.demo().foreign
	f.faults = slices.DeleteFunc(f.faults, func(x protocol.Fault) bool { return x.Path == w[0] })
	if w[1] != "gone" {
		f.faults = append(f.faults, protocol.Fault{Path: w[0], Problem: strings.Join(w[1:], " "), Since: s.now})
	}
	return nil
}

// doTrouble: trouble CODE SEVERITY PROBLEM | trouble CODE gone
func (s *stage) doTrouble(w []string) error {
	s.troubles = slices.DeleteFunc(s.troubles, func(t decide.Trouble) bool { return t.Code == w[0] })
	if w[1] != "gone" {
		s.troubles = append(s.troubles, decide.Trouble{Project: "demo", Code: w[0],
			Fault: protocol.Fault{Severity: protocol.Severity(w[1]), Problem: strings.Join(w[2:], " "), Since: s.now}})
	}
	return nil
}

// doSettle: settle X: a human's answer ends the open incidents about it.
func (s *stage) doSettle(w []string) error {
	s.rest()
	next, n := map[string]rules.Head{}, 0
	for key, h := range s.heads {
		if h.Subject.ID == w[0] && h.State != rules.Resolved {
			h.State, h.ResolvedBy = rules.Resolved, rules.ByAnswer
			n++
		}
		next[key] = h
	}
	if s.heads = next; n == 0 {
		return fmt.Errorf("there is no incident")
	}
	return nil
}

// doSay: say RESULTS PROGRESS: what is spoken.
func (s *stage) doSay(w []string) error {
	s.cfg.Results, s.cfg.Progress = w[0], w[1]
	return nil
}

// doPress: press X OPTION: a person orders what an incident about it offers.
func (s *stage) doPress(w []string) error {
	s.rest()
	for _, o := range s.plan.Offers {
		head := s.heads[o.Key]
		if head.Subject.ID != w[0] || o.Option != w[1] || head.Occurrence != o.Occurrence || head.State == rules.Resolved {
			continue
		}
		s.heads = maps.Clone(s.heads)
		head.State, head.ResolvedBy = rules.Resolved, rules.ByAnswer
		s.heads[o.Key] = head
		for _, c := range o.Changes {
			s.memory, _ = s.memory.Ordered(c, s.now)
			if err := s.demo().Apply(context.Background(), c, s.now); err != nil {
				return err
			}
			s.note("ordered: %s", s.told(c))
		}
		return nil
	}
	return fmt.Errorf("nothing is offered: %+v", s.plan.Offers)
}

// doEvent: event NAME on T
func (s *stage) doEvent(w []string) error {
	f := &s.demo().foreign
	f.events = append(f.events, protocol.Event{Name: w[0], Subject: protocol.Subject{Kind: protocol.KindTask, ID: w[2]}, At: s.now, Text: w[0]})
	return nil
}

func (s *stage) doForeignAgent(a *sim, w []string) error {
	switch w[0] {
	case "here":
		a.agent.Presence, a.agent.Evidence, a.silent, a.agent.Ref = protocol.PresenceHere, "its session lives", true, protocol.Ref{}
	case "gone":
		a.agent.Presence, a.agent.Evidence = protocol.PresenceGone, "nobody of its session lives"
	case "idle":
		a.agent.Idle, a.silent = true, true
	case "orphans":
		a.agent.Orphans = []protocol.Identity{{PID: 7, Start: 1, Boot: "b"}}
	case "stubborn":
		s.demo().foreign.stubborn = true
	default:
		return s.doStartedAgent(a, w)
	}
	return nil
}

func (s *stage) doForeignTask(c *card, w []string) error {
	switch w[0] {
	case "foreign": // its protocol manages the life of its work by itself
		c.task.Foreign, c.task.Timeout, c.task.Requeue = true, protocol.NoTimeout, slices.Contains(w, "requeue")
	case "accepted":
		c.named = "accepted"
	case "resent": // the same name, another request
		c.task.Ref.Sum += " again"
		c.named, c.result, c.open, c.held = "", nil, true, false
	case "lost":
		c.task.Lost = strings.Join(w[1:], " ")
	case "found":
		c.task.Lost = ""
	default:
		return s.doClaim(c, w)
	}
	return nil
}
