package service

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// run runs a program and returns its combined output (stdout and stderr), trimmed.
type run func(ctx context.Context, argv ...string) (string, error)

// callTime limits one call of the manager's own tools. Starting a unit that cannot start takes as long as its limits.
const callTime = 3 * time.Minute

// Exec implements run with real programs. Its error contains the last lines that the program printed.
func Exec(ctx context.Context, argv ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.WaitDelay = time.Second
	raw, err := c.CombinedOutput()
	out := strings.TrimSpace(string(raw))
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("no answer within %s", callTime)
	}
	if err == nil {
		return out, nil
	}
	if out == "" {
		return out, fmt.Errorf("%s: %w", strings.Join(argv, " "), err)
	}
	return out, fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, lastLines(out, 3))
}

// lastLines joins the last n lines of a program's output into one line.
func lastLines(text string, n int) string {
	lines := strings.Split(text, "\n")
	return strings.Join(lines[max(0, len(lines)-n):], " / ")
}
