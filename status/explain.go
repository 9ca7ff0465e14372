package status

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor"
)

// Explanation is GET /v1/explain: why a subject is in its state. Of Agent, Task, Lock and Incident, the one that
// matches the subject is set; none is set if only the journal still knows the subject.
type Explanation struct {
	// Daemon is set if no daemon is running and only the journal on disk is cited.
	Daemon *Daemon `json:"daemon,omitempty"`

	Subject       string                  `json:"subject"`
	Kind          protocol.Kind           `json:"kind"`
	Agent         *supervisor.AgentReport `json:"agent,omitempty"`
	Kept          *Kept                   `json:"kept,omitempty"` // the agent, if this steward starts it
	Task          *supervisor.TaskReport  `json:"task,omitempty"`
	Lock          *supervisor.LockReport  `json:"lock,omitempty"`
	Incident      *escalate.Incident      `json:"incident,omitempty"`
	AgentEvidence *AgentEvidence          `json:"agent_evidence,omitempty"`
	TaskEvidence  *TaskEvidence           `json:"task_evidence,omitempty"`
	LockEvidence  *LockEvidence           `json:"lock_evidence,omitempty"`
	Plea          *protocol.Question      `json:"plea,omitempty"`
	// Findings are problems of the subject that need no repair.
	Findings []protocol.Finding `json:"findings,omitempty"`
	// Incidents are its open incidents.
	Incidents []escalate.Incident `json:"incidents"`
	// Journal are the last entries about the subject, oldest first.
	Journal []Entry `json:"journal"`
}

// explained is the number of journal entries that are cited.
const explained = 50

// getExplanation answers ?subject=; ?protocol= separates two subjects of the same name in one project.
func getExplanation(s *Server, r *http.Request) (any, error) {
	text, speaks := r.URL.Query().Get("subject"), r.URL.Query().Get("protocol")
	q := protocol.ParseQuery(text)
	if q.ID == "" {
		return nil, badRequest("use its id", "%q names nothing", text)
	}
	if q.Kind == protocol.KindIncident {
		return s.explainIncident(text)
	}
	p, err := s.picture()
	if err != nil {
		return nil, err
	}
	found := slices.DeleteFunc(s.find(p, q), func(s protocol.Subject) bool { return speaks != "" && s.Protocol != speaks })
	subject, ok, err := only(text, found)
	if err != nil {
		return nil, err
	}
	if ok {
		return s.explainSubject(p, subject)
	}
	if kept, ok, _ := s.keptAgent(text, q); ok && (q.Kind == "" || q.Kind == protocol.KindAgent) {
		return s.explainSubject(p, kept.subject()) // its protocol's files do not name it yet
	}
	if q.Kind == "" {
		if e, err := s.explainIncident(text); !errors.Is(err, escalate.ErrUnknown) {
			return e, err
		}
	}
	return s.explainPast(text)
}

func (s *Server) explainSubject(p *supervisor.State, subject protocol.Subject) (any, error) {
	e := Explanation{Subject: s.nameOf(p, subject), Kind: subject.Kind, Incidents: []escalate.Incident{}}
	e.show(p, subject, s.Now())
	if kept, ok, _ := s.keptAgent("", protocol.Query{Project: subject.Project, ID: subject.ID}); ok && subject.Kind == protocol.KindAgent {
		e.Kept = &kept
	}
	if subject.Kind == protocol.KindLock {
		e.showGranted(subject, s.granted(p))
	}
	e.Findings = findingsOf(p, subject)
	for _, i := range s.Incidents.List() {
		if i.Subject() == subject {
			e.Incidents = append(e.Incidents, i)
		}
	}
	return s.cite(e, func(entry *supervisor.Entry) bool {
		speaks := entry.Protocol
		return entry.About == subject.String() && (speaks == "" || speaks == subject.Protocol)
	})
}

// nameOf is the shortest form that identifies this subject uniquely.
func (s *Server) nameOf(p *supervisor.State, subject protocol.Subject) string {
	if len(s.find(p, protocol.Query{Project: subject.Project, Kind: subject.Kind, ID: subject.ID})) > 1 {
		return subject.Full()
	}
	return subject.String()
}

// find is the function find, plus the locks that steward lock run holds; if such a lock matches, prefixes do not count.
func (s *Server) find(p *supervisor.State, q protocol.Query) []protocol.Subject {
	if granted := s.grantedTo(p, q); len(granted) > 0 {
		return append(findExactly(p, q), granted...)
	}
	return find(p, q)
}

// show sets the verdict and the evidence.
func (e *Explanation) show(p *supervisor.State, subject protocol.Subject, now time.Time) {
	r := report(p)
	switch subject.Kind {
	case protocol.KindAgent:
		e.Agent = pick(r.Agents, func(a *supervisor.AgentReport) bool {
			return a.Project == subject.Project && a.Protocol == subject.Protocol && a.Name == subject.ID
		})
		e.AgentEvidence = agentEvidence(p, subject)
	case protocol.KindTask:
		e.Task = pick(r.Tasks, func(t *supervisor.TaskReport) bool {
			return t.Project == subject.Project && t.Protocol == subject.Protocol && t.ID == subject.ID
		})
		e.TaskEvidence = taskEvidence(p, subject, now)
	case protocol.KindLock:
		e.Lock = pick(r.Locks, func(l *supervisor.LockReport) bool {
			return l.Project == subject.Project && l.Protocol == subject.Protocol && l.Resource == subject.ID
		})
		e.LockEvidence = lockEvidence(p, subject)
	case protocol.KindQuestion:
		e.Plea = pleaIn(p, subject)
	}
}

func pick[T any](list []T, is func(*T) bool) *T {
	for i := range list {
		if is(&list[i]) {
			return &list[i]
		}
	}
	return nil
}

func (s *Server) explainIncident(text string) (any, error) {
	i, err := s.incident(text)
	if err != nil {
		return nil, err
	}
	e := Explanation{Subject: "incident/" + i.Key, Kind: protocol.KindIncident, Incident: &i, Incidents: []escalate.Incident{}}
	return s.cite(e, func(entry *supervisor.Entry) bool { return entry.Incident == i.Key })
}

// explainPast explains a subject that is no longer in the files, from the journal.
func (s *Server) explainPast(text string) (any, error) {
	subjects, match, err := s.remembered(text)
	switch {
	case err != nil:
		return nil, err
	case len(subjects) == 0:
		return nil, unknownToAll(text)
	case len(subjects) > 1:
		return nil, ambiguous(text, subjects)
	}
	return s.cite(Explanation{Subject: subjects[0], Kind: protocol.ParseQuery(subjects[0]).Kind, Incidents: []escalate.Incident{}}, match)
}

func (s *Server) cite(e Explanation, match func(*supervisor.Entry) bool) (any, error) {
	entries, err := s.Journal.Read(explained, match)
	if err != nil {
		return nil, err
	}
	e.Journal = showEntries(entries)
	e.nameGate()
	return e, nil
}

// AgentEvidence is the basis of the verdict on an agent. Durations are awake time in seconds.
type AgentEvidence struct {
	Reason   protocol.Reason `json:"reason"`
	Since    *time.Time      `json:"since"`    // of its state
	Deadline *time.Time      `json:"deadline"` // when the state changes if nothing else happens
	Proof    bool            `json:"proof"`    // dead by proof of death rather than by silence
	Silent   float64         `json:"silent"`
	Late     float64         `json:"late_after"`
	Dead     float64         `json:"dead_after"`
	Hung     float64         `json:"hung_after"` // inactivity limit for an agent that has no task in hand
	Still    float64         `json:"still"`      // how long its processes have shown no activity
	Beats    int             `json:"beats"`      // observed by steward
	LastGap  float64         `json:"last_gap"`
	Longest  float64         `json:"longest_gap"`
	Observed float64         `json:"observed"`
	Covered  float64         `json:"covered"` // the part of Observed in which its heartbeat was recent enough
	First    *time.Time      `json:"first_seen"`
	Process  *int            `json:"process"` // the pid whose end would prove its death
	Recorded string          `json:"recorded"`
	Held     string          `json:"held,omitempty"`
}

func agentEvidence(p *supervisor.State, subject protocol.Subject) *AgentEvidence {
	v, m := p.Plan.Agents.Of(subject), p.Plan.Memory.Agents.Of(subject)
	a, ok := snapshotOf(p, subject).Agent(subject.ID)
	if !ok {
		a = &protocol.Agent{Name: subject.ID}
	}
	limits := p.Config.Heartbeat.Of(subject.Protocol, a)
	e := &AgentEvidence{Reason: v.Reason, Since: instant(v.Since), Deadline: instant(v.Deadline), Proof: v.Proof, Silent: v.Silent.Seconds(),
		Late: limits.Late.Seconds(), Dead: limits.Dead.Seconds(), Hung: limits.Hung.Seconds(), Still: m.Still.Seconds(), Beats: m.Beats, LastGap: m.LastGap.Seconds(), Longest: m.LongestGap.Seconds(),
		Observed: m.Observed.Seconds(), Covered: m.Covered.Seconds(), First: instant(m.First)}
	if m.Proven.PID > 0 {
		e.Process = &m.Proven.PID
	}
	e.Recorded, e.Held = a.Recorded, a.Held
	return e
}
