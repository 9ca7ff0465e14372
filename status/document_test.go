package status

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor"
)

// promised is the status document as documented for its readers: every key, with a value of the right type. Null marks
// a value that may be null.
const promised = `
{"version":"","started":"","last_look":"","looks":0,
 "load":{"used":0.41,"binding":"memory","cpu":0.30,"memory":0.41,"files":0.02,"disk":null,"unknown":[]},
 "projects":[{"name":"","path":"","protocols":["agentstatus"],"mode":{"agentstatus":"act"},"faults":[{"path":"","problem":"","since":""}],"findings":[{"subject":"","code":"","severity":"","text":""}]}],
 "agents":[{"project":"","protocol":"","name":"codex-cursor","state":"alive","last_beat":"","silent_seconds":3.1,"pid":null,"why":""}],
 "tasks":[{"project":"","protocol":"","id":"","state":"pending","agent":"","priority":"high","attempt":1,"not_before":null,"why":""}],
 "locks":[{"project":"","protocol":"","resource":"","holder":"","state":"held","expires":null}],
 "incidents":[{"key":"","rev":1,"severity":"critical","state":"open","blocking":true,"summary":"","detail":"","project":"","about":"","agent":"","options":[{"id":"","label":"","dangerous":false}],"count":1,"first":"","last":"","deliveries":[{"channel":"desktop","result":"shown","at":""}]}],
 "goals":[{"name":"","value":null,"target":"> 0.95","ok":true}],
 "done":[{"at":"","verb":"","subject":"","why":""}]}`

// compare reports every key of want that is missing in got or has another type.
func compare(t *testing.T, at string, want, got any) {
	t.Helper()
	switch want := want.(type) {
	case nil:
	case map[string]any:
		have, ok := got.(map[string]any)
		if !ok {
			t.Errorf("%s is %T, want an object", at, got)
			return
		}
		for _, key := range slices.Sorted(maps.Keys(want)) {
			value, ok := have[key]
			if !ok {
				t.Errorf("%s.%s is missing", at, key)
				continue
			}
			compare(t, at+"."+key, want[key], value)
		}
	case []any:
		have, ok := got.([]any)
		switch {
		case !ok:
			t.Errorf("%s is %T, want a list", at, got)
		case len(want) > 0 && len(have) == 0:
			t.Errorf("%s is empty", at)
		case len(want) > 0:
			compare(t, at+"[0]", want[0], have[0])
		}
	default:
		if fmt.Sprintf("%T", want) != fmt.Sprintf("%T", got) {
			t.Errorf("%s is %T, want %T", at, got, want)
		}
	}
}

// fullWorld has an open incident with an option and a delivery.
func fullWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, scene())
	i := w.raise(t, rules.Alert{Kind: "agent_dead", Severity: protocol.Critical, Subject: subject(protocol.KindAgent, "planner"), Agent: "planner",
		Summary: "planner is dead", Blocking: true, Options: []rules.Option{{ID: "retry", Label: "Run it again"}}})
	if err := w.ledger.Record(i.Key, escalate.Delivery{Channel: "desktop", Result: "shown", At: noon, OK: true, Rev: i.Rev}, true); err != nil {
		t.Fatal(err)
	}
	return w
}

func TestStatusHasEveryPromisedKey(t *testing.T) {
	w := fullWorld(t)
	var got, want any
	if err := w.client.Get(t.Context(), "/v1/status", &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(promised), &want); err != nil {
		t.Fatal(err)
	}
	if doc := got.(map[string]any); len(doc["locks"].([]any)) == 0 {
		// Check the shape of a lock even while the loop reports none.
		b, _ := json.Marshal(supervisor.LockReport{})
		var lock any
		json.Unmarshal(b, &lock)
		doc["locks"] = []any{lock}
	}
	compare(t, "status", want, got)
}

func TestStatusValues(t *testing.T) {
	w := fullWorld(t)
	var doc Document
	if err := w.client.Get(t.Context(), "/v1/status", &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Version != "1.2.3" || doc.Looks != 7 || len(doc.Agents) != 3 || len(doc.Tasks) != 2 || len(doc.Incidents) != 1 {
		t.Errorf("version %q, looks %d, %d agents, %d tasks, %d incidents", doc.Version, doc.Looks, len(doc.Agents), len(doc.Tasks), len(doc.Incidents))
	}
	if doc.Load.Binding != "memory" || doc.Load.Disk.Known() {
		t.Errorf("load %+v", doc.Load)
	}
	if pid := doc.Agents[1].PID; pid == nil || *pid != 4242 || doc.Agents[0].PID != nil {
		t.Errorf("pids %v, %v", doc.Agents[0].PID, pid)
	}
}

// timesIn lists every string in a document that looks like a time.
func timesIn(v any) []string {
	var found []string
	switch v := v.(type) {
	case map[string]any:
		for _, x := range v {
			found = append(found, timesIn(x)...)
		}
	case []any:
		for _, x := range v {
			found = append(found, timesIn(x)...)
		}
	case string:
		if strings.HasPrefix(v, "2026-") {
			found = append(found, v)
		}
	}
	return found
}

// nullLists lists the keys that should hold a list but hold null.
func nullLists(at string, v any) []string {
	lists := []string{"protocols", "faults", "findings", "agents", "tasks", "locks", "incidents", "options", "deliveries", "goals", "done", "unknown",
		"projects", "consumers", "gates", "held", "takings", "journal", "log", "failures"}
	var found []string
	switch v := v.(type) {
	case map[string]any:
		for key, x := range v {
			if x == nil && slices.Contains(lists, key) {
				found = append(found, at+"."+key)
			}
			found = append(found, nullLists(at+"."+key, x)...)
		}
	case []any:
		for _, x := range v {
			found = append(found, nullLists(at, x)...)
		}
	}
	return found
}

func TestTimesAreUTCAndListsAreNeverNull(t *testing.T) {
	full, empty := fullWorld(t), newWorld(t, &supervisor.State{})
	full.note(t, supervisor.Entry{At: noon, Kind: "change", Subject: subject(protocol.KindTask, "T-2"), Verb: "hold",
		Change: &protocol.Change{Subject: subject(protocol.KindTask, "T-2"), Until: noon, Entry: protocol.Entry{Timeout: time.Minute}}})
	for _, path := range []string{"/v1/status", "/v1/agents", "/v1/tasks", "/v1/locks", "/v1/incidents", "/v1/goals", "/v1/capacity", "/v1/log",
		"/v1/explain?subject=planner", "/v1/explain?subject=T-1", "/v1/explain?subject=T-2", "/v1/explain?subject=deploy"} {
		for _, w := range []*world{full, empty} {
			var doc any
			if err := w.client.Get(t.Context(), path, &doc); err != nil {
				if w == full {
					t.Errorf("%s: %v", path, err)
				}
				continue
			}
			for _, at := range timesIn(doc) {
				if !strings.HasSuffix(at, "Z") {
					t.Errorf("%s: %s is not UTC", path, at)
				}
			}
			for _, key := range nullLists("", doc) {
				t.Errorf("%s: %s is null", path, key)
			}
		}
	}
}

// TestStatusInTwoParts tests that the sent document equals the composed one, whatever part of it was cached.
func TestStatusInTwoParts(t *testing.T) {
	p := crowd(3)
	w := newWorld(t, p)
	w.server.Kept = func() []Kept { return []Kept{{Agent: "keeper", State: "running"}} }
	for _, looks := range []int{7, 7, 8} {
		if p.Looks != looks { // another decision
			next := *p
			next.Looks, p = looks, &next
			w.mu.Lock()
			w.picture = p
			w.mu.Unlock()
		}
		var sent json.RawMessage
		if err := w.client.Get(t.Context(), "/v1/status", &sent); err != nil {
			t.Fatal(err)
		}
		doc := Compose(p, w.ledger.List(), w.server.channels(), w.server.Self)
		doc.Kept = append(doc.Kept, w.server.Kept()...)
		want, err := encode(doc)
		if err != nil || string(sent) != string(want) {
			t.Fatalf("%v: sent\n%s\nwant\n%s", err, sent, want)
		}
	}
}
