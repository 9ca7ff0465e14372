package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/status/terminal"

	"github.com/spf13/cobra"

	"github.com/livhana/steward/join/task"
	"github.com/livhana/steward/platform/watch"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/agentstatus"
	"github.com/livhana/steward/status"
)

func (a *app) taskWaitCommand() *cobra.Command {
	var project string
	var limit time.Duration
	c := &cobra.Command{
		Use:   "wait TASK",
		Short: "Wait for a task's end, show its progress, exit with its exit code",
		Long: "wait follows one task to its end: a progress bar on a terminal, a line for each change elsewhere. The beginning of the id\n" +
			"is enough. A failure that steward retries is not the end.\n\n" +
			"It exits with 0 when the task is completed, with the command's own exit code when it failed with one, with 124 for a\n" +
			"timeout, with 130 when it was cancelled, else with 1. With -o json it prints the result document. A task that comes\n" +
			"after one that failed for good is waited for no longer; the exit code is then that one's.\n\n" +
			"Each run is waited for as long as the task's own timeout says, and 10 s more; time in which the task is held, or\n" +
			"waits for its next run, does not count. --timeout bounds the whole wait instead. When the wait is over (124), or is\n" +
			"interrupted (130), the task goes on. An agent that says in its heartbeat that it is in error ends the wait with 1.",
		Example: "  steward task wait 7c0e\n  steward task wait 7c0e --timeout 10m -o json",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: a.completeNames("task"),
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("timeout") && limit <= 0 {
				return usageError{fmt.Errorf("wait for task %s: --timeout %s: use a time such as 10m", terminal.OneWord(args[0]), limit)}
			}
			d, detail, err := a.findDesk(c.Context(), project, args[0], "wait for task "+args[0])
			if err != nil {
				return err
			}
			defer d.close()
			return a.await(c.Context(), d, detail.ID, limit)
		},
	}
	projectFlag(c, &project)
	c.Flags().DurationVar(&limit, "timeout", 0, "wait no longer than this `DURATION` (default: as the task's own timeout says)")
	return c
}

// await waits for a task's end and prints the result. Its error sets the exit code.
func (a *app) await(ctx context.Context, d *taskClient, id string, limit time.Duration) error {
	screen := a.waitScreen()
	detail, err := d.hinted(ctx, d.vigil(id, limit, screen.show))
	screen.end()
	var blocked *task.BlockedError
	var inError *task.AgentError
	switch {
	case errors.As(err, &inError):
		return fmt.Errorf("wait for task %s: %w; steward waits no longer, and the task stays as it is", terminal.Clean(id), inError)
	case errors.As(err, &blocked):
		text := fmt.Errorf("wait for task %s: %v; it stays held until: steward release %[1]s, or: steward task cancel %[1]s", terminal.Clean(id), err)
		return exiting{text, task.ExitCode(blocked.By), codeFailed}
	case errors.Is(err, context.Canceled):
		return interrupted("no longer waiting; task %s goes on", terminal.Clean(id))
	case errors.Is(err, task.ErrLimit):
		return outOfTime("wait for task %s: its time is over, and the task goes on (%s)", terminal.Clean(id), task.Standing(detail))
	case err != nil:
		return taskError(err, "wait for task "+id)
	}
	d.unfollow(ctx, detail)
	if err := a.tellResult(d, detail); err != nil {
		return err
	}
	if code := task.ExitCode(detail); code != 0 {
		return quiet{code}
	}
	return nil
}

func (d *taskClient) unfollow(ctx context.Context, detail agentstatus.Detail) {
	if r := detail.Request; r != nil && r.Source != "" {
		_ = d.client.Unfollow(ctx, r.Source, detail.ID, time.Now()) // the next submit cleans it up
	}
}

// tellResult prints a task's result.
func (a *app) tellResult(d *taskClient, detail agentstatus.Detail) error {
	if a.output == "json" {
		if detail.ResultRaw == nil { // cancelled before an agent claimed it
			return a.print(map[string]any{"task_id": detail.ID, "status": task.Standing(detail)})
		}
		return a.print(detail.ResultRaw)
	}
	p := a.page()
	for i, text := range task.Summary(detail, a.human(), d.shownProject()) {
		if look := terminal.Plain; i == 0 {
			if look = terminal.Green; !task.Succeeded(detail) {
				look = terminal.Red
			}
			text = p.Dye(text, look)
		}
		p.Full("%s", text)
	}
	return a.write(p.String())
}

// human is the name of the person asked for decisions.
func (a *app) human() string {
	cfg, _, err := a.settings()
	if err != nil || cfg.Human.Name == "" {
		return "a human"
	}
	return cfg.Human.Name
}

// lookEvery is the poll interval without hints: a poll costs a few stat calls, and the bar shows a running clock.
const lookEvery = time.Second

// vigil builds the waiter for a task.
func (d *taskClient) vigil(id string, limit time.Duration, say func(task.News)) *task.Waiter {
	w := &task.Waiter{Now: time.Now, Every: lookEvery, Limit: limit, Say: say, Trouble: d.trouble,
		Look: func(ctx context.Context) (agentstatus.Detail, error) { return d.task(ctx, id) }}
	w.Decided, w.Other = d.decided, d.task
	return w
}

// decided reports whether a failed task will not be retried. Without a daemon there are no retries.
func (d *taskClient) decided(ctx context.Context, detail agentstatus.Detail) bool {
	doc, project, supervised := d.picture(ctx)
	if !supervised {
		return true
	}
	for _, t := range doc.Tasks {
		if t.ID == detail.ID && t.Project == project && t.Protocol == agentstatus.Name {
			return t.State == protocol.TaskFailed || t.State == protocol.TaskDead || t.State == protocol.TaskDone
		}
	}
	return false
}

// trouble describes what prevents a task's agent from working on it; inError: the agent itself reports an error.
func (d *taskClient) trouble(ctx context.Context, detail agentstatus.Detail) (text string, inError bool) {
	if detail.Request == nil {
		return "", false
	}
	name := detail.Request.Target
	if doc, project, supervised := d.picture(ctx); supervised {
		return troubleSeen(doc, project, name)
	}
	return d.troubleInFiles(ctx, name)
}

func troubleSeen(doc status.Document, project, name string) (text string, inError bool) {
	for _, g := range doc.Agents {
		if g.Name != name || g.Project != project || g.Protocol != agentstatus.Name {
			continue
		}
		switch {
		case g.State == protocol.AgentDead, g.State == protocol.AgentHung:
			return fmt.Sprintf("%s is %s: %s", terminal.Clean(name), g.State, terminal.Clean(g.Why)), false
		case g.Status == "error":
			return terminal.Clean(name) + " says that it is in error" + described(g.Error), true
		}
		return "", false
	}
	return "", false
}

func described(text string) string {
	if text = terminal.Clean(text); text == "" {
		return ""
	}
	return ": " + text
}

// troubleInFiles judges the agent by its own heartbeat and the configured limits.
func (d *taskClient) troubleInFiles(ctx context.Context, name string) (text string, inError bool) {
	cfg, _, err := d.app.settings()
	if err != nil {
		return "", false
	}
	ad, _ := daemon.AdapterNamed(agentstatus.Name)
	speaker := ad.Open(d.dir, cfg, daemon.GuardLock)
	defer speaker.Close()
	now := time.Now()
	snap := speaker.Observe(ctx, protocol.Look{Now: now, Since: now})
	g, ok := snap.Agent(name)
	switch {
	case !ok || g.Beat.Mark == "":
		return terminal.Clean(name) + " has never shown a heartbeat here", false
	case g.Status == "error":
		return terminal.Clean(name) + " says that it is in error" + described(g.Complaint), true
	case g.Idle:
		return "", false
	}
	if silent := now.Sub(g.Beat.Last()); silent > cfg.Heartbeat.Dead && !(g.Process.Proves() && daemon.MayLive(g.Process)) {
		return fmt.Sprintf("%s has shown no heartbeat for %s", terminal.Clean(name), terminal.Short(silent)), false
	}
	return "", false
}

// waitScreen shows the progress of a wait: one redrawn line on a terminal, otherwise separate lines. Both go to standard
// error, so that standard output has only the result.
type waitScreen struct {
	out     io.Writer
	width   int // 0: no terminal
	color   bool
	drawn   bool
	started time.Time
}

func (a *app) waitScreen() *waitScreen {
	s := &waitScreen{out: a.err, started: time.Now()}
	if f, ok := a.err.(*os.File); ok && os.Getenv("TERM") != "dumb" {
		s.width = terminal.ScreenWidth(f)
		s.color = !a.noColor && os.Getenv("NO_COLOR") == ""
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

// hinted runs a wait with file hints for the task folder; without hints the wait only polls.
func (d *taskClient) hinted(ctx context.Context, w *task.Waiter) (agentstatus.Detail, error) {
	watcher, err := watch.New()
	if err != nil {
		return w.Run(ctx)
	}
	inner, stop := context.WithCancel(ctx)
	hints := make(chan struct{}, 1)
	var both sync.WaitGroup
	both.Go(func() { _ = watcher.Run(inner) })
	both.Go(func() { passOn(inner, watcher.Events(), hints) })
	defer func() { stop(); both.Wait() }()
	_, _ = watcher.Set("task", []string{filepath.Join(d.dir, agentstatus.Base, "codex_tasks")})
	w.Hints = hints
	return w.Run(ctx)
}

func passOn(ctx context.Context, events <-chan watch.Event, hints chan<- struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-events:
			select {
			case hints <- struct{}{}:
			default:
			}
		}
	}
}
