package words

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// TestEveryCauseHasASentence: each Reason and each Phrase of the closed sets has a template, and each template names facts
// and formats that exist.
func TestEveryCauseHasASentence(t *testing.T) {
	templates := map[string]string{}
	for r, template := range reasons {
		templates[string(r)] = template
	}
	for _, name := range constants(t, "../../protocol/change.go", "Reason") {
		if templates[name] == "" {
			t.Errorf("the reason %q has no sentence", name)
		}
	}
	for p, template := range phrases {
		if _, ok := templates[string(p)]; ok {
			t.Errorf("%q is a phrase and a reason", p)
		}
		templates[string(p)] = template
	}
	for _, name := range constants(t, "../../protocol/cause.go", "Phrase") {
		if phrases[protocol.Phrase(name)] == "" {
			t.Errorf("the phrase %q has no sentence", name)
		}
	}
	for name, template := range templates {
		if strings.Count(template, "{") != strings.Count(template, "}") || strings.Count(template, "[") != strings.Count(template, "]") {
			t.Errorf("%s: %q is not closed", name, template)
		}
		for _, field := range facts(template) {
			field, format, _ := strings.Cut(strings.TrimPrefix(field, "?"), " ")
			if value(field, &protocol.Facts{}) == nil {
				t.Errorf("%s: there is no fact %q", name, field)
			}
			if _, ok := map[string]bool{"": true, "date": true, "recent": true, "exact": true, "plain": true, "zoned": true, "quoted": true}[format]; !ok {
				t.Errorf("%s: there is no format %q", name, format)
			}
		}
	}
}

// constants lists the values of the constants of one type in a file.
func constants(t *testing.T, file, of string) (values []string) {
	t.Helper()
	tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range tree.Decls {
		group, ok := d.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		for _, spec := range group.Specs {
			v := spec.(*ast.ValueSpec)
			if id, ok := v.Type.(*ast.Ident); ok && id.Name == of {
				text, _ := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
				values = append(values, text)
			}
		}
	}
	if len(values) == 0 {
		t.Fatalf("%s has no constants of type %s", file, of)
	}
	return values
}

func TestSentence(t *testing.T) {
	for _, c := range []struct {
		cause protocol.Cause
		want  string
	}{
		{protocol.Cause{}, ""},
		{protocol.Cause{Reason: protocol.ReasonUntaken}, "waits for an agent to take it"},
		{protocol.Cause{Reason: protocol.ReasonUntaken, Facts: protocol.Facts{Agent: "codex"}}, "waits for codex to take it"},
		{protocol.Cause{Reason: protocol.ReasonInFlight, Facts: protocol.Facts{Name: "pid 7", At: noon.Add(-time.Hour)}}, "in flight (pid 7) since 11:00:00 UTC"},
		{protocol.Cause{Reason: protocol.ReasonInFlight, Facts: protocol.Facts{Name: "pid 7", At: noon.Add(-21 * time.Hour)}}, "in flight (pid 7) since 2026-02-28 15:00 UTC"},
		{protocol.Cause{Phrase: protocol.PhraseQuote, Facts: protocol.Facts{Text: "a [{pid}]"}}, "a [{pid}]"},
		{protocol.Cause{Phrase: protocol.PhraseGone, Facts: protocol.Facts{PID: 7, Base: protocol.PhraseLastBeat}}, "its process 7 is gone, no beat seen"},
		{protocol.Cause{Phrase: protocol.PhraseGone, Facts: protocol.Facts{PID: 7, Base: protocol.PhraseLastBeat, At: noon}}, "its process 7 is gone, last beat 0 s ago"},
		{protocol.Cause{Phrase: protocol.PhraseLockClock, Facts: protocol.Facts{Agent: "qa", Age: 2 * time.Hour, Count: 1}},
			"the lock of qa states times 2 h behind steward's clock, without a time zone; it has its full length from when steward saw it"},
	} {
		if got := Sentence(c.cause, noon); got != c.want {
			t.Errorf("%+v: got %q, want %q", c.cause, got, c.want)
		}
	}
}

func TestFormats(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Span(-time.Second), "0 s"}, {Span(92 * time.Second), "92 s"}, {Span(7 * time.Minute), "7 min"}, {Span(3 * time.Hour), "3 h"}, {Span(72 * time.Hour), "3 d"},
		{duration(90*time.Minute, "exact"), "90 min"}, {duration(150*time.Second, "exact"), "150 s"}, {duration(150*time.Second, ""), "2 min"},
		{Percent(0.93), "93 %"}, {Percent(0.8034), "80.3 %"},
		{moment(noon, "date", noon), "2026-03-01 12:00:00 UTC"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}
