package ralph

import (
	"reflect"
	"strings"
	"testing"
	"unicode"

	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// oneLine reports whether a text is fit for one line of status output.
func oneLine(texts ...string) bool {
	return !strings.ContainsFunc(strings.Join(texts, ""), unicode.IsControl)
}

func FuzzKanban(f *testing.F) {
	for _, s := range []string{"", kanban(), kanban(line("=", "TASK-001", "x") + "\n  - Priority: HIGH\n  - Dependencies: A-1, BB-2"), kanban(line("✓", "TASK-001", "x"), line(" ", "TASK-001", "y")),
		"- [ ] **[TASK-001]**\r\n  Priority: \x00\xff\n\n\n# x\n- [=] **[TASK-002]**", "- [] **[TASK-001]** x", "- [ ] **[TASK-00001]** x"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		items := parseKanban(text)
		if again := parseKanban(text); !reflect.DeepEqual(items, again) {
			t.Fatal("decoded twice, and not the same")
		}
		if len(items) > maxItems {
			t.Fatalf("%d items", len(items))
		}
		for _, it := range items {
			if !isTaskID(it.id) || !oneLine(it.title, it.word) || len([]rune(it.title)) > 200 || len(it.related) > 100 || it.sum == "" {
				t.Errorf("%+v", it)
			}
			if isMarker(it.marker) && text[it.offset] != it.marker {
				t.Errorf("the marker of %+v is not at its offset", it)
			}
			if it.duplicate || !isMarker(it.marker) {
				continue
			}
			// Law 2: exactly one byte changes, and parsing shows the change.
			to := byte(failed)
			if it.marker == failed {
				to = dropped
			}
			if it.marker == dropped { // only its author can make it planned again
				if out, err := setMarker(text, it.id, it.sum, string(rune(it.marker)), to); err == nil || out != nil {
					t.Errorf("%+v is marked as %c", it, to)
				}
				continue
			}
			out, err := setMarker(text, it.id, it.sum, string(rune(it.marker)), to)
			if err != nil || len(out) != len(text) || string(out[:it.offset])+string(out[it.offset+1:]) != string(text[:it.offset])+string(text[it.offset+1:]) {
				t.Fatalf("%v: %q", err, out)
			}
			if back, err := setMarker(out, it.id, it.sum, "", to); back != nil || err != nil {
				t.Errorf("what is in place already: %q, %v", back, err)
			}
		}
		for _, found := range kanbanFindings(items) {
			if found.Code == "" || !oneLine(found.Text, found.Field) {
				t.Errorf("finding %+v", found)
			}
		}
	})
}

func fuzzObject[T any](f *testing.F, decode func(jsonfile.Object) T, check func(*testing.T, T), seeds ...string) {
	for _, s := range seeds {
		f.Add([]byte(s))
		f.Add([]byte(strings.NewReplacer("[]", `[null,{"a":[]},"x"]`, "{", "[", "}", "]", "true", "null", "1", "1e999").Replace(s)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		o, err := jsonfile.Parse(b)
		if err != nil {
			return
		}
		v := decode(o)
		if !reflect.DeepEqual(v, decode(o)) {
			t.Error("decoded twice, and not the same")
		}
		check(t, v)
	})
}

func FuzzResult(f *testing.F) {
	fuzzObject(f, decodeResult, func(t *testing.T, r result) {
		if r.gate != "" && !gateWord().MatchString(r.gate) || len(r.errors) > maxErrors || !oneLine(append(r.errors, r.invalidGate, r.status)...) || len([]rune(r.invalidGate)) > 40 {
			t.Errorf("%+v", r)
		}
	}, failResult, `{"outputs": {"gate_result": 7}, "errors": [], "completed_at": 1e300}`, `{"outputs": {"gate_result": "MAYBE"}, "errors": [{"message": "x"}]}`)
}

func FuzzCheckpoint(f *testing.F) {
	fuzzObject(f, decodeCheckpoint, func(t *testing.T, c checkpoint) {
		if !oneLine(c.step) || len([]rune(c.step)) > 200 {
			t.Errorf("%+v", c)
		}
	}, `{"version": "1.0", "iteration": 3, "timestamp": "2024-01-15T10:30:00Z", "status": "in_progress", "next_steps": ["Write unit tests"]}`, `{"next_steps": []}`)
}

func FuzzResume(f *testing.F) {
	fuzzObject(f, decodeResume, func(t *testing.T, r resume) {
		if r.attempts < 0 || r.most < 0 || !oneLine(r.reason) {
			t.Errorf("%+v", r)
		}
	}, `{"attempt_count": 1, "max_attempts": 3, "last_attempt_at": 0, "cooldown_until": 1705312300, "terminal": true, "terminal_reason": "x", "history": []}`)
}

func FuzzEvent(f *testing.F) {
	for _, s := range []string{`{"ts":"2024-01-15T10:31:00+0000","event":"error","worker_id":"worker-TASK-001-1","message":"no disk"}`,
		`{"timestamp":"2024-01-15T10:40:00Z","event_type":"error","worker_id":"worker-TASK-001-1","error_type":"timeout"}`, `{"ts": 1e300, "worker_id": "worker-../../x"}`, "{"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		e := decodeEvent(line)
		if e != decodeEvent(line) || !oneLine(e.name, e.text) || e.worker != "" && !jsonfile.PlainName(e.worker) || e.worker == "" && e != (event{}) {
			t.Errorf("%+v", e)
		}
	})
}

// FuzzText checks the decoders of small texts: pid files, violation files, summaries and names.
func FuzzText(f *testing.F) {
	for _, s := range []string{"", "12345\n", " 7 ", "-1", "99999999999999999999", "WORKSPACE_VIOLATION\nx", "### Blocked\n- a\n- none\n### Next\n- b",
		"==========\nVIOLATION: x\nTimestamp: 2024-01-15T10:40:00+0000\nAgent Dir: /x/worker-TASK-001-1\n==========", "worker-TASK-001-plan-17", "1705312200-a.b-result.json"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if pid, err := folder.ParsePID(text); err == nil && pid <= 0 {
			t.Errorf("pid %d", pid)
		}
		word, _ := decodeViolation(text)
		blocked, _ := decodeBlocked(text)
		if !oneLine(append(blocked, word)...) || len(blocked) > maxErrors {
			t.Errorf("%q %q", word, blocked)
		}
		list := decodeViolations(text)
		if len(list) > maxViolations || !reflect.DeepEqual(list, decodeViolations(text)) {
			t.Errorf("%d violations", len(list))
		}
		for _, v := range list {
			if _, _, _, err := workerName(v.worker); v.worker != "" && err != nil || !oneLine(v.text) {
				t.Errorf("%+v", v)
			}
		}
		if id, epoch, _, err := workerName(string(text)); err == nil && (!isTaskID(id) || epoch < 0 || !jsonfile.PlainName(string(text))) {
			t.Errorf("worker %q %d", id, epoch)
		}
		if kind, epoch, ok := resultName(string(text)); ok && (kind == "" || epoch < 0) {
			t.Errorf("result %q %d", kind, epoch)
		}
	})
}
