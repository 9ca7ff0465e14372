package supervisor

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
)

// What keeps steward from acting makes it observe, with a fault that stands since it was first found, until it is over.
func TestHinderedSpeakerObserves(t *testing.T) {
	reason := errors.New("read-only file system")
	s := &Speaker{Mode: protocol.ModeAct, Ready: func() error { return reason }}
	began := time.Now()
	for n := range 3 {
		s.ask("agentstatus", "/p", began.Add(time.Duration(n)*time.Minute))
		if f := s.hindered; s.acts() || f == nil || !f.Since.Equal(began) || f.Path != "/p" || f.Severity != protocol.High ||
			!strings.Contains(f.Problem, "agentstatus is only observed: read-only file system") {
			t.Errorf("look %d: acts %v, %+v", n, s.acts(), f)
		}
	}
	reason = nil
	if s.ask("agentstatus", "/p", began); !s.acts() {
		t.Errorf("it is over: %+v", s.hindered)
	}
	quiet := &Speaker{Mode: protocol.ModeObserve, Ready: func() error { t.Error("one that only observes is asked"); return nil }}
	if quiet.ask("agentstatus", "/p", began); quiet.acts() {
		t.Error("one that only observes acts")
	}
}
