// Package words turns the causes of verdicts into sentences: a table of templates and what fills them in.
//
// A template names facts in braces, in lower case: "{agent}", or with a format, "{at date}". A part in brackets is left
// out when a fact that it names is absent; "[a|b]" says b instead. "{?at}" at the beginning of a part makes that fact
// alone decide, and says nothing. "{base}" is the sentence of Facts.Base about the same facts.
package words

import (
	"cmp"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/livhana/steward/protocol"
)

// Sentence returns what a cause says, as of now; "" for the zero Cause.
func Sentence(c protocol.Cause, now time.Time) string {
	return fill(template(c.Phrase, c.Reason), factsOf(&c.Facts, now))
}

// template finds the template of a phrase, or without one of a reason.
func template(p protocol.Phrase, r protocol.Reason) string {
	if p == "" {
		return reasons[r]
	}
	return cmp.Or(phrases[p], taskPhrases[p], noticePhrases[p])
}

// lookup returns a fact as text by its name and format, and whether it is there.
type lookup func(name string) (string, bool)

func factsOf(f *protocol.Facts, now time.Time) lookup {
	return func(name string) (string, bool) { return fact(name, f, now) }
}

// fill renders a template.
func fill(template string, get lookup) string {
	var out strings.Builder
	for {
		at := strings.IndexAny(template, "{[")
		if at < 0 {
			return out.String() + template
		}
		out.WriteString(template[:at])
		end := at + strings.IndexByte(template[at:], template[at]+2) // the brace or the bracket that closes
		inner := template[at+1 : end]
		if template[at] == '{' {
			text, _ := get(inner)
			out.WriteString(text)
		} else {
			part, otherwise, _ := strings.Cut(inner, "|")
			if !applies(part, get) {
				part = otherwise
			}
			out.WriteString(fill(strings.TrimPrefix(part, condition(part)), get))
		}
		template = template[end+1:]
	}
}

// condition returns the "{?at}" at the beginning of a part, or "".
func condition(part string) string {
	if !strings.HasPrefix(part, "{?") {
		return ""
	}
	return part[:strings.IndexByte(part, '}')+1]
}

// applies reports whether the fact that a part asks for is there, or without one all that it names.
func applies(part string, get lookup) bool {
	if asked := condition(part); asked != "" {
		part = "{" + asked[len("{?"):]
	}
	for _, name := range facts(part) {
		if _, known := get(name); !known {
			return false
		}
	}
	return true
}

// facts lists the facts that a template names.
func facts(template string) (names []string) {
	for _, part := range strings.Split(template, "{")[1:] {
		name, _, _ := strings.Cut(part, "}")
		names = append(names, name)
	}
	return names
}

// fact returns one fact as text, and whether it is there.
func fact(name string, f *protocol.Facts, now time.Time) (string, bool) {
	name, format, _ := strings.Cut(name, " ")
	switch v := value(name, f).(type) {
	case protocol.Phrase:
		return fill(template(v, ""), factsOf(f, now)), v != ""
	case string:
		if format == "quoted" {
			return strconv.Quote(v), true
		}
		return v, v != ""
	case int:
		return strconv.Itoa(v), v != 0
	case time.Time:
		return moment(v, format, now), !v.IsZero()
	case time.Duration:
		return duration(v, format), v != 0
	case float64:
		return Percent(v), v != 0
	}
	return "", false
}

// value returns the fact of a name; nil if there is no such fact.
func value(name string, f *protocol.Facts) any {
	switch name {
	case "base":
		return f.Base
	case "agent":
		return f.Agent
	case "task":
		return f.Task
	case "name":
		return f.Name
	case "text":
		return f.Text
	case "pid":
		return f.PID
	case "count":
		return f.Count
	case "of":
		return f.Of
	case "at":
		return f.At
	case "until":
		return f.Until
	case "for":
		return f.For
	case "age":
		return f.Age
	case "still":
		return f.Still
	case "limit":
		return f.Limit
	case "share":
		return f.Share
	case "line":
		return f.Line
	case "reading":
		return f.Reading
	case "reserved":
		return f.Reserved
	}
	return nil
}

// datedAfter is how old a moment must be to be shown with its date.
const datedAfter = 20 * time.Hour

// moment formats a time: "21:30:05 UTC", "{at date}" with its date, "{at recent}" with its date only if it is old, "{at zoned}"
// as in a file.
func moment(t time.Time, format string, now time.Time) string {
	switch {
	case format == "date":
		return t.UTC().Format("2006-01-02 15:04:05 UTC")
	case format == "zoned":
		return t.Format(time.RFC3339)
	case format == "recent" && now.Sub(t) > datedAfter:
		return t.UTC().Format("2006-01-02 15:04 UTC")
	}
	return t.UTC().Format("15:04:05 UTC")
}

// duration formats a duration: "7 min" as Span does, "{limit exact}" in whole minutes or in seconds, "{limit plain}" as it
// stands in the configuration.
func duration(d time.Duration, format string) string {
	switch {
	case format == "plain":
		return d.String()
	case format != "exact":
		return Span(d)
	case d >= 2*time.Minute && d%time.Minute == 0:
		return strconv.Itoa(int(d/time.Minute)) + " min"
	}
	return strconv.Itoa(int(d.Round(time.Second)/time.Second)) + " s"
}

// Span formats a duration in the one unit that people would use: "92 s", "7 min", "3 h", "3 d".
func Span(d time.Duration) string {
	d = max(0, d)
	switch {
	case d < 2*time.Minute:
		return strconv.Itoa(int(d/time.Second)) + " s"
	case d < 2*time.Hour:
		return strconv.Itoa(int(d/time.Minute)) + " min"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d/time.Hour)) + " h"
	}
	return strconv.Itoa(int(d/(24*time.Hour))) + " d"
}

// Percent formats a share as "93 %" or "80.3 %".
func Percent(v float64) string {
	return strconv.FormatFloat(math.Round(v*1000)/10, 'f', -1, 64) + " %"
}
