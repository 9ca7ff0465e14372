package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/status/terminal"

	"github.com/spf13/cobra"

	"github.com/livhana/steward/join/keep"
	"github.com/livhana/steward/supervisor"
)

// logsOptions are the flags of logs.
type logsOptions struct {
	project string
	lines   int
	follow  bool
}

func (a *app) logsCommand() *cobra.Command {
	var o logsOptions
	c := &cobra.Command{
		Use:   "logs AGENT",
		Short: "Print the output of an agent that steward started",
		Long: "logs prints the last lines that an agent of an [[agent]] row wrote to its two outputs. It works without a daemon, and for an\n" +
			"agent that has ended, too. What steward exec runs writes to the terminal where exec was started, and has no log. On a\n" +
			"terminal control characters are shown as \"?\". The journal of steward itself is steward log.",
		Example: "  steward logs codex-cursor\n  steward logs codex-cursor --lines 20 --follow",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: a.completeNames("agent"),
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case o.lines < 0:
				return usageError{fmt.Errorf("logs: --lines %d: use 0 or more", o.lines)}
			case o.follow && a.output == "json":
				return usageError{errors.New("logs: --follow prints text; leave out -o json")}
			}
			return a.logs(c.Context(), args[0], o)
		},
	}
	c.Flags().BoolVarP(&o.follow, "follow", "f", false, "go on until interrupted")
	c.Flags().IntVarP(&o.lines, "lines", "n", 100, "print the last `N` lines first")
	c.Flags().StringVar(&o.project, "project", "", "the project's `DIR`, where agents of several projects have the name")
	return c
}

func (a *app) logs(ctx context.Context, agent string, o logsOptions) error {
	log, err := a.findLog(agent, o.project)
	if err != nil {
		return err
	}
	t := tail{path: log.Path}
	defer t.close()
	text, err := t.more()
	if err == nil && t.file == nil {
		return terminal.Report(supervisor.ErrNoSubject, "logs %s: it has written no output yet; see whether it was started: steward status", agent)
	}
	if err != nil {
		return fmt.Errorf("logs %s: %w", agent, err)
	}
	lines := lastLines(text, o.lines)
	if before, err := tailOf(log.Path + ".1"); err == nil && len(lines) < o.lines {
		lines = append(lastLines(before, o.lines-len(lines)), lines...)
	}
	if a.output == "json" {
		return a.print(map[string]any{"agent": log.Agent, "project": log.Project, "path": log.Path, "lines": lines})
	}
	if !o.follow {
		return a.writeLines(lines)
	}
	whole := lines
	if len(text) > 0 && text[len(text)-1] != '\n' && len(lines) > 0 { // keep an incomplete last line for later
		whole, t.begun = lines[:len(lines)-1], text[bytes.LastIndexByte(text, '\n')+1:]
	}
	if err := a.writeLines(whole); err != nil {
		return err
	}
	return a.followLog(ctx, &t)
}

// findLog finds the log of an agent that steward started.
func (a *app) findLog(agent, project string) (log keep.Log, err error) {
	if project != "" {
		if project, err = projectDir("logs", project); err != nil {
			return log, err
		}
	}
	paths, err := a.reach()
	if err != nil {
		return log, err
	}
	all, err := keep.Logs(paths.State)
	if err != nil {
		return log, fmt.Errorf("logs %s: %w", agent, err)
	}
	found := slices.DeleteFunc(slices.Clone(all), func(l keep.Log) bool {
		return l.Agent != agent || project != "" && !platform.SameFolder(l.Dir, project)
	})
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		next := "add an [[agent]] row and run: steward reload"
		if len(all) > 0 {
			next = "there are logs of: " + logNames(all, func(l keep.Log) string { return l.Agent + " (" + l.Dir + ")" })
		}
		return log, terminal.Report(supervisor.ErrNoSubject, "logs %s: steward has not started it from an [[agent]] row, so it has no output of it; %s", agent, next)
	}
	return log, terminal.Report(supervisor.ErrRefused, "logs %s: agents of %d projects have this name; add --project with one of: %s", agent, len(found),
		logNames(found, func(l keep.Log) string { return l.Dir }))
}

func logNames(logs []keep.Log, name func(keep.Log) string) string {
	var names []string
	for _, l := range logs {
		names = append(names, name(l))
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}

// writeLines prints lines of an agent's output. For a terminal it removes control sequences.
func (a *app) writeLines(lines []string) error {
	var b strings.Builder
	for _, line := range lines {
		if terminal.IsTerminal(a.out) {
			line = terminal.Harmless(line)
		}
		b.WriteString(line + "\n")
	}
	return a.write(b.String())
}

// followEvery is the interval at which logs --follow polls for new output.
const followEvery = 200 * time.Millisecond

// followLog prints whole lines as they come, until the command is interrupted.
func (a *app) followLog(ctx context.Context, t *tail) error {
	for rest(ctx, followEvery) == nil {
		text, err := t.more()
		if err != nil {
			return fmt.Errorf("follow the output: %w", err)
		}
		text = append(t.begun, text...)
		end := bytes.LastIndexByte(text, '\n') + 1
		t.begun = bytes.Clone(text[end:])
		if err := a.writeLines(lastLines(text[:end], len(text))); err != nil {
			return err
		}
	}
	return a.writeLines(lastLines(t.begun, 1))
}

// mostTail bounds one read of a log: the keeper truncates the log at about this size.
const mostTail = 10 << 20

// tail reads the data appended to a log. It reads a truncated or replaced log from the beginning.
type tail struct {
	path  string
	file  *os.File
	at    int64
	begun []byte // an incomplete last line
}

// more returns the data appended since the last call, at most its last 10 MiB.
func (t *tail) more() ([]byte, error) {
	now, err := os.Stat(t.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // the agent's next start recreates the log
	}
	if err != nil {
		return nil, err
	}
	if t.file != nil {
		if mine, err := t.file.Stat(); err != nil || !os.SameFile(mine, now) {
			t.close()
		}
	}
	if t.file == nil {
		if t.file, err = os.Open(t.path); err != nil {
			return nil, err
		}
		t.at = 0
	}
	if now.Size() < t.at {
		t.at = 0
	}
	t.at = max(t.at, now.Size()-mostTail)
	text, err := io.ReadAll(io.NewSectionReader(t.file, t.at, now.Size()-t.at))
	t.at += int64(len(text))
	return text, err
}

func (t *tail) close() {
	if t.file != nil {
		t.file.Close()
		t.file = nil
	}
}

// tailOf reads the end of a file.
func tailOf(path string) ([]byte, error) {
	t := tail{path: path}
	defer t.close()
	return t.more()
}

// lastLines returns the last n lines of a text.
func lastLines(text []byte, n int) []string {
	if len(text) == 0 {
		return []string{}
	}
	lines := strings.Split(string(bytes.TrimSuffix(text, []byte("\n"))), "\n")
	return lines[max(0, len(lines)-n):]
}
