package status

import (
	"errors"
	"slices"
	"strings"

	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor"
)

// EntriesAbout returns a filter for journal entries about what a user typed: an agent, a task, a lock, or an incident
// by a prefix of its key. An empty text matches every entry.
func EntriesAbout(text string) func(*supervisor.Entry) bool {
	q := protocol.ParseQuery(text)
	switch {
	case text == "":
		return func(*supervisor.Entry) bool { return true }
	case q.Kind == protocol.KindIncident:
		return func(e *supervisor.Entry) bool { return e.Incident != "" && strings.HasPrefix(e.Incident, q.ID) }
	}
	return func(e *supervisor.Entry) bool {
		about := protocol.ParseQuery(e.About)
		return q.Matches(protocol.Subject{Project: about.Project, Protocol: e.Protocol, Kind: about.Kind, ID: about.ID}) || q.Kind == "" && e.Incident == q.ID
	}
}

// concerning is EntriesAbout for a name that must exist: a current agent, task, lock, question, incident or project, or
// one that only the journal knows. As for explain, a prefix of a task's id or of an incident's key is enough. It
// returns an *Error if the name is unknown or the prefix is ambiguous.
func (s *Server) concerning(text string) (func(*supervisor.Entry) bool, error) {
	if text == "" {
		return EntriesAbout(text), nil
	}
	q, p := protocol.ParseQuery(text), s.State()
	switch {
	case q.ID == "":
		return nil, badRequest("use its id", "%q names nothing", text)
	case q.Kind != protocol.KindIncident && p != nil:
		if len(s.grantedTo(p, q)) > 0 {
			return EntriesAbout(text), nil
		}
		subject, ok, err := only(text, begins(p, q))
		switch {
		case err != nil:
			return nil, err
		case ok:
			return EntriesAbout(subject.Full()), nil
		case isThere(p, q):
			return EntriesAbout(text), nil
		}
	}
	if q.Kind == protocol.KindIncident {
		if match, err := s.concerningIncident(text); !errors.Is(err, escalate.ErrUnknown) {
			return match, err
		}
	}
	names, match, err := s.remembered(text)
	if err != nil || len(names) > 0 {
		return match, err
	}
	if q.Kind == "" {
		if match, err := s.concerningIncident(text); !errors.Is(err, escalate.ErrUnknown) {
			return match, err
		}
	}
	if p == nil {
		_, err = s.picture()
		return nil, err
	}
	return nil, unknownToAll(text)
}

func (s *Server) concerningIncident(text string) (func(*supervisor.Entry) bool, error) {
	i, err := s.incident(text)
	return EntriesAbout("incident/" + i.Key), err
}

// isThere reports whether a current subject has exactly that name.
func isThere(p *supervisor.State, q protocol.Query) bool {
	if len(findExactly(p, q)) > 0 {
		return true
	}
	return slices.ContainsFunc(p.Projects, func(d supervisor.ProjectStatus) bool {
		return q.Matches(protocol.Subject{Project: q.Project, Protocol: q.Protocol, Kind: protocol.KindProject, ID: d.Name})
	})
}

// begins lists the subjects that a query matches only by a prefix of the id.
func begins(p *supervisor.State, q protocol.Query) []protocol.Subject {
	if isThere(p, q) {
		return nil
	}
	return find(p, q)
}

// remembered looks a name up in the journal: the subjects of entries with exactly that name, else the one task whose id
// has it as a prefix. match selects those entries. If several tasks match, it returns an *Error.
func (s *Server) remembered(text string) (names []string, match func(*supervisor.Entry) bool, err error) {
	q := protocol.ParseQuery(text)
	match = EntriesAbout(text)
	var begun []string
	note := func(list *[]string, name string) {
		if !slices.Contains(*list, name) {
			*list = append(*list, name)
		}
	}
	// One pass for both, without keeping entries: the journal may be long.
	_, err = s.Journal.Read(1, func(e *supervisor.Entry) bool {
		switch about := protocol.ParseQuery(e.About); {
		case match(e):
			note(&names, e.About)
		case len(q.ID) >= leastPrefix && about.Kind == protocol.KindTask && strings.HasPrefix(about.ID, q.ID):
			full := q
			full.ID = about.ID
			if full.Matches(protocol.Subject{Project: about.Project, Protocol: e.Protocol, Kind: about.Kind, ID: about.ID}) {
				note(&begun, e.About)
			}
		}
		return false
	})
	switch {
	case err != nil || len(names) > 0:
		return names, match, err
	case len(begun) > 1:
		return nil, nil, ambiguous(text, begun)
	case len(begun) == 1:
		return begun, EntriesAbout(begun[0]), nil
	}
	return nil, match, nil
}

// unknownToAll is the error for a name that neither the files nor the journal know.
func unknownToAll(text string) *Error {
	return noSubject("see 'steward status' for what there is", "there is no %s, and the journal does not know it", text)
}
