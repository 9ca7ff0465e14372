package daemon

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
	"github.com/rogpeppe/go-internal/txtar"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// validator compiles a message's JSON Schema with another program's validator.
func validator(t *testing.T, m *folder.Message) *jsonschema.Schema {
	t.Helper()
	text, err := m.JSONSchema()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource(m.Name, doc); err != nil {
		t.Fatal(err)
	}
	return c.MustCompile(m.Name)
}

// verdicts says what the schema and steward's own check say about a document: whether it is valid, and its problems.
func verdicts(t *testing.T, s *jsonschema.Schema, m *folder.Message, doc any) (valid bool, problems []string) {
	t.Helper()
	text, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	o, err := jsonfile.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(plain) == nil, m.Table.Problems(o)
}

// TestExamplesOfTheDocuments: the examples of the five documents are valid by schema and check, and are recognised by their
// content. A shortened example lacks what its name says, and nothing else.
func TestExamplesOfTheDocuments(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range examples(t) {
		name, lacks, _ := strings.Cut(f.Name, " lacks ")
		m, doc := messageOf(t, name), decoded(t, f.Data)
		valid, problems := verdicts(t, validator(t, m), m, doc)
		var missing []string
		for _, p := range problems {
			key, isMissing := strings.CutSuffix(p, " is missing")
			if missing = append(missing, key); !isMissing {
				t.Errorf("%s: %s", f.Name, p)
			}
		}
		want := strings.Fields(lacks)
		slices.Sort(want)
		slices.Sort(missing)
		if !slices.Equal(missing, want) || valid != (lacks == "") {
			t.Errorf("%s: the schema says valid: %v; the check lists %q", f.Name, valid, problems)
		}
		o, _ := jsonfile.Parse(f.Data)
		if like := MessageLike(o); lacks == "" && (like == nil || like.Name != m.Name) {
			t.Errorf("%s is taken for %+v", f.Name, like)
		}
		seen[m.Name] = true
	}
	for _, m := range Messages() {
		if !seen[m.Name] {
			t.Errorf("%s has no example", m.Name)
		}
	}
}

// TestSchemaAndCheckAgree: every value of every example is removed or replaced once. Schema and check reject the same
// documents, and the check names the field.
func TestSchemaAndCheckAgree(t *testing.T) {
	rejected := 0
	for _, f := range examples(t) {
		m := messageOf(t, f.Name)
		schema := validator(t, m)
		if strings.Contains(f.Name, " lacks ") {
			continue
		}
		for key, doc := range broken(decoded(t, f.Data)) {
			if _, isObject := doc.(map[string]any); !isObject {
				continue
			}
			valid, problems := verdicts(t, schema, m, doc)
			if valid != (len(problems) == 0) {
				text, _ := json.Marshal(doc)
				t.Errorf("%s, %s: the schema says valid: %v; the check lists %q\n%s", f.Name, key, valid, problems, text)
			}
			if !valid {
				rejected++
			}
		}
	}
	if rejected < 500 {
		t.Errorf("only %d documents are rejected", rejected)
	}
}

// broken lists copies of a document, each with one value changed, by the value's path and how it changed.
func broken(doc any) map[string]any {
	all := map[string]any{}
	for how, v := range map[string]any{"null": nil, "7": 7, "-5": -5, "word": "nonsense", "blank": " ", "empty": "", "path": "../x", "true": true, "list": []any{}, "mixed": []any{7},
		"object": map[string]any{}} {
		all[how] = v
	}
	switch doc := doc.(type) {
	case map[string]any:
		for key, value := range doc {
			less := maps.Clone(doc)
			delete(less, key)
			all[key+" removed"] = less
			for path, v := range broken(value) {
				more := maps.Clone(doc)
				more[key], all[key+"."+path] = v, more
			}
		}
	case []any:
		if len(doc) > 0 {
			for path, v := range broken(doc[0]) {
				more := slices.Clone(doc)
				more[0], all["[0]."+path] = v, more
			}
		}
	}
	return all
}

func examples(t *testing.T) []txtar.File {
	t.Helper()
	a, err := txtar.ParseFile("testdata/messages.txtar")
	if err != nil {
		t.Fatal(err)
	}
	return a.Files
}

func messageOf(t *testing.T, example string) *folder.Message {
	t.Helper()
	m := MessageNamed(strings.Fields(example)[0])
	if m == nil {
		t.Fatalf("%s: no such message", example)
	}
	return m
}

func decoded(t *testing.T, text []byte) (doc map[string]any) {
	t.Helper()
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return doc
}
