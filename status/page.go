package status

import (
	"bytes"
	"net/http"
	"weak"

	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/supervisor"
)

// status answers with the Document. The part that depends on a decision of the loop is encoded once and reused until
// the next decision; the rest, which may differ each time, is small.
func (s *Server) status(*http.Request) (any, error) {
	p, err := s.picture()
	if err != nil {
		return nil, err
	}
	head, err := s.head(p, s.granted(p))
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
	Format int     `json:"format"`
	Daemon *Daemon `json:"daemon,omitempty"`
	Self
	supervisor.Report
}

type documentRest struct {
	Incidents []escalate.Incident `json:"incidents"`
	Channels  []Channel           `json:"channels"`
	Kept      []Kept              `json:"kept_agents"`
	Waiting   []Waiting           `json:"waiting"`
}

// written is the encoded head of a document.
type written struct {
	of    weak.Pointer[supervisor.State] // weak, so that an old state is not kept in memory
	locks []byte                         // the locks that steward lock run held then
	text  []byte
}

// mostKept limits the size of the cached encoding.
const mostKept = 1 << 20

func (s *Server) head(p *supervisor.State, granted []Granted) ([]byte, error) {
	var locks []byte
	if len(granted) > 0 {
		var err error
		if locks, err = encode(WithGranted(nil, granted)); err != nil {
			return nil, err
		}
	}
	if w := s.written.Load(); w != nil && w.of.Value() == p && bytes.Equal(w.locks, locks) {
		return w.text, nil
	}
	r := report(p)
	r.Locks = WithGranted(r.Locks, granted)
	text, err := encode(documentHead{DocumentFormat, runningSince(p), s.Self, r})
	if err == nil && len(text) <= mostKept {
		s.written.Store(&written{weak.Make(p), locks, text})
	}
	return text, err
}
