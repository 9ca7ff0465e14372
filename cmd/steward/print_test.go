package main

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/livhana/steward/status/terminal"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor"
)

func TestPrintKeepsWhatTheDaemonSaid(t *testing.T) {
	var out bytes.Buffer
	a := &app{out: &out, output: "json"}
	if err := a.print(json.RawMessage("{\"z\":\"> 0.95 \u009b\x7f\",\"a\":[],\"n\":null}")); err != nil {
		t.Fatal(err)
	}
	want := "{\n  \"z\": \"> 0.95 \\u009b\\u007f\",\n  \"a\": [],\n  \"n\": null\n}\n"
	if out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
}

func TestPrintDone(t *testing.T) {
	at := time.Date(2025, 10, 22, 21, 30, 0, 0, time.UTC)
	p := &supervisor.State{Done: []supervisor.Done{{At: at, Verb: "release", Subject: "sot:task/1", Why: "due\x1b[2J"}}}
	p.Projects = []supervisor.ProjectStatus{{Name: "sot", Path: "/sot", Problem: &protocol.Fault{Path: "/sot", Problem: "it does not answer"}}}
	for _, c := range []struct {
		output  string
		picture *supervisor.State
		want    string
	}{
		{"text", p, "cannot use /sot: it does not answer\nrelease sot:task/1: due?[2J\n"},
		{"text", nil, "nothing to do\n"},
		{"json", nil, "{\n  \"done\": [],\n  \"faults\": [],\n  \"findings\": []\n}\n"},
	} {
		var out bytes.Buffer
		if err := (&app{out: &out, output: c.output}).printDone(c.picture); err != nil {
			t.Fatal(err)
		}
		if out.String() != c.want {
			t.Errorf("printDone as %s gives %q, want %q", c.output, out.String(), c.want)
		}
	}
}

func TestColourOnlyOnATerminal(t *testing.T) {
	if (&app{out: &bytes.Buffer{}}).isColored() {
		t.Error("a buffer is no terminal")
	}
	p := &terminal.Page{Width: 80, Color: true}
	p.Table("", nil, []terminal.Cell{terminal.Word("dead"), terminal.Text("plain")})
	if got, want := p.String(), "\x1b[31mdead\x1b[0m  plain\n"; got != want {
		t.Errorf("coloured row %q, want %q", got, want)
	}
}
