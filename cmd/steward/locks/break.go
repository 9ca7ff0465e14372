package locks

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/join/lock"
	"github.com/livhana/steward/status/terminal"
	"github.com/livhana/steward/supervisor"
	"github.com/spf13/cobra"
)

// breakGrace is the time a holder has to exit before it is killed.
const breakGrace = 10 * time.Second

func newBreakCommand(a *cli.App, project *string) *cobra.Command {
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
			place, _, err := locksOf(a, *project)
			if err != nil {
				return err
			}
			defer place.Close()
			if b.Status, err = place.Find(c.Context(), args[0]); err != nil {
				return lockError(fmt.Errorf("lock break: %w", err))
			}
			b.By, b.Grace = userName(), breakGrace
			if err := mayBreak(a, &b, yes); err != nil {
				return err
			}
			if err := place.Break(c.Context(), b); err != nil {
				return lockError(err)
			}
			return a.Report(map[string]any{"broken": b.Status, "by": b.By, "why": b.Why}, "broken: %s", terminal.Clean(b.Status.Name))
		},
	}
	f := c.Flags()
	f.StringVar(&b.Why, "why", "", "the reason, for the record: `TEXT`")
	f.BoolVar(&b.EndHolder, "end-holder", false, "end the process that holds it, and all that descends from it")
	f.BoolVar(&yes, "yes", false, "do not ask")
	return c
}

// mayBreak shows the holder, and prompts for missing input: the reason, and confirmation to break a living holder's lock.
func mayBreak(a *cli.App, b *lock.Breaking, yes bool) error {
	s, ask := b.Status, terminal.IsTerminal(os.Stdin)
	fmt.Fprintf(a.Err, "%s: %s\n", terminal.Clean(s.Name), breakWords(s))
	if s.Kind == lock.KindReal && s.Alive && !b.EndHolder {
		return supervisor.Refuse(fmt.Errorf("lock break: its holder lives; wait for it, or end it with --end-holder"))
	}
	in := bufio.NewReader(os.Stdin)
	if strings.TrimSpace(b.Why) == "" {
		if !ask {
			return cli.Usagef("lock break: say why with --why")
		}
		fmt.Fprint(a.Err, "Why? ")
		if b.Why = answerLine(in); b.Why == "" {
			return supervisor.Refuse(errors.New("lock break: without a reason nothing is broken"))
		}
	}
	if !s.Alive || yes {
		return nil
	}
	if !ask {
		return supervisor.Refuse(errors.New("lock break: its holder shows life; add --yes to break it nevertheless"))
	}
	what := "its agent shows life"
	if s.Kind == lock.KindReal {
		what = "its holder, and all that descends from it, will be ended"
	}
	fmt.Fprintf(a.Err, "Attention: %s. Type the lock's name to go on: ", what)
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
