package task

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/livhana/steward/protocol/agentstatus"
)

// MaxRequest bounds a request: agents read it whole, repeatedly.
const MaxRequest = 256 << 10

// problems lists everything that is wrong with a request as "field: problem", one problem per field.
type problems []string

func (p *problems) add(field, format string, args ...any) {
	text := field + ": " + fmt.Sprintf(format, args...)
	if !slices.Contains(*p, text) && !p.has(field) {
		*p = append(*p, text)
	}
}

// has reports whether the field already has a problem.
func (p *problems) has(field string) bool {
	return slices.ContainsFunc(*p, func(s string) bool { return strings.HasPrefix(s, field+": ") })
}

func (p *problems) merge(err error) {
	var invalid *agentstatus.InvalidError
	switch {
	case err == nil:
	case errors.As(err, &invalid):
		*p = append(*p, invalid.Problems...)
	default:
		*p = append(*p, err.Error())
	}
}

func (p problems) err() error {
	if len(p) == 0 {
		return nil
	}
	slices.Sort(p)
	return &agentstatus.InvalidError{Problems: p}
}

// Check validates a request against the document and the needs of its type, before anything is written. Errors:
// *agentstatus.InvalidError with every problem.
func Check(r agentstatus.Request) error {
	doc, err := json.Marshal(r)
	if err != nil {
		return &agentstatus.InvalidError{Problems: []string{"payload: " + jsonProblem(err)}}
	}
	var p problems
	p.size(len(doc))
	p.header(r)
	p.payload(r)
	p.characters(doc)
	if len(p) == 0 {
		_, err = agentstatus.CheckRequest(doc)
		p.merge(err)
	}
	return p.err()
}

func (p *problems) size(n int) {
	if n > MaxRequest {
		p.add("request", "is %d KiB; at most %d KiB: put large things into files and name them", n>>10, MaxRequest>>10)
	}
}

func (p *problems) header(r agentstatus.Request) {
	if !slices.Contains(Types(), r.Type) {
		p.add("request_type", "is %q; use one of %s", r.Type, strings.Join(Types(), ", "))
	}
	if !slices.Contains([]string{"critical", "high", "medium", "low"}, r.Priority) {
		p.add("priority", "is %q; use critical, high, medium or low", r.Priority)
	}
	p.seconds("timeout_seconds", r.Timeout)
	if t := r.Throttle; t != nil && !(*t >= 0 && *t <= 1) {
		p.add("throttle_capacity", "is %v; use a share from 0 to 1", *t)
	}
	if every := r.Coordination.Every; !(every >= 1 && every <= MaxTimeout.Seconds()) {
		p.add("coordination.update_interval_seconds", "is %v; use 1 to %v", every, MaxTimeout.Seconds())
	}
	for field, name := range map[string]string{"source_agent": r.Source, "target_agent": r.Target} {
		if name == "" || name != strings.TrimSpace(name) || strings.ContainsAny(name, `/\`) || strings.HasPrefix(name, ".") {
			p.add(field, "is %q; use an agent's name, such as codex-cursor", name)
		}
	}
	if slices.Contains(r.Coordination.After, r.TaskID) {
		p.add("coordination.after", "names the task itself")
	}
}

// payload checks what each type needs (protocol 000, Task Types & Payloads).
func (p *problems) payload(r agentstatus.Request) {
	for field, names := range map[string][]string{"payload.files_to_modify": r.Payload.Modify,
		"payload.files_to_read": r.Payload.Read, "payload.expected_artifacts": r.Payload.Artifacts} {
		p.paths(field, names)
	}
	for _, own := range slices.Concat(ownFields[r.Type], []ownField{{"dry_run", "true or false", false, as(anyBool)}}) {
		field := "payload.parameters." + own.key
		value, there := r.Payload.Parameters[own.key]
		raw, err := json.Marshal(value)
		switch {
		case !there && own.required:
			p.add(field, "is missing; use %s", own.want)
		case there && (err != nil || string(raw) == "null" || !own.check(p, field, raw)):
			p.add(field, "must be %s", own.want)
		}
	}
}

// ownField is a field of payload.parameters that belongs to one type of request. check is false for a value of another
// type than is wanted; it adds every other problem itself.
type ownField struct {
	key, want string
	required  bool
	check     func(p *problems, field string, raw []byte) bool
}

const wantPath, wantPaths = "an absolute path", "a list of absolute paths"

var ownFields = map[string][]ownField{
	Execute: {
		{"script_path", wantPath, true, as((*problems).path)},
		{"args", "a list of texts", false, as(anyTexts)},
		{"working_directory", wantPath, false, as((*problems).path)},
		{"capture_output", "true or false", false, as(anyBool)},
		{"timeout_seconds", "a number of seconds", false, as((*problems).seconds)},
	},
	Research: {
		{"query", "text", true, as((*problems).text)},
		{"search_paths", wantPaths, false, as((*problems).paths)},
		{"depth", "text", false, as((*problems).text)},
		{"output_format", "text", false, as((*problems).text)},
	},
	Validate: {
		{"validation_type", "one of " + validations, true, as((*problems).validation)},
		{"target_files", wantPaths, false, as((*problems).paths)},
		{"strict_mode", "true or false", false, as(anyBool)},
	},
	Deploy: {
		{"service_name", "text", true, as((*problems).text)},
		{"environment", "text", true, as((*problems).text)},
		{"gcp_project", "text", false, as((*problems).text)},
		{"region", "text", false, as((*problems).text)},
	},
}

// as decodes a field as type T for its check.
func as[T any](check func(p *problems, field string, v T)) func(*problems, string, []byte) bool {
	return func(p *problems, field string, raw []byte) bool {
		var v T
		if json.Unmarshal(raw, &v) != nil {
			return false
		}
		check(p, field, v)
		return true
	}
}

func anyBool(*problems, string, bool)      {}
func anyTexts(*problems, string, []string) {}

func (p *problems) text(field, v string) {
	if strings.TrimSpace(v) == "" {
		p.add(field, "is empty")
	}
}

const validations = "preflight, lint, test, security"

func (p *problems) validation(field, v string) {
	if !slices.Contains(strings.Split(validations, ", "), v) {
		p.add(field, "is %q; use one of %s", short(v), validations)
	}
}

func (p *problems) seconds(field string, v float64) {
	if !(v > 0 && v <= MaxTimeout.Seconds()) {
		p.add(field, "is %s; use more than 0 and at most %v", plain(v), MaxTimeout.Seconds())
	}
}

// plain formats a number without an exponent.
func plain(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

func (p *problems) paths(field string, list []string) {
	for i, name := range list {
		p.path(fmt.Sprintf("%s[%d]", field, i), name)
	}
}

func (p *problems) path(field, name string) {
	switch {
	case name == "":
		p.add(field, "is empty; use a path")
	case !filepath.IsAbs(name):
		p.add(field, "is %q; use an absolute path", short(name))
	case strings.ContainsFunc(name, unicode.IsControl):
		p.add(field, "holds a control character")
	}
}

// characters refuses NUL and other control characters anywhere in the document, because no reader can use them. Line
// breaks and tabs are allowed.
func (p *problems) characters(doc []byte) {
	d := json.NewDecoder(bytes.NewReader(doc))
	for {
		t, err := d.Token()
		if err != nil {
			return
		}
		s, ok := t.(string)
		if ok && strings.ContainsFunc(s, isForbidden) {
			p.add("request", "holds the control character %U in %q", rune(s[strings.IndexFunc(s, isForbidden)]), short(s))
		}
	}
}

func isForbidden(r rune) bool {
	return unicode.IsControl(r) && r != '\n' && r != '\t' && r != '\r' || r == utf8.RuneError
}

// short truncates untrusted text for quoting in a message.
func short(s string) string {
	if r := []rune(s); len(r) > 80 {
		return string(r[:80]) + "…"
	}
	return s
}

// Document reads a whole request document from any source, and fills in its id, time and source where they are missing.
// A field that is not in the protocol would be lost, so it is refused. Errors: *agentstatus.InvalidError.
func Document(raw []byte, source string, now time.Time) (agentstatus.Request, error) {
	var p problems
	if p.size(len(raw)); len(p) > 0 {
		return agentstatus.Request{}, p.err()
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(raw, &keys); err != nil || keys == nil {
		p.add("request", "is no JSON object: %s", jsonProblem(err))
		return agentstatus.Request{}, p.err()
	}
	completed(keys, source, now)
	doc, err := json.Marshal(keys)
	if err != nil {
		return agentstatus.Request{}, err
	}
	r, err := agentstatus.CheckRequest(doc)
	p.merge(err)
	strict := json.NewDecoder(bytes.NewReader(doc))
	strict.DisallowUnknownFields()
	var shape agentstatus.Request
	if err := strict.Decode(&shape); err != nil && len(p) == 0 {
		p.add("request", "%s; what is the task's own belongs into payload.parameters", strings.TrimPrefix(err.Error(), "json: "))
	}
	if len(p) == 0 {
		for _, l := range []*[]string{&r.Context.Related, &r.Payload.Modify, &r.Payload.Read, &r.Payload.Artifacts} {
			*l = list(*l)
		}
		exact(&r, keys["payload"])
		p.merge(Check(r))
	}
	return r, p.err()
}

// exact restores the parameters as written, because the decoder changes large numbers.
func exact(r *agentstatus.Request, payload json.RawMessage) {
	var inner struct {
		Parameters json.RawMessage `json:"parameters"`
	}
	if json.Unmarshal(payload, &inner) != nil {
		return
	}
	if all, err := Parameters(inner.Parameters); err == nil && all != nil {
		r.Payload.Parameters = all
	}
}

func completed(keys map[string]json.RawMessage, source string, now time.Time) {
	missing := func(key string) bool {
		text := strings.TrimSpace(string(keys[key]))
		return text == "" || text == "null" || text == `""`
	}
	set := func(key string, v any) {
		if missing(key) {
			keys[key], _ = json.Marshal(v)
		}
	}
	set("task_id", agentstatus.NewTaskID())
	set("created_at", now.UTC().Format(time.RFC3339))
	set("source_agent", source)
}
