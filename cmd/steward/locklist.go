package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/livhana/steward/status/terminal"
	"github.com/livhana/steward/status/views"
	"github.com/livhana/steward/supervisor"

	"github.com/spf13/cobra"

	"github.com/livhana/steward/join/lock"
)

func (a *app) lockListCommand(project *string) *cobra.Command {
	var all bool
	var limit uint
	c := &cobra.Command{
		Use:   "list",
		Short: "List the locks of a project, with their holders",
		Long: "list tells of the locks that steward has granted in the project, and of those that agents entered into\n" +
			".claude/state.json by themselves. It needs no daemon, and tries no lock.",
		RunE: func(c *cobra.Command, _ []string) error {
			place, _, err := a.locksOf(*project)
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
			if a.output == "json" {
				doc := map[string]any{"locks": shown}
				if len(shown) < total {
					doc["total"] = total
				}
				return errors.Join(a.print(doc), err)
			}
			var states []string
			for _, s := range shown {
				states = append(states, string(s.State))
			}
			p := a.page()
			views.Table(p, "no locks", "how to take one: steward lock run --help", []string{"LOCK", "STATE", "AGE", "HOLDER", "PID", "FENCE", "COMMAND", "WHY"},
				lockStatusRows(p, shown), views.CountStates("lock", views.LockStates+" damaged free", states, total))
			return errors.Join(a.write(p.String()), err)
		},
	}
	c.Flags().BoolVar(&all, "all", false, "also those that nobody holds, with their last holder")
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

// breakGrace is the time a holder has to exit before it is killed.
const breakGrace = 10 * time.Second

func (a *app) lockBreakCommand(project *string) *cobra.Command {
	var b lock.Breaking
	var yes bool
	c := &cobra.Command{
		Use:   "break NAME",
		Short: "End a holding by hand",
		Long: "break shows who holds the lock, and takes away what a dead holder has left. An agent's own entry in .claude/state.json\n" +
			"is removed; if its agent shows life, only after a confirmation. A lock that a living process holds cannot be taken from\n" +
			"it: --end-holder ends the process and all that descends from it first. A damaged record is set aside. Who broke what,\n" +
			"and why, is on record in .claude/steward/tombstones.jsonl.",
		Example: "  steward lock break deploy --why \"the build hangs since noon\" --end-holder",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			place, _, err := a.locksOf(*project)
			if err != nil {
				return err
			}
			defer place.Close()
			if b.Status, err = place.Find(c.Context(), args[0]); err != nil {
				return lockError(fmt.Errorf("lock break: %w", err))
			}
			b.By, b.Grace = userName(), breakGrace
			if err := a.mayBreak(&b, yes); err != nil {
				return err
			}
			if err := place.Break(c.Context(), b); err != nil {
				return lockError(err)
			}
			if a.output == "json" {
				return a.print(map[string]any{"broken": b.Status, "by": b.By, "why": b.Why})
			}
			return a.write(fmt.Sprintf("broken: %s\n", terminal.Clean(b.Status.Name)))
		},
	}
	f := c.Flags()
	f.StringVar(&b.Why, "why", "", "the reason, for the record: `TEXT`")
	f.BoolVar(&b.EndHolder, "end-holder", false, "end the process that holds it, and all that descends from it")
	f.BoolVar(&yes, "yes", false, "do not ask")
	return c
}

// mayBreak shows the holder, and prompts for missing input: the reason, and confirmation to break a living holder's lock.
func (a *app) mayBreak(b *lock.Breaking, yes bool) error {
	s, ask := b.Status, terminal.IsTerminal(os.Stdin)
	fmt.Fprintf(a.err, "%s: %s\n", terminal.Clean(s.Name), breakWords(s))
	if s.Kind == lock.KindReal && s.Alive && !b.EndHolder {
		return supervisor.Refuse(fmt.Errorf("lock break: its holder lives; wait for it, or end it with --end-holder"))
	}
	in := bufio.NewReader(os.Stdin)
	if strings.TrimSpace(b.Why) == "" {
		if !ask {
			return usageError{errors.New("lock break: say why with --why")}
		}
		fmt.Fprint(a.err, "Why? ")
		if b.Why = answerLine(in); b.Why == "" {
			return supervisor.Refuse(errors.New("lock break: without a reason nothing is broken"))
		}
	}
	if !s.Alive || yes {
		return nil
	}
	if !ask {
		return supervisor.Refuse(errors.New("lock break: its holder shows life; say --yes if it is to be broken all the same"))
	}
	what := "its agent shows life"
	if s.Kind == lock.KindReal {
		what = "its holder, and all that descends from it, will be ended"
	}
	fmt.Fprintf(a.err, "Attention: %s. Type the lock's name to go on: ", what)
	if answerLine(in) != s.Name {
		return supervisor.Refuse(errors.New("lock break: nothing was broken"))
	}
	return nil
}

func breakWords(s lock.Status) string {
	if s.Kind == lock.KindReal {
		return lockWords(s)
	}
	words := terminal.Clean(s.Why)
	if s.Alive && s.State != lock.StateOverdue {
		words += "; it shows life"
	}
	return words
}

func answerLine(in *bufio.Reader) string {
	line, err := in.ReadString('\n')
	if err != nil && err != io.EOF {
		return ""
	}
	return strings.TrimSpace(line)
}
