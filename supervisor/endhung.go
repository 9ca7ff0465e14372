package supervisor

import (
	"fmt"
	"slices"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor/decide"
)

// toEnd lists what is still to be ended of the plan: each hanging once. What was ended is kept in mind until the agent was
// judged anew, or is forgotten; a decision that lacks its project says nothing of it. A steward that starts in between
// orders it again: what has ended meanwhile it finds gone.
func (s *loop) toEnd(plan decide.Plan) []decide.End {
	for subject, since := range s.ended {
		v, judged := plan.Agents.Find(subject)
		_, known := plan.Memory.Agents.Find(subject)
		if judged && (v.State != protocol.AgentHung || !v.Since.Equal(since)) || !known {
			delete(s.ended, subject)
		}
	}
	return slices.DeleteFunc(slices.Clone(plan.Ends), func(e decide.End) bool {
		_, done := s.ended[e.Subject]
		return done
	})
}

// endHung has the processes ended that were asked for, and notes each before. The memory is on disk by then.
func (s *loop) endHung(list []decide.End) {
	for _, e := range list {
		if s.ended == nil {
			s.ended = map[protocol.Subject]time.Time{}
		}
		s.ended[e.Subject] = e.Since
		for _, id := range e.Roots {
			s.deps.Note(Entry{At: s.now(), Kind: "change", Subject: e.Subject, Verb: "end", State: string(protocol.AgentHung), Reason: string(protocol.ReasonSilent),
				Text: fmt.Sprintf("process %d and all below it are ended: %s", id.PID, e.Why)})
			s.log.Warn("ending a hung agent", "subject", e.Subject.String(), "pid", id.PID, "why", e.Why)
			s.deps.Stop(id, e.Why)
		}
	}
}
