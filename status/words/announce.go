package words

import (
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
)

// Length limits, mostly in characters: a summary is a popup's title; a detail is its text and is stored in the
// incident's file.
const (
	summaryLimit = 80
	NameLimit    = 32
	lineLimit    = 1000
	listLimit    = 10
)

// Announce words a ruling: a summary of at most 80 characters, a sentence to speak, and a detail of several lines.
// human is the operator's name, which introduces the directive in the detail. Text from files is stripped of control
// characters, but not escaped for any channel.
func Announce(t protocol.Task, r rules.Ruling, human string) (summary, spoken, detail string) {
	f := rules.Failed(t.Outcome)
	what := codeWords(r.Code)
	name := taskName(&t)
	detail = detailOf(&t, r, f, cleanText(human, NameLimit))
	if r.Fatal {
		summary, spoken = critical(&t, f, what)
		return summary, spoken, detail
	}
	sentence := "Task " + name + " " + outcomeWords(&t, r)
	if r.Code == strings.ToUpper(r.Status) && r.Code != rules.CodeTimeout {
		what = FileNames(cleanText(f.Message, lineLimit)) // avoids "is blocked: Blocked"
	}
	if what != "" && r.Action != rules.ActionNone {
		sentence += ": " + what
	}
	sentence = rules.Shorten(sentence, summaryLimit)
	spoken = strings.TrimRight(sentence, ".") + "."
	return sentence + place(f, summaryLimit-utf8.RuneCountInString(sentence)), spoken, detail
}

// outcomeWords describes the outcome as the predicate of a sentence.
func outcomeWords(t *protocol.Task, r rules.Ruling) string {
	putOff := t.Count(func(k protocol.Attempt) bool { return k.Rule == r.Rule && k.Action == protocol.ActionDefer })
	switch {
	case r.Action == protocol.ActionRetry:
		return "runs again at " + dueWords(t, r.Due)
	case r.Action == protocol.ActionDefer:
		return "waits until " + dueWords(t, r.Due)
	case r.Action == rules.ActionNone:
		return "needs nothing"
	case r.Status == "blocked":
		return "is blocked"
	case r.Status == "partial":
		return "is only partly done"
	case r.Exhausted && putOff > 0:
		return fmt.Sprintf("was put off %d times", putOff)
	case r.Exhausted && t.Attempt() > 1:
		return fmt.Sprintf("failed after %d attempts", t.Attempt())
	}
	return "failed"
}

// dueWords formats the due time and omits the date when it is unambiguous.
func dueWords(t *protocol.Task, due time.Time) string {
	if t.Outcome != nil && due.Sub(t.Outcome.At) < 12*time.Hour {
		return due.UTC().Format("15:04 UTC")
	}
	return due.UTC().Format("2 Jan 15:04 UTC")
}

// taskName returns the task's id, or its title if the id is a UUID and there is a title.
func taskName(t *protocol.Task) string {
	id, title := cleanText(t.ID, NameLimit+4), FileNames(cleanText(t.Title, lineLimit))
	if len(id) != 36 || strings.Count(id, "-") != 4 {
		return rules.Shorten(id, NameLimit)
	}
	if word, rest, _ := strings.Cut(title, " "); strings.EqualFold(word, "task") {
		title = rest // the sentence already contains "Task"
	}
	if title != "" {
		return rules.Shorten(title, NameLimit)
	}
	return id[:8]
}

// codeWords makes a code readable: GIT_CONFLICT is "Git conflict detected", RATE_LIMITED "Rate limited".
func codeWords(code string) string {
	if code == "GIT_CONFLICT" {
		return "Git conflict detected"
	}
	words := strings.ToLower(cleanText(strings.ReplaceAll(code, "_", " "), 64))
	if words == "" {
		return "Unknown error"
	}
	first, size := utf8.DecodeRuneInString(words)
	return string(unicode.ToUpper(first)) + words[size:]
}

// place returns " (scripts/x.sh:12)" if it fits into room characters, or else with the base name only, or else "".
func place(f protocol.Failure, room int) string {
	file := cleanText(f.File, lineLimit)
	if file == "" {
		return ""
	}
	line := ""
	if f.Line > 0 {
		line = ":" + strconv.Itoa(f.Line)
	}
	for _, shown := range [...]string{file, path.Base(strings.ReplaceAll(file, `\`, "/"))} {
		if p := " (" + shown + line + ")"; utf8.RuneCountInString(p) <= room {
			return p
		}
	}
	return ""
}

// detailOf lists, one per line, what failed, where, the operator's directive, what was tried and what follows.
func detailOf(t *protocol.Task, r rules.Ruling, f protocol.Failure, human string) string {
	var lines []string
	say := func(label, text string) {
		if text = cleanText(text, lineLimit); text != "" {
			lines = append(lines, label+text)
		}
	}
	say("Task: ", t.Title)
	say("Agent: ", t.Agent)
	if f.Code != "" {
		said := strings.TrimSpace(f.Message)
		if said == "" {
			said = codeWords(f.Code)
		}
		say("Error: ", fmt.Sprintf("%s (%s): %s", f.Code, rules.SeverityWord(f), said))
	}
	say("Where: ", strings.Trim(place(f, lineLimit), " ()"))
	if human == "" {
		human = "The human"
	}
	if directive := cleanText(t.Directive, lineLimit); directive != "" {
		lines = append(lines, human+" said: “"+directive+"”")
	}
	say("Attempts made: ", strconv.Itoa(t.Attempt()))
	lines = append(lines, triedLines(t.Attempts)...)
	say("", Sentence(r.Cause, r.Due))
	if t.Outcome != nil {
		for _, next := range append(t.Outcome.ForHuman[:len(t.Outcome.ForHuman):len(t.Outcome.ForHuman)], t.Outcome.Next...) {
			if len(lines) < 3*listLimit {
				say("The agent suggests: ", next)
			}
		}
	}
	return strings.Join(lines, "\n")
}

// triedLines describes the latest entries of the ledger.
func triedLines(all []protocol.Attempt) []string {
	var lines []string
	for _, k := range all[max(0, len(all)-listLimit):] {
		verb := "run again"
		if k.Action == protocol.ActionDefer {
			verb = "put off"
		}
		if k.Committed {
			lines = append(lines, fmt.Sprintf("Tried: %s, %s to %s", codeWords(rules.CodeWord(k.Code)), verb, k.Due.UTC().Format(time.RFC3339)))
		}
	}
	return lines
}

// escapes matches terminal escape sequences; if only the ESC byte were dropped, the rest would remain as text.
var escapes = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?)")
})

// cleanText fits text from a file into one line of at most limit characters: no control or format characters (a NUL
// blocks a popup, a bidi mark reverses a path), no invalid UTF-8, single spaces.
func cleanText(s string, limit int) string {
	// A character takes at most four bytes; the rest is room for dropped characters.
	if most := 8*limit + 1024; len(s) > most {
		s = s[:most]
	}
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case r == utf8.RuneError || unicode.IsControl(r) || unicode.Is(unicode.Cf, r):
			return -1
		}
		return r
	}, escapes().ReplaceAllString(s, ""))
	return rules.Shorten(strings.Join(strings.Fields(s), " "), limit)
}
