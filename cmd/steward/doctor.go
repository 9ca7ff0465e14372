package main

import (
	"context"
	"fmt"

	"github.com/livhana/steward/cmd/steward/doctor"
	"github.com/livhana/steward/platform/service"
	"github.com/livhana/steward/status/terminal"
	"github.com/spf13/cobra"
)

func (a *app) doctorCommand() *cobra.Command {
	var reach bool
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Say what works here, what does not, and what to do about it",
		Long: "doctor looks at the program, its configuration, the service, the daemon, the projects, their boot scripts, and the ways\n" +
			"to reach you. It changes nothing, sends nothing, needs no daemon, and takes 5 s at most. It exits with 1 when something\n" +
			"fails; warnings do not count. With --reach it sends a real test by every channel, and waits 30 s for you to press its button.",
		Example: "  steward doctor\n  steward doctor --reach\n  steward doctor -o json",
		RunE:    func(c *cobra.Command, _ []string) error { return a.doctor(c.Context(), reach) },
	}
	c.Flags().BoolVar(&reach, "reach", false, "send a real test by every channel")
	return c
}

func (a *app) doctor(ctx context.Context, reach bool) error {
	doc, err := doctor.Examine(ctx, doctor.Options{Version: version(), ConfigFile: a.configFile, Settings: a.settings, Place: a.place, Binary: ownBinary, Reach: reach,
		Account: func(system bool, user string) (service.Account, error) {
			return serviceOptions{system: system, user: user}.account()
		},
		Spec: func(system bool, binary string, who service.Account) (service.Spec, error) {
			return a.spec(serviceOptions{system: system, binary: binary}, who, a.placeOf(serviceOptions{system: system}, who))
		},
		Announce: func(text string) { fmt.Fprintln(a.err, text) }})
	if err != nil {
		return err
	}
	if err = a.printDiagnosis(doc); err != nil {
		return err
	}
	if !doc.OK {
		return quiet{exitFailed}
	}
	return nil
}

// levelStyle is the terminal style of a level.
func levelStyle(l doctor.Level) terminal.Style {
	switch l {
	case doctor.LevelWarn:
		return terminal.Yellow
	case doctor.LevelFail:
		return terminal.Red
	}
	return terminal.Green
}

func (a *app) printDiagnosis(doc doctor.Diagnosis) error {
	if a.output == "json" {
		return a.print(doc)
	}
	p := a.page()
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
	p.Full("\n%s", tally(count))
	return a.write(p.String())
}

// renderFinding prints a finding without truncation: users copy commands from it.
func renderFinding(p *terminal.Page, f doctor.Finding) {
	p.Full("  %s%*s%s: %s", p.Dye(string(f.Level), levelStyle(f.Level)), 6-len(f.Level), "", terminal.Clean(f.Name), terminal.Clean(f.Text))
	if f.Do != "" {
		p.Full("        → %s", terminal.Clean(f.Do))
	}
}

func tally(count map[doctor.Level]int) string {
	if count[doctor.LevelFail]+count[doctor.LevelWarn] == 0 {
		return "everything works"
	}
	return terminal.Plural(count[doctor.LevelFail], "failure") + ", " + terminal.Plural(count[doctor.LevelWarn], "warning")
}
