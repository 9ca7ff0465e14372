package task

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/livhana/steward/protocol/agentstatus"
	"github.com/livhana/steward/status/terminal"
)

// MaxRequest bounds a request: agents read it whole, repeatedly.
const MaxRequest = 256 << 10

// problems lists everything that is wrong with a document.
type problems []string

func (p *problems) add(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(*p, text) {
		*p = append(*p, text)
	}
}

func (p *problems) merge(err error) {
	var invalid *agentstatus.InvalidError
	switch {
	case err == nil:
	case errors.As(err, &invalid):
		*p = append(*p, invalid.Problems...)
	default:
		p.add("%v", err)
	}
}

func (p problems) err() error {
	if len(p) == 0 {
		return nil
	}
	slices.Sort(p)
	return &agentstatus.InvalidError{Problems: p}
}

// Check validates a request before anything is written. Errors: *agentstatus.InvalidError with every problem.
func Check(r agentstatus.Request) error {
	var p problems
	if doc := p.document(r, "request"); len(p) == 0 {
		_, err := agentstatus.CheckRequest(doc)
		p.merge(err)
	}
	if r.Timeout == 0 || math.IsNaN(r.Timeout) { // the schema names other bad values; it sees neither an absent one nor NaN
		p.add("timeout_seconds is %v; use more than 0", r.Timeout)
	}
	if slices.Contains(r.Coordination.After, r.TaskID) {
		p.add("coordination.after names the task itself")
	}
	for _, path := range slices.Concat(r.Payload.Modify, r.Payload.Read, r.Payload.Artifacts) {
		if strings.ContainsFunc(path, unicode.IsControl) {
			p.add("payload names the path %q, which holds a control character", short(path))
		}
	}
	for _, key := range []string{"script_path", "query", "service_name", "environment"} {
		if s, ok := r.Payload.Parameters[key].(string); ok {
			p.filled("payload.parameters."+key, s)
		}
	}
	return p.err()
}

// filled refuses a blank text.
func (p *problems) filled(field, text string) {
	if strings.TrimSpace(text) == "" {
		p.add("%s is empty", field)
	}
}

// document encodes a document, and checks its size and its characters. NUL and other control characters are refused,
// because no reader can use them; line breaks and tabs are allowed.
func (p *problems) document(v any, name string) []byte {
	doc, err := json.Marshal(v)
	if err != nil {
		p.add("%s: %s", name, jsonProblem(err))
		return nil
	}
	p.size(name, len(doc))
	d := json.NewDecoder(bytes.NewReader(doc))
	for {
		t, err := d.Token()
		if err != nil {
			return doc
		}
		s, _ := t.(string)
		if i := strings.IndexFunc(s, isForbidden); i >= 0 {
			bad, _ := utf8.DecodeRuneInString(s[i:])
			p.add("%s holds the control character %U in %q", name, bad, short(s))
		}
	}
}

func (p *problems) size(name string, n int) {
	if n > MaxRequest {
		p.add("%s is %d KiB; at most %d KiB: put large things into files and name them", name, n>>10, MaxRequest>>10)
	}
}

func isForbidden(r rune) bool {
	return unicode.IsControl(r) && r != '\n' && r != '\t' && r != '\r' || r == utf8.RuneError
}

// short truncates untrusted text for quoting in a message.
func short(s string) string { return terminal.Fit(s, 80) }

// Document reads a whole request document from any source, and fills in its id, time and source where they are missing.
// A field that is not in the protocol would be lost, so it is refused. Errors: *agentstatus.InvalidError.
func Document(raw []byte, source string, now time.Time) (agentstatus.Request, error) {
	var p problems
	if p.size("request", len(raw)); len(p) > 0 {
		return agentstatus.Request{}, p.err()
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(raw, &keys); err != nil || keys == nil {
		p.add("request is no JSON object: %s", jsonProblem(err))
		return agentstatus.Request{}, p.err()
	}
	completed(keys, source, now)
	doc, err := json.Marshal(keys)
	if err != nil {
		return agentstatus.Request{}, err
	}
	r, err := agentstatus.CheckRequest(doc)
	p.merge(err)
	if err := strictly(doc, new(agentstatus.Request)); err != nil && len(p) == 0 {
		p.add("request: %s; what is the task's own belongs into payload.parameters", strings.TrimPrefix(err.Error(), "json: "))
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

// completed fills in what is missing.
func completed(keys map[string]json.RawMessage, source string, now time.Time) {
	for key, v := range map[string]any{"task_id": agentstatus.NewTaskID(), "created_at": now.UTC().Format(time.RFC3339), "source_agent": source} {
		if text := strings.TrimSpace(string(keys[key])); text == "" || text == "null" || text == `""` {
			keys[key], _ = json.Marshal(v)
		}
	}
}

// strictly decodes a document. A field that is not in the protocol would be lost, so it is an error.
func strictly(doc []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.DisallowUnknownFields()
	return d.Decode(into)
}
