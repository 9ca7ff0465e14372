package handoffs

import (
	"cmp"
	"slices"
	"time"

	"github.com/livhana/steward/protocol"
)

// events derives the events of protocol 001, Agent Events Log, from what changes between two scans. Steward does not
// report what happened before it started.
type events struct {
	lives map[string]*life  // by handoff
	minds map[string]string // the class of each agent's status
	open  map[string]*happening
	heard bool // agent statuses were compared before, so a change can be detected
}

// life is a handoff's progress at the last scan.
type life struct {
	at       box
	file     string
	accepted time.Time // when it was last seen to be accepted
	seen     time.Time
}

// happening is an event that is not in the log yet.
type happening struct {
	protocol.Event
	seen time.Time
}

const (
	clientsTime = 3 * time.Second  // time for a client to log its own event; times are cut to whole seconds
	firstGrace  = 10 * time.Second // an event this shortly before the first scan is still reported
	toldWithin  = 10 * time.Minute // an event that is not logged within this time is dropped
	maxOpen     = 256
)

func newStory() events {
	return events{lives: map[string]*life{}, minds: map[string]string{}, open: map[string]*happening{}}
}

func (s *events) forget(id, file string) {
	if l := s.lives[id]; l != nil && l.file == file {
		delete(s.lives, id)
	}
}

// happened lists an event for logging, unless it is already listed.
func (p *Project) happened(name string, subject protocol.Subject, agent string, at time.Time, why string, ref protocol.Ref) {
	if at.After(p.Now) {
		at = p.Now
	}
	at = at.UTC().Truncate(time.Second) // as the log stores it
	if at.Before(p.Since.Truncate(time.Second)) || agent == "" {
		return
	}
	key := keyOf(name, string(subject.Kind), subject.ID)
	if p.story.open[key] != nil || len(p.story.open) >= maxOpen {
		return
	}
	p.story.open[key] = &happening{protocol.Event{Subject: subject, Name: name, Agent: agent, At: at, Text: why, Ref: ref}, p.Now}
}

// follow compares a handoff with its progress at the last scan.
func (p *Project) follow(n *note) {
	m, at := &n.Value, n.where()
	l := p.story.lives[m.id]
	if l == nil {
		l = &life{at: at, file: n.file}
		p.story.lives[m.id] = l
		back := at == pending && len(p.ledger.Of(m.id)) > 0 // requeued by steward
		if n.quiet || back || n.early && p.Now.Sub(n.appeared) > firstGrace {
			if at == accepted {
				l.accepted = n.accepted()
			}
		} else {
			p.tellNew(n, l)
		}
	} else if at == accepted && l.at != accepted && m.isWork() {
		p.tellAccepted(n, l)
	}
	l.at, l.file, l.seen = at, n.file, p.Now
}

// tellNew reports a message that did not exist at the last scan. A message that is already past pending counts as created
// between the scans only if its own timestamp says so.
func (p *Project) tellNew(n *note, l *life) {
	m, at := &n.Value, n.where()
	subject, ref := protocol.Subject{Kind: protocol.KindTask, ID: m.id}, protocol.Ref{Path: n.file, Sum: string(n.Sum)}
	born, young := n.appeared, true
	if at != pending {
		born = m.created.By(n.appeared)
		oldest := p.began.Add(-firstGrace)
		if p.began.IsZero() {
			oldest = p.Now.Add(-firstGrace)
		}
		young = !born.Before(oldest) && p.Now.Sub(born) < toldWithin
	}
	if !young {
		if at == accepted && m.isWork() {
			p.tellAccepted(n, l)
		}
		return
	}
	if m.failed {
		p.happened(eventError, subject, m.from, born, cmp.Or(m.summary, m.title), ref)
	}
	switch {
	case m.kind == typeEscalation:
		p.happened(eventEscalated, subject, m.from, born, m.call.text, ref)
	case m.kind == typeCompletion:
		p.happened(eventCompleted, protocol.Subject{Kind: protocol.KindAgent, ID: m.from}, m.from, born, "it says that its phase is complete", protocol.Ref{})
	case m.isWork():
		p.happened(eventCreated, subject, m.from, born, m.title, ref)
		if at != pending {
			p.tellAccepted(n, l)
		}
	}
}

func (p *Project) tellAccepted(n *note, l *life) {
	m := &n.Value
	at := n.accepted()
	if n.where() == accepted {
		l.accepted = at
	}
	p.happened(eventAccepted, protocol.Subject{Kind: protocol.KindTask, ID: m.id}, m.to, at, m.title, protocol.Ref{Path: n.file, Sum: string(n.Sum)})
}

// acceptedAt returns when a handoff was accepted, in whole seconds: by its own timestamp, by the log, or as observed.
func (p *Project) acceptedAt(n *note) (at time.Time) {
	end := n.ended()
	own := n.Value.acceptedAt
	at = own.By(n.appeared)
	for _, t := range p.log.times(eventAccepted, "task", n.Value.id) {
		if own.At.IsZero() && !t.After(end) && t.After(at) {
			at = t
		}
	}
	if l := p.story.lives[n.Value.id]; at.IsZero() && l != nil {
		at = l.accepted
	}
	return at.Truncate(time.Second)
}

// heed compares the agents' statuses with those of the last scan. The first scan of a process detects no changes: it
// reports an agent's status only if the agent has just set it and the log does not already end with that event.
func (p *Project) heed(s *state) {
	for name := range p.story.minds {
		if _, there := s.member(name); !there {
			delete(p.story.minds, name)
		}
	}
	defer func() { p.story.heard = true }()
	for i := range s.agents {
		m := &s.agents[i]
		was, known := p.story.minds[m.name]
		class := m.class()
		p.story.minds[m.name] = class
		recent := !m.last.IsZero() && !m.zoneless && p.Now.Sub(m.last).Abs() <= firstGrace
		stands := !p.story.heard && (!recent || p.log.last[m.name] == class)
		if was == class || !known && (stands || class == eventCompleted && !recent) {
			continue
		}
		at := p.Now
		if recent {
			at = m.last
		}
		switch class {
		case eventStarted, eventCompleted, eventError:
			why := "its status is " + m.status
			if m.complaint != "" {
				why += ": " + m.complaint
			}
			p.happened(class, protocol.Subject{Kind: protocol.KindAgent, ID: m.name}, m.name, at, why, protocol.Ref{})
		}
	}
}

// class returns the event that a change to the agent's status means; "" for none.
func (m *member) class() string {
	switch {
	case m.working():
		return eventStarted
	case m.completed():
		return eventCompleted
	case m.failed():
		return eventError
	}
	return ""
}

// events lists the events to log, after the client has had time to log them itself. A handoff's creation comes before its
// acceptance, even if the two times come from clocks that disagree.
func (p *Project) events() []protocol.Event {
	for key, h := range p.story.open {
		if p.log.has(&h.Event) || h.At.Before(p.Since.Truncate(time.Second)) || p.Now.Sub(h.seen) > toldWithin {
			delete(p.story.open, key)
		}
	}
	type turn struct {
		*happening
		at time.Time
	}
	var turns []turn
	for _, h := range p.story.open {
		at := h.At
		if born := p.story.open[keyOf(eventCreated, string(h.Subject.Kind), h.Subject.ID)]; born != nil && born.At.After(at) {
			at = born.At
		}
		if due := at.Add(clientsTime); p.Now.Before(due) {
			p.Patience.RetryAt(due)
			continue
		}
		turns = append(turns, turn{h, at})
	}
	slices.SortFunc(turns, func(a, b turn) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(slices.Index(inOrder, a.Name), slices.Index(inOrder, b.Name)), cmp.Compare(a.Subject.ID, b.Subject.ID))
	})
	var list []protocol.Event
	for _, t := range turns {
		list = append(list, t.Event)
	}
	for id, l := range p.story.lives {
		if p.Now.Sub(l.seen) > toldWithin {
			delete(p.story.lives, id)
		}
	}
	return list
}
