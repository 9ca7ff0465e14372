package terminal

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Terminal escape sequences: switch to the alternate screen, hide the cursor and truncate long lines; undo all three;
// move to the top left corner; and clear the rest of the screen.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l\x1b[?7l"
	leaveScreen = "\x1b[?7h\x1b[?25h\x1b[?1049l"
	toCorner    = "\x1b[H"
	clearBelow  = "\x1b[J"
)

// Live redraws the terminal's alternate screen at the given interval until the context ends. draw returns the text that
// stays on the terminal after the end, and the text to show now; live returns the last text that stays.
func Live(ctx context.Context, out io.Writer, every time.Duration, now func() time.Time, draw func(context.Context) (stays, shown string, err error)) (last string, err error) {
	_, _ = io.WriteString(out, enterScreen)
	defer func() { _, _ = io.WriteString(out, leaveScreen) }()
	// These signals end a program as an interrupt does: restore the screen before the program exits.
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP, syscall.SIGQUIT, os.Interrupt)
	defer stop()
	paused := make(chan os.Signal, 1)
	signal.Notify(paused, syscall.SIGTSTP) // Ctrl-Z
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
		shown += fmt.Sprintf("\n%s  every %s; Ctrl-C ends\n", now().Format(time.TimeOnly), Short(every))
		if _, err := io.WriteString(out, toCorner+clip(shown, height(out))+clearBelow); err != nil {
			return last, fmt.Errorf("write the output: %w", err)
		}
		select {
		case <-ctx.Done():
			return last, nil
		case <-paused:
			_, _ = io.WriteString(out, leaveScreen)
			_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) // until SIGCONT resumes it
			_, _ = io.WriteString(out, enterScreen)
		case <-time.After(every):
		}
	}
}

// usualHeight is assumed for a terminal that does not report its height.
const usualHeight = 24

func height(out io.Writer) int {
	if n, err := strconv.Atoi(os.Getenv("LINES")); err == nil && n > 0 {
		return n
	}
	f, _ := out.(*os.File)
	return cmp.Or(ScreenHeight(f), usualHeight)
}

// clip truncates text to the screen's rows, and clears the rest of each line in case the previous one was longer.
func clip(text string, rows int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if over := len(lines) - rows; over > 0 && rows > 1 {
		lines = append(lines[:rows-1], fmt.Sprintf("… %d more lines", over+1))
	}
	return strings.Join(lines, "\x1b[K\n") + "\x1b[K"
}
