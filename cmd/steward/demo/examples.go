package demo

import (
	"context"
	"embed"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/config"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/agentstatus"
	"github.com/livhana/steward/protocol/envelope"
	"github.com/livhana/steward/protocol/handoffs"
	"github.com/livhana/steward/protocol/mailbox"
	"github.com/livhana/steward/protocol/ralph"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/status/terminal"
	"github.com/spf13/cobra"
)

// files holds for each example the rows of its configuration. PROJECT in them is the scratch project.
//
//go:embed examples
var files embed.FS

// example is a protocol's own example: scripted agents, and the task that sets them to work.
type example struct {
	about  string
	agents []string
	order  protocol.Order
}

var examples = map[string]example{
	handoffs.Name: {"a user's request goes from agent to agent, until the reviewer approves", []string{"planner", "builder", "reviewer", "fixer", "orchestrator"},
		protocol.Order{Title: "Add user auth", Text: "Add user auth"}},
	envelope.Name: {"a feature goes through the pipeline of eight roles, and its security review is rejected once",
		[]string{"ORCHESTRATOR"}, protocol.Order{To: "ORCHESTRATOR", Type: "pipeline", Title: "Chat", Text: "Render chat messages\n✓ Markdown renders"}},
	mailbox.Name: {"the team lead assigns a task, rejects its first report and approves its second", []string{"team-lead", "developer"},
		protocol.Order{Title: "Login page", Text: "Add a login page"}},
	ralph.Name: {"a worker dies at its task, and steward has the program resume it", []string{"wiggum"},
		protocol.Order{Title: "Add the login", Text: "Build what the PRD says"}},
}

// names lists the protocols that have a demo.
func names() []string {
	return append([]string{agentstatus.Name}, slices.Sorted(maps.Keys(examples))...)
}

// show plays an example: it submits the task and prints each step, until the task has ended.
func (s *stage) show(ctx context.Context, c *cobra.Command, name string, boot booter) error {
	x := examples[name]
	s.say("", "— Protocol %s: %s", name, x.about)
	for _, agent := range x.agents {
		if err := boot(c, s.dir, name, protocol.Boot{Agent: agent, PID: os.Getpid(), Now: time.Now()}); err != nil {
			return err
		}
	}
	p, _ := daemon.Participate(s.dir, name, config.Defaults())
	defer p.Close()
	first, err := p.Submit(ctx, x.order, time.Now())
	if err != nil {
		return fmt.Errorf("submit the task: %w", err)
	}
	s.say("you", "%s (task %s)", x.order.Title, terminal.Clean(first.ID))
	told := map[string]string{}
	for {
		if err := s.tell(ctx, p, told); err != nil {
			return err
		}
		switch t, err := p.Show(ctx, first.ID, time.Now()); {
		case err != nil:
			return fmt.Errorf("read the task: %w", err)
		case t.State == protocol.TaskDone:
			_ = s.tell(ctx, p, told) // the last changes
			s.say("", "— Done. This is what `steward status` shows:")
			return printStatus(ctx, s.app, s.socket)
		case !t.State.Open():
			return fmt.Errorf("%w: task %s is %s", errMissed, first.ID, t.State)
		}
		if err := s.settle(ctx, 100*time.Millisecond); err != nil {
			return fmt.Errorf("%w: %w", errMissed, err)
		}
	}
}

// tell prints what has changed about each task since the last call.
func (s *stage) tell(ctx context.Context, p protocol.Participant, told map[string]string) error {
	var doc status.Document
	if err := s.client.Get(ctx, "/v1/status", &doc); err != nil {
		return err
	}
	for _, t := range doc.Tasks {
		a, err := p.Show(ctx, t.ID, time.Now())
		if err != nil {
			continue // it is being moved; the next call sees it
		}
		text := strings.TrimPrefix(strings.ReplaceAll(a.Type, "_", " ")+": "+a.Title, ": ")
		line := fmt.Sprintf("%s — %s", text, a.State)
		if a.State == protocol.TaskRunning {
			line = text + " — works on it"
		}
		if told[t.ID] != line+a.Agent {
			told[t.ID] = line + a.Agent
			s.say(terminal.Clean(a.Agent), "%s", terminal.Clean(line))
		}
	}
	return nil
}

// configure writes the configuration of the demo's daemon, with the rows of the example.
func (s *stage) configure(dir, name string, quiet bool) (file string, err error) {
	// The scenario depends only on what the agents report about themselves: on a machine that is full for other reasons it would never end.
	text := "[supervisor]\nlook_every = \"2s\"\n[capacity]\ndimensions = [\"agent\"]\n[keep]\nplace = \"session\"\n"
	if quiet {
		text += "[escalate]\nchannels = []\n"
	}
	more, _ := files.ReadFile("examples/" + name + ".toml") // protocol 000 has none
	text += "[[project]]\npath = \"PROJECT\"\n" + string(more)
	file = filepath.Join(dir, "config.toml")
	return file, os.WriteFile(file, []byte(strings.ReplaceAll(text, "PROJECT", s.dir)), 0o600)
}

// known refuses a protocol without a demo, and one whose scripts need a program that this machine lacks.
func known(name string) error {
	for _, tool := range []string{"flock", "setsid"} {
		if _, err := exec.LookPath(tool); name == ralph.Name && err != nil {
			return fmt.Errorf("demo: the example of protocol %s needs the program %s, which is not installed; it comes with util-linux", name, tool)
		}
	}
	if !slices.Contains(names(), name) {
		return cli.Usagef("demo: --protocol %s: use %s", terminal.OneWord(name), strings.Join(names(), ", "))
	}
	return nil
}
