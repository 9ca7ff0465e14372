package terminal

import (
	"fmt"
	"strings"
)

// Reported is an error with its final message: one clean line. errors.Is and errors.As still find its cause.
type Reported struct {
	Text  string
	Cause error
}

func (e Reported) Error() string { return e.Text }

// Unwrap returns the cause.
func (e Reported) Unwrap() error { return e.Cause }

// Report gives an error a new message for the user.
func Report(cause error, format string, args ...any) error {
	return Reported{Clean(fmt.Sprintf(format, args...)), cause}
}

// ErrorText is an error as text with one line for each problem.
func ErrorText(err error) string { return strings.TrimRight(err.Error(), "\n") }
