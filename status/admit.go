package status

import (
	"net/http"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor"
)

// AdmitOrder is the body of POST /v1/admit: a client asks to start work.
type AdmitOrder struct {
	Project  string   `json:"project,omitempty"`  // its folder, absolute
	Task     string   `json:"task,omitempty"`     // its id, when it is a task
	Throttle *float64 `json:"throttle,omitempty"` // the highest used share that it accepts
	Person   bool     `json:"person,omitempty"`   // a user at a terminal starts it: a busy processor is no reason to wait
	Look     bool     `json:"look,omitempty"`     // only query the present state; nothing will be started
	Who      string   `json:"who,omitempty"`      // the agent to be started, if there is no task
	PID      int      `json:"pid,omitempty"`      // the requesting process, which waits if there is no room
	Role     string   `json:"role,omitempty"`     // the agent that would be started for the task
}

// Admitted is the answer: whether there is room now.
type Admitted struct {
	Admit bool `json:"admit"`
	// Supervised: the project belongs to this steward. Known is false for a task that has not been scanned yet.
	Supervised bool           `json:"supervised"`
	Known      bool           `json:"known"`
	Why        string         `json:"why"`
	RetryAfter float64        `json:"retry_after_seconds"`
	Gate       *protocol.Gate `json:"gate,omitempty"`
}

func postAdmit(s *Server, r *http.Request) (any, error) {
	var o AdmitOrder
	if err := body(r, &o, `send {"project":"/path","task":"id","throttle":0.8}, each of them optional`); err != nil {
		return nil, err
	}
	a := supervisor.Admission{Project: o.Project, Task: o.Task, Person: o.Person, Look: o.Look, Who: o.Who, PID: o.PID, Role: o.Role}
	if o.Throttle != nil {
		a.Throttle = protocol.Used(*o.Throttle)
	}
	v := s.Admissions.Ask(a, s.Now())
	if v == nil {
		_, err := s.picture()
		return nil, err
	}
	answer := Admitted{Admit: v.Admit, Supervised: v.Supervised, Known: v.Known, Why: v.Why, RetryAfter: max(0, v.RetryAfter.Seconds())}
	if !v.Admit && v.Gate.Dimension != "" {
		answer.Gate = &v.Gate
	}
	return answer, nil
}

// Waiting is a client that was refused at the gate for lack of room and retries: a command that is to run as an agent,
// or an open task that a worker would take.
type Waiting struct {
	Project   string    `json:"project"` // its name, or the folder when it is not supervised
	Agent     string    `json:"agent,omitempty"`
	Task      string    `json:"task,omitempty"`
	PID       int       `json:"pid,omitempty"` // the requesting process
	Why       string    `json:"why"`
	Since     time.Time `json:"since"`
	NotBefore time.Time `json:"not_before"` // time of the next retry
}

// waiting lists the clients that wait at the gate, the longest wait first.
func (s *Server) waiting(p *supervisor.State) []Waiting {
	list := []Waiting{}
	if s.Admissions == nil {
		return list
	}
	for _, w := range s.Admissions.Asking(s.Now()) {
		if w.PID > 0 && s.Lives != nil && !s.Lives(w.PID) {
			continue
		}
		list = append(list, Waiting{Project: p.Named(w.Project), Agent: w.Who, Task: w.Task, PID: w.PID, Why: w.Why,
			Since: w.Since.UTC(), NotBefore: w.Again.UTC()})
	}
	return list
}
