package agentstatus

import (
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
)

// A next action that needs the operator but has no text gets a text.
func TestADecisionWithoutWords(t *testing.T) {
	s := newSite(t, around+file(requestPath, requestText)+file(resultPath, strings.Replace(completedText, `"next_actions": []`, `"next_actions": [{"requires_jesse": true}]`, 1)))
	if k := only(t, s.look()); len(k.Outcome.ForHuman) != 1 || k.Outcome.ForHuman[0] == "" {
		t.Errorf("%q", k.Outcome.ForHuman)
	}
}

// Without any progress, only the end of the task's timeout is known.
func TestEstimateWithoutProgress(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	if at := estimateEnd(TaskProgress{}, now.Add(-time.Minute), 5*time.Minute, now); !at.Equal(now.Add(4 * time.Minute)) {
		t.Errorf("at 0 %%: %v", at)
	}
	if at := estimateEnd(TaskProgress{}, now.Add(-time.Hour), 5*time.Minute, now); !at.Equal(now) {
		t.Errorf("over its time: %v", at)
	}
	if at := estimateEnd(TaskProgress{Percent: 50}, now.Add(-time.Minute), 5*time.Minute, now); !at.Equal(now.Add(time.Minute)) {
		t.Errorf("at 50 %%: %v", at)
	}
}

// The registry lists the agents in the order of protocol 000.
func TestRegistryOrder(t *testing.T) {
	s := newSite(t, "")
	s.Do(s.p.Prepare(t.Context(), boot(livhana, 7, s.Now)))
	text := s.Read(Base + "/" + registry)
	if a, b := strings.Index(text, `"`+livhana+`"`), strings.Index(text, `"`+codex+`"`); a < 0 || b < a {
		t.Errorf("livhana at %d, codex at %d:\n%s", a, b, text)
	}
}

// The record of a cancellation says why the task was cancelled.
func TestWhyCancelled(t *testing.T) {
	s := newSite(t, around+file(requestPath, requestText)+file(resultPath, resultText))
	c := about(only(t, s.look()), protocol.VerbCancel)
	c.Reason, c.Why = protocol.ReasonSuperseded, "a newer request asks for the same"
	s.Do(s.apply(c))
	if k := only(t, s.look()); k.CancelReason != protocol.ReasonSuperseded || k.CancelWhy != c.Why {
		t.Errorf("%s: %s", k.CancelReason, k.CancelWhy)
	}
}
