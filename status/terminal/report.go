package terminal

import (
	"fmt"
	"strings"
)

// Reported is an error in its final words: one clean line. errors.Is and errors.As still see its cause.
type Reported struct {
	Text  string
	Cause error
}

func (e Reported) Error() string { return e.Text }

// Unwrap gives the cause.
func (e Reported) Unwrap() error { return e.Cause }

// Report words an error anew for a person.
func Report(cause error, format string, args ...any) error {
	return Reported{Clean(fmt.Sprintf(format, args...)), cause}
}

// ErrorText is an error as one line for each problem; a file with several problems has a line for each.
func ErrorText(err error) string { return strings.TrimRight(err.Error(), "\n") }
