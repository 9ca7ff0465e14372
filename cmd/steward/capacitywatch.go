package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/livhana/steward/status/terminal"
	"github.com/livhana/steward/status/views"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status"
)

// What a terminal is told: to lend its second screen, hide the cursor and cut long lines, to give all that back, to draw from the corner, and
// to clear what is below.
const (
	lendScreen = "\x1b[?1049h\x1b[?25l\x1b[?7l"
	giveScreen = "\x1b[?7h\x1b[?25h\x1b[?1049l"
	toCorner   = "\x1b[H"
	clearBelow = "\x1b[J"
)

// watch shows the capacity every second: on one screen of a terminal, else as blocks one after the other. On a terminal
// the last picture stays behind.
func (m *capacityView) watch(ctx context.Context) error {
	if m.app.output == "json" || !terminal.IsTerminal(m.app.out) {
		return m.stream(ctx)
	}
	last, err := m.live(ctx)
	if err == nil {
		err = m.app.write(last)
	}
	return err
}

// stream prints one document after the other.
func (m *capacityView) stream(ctx context.Context) error {
	for first := true; ; first = false {
		raw, err := m.read(ctx)
		if err == nil {
			if !first && m.app.output != "json" {
				_ = m.app.write("\n")
			}
			err = present(m.app, raw, views.Capacity)
		}
		if err == nil {
			err = rest(ctx, time.Second)
		}
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// live draws the capacity and its last minute until the context ends, and gives what it drew last.
func (m *capacityView) live(ctx context.Context) (last string, err error) {
	past := history{}
	return m.app.live(ctx, time.Second, func(ctx context.Context) (string, string, error) {
		raw, err := m.read(ctx)
		if err != nil {
			return "", "", err
		}
		var doc status.Capacity
		if err := json.Unmarshal(raw, &doc); err != nil {
			return "", "", fmt.Errorf("read steward's answer: %w", err)
		}
		past.add(doc)
		p := m.app.page()
		views.Capacity(p, doc)
		last := p.String()
		drawHistory(p, past)
		return last, p.String(), nil
	})
}

// live draws on the terminal's second screen, as often as said, until the context ends. draw gives what is to stay on the
// terminal in the end, and what is shown now; live gives the last of the former.
func (a *app) live(ctx context.Context, every time.Duration, draw func(context.Context) (stays, shown string, err error)) (last string, err error) {
	_ = a.write(lendScreen)
	defer func() { _ = a.write(giveScreen) }()
	ctx, stop := signal.NotifyContext(ctx, append(endings, os.Interrupt)...)
	defer stop()
	paused := make(chan os.Signal, 1)
	signal.Notify(paused, pauses...)
	defer signal.Stop(paused)
	for {
		stays, shown, err := draw(ctx)
		if ctx.Err() != nil {
			return last, nil
		}
		if err != nil {
			return last, err
		}
		last = stays
		shown += fmt.Sprintf("\n%s  every %s; Ctrl-C ends\n", a.page().Now.Format(time.TimeOnly), terminal.Short(every))
		if err := a.write(toCorner + clip(shown, a.height()) + clearBelow); err != nil {
			return last, err
		}
		select {
		case <-ctx.Done():
			return last, nil
		case <-paused:
			_ = a.write(giveScreen)
			pauseSelf()
			_ = a.write(lendScreen)
		case <-time.After(every):
		}
	}
}

// usualHeight is assumed of a terminal that does not say how high it is.
const usualHeight = 24

func (a *app) height() int {
	if n, err := strconv.Atoi(os.Getenv("LINES")); err == nil && n > 0 {
		return n
	}
	f, _ := a.out.(*os.File)
	return cmp.Or(terminal.ScreenHeight(f), usualHeight)
}

// clip keeps what fits on a screen, and clears the rest of each line that was longer before.
func clip(text string, rows int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if over := len(lines) - rows; over > 0 && rows > 1 {
		lines = append(lines[:rows-1], fmt.Sprintf("… %d more lines", over+1))
	}
	return strings.Join(lines, "\x1b[K\n") + "\x1b[K"
}

// history holds the used shares of the last minute per dimension.
type history map[string][]protocol.Share

// minuteOf is how many readings are kept.
const minuteOf = 60

func (h history) add(c status.Capacity) {
	for _, d := range capacity.Dimensions() {
		list := append(h[d], views.ShareOf(c, d))
		h[d] = list[max(0, len(list)-minuteOf):]
	}
}

// levels draw a share in eighths.
var levels = []rune("▁▂▃▄▅▆▇█")

func drawHistory(p *terminal.Page, h history) {
	var rows [][]terminal.Cell
	for _, d := range capacity.Dimensions() {
		var line strings.Builder
		for _, s := range h[d] {
			v, known := s.Value()
			if !known {
				line.WriteByte(' ')
				continue
			}
			line.WriteRune(levels[min(int(v*float64(len(levels))), len(levels)-1)])
		}
		rows = append(rows, []terminal.Cell{terminal.Text(d), terminal.Text(line.String())})
	}
	views.Section(p, "The last minute", "", rows)
}

// endings are the signals besides interrupt and termination that end a program: a borrowed screen is given back before.
var endings = []os.Signal{syscall.SIGHUP, syscall.SIGQUIT}

// pauses is the signal by which a terminal pauses a program (Ctrl-Z).
var pauses = []os.Signal{syscall.SIGTSTP}

// pauseSelf stops this process until SIGCONT resumes it.
func pauseSelf() { _ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) }
