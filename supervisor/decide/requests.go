package decide

import (
	"time"

	"github.com/livhana/steward/protocol"
)

// requests knows what was asked for last in one snapshot. It is worked out only when somebody asks.
type requests struct {
	s        *protocol.Snapshot
	payloads map[string]*protocol.Task
	related  map[string]time.Time
}

// after says whether the orchestrator has asked for the same work again, "" if not.
func (r *requests) after(t *protocol.Task) string {
	if r.payloads == nil {
		r.count()
	}
	switch {
	case t.Payload != "" && newer(r.payloads[t.Payload], t):
		return "a newer request asks for the same"
	case r.related[t.ID].After(t.Created):
		return "a newer request refers to it"
	}
	return ""
}

func (r *requests) count() {
	r.payloads, r.related = map[string]*protocol.Task{}, map[string]time.Time{}
	for i := range r.s.Tasks {
		t := &r.s.Tasks[i]
		if t.Ref.Path == "" || t.Cancelled {
			continue
		}
		if last := r.payloads[t.Payload]; t.Payload != "" && (last == nil || newer(t, last)) {
			r.payloads[t.Payload] = t
		}
		for _, id := range t.Related {
			if id != t.ID && t.Created.After(r.related[id]) {
				r.related[id] = t.Created
			}
		}
	}
}

// newer reports whether t was asked for after other. Clients state whole seconds, so two requests of one second are told
// apart by their ids: which of them counts as the newer one does not matter, as long as it is only one.
func newer(t, other *protocol.Task) bool {
	if t == nil {
		return false
	}
	return t.Created.After(other.Created) || t.Created.Equal(other.Created) && t.ID > other.ID
}
