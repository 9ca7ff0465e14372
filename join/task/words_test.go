package task_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/join/task"
	"github.com/livhana/steward/protocol/agentstatus"
)

func TestBar(t *testing.T) {
	running := func(p agentstatus.TaskProgress) agentstatus.Detail {
		d := in(agentstatus.StateRunning)
		d.Progress = &p
		return d
	}
	now := noon.Add(95 * time.Second)
	for name, c := range map[string]struct {
		d     agentstatus.Detail
		width int
		want  string
	}{
		"half":      {running(agentstatus.TaskProgress{Percent: 50, Step: "push", Done: 2, Total: 4, Estimated: now.Add(30 * time.Second)}), 120, "[############............]  50 %  2/4  push  1 min 35 s  about 30 s left"},
		"nearly":    {running(agentstatus.TaskProgress{Percent: 99.9}), 80, "[###################.]  99 %  1 min 35 s"},
		"all":       {running(agentstatus.TaskProgress{Percent: 100}), 40, "[##########] 100 %  1 min 35 s"},
		"over":      {running(agentstatus.TaskProgress{Percent: 1e9}), 40, "[##########] 100 %  1 min 35 s"},
		"no number": {running(agentstatus.TaskProgress{Percent: math.NaN()}), 40, "[..........]   0 %  1 min 35 s"},
		"narrow":    {running(agentstatus.TaskProgress{Percent: 50, Step: "a long step"}), 16, "[##..]  50 %  a…"},
		"hostile":   {running(agentstatus.TaskProgress{Step: "a\r\x1b[2Jb\n\u202ec"}), 60, "[...............]   0 %  a ?[2Jb c  1 min 35 s"},
		"past":      {running(agentstatus.TaskProgress{Estimated: noon}), 40, "[..........]   0 %  1 min 35 s"},
		"pending":   {in(agentstatus.StatePending), 60, "waits for codex-cursor to take it  1 min 35 s"},
		"wide text": {running(agentstatus.TaskProgress{Step: strings.Repeat("漢", 40)}), 40, "[..........]   0 %  漢漢漢漢漢漢漢漢漢…"},
	} {
		got := task.Bar(c.d, noon, now, c.width)
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{-time.Second: "0 s", 42 * time.Second: "42 s", time.Minute: "1 min", 185 * time.Second: "3 min 5 s",
		time.Hour: "1 h", 130 * time.Minute: "2 h 10 min", 59*time.Minute + 59600*time.Millisecond: "1 h"} {
		if got := task.Span(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

func TestNextActions(t *testing.T) {
	d := endedWith("completed")
	d.ID = id1
	d.Result.Next = []agentstatus.NextAction{{Action: "Run the 'smoke' test", Priority: "high"}, {Action: "Approve", Priority: "low", Human: true}}
	lines := task.Summary(d, "Jesse", "/my project")
	want := []string{"completed", "next 1 (high): Run the 'smoke' test", "  steward task submit research --next-of " + id1 + ":1 --project '/my project'",
		"next 2 (low), Jesse must decide: Approve", "  steward task submit research --next-of " + id1 + ":2 --project '/my project' --approved"}
	if strings.Join(lines, "\n") != strings.Join(want, "\n") {
		t.Errorf("the summary is\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	next, err := task.Next(d, 1, false)
	if err != nil {
		t.Fatal(err)
	}
	o := task.Order{Type: task.Research}
	o.Follow(d, next)
	if o.Directive != next.Action || o.Own["query"] != next.Action || o.Priority != "high" || len(o.Related) != 1 || o.Related[0] != id1 {
		t.Errorf("the order is %+v", o)
	}
	o = task.Order{Type: task.Research, Priority: "critical"}
	o.Directive, o.Own = "mine", map[string]any{"query": "my question"}
	o.Follow(d, next)
	if o.Directive != "mine" || o.Own["query"] != "my question" || o.Priority != "critical" {
		t.Errorf("what was said is lost: %+v", o)
	}
	if _, err := task.Next(d, 2, false); !errors.Is(err, task.ErrNeedsHuman) {
		t.Errorf("a human's action: %v", err)
	}
	if _, err := task.Next(d, 2, true); err != nil {
		t.Errorf("approved: %v", err)
	}
	if _, err := task.Next(d, 3, true); !errors.Is(err, agentstatus.ErrNoTask) {
		t.Errorf("number 3 of 2: %v", err)
	}
	if _, err := task.Next(in(agentstatus.StatePending), 1, true); !errors.Is(err, agentstatus.ErrNoTask) {
		t.Errorf("without a result: %v", err)
	}
	for text, n := range map[string]int{"a": 1, "a:1": 1, "a:12": 12, "a:0": 0, "a:x": 0, "a:": 0, "a:1:2": 0} {
		if _, got, err := task.ParseNext(text); got != n || (err == nil) != (n > 0) {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
}

func TestSummarySaysWhereItWentWrong(t *testing.T) {
	d := endedWith("failed")
	d.Result.Seconds, d.Result.Body = 12.4, agentstatus.ResultBody{Summary: "no\nway", Modified: []string{"/p/a.go"}, Artifacts: []string{"/p/out"}}
	d.Result.Errors = []agentstatus.TaskError{{Code: "GIT_CONFLICT", Message: "merge\x1b[31m", Severity: "fatal", File: "/p/main.go", Line: 7}, {Code: "X"}}
	want := "failed after 12 s: no way\n  created   /p/out\n  modified  /p/a.go\n  fatal     GIT_CONFLICT  /p/main.go:7: merge?[31m\n  error     X"
	if got := strings.Join(task.Summary(d, "Jesse", ""), "\n"); got != want {
		t.Errorf("the summary is\n%s\nwant\n%s", got, want)
	}
}

func TestWorkByHand(t *testing.T) {
	e := task.Ending{Agent: "codex", Summary: "ok", Took: 3 * time.Second, Metrics: map[string]any{"n": 4.0}, Next: []string{"a"}, ForHuman: []string{"b"}}
	r, err := e.Result(noon)
	if err != nil || r.Status != "completed" || !r.Body.Success || r.Source != "codex" || r.Seconds != 3 || len(r.Next) != 2 || r.Next[0].Human || !r.Next[1].Human || r.Errors == nil {
		t.Errorf("%+v, %v", r, err)
	}
	for code, want := range map[string]string{"FILE_NOT_FOUND": "failed error", "TIMEOUT": "timeout error", "GIT_CONFLICT": "failed fatal", "CAPACITY_EXCEEDED": "failed warning", "MINE": "failed error"} {
		e := task.Ending{Agent: "codex", Failure: &agentstatus.TaskError{Code: code, Message: "m", Severity: task.Severity(code)}}
		r, err := e.Result(noon)
		if err != nil || r.Status+" "+r.Errors[0].Severity != want || r.Body.Success || r.Body.Summary != "m" {
			t.Errorf("%s: %+v, %v", code, r, err)
		}
	}
	for name, c := range map[string]struct {
		e    task.Ending
		want []string
	}{
		"no code":     {task.Ending{Failure: &agentstatus.TaskError{Severity: "error"}}, []string{"errors[0].code", "errors[0].message"}},
		"severity":    {task.Ending{Failure: &agentstatus.TaskError{Code: "X", Message: "m", Severity: "bad"}}, []string{"errors[0].severity"}},
		"line":        {task.Ending{Failure: &agentstatus.TaskError{Code: "X", Message: "m", Severity: "error", Line: -1}}, []string{"errors[0].line"}},
		"next":        {task.Ending{Next: []string{" "}}, []string{"next_actions[0].action"}},
		"no JSON":     {task.Ending{Document: []byte("{")}, []string{"result: "}},
		"stranger":    {task.Ending{Document: []byte(`{"colour":1}`)}, []string{`unknown field "colour"`}},
		"status":      {task.Ending{Document: []byte(`{"status":"fine"}`)}, []string{`status is "fine"`}},
		"capacity":    {task.Ending{Document: []byte(`{"capacity_used":2}`)}, []string{"capacity_used is 2"}},
		"path":        {task.Ending{Document: []byte(`{"result":{"files_modified":["a"]}}`)}, []string{`files_modified[0] is "a"`}},
		"control":     {task.Ending{Summary: "a\x00b"}, []string{"U+0000"}},
		"much":        {task.Ending{Summary: strings.Repeat("x", task.MaxRequest)}, []string{"at most 256 KiB"}},
		"as it is":    {task.Ending{Document: []byte(`{"status":"partial","source_agent":"z","result":{"metrics":{"n":12345678901234567890}}}`)}, nil},
		"wrong types": {task.Ending{Document: []byte(`{"errors":"x"}`)}, []string{"result: must be of another type"}},
	} {
		_, err := c.e.Result(noon)
		checkProblems(t, name, err, c.want)
	}
	for text, ok := range map[string]bool{"3/7": true, "0/1": true, "7/7": true, "8/7": false, "-1/7": false, "3": false, "a/b": false, "1/0": false} {
		if _, _, err := task.ParseSteps(text); (err == nil) != ok {
			t.Errorf("steps %q: %v", text, err)
		}
	}
	for text, ok := range map[string]bool{"0": true, "40": true, "99.5 %": true, "100%": true, "101": false, "-1": false, "NaN": false, "x": false} {
		if _, err := task.ParsePercent(text); (err == nil) != ok {
			t.Errorf("percent %q: %v", text, err)
		}
	}
}
