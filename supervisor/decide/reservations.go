package decide

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/protocol"
)

// reserved is what admitted work takes: the reservations, in a fixed order, and what became of those whose work has ended.
type reserved struct {
	list  []capacity.Reservation
	ended map[protocol.Subject]capacity.Ended
}

// reservations lists the work that was admitted and has not ended. Only work of living agents counts; a dead agent uses
// nothing any more. Protocols that start work by themselves are covered by the readings alone.
// See docs/decisions.md, "Only admitted work reserves".
func reservations(e *env, tasks []judgedTask) reserved {
	r := reserved{list: make([]capacity.Reservation, 0, len(e.last.Gate.Reservations)+1), ended: map[protocol.Subject]capacity.Ended{}}
	// Of tasks that are only presumed to be in the hands of an agent one counts, because an agent that never names its tasks
	// was never seen doing two at once. See docs/decisions.md, "An agent that names no tasks holds one reservation".
	presumed := map[protocol.Subject]capacity.Reservation{}
	for i := range tasks {
		k := &tasks[i]
		if o := k.t.Outcome; o != nil {
			if _, claimed := e.last.Gate.Reservations[k.subject]; claimed && !o.Ours {
				r.ended[k.subject] = capacity.Ended{At: plain(o.Appeared), Took: o.Took, Well: o.Succeeded()}
			}
			continue
		}
		claim, guessed := reservation(k)
		switch first, any := presumed[claim.Agent]; {
		case claim.Since.IsZero():
		case !guessed:
			r.list = append(r.list, claim)
		case k.agent.verdict.State == protocol.AgentUnknown: // the agent has left, so nothing is presumed of it
		case !any || claim.Taken.Before(first.Taken):
			presumed[claim.Agent] = claim
		}
	}
	for _, claim := range presumed {
		r.list = append(r.list, claim)
	}
	// The tasks of projects that were not scanned, as right after a start, have neither gone nor ended.
	for subject, k := range e.last.Gate.Reservations {
		over := !k.Absent.IsZero() && e.now.Sub(k.Absent) >= unseenFor
		if subject.Kind == protocol.KindTask && e.snapshotOf(subject) == nil && !over {
			r.list = append(r.list, capacity.Reservation{Subject: subject, Agent: k.Agent, Kind: k.Kind, Since: k.Since, Taken: k.Taken, Absent: true})
		}
	}
	for i, p := range e.view.Promised {
		if p.Subject.Kind != protocol.KindTask {
			r.list = append(r.list, AdmissionClaim(i, p.At))
		}
	}
	slices.SortFunc(r.list, bySubject)
	return r
}

// unseenFor is how long the reservations of a project count that is not scanned.
const unseenFor = time.Minute

// reservation is what an open task reserves; Since is zero if it reserves nothing. It is guessed where the agent names no
// tasks.
func reservation(k *judgedTask) (claim capacity.Reservation, guessed bool) {
	late := k.heldTooLate()
	stillHeld := k.t.Hold != nil && !(k.s.Busy && !k.next.Admitted.IsZero()) && !late
	if k.t.Foreign || stillHeld || k.agent == nil || k.agent.dead() {
		return claim, false
	}
	claim = capacity.Reservation{Subject: k.subject, Agent: k.s.Subject(protocol.KindAgent, k.t.Agent), Kind: costKind(&k.taskCase), Since: k.next.Admitted,
		Told: k.agent.agent.Claims || k.agent.mem.Names}
	for _, p := range k.view.Promised { // a worker was told that it may begin
		if p.Subject == k.subject && p.At.After(claim.Since) {
			claim.Since = plain(p.At)
		}
	}
	switch {
	case late:
		claim.Taken = cmp.Or(k.last.Gate.Reservations[k.subject].Taken, k.at)
		claim.Since, claim.Measured = claim.Taken, measured(k)
		return claim, false
	case k.inFlight() != "":
		claim.Taken = k.next.Running
		claim.Overdue = k.timeout() > 0 && k.now.Sub(claim.Taken) > k.timeout()
		claim.Since = cmp.Or(claim.Since, claim.Taken)
		claim.Measured = measured(k)
	}
	return claim, !claim.Taken.IsZero() && k.t.Named == ""
}

func bySubject(x, y capacity.Reservation) int {
	a, b := &x.Subject, &y.Subject
	return cmp.Or(strings.Compare(a.Project, b.Project), strings.Compare(a.Protocol, b.Protocol),
		strings.Compare(string(a.Kind), string(b.Kind)), strings.Compare(a.ID, b.ID))
}

// AdmissionClaim is the reservation of a command that starts work by itself.
func AdmissionClaim(i int, at time.Time) capacity.Reservation {
	return capacity.Reservation{Subject: protocol.Subject{Kind: protocol.KindMachine, ID: fmt.Sprint(AdmissionID, "/", i)}, Since: at}
}

// AdmissionID names commands that start work by themselves.
const AdmissionID = "admission"

// longestType bounds the part of a request's type that goes into the name of a learnt cost, in characters.
const longestType = 40

// costKind is the name under which the cost of the task is learnt.
func costKind(c *taskCase) string {
	word := []rune(strings.ToValidUTF8(c.t.Type, "?"))
	parts := []string{c.s.Project, c.s.Protocol, c.t.Agent, string(word[:min(len(word), longestType)])}
	for i, part := range parts {
		parts[i] = strings.ReplaceAll(part, "/", "%2F")
	}
	return strings.Join(parts, "/")
}

// measured is what the task's own processes use: those of the reservation that a worker holds, else the agent's whole tree if the
// task is all that the agent does. The first measurements still include the time before the work: their pace is dropped.
func measured(k *judgedTask) (m *capacity.Measured) {
	if n := len(k.t.Workers); n > 1 { // the worker itself, and the process of this task
		m = k.usage(k.t.Workers[n-1], true)
	} else if n == 0 && len(k.agent.agent.Tasks) == 1 && k.agent.names(k.t.ID) {
		m = k.usage(k.agent.mem.Proven, false)
	}
	if m != nil && m.At.Sub(k.next.Running) < 2*UsageEvery {
		m.Cores = -1
	}
	return m
}
