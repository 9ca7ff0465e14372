package words

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
)

// repairLabels say what an option does that orders one change, or several of a kind.
var repairLabels = []struct {
	verb      protocol.Verb
	ends      bool // it ends processes
	one, many string
}{
	{protocol.VerbRequeue, false, "Put it back", "Put %d tasks back"},
	{protocol.VerbConclude, false, "Mark it as failed", "Mark the %d tasks as failed"},
	{protocol.VerbConclude, true, "End its session and mark it as failed", "End the sessions of %d tasks and mark them as failed"},
	{protocol.VerbRetry, false, "Run it again", "Run the %d tasks again"},
	{protocol.VerbUnlock, false, "Release the lock", "Release the %d locks"},
	{protocol.VerbMark, false, "Correct its recorded status", "Correct %d recorded statuses"},
	{protocol.VerbFile, false, "Clear what is left of it", "Clear what is left of %d tasks"},
	{protocol.VerbBury, false, "Close it as failed", "Close the %d tasks as failed"},
	{protocol.VerbCancel, false, "Cancel its retry", "Cancel the retries of %d tasks"},
	{protocol.VerbReap, true, "End the process left", "End the %d processes left"},
}

// repairLabel is the label of the option that orders changes: of those that end processes, or of the others; "" for none.
func repairLabel(list []protocol.Change, ends bool) string {
	var parts []string
	for _, l := range repairLabels {
		n := 0
		for _, c := range list {
			switch {
			case c.Verb != l.verb || l.ends != ends || (len(c.Processes) > 0) != ends:
			case c.Verb == protocol.VerbReap:
				n += len(c.Processes)
			default:
				n++
			}
		}
		text := l.one
		if n > 1 {
			text = fmt.Sprintf(l.many, n)
		}
		if len(parts) > 0 {
			text = strings.ToLower(text[:1]) + text[1:]
		}
		if n > 0 {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, ", ")
}

// repairFacts lists the subjects of changes, or each with its reason on a line of its own.
func repairFacts(list []protocol.Change, fact string, now time.Time) string {
	var subjects, lines []string
	for _, c := range list {
		if !slices.Contains(subjects, c.Subject.ID) {
			subjects = append(subjects, c.Subject.ID)
		}
		lines = append(lines, c.Subject.ID+": "+Sentence(c.Cause, now))
	}
	if fact == "subjects" {
		return strings.Join(subjects, ", ")
	}
	return strings.Join(lines, "\n")
}

// Said is the sentence that is spoken of a task: its progress, or its result.
func Said(n *rules.Notice, now time.Time) string {
	clean := *n
	clean.Title, clean.Text = FileNames(cleanText(n.Title, summaryLimit)), FileNames(cleanText(n.Text, 2*summaryLimit))
	return fill(template(n.Phrase, ""), noticeFacts(&clean, "", now))
}
