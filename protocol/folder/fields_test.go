package folder

import (
	"errors"
	"strings"
	"testing"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

func TestTable(t *testing.T) {
	word := Field{Key: "word", Form: Text}
	table := Table{Fields: []Field{{Key: "color", Form: Text, Words: []string{"red", "blue"}}, {Key: "name", Form: Text}, {Key: "items", Form: List, Item: &Field{Form: Number}},
		{Key: "part", Form: Object, Item: &Field{Form: Object, Inside: Table{Fields: []Field{word}}}}, {Key: "at", Form: Time}, {Key: "size", Form: Number, Limits: &Limits{0, 9}},
		{Key: "error", Form: String, Null: true}, {Key: "done", Form: Boolean, Need: Optional}, {Key: "id", Form: Text, Need: Optional, Format: UUID}},
		Cases: []Case{{"color", []string{"red"}, Table{Fields: []Field{word}}, Table{}}, {"extra", nil, Table{}, Table{Fields: []Field{{Key: "note", Form: Filled}}}}}}
	const sound = `{"color": "red", "name": "x", "items": [1], "part": {"a": {"word": "b"}}, "at": "2026-01-02T03:04:05Z", "size": 1, "error": null, "word": "w", "note": "n"}`
	for _, c := range [][3]string{
		{}, {`}`, `, "done": null}`}, {`"red"`, `"blue"`}, {`"word": "w"`, `"x": 0`, `word is missing`}, {`"note"`, `"extra"`}, {`"n"}`, `[]}`, `note is empty`},
		{`"n"}`, `[7]}`, `note must be an array of strings, not array`}, {`"red"`, `"gray"`, `color is "gray", not one of red, blue`}, {`"x"`, `" \n"`, `name is empty`},
		{`[1]`, `[1, "2", null]`, `items[1] must be a number, not string; items[2] must be a number, not null`}, {`"b"`, `""`, `part.a.word is empty`},
		{`{"word": "b"}`, `7`, `part.a must be an object, not number`}, {`{"a": {"word": "b"}}`, `null`, `part must be an object, not null`}, {`"2026`, `"soon`, `at must be a time, not string`},
		{`"size": 1`, `"size": 10`, `size is 10, outside 0 to 9`}, {`"error": null`, `"error": 1`, `error must be a string, not number`}, {`"error": null, `, ``, `error is missing`},
		{`}`, `, "done": "true"}`, `done must be true or false, not string`}, {`}`, `, "id": "7"}`, `id is "7", not a UUID v4`},
	} {
		doc := sound
		if i := strings.LastIndex(doc, c[0]); c[0] == "}" {
			doc = doc[:i] + c[1]
		} else {
			doc = strings.Replace(doc, c[0], c[1], 1)
		}
		o, err := jsonfile.Parse([]byte(doc))
		if err != nil {
			t.Fatalf("%s: %v", doc, err)
		}
		if got := strings.Join(table.Problems(o), "; "); got != c[2] {
			t.Errorf("%s:\n%q\nwant\n%q", doc, got, c[2])
		}
	}
}

func TestFindingsAreBounded(t *testing.T) {
	var issues Findings
	for range 3 * MaxFindings {
		issues.Schema(protocol.Low, strings.Repeat("x", 1000), "is wrong")
	}
	last := issues.About(protocol.Subject{ID: "a"})[MaxFindings]
	if len(issues) != MaxFindings+1 || last.Subject.ID != "a" || !strings.HasPrefix(last.Text, "this file has more defects") || len([]rune(issues[0].Field)) != 120 {
		t.Errorf("%d issues, the last: %+v", len(issues), last)
	}
}

func TestAnswerKey(t *testing.T) {
	c := protocol.Change{Verb: protocol.VerbAnswer, Subject: protocol.Subject{Kind: protocol.KindQuestion, ID: "q"}, Answer: &protocol.Answer{Key: "k", Label: "yes"}}
	key, err := AnswerKey(c)
	if again, _ := AnswerKey(c); err != nil || len(key) != 32 || again != key {
		t.Errorf("%q, %q, %v", key, again, err)
	}
	for _, a := range []*protocol.Answer{nil, {Label: "yes"}, {Key: "k", Label: " \n"}} {
		c.Answer = a
		if _, err := AnswerKey(c); err == nil || errors.Is(err, protocol.ErrUnsupported) {
			t.Errorf("%+v: %v", a, err)
		}
	}
	c.Subject.Kind = protocol.KindTask
	if _, err := AnswerKey(c); !errors.Is(err, protocol.ErrUnsupported) {
		t.Errorf("about a task: %v", err)
	}
}
