package status

import (
	"net/http"
	"weak"

	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/supervisor"
)

// status answers with the Document. What a decision of the loop says is written once for all questions until the next one;
// the rest, which may be another each time, is little.
func (s *Server) status(*http.Request) (any, error) {
	p, err := s.picture()
	if err != nil {
		return nil, err
	}
	head, err := s.head(p)
	if err != nil {
		return nil, err
	}
	rest := documentRest{append([]escalate.Incident{}, s.Ledger.List()...), append([]Channel{}, s.channels()...), []Kept{}, s.waiting(p)}
	if s.Kept != nil {
		rest.Kept = append(rest.Kept, s.Kept()...)
	}
	tail, err := encode(rest)
	if err != nil {
		return nil, err
	}
	doc := make(encoded, 0, len(head)+len(tail))
	doc = append(doc, head[:len(head)-len("}\n")]...)
	doc = append(doc, ',')
	return append(doc, tail[len("{"):]...), nil
}

// documentHead and documentRest are the fields of a Document, in their order.
type documentHead struct {
	Self
	supervisor.Report
}

type documentRest struct {
	Incidents []escalate.Incident `json:"incidents"`
	Channels  []Channel           `json:"channels"`
	Kept      []Kept              `json:"kept_agents"`
	Waiting   []Waiting           `json:"waiting"`
}

// written is the head of a document as it is sent.
type written struct {
	of   weak.Pointer[supervisor.Picture] // so that an old one does not stay in memory
	text []byte
}

// mostKept bounds what is kept for the next question.
const mostKept = 1 << 20

func (s *Server) head(p *supervisor.Picture) ([]byte, error) {
	if w := s.written.Load(); w != nil && w.of.Value() == p {
		return w.text, nil
	}
	text, err := encode(documentHead{s.Self, report(p)})
	if err == nil && len(text) <= mostKept {
		s.written.Store(&written{weak.Make(p), text})
	}
	return text, err
}
