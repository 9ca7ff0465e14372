package worker

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/join/task"
	"github.com/livhana/steward/protocol/agentstatus"
)

func TestRequestsThatCannotBeMeantAreRefused(t *testing.T) {
	s := newSite(t)
	s.script("ok.sh", "touch ran")
	for _, c := range []struct{ kind, parameters, field string }{
		{"execute", `null`, "payload.parameters"},
		{"execute", `{}`, "script_path"},
		{"execute", `{"script_path": ""}`, "script_path"},
		{"execute", `{"script_path": 7}`, "script_path"},
		{"execute", `{"script_path": "ok.sh", "args": "-rf /"}`, "args"},
		{"execute", `{"script_path": "ok.sh", "args": ["a", 7]}`, "args[1]"},
		{"execute", `{"script_path": "ok.sh", "args": ["a\u0000b"]}`, "args[0]"},
		{"execute", `{"script_path": "ok.sh", "working_directory": []}`, "working_directory"},
		{"execute", `{"script_path": "ok.sh", "capture_output": "no"}`, "capture_output"},
		{"execute", `{"script_path": "ok.sh", "timeout_seconds": -1}`, "timeout_seconds"},
		{"execute", `{"script_path": "ok.sh", "timeout_seconds": "1"}`, "timeout_seconds"},
		{"execute", `{"script_path": "ok.sh", "dry_run": "yes"}`, "dry_run"},
		{"execute", `{"script_path": "ok.sh", "working_directory": "ok.sh"}`, "working_directory"},
		{"research", `{"depth": "thorough"}`, "query"},
		{"research", `{"query": "x", "search_paths": "src"}`, "search_paths"},
		{"validate", `{"target_files": []}`, "validation_type"},
		{"deploy", `{"environment": "production"}`, "service_name"},
		{"deploy", `{"service_name": "x"}`, "environment"},
		{"conquer", `{"script_path": "ok.sh"}`, "request_type"},
	} {
		t.Run(c.kind+c.parameters, func(t *testing.T) {
			s.t = t
			id := agentstatus.NewTaskID()
			s.raw(id, fmt.Sprintf(`{"task_id": %q, "request_type": %q, "priority": "high", "source_agent": "livhana-layer1.1", "target_agent": %q,
				"created_at": "2025-10-22T21:30:00Z", "payload": {"task_type": %[2]q, "parameters": %[4]s}}`, id, c.kind, agent, c.parameters))
			s.drain(func(o *Options) {
				o.Research, o.Validate, o.Deploy = []string{"ok.sh"}, []string{"ok.sh"}, []string{"ok.sh"}
			})
			e := theError(t, s.result(id), statusFailed, codeInvalid)
			if e.Severity != severityFatal || !strings.Contains(e.Message, c.field) {
				t.Errorf("got %+v, want a fatal one that names %s", e, c.field)
			}
		})
	}
	if s.read("ran") != "" {
		t.Error("something was run")
	}
}

func TestPathsStayInTheProject(t *testing.T) {
	s := newSite(t)
	outside, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	allowed := filepath.Join(outside, "allowed")
	for _, err := range []error{
		os.MkdirAll(filepath.Join(allowed, "sub"), 0o755),
		os.Symlink(outside, filepath.Join(s.dir, "away")),
		os.Symlink(filepath.Join(outside, "not-there"), filepath.Join(s.dir, "dangling")),
		os.Symlink("loop", filepath.Join(s.dir, "loop")),
		os.Symlink("scripts", filepath.Join(s.dir, "within")),
		os.Symlink(allowed, filepath.Join(s.dir, "shared")),
		os.Mkdir(filepath.Join(s.dir, "scripts"), 0o755),
		os.WriteFile(filepath.Join(outside, "x.sh"), []byte("#!/bin/sh\n"), 0o755),
		os.WriteFile(filepath.Join(s.dir, "scripts", "x.sh"), []byte("#!/bin/sh\n"), 0o755),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	g := allow(s.dir, []string{allowed})
	for path, want := range map[string]string{
		"scripts/x.sh":                        "",
		"scripts/../scripts/x.sh":             "",
		"within/x.sh":                         "",
		"not/there/yet.txt":                   "",
		"shared/sub/new.txt":                  "",
		filepath.Join(allowed, "sub"):         "",
		filepath.Join(s.dir, "a"):             "",
		"~/x":                                 "",
		"..":                                  "outside",
		"../" + filepath.Base(s.dir) + "x/y":  "outside",
		"scripts/../../etc/passwd":            "outside",
		"/etc/passwd":                         "outside",
		s.dir + "x":                           "outside",
		filepath.Join(outside, "x.sh"):        "outside",
		"away/x.sh":                           "leads to",
		"away/new/file":                       "leads to",
		"shared/../x.sh":                      "",
		"dangling":                            "leads nowhere",
		"dangling/x":                          "leads nowhere",
		"loop/x":                              "cannot be followed",
		"":                                    "empty",
		"a\x00b":                              "control character",
		"a\nb":                                "control character",
		"a\xffb":                              "UTF-8",
		strings.Repeat("a/", 3000):            "bytes",
		"scripts/" + strings.Repeat("n", 300): "bytes",
		allowed + "/../x.sh":                  "outside",
		filepath.Join(s.dir, "within", "..", "x"): "",
	} {
		abs, err := g.locate(path)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %q, %v, want an error with %q", path, abs, err, want)
		}
		if err == nil && !filepath.IsAbs(abs) {
			t.Errorf("%q: %q is not absolute", path, abs)
		}
	}
}

func TestEveryPathOfARequestIsConfined(t *testing.T) {
	s := newSite(t)
	s.script("ok.sh", "touch ran")
	commands := func(o *Options) {
		o.Research, o.Validate = []string{filepath.Join(s.dir, "ok.sh")}, []string{filepath.Join(s.dir, "ok.sh")}
	}
	away := []any{filepath.Join(s.dir, "fine"), "/etc/passwd"}
	for name, r := range map[string]agentstatus.Request{
		"script_path":       request(task.Execute, execute("/bin/true")),
		"working_directory": request(task.Execute, map[string]any{"script_path": filepath.Join(s.dir, "ok.sh"), "working_directory": "/etc"}),
		"search_paths":      request(task.Research, map[string]any{"query": "x", "search_paths": away}),
		"target_files":      request(task.Validate, map[string]any{"validation_type": "lint", "target_files": away}),
		"files_to_modify": request(task.Execute, execute(filepath.Join(s.dir, "ok.sh")), func(r *agentstatus.Request) {
			r.Payload.Modify = []string{"/etc/passwd"}
		}),
	} {
		e := theError(t, s.run(r, commands), statusFailed, codePermission)
		if !strings.Contains(e.Message, name) || e.File == "" {
			t.Errorf("%s: got %+v", name, e)
		}
	}
	if _, err := os.Stat(filepath.Join(s.dir, "ran")); err == nil {
		t.Error("something was run")
	}
	// A path elsewhere is allowed if the configuration lists its folder.
	if r := s.run(request(task.Execute, execute("/bin/true")), func(o *Options) { o.Paths = []string{"/bin", "/usr/bin"} }); r.Status != statusCompleted {
		t.Errorf("got %+v", r.Errors)
	}
}

func TestOnlyItsOwnTasks(t *testing.T) {
	s := newSite(t)
	script := s.script("ok.sh", "true")
	id := s.submit(request(task.Execute, execute(script), func(r *agentstatus.Request) { r.Target = "another-agent" }))
	if tally := s.drain(); tally.Taken != 0 || s.detail(id).State != agentstatus.StatePending {
		t.Errorf("took %d; the task is %s", tally.Taken, s.detail(id).State)
	}
}

// TestProgramsOutside: a program outside the project runs only if the configuration lists it or its folder.
func TestProgramsOutside(t *testing.T) {
	elsewhere := t.TempDir()
	tool, other := filepath.Join(elsewhere, "tool"), filepath.Join(elsewhere, "other")
	for _, file := range []string{tool, other} {
		if err := os.WriteFile(file, []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		programs []string
		script   string
		runs     bool
	}{{nil, tool, false}, {[]string{tool}, tool, true}, {[]string{tool}, other, false}, {[]string{elsewhere}, other, true}} {
		w := New(Options{Project: t.TempDir(), Settings: Settings{Programs: c.programs, Timeout: time.Minute, MaxTimeout: time.Hour}})
		p := w.planner.plan(agentstatus.Work{Request: agentstatus.Request{Type: "execute",
			Payload: agentstatus.RequestPayload{Parameters: map[string]any{"script_path": c.script}}}})
		if p.runs() != c.runs || !c.runs && (p.result.Errors[0].Code != "PERMISSION_DENIED" || !strings.Contains(p.result.Errors[0].Message, "[worker] programs")) {
			t.Errorf("%v, %s: %+v", c.programs, c.script, p.result)
		}
	}
}
