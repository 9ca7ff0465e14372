// Package demo plays the test scenarios of protocol 000 with a real daemon.
package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/agentstatus"
	"github.com/livhana/steward/protocol/jsonfile"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/status/console"
	"github.com/livhana/steward/status/terminal"
	"github.com/livhana/steward/status/views"
	"github.com/spf13/cobra"
)

func NewCommand(a *cli.App, boot booter) *cobra.Command {
	var keep, quiet bool
	name := agentstatus.Name
	c := &cobra.Command{
		Use:     "demo",
		Short:   "Play a protocol's own example, live, in a scratch folder",
		Long:    "demo starts a real steward on a scratch folder, with two agents that speak the inter-agent protocol to each other: a task\nthat is done, one that waits for capacity, one that reports progress, and one that ends in a git conflict. It takes\nabout half a minute and leaves nothing behind.\n\nWith --protocol it plays the example of another protocol's document, with [[role]] rows whose commands are scripted agents.",
		Example: "  steward demo\n  steward demo --protocol handoffs --quiet",
		RunE: func(c *cobra.Command, _ []string) error {
			if err := known(name); err != nil {
				return err
			}
			dir, err := os.MkdirTemp("", "steward-demo-")
			if err != nil {
				return fmt.Errorf("make the scratch folder: %w", err)
			}
			if keep {
				fmt.Fprintf(a.Out, "The files stay in %s\n", dir)
			} else {
				defer os.RemoveAll(dir)
			}
			return play(a, c, dir, name, quiet, boot)
		},
	}
	c.Flags().StringVar(&name, "protocol", name, "the protocol's `NAME`: "+strings.Join(names(), ", "))
	c.Flags().BoolVar(&keep, "keep", false, "keep the scratch folder")
	c.Flags().BoolVar(&quiet, "quiet", false, "no popup and no voice: incidents are only listed")
	return c
}

// booter sets up a project for an agent, as steward boot does.
type booter func(c *cobra.Command, project, protocolName string, b protocol.Boot) error

// stage is a running demo: the scratch project, the daemon, and the shared output.
type stage struct {
	app    *cli.App
	dir    string
	socket string
	client *status.Client
	brief  bool // leave out what the daemon says about agents and logs
	mu     sync.Mutex
	start  time.Time
}

// say prints a line in the name of a participant.
func (s *stage) say(who, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	width := 8
	if s.brief {
		width = len("SECURITY_AUDITOR")
	}
	fmt.Fprintf(s.app.Out, "%5.1fs  %-*s %s\n", time.Since(s.start).Seconds(), width, who, fmt.Sprintf(format, args...))
}

func play(a *cli.App, c *cobra.Command, dir, name string, quiet bool, boot booter) error {
	// When the reader of the output is gone the demo ends, but it must still stop the daemon.
	ctx, alone := signal.NotifyContext(c.Context(), syscall.SIGPIPE)
	defer alone()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	s := &stage{app: a, dir: filepath.Join(dir, "project"), socket: filepath.Join(dir, "run", "steward.sock"), brief: name != agentstatus.Name, start: time.Now()}
	if err := os.Mkdir(s.dir, 0o755); err != nil {
		return err
	}
	s.client = status.NewClient(s.socket)
	file, err := s.configure(dir, name, quiet)
	if err != nil {
		return err
	}
	daemon, err := s.startDaemon(ctx, dir, file)
	if daemon != nil {
		defer daemon()
	}
	if err != nil {
		return err
	}
	if name != agentstatus.Name {
		return s.show(ctx, c, name, boot)
	}
	return s.scenarios(ctx, c, boot)
}

// scenarios plays protocol 000 with two agents in this process.
func (s *stage) scenarios(ctx context.Context, c *cobra.Command, boot booter) error {
	for _, agent := range []string{"livhana-layer1.1", "codex-cursor"} {
		if err := boot(c, s.dir, "", protocol.Boot{Agent: agent, PID: os.Getpid(), Now: time.Now()}); err != nil {
			return err
		}
	}
	root, err := jsonfile.Open(s.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	ctx, cancel := context.WithCancel(ctx)
	codex := &demoCodex{stage: s, root: root, free: 0.8}
	var agents sync.WaitGroup
	agents.Go(func() { codex.run(ctx) })
	defer agents.Wait()
	defer cancel()
	return s.play(ctx, &demoLivhana{stage: s, root: root}, codex)
}

// startDaemon runs this program as a daemon on the scratch project; stop ends it and waits.
func (s *stage) startDaemon(ctx context.Context, dir, config string) (stop func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "run", "--config", config, "--socket", s.socket)
	cmd.Env = append(os.Environ(), "STEWARD_STATE_DIR="+filepath.Join(dir, "state"))
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 5 * time.Second
	lines, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the daemon: %w", err)
	}
	var reader sync.WaitGroup
	reader.Go(func() { s.relay(lines) })
	return func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		w.Close()
		reader.Wait()
	}, s.awaitDaemon(ctx)
}

// relay prints the daemon's output in short form.
func (s *stage) relay(lines io.Reader) {
	scan := bufio.NewScanner(lines)
	for scan.Scan() {
		line := scan.Text()
		if s.brief && (strings.Contains(line, "verb=log") || strings.Contains(line, "msg=agent")) {
			continue
		}
		if strings.Contains(line, "level=INFO") && !strings.Contains(line, "msg=changed") && !strings.Contains(line, "msg=agent") {
			continue
		}
		if level, message, words, ok := console.ParseLine(line); ok && terminal.IsTerminal(s.app.Out) {
			line = console.Sentence(message, words)
			if level != "INFO" {
				line = console.LevelWord(level, s.app.Colors()) + " " + line
			}
		} else if _, rest, ok := strings.Cut(line, "msg="); ok {
			line = rest
		}
		s.say("steward", "%s", line)
	}
}

func (s *stage) awaitDaemon(ctx context.Context) error {
	for {
		var health map[string]any
		err := s.client.Get(ctx, "/v1/capacity", &health)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the daemon does not answer: %w", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// errMissed reports that a scenario did not end as the document specifies.
var errMissed = errors.New("the scenario did not end as expected")

// play runs the document's four scenarios (protocol 000, Testing Scenarios).
func (s *stage) play(ctx context.Context, l *demoLivhana, codex *demoCodex) error {
	for i, scene := range []struct {
		title string
		run   func(context.Context, *demoLivhana, *demoCodex) error
	}{
		{"Simple task execution: livhana asks codex to run the preflight checks", s.simple},
		{"Capacity throttle: codex is 85 % full, the task allows 80 %", s.throttle},
		{"Progressive updates: a deployment reports how far it is", s.progress},
		{"Error escalation: a git conflict needs Jesse", s.escalation},
	} {
		s.say("", "— Test %d. %s", i+1, scene.title)
		if err := scene.run(ctx, l, codex); err != nil {
			return fmt.Errorf("test %d: %w", i+1, err)
		}
	}
	s.say("", "— All four scenarios ended as the document says. This is what `steward status` showed at the end:")
	var page map[string]any
	if err := s.client.Get(ctx, "/v1/status", &page); err != nil {
		return err
	}
	return printStatus(ctx, s.app, s.socket)
}

func (s *stage) simple(ctx context.Context, l *demoLivhana, _ *demoCodex) error {
	id := l.submit("execute", map[string]any{"script_path": "scripts/START.sh", "args": []string{"preflight"}}, false)
	result, err := l.wait(ctx, id)
	if err != nil || result != "completed" {
		return fmt.Errorf("%w: %s %w", errMissed, result, err)
	}
	s.say("livhana", "Jesse, the preflight checks are completed.")
	return nil
}

func (s *stage) throttle(ctx context.Context, l *demoLivhana, codex *demoCodex) error {
	codex.setFree(0.15)
	s.say("codex", "heartbeat: current_capacity 0.15 (85 %% used)")
	s.settle(ctx, 500*time.Millisecond)
	id := l.submit("research", map[string]any{"query": "How does voice_mode_boot.sh handle silence?"}, false)
	s.settle(ctx, 3*time.Second)
	if why, held := l.notice(id); held {
		s.say("livhana", "sees the notice: %s", why)
	} else {
		return fmt.Errorf("%w: the task was not held", errMissed)
	}
	codex.setFree(0.5)
	s.say("codex", "heartbeat: current_capacity 0.5")
	result, err := l.wait(ctx, id)
	if err != nil || result != "completed" {
		return fmt.Errorf("%w: %s %w", errMissed, result, err)
	}
	return nil
}

func (s *stage) progress(ctx context.Context, l *demoLivhana, _ *demoCodex) error {
	id := l.submit("deploy", map[string]any{"service_name": "voice-service", "environment": "staging", "dry_run": true}, true)
	result, err := l.wait(ctx, id)
	if err != nil || result != "completed" {
		return fmt.Errorf("%w: %s %w", errMissed, result, err)
	}
	return nil
}

func (s *stage) escalation(ctx context.Context, l *demoLivhana, _ *demoCodex) error {
	sent := time.Now()
	l.submit("deploy", map[string]any{"service_name": conflictService, "environment": "production"}, false)
	for {
		var list struct {
			Incidents []escalate.Incident `json:"incidents"`
		}
		if err := s.client.Get(ctx, "/v1/incidents", &list); err != nil {
			return err
		}
		for _, i := range list.Incidents {
			if i.Code != "GIT_CONFLICT" {
				continue
			}
			said, final := reaches(i)
			if final || time.Since(sent) > demoPatience {
				s.say("steward", "%s after %.1f s: %s", said, time.Since(sent).Seconds(), i.Summary)
				return nil
			}
		}
		if err := s.settle(ctx, 100*time.Millisecond); err != nil {
			return errMissed
		}
	}
}

// demoPatience is how long the demo waits for a channel to deliver the last alert.
const demoPatience = 12 * time.Second

// reaches describes the deliveries of an incident. final is true for a proven delivery, or if all channels failed.
func reaches(i escalate.Incident) (said string, final bool) {
	var failed []string
	for _, d := range i.Deliveries {
		switch {
		case d.OK:
			return fmt.Sprintf("told you through %s (%s)", d.Channel, d.Result), true
		case d.Result == escalate.ResultUnwanted:
			return "raised an incident, and no channel is to tell it,", true
		case d.Error != "":
			failed = append(failed, d.Channel)
		}
	}
	if len(failed) > 0 {
		return "would tell you: no channel works here (" + strings.Join(failed, ", ") + ")", len(failed) > 1
	}
	return "raised an incident", false
}

// settle waits for d or the end of the context.
func (s *stage) settle(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// printStatus shows the snapshot of the daemon on that socket.
func printStatus(ctx context.Context, a *cli.App, socket string) error {
	var raw json.RawMessage
	if err := status.NewClient(socket).Get(ctx, "/v1/status", &raw); err != nil {
		return err
	}
	return cli.Present(a, raw, views.Status)
}
