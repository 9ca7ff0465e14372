package supervisor_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor"
	"github.com/livhana/steward/supervisor/decide"
)

func answerOf(subject, option, saw string) supervisor.Command {
	return supervisor.Command{Verb: "answer", Subject: protocol.ParseQuery(subject), Saw: saw,
		Answer: &protocol.Answer{Key: "k", Option: option, Label: option, By: "jesse", At: time.Now()}}
}

// TestAnswerToWhatIsNotThere: what only settles an incident needs nobody to read it; what must be written does. What
// nobody has looked at yet is not gone.
func TestAnswerToWhatIsNotThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "demo", "hangs")
		forever := make(chan struct{})
		w.folders["hangs"].beforeLook = func() { <-forever }
		s, stop := w.start()
		time.Sleep(time.Second)
		for _, c := range []struct {
			subject, option string
			want            error
		}{
			{"demo:task/gone", decide.OptionDone, nil},
			{"demo:agent/gone", decide.OptionWait, nil},
			{"gone:task/t1", decide.OptionLeave, nil},
			{"demo:task/gone", decide.OptionRetry, supervisor.ErrNoSubject},
			{"demo:agent/gone", decide.OptionGiveUp, supervisor.ErrNoSubject},
			{"demo:task/gone", "", supervisor.ErrNoSubject},
			{"demo:plea/gone", decide.OptionDone, supervisor.ErrNoSubject},
		} {
			if err := s.Do(t.Context(), answerOf(c.subject, c.option, "")); !errors.Is(err, c.want) {
				t.Errorf("%s %q: %v, want %v", c.subject, c.option, err, c.want)
			}
		}
		if err := s.Do(t.Context(), answerOf("hangs:task/t1", decide.OptionDone, "")); err == nil || errors.Is(err, supervisor.ErrNoSubject) {
			t.Errorf("a project that was not looked at: %v", err)
		}
		stop()
		close(forever)
	})
}

// TestAnswerIsBoundToTheOutcome: a decision about how a task ended counts for that end alone.
func TestAnswerIsBoundToTheOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "demo")
		w.folders["demo"].sims = []*sim{agentOf("codex")}
		s, stop := w.start()
		defer stop()
		time.Sleep(7 * time.Second)
		var written []protocol.Change
		errNoted := errors.New("noted")
		w.at("demo", func(f *folder) {
			f.submit(request("open"), time.Now())
			f.submit(request("t1"), time.Now())
			f.finish("t1", failure("GIT_CONFLICT"), time.Now())
			f.beforeChange = func(c protocol.Change) error {
				if c.Verb != protocol.VerbAnswer {
					return nil
				}
				written = append(written, c)
				return errNoted
			}
		})
		saw := w.alerts[0].Occurrence
		if err := s.Do(t.Context(), answerOf("t1", decide.OptionLeave, saw)); !errors.Is(err, errNoted) {
			t.Fatalf("about the outcome that stands: %v", err)
		}
		if err := s.Do(t.Context(), answerOf("open", "", "")); !errors.Is(err, errNoted) {
			t.Fatalf("about a task without one: %v", err)
		}
		if outcome := w.read("demo", "t1").Outcome.Ref; len(written) != 2 || written[0].Ref != outcome || written[1].Ref != w.read("demo", "open").Ref {
			t.Fatalf("bound to %+v", written)
		}
		w.at("demo", func(f *folder) { f.finish("t1", failure("VALIDATION_FAILED"), time.Now()) })
		for _, option := range []string{decide.OptionLeave, decide.OptionRetry} {
			if err := s.Do(t.Context(), answerOf("t1", option, saw)); !errors.Is(err, supervisor.ErrRefused) {
				t.Errorf("%s about an older outcome: %v", option, err)
			}
		}
		if len(written) != 2 || w.read("demo", "t1").Outcome == nil {
			t.Errorf("written all the same: %+v", written)
		}
	})
}
