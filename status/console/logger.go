package console

import (
	"io"
	"log/slog"
	"os"

	"github.com/livhana/steward/status/terminal"
)

// NewLogger writes sentences for a user at a terminal, otherwise key=value. For the systemd journal, which records the
// time itself, it writes the message with its priority.
func NewLogger(out io.Writer, colored bool) *slog.Logger {
	if toJournal(out, os.Getenv("JOURNAL_STREAM")) {
		return slog.New(newJournalLines(out))
	}
	if terminal.IsTerminal(out) {
		return slog.New(newConsole(out, colored))
	}
	return slog.New(slog.NewTextHandler(out, nil))
}
