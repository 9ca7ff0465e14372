package handoffs

import (
	"time"
)

// times holds one time per name. A time only advances.
type times map[string]time.Time

func (t times) advance(name string, at time.Time) {
	if old, known := t[name]; name != "" && at.After(old) && (known || len(t) < 2*maxEntries) {
		t[name] = at
	}
}

// signs are signs of the agents' life outside their own entries. What other agents do with a message, and its removal
// from the list, are no signs of life.
type signs struct {
	sent map[string]string // the newest message of each agent
	took times             // when each agent last took a handoff
}

func newSigns() *signs { return &signs{map[string]string{}, times{}} }

// addSent records a message as its sender's newest.
func (s *signs) addSent(m *handoffMessage) {
	newest := m.created.At.Format("20060102150405.000") + " " + m.id
	if m.from != "" && newest > s.sent[m.from] && len(s.sent) < 2*maxEntries {
		s.sent[m.from] = newest
	}
}

// addTaken records when an agent last took a handoff: the newest time at which a file arrived among the accepted ones, or
// changed there. The time only advances, so a handoff that leaves, or that steward requeues, is no sign of life.
func (s *signs) addTaken(h *handoff) {
	if h.where() != accepted {
		return
	}
	at := arrived(h.Stamp)
	if h.Stamp.CtimeNs == 0 && !h.early {
		at = h.noticed // without a change time, a rename leaves no trace in the file
	}
	s.took.advance(h.Value.to, at)
}
