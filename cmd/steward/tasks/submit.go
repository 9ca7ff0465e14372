package tasks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/join/task"
	"github.com/livhana/steward/protocol/agentstatus"
	"github.com/livhana/steward/status/terminal"
	"github.com/spf13/cobra"
)

func newSubmitCommand(a *cli.App) *cobra.Command {
	s := &submission{}
	c := &cobra.Command{
		Use:   "submit TYPE|TEXT… [flags] [-- COMMAND…]",
		Short: "Ask an agent to do something",
		Long: "submit writes a task request for an agent to find, and prints the task's id. TYPE is execute, research, validate or deploy.\n" +
			"What is asked for is checked before anything is written. Relative paths are the project's.\n\n" +
			"    execute   -- COMMAND…            a script of the project, or a program, with its arguments; no shell is involved\n" +
			"    research  QUESTION…              a question about the code\n" +
			"    validate  --check NAME           preflight, lint, test or security\n" +
			"    deploy    --service --environment\n\n" +
			"With --wait it goes on as `steward task wait` does, and exits with the task's exit code. With --after the task is\n" +
			"seen by its agent when the named ones are completed; where no steward runs to release it then, submit itself waits\n" +
			"for that in the foreground.\n\n" +
			"In the protocols handoffs, ralph, mailbox and envelope there is no TYPE: the TEXT is the instructions, --title the task\n" +
			"in a few words, and --set PATH=VALUE any other key of the message. A flag that has no place in the protocol's message\n" +
			"is refused.",
		Example: "  steward task submit execute --wait -- scripts/START.sh preflight\n" +
			"  steward task submit research \"How does voice_mode_boot.sh handle silence?\" --search-path scripts\n" +
			"  steward task submit validate --check test --strict --after 7c0e2f5a\n" +
			"  steward task submit deploy --service voice-service --environment staging --dry-run --progress\n" +
			"  steward task submit research --next-of 7c0e2f5a:1\n" +
			"  steward task submit --request request.json\n" +
			"  steward task submit --protocol handoffs --to builder --spec specs/auth.md \"Implement the spec\"\n" +
			"  steward task submit --protocol ralph --title \"Add the login\" --priority high --after AUTH-1 \"Build what the PRD says\"\n" +
			"  steward task submit --protocol mailbox --to developer --title \"Login page\" --artifact src/login.ts --set platform=web \"Use MVC\"\n" +
			"  steward task submit --protocol envelope --to DEVELOPER --title \"ChatMessage\" --requirement \"Render markdown\" --criterion \"Tests pass\"",
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error { return submitTask(a, c, s, args) },
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return task.Types(), cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveDefault
		},
	}
	s.flags(c)
	return c
}

const submitting = "submit the task"

func submitTask(a *cli.App, c *cobra.Command, s *submission, args []string) error {
	dir, name, err := s.choose(a, submitting)
	if err != nil {
		return err
	}
	if name != agentstatus.Name {
		return s.send(a, c, dir, name, args)
	}
	if err := submitFits.check(c, name, submitting); err != nil {
		return err
	}
	s.request = cmp.Or(s.request, s.document)
	if err := s.fits(c, args); err != nil {
		return cli.Usagef("%s: %w", submitting, err)
	}
	ctx := c.Context()
	d, err := openTasks(a, dir, submitting)
	if err != nil {
		return err
	}
	defer d.close()
	s.order.Project = d.Dir
	r, err := s.requested(ctx, d, c.Flags().Changed("blocking"))
	if err != nil {
		return taskError(err, submitting)
	}
	if err := d.precede(ctx, &r); err != nil {
		return err
	}
	path, err := d.Files.Submit(ctx, r, time.Now())
	if err != nil {
		return taskError(err, submitting)
	}
	state := agentstatus.StatePending
	if len(r.Coordination.After) > 0 {
		state = agentstatus.StateHeld
	}
	d.follow(ctx, r, state)
	for _, note := range task.Notes(r, d.Dir) {
		fmt.Fprintln(a.Err, "steward: note: "+terminal.Clean(note))
	}
	if s.wait {
		if a.Output == "text" {
			fmt.Fprintln(a.Err, "task "+terminal.Clean(r.TaskID))
		}
		return awaitTask(ctx, a, d, r.TaskID, 0)
	}
	return a.Report(submitted{r.TaskID, path, state, r.Type, r.Priority, r.Target, append([]string{}, r.Coordination.After...)}, "%s", r.TaskID)
}

// submitted is the JSON output of submit.
type submitted struct {
	TaskID   string   `json:"task_id"`
	Path     string   `json:"path"`
	State    string   `json:"state"`
	Type     string   `json:"type"`
	Priority string   `json:"priority"`
	Agent    string   `json:"agent"`
	After    []string `json:"after"`
}

// requestFlags are the only flags allowed together with a whole request document.
var requestFlags = []string{"request", "document", "project", "protocol", "wait", "from", "config", "socket", "output", "no-color"}

// fits checks that the flags are compatible, and assigns the arguments after TYPE.
func (s *submission) fits(c *cobra.Command, args []string) error {
	f := c.Flags()
	if f.Changed("request") {
		return fitsRequest(c, args)
	}
	if len(args) == 0 {
		return fmt.Errorf("say what: one of %s (see steward task submit --help)", strings.Join(task.Types(), ", "))
	}
	if s.order.Type = args[0]; !slices.Contains(task.Types(), s.order.Type) {
		return fmt.Errorf("%q is not a type of task; use one of %s", terminal.OneWord(args[0]), strings.Join(task.Types(), ", "))
	}
	if err := s.own(c); err != nil {
		return err
	}
	if s.approved && s.nextOf == "" {
		return errors.New("--approved goes with --next-of")
	}
	if f.Changed("progress") && (s.order.Progress < time.Second || s.order.Progress > task.MaxTimeout) {
		return fmt.Errorf("--progress %s: use 1s to 1h", s.order.Progress)
	}
	if f.Changed("throttle") {
		if math.IsNaN(s.throttle) { // JSON cannot represent NaN
			return errors.New("--throttle NaN: use a share from 0 to 1")
		}
		s.order.Throttle = &s.throttle
	}
	if len(args) > 1 && s.order.Type == task.Execute {
		if _, err := time.ParseDuration(args[1]); err == nil && f.Changed("progress") {
			return fmt.Errorf("%s was read as the command; give the interval as --progress=%s", args[1], args[1])
		}
	}
	return s.rest(c, args[1:])
}

func fitsRequest(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return errors.New("--request brings everything along; leave out TYPE and what follows it")
	}
	n := 0
	for _, name := range requestFlags {
		if c.Flags().Changed(name) {
			n++
		}
	}
	if c.Flags().NFlag() > n {
		return errors.New("--request brings everything along; only --project, --from and --wait go with it")
	}
	return nil
}

// rest assigns the arguments after the type: the command of execute, the question of research.
func (s *submission) rest(c *cobra.Command, words []string) error {
	o := &s.order
	script, _ := c.Flags().GetString("script")
	args, _ := c.Flags().GetStringArray("arg")
	switch {
	case o.Type == task.Execute && len(words) > 0 && (script != "" || len(args) > 0):
		return errors.New("the command is given twice; use --script with --arg, or put it after --")
	case o.Type == task.Execute && script != "":
		o.Command = append([]string{script}, args...)
	case o.Type == task.Execute && len(args) > 0:
		return errors.New("--arg goes with --script")
	case o.Type == task.Execute:
		o.Command = words
	case o.Type == task.Research && len(words) > 0 && o.Own["query"] != nil:
		return errors.New("the question is given twice; use --query, or put it after the type")
	case o.Type == task.Research && len(words) > 0:
		o.Own["query"] = strings.Join(words, " ")
	case len(words) > 0:
		return fmt.Errorf("%s takes no %q", o.Type, terminal.OneWord(words[0]))
	}
	return nil
}

// requested builds the request from the flags, or reads it from --request.
func (s *submission) requested(ctx context.Context, d *taskClient, saysBlocking bool) (agentstatus.Request, error) {
	var none agentstatus.Request
	if s.request != "" {
		raw, err := input(s.request)
		if err != nil {
			return none, fmt.Errorf("read the request: %w", err)
		}
		return task.Document(raw, s.order.From, time.Now())
	}
	o := &s.order
	var err error
	if o.Parameters, err = task.ParseParameters("--param", s.parameters); err != nil {
		return none, err
	}
	if s.payload != "" {
		if o.Payload, err = input(s.payload); err != nil {
			return none, fmt.Errorf("read the payload: %w", err)
		}
	}
	if err := d.Complete(ctx, o, s.nextOf, s.approved, s.after); err != nil {
		return none, err
	}
	if o.Priority == "" {
		o.Priority = "medium"
	}
	o.Blocking = o.Blocking || s.wait && !saysBlocking
	return o.Request(time.Now())
}

// precede waits for the preceding tasks where no daemon would do so. Afterwards the request no longer depends on them:
// they are completed, and listed as related.
func (d *taskClient) precede(ctx context.Context, r *agentstatus.Request) error {
	after := r.Coordination.After
	if len(after) == 0 {
		return nil
	}
	if _, _, supervised := d.Supervision(ctx); supervised {
		return nil
	}
	fmt.Fprintf(d.app.Err, "steward: no steward supervises %s to release the task later; waiting here for %s\n", terminal.Clean(d.Dir), terminal.Clean(strings.Join(after, ", ")))
	for _, id := range after {
		before, err := d.Wait(ctx, id, 0, func(task.News) {})
		switch {
		case errors.Is(err, context.Canceled):
			return cli.Interrupted("interrupted; nothing was submitted")
		case errors.Is(err, task.ErrLimit):
			return cli.OutOfTime("task %s did not end within its time; nothing was submitted", terminal.Clean(id))
		case err != nil:
			return taskError(err, "wait for task "+id)
		case !task.Succeeded(before):
			return cli.ExitWith(fmt.Errorf("task %s is %s; nothing was submitted", terminal.Clean(id), task.Standing(before)), task.ExitCode(before))
		}
	}
	r.Coordination.After = nil
	r.Context.Related = append(r.Context.Related, after...)
	return nil
}

// follow updates the orchestrator's active_coordination.json. It only informs readers: the task is valid without it.
func (d *taskClient) follow(ctx context.Context, r agentstatus.Request, state string) {
	f := agentstatus.Followed{Task: r.TaskID, Target: r.Target, Type: r.Type, State: state, Blocking: r.Coordination.Blocking, Since: r.Created}
	if err := d.Files.Follow(ctx, r.Source, f, time.Now()); err != nil {
		fmt.Fprintln(d.app.Err, "steward: active_coordination.json is not up to date: "+terminal.OneWord(err.Error()))
	}
}
