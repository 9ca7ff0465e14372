package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/livhana/steward/join/task"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/status/terminal"
	"github.com/livhana/steward/supervisor"
)

// The exit codes of every command.
const (
	ExitFailed    = 1
	ExitUsage     = 2
	ExitNoDaemon  = 3
	ExitNoSubject = 4
	ExitRefused   = 5
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

// ExitWith is an error with its own exit code.
func ExitWith(err error, exit int) error { return exiting{err, exit, codeFailed} }

// NotStarted reports a command that could not be run, with the exit code that a shell would give.
func NotStarted(err error, exit int) error { return exiting{err, exit, codeNotStarted} }

// Interrupted reports a command that was told to stop waiting.
func Interrupted(format string, args ...any) error {
	return exiting{fmt.Errorf(format, args...), task.ExitCancelled, codeCancelled}
}

// OutOfTime reports a command whose wait timed out.
func OutOfTime(format string, args ...any) error {
	return exiting{fmt.Errorf(format, args...), task.ExitTimeout, codeTimeout}
}

// classOf returns the exit code, which scripts rely on, and the code of the error document.
func classOf(err error) (exit int, code string) {
	var usage UsageError
	var remote *status.Error
	var own exiting
	switch {
	case errors.As(err, &own):
		return own.exit, own.code
	case errors.As(err, new(Hopeless)):
		return exitHopeless, codeGivenUp
	case errors.As(err, &usage), strings.HasPrefix(err.Error(), "unknown command"):
		return ExitUsage, codeUsage // the last condition matches cobra's own errors
	case errors.Is(err, status.ErrNoDaemon), errors.Is(err, status.ErrNoAnswer):
		return ExitNoDaemon, codeNoDaemon
	case errors.Is(err, supervisor.ErrNoSubject):
		return ExitNoSubject, status.CodeNoSubject
	case errors.Is(err, protocol.ErrConflict):
		return ExitRefused, status.CodeConflict
	case errors.Is(err, supervisor.ErrRefused):
		return ExitRefused, status.CodeRefused
	case errors.As(err, &remote):
		return remoteCode(remote), remote.Code
	}
	return ExitFailed, codeFailed
}

func ExitCode(err error) int {
	exit, _ := classOf(err)
	return exit
}

func remoteCode(e *status.Error) int {
	switch e.Status {
	case http.StatusBadRequest, http.StatusRequestHeaderFieldsTooLarge: // the name is longer than any existing name
		return ExitUsage
	case http.StatusNotFound:
		return ExitNoSubject
	case http.StatusConflict:
		return ExitRefused
	}
	return ExitFailed
}

// PrintError prints why a command failed: as one line, or with -o json as the error document of the socket API.
func PrintError(w io.Writer, err error, asJSON bool) {
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

// AsksJSON reports whether a command line contains -o json, even if the line cannot be parsed.
func AsksJSON(args []string) bool {
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

// Quiet is an exit code without a further error message.
type Quiet struct{ Code int }

// Exit ends the command with a code and without a further message.
func Exit(code int) error { return Quiet{Code: code} }

func (q Quiet) Error() string { return fmt.Sprintf("exit %d", q.Code) }

// exitHopeless is the daemon's exit code under a service manager when a restart would fail again: an invalid
// configuration, or too many failed starts. The unit files refer to it. See docs/decisions.md, "Exit code 78".
const exitHopeless = 78

// Hopeless is an error that a restart cannot fix.
type Hopeless struct{ Err error }

func (h Hopeless) Error() string { return h.Err.Error() }
func (h Hopeless) Unwrap() error { return h.Err }
