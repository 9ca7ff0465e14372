package status

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor"
)

// The codes of an Error.
const (
	CodeBadRequest = "bad_request"
	CodeNoSubject  = "no_such_subject"
	CodeNoMethod   = "method_not_allowed"
	CodeRefused    = "refused"
	CodeAmbiguous  = "ambiguous"
	CodeConflict   = "conflict"
	CodeNotReady   = "not_ready"
	CodeInternal   = "internal"
)

// Error is the daemon's answer to a request that it refuses or cannot carry out: the `error` of the error document.
type Error struct {
	Code    string `json:"code"` // one of the Code constants
	Message string `json:"message"`
	Hint    string `json:"hint"` // what to do next; may be empty
	// Candidates are the possible meanings of an ambiguous name, in the form that commands accept.
	Candidates []string `json:"candidates,omitempty"`
	// Status is the HTTP status.
	Status int `json:"-"`
}

// errorDocument is the body of every unsuccessful response.
type errorDocument struct {
	Error *Error `json:"error"`
}

// Error returns the message and, after a semicolon, the hint.
func (e *Error) Error() string {
	if e.Hint == "" {
		return e.Message
	}
	return e.Message + "; " + e.Hint
}

func badRequest(hint, format string, args ...any) *Error {
	return &Error{Code: CodeBadRequest, Status: http.StatusBadRequest, Message: fmt.Sprintf(format, args...), Hint: hint}
}

func notReady(hint, format string, args ...any) *Error {
	return &Error{Code: CodeNotReady, Status: http.StatusServiceUnavailable, Message: fmt.Sprintf(format, args...), Hint: hint}
}

func noSubject(hint, format string, args ...any) *Error {
	return &Error{Code: CodeNoSubject, Status: http.StatusNotFound, Message: fmt.Sprintf(format, args...), Hint: hint}
}

func ambiguous(text string, candidates []string) *Error {
	return &Error{Code: CodeAmbiguous, Status: http.StatusConflict, Message: fmt.Sprintf("%q can mean %d things", text, len(candidates)),
		Hint: "name one of: " + strings.Join(candidates, ", "), Candidates: candidates}
}

// known maps the errors that callers test for to their responses. The first match counts.
var known = []struct {
	err    error
	status int
	code   string
	hint   string
}{
	{supervisor.ErrNoSubject, http.StatusNotFound, CodeNoSubject, "see 'steward status' for what there is"},
	{escalate.ErrUnknown, http.StatusNotFound, CodeNoSubject, "see 'steward incidents' for what is open"},
	{escalate.ErrAmbiguous, http.StatusConflict, CodeAmbiguous, "use more of the key"},
	{escalate.ErrStale, http.StatusConflict, CodeRefused, "see 'steward incidents' for what is asked now"},
	{escalate.ErrNoOption, http.StatusConflict, CodeRefused, ""},
	{escalate.ErrDangerous, http.StatusConflict, CodeRefused, ""},
	{escalate.ErrResolved, http.StatusConflict, CodeRefused, "nothing is left to do about it"},
	{ErrTrial, http.StatusConflict, CodeRefused, "wait half a minute"},
	{supervisor.ErrRefused, http.StatusConflict, CodeRefused, ""},
	{protocol.ErrUnsupported, http.StatusConflict, CodeRefused, ""},
	{protocol.ErrConflict, http.StatusConflict, CodeConflict, "look again and repeat it if it is still wanted"},
	{supervisor.ErrStopped, http.StatusServiceUnavailable, CodeNotReady, "repeat it once steward runs again"},
	{context.DeadlineExceeded, http.StatusServiceUnavailable, CodeNotReady, "the command may still be carried out; see 'steward log'"},
	{context.Canceled, http.StatusServiceUnavailable, CodeNotReady, "the command may still be carried out; see 'steward log'"},
}

// answerFor turns any error into the Error to be sent.
func answerFor(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	for _, k := range known {
		if errors.Is(err, k.err) {
			return &Error{Code: k.code, Message: err.Error(), Hint: k.hint, Status: k.status}
		}
	}
	return &Error{Code: CodeInternal, Message: err.Error(), Hint: "see the log of the daemon", Status: http.StatusInternalServerError}
}
