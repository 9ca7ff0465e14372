package status

import (
	"context"
	"net/http"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor"
)

// ModeOrder is the body of a POST that sets what steward does by itself in one protocol of a project.
type ModeOrder struct {
	Protocol string        `json:"protocol"`
	Mode     protocol.Mode `json:"mode"` // "" ends the order: the configured mode is in force again
	Why      string        `json:"why,omitempty"`
}

// postMode handles the order about a protocol's mode in a project, by the project's verbatim name.
func postMode(s *Server, r *http.Request) (any, error) {
	const hint = `send {"protocol":"ralph","mode":"observe"|"ask"|"act"|""}`
	var o ModeOrder
	if err := body(r, &o, hint); err != nil {
		return nil, err
	}
	switch o.Mode {
	case "", protocol.ModeObserve, protocol.ModeAsk, protocol.ModeAct:
	default:
		return nil, badRequest(hint, "%q is not a mode", o.Mode)
	}
	if o.Protocol == "" {
		return nil, badRequest(hint, "no protocol is named")
	}
	q := protocol.Query{Project: r.PathValue("name"), Protocol: o.Protocol, Kind: protocol.KindProject}
	ctx, cancel := context.WithTimeout(r.Context(), commandTime)
	defer cancel()
	if err := s.Do(ctx, supervisor.Command{Verb: "mode", Subject: q, Mode: o.Mode, Why: o.Why}); err != nil {
		return nil, err
	}
	return Carried{Verb: "mode", Subject: "project/" + q.Project}, nil
}
