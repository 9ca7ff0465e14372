package escalate

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
)

var askedAt = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func question(occurrence string, options ...rules.Option) rules.Alert {
	return rules.Alert{Kind: "plea", Severity: protocol.High, Subject: protocol.Subject{Project: "p", Protocol: "envelope", Kind: protocol.KindQuestion, ID: "q"},
		Summary: "Which database?", Occurrence: occurrence, Options: options}
}

func twoOptions() []rules.Option {
	return []rules.Option{{ID: "1", Label: "Production"}, {ID: "2", Label: "Staging"}, {ID: "drop", Label: "Drop it", Dangerous: true}}
}

func asked(t *testing.T, a rules.Alert) (*Incidents, Incident) {
	t.Helper()
	l, _, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	i, _, err := l.Raise(a, askedAt)
	if err != nil {
		t.Fatal(err)
	}
	return l, i
}

// TestAnswerFirstWins checks that the first reply is accepted, survives a restart and resolves the question for good.
func TestAnswerFirstWins(t *testing.T) {
	l, i := asked(t, question("a", twoOptions()...))
	got, err := l.Answer(i.Key, Reply{Option: "2", Why: "a copy", By: "Jesse", Via: ViaPopup, Rev: i.Rev}, askedAt)
	if err != nil || got.State != rules.Resolved || got.ResolvedBy != rules.ByAnswer || got.Answer.Label != "Staging" || !got.Answer.Carried.IsZero() {
		t.Fatalf("%+v %v", got, err)
	}
	if _, err := l.Answer(i.Key, Reply{Option: "1", Via: ViaCommand}, askedAt); !errors.Is(err, ErrResolved) || !strings.Contains(err.Error(), "Jesse has answered: Staging") {
		t.Errorf("a second answer: %v", err)
	}
	l, _, err = Open(l.dir)
	if err != nil || len(l.Uncarried()) != 1 {
		t.Fatalf("after a restart %v wait to be written (%v)", l.Uncarried(), err)
	}
	if _, out, _ := l.Raise(question("a", twoOptions()...), askedAt.Add(time.Hour)); out != rules.OutcomeSame {
		t.Errorf("the same question again is %s", out)
	}
	if err := l.Carry(i.Key, errors.New("busy"), false, askedAt); err != nil || len(l.Uncarried()) != 1 {
		t.Errorf("a failed try: %v", err)
	}
	if err := l.Carry(i.Key, nil, true, askedAt); err != nil || len(l.Uncarried()) != 0 {
		t.Errorf("a good try: %v", err)
	}
	if i, _ = l.get(i.Key); i.Answer.Problem != "" || i.Answer.Carried.IsZero() {
		t.Errorf("%+v", i.Answer)
	}
	if i, out, _ := l.Raise(question("b", twoOptions()...), askedAt.Add(2*time.Hour)); out != rules.OutcomeReopened || i.Answer != nil {
		t.Errorf("another question is %s with the answer %v", out, i.Answer)
	}
}

// TestAnswerRefused checks which replies are rejected, and that a rejected reply changes nothing.
func TestAnswerRefused(t *testing.T) {
	l, i := asked(t, question("a", twoOptions()...))
	stale := i.Rev
	if i, _, _ = l.Raise(question("b", twoOptions()...), askedAt); i.Rev == stale {
		t.Fatal("the question did not change")
	}
	for name, c := range map[string]struct {
		reply Reply
		want  error
	}{
		"no such option":           {Reply{Option: "3", Via: ViaCommand, Rev: i.Rev}, ErrNoOption},
		"own words beside options": {Reply{Option: "maybe", Via: ViaCommand, Rev: i.Rev}, ErrNoOption},
		"nothing":                  {Reply{Via: ViaCommand, Rev: i.Rev}, ErrNoOption},
		"reworded since":           {Reply{Option: "1", Via: ViaCommand}, ErrStale},
		"the former question":      {Reply{Option: "1", Via: ViaPopup, Rev: stale}, ErrStale},
		"a revision to come":       {Reply{Option: "1", Via: ViaPopup, Rev: i.Rev + 1}, ErrStale},
		"dangerous, by a button":   {Reply{Option: "drop", Via: ViaPopup, Rev: i.Rev}, ErrDangerous},
	} {
		if _, err := l.Answer(i.Key, c.reply, askedAt); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if now, _ := l.get(i.Key); now.Rev != i.Rev || now.State != rules.Raised {
			t.Errorf("%s: it changed to %+v", name, now)
		}
	}
	if _, err := l.Answer("0000000000000000", Reply{Option: "1"}, askedAt); !errors.Is(err, ErrUnknown) {
		t.Errorf("unknown key: %v", err)
	}
	// A repeat that changes neither the question nor the options does not make a button's answer stale.
	risen := question("b", twoOptions()...)
	risen.Severity = protocol.Critical
	if _, _, err := l.Raise(risen, askedAt); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Answer(i.Key, Reply{Option: "production", Via: ViaPopup, Rev: i.Rev}, askedAt); err != nil {
		t.Errorf("the same question, more severe: %v", err)
	}
}

// TestAnswerInOwnWords checks that free text is accepted only if no options are offered, and only on the command
// line.
func TestAnswerInOwnWords(t *testing.T) {
	l, i := asked(t, question("a"))
	if _, err := l.Answer(i.Key, Reply{Option: "hm", Via: ViaPopup}, askedAt); !errors.Is(err, ErrNoOption) {
		t.Errorf("through a popup: %v", err)
	}
	got, err := l.Answer(i.Key, Reply{Option: "Use B", Via: ViaCommand, By: "Jesse"}, askedAt)
	if err != nil || got.Answer.Option != "" || got.Answer.Label != "Use B" {
		t.Errorf("%+v %v", got.Answer, err)
	}
}

// TestSnooze checks that a snoozed incident is silent until its time and is then announced again; it can be answered
// meanwhile.
func TestSnooze(t *testing.T) {
	l, i := asked(t, question("a", twoOptions()...))
	i, err := l.Snooze(i.Key, askedAt.Add(time.Hour))
	if err != nil || i.State != rules.Snoozed || i.job() == jobTell {
		t.Fatalf("%+v %v", i, err)
	}
	if next, err := l.advance(Config{}, nil, askedAt.Add(30*time.Minute)); err != nil || !next.Equal(askedAt.Add(time.Hour)) {
		t.Errorf("next %v %v", next, err)
	}
	if _, err := l.advance(Config{}, nil, askedAt.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if i, _ = l.get(i.Key); i.State != rules.Raised || i.job() != jobTell {
		t.Errorf("after its time it is %s", i.State)
	}
	if _, err := l.Answer(i.Key, Reply{Option: "1", Via: ViaCommand}, askedAt); err != nil {
		t.Error(err)
	}
	if _, err := l.Snooze(i.Key, askedAt.Add(time.Hour)); !errors.Is(err, ErrResolved) {
		t.Errorf("snooze what is over: %v", err)
	}
}
