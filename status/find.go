package status

import (
	"errors"
	"strings"

	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor"
)

// find lists the agents, tasks and locks of a State that match a query. If none has exactly that name, a prefix of a
// task's id is enough, as it appears in logs.
func find(p *supervisor.State, q protocol.Query) []protocol.Subject {
	found := findExactly(p, q)
	if len(found) > 0 || len(q.ID) < leastPrefix || q.Kind != "" && q.Kind != protocol.KindTask {
		return found
	}
	for i := range p.View.Snapshots {
		snap := &p.View.Snapshots[i]
		for j := range snap.Tasks {
			id := snap.Tasks[j].ID
			full := q
			full.ID = id
			if s := snap.Subject(protocol.KindTask, id); strings.HasPrefix(id, q.ID) && full.Matches(s) {
				found = append(found, s)
			}
		}
	}
	return found
}

// leastPrefix is the minimum length of an id prefix.
const leastPrefix = 4

func findExactly(p *supervisor.State, q protocol.Query) []protocol.Subject {
	var found []protocol.Subject
	for i := range p.View.Snapshots {
		snap := &p.View.Snapshots[i]
		add := func(kind protocol.Kind, id string) {
			if s := snap.Subject(kind, id); q.Matches(s) {
				found = append(found, s)
			}
		}
		for j := range snap.Agents {
			add(protocol.KindAgent, snap.Agents[j].Name)
		}
		for j := range snap.Tasks {
			add(protocol.KindTask, snap.Tasks[j].ID)
		}
		for j := range snap.Locks {
			add(protocol.KindLock, snap.Locks[j].Resource)
		}
		for j := range snap.Questions {
			add(protocol.KindQuestion, snap.Questions[j].ID)
		}
	}
	return found
}

// only returns the single subject among the candidates. No candidate is no error: the caller may have other sources.
func only(text string, found []protocol.Subject) (protocol.Subject, bool, error) {
	switch len(found) {
	case 0:
		return protocol.Subject{}, false, nil
	case 1:
		return found[0], true, nil
	}
	return protocol.Subject{}, false, ambiguous(text, names(found))
}

// names formats subjects as commands accept them, with the protocol if only that separates two subjects.
func names(subjects []protocol.Subject) []string {
	times := map[string]int{}
	for _, s := range subjects {
		times[s.String()]++
	}
	list := make([]string, 0, len(subjects))
	for _, s := range subjects {
		name := s.String()
		if times[name] > 1 {
			name = s.Full()
		}
		list = append(list, name)
	}
	return list
}

// parse parses a subject of one kind from a URL. It refuses an empty id, which would mean all subjects.
func parse(text string, kind protocol.Kind) (protocol.Query, error) {
	q := protocol.ParseQuery(text)
	if q.ID == "" {
		return q, badRequest("use its id", "%q names nothing", text)
	}
	if q.Kind != "" && q.Kind != kind {
		return q, badRequest("use "+article(kind), "%s is no %s", text, kind)
	}
	q.Kind = kind
	return q, nil
}

func article(kind protocol.Kind) string {
	if strings.ContainsRune("aeiou", rune(kind[0])) {
		return "an " + string(kind)
	}
	return "a " + string(kind)
}

// incident finds an incident by a prefix of its key, with or without "incident/".
func (s *Server) incident(text string) (escalate.Incident, error) {
	q, err := parse(text, protocol.KindIncident)
	if err != nil {
		return escalate.Incident{}, err
	}
	i, err := s.Incidents.Find(q.ID)
	if !errors.Is(err, escalate.ErrAmbiguous) {
		return i, err
	}
	var keys []string
	for _, open := range s.Incidents.List() {
		if strings.HasPrefix(open.Key, q.ID) {
			keys = append(keys, open.Key)
		}
	}
	if len(keys) < 2 { // the ambiguous incidents are resolved ones
		return i, err
	}
	return i, ambiguous(text, keys)
}
