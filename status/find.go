package status

import (
	"errors"
	"strings"

	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor"
)

// find lists the agents, tasks and locks of a Picture that a query can mean. When nothing has that very name, the
// beginning of a task's id will do, as it stands in logs.
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

// leastPrefix is how much of an id must be given at least.
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

// only gives the one subject of several candidates. None is no error: the caller may know more.
func only(text string, found []protocol.Subject) (protocol.Subject, bool, error) {
	switch len(found) {
	case 0:
		return protocol.Subject{}, false, nil
	case 1:
		return found[0], true, nil
	}
	return protocol.Subject{}, false, ambiguous(text, names(found))
}

// names gives subjects in the form that commands take, with the protocol where two are told apart by nothing else.
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

// parse reads a subject of one kind from a URL. An empty id would mean everything, so it is refused.
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

// incident finds one by the beginning of its key, with or without "incident/" before it.
func (s *Server) incident(text string) (escalate.Incident, error) {
	q, err := parse(text, protocol.KindIncident)
	if err != nil {
		return escalate.Incident{}, err
	}
	i, err := s.Ledger.Find(q.ID)
	if !errors.Is(err, escalate.ErrAmbiguous) {
		return i, err
	}
	var keys []string
	for _, open := range s.Ledger.List() {
		if strings.HasPrefix(open.Key, q.ID) {
			keys = append(keys, open.Key)
		}
	}
	if len(keys) < 2 { // it is the resolved ones that cannot be told apart
		return i, err
	}
	return i, ambiguous(text, keys)
}
