package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/livhana/steward/status/terminal"
	"github.com/spf13/cobra"
)

// FlagError describes a flag error in the user's terms: the flag library's messages name its own functions.
func FlagError(c *cobra.Command, err error) error {
	see := " (see " + c.CommandPath() + " --help)"
	flag, value, invalid := invalidValue(err, c.Flags().Lookup)
	var named interface {
		GetSpecifiedName() string
		GetSpecifiedShortnames() string
	}
	name, text := "", err.Error()
	if errors.As(err, &named) {
		if name = "--" + terminal.OneWord(named.GetSpecifiedName()); named.GetSpecifiedShortnames() != "" {
			name = "-" + terminal.OneWord(named.GetSpecifiedName())
		}
	}
	switch {
	case invalid:
		text = fmt.Sprintf("--%s %s: %s", flag.Name, terminal.OneWord(value), valueWords(flag.Value.Type(), err))
	case name != "" && strings.HasPrefix(text, "flag needs an argument"):
		text = name + ": a value is missing"
	case name == "--json":
		text = "unknown flag --json; say -o json"
	case name != "":
		text = "unknown flag " + name
	}
	return UsageError{Err: errors.New(text + see)}
}

// invalidValue extracts flag and value from an invalid value's error. F is the library's flag type, inferred from lookup,
// so that only cobra is imported here.
func invalidValue[F any](err error, _ func(string) F) (flag F, value string, ok bool) {
	var e interface {
		GetFlag() F
		GetValue() string
	}
	if errors.As(err, &e) {
		return e.GetFlag(), e.GetValue(), true
	}
	return flag, "", false
}

// valueWords describes the values that a flag of that type accepts.
func valueWords(kind string, err error) string {
	if errors.Is(err, strconv.ErrRange) {
		return "the number is too large"
	}
	switch kind {
	case "uint":
		return "use a whole number from 0 on"
	case "int", "int64":
		return "use a whole number"
	case "float64":
		return "use a number"
	case "duration":
		return "use a time such as 30s, 10m or 2h"
	case "bool":
		return "use true or false, or the flag alone"
	}
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(inner) {
		err = inner
	}
	return err.Error()
}

// argumentWords describes the arguments a command takes, instead of cobra's counts.
func argumentWords(c *cobra.Command, args []string, err error) error {
	see := "(see " + c.CommandPath() + " --help)"
	text := err.Error()
	counted := strings.HasPrefix(text, "accepts ") || strings.HasPrefix(text, "requires at least ")
	_, takes, _ := strings.Cut(c.Use, " ")
	switch {
	case strings.HasPrefix(text, "unknown command") && len(args) > 0:
		return fmt.Errorf("%s takes no argument, and was given %s %s", c.CommandPath(), terminal.OneWord(args[0]), see)
	case counted && len(args) == 0:
		return fmt.Errorf("%s: missing argument %s %s", c.CommandPath(), takes, see)
	case counted:
		return fmt.Errorf("%s takes %s, and was given %s %s", c.CommandPath(), takes, terminal.Plural(len(args), "argument"), see)
	}
	return fmt.Errorf("%w %s", err, see)
}
