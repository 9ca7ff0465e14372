package rules

import (
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/livhana/steward/protocol"
)

// documented maps codes to their severities (protocol 000, Error Codes), and to a description where the code itself,
// made readable, is not suitable.
var documented = map[string]struct{ severity, words string }{
	CodeCapacity:        {severity: sevWarning},
	"FILE_NOT_FOUND":    {severity: sevError},
	"PERMISSION_DENIED": {severity: sevError},
	CodeTimeout:         {severity: sevError},
	"EXECUTION_FAILED":  {severity: sevError},
	"VALIDATION_FAILED": {severity: sevFatal},
	"GIT_CONFLICT":      {severity: sevFatal, words: "Git conflict detected"},
	CodeUnknown:         {severity: sevFatal},
}

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
func Announce(t protocol.Task, r Ruling, human string) (summary, spoken, detail string) {
	f := Failed(t.Outcome)
	what := codeWords(r.Code)
	name := taskName(&t)
	detail = detailOf(&t, r, f, cleanText(human, NameLimit))
	if r.Fatal {
		summary, spoken = critical(&t, f, what)
		return summary, spoken, detail
	}
	sentence := "Task " + name + " " + outcomeWords(&t, r)
	if r.Code == strings.ToUpper(r.Status) && r.Code != CodeTimeout {
		what = FileNames(cleanText(f.Message, lineLimit)) // avoids "is blocked: Blocked"
	}
	if what != "" && r.Action != ActionNone {
		sentence += ": " + what
	}
	sentence = ClipText(sentence, summaryLimit)
	spoken = strings.TrimRight(sentence, ".") + "."
	return sentence + place(f, summaryLimit-utf8.RuneCountInString(sentence)), spoken, detail
}

// outcomeWords describes the outcome as the predicate of a sentence.
func outcomeWords(t *protocol.Task, r Ruling) string {
	putOff := t.Count(func(k protocol.Attempt) bool { return k.Rule == r.Rule && k.Action == protocol.ActionDefer })
	switch {
	case r.Action == protocol.ActionRetry:
		return "runs again at " + dueWords(t, r.Due)
	case r.Action == protocol.ActionDefer:
		return "waits until " + dueWords(t, r.Due)
	case r.Action == ActionNone:
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
		return ClipText(id, NameLimit)
	}
	if word, rest, _ := strings.Cut(title, " "); strings.EqualFold(word, "task") {
		title = rest // the sentence already contains "Task"
	}
	if title != "" {
		return ClipText(title, NameLimit)
	}
	return id[:8]
}

// codeWords makes a code readable: GIT_CONFLICT is "Git conflict detected", RATE_LIMITED "Rate limited".
func codeWords(code string) string {
	if d := documented[code]; d.words != "" {
		return d.words
	}
	words := strings.ToLower(cleanText(strings.ReplaceAll(code, "_", " "), codeLimit))
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
func detailOf(t *protocol.Task, r Ruling, f protocol.Failure, human string) string {
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
		say("Error: ", fmt.Sprintf("%s (%s): %s", f.Code, severityWord(f), said))
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
	say("", r.Why)
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
			lines = append(lines, fmt.Sprintf("Tried: %s, %s to %s", codeWords(codeWord(k.Code)), verb, k.Due.UTC().Format(time.RFC3339)))
		}
	}
	return lines
}

// escapes matches terminal escape sequences; if only the ESC byte were dropped, the rest would remain as text.
var escapes = lazily("\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?)")

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
	return ClipText(strings.Join(strings.Fields(s), " "), limit)
}

// ClipText cuts s to limit characters, the last of them an ellipsis.
func ClipText(s string, limit int) string {
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	return strings.TrimRight(string([]rune(s)[:max(limit-1, 0)]), " ") + "…"
}

// The formats in which programs print the end of a limit.
var (
	resetWord  = lazily(`(?i)reset|retry|again|available|wait|until|renew|refresh`)
	retryAfter = lazily(`(?i)retry[-_ ]after["']?\s*[:=]?\s*["']?(\d{1,9})(?:["',;.\s}]|$)`)
	datetime   = lazily(`(?i)^(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2})(:\d{2})?(?:\.\d{1,9})?\s?(?:(Z|UTC|GMT)\b|([+-]\d{2}):?(\d{2}))?`)
	epoch      = lazily(`^(\d{10})(?:\d{3})?(?:\D|$)`)
	monthDay   = lazily(`(?i)\b((?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec))[a-z]*\.?\s+(\d{1,2})(?:st|nd|rd|th)?,?(?:\s+\d{4},?)?\s+(?:at\s+)?`)
	clock      = lazily(`(?i)^(\d{1,2})(?::(\d{2})(?::(\d{2}))?)?(?:\s*([ap])\.?m\b\.?)?(?:\s*\(?(utc|gmt|z|e[sd]t|c[sd]t|m[sd]t|p[sd]t|cest|cet|bst)\b)?`)
	duration   = lazily(`(?i)^(\d{1,9}(?:\.\d{1,9})?)\s*(days?|d|hours?|hrs?|h|milliseconds?|millis|ms|minutes?|mins?|m|seconds?|secs?|s)(?:[^a-z]|$)`)
	between    = lazily(`(?i)^[\s,]*(?:and\s+)?`)
)

// zones maps unambiguous zone abbreviations to their offset in hours. Any other zone name is read as the machine's
// own zone: an agent prints its local time, and a lookup would make the ruling depend on the machine's files.
var zones = map[string]int{
	"utc": 0, "gmt": 0, "z": 0, "est": -5, "edt": -4, "cst": -6, "cdt": -5, "mst": -7, "mdt": -6,
	"pst": -8, "pdt": -7, "cet": 1, "cest": 2, "bst": 1,
}

const (
	resetText   = 4096             // bytes of a message that are scanned
	resetWindow = 72               // bytes after "reset", "retry", … in which the time is expected
	resetSlack  = 15 * time.Minute // a time of day up to this long before the message is past, not tomorrow's
	resetSpan   = 366 * 24 * time.Hour
)

// resetTime finds the time at which a limit ends in a message written at the given time, whose location applies to
// times without a zone. The result may be before at. When in doubt, it finds none.
func resetTime(text string, at time.Time) (time.Time, bool) {
	text = text[:min(len(text), resetText)]
	for _, loc := range resetWord().FindAllStringIndex(text, -1) {
		tail := text[loc[1]:min(len(text), loc[1]+resetWindow)]
		if m := monthDay().FindStringSubmatchIndex(tail); m != nil {
			if t, ok := dayClock(tail[m[2]:m[3]], tail[m[4]:m[5]], tail[m[1]:], at); ok {
				return t, true
			}
		}
		for _, i := range numbers(tail) {
			if t, ok := timeAt(tail[i:], at); ok {
				return t, true
			}
		}
	}
	if m := retryAfter().FindStringSubmatch(text); m != nil {
		seconds, _ := strconv.Atoi(m[1]) // nine digits at most
		return at.Add(time.Duration(seconds) * time.Second), true
	}
	for _, i := range numbers(text) { // "usage limit reached|1761168600": a complete future time needs no preceding keyword
		if t, ok := instantAt(text[i:], at); ok && t.After(at) {
			return t, true
		}
	}
	return time.Time{}, false
}

// numbers returns the positions at which numbers start.
func numbers(s string) []int {
	var found []int
	digit := func(i int) bool { return s[i] >= '0' && s[i] <= '9' }
	for i := range len(s) {
		if digit(i) && (i == 0 || !digit(i-1) && s[i-1] != '.' && s[i-1] != ':') {
			found = append(found, i)
		}
	}
	return found
}

// timeAt parses an instant, a time of day or a duration at the start of s.
func timeAt(s string, at time.Time) (time.Time, bool) {
	if t, ok := instantAt(s, at); ok {
		return t, true
	}
	if t, ok := clockAt(s, at); ok {
		if t.Before(at.Add(-resetSlack)) {
			t = t.AddDate(0, 0, 1)
		}
		return t, true
	}
	d, ok := durationAt(s)
	return at.Add(d), ok
}

// instantAt parses a date with a time, or epoch seconds or milliseconds. A value more than a year away is some other
// number.
func instantAt(s string, at time.Time) (time.Time, bool) {
	var t time.Time
	if m := epoch().FindStringSubmatch(s); m != nil {
		seconds, _ := strconv.ParseInt(m[1], 10, 64)
		t = time.Unix(seconds, 0).In(at.Location())
	} else if m := datetime().FindStringSubmatch(s); m != nil {
		if m[3] == "" {
			m[3] = ":00"
		}
		layout, value, in := "2006-01-02T15:04:05", m[1]+"T"+m[2]+m[3], at.Location()
		switch {
		case m[4] != "":
			in = time.UTC
		case m[5] != "":
			layout, value = layout+"-0700", value+m[5]+m[6]
		}
		var err error
		if t, err = time.ParseInLocation(layout, value, in); err != nil {
			return t, false
		}
	}
	return t, !t.IsZero() && t.Sub(at).Abs() < resetSpan
}

// clockAt parses "15:00 UTC", "3pm", "3:04:05 pm" on the day of at.
func clockAt(s string, at time.Time) (time.Time, bool) {
	m := clock().FindStringSubmatch(s)
	if m == nil || m[2] == "" && m[4] == "" {
		return time.Time{}, false
	}
	hour, _ := strconv.Atoi(m[1])
	minute, _ := strconv.Atoi(m[2])
	second, _ := strconv.Atoi(m[3])
	if m[4] != "" {
		if hour < 1 || hour > 12 {
			return time.Time{}, false
		}
		hour %= 12
		if strings.EqualFold(m[4], "p") {
			hour += 12
		}
	}
	if hour > 24 || minute > 59 || second > 59 {
		return time.Time{}, false
	}
	if offset, ok := zones[strings.ToLower(m[5])]; ok {
		at = at.In(time.FixedZone(m[5], offset*3600))
	}
	return time.Date(at.Year(), at.Month(), at.Day(), hour, minute, second, 0, at.Location()), true
}

// dayClock parses the time of day after a month and a day; it uses the year that brings the result closest to at.
func dayClock(month, day, rest string, at time.Time) (time.Time, bool) {
	t, ok := clockAt(rest, at)
	m, err := time.Parse("Jan 2", strings.ToUpper(month[:1])+strings.ToLower(month[1:])+" "+day)
	if !ok || err != nil {
		return t, false
	}
	t = time.Date(t.Year(), m.Month(), m.Day(), t.Hour(), t.Minute(), t.Second(), 0, t.Location())
	switch half := resetSpan / 2; {
	case t.Sub(at) < -half:
		t = t.AddDate(1, 0, 0)
	case t.Sub(at) > half:
		t = t.AddDate(-1, 0, 0)
	}
	return t, true
}

// durationAt parses "120 seconds", "5m30s", "1 hour and 30 minutes".
func durationAt(s string) (sum time.Duration, found bool) {
	for {
		m := duration().FindStringSubmatchIndex(s)
		if m == nil {
			return sum, found
		}
		n, _ := strconv.ParseFloat(s[m[2]:m[3]], 64)
		sum = min(sum+scale(unitOf(s[m[4]:m[5]]), n, resetSpan), resetSpan)
		found = true
		s = s[m[5]:]
		s = s[len(between().FindString(s)):]
	}
}

func unitOf(word string) time.Duration {
	switch word = strings.ToLower(word); {
	case strings.HasPrefix(word, "mil"), word == "ms":
		return time.Millisecond
	case word[0] == 'm':
		return time.Minute
	case word[0] == 'h':
		return time.Hour
	case word[0] == 'd':
		return 24 * time.Hour
	}
	return time.Second
}
