package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/join/keep"
	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/status/terminal"
	"github.com/livhana/steward/supervisor"
	"github.com/spf13/cobra"
)

// logsOptions are the flags of logs.
type logsOptions struct {
	project string
	lines   int
	follow  bool
}

func newLogsCommand(a *cli.App) *cobra.Command {
	var o logsOptions
	c := &cobra.Command{
		Use:   "logs AGENT",
		Short: "Print the output of an agent that steward started",
		Long: "logs prints the last lines that an agent of an [[agent]] row wrote to its two outputs. It works without a daemon, and for an\n" +
			"agent that has ended, too. What steward exec runs writes to the terminal where exec was started, and has no log. On a\n" +
			"terminal control characters are shown as \"?\". The journal of steward itself is steward log.",
		Example: "  steward logs codex-cursor\n  steward logs codex-cursor --lines 20 --follow",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: cli.CompleteNames(a, "agent"),
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case o.lines < 0:
				return cli.Usagef("logs: --lines %d: use 0 or more", o.lines)
			case o.follow && a.Output == "json":
				return cli.Usagef("logs: --follow prints text; leave out -o json")
			}
			return showLogs(c.Context(), a, args[0], o)
		},
	}
	c.Flags().BoolVarP(&o.follow, "follow", "f", false, "go on until interrupted")
	c.Flags().IntVarP(&o.lines, "lines", "n", 100, "print the last `N` lines first")
	c.Flags().StringVar(&o.project, "project", "", "the project's `DIR`, where agents of several projects have the name")
	return c
}

func showLogs(ctx context.Context, a *cli.App, agent string, o logsOptions) error {
	log, err := findLog(a, agent, o.project)
	if err != nil {
		return err
	}
	t := keep.Tail{Path: log.Path}
	defer t.Close()
	text, err := t.More()
	if err == nil && !t.Exists() {
		return terminal.Report(supervisor.ErrNoSubject, "logs %s: it has written no output yet; see whether it was started: steward status", agent)
	}
	if err != nil {
		return fmt.Errorf("logs %s: %w", agent, err)
	}
	lines := keep.LastLines(text, o.lines)
	if before, err := keep.TailOf(log.Path + ".1"); err == nil && len(lines) < o.lines {
		lines = append(keep.LastLines(before, o.lines-len(lines)), lines...)
	}
	if a.Output == "json" {
		return a.Print(map[string]any{"agent": log.Agent, "project": log.Project, "path": log.Path, "lines": lines})
	}
	if !o.follow {
		return writeLines(a, lines)
	}
	whole, begun := lines, []byte(nil)
	if len(text) > 0 && text[len(text)-1] != '\n' && len(lines) > 0 { // keep an incomplete last line for later
		whole, begun = lines[:len(lines)-1], text[bytes.LastIndexByte(text, '\n')+1:]
	}
	if err := writeLines(a, whole); err != nil {
		return err
	}
	return followLog(ctx, a, &t, begun)
}

// findLog finds the log of an agent that steward started.
func findLog(a *cli.App, agent, project string) (log keep.Log, err error) {
	if project != "" {
		if project, err = cli.ProjectDir("logs", project); err != nil {
			return log, err
		}
	}
	paths, err := a.Reach()
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
func writeLines(a *cli.App, lines []string) error {
	var b strings.Builder
	for _, line := range lines {
		if terminal.IsTerminal(a.Out) {
			line = terminal.Harmless(line)
		}
		b.WriteString(line + "\n")
	}
	return a.Write(b.String())
}

// followEvery is the interval at which logs --follow polls for new output.
const followEvery = 200 * time.Millisecond

// followLog prints whole lines as they come, after the beginning of one, until the command is interrupted.
func followLog(ctx context.Context, a *cli.App, t *keep.Tail, begun []byte) error {
	for cli.Sleep(ctx, followEvery) == nil {
		text, err := t.More()
		if err != nil {
			return fmt.Errorf("follow the output: %w", err)
		}
		text = append(begun, text...)
		end := bytes.LastIndexByte(text, '\n') + 1
		begun = bytes.Clone(text[end:])
		if err := writeLines(a, keep.LastLines(text[:end], len(text))); err != nil {
			return err
		}
	}
	return writeLines(a, keep.LastLines(begun, 1))
}
