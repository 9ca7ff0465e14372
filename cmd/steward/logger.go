package main

import (
	"io/fs"
	"log/slog"
	"os"
)

// logger writes to stderr: sentences for a person at a terminal, key=value otherwise. In the journal, which keeps the time
// itself, it is the message with its priority.
func (a *app) logger() *slog.Logger {
	if toJournal(a.err, os.Getenv("JOURNAL_STREAM")) {
		return slog.New(newJournalLines(a.err))
	}
	if isTerminal(a.err) {
		return slog.New(a.newConsole(a.err))
	}
	return slog.New(slog.NewTextHandler(a.err, nil))
}

// isTerminal reports whether w is a terminal.
func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	st, err := f.Stat()
	return err == nil && st.Mode()&fs.ModeCharDevice != 0
}
