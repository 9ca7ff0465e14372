package decide

import (
	"time"

	"github.com/livhana/steward/protocol"
)

// requests knows what was asked for last in one snapshot. It is worked out only when somebody asks.
type requests struct {
	s        *protocol.Snapshot
	payloads map[string]time.Time
	related  map[string]time.Time
}

// after says whether the orchestrator has asked for the same work again, "" if not.
func (r *requests) after(t *protocol.Task) string {
	if r.payloads == nil {
		r.count()
	}
	switch {
	case t.Payload != "" && r.payloads[t.Payload].After(t.Created):
		return "a newer request asks for the same"
	case r.related[t.ID].After(t.Created):
		return "a newer request refers to it"
	}
	return ""
}

func (r *requests) count() {
	r.payloads, r.related = map[string]time.Time{}, map[string]time.Time{}
	note := func(newest map[string]time.Time, key string, at time.Time) {
		if key != "" && at.After(newest[key]) {
			newest[key] = at
		}
	}
	for i := range r.s.Tasks {
		t := &r.s.Tasks[i]
		if t.Ref.Path == "" || t.Cancelled {
			continue
		}
		note(r.payloads, t.Payload, t.Created)
		for _, id := range t.Related {
			if id != t.ID {
				note(r.related, id, t.Created)
			}
		}
	}
}
