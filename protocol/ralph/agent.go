package ralph

import (
	"fmt"
	"slices"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// agents lists the orchestrator, if it has a pid file, and the workers that are of interest.
func (v kanbanView) agents(verdicts map[string]verdict) (list []protocol.Agent) {
	if o := v.orchestrator; o.claimed() {
		if o.presence == protocol.PresenceGone {
			o.evidence += v.waiting(verdicts)
		}
		list = append(list, protocol.Agent{Name: orchestratorName, Processes: protocol.Processes{PID: o.pid, Process: o.leader}, Presence: o.presence, Evidence: o.evidence})
	}
	for _, w := range v.workers.live {
		d, inHand := verdicts[w.task]
		if !v.isShown(w, inHand) {
			continue
		}
		a := v.agent(w)
		switch {
		case a.Presence == protocol.PresenceHere:
		case inHand:
			a.Presence, a.Evidence, a.Idle = d.presence, d.evidence, d.idle
		default: // the worker has ended and its task is not in progress: expect nothing from it
			a.Idle, a.Tasks = true, nil
		}
		list = append(list, a)
	}
	return list
}

// waiting says which tasks wait for an orchestrator: those that it may start, and those whose worker is lost; "" if none does.
func (v kanbanView) waiting(verdicts map[string]verdict) string {
	ready, lost := 0, 0
	for _, e := range v.board.open {
		if e.marker == todo && len(v.unmet(e)) == 0 {
			ready++
		} else if verdicts[e.id].lost != "" {
			lost++
		}
	}
	if ready+lost == 0 {
		return ""
	}
	return fmt.Sprintf("; tasks that wait for it: %d to do, %d lost", ready, lost)
}

// unmet lists the dependencies that keep the program from starting a task (protocol 002, Status Updates: only [x] satisfies them).
func (v kanbanView) unmet(e *entry) (list []string) {
	for _, id := range e.related {
		if dep := v.board.byID[id]; dep != nil && dep.marker != complete {
			list = append(list, fmt.Sprintf("%s is [%c]", id, dep.marker))
		}
	}
	return list
}

// isShown reports whether a worker is shown as an agent: it is at work, or the newest of a task in progress, or has a pid
// file and its task is to do, or failed or was dropped recently.
func (v kanbanView) isShown(w *worker, inHand bool) bool {
	if w.session.presence == protocol.PresenceHere || v.workers.newest(w.task) != w {
		return w.session.presence == protocol.PresenceHere
	}
	e := v.board.byID[w.task]
	return inHand || w.hasPID && e != nil && (e.marker == todo || (e.marker == failed || e.marker == dropped) && e.news)
}

// statusOf maps each of the three pid files to the agent's status while the file's process lives.
var statusOf = map[string]string{pidFiles[0]: "running", pidFiles[1]: "resuming", pidFiles[2]: "deciding"}

func (v kanbanView) agent(w *worker) protocol.Agent {
	s := &w.session
	a := protocol.Agent{Name: w.name, Processes: protocol.Processes{PID: s.pid, Process: s.leader, Orphans: slices.Clone(s.orphans)}, Tasks: []string{w.task}, Status: statusOf[s.leading],
		Presence: s.presence, Evidence: s.evidence}
	if w.plan {
		a.Status = "planning"
	}
	signs := fmt.Sprint(w.touched, w.checkpoint.Stamp.MtimeNs, w.blocked.Stamp.MtimeNs)
	if e := v.events.of[w.name]; e != nil {
		signs += fmt.Sprint(e.n, e.at.UnixNano(), e.event)
	}
	a.Signs = string(jsonfile.SumOf([]byte(signs)))
	return a
}

// agentFindings reports the processes that a worker left behind, and its newest error.
func (v kanbanView) agentFindings(w *worker) (list []protocol.Finding) {
	subject, s := protocol.Subject{Kind: protocol.KindAgent, ID: w.name}, &w.session
	if left := slices.Concat(s.orphans, s.strays); len(left) > 0 {
		text := fmt.Sprintf("its leader %d is gone, and %d processes of its session go on: %s", s.pid, len(left), v.table.describe(left, true))
		if len(s.strays) > 0 {
			text += fmt.Sprintf("; steward does not end %s: %s", v.table.describe(s.strays, false), s.why)
		}
		list = append(list, protocol.Finding{Subject: subject, Code: "orphans", Severity: protocol.High, Text: text})
	}
	if e := v.events.of[w.name]; e != nil && e.error != "" && isRecent(e.failed, v.Since) {
		list = append(list, protocol.Finding{Subject: subject, Code: "error", Severity: protocol.Medium, Call: true, Text: e.error})
	}
	return list
}
