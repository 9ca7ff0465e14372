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

// claims collects the reservations: work that was admitted and has not ended. Only work of living agents counts; a dead
// agent uses nothing any more. Protocols that start work by themselves are covered by the readings alone.
// See docs/decisions.md, "Only admitted work reserves".
type claims struct {
	list []capacity.Claim
	// presumed are the reservations of tasks that are only presumed to be in the hands of an agent, by agent. One counts per
	// agent, because an agent that never names its tasks was never seen doing two at once.
	// See docs/decisions.md, "An agent that names no tasks holds one reservation".
	presumed map[protocol.Subject]capacity.Claim
	ended    map[protocol.Subject]capacity.Ended
}

// enter adds the reservation of a task that was judged.
func (c *claims) enter(k *taskJudge) {
	if k.t.Outcome != nil {
		if _, claimed := k.env.old.Gate.Claims[k.subject]; claimed && !k.t.Outcome.Ours {
			c.ended[k.subject] = capacity.Ended{At: plain(k.t.Outcome.Appeared), Took: k.t.Outcome.Took, Well: k.t.Outcome.Succeeded()}
		}
		return
	}
	stillHeld := k.t.Hold != nil && !(k.s.Busy && !k.next.Admitted.IsZero()) && !k.heldTooLate()
	if k.t.Foreign || stillHeld || k.agent == nil || k.agent.dead() {
		return
	}
	agent := k.s.Subject(protocol.KindAgent, k.t.Agent)
	claim := capacity.Claim{Subject: k.subject, Agent: agent, Kind: k.kind(), Since: k.next.Admitted, Told: k.agent.agent.Claims || k.agent.mem.Names}
	for _, p := range k.env.view.Promised { // a worker was told that it may begin
		if p.Subject == k.subject && p.At.After(claim.Since) {
			claim.Since = plain(p.At)
		}
	}
	if k.heldTooLate() {
		claim.Taken = cmp.Or(k.env.old.Gate.Claims[k.subject].Taken, k.at)
		claim.Since, claim.Measured = claim.Taken, k.measured()
		c.list = append(c.list, claim)
		return
	}
	if by := k.inFlight(); by != "" {
		claim.Taken = k.next.Running
		claim.Overdue = k.timeout() > 0 && k.env.now.Sub(claim.Taken) > k.timeout()
		claim.Since = cmp.Or(claim.Since, claim.Taken)
		claim.Measured = k.measured()
	}
	switch {
	case claim.Since.IsZero():
	case claim.Taken.IsZero() || k.t.Named != "":
		c.list = append(c.list, claim)
	case k.agent.verdict.State == protocol.AgentUnknown: // the agent has left, so nothing is presumed of it
	default:
		if known, any := c.presumed[agent]; !any || claim.Taken.Before(known.Taken) {
			if c.presumed == nil {
				c.presumed = map[protocol.Subject]capacity.Claim{}
			}
			c.presumed[agent] = claim
		}
	}
}

// settle adds the presumed reservations of one source.
func (c *claims) settle() {
	for _, claim := range c.presumed {
		c.list = append(c.list, claim)
	}
	c.presumed = nil
}

// unseenFor is how long the reservations of a project count that is not scanned.
const unseenFor = time.Minute

// carryOver adds the reservations of projects that were not scanned, as right after a start: their tasks have neither gone
// nor ended.
func (c *claims) carryOver(d *decision) {
	for subject, k := range d.old.Gate.Claims {
		over := !k.Absent.IsZero() && d.now.Sub(k.Absent) >= unseenFor
		if subject.Kind == protocol.KindTask && d.snapshotOf(subject) == nil && !over {
			c.list = append(c.list, capacity.Claim{Subject: subject, Agent: k.Agent, Kind: k.Kind, Since: k.Since, Taken: k.Taken, Absent: true})
		}
	}
}

// all lists the reservations in a fixed order.
func (c *claims) all(promised []Promise) []capacity.Claim {
	list := c.list
	for i, p := range promised {
		if p.Subject.Kind != protocol.KindTask {
			list = append(list, AdmissionClaim(i, p.At))
		}
	}
	if !slices.IsSortedFunc(list, bySubject) {
		slices.SortFunc(list, bySubject)
	}
	return list
}

func bySubject(x, y capacity.Claim) int {
	a, b := &x.Subject, &y.Subject
	return cmp.Or(strings.Compare(a.Project, b.Project), strings.Compare(a.Protocol, b.Protocol),
		strings.Compare(string(a.Kind), string(b.Kind)), strings.Compare(a.ID, b.ID))
}

// AdmissionClaim is the reservation of a command that starts work by itself.
func AdmissionClaim(i int, at time.Time) capacity.Claim {
	return capacity.Claim{Subject: protocol.Subject{Kind: protocol.KindMachine, ID: fmt.Sprint(AdmissionID, "/", i)}, Since: at}
}

// AdmissionID names commands that start work by themselves.
const AdmissionID = "admission"

// longestType bounds the part of a request's type that goes into the name of a learnt cost, in characters.
const longestType = 40

// kind is the name under which the cost of the task is learnt.
func (k *taskJudge) kind() string {
	word := []rune(strings.ToValidUTF8(k.t.Type, "?"))
	parts := []string{k.s.Project, k.s.Protocol, k.t.Agent, string(word[:min(len(word), longestType)])}
	for i, part := range parts {
		parts[i] = strings.ReplaceAll(part, "/", "%2F")
	}
	return strings.Join(parts, "/")
}

// measured is what the task's own processes use: those of the claim that a worker holds, else the agent's whole tree if the
// task is all that the agent does.
func (k *taskJudge) measured() *capacity.Measured {
	if n := len(k.t.Workers); n > 1 { // the worker itself, and the process of this task
		return k.seasoned(k.env.usage(k.t.Workers[n-1], true))
	}
	if len(k.t.Workers) > 0 || len(k.agent.agent.Tasks) != 1 || !k.agent.names(k.t.ID) {
		return nil
	}
	return k.seasoned(k.env.usage(k.agent.mem.Proven, false))
}

// seasoned drops a pace that was measured too early: the first measurements still include the time before the work.
func (k *taskJudge) seasoned(m *capacity.Measured) *capacity.Measured {
	if m != nil && m.At.Sub(k.next.Running) < 2*UsageEvery {
		m.Cores = -1
	}
	return m
}
