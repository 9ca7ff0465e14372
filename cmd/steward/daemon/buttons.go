package daemon

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

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

// hearPopups handles the popups' events: a press is an answer. It shows popups again that a restarted notification
// server lost, and those of an earlier run, because their buttons no longer work.
// See docs/decisions.md, "Open popups are shown again after a restart".
func (a *channels) hearPopups(ctx context.Context) error {
	due := map[string]bool{} // popups to show again or to withdraw
	for _, key := range escalate.Popups(a.ledger.List()) {
		due[key] = true
	}
	timer := time.NewTimer(showAgainAfter)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, ok := <-a.popups.Events():
			if !ok {
				<-ctx.Done()
				return nil
			}
			switch e.Kind {
			case desktop.Pressed:
				// A rejected press: show the popup again in its present state.
				if rev, option, ok := pressOf(e.Action); ok && a.pressed(ctx, e.Key, escalate.Reply{Option: option, Rev: rev, Via: escalate.ViaPopup}) != nil {
					a.repost(ctx, e.Key)
				}
			case desktop.Lost:
				due[e.Key] = true
				timer.Reset(repostEvery)
			}
		case <-timer.C:
			for key := range due {
				if a.repost(ctx, key) {
					delete(due, key)
				}
			}
			if len(due) > 0 {
				timer.Reset(repostEvery)
			}
		}
	}
}

// repostEvery is the interval at which a popup is offered again to a server that may be restarting. showAgainAfter
// leaves the first scans of the projects time to resolve incidents that are over.
const (
	repostEvery    = 2 * time.Second
	showAgainAfter = time.Second
)

// repost shows the popup of an open incident again if it was shown before, and withdraws a popup that belongs to no
// open incident. It returns true when nothing is left to do.
func (a *channels) repost(ctx context.Context, key string) bool {
	ctx, cancel := context.WithTimeout(ctx, popupDeadline)
	defer cancel()
	n, stands := a.ledger.Standing(key)
	switch {
	case stands:
		n.Hushed = true // it made its sound when it was first shown
		_, err := (&channelSet{popups: a.popups}).popup(ctx, n)
		if a.ledger.Shows(key) {
			return err == nil
		}
		// The incident was settled in the meantime, and the popup is back after the dispatcher withdrew it: withdraw it
		// again.
	case a.ledger.Shows(key):
		return true // a summary has no buttons; a delivery that is still due replaces its popup itself
	}
	return a.popups.Withdraw(ctx, key) == nil
}
