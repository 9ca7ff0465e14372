package locks

import (
	"errors"
	"strconv"
	"strings"

	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/join/lock"
	"github.com/livhana/steward/status/terminal"
	"github.com/livhana/steward/status/views"
	"github.com/spf13/cobra"
)

func newListCommand(a *cli.App, project *string) *cobra.Command {
	var all bool
	var limit uint
	c := &cobra.Command{
		Use:   "list",
		Short: "List the locks of a project, with their holders",
		Long: "list tells of the locks that steward has granted in the project, and of those that agents entered into\n" +
			".claude/state.json by themselves. It needs no daemon, and tries no lock.",
		RunE: func(c *cobra.Command, _ []string) error {
			place, _, err := locksOf(a, *project)
			if err != nil {
				return err
			}
			defer place.Close()
			list, err := place.List(c.Context())
			shown := []lock.Status{}
			for _, s := range list {
				if all || s.State != lock.StateFree {
					shown = append(shown, s)
				}
			}
			total := len(shown)
			if limit > 0 {
				shown = shown[:min(uint(total), limit)]
			}
			if a.Output == "json" {
				doc := map[string]any{"locks": shown}
				if len(shown) < total {
					doc["total"] = total
				}
				return errors.Join(a.Print(doc), err)
			}
			var states []string
			for _, s := range shown {
				states = append(states, string(s.State))
			}
			p := a.Page()
			views.Table(p, "no locks", "how to take one: steward lock run --help", []string{"LOCK", "STATE", "AGE", "HOLDER", "PID", "FENCE", "COMMAND", "WHY"},
				lockStatusRows(p, shown), views.CountStates("lock", views.LockStates+" damaged free", states, total))
			return errors.Join(a.Write(p.String()), err)
		},
	}
	c.Flags().BoolVar(&all, "all", false, "also free locks, with their last holder")
	c.Flags().UintVar(&limit, "limit", 0, "list the first `N` only")
	return c
}

func lockStatusRows(p *terminal.Page, list []lock.Status) [][]terminal.Cell {
	var rows [][]terminal.Cell
	for _, s := range list {
		pid, fence, since := "", "", ""
		if s.PID != 0 {
			pid = strconv.Itoa(s.PID)
		}
		if s.Fence != 0 {
			fence = strconv.FormatUint(s.Fence, 10)
		}
		if !s.Since.IsZero() {
			since = strings.TrimSuffix(p.Ago(&s.Since), " ago")
		}
		rows = append(rows, []terminal.Cell{terminal.Text(s.Name), terminal.Word(s.State), terminal.Colored(since, terminal.Dim), terminal.Text(s.Agent), terminal.Text(pid), terminal.Text(fence), terminal.Text(terminal.OneWord(strings.Join(s.Command, " "))), terminal.Text(s.Why)})
	}
	const process, fencing, command = 4, 5, 6
	p.Spare(rows, views.LeastWhy, command, fencing, process)
	return rows
}
