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

// A button is bound to the revision of the incident that its popup shows: a press of an older one is refused.

// actionsOf are the buttons of a notice. Dangerous options are not among them.
func actionsOf(n escalate.Notice) []desktop.Action {
	var all []desktop.Action
	for _, o := range n.Options {
		all = append(all, desktop.Action{ID: strconv.Itoa(n.Rev) + " " + o.ID, Label: o.Label})
	}
	return all
}

// pressOf reads an action's id back.
func pressOf(id string) (rev int, option string, ok bool) {
	first, option, ok := strings.Cut(id, " ")
	rev, err := strconv.Atoi(first)
	return rev, option, ok && err == nil && rev > 0 && option != ""
}

// shownButtons is how many options a popup has room for as buttons.
const shownButtons = 3

// wordsOf is the text of a message: beside so many buttons it says how to answer without them.
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

// hearPopups takes what popups tell: presses are answers. What a restarted server has lost is shown again, and so is what
// an earlier run has left on the screen, because its buttons are dead.
func (a *channels) hearPopups(ctx context.Context) error {
	due := map[string]bool{} // popups to be shown anew, or taken away
	for _, key := range a.popups.Inherited() {
		due[key] = true
	}
	timer := time.NewTimer(inheritAfter)
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
				a.pressedPopup(ctx, e)
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

// repostEvery is how often a popup is offered to a server that may be on its way back; inheritAfter leaves the first looks
// at the projects the time to show what is over.
const (
	repostEvery  = 2 * time.Second
	inheritAfter = time.Second
)

// pressedPopup takes a press for an answer. What is refused is shown as it stands now.
func (a *channels) pressedPopup(ctx context.Context, e desktop.Event) {
	rev, option, ok := pressOf(e.Action)
	if ok && a.pressed(ctx, e.Key, escalate.Reply{Option: option, Rev: rev, Via: escalate.ViaPopup}) != nil {
		a.repost(ctx, e.Key)
	}
}

// repost shows the popup of an incident that is open and was shown before, and takes away one that speaks of nothing
// that is open; true when nothing is left to do.
func (a *channels) repost(ctx context.Context, key string) bool {
	ctx, cancel := context.WithTimeout(ctx, popupDeadline)
	defer cancel()
	n, stands := a.ledger.Standing(key)
	switch {
	case stands:
		n.Hushed = true // it was heard when it first came
		_, err := (&channelSet{popups: a.popups}).popup(ctx, n)
		if a.ledger.Shows(key) {
			return err == nil
		}
		// It was settled meanwhile, and what the dispatcher took away is back.
	case a.ledger.Shows(key):
		return true // a summary has no buttons; what is still to be told takes its popup's place by itself
	}
	return a.popups.Withdraw(ctx, key) == nil
}
