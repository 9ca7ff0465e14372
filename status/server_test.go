package status

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor"
)

// ids requests a list and returns the given field of each item.
func ids(t *testing.T, w *world, path, key, field string) []string {
	t.Helper()
	var doc map[string][]map[string]any
	if err := w.client.Get(t.Context(), path, &doc); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if len(doc) != 1 || doc[key] == nil {
		t.Fatalf("%s: want the one key %s, got %v", path, key, doc)
	}
	found := []string{}
	for _, item := range doc[key] {
		found = append(found, fmt.Sprint(item[field]))
	}
	return found
}

func TestListsAndFilters(t *testing.T) {
	w := fullWorld(t)
	over := w.raise(t, rules.Alert{Kind: "task_failed", Subject: subject(protocol.KindTask, "T-0"), Severity: protocol.High, Summary: "it failed"})
	if _, err := w.ledger.Resolve(over.Key, rules.ByOperator, "mended", noon); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		path, key, field string
		want             string
	}{
		{"/v1/agents", "agents", "name", "codex-cursor planner codex-cursor"},
		{"/v1/agents?project=site", "agents", "name", "codex-cursor"},
		{"/v1/agents?state=dead", "agents", "name", "planner"},
		{"/v1/agents?project=site&state=dead", "agents", "name", ""},
		{"/v1/tasks", "tasks", "id", "T-1 T-2"},
		{"/v1/tasks?state=deferred", "tasks", "id", "T-2"},
		{"/v1/incidents", "incidents", "summary", "planner is dead"},
		{"/v1/incidents?state=acked", "incidents", "summary", ""},
		{"/v1/incidents?state=resolved", "incidents", "summary", "it failed"},
		{"/v1/locks?project=site", "locks", "resource", ""},
		{"/v1/goals", "goals", "name", "task_success_rate average_task_latency_seconds heartbeat_uptime overload_crashes copy_paste_events voice_interruptions_per_task task_transparency"},
	} {
		if got := strings.Join(ids(t, w, tc.path, tc.key, tc.field), " "); got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.path, got, tc.want)
		}
	}
}

func TestCapacity(t *testing.T) {
	var c Capacity
	if err := newWorld(t, scene()).client.Get(t.Context(), "/v1/capacity", &c); err != nil {
		t.Fatal(err)
	}
	if c.Load.Binding != "memory" || c.Threshold != 0.8 || c.Running != 1 || len(c.Consumers) != 1 || c.Consumers[0].Name != "chrome" {
		t.Errorf("got %+v", c)
	}
	if len(c.Gates) != 1 || c.Gates[0].Dimension != "memory" || c.Gates[0].Waiting != 1 {
		t.Errorf("gates %+v", c.Gates)
	}
	if len(c.Held) != 1 || c.Held[0].Subject != "shop:task/T-2" || c.Held[0].Why != "memory is at 91 %" || !slices.Equal(c.Held[0].Dimensions, []string{"memory"}) {
		t.Errorf("held %+v", c.Held)
	}
}

func TestListLimit(t *testing.T) {
	w := fullWorld(t)
	var all, first struct {
		Agents []supervisor.AgentReport
		Total  int
	}
	if err := w.client.Get(t.Context(), "/v1/agents", &all); err != nil || len(all.Agents) < 2 || all.Total != 0 {
		t.Fatalf("%+v, %v", all, err)
	}
	if err := w.client.Get(t.Context(), "/v1/agents?limit=1", &first); err != nil || len(first.Agents) != 1 || first.Total != len(all.Agents) || first.Agents[0].Name != all.Agents[0].Name {
		t.Errorf("%+v, %v", first, err)
	}
	wantError(t, "no number", w.client.Get(t.Context(), "/v1/locks?limit=x", &first), http.StatusBadRequest, CodeBadRequest)
}

func TestExplain(t *testing.T) {
	w := fullWorld(t)
	held := subject(protocol.KindTask, "T-2")
	w.note(t, supervisor.Entry{At: noon, Kind: "change", Subject: held, Verb: "hold", Text: "memory is at 91 %",
		Change: &protocol.Change{Subject: held, Verb: protocol.VerbHold, Entry: protocol.Entry{Timeout: 90 * time.Second}}})
	w.note(t, supervisor.Entry{At: noon, Kind: "verdict", Subject: subject(protocol.KindTask, "T-1"), State: "running"})
	w.note(t, supervisor.Entry{At: noon, Kind: "verdict", Subject: subject(protocol.KindTask, "T-99"), State: "done", Text: "long ago"})
	key := w.ledger.List()[0].Key
	w.note(t, supervisor.Entry{At: noon, Kind: "alert", Subject: subject(protocol.KindAgent, "planner"), Incident: key})

	ask := func(subject string) (e Explanation) {
		t.Helper()
		if err := w.client.Get(t.Context(), "/v1/explain?subject="+url.QueryEscape(subject), &e); err != nil {
			t.Errorf("%s: %v", subject, err)
		}
		return e
	}
	if e := ask("shop:task/T-2"); e.Task == nil || e.Task.State != protocol.TaskDeferred || e.TaskEvidence == nil || e.TaskEvidence.Hold == nil ||
		e.TaskEvidence.Hold.Reason != protocol.HoldCapacity || len(e.Journal) != 1 || e.Journal[0].Change.Timeout != 90 {
		t.Errorf("the held task: %+v", e)
	}
	if e := ask("task/T-1"); e.TaskEvidence == nil || len(e.TaskEvidence.Takings) != 1 || e.TaskEvidence.Visible != 20 || e.TaskEvidence.Running == nil {
		t.Errorf("the running task: %+v", e.TaskEvidence)
	}
	if e := ask("planner"); e.Agent == nil || e.AgentEvidence == nil || !e.AgentEvidence.Proof || e.AgentEvidence.Dead != 90 || len(e.Incidents) != 1 {
		t.Errorf("the agent: %+v", e)
	}
	if e := ask("lock/deploy"); e.LockEvidence == nil || e.LockEvidence.Holder != "planner" {
		t.Errorf("the lock: %+v", e)
	}
	for _, text := range []string{"incident/" + key[:6], key[:6], key} {
		if e := ask(text); e.Incident == nil || e.Incident.Key != key || len(e.Journal) != 1 {
			t.Errorf("the incident as %s: %+v", text, e)
		}
	}
	if e := ask("T-99"); e.Subject != "shop:task/T-99" || e.Kind != protocol.KindTask || len(e.Journal) != 1 || e.Task != nil {
		t.Errorf("the task that only the journal knows: %+v", e)
	}
	var e Explanation
	if err := w.client.Get(t.Context(), "/v1/explain?subject=codex-cursor&protocol=mailbox", &e); err != nil || e.Subject != "site:agent/codex-cursor" {
		t.Errorf("by protocol: %+v, %v", e, err)
	}
}

// wantError checks the code and status of an error document.
func wantError(t *testing.T, what string, err error, status int, code string) *Error {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Errorf("%s: got %v, want an error document", what, err)
		return &Error{}
	}
	if e.Status != status || e.Code != code || e.Message == "" {
		t.Errorf("%s: got %d %+v, want %d %s", what, e.Status, e, status, code)
	}
	return e
}

func TestErrorDocuments(t *testing.T) {
	w := fullWorld(t)
	for _, tc := range []struct {
		path   string
		status int
		code   string
	}{
		{"/", 404, CodeNoSubject},
		{"/v1/nothing", 404, CodeNoSubject},
		{"/v1/reload", 405, CodeNoMethod},
		{"/v1/agents?state=asleep", 400, CodeBadRequest},
		{"/v1/tasks?project=shpo", 404, CodeNoSubject},
		{"/v1/log?n=many", 400, CodeBadRequest},
		{"/v1/log?n=-1", 400, CodeBadRequest},
		{"/v1/log?n=999999", 400, CodeBadRequest},
		{"/v1/explain", 400, CodeBadRequest},
		{"/v1/explain?subject=nobody", 404, CodeNoSubject},
		{"/v1/explain?subject=incident/ffff", 404, CodeNoSubject},
		{"/v1/explain?subject=codex-cursor", 409, CodeAmbiguous},
	} {
		e := wantError(t, tc.path, w.client.Get(t.Context(), tc.path, nil), tc.status, tc.code)
		if tc.code == CodeAmbiguous && !slices.Equal(e.Candidates, []string{"shop:agent/codex-cursor", "site:agent/codex-cursor"}) {
			t.Errorf("%s: candidates %q", tc.path, e.Candidates)
		}
	}
}

func TestMethodNotAllowedSaysWhatIs(t *testing.T) {
	w := newWorld(t, scene())
	c := w.raw(t, "DELETE /v1/status HTTP/1.1\r\nHost: steward\r\nConnection: close\r\n\r\n")
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var doc errorDocument
	if err := json.NewDecoder(res.Body).Decode(&doc); err != nil || doc.Error.Code != CodeNoMethod || res.StatusCode != 405 {
		t.Errorf("got %s %+v, %v", res.Status, doc.Error, err)
	}
	if allow := res.Header.Get("Allow"); allow != "GET, HEAD" {
		t.Errorf("Allow is %q", allow)
	}
}

func TestBeforeTheFirstLook(t *testing.T) {
	w := newWorld(t, nil)
	for _, path := range []string{"/v1/status", "/v1/agents", "/v1/capacity", "/v1/goals", "/v1/explain?subject=x", "/v1/log?subject=x", "/healthz"} {
		wantError(t, path, w.client.Get(t.Context(), path, nil), 503, CodeNotReady)
	}
}

func TestHealth(t *testing.T) {
	p := scene() // last scan at noon, every 5 s: the limit is 45 s
	w := newWorld(t, p)
	for after, ok := range map[time.Duration]bool{0: true, 45 * time.Second: true, 46 * time.Second: false, -time.Minute: true} {
		w.mu.Lock()
		w.server.Now = func() time.Time { return noon.Add(after) }
		w.mu.Unlock()
		err := w.client.Get(t.Context(), "/healthz", nil)
		if ok != (err == nil) {
			t.Errorf("%s after the last look: %v", after, err)
		}
		if !ok {
			wantError(t, after.String(), err, 503, CodeNotReady)
		}
	}
}

func TestMetricsAreServed(t *testing.T) {
	w := newWorld(t, scene())
	c := w.raw(t, "GET /metrics HTTP/1.0\r\n\r\n")
	b, err := io.ReadAll(c)
	if err != nil || !strings.Contains(string(b), "steward_build_info 1") {
		t.Errorf("got %s, %v", b, err)
	}
}

func TestSlowClientsBlockNoOthers(t *testing.T) {
	w := newWorld(t, scene())
	for range 50 {
		w.raw(t, "GET /v1/status HTTP/1.1\r\nHost: stew") // and no further byte
		w.raw(t, "POST /v1/release HTTP/1.1\r\nHost: steward\r\nContent-Length: 100\r\n\r\n{")
	}
	watchdog, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := w.client.Get(watchdog, "/v1/status", nil); err != nil {
		t.Error(err)
	}
	w.stop() // it ends although they are still connected
}

func TestHugeHeadersAreRefused(t *testing.T) {
	w := newWorld(t, scene())
	c := w.raw(t, "GET /v1/status HTTP/1.1\r\nHost: steward\r\nX-Filler: "+strings.Repeat("x", maxHeader)+"\r\n")
	go fmt.Fprint(c, strings.Repeat("X-More: "+strings.Repeat("y", 1000)+"\r\n", 100)) // refused before it is complete
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("got %s", res.Status)
	}
}
