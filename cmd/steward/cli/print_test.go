package cli

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/livhana/steward/status/terminal"
)

func TestPrintKeepsWhatTheDaemonSaid(t *testing.T) {
	var out bytes.Buffer
	a := &App{Out: &out, Output: "json"}
	if err := a.Print(json.RawMessage("{\"z\":\"> 0.95 \u009b\x7f\",\"a\":[],\"n\":null}")); err != nil {
		t.Fatal(err)
	}
	want := "{\n  \"z\": \"> 0.95 \\u009b\\u007f\",\n  \"a\": [],\n  \"n\": null\n}\n"
	if out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
}

func TestColourOnlyOnATerminal(t *testing.T) {
	if (&App{Out: &bytes.Buffer{}}).IsColored() {
		t.Error("a buffer is no terminal")
	}
	p := &terminal.Page{Width: 80, Color: true}
	p.Table("", nil, []terminal.Cell{terminal.Word("dead"), terminal.Text("plain")})
	if got, want := p.String(), "\x1b[31mdead\x1b[0m  plain\n"; got != want {
		t.Errorf("coloured row %q, want %q", got, want)
	}
}
