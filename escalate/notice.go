package escalate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
)

// Notice is what a channel delivers: one incident, or a summary of several.
type Notice struct {
	// Key identifies the popup: a Notice replaces a popup that is on screen with the same Key.
	Key      string
	Severity protocol.Severity
	Title    string
	Text     string
	// Project is the incident's project; "" for a summary and for the machine.
	Project string
	// Spoken is the sentence to speak, never empty.
	Spoken   string
	Blocking bool
	// Over: the incident is over. Quiet: the notice makes no sound and closes by itself. Hushed: no sound during
	// quiet hours.
	Over   bool
	Quiet  bool
	Hushed bool
	// Options can be chosen directly on the notice; Rev is the revision that such an answer refers to. A summary has
	// no options, and Options never includes dangerous ones.
	Options []rules.Option
	Rev     int
	// Dangerous are the other options, which can only be chosen by command; Handle is the command's name for the
	// incident.
	Dangerous []rules.Option
	Handle    string
}

// linesInSummary and namesInSentence limit how many incidents a summary lists.
const (
	linesInSummary  = 8
	namesInSentence = 3
)

// noticeOf returns the notice for one incident.
func noticeOf(i Incident) Notice {
	return Notice{Key: i.Key, Severity: i.Severity, Title: i.Summary, Text: i.Detail, Project: i.Project,
		Spoken: cmp.Or(i.Spoken, i.Summary, i.About), Blocking: i.Blocking, Rev: i.Rev, Handle: i.Handle(),
		Options:   slices.DeleteFunc(slices.Clone(i.Options), func(o rules.Option) bool { return o.Dangerous }),
		Dangerous: slices.DeleteFunc(slices.Clone(i.Options), func(o rules.Option) bool { return !o.Dangerous })}
}

// recoveryOf returns the notice that an incident is over.
func recoveryOf(i Incident) Notice {
	title := rules.Shorten("Over: "+i.Summary, rules.MaxSummary)
	if s := i.Subject(); s.Kind == protocol.KindAgent {
		title = rules.Shorten(s.ID+" is back", rules.MaxSummary)
	}
	return Notice{Key: i.Key, Severity: protocol.Info, Title: title, Text: i.Why, Project: i.Project, Spoken: title, Quiet: true, Over: true}
}

// summaryOf returns the notice for several incidents under its own key. The earlier incidents are already in the
// summary on screen and stay in it; only the fresh ones are spoken.
func summaryOf(key string, fresh, earlier []Incident) Notice {
	fresh = bySeverity(fresh)
	all := bySeverity(append(slices.Clone(earlier), fresh...))
	if len(all) == 1 {
		n := noticeOf(all[0])
		n.Key, n.Options, n.Dangerous = key, nil, nil
		return n
	}
	n := Notice{Key: key, Severity: all[0].Severity, Title: counted(len(all), "more incident"),
		Text: listed(all, summaryLine), Spoken: sentenceOf(fresh)}
	n.Blocking = slices.ContainsFunc(all, func(i Incident) bool { return i.Blocking })
	return n
}

// morningOf returns the summary of the notices that waited for the end of the quiet hours.
func morningOf(key string, fresh, earlier []Incident) Notice {
	n := summaryOf(key, fresh, earlier)
	n.Title = fmt.Sprintf("While it was quiet: %s", counted(len(fresh), "incident"))
	n.Spoken = n.Title + "."
	return n
}

// recoveriesOf returns the notice that several incidents are over.
func recoveriesOf(key string, over []Incident) Notice {
	if len(over) == 1 {
		n := recoveryOf(over[0])
		n.Key = key
		return n
	}
	title := counted(len(over), "more incident") + " over"
	return Notice{Key: key, Severity: protocol.Info, Title: title, Text: listed(over, summaryLine), Spoken: title, Quiet: true, Over: true}
}

// sentenceOf returns "7 more incidents: A; B; C; and 4 others.", or a single incident's own sentence.
func sentenceOf(list []Incident) string {
	if len(list) == 1 {
		return noticeOf(list[0]).Spoken
	}
	var names []string
	for _, i := range list[:min(len(list), namesInSentence)] {
		names = append(names, i.Summary)
	}
	switch rest := len(list) - len(names); {
	case rest == 1:
		names = append(names, "and one other")
	case rest > 1:
		names = append(names, fmt.Sprintf("and %d others", rest))
	}
	return fmt.Sprintf("%s: %s.", counted(len(list), "more incident"), strings.Join(names, "; "))
}

// listed lists incidents, a line each.
func listed(list []Incident, line func(Incident) string) string {
	var lines []string
	for _, i := range list[:min(len(list), linesInSummary)] {
		lines = append(lines, line(i))
	}
	if rest := len(list) - len(lines); rest > 0 {
		lines = append(lines, fmt.Sprintf("… and %d more: steward incidents", rest))
	}
	return strings.Join(lines, "\n")
}

func summaryLine(i Incident) string {
	return fmt.Sprintf("%s: %s (%s)", i.Severity, titled(i.Project, i.Summary), i.Handle())
}

func bySeverity(list []Incident) []Incident {
	return slices.SortedStableFunc(slices.Values(list), func(a, b Incident) int { return b.Severity.Rank() - a.Severity.Rank() })
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
