package console

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"

	"github.com/livhana/steward/platform"
)

// toJournal reports whether w writes to the journal: JOURNAL_STREAM names the device and inode of the stream from systemd.
func toJournal(w any, stream string) bool {
	f, ok := w.(*os.File)
	return ok && stream != "" && platform.FileID(f) == stream
}

// journalLines writes one line per record as the journal reads it: priority, message, then the rest as key=value.
type journalLines struct {
	mu   *sync.Mutex
	out  io.Writer
	rest *bytes.Buffer
	text slog.Handler // writes the rest
}

func newJournalLines(out io.Writer) *journalLines {
	rest := new(bytes.Buffer)
	text := slog.NewTextHandler(rest, &slog.HandlerOptions{ReplaceAttr: func(groups []string, at slog.Attr) slog.Attr {
		if len(groups) == 0 && (at.Key == slog.TimeKey || at.Key == slog.LevelKey || at.Key == slog.MessageKey) {
			return slog.Attr{}
		}
		return at
	}})
	return &journalLines{mu: new(sync.Mutex), out: out, rest: rest, text: text}
}

// Enabled defers to the text handler.
func (h *journalLines) Enabled(ctx context.Context, l slog.Level) bool {
	return h.text.Enabled(ctx, l)
}

// Handle writes the record.
func (h *journalLines) Handle(ctx context.Context, r slog.Record) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rest.Reset()
	if err := h.text.Handle(ctx, r); err != nil {
		return err
	}
	line := fmt.Sprintf("<%d>%s", priority(r.Level), r.Message)
	if rest := bytes.TrimSpace(h.rest.Bytes()); len(rest) > 0 {
		line += " " + string(rest)
	}
	_, err := io.WriteString(h.out, line+"\n")
	return err
}

// priority maps a level to the syslog priority.
func priority(l slog.Level) int {
	switch {
	case l >= slog.LevelError:
		return 3
	case l >= slog.LevelWarn:
		return 4
	case l >= slog.LevelInfo:
		return 6
	}
	return 7
}

// WithAttrs passes the attributes to the text handler.
func (h *journalLines) WithAttrs(attrs []slog.Attr) slog.Handler {
	h2 := *h
	h2.text = h.text.WithAttrs(attrs)
	return &h2
}

func (h *journalLines) WithGroup(name string) slog.Handler {
	h2 := *h
	h2.text = h.text.WithGroup(name)
	return &h2
}
