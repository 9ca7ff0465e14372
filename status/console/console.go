// Package console writes the log: sentences for a person at a terminal, lines for the systemd journal, or key=value.
package console

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status/terminal"
	"github.com/livhana/steward/status/views"
)

// console writes the log for a person at a terminal: the time, the level, and one sentence that names the subject.
type console struct {
	mu      *sync.Mutex
	out     io.Writer
	colored bool
	attrs   []slog.Attr
}

func newConsole(out io.Writer, colored bool) *console {
	return &console{mu: new(sync.Mutex), out: out, colored: colored}
}

// Enabled accepts the same levels as the structured form.
func (c *console) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }

// Handle writes one line.
func (c *console) Handle(_ context.Context, r slog.Record) error {
	attrs := slices.Clone(c.attrs)
	r.Attrs(func(at slog.Attr) bool { attrs = append(attrs, at); return true })
	var words []Attr
	for _, at := range attrs {
		words = append(words, Attr{at.Key, at.Value.String()})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := fmt.Fprintf(c.out, "%s %s %s\n", r.Time.Local().Format(time.TimeOnly), LevelWord(r.Level.String(), c.colored), terminal.LocalTimes(Sentence(r.Message, words), r.Time.Local()))
	return err
}

// LevelWord formats the level in five characters, colored by severity.
func LevelWord(name string, colored bool) string {
	p := &terminal.Page{Color: colored}
	return p.Dye(fmt.Sprintf("%-5s", name), levelStyles[name])
}

var levelStyles = map[string]terminal.Style{"INFO": terminal.Green, "WARN": terminal.Yellow, "ERROR": terminal.Red}

// WithAttrs returns a handler that adds the attributes to every line.
func (c *console) WithAttrs(attrs []slog.Attr) slog.Handler {
	c2 := *c
	c2.attrs = append(slices.Clone(c.attrs), attrs...)
	return &c2
}

// WithGroup ignores the group: steward's log does not use groups.
func (c *console) WithGroup(string) slog.Handler { return c }

// Attr is a key and its value in a log line.
type Attr struct{ key, value string }

// unsaid are the keys that a sentence omits: only programs need them.
var unsaid = []string{"took", "reason", "stack"}

// Sentence formats a log record as one readable line: the subject, the event, the reason, and the rest in brackets.
func Sentence(message string, words []Attr) string {
	value := map[string]string{}
	var rest []string
	for _, w := range words {
		value[w.key] = terminal.Clean(w.value)
		switch {
		case slices.Contains([]string{"subject", "state", "verb", "why", "error", "summary", "severity"}, w.key), slices.Contains(unsaid, w.key), w.value == "":
		default:
			rest = append(rest, w.key+" "+terminal.Clean(w.value))
		}
	}
	subject := views.SubjectWords(value["subject"])
	if project := protocol.ParseQuery(value["subject"]).Project; project != "" {
		subject = project + ": " + subject
	}
	line, what := subject, terminal.Clean(message)
	switch {
	case value["state"] != "" && value["subject"] != "":
		what = "is " + value["state"]
	case value["verb"] != "" && message == "changed":
		what = changed(protocol.Verb(value["verb"]))
	case value["verb"] != "":
		what += " (" + value["verb"] + ")"
	case value["summary"] != "":
		what += ", " + value["severity"] + ": " + value["summary"]
	}
	if line == "" {
		line = what
	} else if value["state"] != "" {
		line += " " + what
	} else {
		line += ": " + what
	}
	for _, key := range []string{"why", "error"} {
		if value[key] != "" {
			line += ": " + value[key]
		}
	}
	if len(rest) > 0 {
		line += " (" + strings.Join(rest, ", ") + ")"
	}
	return line
}

func changed(v protocol.Verb) string {
	if words := views.Deeds[v]; words != "" {
		return "steward " + words
	}
	return "steward did " + string(v)
}

// ParseLine parses a line of the structured form; ok is false for any other line.
func ParseLine(line string) (level, message string, words []Attr, ok bool) {
	for line != "" {
		key, rest, found := strings.Cut(line, "=")
		if !found || key == "" || strings.Contains(key, " ") {
			return "", "", nil, false
		}
		value, tail, _ := strings.Cut(rest, " ")
		if strings.HasPrefix(rest, `"`) {
			quoted, err := strconv.QuotedPrefix(rest)
			if err != nil {
				return "", "", nil, false
			}
			tail = strings.TrimPrefix(rest[len(quoted):], " ")
			value, _ = strconv.Unquote(quoted)
		}
		switch line = tail; key {
		case slog.TimeKey:
		case slog.LevelKey:
			level = value
		case slog.MessageKey:
			message = value
		default:
			words = append(words, Attr{key, value})
		}
	}
	return level, message, words, message != ""
}
