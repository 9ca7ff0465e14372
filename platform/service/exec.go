package service

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// run calls a program and gives what it printed, output and errors in one, trimmed.
type run func(ctx context.Context, argv ...string) (string, error)

// callTime bounds one call of the manager's own tools. Starting a unit that cannot start takes as long as its limits.
const callTime = 3 * time.Minute

// Exec is run with real programs. Its error has the program's last words.
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

// lastLines makes one line of a program's last words.
func lastLines(text string, n int) string {
	lines := strings.Split(text, "\n")
	return strings.Join(lines[max(0, len(lines)-n):], " / ")
}
