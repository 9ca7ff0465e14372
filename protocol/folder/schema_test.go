package folder

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

func TestCheckFields(t *testing.T) {
	table := []Field{{Key: "color", Form: Text, Words: []string{"red", "blue"}}, {Key: "name", Form: Text}, {Key: "items", Form: List}, {Key: "part", Form: Object},
		{Key: "at", Form: Time}, {Key: "size", Form: Number}, {Key: "done", Form: Boolean, Need: Optional}}
	const sound = `"color": "red", "name": "x", "items": [], "part": {}, "at": "2026-01-02T03:04:05Z", "size": 1`
	for doc, want := range map[string]string{
		`{` + sound + `}`:                                    "",
		`{` + sound + `, "done": null}`:                      "",
		`{` + sound + `, "done": "true"}`:                    "medium m.done: done must be true or false, not string",
		strings.ReplaceAll(`{`+sound+`}`, `"red"`, `"gray"`): `low m.color: color is "gray", want one of red, blue`,
		strings.ReplaceAll(`{`+sound+`}`, `"x"`, `" \n"`):    "medium m.name: name is empty",
		strings.ReplaceAll(`{`+sound+`}`, `{}`, `null`):      "medium m.part: part must be an object, not null",
		strings.ReplaceAll(`{`+sound+`}`, `1}`, `"1"}`):      "medium m.size: size must be a number, not string",
		`{"color": "gray", "name": 1, "items": {}, "part": [], "at": "soon", "size": 1}`: "medium m.name: name must be a string, not number, medium m.items: items must be an array, not object, " +
			`medium m.part: part must be an object, not array, medium m.at: at must be a time, not string, low m.color: color is "gray", want one of red, blue`,
	} {
		o, err := jsonfile.Parse([]byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		var issues Issues
		issues.Check(o, "m", table)
		var got []string
		for _, i := range issues {
			got = append(got, fmt.Sprintf("%s %s: %s", i.Severity, i.Field, i.Text))
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s:\n%q\nwant\n%q", doc, got, want)
		}
	}
}

func TestIssuesAreBounded(t *testing.T) {
	var issues Issues
	for range 3 * MaxIssues {
		issues.Schema(strings.Repeat("x", 1000), "is wrong")
	}
	last := issues[len(issues)-1].About(protocol.Subject{ID: "a"})
	if len(issues) != MaxIssues+1 || last.Subject.ID != "a" || !strings.HasPrefix(last.Text, "more is wrong") || len([]rune(issues[0].Field)) != 120 {
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
