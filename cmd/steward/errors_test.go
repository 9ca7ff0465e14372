package main

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/livhana/steward/cmd/steward/cli"
	joinrun "github.com/livhana/steward/join/run"
	"github.com/livhana/steward/status"
)

// TestErrorsInJSON: with -o json every failed command prints one JSON object on stderr, whatever its exit code.
func TestErrorsInJSON(t *testing.T) {
	missing := func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, `{"error":{"code":"no_such_subject","message":"no incident zzzz","hint":"see 'steward incidents' for what is open"}}`)
	}
	conflict := func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusConflict)
		io.WriteString(w, `{"error":{"code":"ambiguous","message":"3 can mean 2 things","hint":"name one of: 3a, 3b","candidates":["3a","3b"]}}`)
	}
	broken := func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		io.WriteString(w, `{"error":{"code":"internal","message":"the disk is\u001b[2J full","hint":""}}`)
	}
	for _, c := range []struct {
		args    string
		answer  http.HandlerFunc
		exit    int
		code    string
		message string
		hint    string
	}{
		{"agents -o json", broken, cli.ExitFailed, "internal", "list agents: the disk is?[2J full", ""},
		{"config --check absent.toml -o json", nil, cli.ExitFailed, "failed", "absent.toml", ""},
		{"agents --nonsense --output=json", nil, cli.ExitUsage, "usage", "unknown flag --nonsense", "see steward agents --help"},
		{"nonsense -ojson", nil, cli.ExitUsage, "usage", `unknown command "nonsense"`, "see steward --help"},
		{"tasks --limit -1 -o json", nil, cli.ExitUsage, "usage", "list tasks: --limit -1: use 0 or more", ""},
		{"agents -o json", nil, cli.ExitNoDaemon, "no_daemon", "no steward is running there", "start it with 'steward run'"},
		{"ack zzzz -o json", missing, cli.ExitNoSubject, "no_such_subject", "acknowledge zzzz: no incident zzzz", "see 'steward incidents' for what is open"},
		{"ack 3 -o json", conflict, cli.ExitRefused, "ambiguous", "acknowledge 3: 3 can mean 2 things", "name one of: 3a, 3b"},
		{"exec --project . -o json -- /nowhere/tool", nil, joinrun.CodeNotFound, "not_started", "/nowhere/tool", ""},
	} {
		t.Run(c.args, func(t *testing.T) {
			atHome(t)
			if c.answer != nil {
				fakeDaemon(t, c.answer)
			}
			code, _, errOut := invoke(strings.Fields(c.args)...)
			var doc struct{ Error status.Error }
			dec := json.NewDecoder(strings.NewReader(errOut))
			dec.DisallowUnknownFields()
			if err := dec.Decode(&doc); err != nil || dec.More() || strings.Count(errOut, "\n") != 1 {
				t.Fatalf("exit %d, stderr is not one object: %v\n%s", code, err, errOut)
			}
			if e := doc.Error; code != c.exit || e.Code != c.code || !strings.Contains(e.Message, c.message) || !strings.Contains(e.Hint, c.hint) {
				t.Errorf("exit %d, %+v", code, e)
			}
		})
	}
}
