package status

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor"
)

func getGoals(s *Server, _ *http.Request) (any, error) {
	p, err := s.picture()
	if err != nil {
		return nil, err
	}
	return map[string][]supervisor.Goal{"goals": p.Goals()}, nil
}

// The states by which each list can be filtered.
var (
	agentStates = []string{string(protocol.AgentStarting), string(protocol.AgentAlive), string(protocol.AgentLate), string(protocol.AgentDead),
		string(protocol.AgentHung), string(protocol.AgentPaused), string(protocol.AgentUnknown),
		string(protocol.AbsenceExpected), string(protocol.AbsenceAbsent), string(protocol.AbsenceGone), string(protocol.AbsenceLeft)}
	taskStates = []string{string(protocol.TaskPending), string(protocol.TaskDeferred), string(protocol.TaskRunning), string(protocol.TaskWaiting),
		string(protocol.TaskDone), string(protocol.TaskFailed), string(protocol.TaskDead)}
	lockStates     = []string{string(protocol.LockHeld), string(protocol.LockOverdue), string(protocol.LockStale)}
	incidentStates = []string{string(rules.Raised), string(rules.Acked), string(rules.Snoozed), string(rules.Resolved)}
)

func getAgents(s *Server, r *http.Request) (any, error) {
	state := r.URL.Query().Get("state")
	doc, err := list(s, r, "agents", agentStates, func(p *supervisor.State) []supervisor.AgentReport { return report(p).Agents },
		func(a supervisor.AgentReport) (string, string) {
			if string(a.Reason) == state { // a list shows this word instead of the state
				return a.Project, state
			}
			return a.Project, string(a.State)
		})
	if err == nil && s.Kept != nil && state == "" {
		project := r.URL.Query().Get("project")
		doc["kept_agents"] = slices.DeleteFunc(s.Kept(), func(k Kept) bool { return project != "" && k.Project != project })
	}
	return doc, err
}

func getTasks(s *Server, r *http.Request) (any, error) {
	return list(s, r, "tasks", taskStates, func(p *supervisor.State) []supervisor.TaskReport { return report(p).Tasks },
		func(t supervisor.TaskReport) (string, string) { return t.Project, string(t.State) })
}

// getLocks lists the locks in the agents' files and those that steward lock run holds.
func getLocks(s *Server, r *http.Request) (any, error) {
	all := func(p *supervisor.State) []supervisor.LockReport { return WithGranted(report(p).Locks, s.granted(p)) }
	return list(s, r, "locks", lockStates, all,
		func(l supervisor.LockReport) (string, string) { return l.Project, string(l.State) })
}

// getIncidents lists the open incidents; resolved ones only with ?state=resolved.
func getIncidents(s *Server, r *http.Request) (any, error) {
	all := s.Incidents.List
	if r.URL.Query().Get("state") == string(rules.Resolved) {
		all = s.resolved
	}
	return list(s, r, "incidents", incidentStates, func(*supervisor.State) []escalate.Incident { return all() },
		func(i escalate.Incident) (string, string) { return i.Project, string(i.State) })
}

// resolved lists the resolved incidents, the newest first.
func (s *Server) resolved() []escalate.Incident {
	var found []escalate.Incident
	for key, h := range s.Incidents.Heads() {
		if h.State != rules.Resolved {
			continue
		}
		if i, err := s.Incidents.Find(key); err == nil {
			found = append(found, i)
		}
	}
	slices.SortFunc(found, func(a, b escalate.Incident) int { return b.ResolvedAt.Compare(a.ResolvedAt) })
	return found
}

// list answers with a document of one key: the items that match ?project= and ?state=, limited to the first ?limit=, in
// which case "total" is added. An unknown project or state is an error: an empty list would read as "there are none".
func list[T any](s *Server, r *http.Request, key string, states []string, all func(*supervisor.State) []T, of func(T) (project, state string)) (map[string]any, error) {
	p, err := s.picture()
	if err != nil {
		return nil, err
	}
	project, state := r.URL.Query().Get("project"), r.URL.Query().Get("state")
	if state != "" && !slices.Contains(states, state) {
		return nil, badRequest("use one of: "+strings.Join(states, ", "), "list %s: there is no state %q", key, state)
	}
	if project != "" && !slices.ContainsFunc(p.Projects, func(d supervisor.ProjectStatus) bool { return d.Name == project }) {
		return nil, noSubject(projectsHint(p), "list %s: there is no project %q", key, project)
	}
	found := []T{}
	for _, item := range all(p) {
		in, is := of(item)
		if (project == "" || in == project) && (state == "" || is == state) {
			found = append(found, item)
		}
	}
	limit, err := limitOf(r)
	if err != nil {
		return nil, err
	}
	if limit > 0 && limit < len(found) {
		return map[string]any{key: found[:limit], "total": len(found)}, nil
	}
	return map[string]any{key: found}, nil
}

// limitOf reads ?limit=; 0 means no limit.
func limitOf(r *http.Request) (int, error) {
	text := r.URL.Query().Get("limit")
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, badRequest("use a number from 1 on", "limit=%s is not a number of items", text)
	}
	return n, nil
}

func projectsHint(p *supervisor.State) string {
	var names []string
	for _, d := range p.Projects {
		names = append(names, d.Name)
	}
	return fmt.Sprintf("the projects are: %s", strings.Join(names, ", "))
}

// ShownFaults and ShownRepairs limit how much of a screen a project takes.
const (
	ShownFaults  = 5
	ShownRepairs = 3
)

// Unusable reports whether the project's own folder cannot be used at the moment, whatever its protocol.
func Unusable(r supervisor.ProjectReport) bool {
	return len(r.Protocols) == 0 && slices.ContainsFunc(r.Faults, func(f protocol.Fault) bool { return f.Path == r.Path })
}
