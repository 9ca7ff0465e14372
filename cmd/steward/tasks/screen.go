package tasks

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/join/task"
	"github.com/livhana/steward/protocol/agentstatus"
	"github.com/livhana/steward/status/terminal"
)

// waitScreen shows the progress of a wait: one redrawn line on a terminal, otherwise separate lines. Both go to standard
// error, so that standard output has only the result.
type waitScreen struct {
	out     io.Writer
	width   int // 0: no terminal
	color   bool
	drawn   bool
	started time.Time
}

func newWaitScreen(a *cli.App) *waitScreen {
	s := &waitScreen{out: a.Err, started: time.Now()}
	if f, ok := a.Err.(*os.File); ok && os.Getenv("TERM") != "dumb" {
		s.width = terminal.ScreenWidth(f)
		s.color = !a.NoColor && os.Getenv("NO_COLOR") == ""
	}
	return s
}

func (s *waitScreen) show(n task.News) {
	if n.Text != "" && (s.width == 0 || !n.Progress) {
		s.end()
		if n.Warning {
			n.Text = "steward: warning: " + n.Text
		}
		fmt.Fprintln(s.out, n.Text)
	}
	if s.width == 0 || n.Detail.State == agentstatus.StateEnded {
		return
	}
	// The last column stays free: some terminals wrap to the next line after it.
	text := task.Bar(n.Detail, s.started, n.Now, s.width-1)
	if s.color {
		text = "\x1b[" + string(terminal.Green) + "m" + text + "\x1b[0m"
	}
	fmt.Fprint(s.out, clearLine+text)
	s.drawn = true
}

// clearLine moves to the beginning of the line and clears it.
const clearLine = "\r\x1b[K"

// end clears the bar.
func (s *waitScreen) end() {
	if s.drawn {
		fmt.Fprint(s.out, clearLine)
		s.drawn = false
	}
}
