package task

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	if !(r.Timeout > 0 && r.Timeout <= MaxTimeout.Seconds()) {
		p.add("timeout_seconds", "is %s; use more than 0 and at most %v", plain(r.Timeout), MaxTimeout.Seconds())
	}
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
		for i, name := range names {
			p.place(fmt.Sprintf("%s[%d]", field, i), name)
		}
	}
	g := given{problems: p, values: r.Payload.Parameters}
	switch r.Type {
	case Execute:
		g.place("script_path", true)
		g.texts("args")
		g.place("working_directory", false)
		g.boolean("capture_output")
		g.seconds("timeout_seconds")
	case Research:
		g.text("query", true)
		g.places("search_paths")
		g.text("depth", false)
		g.text("output_format", false)
	case Validate:
		g.word("validation_type", "preflight", "lint", "test", "security")
		g.places("target_files")
		g.boolean("strict_mode")
	case Deploy:
		g.text("service_name", true)
		g.text("environment", true)
		g.text("gcp_project", false)
		g.text("region", false)
	}
	g.boolean("dry_run")
}

func (p *problems) place(field, name string) {
	switch {
	case name == "":
		p.add(field, "is empty; use a path")
	case !filepath.IsAbs(name):
		p.add(field, "is %q; use an absolute path", short(name))
	case strings.ContainsFunc(name, unicode.IsControl):
		p.add(field, "holds a control character")
	}
}

// given are the payload's parameters being checked.
type given struct {
	*problems
	values map[string]any
}

// get reads a parameter as type T; ok is false when it is missing or of another type.
func get[T any](g given, key, want string, required bool) (v T, ok bool) {
	value, there := g.values[key]
	raw, err := json.Marshal(value)
	field := "payload.parameters." + key
	switch {
	case !there && required:
		g.add(field, "is missing; use %s", want)
	case !there:
	case err != nil || string(raw) == "null" || json.Unmarshal(raw, &v) != nil:
		g.add(field, "must be %s", want)
	default:
		return v, true
	}
	return v, false
}

func (g given) text(key string, required bool) {
	if v, ok := get[string](g, key, "text", required); ok && strings.TrimSpace(v) == "" {
		g.add("payload.parameters."+key, "is empty")
	}
}

func (g given) word(key string, set ...string) {
	want := "one of " + strings.Join(set, ", ")
	if v, ok := get[string](g, key, want, true); ok && !slices.Contains(set, v) {
		g.add("payload.parameters."+key, "is %q; use %s", short(v), want)
	}
}

func (g given) boolean(key string) { get[bool](g, key, "true or false", false) }

func (g given) texts(key string) { get[[]string](g, key, "a list of texts", false) }

func (g given) seconds(key string) {
	if v, ok := get[float64](g, key, "a number of seconds", false); ok && !(v > 0 && v <= MaxTimeout.Seconds()) {
		g.add("payload.parameters."+key, "is %s; use more than 0 and at most %v", plain(v), MaxTimeout.Seconds())
	}
}

// plain formats a number without an exponent.
func plain(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

func (g given) place(key string, required bool) {
	if v, ok := get[string](g, key, "an absolute path", required); ok {
		g.problems.place("payload.parameters."+key, v)
	}
}

func (g given) places(key string) {
	list, _ := get[[]string](g, key, "a list of absolute paths", false)
	for i, name := range list {
		g.problems.place(fmt.Sprintf("payload.parameters.%s[%d]", key, i), name)
	}
}

// characters refuses NUL and other control characters anywhere in the document, because no reader can use them. Line
// breaks and tabs are allowed.
func (p *problems) characters(doc []byte) {
	d := json.NewDecoder(bytes.NewReader(doc))
	for {
		t, err := d.Token()
		if errors.Is(err, io.EOF) || err != nil {
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
