package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/livhana/steward/join/task"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor"
)

// print writes v as one JSON document. A json.RawMessage keeps its keys in their order.
func (a *app) print(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write the document: %w", err)
	}
	return a.write(guarded(b.String()))
}

func (a *app) write(text string) error {
	if _, err := io.WriteString(a.out, text); err != nil {
		return fmt.Errorf("write the output: %w", err)
	}
	return nil
}

// guarded escapes what encoding/json leaves as it is although terminals obey it: DEL and the C1 controls.
func guarded(doc string) string {
	isLoose := func(r rune) bool { return r >= 0x7f && r <= 0x9f }
	if !strings.ContainsFunc(doc, isLoose) {
		return doc
	}
	var b strings.Builder
	for _, r := range doc {
		if isLoose(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// onceDone is what a single look did.
type onceDone struct {
	Done     []supervisor.Done          `json:"done"`
	Faults   []protocol.Fault           `json:"faults"`
	Findings []supervisor.FindingReport `json:"findings"`
}

// printDone says what a single look did.
func (a *app) printDone(p *supervisor.State) error {
	once := onceDone{Done: []supervisor.Done{}, Faults: []protocol.Fault{}, Findings: []supervisor.FindingReport{}}
	if p != nil {
		once.Done = append(once.Done, p.Done...)
		for _, project := range p.Report().Projects {
			once.Faults = append(once.Faults, project.Faults...)
			once.Findings = append(once.Findings, project.Findings...)
		}
	}
	if a.output == "json" {
		return a.print(once)
	}
	pg := a.page()
	for _, f := range once.Faults {
		pg.line("cannot use %s: %s", clean(f.Path), clean(f.Problem))
	}
	for _, f := range once.Findings {
		pg.line("finding    %s", findingLine(f.Severity, f.Subject, f.Field, f.Path, f.Text))
	}
	if len(once.Done) == 0 {
		pg.line("nothing to do")
	}
	for _, d := range once.Done {
		pg.line("%s %s: %s", d.Verb, clean(d.Subject), clean(d.Why))
	}
	return a.write(pg.String())
}

// clean makes text from a file fit for a terminal.
func clean(s string) string { return task.Plain(s) }

// maxWord is how much of a foreign text an error line quotes, in screen cells.
const maxWord = 300

// oneWord is clean, cut to what fits into a line of a message.
func oneWord(s string) string { return fit(clean(s), maxWord) }

// maxLine bounds a line of an error: what was typed may be as long as it likes. Its end says what to do.
const (
	maxLine = 1500 // characters, with maxEnd of them from its end
	maxEnd  = 300
)

// harmless is one line without the characters that a terminal obeys. Spaces stay.
func harmless(line string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.Is(unicode.Cf, r):
			return -1
		case r == '\t':
			return ' '
		case r == utf8.RuneError, !unicode.IsPrint(r):
			return '?'
		}
		return r
	}, line)
}

// bounded makes an error in its final words fit for a terminal: it obeys nothing in it, and has lines of a bearable length.
func bounded(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		line = harmless(line)
		if r := []rune(line); len(r) > maxLine {
			line = string(r[:maxLine-maxEnd]) + "…" + string(r[len(r)-maxEnd:])
		}
		lines[i] = line
	}
	return strings.Join(lines, "\n")
}

// shellQuote quotes a word for a POSIX shell where it needs that.
func shellQuote(s string) string {
	plain := func(r rune) bool {
		return r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r)) || strings.ContainsRune("_-./:@%+=,", r)
	}
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
