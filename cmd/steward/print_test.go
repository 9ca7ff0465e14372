package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor"
)

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
		if err := printDone((&cli.App{Out: &out, Output: c.output}), c.picture); err != nil {
			t.Fatal(err)
		}
		if out.String() != c.want {
			t.Errorf("printDone as %s gives %q, want %q", c.output, out.String(), c.want)
		}
	}
}
