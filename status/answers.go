package status

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/livhana/steward/escalate"
)

// Answer is the body of POST /v1/incidents/{key}/answer.
type Answer struct {
	Option string `json:"option"`
	Why    string `json:"why,omitempty"`
	By     string `json:"by,omitempty"`  // the answering user; "" is the user of the configuration
	Rev    int    `json:"rev,omitempty"` // of the incident as it was read; 0: any
	// Stop tells the agent to end its task; Requirements replace what was asked of it.
	Stop         bool     `json:"stop,omitempty"`
	Requirements []string `json:"requirements,omitempty"`
}

// Snooze is the body of POST /v1/incidents/{key}/snooze.
type Snooze struct {
	Seconds float64 `json:"seconds"`
}

// LongestSnooze limits the effect of a typing error.
const LongestSnooze = 30 * 24 * time.Hour

func postAnswer(s *Server, r *http.Request) (any, error) {
	var a Answer
	if err := demand(r, &a, `send {"option":"…","why":"…"}`); err != nil {
		return nil, err
	}
	i, err := s.incident(r.PathValue("key"))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), commandTime)
	defer cancel()
	i, err = s.Reply(ctx, i.Key, escalate.Reply{Option: a.Option, Why: a.Why, By: a.By, Rev: a.Rev, Via: escalate.ViaCommand, Stop: a.Stop, Requirements: a.Requirements})
	if err != nil {
		return nil, err
	}
	return map[string]any{"incident": i}, nil
}

func postSnooze(s *Server, r *http.Request) (any, error) {
	var z Snooze
	const hint = `send {"seconds":N}, at most 30 days`
	if err := demand(r, &z, hint); err != nil {
		return nil, err
	}
	if z.Seconds <= 0 || z.Seconds > LongestSnooze.Seconds() {
		return nil, badRequest(hint, "%g seconds cannot be snoozed", z.Seconds)
	}
	i, err := s.incident(r.PathValue("key"))
	if err != nil {
		return nil, err
	}
	i, err = s.Incidents.Snooze(i.Key, s.Now().Add(time.Duration(z.Seconds*float64(time.Second))))
	if err != nil {
		return nil, err
	}
	return map[string]any{"incident": i}, nil
}

// demand reads the required body of a POST.
func demand(r *http.Request, into any, hint string) error {
	err := body(r, into, hint)
	if errors.Is(err, io.EOF) {
		return badRequest(hint, "the request has no body")
	}
	return err
}

// body reads the body of a POST; io.EOF if none exists.
func body(r *http.Request, into any, hint string) error {
	dec := json.NewDecoder(r.Body)
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); errors.Is(err, io.EOF) {
		return io.EOF
	} else if err != nil {
		return badRequest(hint, "read the request: %v", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return badRequest(hint, "read the request: something stands after the document")
	}
	return nil
}
