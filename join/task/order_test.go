package task_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/join/task"
	"github.com/livhana/steward/protocol/agentstatus"
)

// order is a valid order of each type.
func order(kind string) task.Order {
	o := task.Order{Type: kind, Project: "/p", To: "codex-cursor", From: "livhana-layer1.1", Priority: "medium", Timeout: 5 * time.Minute}
	switch kind {
	case task.Execute:
		o.Command = []string{"scripts/START.sh", "preflight"}
	case task.Research:
		o.Own = map[string]any{"query": "How?"}
	case task.Validate:
		o.Own = map[string]any{"validation_type": "lint"}
	case task.Deploy:
		o.Own = map[string]any{"service_name": "voice", "environment": "staging"}
	}
	return o
}

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func TestEveryTypeMakesARequestThatThePayloadCheckAccepts(t *testing.T) {
	for _, kind := range task.Types() {
		r, err := order(kind).Request(noon)
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		doc, _ := json.Marshal(r)
		if _, err := agentstatus.CheckRequest(doc); err != nil {
			t.Errorf("%s: agentstatus refuses what join/task made: %v", kind, err)
		}
		if r.Payload.TaskType != kind || r.Type != kind || r.TaskID == "" {
			t.Errorf("%s became %+v", kind, r)
		}
	}
}

func TestPathsAreTheProjects(t *testing.T) {
	o := order(task.Execute)
	o.Modify, o.Read, o.Artifacts, o.Own = []string{"a.go"}, []string{"/abs/b"}, []string{"out/../c"}, map[string]any{"working_directory": "sub"}
	r, err := o.Request(noon)
	if err != nil {
		t.Fatal(err)
	}
	p := r.Payload
	got := strings.Join([]string{p.Modify[0], p.Read[0], p.Artifacts[0], p.Parameters["script_path"].(string), p.Parameters["working_directory"].(string)}, " ")
	if want := "/p/a.go /abs/b /p/c /p/scripts/START.sh /p/sub"; got != want {
		t.Errorf("paths are %s, want %s", got, want)
	}
}

// TestTheProgramOfABareName: a bare name is a file of the project if that exists, else a program on the PATH, else a
// path in the project.
func TestTheProgramOfABareName(t *testing.T) {
	dir, bin := t.TempDir(), t.TempDir()
	for _, file := range []string{filepath.Join(dir, "both"), filepath.Join(bin, "both"), filepath.Join(bin, "tool")} {
		if err := os.WriteFile(file, []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin)
	for name, want := range map[string]string{"both": filepath.Join(dir, "both"), "tool": filepath.Join(bin, "tool"), "none": filepath.Join(dir, "none"),
		"./tool": filepath.Join(dir, "tool")} {
		o := order(task.Execute)
		o.Project, o.Command = dir, []string{name}
		r, err := o.Request(noon)
		if err != nil || r.Payload.Parameters["script_path"] != want {
			t.Errorf("%s: %v, %v; want %s", name, r.Payload.Parameters["script_path"], err, want)
		}
	}
}

func TestProblemsAreToldAllAtOnce(t *testing.T) {
	half, two := 0.5, 2.0
	for name, c := range map[string]struct {
		change func(*task.Order)
		kind   string
		want   []string
	}{
		"fine":             {func(o *task.Order) { o.Throttle = &half }, task.Execute, nil},
		"no script":        {func(o *task.Order) { o.Command = nil }, task.Execute, []string{"script_path is missing"}},
		"no question":      {func(o *task.Order) { o.Own = nil }, task.Research, []string{"query is missing"}},
		"blank question":   {func(o *task.Order) { o.Own["query"] = "  " }, task.Research, []string{"query is empty"}},
		"unknown check":    {func(o *task.Order) { o.Own["validation_type"] = "vibes" }, task.Validate, []string{`validation_type is "vibes"`}},
		"no service":       {func(o *task.Order) { o.Own = nil }, task.Deploy, []string{"environment is missing", "service_name is missing"}},
		"too long":         {func(o *task.Order) { o.Timeout = time.Hour + time.Second }, task.Execute, []string{"payload.parameters.timeout_seconds is 3601", "timeout_seconds is 3601"}},
		"no time":          {func(o *task.Order) { o.Timeout = 0 }, task.Research, []string{"timeout_seconds is 0"}},
		"throttle":         {func(o *task.Order) { o.Throttle = &two }, task.Research, []string{"throttle_capacity is 2"}},
		"priority":         {func(o *task.Order) { o.Priority = "asap" }, task.Research, []string{`priority is "asap"`}},
		"agent":            {func(o *task.Order) { o.To = "../x" }, task.Research, []string{`target_agent cannot be used as a file name`}},
		"id":               {func(o *task.Order) { o.ID = "seven" }, task.Research, []string{`task_id is "seven"`}},
		"session":          {func(o *task.Order) { o.Session = "now" }, task.Research, []string{`session_id is "now"`}},
		"control":          {func(o *task.Order) { o.Directive = "a\x1b[2J" }, task.Research, []string{"U+001B"}},
		"NUL in argument":  {func(o *task.Order) { o.Command = []string{"a", "b\x00c"} }, task.Execute, []string{"U+0000"}},
		"newline in path":  {func(o *task.Order) { o.Modify = []string{"a\nb"} }, task.Research, []string{"holds a control character"}},
		"newline in words": {func(o *task.Order) { o.Directive = "a\n\tb" }, task.Research, nil},
		"large":            {func(o *task.Order) { o.Directive = strings.Repeat("x", task.MaxRequest) }, task.Research, []string{"request is 256 KiB"}},
		"not text":         {func(o *task.Order) { o.Parameters = map[string]any{"query": json.RawMessage("7")} }, task.Research, []string{"query must be a string"}},
		"dry run":          {func(o *task.Order) { o.Parameters = map[string]any{"dry_run": "yes"} }, task.Deploy, []string{"dry_run must be true or false"}},
		"after itself":     {func(o *task.Order) { o.ID = id1; o.After = []string{id1} }, task.Research, []string{"after names the task itself"}},
		"payload no JSON":  {func(o *task.Order) { o.Payload = []byte("{") }, task.Research, []string{"payload is no JSON object"}},
		"payload stranger": {func(o *task.Order) { o.Payload = []byte(`{"parameters":{},"x":1}`) }, task.Research, []string{"payload.x is no field"}},
		"payload type":     {func(o *task.Order) { o.Payload = []byte(`{"parameters":{},"files_to_read":"x"}`) }, task.Research, []string{"payload.files_to_read must be of another type"}},
	} {
		o := order(c.kind)
		c.change(&o)
		_, err := o.Request(noon)
		checkProblems(t, name, err, c.want)
	}
}

const id1 = "11111111-1111-4111-8111-111111111111"

func checkProblems(t *testing.T, name string, err error, want []string) {
	t.Helper()
	var invalid *agentstatus.InvalidError
	errors.As(err, &invalid)
	if len(want) == 0 && err == nil {
		return
	}
	if invalid == nil || len(invalid.Problems) != len(want) {
		t.Errorf("%s: %v, want %q", name, err, want)
		return
	}
	for i, w := range want {
		if !strings.Contains(invalid.Problems[i], w) {
			t.Errorf("%s: problem %d is %q, want %q", name, i, invalid.Problems[i], w)
		}
	}
}

func TestParametersKeepWhatWasWritten(t *testing.T) {
	o := order(task.Research)
	o.Parameters = map[string]any{}
	for _, pair := range []string{"n=12345678901234567890", "list=[1,2]", "word=plain text", "eq=a=b", `quoted="7"`, "empty="} {
		key, value, err := task.Parameter(pair)
		if err != nil {
			t.Fatal(err)
		}
		o.Parameters[key] = value
	}
	r, err := o.Request(noon)
	if err != nil {
		t.Fatal(err)
	}
	doc, _ := json.Marshal(r.Payload.Parameters)
	if want := `{"empty":"","eq":"a=b","list":[1,2],"n":12345678901234567890,"query":"How?","quoted":"7","word":"plain text"}`; string(doc) != want {
		t.Errorf("parameters %s, want %s", doc, want)
	}
	for _, bad := range []string{"x", "=1", " =1"} {
		if _, _, err := task.Parameter(bad); err == nil {
			t.Errorf("%q is taken for KEY=VALUE", bad)
		}
	}
}

// TestPayloadDocument: flags override the payload document, parameters override the type's own fields.
func TestPayloadDocument(t *testing.T) {
	o := order(task.Research)
	o.Own = nil
	o.Payload = []byte(`{"task_type":"look","parameters":{"query":"Why?","n":1e30},"files_to_read":["a"]}`)
	o.Read = []string{"b"}
	r, err := o.Request(noon)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(r.Payload.Read, " "); got != "/p/a /p/b" || r.Payload.TaskType != "look" {
		t.Errorf("payload %+v", r.Payload)
	}
	o.Payload, o.Own = []byte(`{"query":"Why?","depth":"quick"}`), map[string]any{"query": "How?"}
	if r, err = o.Request(noon); err != nil || r.Payload.Parameters["query"] != "How?" {
		t.Errorf("the parameters alone: %v, %v", r.Payload.Parameters, err)
	}
}

func TestRequestDocument(t *testing.T) {
	const good = `{"request_type":"research","priority":"low","target_agent":"codex-cursor","timeout_seconds":60,
 "context":{"jesse_directive":"","session_id":"","voice_mode_active":false,"related_tasks":[]},
 "payload":{"task_type":"research","parameters":{"query":"How?","n":12345678901234567890,"deep":{"n":12345678901234567890}},"files_to_modify":[],"files_to_read":[],"expected_artifacts":[]},
 "coordination":{"blocking":false,"progress_updates_required":false,"update_interval_seconds":30}}`
	r, err := task.Document([]byte(good), "livhana-layer1.1", noon)
	if err != nil || r.TaskID == "" || r.Source != "livhana-layer1.1" || !r.Created.Equal(noon) {
		t.Fatalf("%+v, %v", r, err)
	}
	doc, _ := json.Marshal(r)
	if strings.Count(string(doc), "12345678901234567890") != 2 || strings.Contains(string(doc), `"12345678901234567890"`) {
		t.Errorf("a large number has changed: %s", doc)
	}
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"no JSON":     {"{", []string{"request is no JSON object"}},
		"list":        {"[]", []string{"request is no JSON object"}},
		"null":        {"null", []string{"request is no JSON object"}},
		"stranger":    {strings.Replace(good, `"priority"`, `"colour":"red","priority"`, 1), []string{`unknown field "colour"`}},
		"large":       {`{"a":"` + strings.Repeat("x", task.MaxRequest) + `"}`, []string{"request is 256 KiB"}},
		"two at once": {strings.NewReplacer(`"low"`, `"asap"`, `"How?"`, "7").Replace(good), []string{"parameters.query must be", `priority is "asap"`}},
	} {
		_, err := task.Document([]byte(c.text), "a", noon)
		checkProblems(t, name, err, c.want)
	}
}

// TestOwnFlagsSetParametersOfTheirType: each flag with a value sets a parameter that the schema of its type accepts.
func TestOwnFlagsSetParametersOfTheirType(t *testing.T) {
	for _, own := range task.OwnFlags {
		if own.Key == "" {
			continue
		}
		o := order(own.Type)
		if o.Own == nil {
			o.Own = map[string]any{}
		}
		switch own.Default.(type) {
		case string:
			o.Own[own.Key] = "lint"
		case []string:
			o.Own[own.Key] = []string{"a", "b"}
		case bool:
			o.Own[own.Key] = true
		}
		r, err := o.Request(noon)
		key, want := own.Key, any("lint")
		switch {
		case own.Name == "no-capture":
			key, want = "capture_output", false
		case own.Name == "cwd":
			want = "/p/lint"
		case own.Name == "strict":
			want = true
		}
		if got := r.Payload.Parameters[key]; err != nil || own.Name != "search-path" && own.Name != "file" && got != want {
			t.Errorf("--%s: %v, %v", own.Name, got, err)
		}
		if list, ok := r.Payload.Parameters[key].([]string); ok && strings.Join(list, " ") != "/p/a /p/b" {
			t.Errorf("--%s: %v", own.Name, list)
		}
	}
}
