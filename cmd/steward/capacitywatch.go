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

// Terminal escape sequences: switch to the alternate screen, hide the cursor and truncate long lines; undo all three;
// move to the top left corner; and clear the rest of the screen.
const (
	lendScreen = "\x1b[?1049h\x1b[?25l\x1b[?7l"
	giveScreen = "\x1b[?7h\x1b[?25h\x1b[?1049l"
	toCorner   = "\x1b[H"
	clearBelow = "\x1b[J"
)

// watch shows the capacity every second: on a terminal it redraws one screen, otherwise it prints block after block. On a
// terminal the last picture remains after the end.
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

// live draws the capacity and its last minute until the context ends, and returns the last drawing.
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

// live redraws the terminal's alternate screen at the given interval until the context ends. draw returns the text that
// stays on the terminal after the end, and the text to show now; live returns the last text that stays.
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

// usualHeight is assumed for a terminal that does not report its height.
const usualHeight = 24

func (a *app) height() int {
	if n, err := strconv.Atoi(os.Getenv("LINES")); err == nil && n > 0 {
		return n
	}
	f, _ := a.out.(*os.File)
	return cmp.Or(terminal.ScreenHeight(f), usualHeight)
}

// clip truncates text to the screen's rows, and clears the rest of each line in case the previous one was longer.
func clip(text string, rows int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if over := len(lines) - rows; over > 0 && rows > 1 {
		lines = append(lines[:rows-1], fmt.Sprintf("… %d more lines", over+1))
	}
	return strings.Join(lines, "\x1b[K\n") + "\x1b[K"
}

// history holds the used shares of the last minute per dimension.
type history map[string][]protocol.Share

// minuteOf is the number of readings kept.
const minuteOf = 60

func (h history) add(c status.Capacity) {
	for _, d := range capacity.Dimensions() {
		list := append(h[d], views.ShareOf(c, d))
		h[d] = list[max(0, len(list)-minuteOf):]
	}
}

// levels are the characters that draw a share in eighths.
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

// endings are further signals that end a program: live restores the terminal's screen before the program exits.
var endings = []os.Signal{syscall.SIGHUP, syscall.SIGQUIT}

// pauses are the signals with which a terminal suspends a program (Ctrl-Z).
var pauses = []os.Signal{syscall.SIGTSTP}

// pauseSelf stops this process until SIGCONT resumes it.
func pauseSelf() { _ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) }
