package decide

import (
	"time"

	"github.com/livhana/steward/protocol"
)

// completed is the verdict on a task that ended well.
var completed = TaskVerdict{State: protocol.TaskDone, Reason: protocol.ReasonCompleted, Why: "completed"}

// settles reports whether the task was completed by the result that lies there, and nothing was left to do about it. Most
// tasks of a project are settled, and each costs a decision no more than this. Once a day one is looked at all the same, so
// that it is known when it was last seen.
func (m *TaskMemory) settles(t *protocol.Task, at time.Time) bool {
	return m != nil && m.Settled != "" && at.Sub(m.Looked) < 24*time.Hour && t.Outcome != nil && t.Outcome.Ref.Sum == m.Settled && t.Hold == nil && t.Late == nil && !t.Reopened &&
		!t.Cancelled && !t.Outcome.Unrecorded && m.Run == 1+len(Committed(t)) && (!t.Foreign || m.Asked == t.Ref.Sum)
}

// settledBy is the sum of the result that settles the task, "" while something is still to be done about it.
func (k *taskJudge) settledBy() string {
	o := k.t.Outcome
	if k.verdict != completed || k.unsettled || o == nil || !o.Succeeded() || len(o.ForHuman) > 0 || k.t.Cancelled || k.t.Late != nil || k.t.Hold != nil {
		return ""
	}
	return o.Ref.Sum
}
