package agentstatus

import (
	"bytes"
	"path"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// fuzzDocument checks a JSON object decoder against properties of any input: no panic, findings that name their field
// in one line, and no value that a policy cannot use.
func fuzzDocument(f *testing.F, decode func(*testing.T, jsonfile.Object) []protocol.Finding, seeds ...string) {
	for _, s := range seeds {
		f.Add([]byte(s))
		f.Add([]byte(strings.NewReplacer("null", "1e999", "true", "null", "[]", `[null,{"a":[]},"x"]`, "{}", "[]").Replace(s)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		o, err := jsonfile.Parse(b)
		if err != nil {
			return
		}
		issues := decode(t, o)
		if len(issues) > folder.MaxFindings+1 {
			t.Errorf("%d findings", len(issues))
		}
		for _, i := range issues {
			if i.Code == "" || i.Text == "" || strings.ContainsFunc(i.Text, unicode.IsControl) && !strings.ContainsFunc(i.Field, unicode.IsControl) {
				t.Errorf("finding %+v", i)
			}
		}
	})
}

func FuzzRequest(f *testing.F) {
	fuzzDocument(f, func(t *testing.T, o jsonfile.Object) []protocol.Finding {
		r := decodeRequest(o)
		if v, known := r.throttle.Value(); r.timeout < 0 || r.every < 0 || known && (v < 0 || v > 1) || r.priority < protocol.PriorityLow || r.priority > protocol.PriorityCritical {
			t.Errorf("%+v", r)
		}
		if strings.ContainsFunc(r.title, unicode.IsControl) {
			t.Errorf("title %q", r.title)
		}
		return r.issues
	}, requestText, grown(0), `{"timeout_seconds":1e308,"coordination":{"progress_updates_required":true,"update_interval_seconds":1e300}}`)
}

func FuzzResult(f *testing.F) {
	fuzzDocument(f, func(t *testing.T, o jsonfile.Object) []protocol.Finding {
		r := decodeResult(o)
		if r.RetryAfter < 0 || r.RetryAfter > 24*time.Hour || r.Ours != (r.Agent == ourName) || r.Twice && !r.Ours {
			t.Errorf("%+v", r)
		}
		for _, e := range r.Failures {
			if strings.ContainsFunc(e.Code+e.Message+e.File, unicode.IsControl) || e.Line < 0 {
				t.Errorf("%+v", e)
			}
		}
		return r.issues
	}, resultText, `{"status":"deferred","reason":"capacity_exceeded","retry_after_seconds":60}`, `{"next_actions":[{"action":"a","priority":"low","requires_jesse":true}]}`)
}

func FuzzProgress(f *testing.F) {
	fuzzDocument(f, func(t *testing.T, o jsonfile.Object) []protocol.Finding { return decodeProgress(o).issues }, progressText)
}

func FuzzNotice(f *testing.F) {
	fuzzDocument(f, func(t *testing.T, o jsonfile.Object) []protocol.Finding {
		if h := decodeNotice(o); h.Half {
			t.Error("half")
		}
		return nil
	}, `{"task_id":"x","status":"deferred","reason":"retry","retry_after_seconds":5,"held_at":"2026-01-02T03:04:05Z","not_before":1767323045,"release_by":"x"}`)
}

func FuzzHeartbeat(f *testing.F) {
	fuzzDocument(f, func(t *testing.T, o jsonfile.Object) []protocol.Finding {
		b := decodeBeat(o)
		if v, known := b.used.Value(); known && (v < 0 || v > 1) {
			t.Errorf("used %v", v)
		}
		if relative := decodeStatusFile(o); relative.name != b.name || relative.stated != b.stated || len(relative.issues) > len(b.issues) {
			t.Errorf("%+v, and leniently %+v", b, relative)
		}
		return b.issues
	}, beatText("a"), `{"agent":"x","heartbeat":1767323045000,"health":{"cpu_ok":false,"last_error":"a\u0000b"}}`)
}

func FuzzCurrentTask(f *testing.F) {
	fuzzDocument(f, func(t *testing.T, o jsonfile.Object) []protocol.Finding { _ = decodeCurrent(o); return nil },
		`{"current_task":{"current_task":{"id":"x"}}}`, `{"task_id":"x"}`)
}

func FuzzRegistry(f *testing.F) {
	fuzzDocument(f, func(t *testing.T, o jsonfile.Object) []protocol.Finding {
		r := decodeRegistry(o)
		for name, m := range r.agents {
			if name == "" || m.pid < 0 {
				t.Errorf("%q: %+v", name, m)
			}
		}
		return r.issues
	}, registryText, `{"agents":{"a":{"pid":"12"},"":{},"b":null,"c":{"pid":4294967297}}}`)
}

// Clients write out again what they read of requests and results: encoding must succeed.
func FuzzForms(f *testing.F) {
	fuzzDocument(f, func(t *testing.T, o jsonfile.Object) []protocol.Finding {
		doc, err := jsonfile.Encode(whole[Request](o))
		if err != nil {
			t.Fatal(err)
		}
		if r, err := CheckRequest(doc); err == nil && (!plainID(r.TaskID) || !plainID(r.Target)) {
			t.Errorf("accepted: %+v", r)
		}
		if doc, err = jsonfile.Encode(whole[Result](o)); err != nil {
			t.Fatal(err)
		}
		if _, err := jsonfile.Parse(doc); err != nil {
			t.Errorf("%v: %s", err, doc)
		}
		_ = whole[TaskProgress](o)
		return nil
	}, requestText, resultText, progressText, `{"payload":{"parameters":{"n":1e400,"deep":{"a":[1,2,{"b":null}]}}}}`)
}

func FuzzClaim(f *testing.F) {
	fuzzDocument(f, func(t *testing.T, o jsonfile.Object) []protocol.Finding {
		k := decodeClaim(o)
		for _, id := range k.processes() {
			if id.PID <= 0 || id.Start == 0 || id.Boot == "" {
				t.Errorf("%+v proves nothing", id)
			}
		}
		return nil
	}, `{"task_id":"x","agent":"a","worker":{"pid":7,"start":"18446744073709551615","boot":"b"},"runner":{"pid":-1,"start":"x"},"attempt":2,"claimed_at":"2026-01-02T03:04:05Z"}`)
}

func FuzzAgentRecord(f *testing.F) {
	fuzzDocument(f, func(t *testing.T, o jsonfile.Object) []protocol.Finding {
		k := decodeRecord(o)
		var r agentRecord
		r.setProcesses(k.process())
		doc, err := jsonfile.Encode(r)
		if err != nil {
			t.Fatal(err)
		}
		object, _ := jsonfile.Parse(doc)
		if back := decodeRecord(object); back.process() != k.process() {
			t.Errorf("%+v came back as %+v", k.process(), back.process())
		}
		return nil
	}, `{"agent":"a","pid":5,"start":"18446744073709551615","boot":"b","uid":0,"held":"x"}`)
}

func FuzzSchedule(f *testing.F) {
	fuzzDocument(f, func(t *testing.T, o jsonfile.Object) []protocol.Finding {
		if s := decodeSchedule(o); s.timeout < 0 || s.attempt.Committed {
			t.Errorf("%+v", s)
		}
		return nil
	}, `{"action":"retry","rule":"r","due":"2026-01-02T03:04:05Z","due_nanos":999,"timeout_seconds":600,"result_sum":"x"}`)
}

func FuzzLog(f *testing.F) {
	f.Add([]byte(lineText+"\n\n"+lineText+"\r\nnot json\n{\"event_type\":1}\n"), 10)
	f.Add([]byte(started(time.Now(), nanos)+"\n"), 3)
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		l := newLog()
		for line := range bytes.Lines(b) {
			l.take(bytes.TrimSpace(line), time.Unix(9, 0))
		}
		for id, k := range l.tasks {
			if id == "" || len(k.events) == 0 || k.seen.IsZero() {
				t.Errorf("%q: %+v", id, k)
			}
		}
		_ = l.issues()
		l.prune(time.Unix(9, 0).Add(time.Hour), nil)
		if len(l.tasks) > 0 {
			t.Error("not forgotten")
		}
	})
}

func FuzzFileNames(f *testing.F) {
	for _, s := range []string{"task_x.request.json", "task_.request.json", "task_..request.json", "task_a.1.request.json.held", "task_x.deferred.json", "task_a\nb.result.json", "x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		id, kind, ok := parseTaskFile(name)
		if !ok {
			return
		}
		back := ""
		for _, k := range taskExts {
			if k.kind == kind {
				back = "task_" + id + k.ext
			}
		}
		if back != name {
			t.Errorf("%q came back as %q", name, back)
		}
		if plainID(id) && (path.Dir(taskFile(id, requestExt)) != tasksDir || path.Dir(attemptFile(id, 1, "sched")) != attemptsDir || path.Dir(deadFile(id)) != attemptsDir) {
			t.Errorf("%q leads out of its folder", id)
		}
		if shown := New("/", Options{}).Shown(name); strings.ContainsFunc(shown, unicode.IsControl) {
			t.Errorf("%q", shown)
		}
	})
}

func FuzzAgentNames(f *testing.F) {
	f.Add("codex", "codex-cursor", "Codex_Cursor")
	f.Add("worker", "worker-1", "worker_1")
	f.Fuzz(func(t *testing.T, a, b, spelling string) {
		d := directory{a: true, b: true}
		if d.canonical(a) != a || d.canonical(b) != b {
			t.Errorf("%q and %q: a known name means another", a, b)
		}
		if got := d.canonical(spelling); got != spelling && fold(got) != fold(spelling) && aliases[fold(spelling)] != got {
			t.Errorf("%q is taken for %q", spelling, got)
		}
	})
}
