package worker

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/livhana/steward/join/run"
	"github.com/livhana/steward/join/task"
	"github.com/livhana/steward/protocol/agentstatus"
)

func TestCommandsGetTheRequest(t *testing.T) {
	s := newSite(t)
	s.script("tools/research.sh", `printf '%s\n' "$@" > args; cat > stdin; echo "found it"; echo "and more"`)
	q := request(task.Research, map[string]any{"query": "How does $(it) work?"})
	r := s.run(q, func(o *Options) {
		o.Research = []string{"tools/research.sh", "{task}", "--in={project}", "{request}", "{other}"}
	})
	if r.Status != statusCompleted || r.Body.Summary != "found it" || r.Body.Stdout != "found it\nand more\n" {
		t.Errorf("got %s %q %q %+v", r.Status, r.Body.Summary, r.Body.Stdout, r.Errors)
	}
	if got, want := s.read("args"), strings.Join([]string{q.TaskID, "--in=" + s.dir, requestFile(s.dir, q.TaskID), "{other}", ""}, "\n"); got != want {
		t.Errorf("arguments %q, want %q", got, want)
	}
	var on struct {
		TaskID  string `json:"task_id"`
		Payload struct{ Parameters struct{ Query string } }
	}
	if err := json.Unmarshal([]byte(s.read("stdin")), &on); err != nil || on.TaskID != q.TaskID || on.Payload.Parameters.Query != "How does $(it) work?" {
		t.Errorf("input %q: %v", s.read("stdin"), err)
	}
}

func TestWithoutACommandTheTaskIsBlocked(t *testing.T) {
	s := newSite(t)
	for kind, p := range map[string]map[string]any{
		task.Research: {"query": "x"}, task.Validate: {"validation_type": "lint"}, task.Deploy: {"service_name": "x", "environment": "staging"},
	} {
		r := s.run(request(kind, p))
		e := theError(t, r, statusBlocked, codeUnconfigured)
		if !strings.Contains(e.Message, kind) || !strings.Contains(e.Message, "[worker.commands]") || len(r.Next) != 1 || !r.Next[0].Human {
			t.Errorf("got %+v, %+v", e, r.Next)
		}
	}
}

func TestACommandThatIsNotThere(t *testing.T) {
	s := newSite(t)
	r := s.run(request(task.Research, map[string]any{"query": "x"}), func(o *Options) { o.Research = []string{"no-such-program-here"} })
	if e := theError(t, r, statusFailed, codeNotFound); !strings.Contains(e.Message, "[worker.commands]") {
		t.Errorf("got %+v", e)
	}
}

func TestAFailedValidationIsFatal(t *testing.T) {
	s := newSite(t)
	s.write("src/a.ts", "x", 0o644)
	s.script("lint.sh", "echo 'src/a.ts:12:5: error: unused'; exit 1")
	r := s.run(request(task.Validate, map[string]any{"validation_type": "lint"}), func(o *Options) { o.Validate = []string{"./lint.sh"} })
	if e := theError(t, r, statusFailed, codeValidation); e.Severity != severityFatal || e.File != filepath.Join(s.dir, "src/a.ts") || e.Line != 12 {
		t.Errorf("got %+v", e)
	}
}

// judge returns the result of a research command with this output and exit code.
func judge(t *testing.T, stdout string, code int) agentstatus.Result {
	t.Helper()
	a := attempt{plan: plan{kind: task.Research, name: "research", dir: "/p", capture: true, reports: true}, output: 1 << 20,
		ended: run.Ended{Code: code, Stdout: run.Output{Text: stdout}}, paths: allowedPaths{project: "/p"}}
	return a.result()
}

func TestReports(t *testing.T) {
	for _, c := range []struct {
		name, out    string
		code         int
		status       string
		error, words string // code and part of the message of the first error
		summary      string
	}{
		{"none", "hello\nthere\n", 0, "completed", "", "", "hello"},
		{"last line", "noise\n{\"status\": \"completed\", \"summary\": \"did it\"}\n", 0, "completed", "", "", "did it"},
		{"all of it", "{\n \"summary\": \"did it\"\n}\n", 0, "completed", "", "", "did it"},
		{"in a fence", "Done.\n```json\n{\"status\": \"partial\", \"summary\": \"half\"}\n```\n", 0, "partial", "EXECUTION_FAILED", "half", "half"},
		{"other JSON", "{\"answer\": 42}", 0, "completed", "", "", "{\"answer\": 42}"},
		{"a list", "[1]", 0, "completed", "", "", "[1]"},
		{"failed", `{"status": "failed", "errors": [{"code": "X", "message": "m", "severity": "warning"}]}`, 0, "failed", "X", "m", "m"},
		{"failed without a reason", `{"status": "failed", "summary": "no"}`, 0, "failed", "EXECUTION_FAILED", "no", "no"},
		{"completed, but exit code 1", `{"status": "completed", "summary": "fine"}`, 1, "failed", "EXECUTION_FAILED", "exit code 1", "fine"},
		{"success alone", `{"result": {"success": false, "summary": "s"}}`, 0, "failed", "EXECUTION_FAILED", "s", "s"},
		{"unknown status", `{"status": "great"}`, 0, "failed", "EXECUTION_FAILED", `status is "great"`, ""},
		{"unknown severity", `{"status": "failed", "errors": [{"code": "X", "message": "m", "severity": "bad"}]}`, 0, "failed", "EXECUTION_FAILED", `errors[0].severity is "bad"`, ""},
		{"errors of the wrong type", `{"errors": "none"}`, 0, "failed", "EXECUTION_FAILED", "errors must be an array, not string", ""},
		{"an agent's envelope", `{"type":"result","is_error":false,"result":"All is well.\nMore."}`, 0, "completed", "", "", "All is well."},
		{"a report in an envelope", `{"type":"result","is_error":false,"result":"Text.\n{\"status\":\"blocked\",\"errors\":[{\"code\":\"B\",\"message\":\"b\",\"severity\":\"error\"}]}"}`, 0, "blocked", "B", "b", ""},
		{"an envelope of an error", `{"type":"result","is_error":true,"result":"Claude AI usage limit reached|1761168600"}`, 1, "failed", "RATE_LIMITED", "1761168600", ""},
		{"torn", `{"status": "completed"`, 0, "completed", "", "", `{"status": "completed"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := judge(t, c.out, c.code)
			var code, words string
			if len(r.Errors) > 0 {
				code, words = r.Errors[0].Code, r.Errors[0].Message
			}
			if r.Status != c.status || code != c.error || !strings.Contains(words, c.words) || c.summary != "" && r.Body.Summary != c.summary || r.Body.Success != (c.status == "completed") {
				t.Errorf("got %s %s %q, summary %q, success %v", r.Status, code, words, r.Body.Summary, r.Body.Success)
			}
		})
	}
}

func TestReportsFieldByField(t *testing.T) {
	r := judge(t, `{"status": "failed", "result": {"artifacts_created": ["a/b", "/c"], "files_modified": ["d"], "metrics": {"tests": 41, "share": 0.5, "deep": {"n": [1]}}},
		"errors": [{"code": "E", "message": "m", "severity": "error", "file": "src/x.go", "line": 7}],
		"next_actions": [{"action": "go on", "priority": "high", "requires_jesse": true}, {"action": "rest"}]}`, 0)
	if !slices.Equal(r.Body.Artifacts, []string{"/p/a/b", "/c"}) || !slices.Equal(r.Body.Modified, []string{"/p/d"}) {
		t.Errorf("paths: %q %q", r.Body.Artifacts, r.Body.Modified)
	}
	if e := r.Errors[0]; e.File != "/p/src/x.go" || e.Line != 7 {
		t.Errorf("error: %+v", e)
	}
	want := []agentstatus.NextAction{{Action: "go on", Priority: "high", Human: true}, {Action: "rest", Priority: "medium"}}
	if !slices.Equal(r.Next, want) {
		t.Errorf("next: %+v", r.Next)
	}
}

func TestMetricsOfAReportStayNumbers(t *testing.T) {
	s := newSite(t)
	s.script("r.sh", `echo '{"status": "completed", "result": {"metrics": {"tests": 41, "share": 0.5, "exit_code": "mine"}}}'`)
	id := s.submit(request(task.Research, map[string]any{"query": "x"}))
	s.drain(func(o *Options) { o.Research = []string{"./r.sh"} })
	var doc struct {
		Result struct{ Metrics map[string]any }
	}
	if err := json.Unmarshal(s.detail(id).ResultRaw, &doc); err != nil {
		t.Fatal(err)
	}
	if m := doc.Result.Metrics; m["tests"] != 41.0 || m["share"] != 0.5 || m["exit_code"] != 0.0 {
		t.Errorf("got %v", m)
	}
}
