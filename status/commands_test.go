package status

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor"
)

func TestCommandsReachTheLoop(t *testing.T) {
	w := newWorld(t, scene())
	for _, tc := range []struct {
		path string
		want string
	}{
		{"/v1/tasks/T-1/retry", "retry shop task T-1"},
		{"/v1/tasks/shop:task%2FT-1/cancel", "cancel shop task T-1"},
		{"/v1/tasks/task%2FT-2/release", "release shop task T-2"},
		{"/v1/tasks/not%20seen%2Fyet/retry", "retry  task not seen/yet"}, // the loop may know more
		{"/v1/agents/planner/hold", "hold shop agent planner"},
		{"/v1/agents/site:agent%2Fcodex-cursor/release", "release site agent codex-cursor"},
		{"/v1/projects/shop/pause", "pause  project shop"},
		{"/v1/projects/a%2Fb/resume", "resume  project a/b"},
		{"/v1/projects/project%2Fshop/pause", "pause  project shop"},
		{"/v1/release", "release   "},
		{"/v1/pause", "pause   "},
		{"/v1/resume", "resume   "},
	} {
		w.commands = nil
		var done Carried
		if err := w.client.Post(t.Context(), tc.path, Order{Why: "because"}, &done); err != nil {
			t.Errorf("%s: %v", tc.path, err)
			continue
		}
		c := w.commands[0]
		if got := fmt.Sprint(c.Verb, " ", c.Subject.Project, " ", c.Subject.Kind, " ", c.Subject.ID); got != tc.want || c.Why != "because" {
			t.Errorf("%s: the loop got %q (%s), want %q", tc.path, got, c.Why, tc.want)
		}
		if done.Verb != c.Verb {
			t.Errorf("%s: answered %+v", tc.path, done)
		}
	}
}

func TestCommandsWithUnknownNames(t *testing.T) {
	w := newWorld(t, scene())
	for path, want := range map[string]string{
		"/v1/agents/codex-cursor/hold":    CodeAmbiguous,
		"/v1/agents/task%2FT-1/hold":      CodeBadRequest,
		"/v1/tasks/agent%2Fplanner/retry": CodeBadRequest,
		"/v1/tasks/shop:task%2F/release":  CodeBadRequest, // a missing id must not mean all
		"/v1/projects/project%2F/pause":   CodeBadRequest,
	} {
		var e *Error
		if err := w.client.Post(t.Context(), path, nil, nil); !errors.As(err, &e) || e.Code != want {
			t.Errorf("%s: got %v, want %s", path, err, want)
		}
	}
	if len(w.commands) > 0 {
		t.Errorf("the loop got %+v", w.commands)
	}
}

func TestOutcomesOfCommands(t *testing.T) {
	w := newWorld(t, scene())
	for _, tc := range []struct {
		err    error
		status int
		code   string
	}{
		{fmt.Errorf("retry T-1: %w", supervisor.ErrNoSubject), 404, CodeNoSubject},
		{fmt.Errorf("retry T-1: %w: it is over", supervisor.ErrRefused), 409, CodeRefused},
		{fmt.Errorf("retry T-1: %w", protocol.ErrConflict), 409, CodeConflict},
		{fmt.Errorf("hold: %w", protocol.ErrUnsupported), 409, CodeRefused},
		{supervisor.ErrStopped, 503, CodeNotReady},
		{fmt.Errorf("wait: %w", context.DeadlineExceeded), 503, CodeNotReady},
		{errors.New("write result: disk full"), 500, CodeInternal},
	} {
		w.answer = tc.err
		e := wantError(t, tc.err.Error(), w.client.Post(t.Context(), "/v1/tasks/T-1/retry", nil, nil), tc.status, tc.code)
		if e.Message != tc.err.Error() {
			t.Errorf("the message is %q, want %q", e.Message, tc.err)
		}
	}
}

func TestBodies(t *testing.T) {
	w := newWorld(t, scene())
	for _, body := range []any{Order{}, map[string]string{}, Order{Why: strings.Repeat("x", maxBody-20)}} {
		if err := w.client.Post(t.Context(), "/v1/release", body, nil); err != nil {
			t.Errorf("%.60v: %v", body, err)
		}
	}
	w.commands = nil
	for _, body := range []any{"text", 7, map[string]string{"wyh": "a slip"}, map[string]int{"why": 1}, Order{Why: strings.Repeat("x", maxBody)}} {
		wantError(t, fmt.Sprintf("%.60v", body), w.client.Post(t.Context(), "/v1/release", body, nil), 400, CodeBadRequest)
	}
	if len(w.commands) > 0 {
		t.Errorf("the loop got %+v", w.commands)
	}
}

func TestReload(t *testing.T) {
	w := newWorld(t, scene())
	if err := w.client.Post(t.Context(), "/v1/reload", nil, nil); err != nil {
		t.Error(err)
	}
	w.answer = errors.New("config.toml:7: unknown key loook_every")
	e := wantError(t, "a bad file", w.client.Post(t.Context(), "/v1/reload", nil, nil), 409, CodeRefused)
	if e.Message != w.answer.Error() {
		t.Errorf("the message is %q", e.Message)
	}
	w.answer = supervisor.ErrStopped
	wantError(t, "stopping", w.client.Post(t.Context(), "/v1/reload", nil, nil), 503, CodeNotReady)
}

func TestAck(t *testing.T) {
	w := newWorld(t, scene())
	for _, key := range []string{"aaaa111122223333", "aaaa444455556666", "bbbb111122223333"} {
		w.raise(t, rules.Alert{Key: key, Kind: "x", Subject: subject(protocol.KindTask, "T-1"), Severity: protocol.High, Summary: key})
	}
	var doc struct{ Incident escalate.Incident }
	if err := w.client.Post(t.Context(), "/v1/incidents/bb/ack", nil, &doc); err != nil || doc.Incident.State != rules.Acked {
		t.Errorf("got %+v, %v", doc.Incident, err)
	}
	if i, _ := w.ledger.Find("bbbb111122223333"); i.State != rules.Acked {
		t.Errorf("the ledger has it as %s", i.State)
	}
	e := wantError(t, "aaaa", w.client.Post(t.Context(), "/v1/incidents/aaaa/ack", nil, nil), 409, CodeAmbiguous)
	if len(e.Candidates) != 2 {
		t.Errorf("candidates %q", e.Candidates)
	}
	wantError(t, "cccc", w.client.Post(t.Context(), "/v1/incidents/cccc/ack", nil, nil), 404, CodeNoSubject)
	if _, err := w.ledger.Resolve("aaaa111122223333", rules.ByOperator, "", noon); err != nil {
		t.Fatal(err)
	}
	wantError(t, "resolved", w.client.Post(t.Context(), "/v1/incidents/aaaa111122223333/ack", nil, nil), 409, CodeRefused)
	if err := w.client.Post(t.Context(), "/v1/incidents/aaaa/ack", nil, nil); err != nil { // now one is open
		t.Error(err)
	}
}
