package tasks

import (
	"context"
	"errors"
	"time"

	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/agentstatus"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/status/views"
	"github.com/spf13/cobra"
)

func newCancelCommand(a *cli.App) *cobra.Command {
	var at place
	var why string
	c := &cobra.Command{
		Use:   "cancel TASK",
		Short: "End a task, or steward's retry of it, for good",
		Long: "cancel ends a task that has not ended: no agent will begin it, and a worker that has it in hand stops it. The beginning of\n" +
			"the id is enough. It works through the daemon where one supervises the project, else on the files themselves.",
		Example: "  steward task cancel 7c0e --why \"asked for twice\"",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: cli.CompleteNames(a, "task"),
		RunE: func(c *cobra.Command, args []string) error {
			doing := "cancel task " + args[0]
			f, err := at.find(c.Context(), a, args[0], doing)
			if err != nil {
				return err
			}
			defer f.close()
			if f.other != nil {
				return f.other.report(c.Context(), f.task, protocol.Report{Kind: protocol.ReportCancel, Agent: role("", ""), Summary: why}, doing)
			}
			return f.cancel(c.Context(), f.detail, why)
		},
	}
	at.flags(c)
	cli.WhyFlag(c, &why)
	return c
}

func (d *taskClient) cancel(ctx context.Context, detail agentstatus.Detail, why string) error {
	doing := "cancel task " + detail.ID
	if detail.Cancelled || detail.State == agentstatus.StateEnded && detail.Final {
		return taskError(agentstatus.ErrEnded, doing)
	}
	if _, project, supervised := d.Supervision(ctx); supervised {
		at, err := cli.PathSegment(protocol.Subject{Project: project, Kind: protocol.KindTask, ID: detail.ID}.String())
		if err != nil {
			return err
		}
		raw, err := cli.PostOrder(ctx, d.app, doing, "/v1/tasks/"+at+"/cancel", why)
		var remote *status.Error
		switch unseen := errors.As(err, &remote) && remote.Code == status.CodeNoSubject; {
		case err == nil:
			d.unfollow(ctx, detail)
			return cli.Present(d.app, raw, views.Carried)
		case !unseen: // the daemon has not seen a brand-new task yet
			return err
		}
	}
	if err := d.Files.Cancel(ctx, detail.ID, why, time.Now()); err != nil {
		return taskError(err, doing)
	}
	d.unfollow(ctx, detail)
	return d.app.Report(map[string]any{"verb": "cancel", "subject": "task/" + detail.ID}, "cancel task/%s: done", detail.ID)
}
