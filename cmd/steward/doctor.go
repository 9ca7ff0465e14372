package main

import (
	"context"
	"fmt"

	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/cmd/steward/doctor"
	servicecmd "github.com/livhana/steward/cmd/steward/service"
	"github.com/livhana/steward/platform/service"
	"github.com/livhana/steward/status/terminal"
	"github.com/spf13/cobra"
)

func newDoctorCommand(a *cli.App) *cobra.Command {
	var reach bool
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Say what works here, what does not, and what to do about it",
		Long: "doctor looks at the program, its configuration, the service, the daemon, the projects, their boot scripts, and the ways\n" +
			"to reach you. It changes nothing, sends nothing, needs no daemon, and takes 5 s at most. It exits with 1 when something\n" +
			"fails; warnings do not count. With --reach it sends a real test by every channel, and waits 30 s for you to press its button.",
		Example: "  steward doctor\n  steward doctor --reach\n  steward doctor -o json",
		RunE:    func(c *cobra.Command, _ []string) error { return examine(c.Context(), a, reach) },
	}
	c.Flags().BoolVar(&reach, "reach", false, "send a real test by every channel")
	return c
}

func examine(ctx context.Context, a *cli.App, reach bool) error {
	doc, err := doctor.Examine(ctx, doctor.Options{Version: a.Version, ConfigFile: a.ConfigFile, Settings: a.Settings, Paths: a.Paths, Binary: servicecmd.OwnBinary, Reach: reach,
		Account: func(system bool, user string) (service.Account, error) {
			return servicecmd.Target{System: system, User: user}.Account()
		},
		Spec: func(system bool, binary string, who service.Account) (service.Spec, error) {
			return servicecmd.SpecOf(a, servicecmd.Target{System: system, Binary: binary}, who, servicecmd.PathsOf(a, servicecmd.Target{System: system}, who))
		},
		Announce: func(text string) { fmt.Fprintln(a.Err, text) }})
	if err != nil {
		return err
	}
	if err = cli.Tell(a, doc, renderDiagnosis); err != nil {
		return err
	}
	if !doc.OK {
		return cli.Exit(cli.ExitFailed)
	}
	return nil
}

var levelStyles = map[doctor.Level]terminal.Style{doctor.LevelOK: terminal.Green, doctor.LevelWarn: terminal.Yellow, doctor.LevelFail: terminal.Red}

func renderDiagnosis(p *terminal.Page, doc doctor.Diagnosis) {
	area, count := "", map[doctor.Level]int{}
	for _, f := range doc.Checks {
		if f.Area != area {
			if area != "" {
				p.Full("")
			}
			area = f.Area
			p.Full("%s", p.Dye(area, terminal.Bold))
		}
		count[f.Level]++
		renderFinding(p, f)
	}
	p.Full("\n%s", counted(count))
}

// renderFinding prints a finding without truncation: users copy commands from it.
func renderFinding(p *terminal.Page, f doctor.Finding) {
	p.Full("  %s%*s%s: %s", p.Dye(string(f.Level), levelStyles[f.Level]), 6-len(f.Level), "", terminal.Clean(f.Name), terminal.Clean(f.Text))
	if f.Do != "" {
		p.Full("        → %s", terminal.Clean(f.Do))
	}
}

func counted(count map[doctor.Level]int) string {
	if count[doctor.LevelFail]+count[doctor.LevelWarn] == 0 {
		return "everything works"
	}
	return terminal.Plural(count[doctor.LevelFail], "failure") + ", " + terminal.Plural(count[doctor.LevelWarn], "warning")
}
