package main

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

// wordsOf is the text of a popup: beside the buttons it says how to answer without them, for they end with the popup
// and with this run.
func wordsOf(n escalate.Notice) string {
	if len(n.Options) == 0 {
		return n.Text
	}
	text := n.Text
	for _, o := range n.Options[min(len(n.Options), shownButtons):] {
		text += fmt.Sprintf("\n%s: %s", o.ID, o.Label)
	}
	return strings.TrimSpace(text + "\nOr: steward answer " + n.Key[:min(len(n.Key), 8)] + " OPTION")
}

// hearPopups takes what popups tell: presses are answers; what a restarted server has lost is shown again.
func (h *house) hearPopups(ctx context.Context) error {
	lost := map[string]bool{}
	timer := time.NewTimer(repostEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, ok := <-h.popups.Events():
			if !ok {
				<-ctx.Done()
				return nil
			}
			switch e.Kind {
			case desktop.Pressed:
				h.pressed(ctx, e)
			case desktop.Lost:
				lost[e.Key] = true
				timer.Reset(repostEvery)
			}
		case <-timer.C:
			for key := range lost {
				if h.repost(ctx, key) {
					delete(lost, key)
				}
			}
			if len(lost) > 0 {
				timer.Reset(repostEvery)
			}
		}
	}
}

// repostEvery is how often a popup is offered to a server that may be on its way back.
const repostEvery = 2 * time.Second

// pressed takes a press for an answer. What is refused is shown as it stands now.
func (h *house) pressed(ctx context.Context, e desktop.Event) {
	rev, option, ok := pressOf(e.Action)
	if !ok {
		return
	}
	_, err := h.answer(ctx, e.Key, escalate.Reply{Option: option, Rev: rev, Via: escalate.ViaPopup})
	if err == nil {
		return
	}
	h.log.Warn("a press was not taken", "key", e.Key, "option", option, "error", err)
	h.repost(ctx, e.Key)
}

// repost shows the popup of an incident that is open, and was shown before; true when nothing is left to do.
func (h *house) repost(ctx context.Context, key string) bool {
	n, stands := h.ledger.Standing(key)
	if !stands {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, popupDeadline)
	defer cancel()
	_, err := h.popup(ctx, n)
	return err == nil
}
