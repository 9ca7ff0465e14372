package main

import (
	"log/slog"
	"os"

	"github.com/livhana/steward/status/terminal"
)

// logger writes to stderr: sentences for a user at a terminal, otherwise key=value. For the journal, which records the
// time itself, it writes the message with its priority.
func (a *app) logger() *slog.Logger {
	if toJournal(a.err, os.Getenv("JOURNAL_STREAM")) {
		return slog.New(newJournalLines(a.err))
	}
	if terminal.IsTerminal(a.err) {
		return slog.New(a.newConsole(a.err))
	}
	return slog.New(slog.NewTextHandler(a.err, nil))
}
