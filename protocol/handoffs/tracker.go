package handoffs

import (
	"cmp"
	"slices"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
)

// tracker derives the events of protocol 001, Agent Events Log, from what changes between two scans. Steward does not
// report what happened before it started.
type tracker struct {
	*source
	log      *eventLog
	attempts *folder.Attempts
	handoffs map[string]*progress // by id
	statuses map[string]string    // the class of each agent's status
	compared bool                 // agent statuses were compared before, so a change can be detected
	open     map[eventKey]*openEvent
}

// progress is a handoff's progress at the last scan.
type progress struct {
	at       box
	file     string
	accepted time.Time // when it was last seen to be accepted
	seen     time.Time
}

// openEvent is an event that is not in the log yet.
type openEvent struct {
	protocol.Event
	seen time.Time
}

const (
	clientsTime = 3 * time.Second  // time for a client to log its own event; times are cut to whole seconds
	firstGrace  = 10 * time.Second // an event this shortly before the first scan is still reported
	logWithin   = 10 * time.Minute // an event that is not logged within this time is dropped
	maxOpen     = 256
)

func newTracker(s *source, log *eventLog, l *folder.Attempts) *tracker {
	return &tracker{source: s, log: log, attempts: l, handoffs: map[string]*progress{}, statuses: map[string]string{}, open: map[eventKey]*openEvent{}}
}

func (t *tracker) forget(h *handoff) {
	if g := t.handoffs[h.Value.id]; g != nil && g.file == h.file {
		delete(t.handoffs, h.Value.id)
	}
}

// report lists an event for logging, unless it is already listed.
func (t *tracker) report(name string, subject protocol.Subject, agent string, at time.Time, text string, ref protocol.Ref) {
	at = capped(at, t.Now).UTC().Truncate(time.Second) // as the log stores it
	key := eventKey{name, subject}
	if at.Before(t.Since.Truncate(time.Second)) || agent == "" || t.open[key] != nil || len(t.open) >= maxOpen {
		return
	}
	t.open[key] = &openEvent{protocol.Event{Subject: subject, Name: name, Agent: agent, At: at, Text: text, Ref: ref}, t.Now}
}

func (t *tracker) reportHandoff(name string, h *handoff, agent string, at time.Time, text string) {
	t.report(name, protocol.Subject{Kind: protocol.KindTask, ID: h.Value.id}, agent, at, text, protocol.Ref{Path: h.file, Sum: string(h.Sum)})
}

func (t *tracker) reportAgent(name, agent string, at time.Time, text string) {
	t.report(name, protocol.Subject{Kind: protocol.KindAgent, ID: agent}, agent, at, text, protocol.Ref{})
}

// follow compares a handoff with its progress at the last scan.
func (t *tracker) follow(h *handoff) {
	m, at := &h.Value, h.where()
	g := t.handoffs[m.id]
	switch {
	case g == nil:
		g = &progress{}
		t.handoffs[m.id] = g
		requeued := at == pending && len(t.attempts.Of(m.id)) > 0
		if !h.reopened && !requeued && !(h.early && t.Now.Sub(h.appeared) > firstGrace) {
			t.reportNew(h, g)
		} else if at == accepted {
			g.accepted = h.accepted()
		}
	case at == accepted && g.at != accepted && m.isWork():
		t.reportAccepted(h, g)
	}
	g.at, g.file, g.seen = at, h.file, t.Now
}

// reportNew reports a message that did not exist at the last scan. A message that is already past pending counts as
// created between the scans only if its own timestamp says so.
func (t *tracker) reportNew(h *handoff, g *progress) {
	m, at := &h.Value, h.where()
	created, recent := h.appeared, true
	if at != pending {
		created = m.created.By(h.appeared)
		began := t.began
		if began.IsZero() {
			began = t.Now
		}
		recent = !created.Before(began.Add(-firstGrace)) && t.Now.Sub(created) < logWithin
	}
	if recent {
		if m.failed {
			t.reportHandoff(eventError, h, m.from, created, cmp.Or(m.summary, m.title))
		}
		switch {
		case m.kind == typeEscalation:
			t.reportHandoff(eventEscalated, h, m.from, created, m.call.text)
		case m.kind == typeCompletion:
			t.reportAgent(eventCompleted, m.from, created, "it says that its phase is complete")
		case m.isWork():
			t.reportHandoff(eventCreated, h, m.from, created, m.title)
		}
	}
	if m.isWork() && (at == accepted || recent && at != pending) {
		t.reportAccepted(h, g)
	}
}

func (t *tracker) reportAccepted(h *handoff, g *progress) {
	at := h.accepted()
	if h.where() == accepted {
		g.accepted = at
	}
	t.reportHandoff(eventAccepted, h, h.Value.to, at, h.Value.title)
}

// acceptedAt returns when a handoff was accepted, in whole seconds: by its own timestamp, by the log, or as observed.
func (t *tracker) acceptedAt(h *handoff) (at time.Time) {
	own := h.Value.acceptedAt
	at = own.By(h.appeared)
	for _, logged := range t.log.timesOf(eventKey{eventAccepted, protocol.Subject{Kind: protocol.KindTask, ID: h.Value.id}}) {
		if own.At.IsZero() && !logged.After(h.ended()) && logged.After(at) {
			at = logged
		}
	}
	if g := t.handoffs[h.Value.id]; at.IsZero() && g != nil {
		at = g.accepted
	}
	return at.Truncate(time.Second)
}

// summary returns what the counts need from a listed message.
func (t *tracker) summary(h *handoff) *summary {
	m := &h.Value
	s := &summary{id: m.id, to: m.to, kind: m.kind, work: m.work, created: m.created, replies: m.replies}
	if m.isWork() && h.where() == completed {
		if from := t.acceptedAt(h); !from.IsZero() && h.ended().After(from) {
			s.span = h.ended().Sub(from)
		}
	}
	return s
}

// followAgents compares the agents' statuses with those of the last scan. The first scan of a process detects no changes:
// it reports an agent's status only if the agent has just set it and the log does not already end with that event.
func (t *tracker) followAgents(s *state) {
	for name := range t.statuses {
		if s.agent(name) == nil {
			delete(t.statuses, name)
		}
	}
	for i := range s.agents {
		a := &s.agents[i]
		was, known := t.statuses[a.name]
		event := a.event()
		t.statuses[a.name] = event
		recent := !a.last.At.IsZero() && !a.last.Zoneless && t.Now.Sub(a.last.At).Abs() <= firstGrace
		old := !t.compared && (!recent || t.log.last[a.name] == event)
		if event == "" || was == event || !known && (old || event == eventCompleted && !recent) {
			continue
		}
		at, text := t.Now, "its status is "+a.status
		if recent {
			at = a.last.At
		}
		if a.complaint != "" {
			text += ": " + a.complaint
		}
		t.reportAgent(event, a.name, at, text)
	}
	t.compared = true
}

// events lists the events to log, after the client has had time to log them itself. A handoff's creation comes before its
// acceptance, even if the two times come from clocks that disagree.
func (t *tracker) events() []protocol.Event {
	for key, e := range t.open {
		if t.log.has(&e.Event) || e.At.Before(t.Since.Truncate(time.Second)) || t.Now.Sub(e.seen) > logWithin {
			delete(t.open, key)
		}
	}
	orderBy := map[eventKey]time.Time{}
	var list []protocol.Event
	for key, e := range t.open {
		at := e.At
		if created := t.open[eventKey{eventCreated, e.Subject}]; created != nil && created.At.After(at) {
			at = created.At
		}
		if due := at.Add(clientsTime); t.Now.Before(due) {
			t.Patience.RetryAt(due)
			continue
		}
		orderBy[key] = at
		list = append(list, e.Event)
	}
	slices.SortFunc(list, func(a, b protocol.Event) int {
		return cmp.Or(orderBy[eventKey{a.Name, a.Subject}].Compare(orderBy[eventKey{b.Name, b.Subject}]),
			cmp.Compare(slices.Index(eventOrder, a.Name), slices.Index(eventOrder, b.Name)), cmp.Compare(a.Subject.ID, b.Subject.ID))
	})
	for id, g := range t.handoffs {
		if t.Now.Sub(g.seen) > logWithin {
			delete(t.handoffs, id)
		}
	}
	return list
}
