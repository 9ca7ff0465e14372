package desktop

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/livhana/steward/platform/text"
)

// banner shows popups with macOS tools: alerter (26 or later) if it is installed, else osascript. It is compiled on
// every Unix, so that its rules are tested on every Unix.
type banner struct {
	settle time.Duration // an alerter that still runs after this time is showing its popup
	out    *outbox
	alerts alerts
}

const (
	alerter   = "alerter"
	osascript = "osascript"
	macHint   = "put /usr/bin into PATH, or install alerter (brew install vjeantet/tap/alerter)"
	macRefuse = "allow notifications for the terminal or Script Editor in System Settings"
)

// notifyScript takes title and text as arguments. Text inserted into a script would be executed.
const notifyScript = `on run argv
	display notification (item 2 of argv) with title (item 1 of argv)
end run
`

// show is silent with both tools: they play a sound only on request.
func (b *banner) show(ctx context.Context, m Message) (Proof, error) {
	path, ok := find(osascript)
	if better, found := find(alerter); found {
		proof, err := b.alert(ctx, better, m)
		if err == nil || ctx.Err() != nil || !ok {
			return proof, err
		}
	}
	if !ok {
		return Proof{}, b.probe(ctx)
	}
	// After "-" (the script is on stdin) no argument is parsed as an option, not even a title that starts with "-".
	c := toolRun{path: path, args: []string{"-", m.Title, m.Text}, stdin: notifyScript, limit: answerTime}
	if _, err := c.run(ctx); err != nil {
		return Proof{}, hinted(err, macRefuse)
	}
	return Proof{Result: Sent, Detail: "osascript took the popup; macOS does not say whether it shows it"}, nil
}

// alert shows a popup that stays. alerter runs until its popup is closed, and removes the popup when it is asked to
// stop. If it is killed, the popup stays with the system. That is intended: only a popup with buttons needs a child
// that waits for hours. If alerter ends at once, its popup was closed before the user could have read it.
func (b *banner) alert(ctx context.Context, path string, m Message) (Proof, error) {
	args := []string{"--group=" + groupOf(m.Key), "--title=" + m.Title} // with "=", a title is never parsed as an option
	text := m.Text
	if text == "" {
		text = m.Title // without text alerter shows nothing
	}
	b.alerts.drop(m.Key)
	c := toolRun{path: path, args: args, stdin: text, limit: b.settle}
	if list, ids := labels(m.Actions); len(list) > 0 {
		c.args = append(c.args, "--actions="+strings.Join(list, ","))
		return b.ask(ctx, c, m, ids)
	}
	took, err := c.run(ctx)
	switch {
	case errors.Is(err, errDeadline):
		return Proof{Result: Shown, Detail: "alerter has it on the screen", ID: groupOf(m.Key)}, nil
	case err != nil:
		return Proof{}, hinted(err, macRefuse)
	}
	return Proof{Result: Sent, Detail: fmt.Sprintf("alerter saw its popup closed after %.1f s", took.Seconds()), ID: groupOf(m.Key)}, nil
}

// groupOf returns the name by which alerter replaces and removes the popup of a key, also that of an earlier run.
func groupOf(key string) string { return "steward." + text.Line(key, keyLimit) }

// withdraw removes an alerter popup. osascript cannot remove popups.
func (b *banner) withdraw(ctx context.Context, key string) error {
	b.alerts.drop(key)
	path, ok := find(alerter)
	if !ok {
		return hinted(unavailable("osascript cannot take a popup back"), macHint)
	}
	c := toolRun{path: path, args: []string{"--remove=" + groupOf(key)}, limit: answerTime}
	_, err := c.run(ctx)
	return err
}

func (b *banner) probe(context.Context) error {
	for _, tool := range []string{alerter, osascript} {
		if _, ok := find(tool); ok {
			return nil
		}
	}
	return hinted(unavailable("neither alerter nor osascript in PATH"), macHint)
}
