package decide

import (
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
)

// add changes what the task adds to its project's tally. The goals are those of protocol 000: tasks of other protocols do
// not count.
func (k *taskJudge) add(change func(*Tally)) {
	if !k.t.Foreign {
		change(&k.tally)
	}
}

// plus is the tally with what a decision adds to it.
func (t Tally) plus(more Tally) Tally {
	return Tally{Completed: t.Completed + more.Completed, Failed: t.Failed + more.Failed, Latency: t.Latency + more.Latency,
		ForHuman: t.ForHuman + more.ForHuman, Spoken: t.Spoken + more.Spoken, Lost: t.Lost + more.Lost,
		Overloaded: t.Overloaded + more.Overloaded, Followed: t.Followed + more.Followed}
}

// History reports whether the result came before steward ever looked here: it is not steward's to count.
func (k *taskJudge) history() bool {
	return plain(k.t.Outcome.Appeared).Before(k.since.Add(-stampLag))
}

// stampLag is by how much the stamp of a file may precede its write: the kernel stamps files with a clock that advances once
// per tick, at most every 10 ms.
const stampLag = 20 * time.Millisecond

// count adds the result to the project's tally, once. A failed task that completes after all is counted again as completed.
func (k *taskJudge) count(ok bool) {
	m := &k.next
	if k.history() || m.Counted == "completed" || (m.Counted == "failed" && !ok) {
		return
	}
	k.add(func(t *Tally) {
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
func (k *taskJudge) countLoss() {
	if k.next.Lost || k.t.Foreign || !k.t.Outcome.Ours || k.history() || !isLoss(k.t.Outcome) {
		return
	}
	k.next.Lost = true
	k.add(func(t *Tally) {
		t.Lost++
		if k.overloaded() {
			t.Overloaded++
		}
	})
}

// overloaded reports whether memory or open files were over their limit at the agent's last heartbeat, or since.
func (k *taskJudge) overloaded() bool {
	full := k.env.full
	if k.agent == nil || full.IsZero() {
		return false
	}
	last := k.agent.mem.Looked.Add(-k.agent.mem.Silent)
	return !full.Before(last.Add(-k.env.cfg.LookEvery))
}

func isLoss(o *protocol.Outcome) bool { return rules.Failed(o).Code == rules.CodeAgentLost }

// countCall counts a result that asked for the user, once per run.
func (k *taskJudge) countCall() {
	if k.next.Called || k.t.Foreign || k.history() {
		return
	}
	k.next.Called = true
	k.add(func(t *Tally) { t.ForHuman++ })
}
