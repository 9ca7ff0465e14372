package status

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor"
)

// Order is the optional body of every POST.
type Order struct {
	Why string `json:"why,omitempty"` // goes into the journal
}

// Carried is the answer to a command that was carried out.
type Carried struct {
	Verb    string `json:"verb"`
	Subject string `json:"subject,omitempty"` // empty: all
	// Notes are further remarks for the user.
	Notes []string `json:"notes,omitempty"`
}

// commandOn handles a command about one task or agent. The name is resolved here, so that the error for an ambiguous name
// can list the candidates; a name that the State does not contain yet is left to the loop.
func commandOn(verb string, kind protocol.Kind) handler {
	return func(s *Server, r *http.Request) (any, error) {
		text := r.PathValue("subject")
		q, err := parse(text, kind)
		if err != nil {
			return nil, err
		}
		o, err := order(r)
		if err != nil {
			return nil, err
		}
		if kind == protocol.KindAgent {
			if done, err := s.holdKept(verb, q, o.Why); done != nil || err != nil {
				return done, err
			}
		}
		if p := s.State(); p != nil {
			subject, ok, err := only(text, find(p, q))
			if err != nil {
				return nil, err
			}
			if ok {
				q = protocol.Query(subject)
			}
		}
		return s.carryOut(r, o, verb, q, protocol.Subject(q).String())
	}
}

// postRestart handles the restart of one agent that this steward starts.
func postRestart(s *Server, r *http.Request) (any, error) {
	text := r.PathValue("subject")
	q, err := parse(text, protocol.KindAgent)
	if err != nil {
		return nil, err
	}
	agent, ok, err := s.keptAgent(text, q)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, s.notKept(text, q)
	}
	o, err := order(r)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), commandTime)
	defer cancel()
	now, err := s.Restart(ctx, agent, o.Why)
	if err != nil {
		return nil, err
	}
	done := Carried{Verb: "restart", Subject: agent.subject().String()}
	if now.Why != "" {
		done.Notes = []string{"it is " + now.State + ": " + now.Why}
	}
	return done, nil
}

func (a Kept) subject() protocol.Subject {
	return protocol.Subject{Project: a.Project, Kind: protocol.KindAgent, ID: a.Agent}
}

// keptAgent finds the one agent that this steward starts and that the query names.
func (s *Server) keptAgent(text string, q protocol.Query) (agent Kept, ok bool, err error) {
	if s.Kept == nil {
		return agent, false, nil
	}
	var found []protocol.Subject
	for _, a := range s.Kept() {
		if a.Agent == q.ID && (q.Project == "" || a.Project == q.Project) {
			found, agent = append(found, a.subject()), a
		}
	}
	_, ok, err = only(text, found)
	return agent, ok, err
}

// holdKept holds or releases an agent whose protocol cannot record that; nil for every other agent.
func (s *Server) holdKept(verb string, q protocol.Query, why string) (any, error) {
	agent, ok, err := s.keptAgent(q.ID, q)
	if !ok || err != nil {
		return nil, nil // the loop knows more agents
	}
	handled, err := s.HoldKept(agent, verb == "hold", why)
	if !handled || err != nil {
		return nil, err
	}
	return Carried{Verb: verb, Subject: agent.subject().String()}, nil
}

// notKept says why an agent cannot be restarted: another program started it, or it does not exist.
func (s *Server) notKept(text string, q protocol.Query) *Error {
	if p := s.State(); p != nil && len(find(p, q)) > 0 {
		return &Error{Code: CodeRefused, Status: http.StatusConflict, Message: fmt.Sprintf("no [[agent]] or [[role]] row starts %s, so steward cannot restart it", text),
			Hint: "restart it where it was started (steward exec: in its terminal), or add an [[agent]] row"}
	}
	return noSubject("see 'steward agents' for what there is", "there is no agent %s", text)
}

// commandOnProject handles a command about one project, by its verbatim name: a name may look like any other syntax.
func commandOnProject(verb string) handler {
	return func(s *Server, r *http.Request) (any, error) {
		name := r.PathValue("name")
		if q := protocol.ParseQuery(name); q.Kind == protocol.KindProject {
			name = q.ID
		}
		if name == "" {
			return nil, badRequest("use its name", "no project is named")
		}
		return s.order(r, verb, protocol.Query{Kind: protocol.KindProject, ID: name}, "project/"+name)
	}
}

func commandOnAll(verb string) handler {
	return func(s *Server, r *http.Request) (any, error) { return s.order(r, verb, protocol.Query{}, "") }
}

// order reads the order and carries it out.
func (s *Server) order(r *http.Request, verb string, q protocol.Query, subject string) (any, error) {
	o, err := order(r)
	if err != nil {
		return nil, err
	}
	return s.carryOut(r, o, verb, q, subject)
}

func (s *Server) carryOut(r *http.Request, o Order, verb string, q protocol.Query, subject string) (any, error) {
	ctx, cancel := context.WithTimeout(r.Context(), commandTime)
	defer cancel()
	if err := s.Do(ctx, supervisor.Command{Verb: verb, Subject: q, Why: o.Why}); err != nil {
		return nil, err
	}
	return Carried{Verb: verb, Subject: subject}, nil
}

func postAck(s *Server, r *http.Request) (any, error) {
	if _, err := order(r); err != nil {
		return nil, err
	}
	i, err := s.incident(r.PathValue("key"))
	if err != nil {
		return nil, err
	}
	i, err = s.Incidents.Ack(i.Key, s.Escalate(), s.Now())
	if err != nil {
		return nil, err
	}
	return map[string]any{"incident": i}, nil
}

// postReload reports an invalid configuration as such: the old configuration stays in force.
func postReload(s *Server, r *http.Request) (any, error) {
	if _, err := order(r); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), commandTime)
	defer cancel()
	notes, err := s.Reload(ctx)
	if err == nil {
		return Carried{Verb: "reload", Notes: notes}, nil
	}
	if e := answerFor(err); e.Code != CodeInternal && e.Code != CodeRefused {
		return nil, e
	}
	return nil, &Error{Code: CodeRefused, Status: http.StatusConflict, Message: err.Error(), Hint: "the former configuration stays in force"}
}

// order reads the body of a POST. It may be missing; unknown content is refused rather than ignored.
func order(r *http.Request) (Order, error) {
	const hint = `send nothing, or {"why":"…"} of at most 4 KiB`
	var o Order
	if err := body(r, &o, hint); err != nil && !errors.Is(err, io.EOF) {
		return o, err
	}
	return o, nil
}
