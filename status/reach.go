package status

import (
	"errors"
	"net/http"
)

// Trial is the result of a test message on one channel.
type Trial struct {
	Channel string `json:"channel"`
	// Result is the channel's word for its proof, "" while the test is in progress.
	Result string `json:"result"`
	OK     bool   `json:"ok"`
	Error  string `json:"error,omitempty"`
	// Asks: the message has a button. Pressed: the button was pressed.
	Asks    bool `json:"asks"`
	Pressed bool `json:"pressed"`
}

// Over reports whether the trial is final.
func (t Trial) Over() bool { return t.Result != "" && (!t.OK || !t.Asks || t.Pressed) }

// Trials is the document of /v1/reach.
type Trials struct {
	Trials []Trial `json:"trials"`
}

// ErrTrial: a test is already in progress.
var ErrTrial = errors.New("a test is under way already")

func (s *Server) channels() []Channel {
	if s.Channels == nil {
		return nil
	}
	return s.Channels()
}

func postReach(s *Server, _ *http.Request) (any, error) {
	if s.Reach == nil {
		return nil, noSubject("see [escalate] channels", "there are no channels")
	}
	if err := s.Reach(); err != nil {
		return nil, err
	}
	return Trials{Trials: s.Reached()}, nil
}

func getReach(s *Server, _ *http.Request) (any, error) {
	if s.Reached == nil {
		return Trials{Trials: []Trial{}}, nil
	}
	return Trials{Trials: append([]Trial{}, s.Reached()...)}, nil
}
