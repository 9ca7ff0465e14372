package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/livhana/steward/status/terminal"

	"github.com/livhana/steward/join/task"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/supervisor"
)

// The exit codes of every command.
const (
	exitFailed    = 1
	exitUsage     = 2
	exitNoDaemon  = 3
	exitNoSubject = 4
	exitRefused   = 5
)

// The codes of errors that do not come from the daemon; package status defines the daemon's codes.
const (
	codeFailed   = "failed"
	codeUsage    = "usage"
	codeNoDaemon = "no_daemon"
	codeGivenUp  = "given_up"

	codeNotStarted = "not_started"
	codeTimeout    = "timeout"
	codeCancelled  = "cancelled"
)

// exiting is an error with its own exit code and error document code.
type exiting struct {
	error
	exit int
	code string
}

// notStarted reports a command that could not be run, with the exit code that a shell would give.
func notStarted(err error, exit int) error { return exiting{err, exit, codeNotStarted} }

// interrupted reports a command that was told to stop waiting.
func interrupted(format string, args ...any) error {
	return exiting{fmt.Errorf(format, args...), task.ExitCancelled, codeCancelled}
}

// outOfTime reports a command whose wait timed out.
func outOfTime(format string, args ...any) error {
	return exiting{fmt.Errorf(format, args...), task.ExitTimeout, codeTimeout}
}

// classOf returns the exit code, which scripts rely on, and the code of the error document.
func classOf(err error) (exit int, code string) {
	var usage usageError
	var remote *status.Error
	var own exiting
	switch {
	case errors.As(err, &own):
		return own.exit, own.code
	case errors.As(err, new(hopeless)):
		return exitHopeless, codeGivenUp
	case errors.As(err, &usage), strings.HasPrefix(err.Error(), "unknown command"):
		return exitUsage, codeUsage // the last condition matches cobra's own errors
	case errors.Is(err, status.ErrNoDaemon), errors.Is(err, status.ErrNoAnswer):
		return exitNoDaemon, codeNoDaemon
	case errors.Is(err, supervisor.ErrNoSubject):
		return exitNoSubject, status.CodeNoSubject
	case errors.Is(err, protocol.ErrConflict):
		return exitRefused, status.CodeConflict
	case errors.Is(err, supervisor.ErrRefused):
		return exitRefused, status.CodeRefused
	case errors.As(err, &remote):
		return remoteCode(remote), remote.Code
	}
	return exitFailed, codeFailed
}

func exitCode(err error) int {
	exit, _ := classOf(err)
	return exit
}

func remoteCode(e *status.Error) int {
	switch e.Status {
	case http.StatusBadRequest, http.StatusRequestHeaderFieldsTooLarge: // the name is longer than any existing name
		return exitUsage
	case http.StatusNotFound:
		return exitNoSubject
	case http.StatusConflict:
		return exitRefused
	}
	return exitFailed
}

// printError prints why a command failed: as one line, or with -o json as the error document of the socket API.
func printError(w io.Writer, err error, asJSON bool) {
	text := terminal.Bounded(terminal.ErrorText(commandWords(err)))
	if !asJSON {
		fmt.Fprintln(w, "steward: "+text)
		return
	}
	var remote *status.Error
	_, code := classOf(err)
	doc := &status.Error{Code: cmp.Or(code, codeFailed)}
	doc.Message, doc.Hint = cutHint(text)
	if errors.As(err, &remote) {
		doc.Candidates = remote.Candidates
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(map[string]any{"error": doc}) // strings only
	_, _ = io.WriteString(w, terminal.Guarded(b.String()))
}

// cutHint splits the hint on what to do next from the end of a message: the text after the last semicolon, or a final
// "(see …)". It does not split a message of several lines.
func cutHint(text string) (message, hint string) {
	if strings.Contains(text, "\n") {
		return text, ""
	}
	if at := strings.LastIndex(text, " (see "); at > 0 && strings.HasSuffix(text, ")") {
		return text[:at], text[at+2 : len(text)-1]
	}
	if at := strings.LastIndex(text, "; "); at > 0 {
		return text[:at], text[at+2:]
	}
	return text, ""
}

// asksJSON reports whether a command line contains -o json, even if the line cannot be parsed.
func asksJSON(args []string) bool {
	format := ""
	for i, arg := range args {
		switch name, value, given := strings.Cut(arg, "="); {
		case arg == "--":
			return format == "json"
		case (name == "-o" || name == "--output") && given:
			format = value
		case (arg == "-o" || arg == "--output") && i+1 < len(args):
			format = args[i+1]
		case strings.HasPrefix(arg, "-o") && !given:
			format = arg[2:]
		}
	}
	return format == "json"
}
