package desktop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/livhana/steward/platform/child"
	"github.com/livhana/steward/platform/text"
)

// errDeadline is the cause if a tool exceeded its own limit, not its caller's.
var errDeadline = errors.New("deadline passed")

// find returns the absolute path of a tool. It searches at each call, because tools may be installed later. It
// ignores a match in a relative PATH entry, because that depends on the current folder.
func find(tool string) (string, bool) {
	path, err := exec.LookPath(tool)
	return path, err == nil
}

// toolRun is one run of a desktop tool.
type toolRun struct {
	path   string // absolute
	args   []string
	env    []string // additional variables
	stdin  string
	limit  time.Duration // after this time its whole group is killed
	stdout io.Writer     // nil: discarded
}

// run starts the tool, waits until it has ended, and returns its run time. When run returns, no process of the tool's
// group is left (Linux; on other systems, processes that a tool left behind may still run).
func (t toolRun) run(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, t.limit, errDeadline)
	defer cancel()
	env := append(child.Environment("PULSE_SERVER", "PULSE_COOKIE", "PULSE_SINK", "PIPEWIRE_REMOTE", "PIPEWIRE_RUNTIME_DIR",
		"ALSA_CONFIG_PATH", "SPEECHD_ADDRESS"), t.env...)
	c := child.Child{Path: t.path, Args: t.args, Env: env, Stdin: strings.NewReader(t.stdin), Stdout: t.stdout, Sweep: true}
	ran, err := c.Run(ctx)
	if err == nil {
		return ran.Took, nil
	}
	name := filepath.Base(t.path)
	lines := strings.Split(strings.TrimSpace(ran.Said), "\n")
	if said := text.Line(lines[len(lines)-1], 200); said != "" {
		return ran.Took, fmt.Errorf("%s: %w (%s)", name, err, said)
	}
	return ran.Took, fmt.Errorf("%s: %w", name, err)
}
