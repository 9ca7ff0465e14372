package main

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/livhana/steward/status/terminal"
	"github.com/livhana/steward/status/views"

	"github.com/spf13/cobra"

	"github.com/livhana/steward/join/task"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/agentstatus"
	"github.com/livhana/steward/status"
)

func (a *app) taskShowCommand() *cobra.Command {
	var project string
	c := &cobra.Command{
		Use:   "show TASK",
		Short: "Show everything about one task: request, attempts, progress, result",
		Long: "show reads the files of one task and says all that they tell. The beginning of the id is enough, four characters at least.\n" +
			"Why steward decided as it did is in: steward explain TASK",
		Example: "  steward task show 7c0e\n  steward task show 7c0e -o json",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: a.completeNames("task"),
		RunE: func(c *cobra.Command, args []string) error {
			d, detail, err := a.findDesk(c.Context(), project, args[0], "show task "+args[0])
			if err != nil {
				return err
			}
			defer d.close()
			if a.output == "json" {
				return a.print(taskPageOf(d.dir, detail))
			}
			return a.showTask(d, detail)
		},
	}
	projectFlag(c, &project)
	return c
}

func (a *app) showTask(d *taskClient, detail agentstatus.Detail) error {
	p := a.page()
	look := terminal.Plain
	if detail.State == agentstatus.StateEnded {
		if look = terminal.Green; !task.Succeeded(detail) {
			look = terminal.Red
		}
	}
	p.Full("%s %s", terminal.Clean(detail.ID), p.Dye(task.Standing(detail), look))
	facts := task.Facts(detail, p.Now)
	width := 0
	for _, f := range facts {
		width = max(width, terminal.Cells(f.Name))
	}
	for _, f := range facts {
		p.Full("  %-*s  %s", width, f.Name, f.Text)
	}
	if detail.Result != nil {
		p.Title("Result")
		for _, text := range task.Summary(detail, a.human(), d.shownProject()) {
			p.Full("%s", text)
		}
	}
	return a.write(p.String())
}

// taskPage is the JSON output of show.
type taskPage struct {
	TaskID    string                    `json:"task_id"`
	Project   string                    `json:"project"`
	State     string                    `json:"state"`
	Why       string                    `json:"why"`
	Final     bool                      `json:"final"`
	Buried    bool                      `json:"dead_letter"`
	Cancelled bool                      `json:"cancelled"`
	Request   json.RawMessage           `json:"request"`
	Attempts  []protocol.Attempt        `json:"attempts"`
	Due       *time.Time                `json:"due"`
	Hold      *protocol.Hold            `json:"hold"`
	Progress  *agentstatus.TaskProgress `json:"progress"`
	Claim     *shownClaim               `json:"claim"`
	Result    json.RawMessage           `json:"result"`
	Output    string                    `json:"output"`
}

type shownClaim struct {
	Agent     string    `json:"agent"`
	Attempt   int       `json:"attempt"`
	WorkerPID *int      `json:"worker_pid"`
	RunnerPID *int      `json:"runner_pid"`
	At        time.Time `json:"claimed_at"`
}

func taskPageOf(dir string, d agentstatus.Detail) taskPage {
	s := taskPage{TaskID: d.ID, Project: dir, State: d.State, Why: task.Standing(d), Final: d.Final, Buried: d.Buried, Cancelled: d.Cancelled,
		Request: d.RequestRaw, Attempts: append([]protocol.Attempt{}, d.Attempts...), Hold: d.Hold, Progress: d.Progress, Result: d.ResultRaw, Output: d.Output}
	if !d.Due.IsZero() {
		due := d.Due.UTC()
		s.Due = &due
	}
	if k := d.Claim; k != nil {
		s.Claim = &shownClaim{Agent: k.Agent, Attempt: k.Attempt, WorkerPID: pidOf(k.Worker), RunnerPID: pidOf(k.Runner), At: k.At.UTC()}
	}
	return s
}

func pidOf(id protocol.Identity) *int {
	if !id.Proves() {
		return nil
	}
	return &id.PID
}

func (a *app) taskCancelCommand() *cobra.Command {
	var project, why string
	c := &cobra.Command{
		Use:   "cancel TASK",
		Short: "End a task, or steward's retry of it, for good",
		Long: "cancel ends a task that has not ended: nobody will begin it, and a worker that has it in hand stops it. The beginning of\n" +
			"the id is enough. It works through the daemon where one supervises the project, else on the files themselves.",
		Example: "  steward task cancel 7c0e --why \"asked for twice\"",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: a.completeNames("task"),
		RunE: func(c *cobra.Command, args []string) error {
			d, detail, err := a.findDesk(c.Context(), project, args[0], "cancel task "+args[0])
			if err != nil {
				return err
			}
			defer d.close()
			return d.cancel(c.Context(), detail, why)
		},
	}
	projectFlag(c, &project)
	whyFlag(c, &why)
	return c
}

func (d *taskClient) cancel(ctx context.Context, detail agentstatus.Detail, why string) error {
	doing := "cancel task " + detail.ID
	if detail.Cancelled || detail.State == agentstatus.StateEnded && detail.Final {
		return taskError(agentstatus.ErrEnded, doing)
	}
	if _, project, supervised := d.picture(ctx); supervised {
		at, err := segment(protocol.Subject{Project: project, Kind: protocol.KindTask, ID: detail.ID}.String())
		if err != nil {
			return err
		}
		raw, err := d.app.post(ctx, doing, "/v1/tasks/"+at+"/cancel", why)
		var remote *status.Error
		switch unseen := errors.As(err, &remote) && remote.Code == status.CodeNoSubject; {
		case err == nil:
			d.unfollow(ctx, detail)
			return present(d.app, raw, views.Carried)
		case !unseen: // the daemon has not seen a brand-new task yet
			return err
		}
	}
	if err := d.client.Cancel(ctx, detail.ID, why, time.Now()); err != nil {
		return taskError(err, doing)
	}
	d.unfollow(ctx, detail)
	if d.app.output == "json" {
		return d.app.print(map[string]any{"verb": "cancel", "subject": "task/" + detail.ID})
	}
	return d.app.write("cancel task/" + detail.ID + ": done\n")
}
