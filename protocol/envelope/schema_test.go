package envelope

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

func parse(t testing.TB, text string) *message {
	t.Helper()
	o, err := jsonfile.Parse([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return decode(o, testOptions.Deployers)
}

// For every required field of every type, a missing or mistyped value is reported by name (protocol 004, Message Types).
func TestRequiredFields(t *testing.T) {
	for _, c := range []struct {
		whole    fields
		fault    string // violations of the document's list of Required Fields
		finding  string // other fields that the message's structure needs
		unusable string
	}{
		{assign("t", "X"), "message_type task_id from_agent to_agent task_name requirements acceptance_criteria", "timestamp", "message_type task_id to_agent"},
		{ack("t", "X"), "", "from_agent timestamp status understood", "message_type task_id"},
		{complete("t", "X", true), "", "from_agent timestamp status output validation", "message_type task_id"},
		{reject("t"), "", "from_agent to_agent timestamp reason issues action_required", "message_type task_id"},
		{escalate("t", "X", "human"), "", "task_id from_agent timestamp blocker_type description", "message_type"},
		{resolve("t"), "", "task_id from_agent to_agent timestamp decision resume_task", "message_type"},
	} {
		whole := c.whole.with(fields{"timestamp": "2026-01-02T03:04:05Z"})
		if m := parse(t, whole.String()); m.unusable != "" || len(m.faults)+len(m.findings) > 0 {
			t.Errorf("%s: %+v", whole, m)
		}
		for key := range whole {
			for how, value := range map[string]any{"missing": nil, "wrong": map[string]any{"a": 1}} {
				f := maps.Clone(whole)
				if f[key] = value; how == "missing" {
					delete(f, key)
				}
				m := parse(t, f.String())
				said := func(s string) bool { return strings.HasPrefix(s, key+" ") }
				fault := slices.ContainsFunc(m.faults, said)
				finding := slices.ContainsFunc(m.findings, func(i protocol.Finding) bool { return i.Field == key && i.Severity == protocol.Medium })
				if in(c.fault, key) != fault && m.unusable == "" || in(c.finding, key) != finding && how == "missing" && m.unusable == "" ||
					in(c.unusable, key) != (m.unusable != "") {
					t.Errorf("%s %s of %s: fault %v, finding %v, unusable %q", key, how, whole["message_type"], fault, finding, m.unusable)
				}
			}
		}
	}
}

func in(list, word string) bool { return slices.Contains(strings.Fields(list), word) }

func TestSpans(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"2 hours": 2 * time.Hour, "30 minutes": 30 * time.Minute, "1 day": day, "in 2h": 2 * time.Hour, "1h30m": 90 * time.Minute, " In 45 Mins ": 45 * time.Minute,
		"1.5 hours": 90 * time.Minute, "2 days and 3 hours": 51 * time.Hour, "1 week": 7 * day, "90s": 90 * time.Second, "1 hour, 5 minutes": 65 * time.Minute,
		"": 0, "soon": 0, "2": 0, "2 fortnights": 0, "hours": 0, "-2 hours": 0, "0 hours": 0, "999999 weeks": 0, "2 hours or so": 0, "2 monthsx": 0, "1h1h1h1h1h": 0,
	} {
		if got, ok := parseSpan(text); got != want && ok || ok != (want > 0) {
			t.Errorf("%q: %v, %v; want %v", text, got, ok, want)
		}
	}
}

// A flag that is not clearly false blocks the deployment.
func TestBlockingFlag(t *testing.T) {
	for value, want := range map[string]bool{"true": true, "false": false, "null": false, `"false"`: false, `"yes"`: true, "1": true, `{}`: true, `""`: false} {
		m := parse(t, `{"message_type":"TASK_COMPLETION","task_id":"t","output":{"blocking_deployment":`+value+`}}`)
		if m.output.verdict.blocking != want {
			t.Errorf("%s: want %v", value, want)
		}
	}
}

// White space does not change a message's sum, and a timestamp in the future is replaced by the file's time.
func TestIdentity(t *testing.T) {
	a, b := parse(t, `{"message_type": "X","task_id":"t", "n": 1.0}`), parse(t, "{\"message_type\":\"X\",\n\"task_id\":\"t\",\"n\":1.0}")
	if a.sum != b.sum || a.sum == parse(t, `{"message_type":"X","task_id":"t","n":1.00}`).sum {
		t.Error("sums")
	}
	now := time.Now()
	m := parse(t, `{"message_type":"X","task_id":"t","timestamp":"2999-01-01T00:00:00Z"}`)
	if m.place("x", now); !m.at.Equal(now) {
		t.Errorf("at %v", m.at)
	}
}

// Within one second, an assignment comes before its acknowledgement, regardless of file names.
func TestSameSecond(t *testing.T) {
	s := newSite(t, "")
	stamp := fields{"timestamp": s.Now.UTC().Format(time.RFC3339)}
	s.Write(messagesDir+"/a.json", complete("t", "X", true).with(stamp).String())
	s.Write(messagesDir+"/b.json", ack("t", "X").with(stamp).String())
	s.Write(messagesDir+"/c.json", assign("t", "X").with(stamp).String())
	if k := taskOf(s.look(), "t"); k.Outcome == nil {
		t.Errorf("%+v", k)
	}
}

// An assignment without a timestamp comes before an acknowledgement stamped with the second in which the assignment was
// written.
func TestStampOfTheSameSecond(t *testing.T) {
	s := newSite(t, "")
	name := messagesDir + "/z.json"
	s.Write(name, assign("t", "X").String())
	at := s.Now.Truncate(time.Second).Add(700 * time.Millisecond)
	s.Do(os.Chtimes(s.Path(name), at, at))
	s.Write(messagesDir+"/a.json", ack("t", "X").with(fields{"timestamp": at.UTC().Format(time.RFC3339)}).String())
	if k := taskOf(s.look(), "t"); k.Named != "acknowledged" {
		t.Errorf("%+v", k)
	}
}

// Two equal files without a timestamp are two messages; with a timestamp they are one.
func TestCopies(t *testing.T) {
	for stamp, want := range map[string]float64{"": 2, "2026-01-02T03:04:05Z": 1} {
		s := newSite(t, "")
		f := reject("t")
		if stamp != "" {
			f["timestamp"] = stamp
		}
		s.Write(messagesDir+"/1.json", f.String())
		s.Write(messagesDir+"/2.json", f.String())
		s.Write(logFile, f.String()+"\n")
		snap := s.look()
		if got := snap.Measures[len(snap.Measures)-1]; got.Name != "rejections" || got.Value != want {
			t.Errorf("stamp %q: %+v", stamp, got)
		}
		if len(snap.Events) != 1 {
			t.Errorf("stamp %q: %+v", stamp, snap.Events)
		}
	}
}

// Every JSON example of the document is usable unchanged.
func TestExamplesOfTheDocument(t *testing.T) {
	n := 0
	for _, name := range []string{"assignment", "acknowledgment", "completion", "rejection", "blocker", "resolution", "gate_document", "error_*", "flow_step_4"} {
		files, _ := filepath.Glob("testdata/" + name + ".txtar")
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			for part := range strings.SplitSeq(string(text), "\n-- ") {
				_, doc, _ := strings.Cut(part, " --\n")
				if !strings.HasPrefix(doc, "{\n") { // the document's own examples are indented
					continue
				}
				n++
				if m := parse(t, doc); m.unusable != "" || m.kind == unknown {
					t.Errorf("%s: %s\n%s", f, m.unusable, doc)
				}
			}
		}
	}
	if n < 14 {
		t.Errorf("only %d examples", n)
	}
}

// A thousand tasks that wait for each other in a ring, and a thousand in a chain.
func TestLongWays(t *testing.T) {
	s := newSite(t, "")
	var log strings.Builder
	for i := range 1000 {
		fmt.Fprintln(&log, assign(fmt.Sprint("ring", i), "X").with(fields{"blocked_by": fmt.Sprint("ring", (i+1)%1000)}))
		fmt.Fprintln(&log, assign(fmt.Sprint("chain", i), "X").with(fields{"blocked_by": []string{fmt.Sprint("chain", i+1)}}))
	}
	s.Write(logFile, log.String())
	snap := s.look()
	cycles := 0
	for _, f := range snap.Findings {
		if f.Code == "cycle" {
			if cycles++; len(f.Text) > 500 {
				t.Fatalf("%d bytes", len(f.Text))
			}
		}
	}
	if cycles != 1000 || taskOf(snap, "ring7").Block != "" || taskOf(snap, "chain7").Block == "" {
		t.Errorf("%d in the ring; %+v", cycles, taskOf(snap, "chain7"))
	}
}

// Each line of the audit log is valid JSON and contains the message verbatim.
func TestAuditLine(t *testing.T) {
	raw := `{ "a": "<&>é", "n": 1.50,
 "message": {"sum": "x"} }`
	line, err := auditLine(auditHead{Path: `a,"message":b`, Sum: jsonfile.SumOf([]byte("x"))}, []byte(raw))
	if err != nil || !json.Valid(line) || !strings.HasSuffix(string(line), `"message":{"a":"<&>é","n":1.50,"message":{"sum":"x"}}}`) {
		t.Errorf("%s, %v", line, err)
	}
	if sum, ok := auditSum(line); !ok || sum != jsonfile.SumOf([]byte("x")) {
		t.Errorf("%q", sum)
	}
}

// A finding names the file and the field of the message that causes it. Messages without a task id get one finding each.
func TestFindingsNameTheirFile(t *testing.T) {
	s := newSite(t, "")
	nameless := escalate("", "DEVELOPER", "human")
	delete(nameless, "task_id")
	files := []string{s.send(nameless), s.send(nameless.with(fields{"description": "and now?"}))}
	s.send(assign("t", "DEVELOPER"))
	done := s.send(complete("t", "DEVELOPER", false))
	got := map[string]string{}
	for _, f := range s.look().Findings {
		got[f.Path+" "+f.Code] = f.Field
	}
	for path, field := range map[string]string{files[0] + " schema": "task_id", files[1] + " schema": "task_id", done + " criteria": "validation.all_passed"} {
		if got[path] != field {
			t.Errorf("%s: %q, want %q; all: %v", path, got[path], field, got)
		}
	}
}
