package decide

import (
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
)

// tally changes the project's counts.
func (k *taskLook) tally(change func(*Tally)) {
	if k.t.Foreign {
		change(&Tally{}) // the goals are those of protocol 000
		return
	}
	p := k.d.plan.Memory.Projects[k.s.Project]
	change(&p.Tally)
	k.d.setProject(&k.d.plan.Memory, k.s.Project, p)
}

// History reports whether the result came before steward ever looked here: it is not steward's to count.
func (k *taskLook) history() bool {
	return plain(k.t.Outcome.Appeared).Before(k.since.Add(-stampLag))
}

// stampLag is by how much a file's stamp may lie before the moment it was written: the kernel takes it from a clock that
// advances once a tick, at most every 10 ms.
const stampLag = 20 * time.Millisecond

// count puts the result into the project's tally, once. A failed task that comes right after all moves over.
func (k *taskLook) count(ok bool) {
	m := &k.mem
	if k.history() || m.Counted == "completed" || (m.Counted == "failed" && !ok) {
		return
	}
	k.tally(func(t *Tally) {
		switch {
		case m.Counted == "failed":
			t.Failed--
		case m.News:
			t.Followed++
		}
		t.Latency -= m.Latency
		m.Counted, m.Latency = "failed", 0
		if ok {
			m.Counted = "completed"
		}
		if from, to := k.t.Created, k.t.Outcome.Appeared; !from.IsZero() && to.After(from) {
			m.Latency = max(0, to.Sub(from)-m.Withheld)
		}
		t.Latency += m.Latency
		if ok {
			t.Completed++
		} else {
			t.Failed++
		}
	})
}

// countLoss counts a run that was lost with its agent, once.
func (k *taskLook) countLoss() {
	if k.mem.Lost || k.t.Foreign || !k.t.Outcome.Ours || k.history() || !isLoss(k.t.Outcome) {
		return
	}
	k.mem.Lost = true
	k.tally(func(t *Tally) {
		t.Lost++
		if k.overloaded() {
			t.Overloaded++
		}
	})
}

// overloaded reports whether memory or open files were over their limit at the agent's last beat, or since.
func (k *taskLook) overloaded() bool {
	full := k.d.plan.Memory.Full
	if k.agent == nil || full.IsZero() {
		return false
	}
	last := k.agent.mem.Looked.Add(-k.agent.mem.Silent)
	return !full.Before(last.Add(-k.d.cfg.LookEvery))
}

func isLoss(o *protocol.Outcome) bool { return rules.Failed(o).Code == rules.CodeAgentLost }

// countCall counts a result that called for a human, once per run.
func (k *taskLook) countCall() {
	if k.mem.Called || k.t.Foreign || k.history() {
		return
	}
	k.mem.Called = true
	k.tally(func(t *Tally) { t.ForHuman++ })
}
