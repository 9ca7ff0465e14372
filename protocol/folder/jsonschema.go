package folder

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// Message is a kind of message, or of file, of a protocol.
type Message struct {
	Name  string // agentstatus/request
	Title string // and where the protocol's document describes it
	Table Table
}

// Likeness says how many of the message's required fields an object has, from 0 to 1. If the first field has the same text in
// all messages of the kind, that text counts as much as all fields together; with another text there, the likeness is 0.
func (m *Message) Likeness(o jsonfile.Object) float64 {
	required, there, sure := 0, 0, 0
	if first := m.Table.Fields[0]; len(first.Words) == 1 {
		if word, _ := o.String(first.Key); word != first.Words[0] {
			return 0
		}
		sure = 1
	}
	for _, f := range m.Table.Fields {
		if f.Need == Optional {
			continue
		}
		if required++; o.Has(f.Key) {
			there++
		}
	}
	return (float64(there)/float64(max(required, 1)) + float64(sure)) / float64(1+sure)
}

// Findings lists how an object differs from the message, with what is expected of each field.
func (m *Message) Findings(o jsonfile.Object) (list Findings) {
	for _, d := range m.Table.Check(o) {
		text := d.Key + " " + d.Problem
		if d.Value.Kind() == "missing" || d.Trouble == Empty {
			text += "; it must be " + d.Field.expected()
		}
		list.Add(CodeSchema, d.Key, protocol.Medium, text)
	}
	return list
}

// expected says what the field must be.
func (f *Field) expected() string {
	switch {
	case len(f.Words) == 1:
		return f.Words[0]
	case f.Words != nil:
		return "one of " + strings.Join(f.Words, ", ")
	case f.Format.Name != "":
		return f.Format.Name
	}
	return f.Form.Name
}

// JSONSchema returns the message's JSON Schema (draft 2020-12).
func (m *Message) JSONSchema() ([]byte, error) {
	s := m.Table.schema()
	s["$schema"], s["title"], s["type"] = "https://json-schema.org/draft/2020-12/schema", m.Title, "object"
	return jsonfile.Encode(s)
}

// schema describes an object's fields.
func (t *Table) schema() map[string]any {
	s := map[string]any{}
	properties, required := map[string]any{}, []string{}
	for i := range t.Fields {
		f := &t.Fields[i]
		properties[f.Key] = f.schema()
		if f.Need != Optional {
			required = append(required, f.Key)
		}
	}
	if len(properties) > 0 {
		s["properties"] = properties
	}
	if len(required) > 0 {
		s["required"] = required
	}
	var cases []any
	for i := range t.Cases {
		cases = append(cases, t.Cases[i].schema())
	}
	if cases != nil {
		s["allOf"] = cases
	}
	return s
}

func (c *Case) schema() map[string]any {
	condition := map[string]any{"required": []string{c.Key}}
	if len(c.Words) > 0 {
		condition["properties"] = map[string]any{c.Key: map[string]any{"enum": c.Words}}
	}
	s := map[string]any{"if": condition}
	for key, t := range map[string]*Table{"then": &c.Then, "else": &c.Else} {
		if branch := t.schema(); len(branch) > 0 {
			s[key] = branch
		}
	}
	return s
}

// schema describes a field's value.
func (f *Field) schema() map[string]any {
	s := map[string]any{}
	// A form and a format are our own constants, so they parse.
	_ = json.Unmarshal([]byte("{"+strings.TrimSuffix(strings.Join([]string{f.Form.Schema, f.Format.Schema}, ","), ",")+"}"), &s)
	null := f.Need == Optional || f.Null
	if f.Form.Empty != nil && f.Need != Optional && f.Words == nil {
		s["not"] = map[string]any{"type": "string", "pattern": `^\s*$`}
	}
	if f.Words != nil {
		words := []any{}
		for _, w := range f.Words {
			words = append(words, w)
		}
		if null {
			words = append(words, "", nil)
		}
		s["enum"] = words
	}
	if f.Limits != nil {
		s["minimum"], s["maximum"] = f.Limits.Low, f.Limits.High
	}
	if f.Item != nil && f.Form.Name == List.Name {
		s["items"] = f.Item.schema()
	} else if f.Item != nil {
		s["additionalProperties"] = f.Item.schema()
	}
	maps.Copy(s, f.Inside.schema())
	switch kinds := s["type"].(type) {
	case string:
		if null {
			s["type"] = []any{kinds, "null"}
		}
	case []any:
		if null {
			s["type"] = append(slices.Clip(kinds), "null")
		}
	}
	return s
}
