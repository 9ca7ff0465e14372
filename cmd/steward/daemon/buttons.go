package daemon

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/platform/desktop"
)

// A button is bound to the revision of the incident that its popup shows. A press on an older revision is rejected.

// actionsOf returns the buttons of a notice. Dangerous options get no button.
func actionsOf(n escalate.Notice) []desktop.Action {
	var all []desktop.Action
	for _, o := range n.Options {
		all = append(all, desktop.Action{ID: strconv.Itoa(n.Rev) + " " + o.ID, Label: o.Label})
	}
	return all
}

// pressOf parses an action's id.
func pressOf(id string) (rev int, option string, ok bool) {
	first, option, ok := strings.Cut(id, " ")
	rev, err := strconv.Atoi(first)
	return rev, option, ok && err == nil && rev > 0 && option != ""
}

// shownButtons is the number of options that a popup can show as buttons.
const shownButtons = 3

// wordsOf returns the text of a message with that many buttons: it adds the options without a button and the command to
// answer by.
func wordsOf(n escalate.Notice, buttons int) string {
	if len(n.Options)+len(n.Dangerous) == 0 || n.Handle == "" { // a test, or a summary
		return n.Text
	}
	text := n.Text
	for _, o := range n.Options[min(len(n.Options), buttons):] {
		text += fmt.Sprintf("\n%s: %s", o.ID, o.Label)
	}
	for _, o := range n.Dangerous {
		text += fmt.Sprintf("\n%s: %s (by command only)", o.ID, o.Label)
	}
	or := "or in a terminal"
	if buttons == 0 || len(n.Options) == 0 {
		or = "Answer"
	}
	return strings.TrimSpace(text + "\n" + or + ": steward answer " + n.Handle + " OPTION")
}
