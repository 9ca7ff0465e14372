package main

import (
	"io/fs"
	"log/slog"
	"os"
	"time"
)

// logger writes to stderr: with the time of day for a person at a terminal, with the full time otherwise.
// In the journal, which keeps the time itself, it is the message with its priority.
func (a *app) logger() *slog.Logger {
	if toJournal(a.err, os.Getenv("JOURNAL_STREAM")) {
		return slog.New(newJournalLines(a.err))
	}
	short := isTerminal(a.err)
	return slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{ReplaceAttr: func(groups []string, at slog.Attr) slog.Attr {
		if short && len(groups) == 0 && at.Key == slog.TimeKey {
			return slog.String(slog.TimeKey, at.Value.Time().Format(time.TimeOnly))
		}
		return at
	}}))
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
