package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/livhana/steward/status/terminal"

	"github.com/spf13/cobra"

	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status"
)

func (a *app) answerCommand() *cobra.Command {
	var why string
	var stop bool
	var requirements []string
	c := &cobra.Command{
		Use:   "answer KEY [OPTION]",
		Short: "Answer an incident; the agent that asked reads the answer",
		Long: "answer settles an incident with one of its options (see: steward incidents), by its id or its words; where it offers none,\n" +
			"OPTION is your answer in your own words. The first answer counts. It is written where the agent that asked looks for it.\n" +
			"KEY may be cut short. KEY@REVISION answers the question as it was listed with that revision; a question that was reworded\n" +
			"since it was raised can be answered so only.\n\n" +
			"--stop tells the agent to end its task instead of going on; then OPTION may be left out. --requirement gives its task other\n" +
			"requirements. Both work for questions of protocol 004 (envelope), whose answer has a place for them.",
		Example: "  steward answer 3fa9 1 --why \"the staging database is a copy\"\n  steward answer 3fa9 \"Use approach B\"\n  steward answer 216a retry\n" +
			"  steward answer 77c0 --stop --why \"the customer cancelled\"\n  steward answer 77c0 2 --requirement \"Use OAuth2\" --requirement \"Keep the old login for a month\"",
		Args: cobra.RangeArgs(1, 2), ValidArgsFunction: a.completeNames("incident"),
		RunE: func(c *cobra.Command, args []string) error {
			option := ""
			if len(args) > 1 {
				option = args[1]
			}
			if len(args) == 1 && !stop {
				return usageError{fmt.Errorf("answer %s: missing argument OPTION or TEXT (or use --stop); see: steward incidents", args[0])}
			}
			for _, requirement := range requirements {
				if strings.TrimSpace(requirement) == "" {
					return usageError{fmt.Errorf("answer %s: a --requirement has no words", args[0])}
				}
			}
			name, rev, err := handle(args[0])
			if err != nil {
				return err
			}
			key, err := segment(name)
			if err != nil {
				return err
			}
			var raw json.RawMessage
			err = a.ask(c.Context(), "answer "+args[0], func(cl *status.Client) error {
				return cl.Post(c.Context(), "/v1/incidents/"+key+"/answer", status.Answer{Option: option, Why: why, Rev: rev, Stop: stop, Requirements: requirements}, &raw)
			})
			if err != nil {
				return err
			}
			return present(a, raw, renderAnswered)
		},
	}
	whyFlag(c, &why)
	c.Flags().BoolVar(&stop, "stop", false, "tell the agent to end its task instead of going on")
	c.Flags().StringArrayVar(&requirements, "requirement", nil, "a `REQUIREMENT` that the task has from now on (repeatable)")
	return c
}

// handle splits KEY or KEY@REVISION; rev is 0 without a revision.
func handle(text string) (key string, rev int, err error) {
	key, number, bound := strings.Cut(text, "@")
	if !bound {
		return key, 0, nil
	}
	if rev, err = strconv.Atoi(number); err != nil || rev < 1 {
		return "", 0, usageError{fmt.Errorf("answer %s: %q is not a revision; see: steward incidents", text, number)}
	}
	return key, rev, nil
}

func renderAnswered(p *terminal.Page, doc struct {
	Incident escalate.Incident `json:"incident"`
}) {
	i := doc.Incident
	if i.Answer == nil {
		return
	}
	p.Line("answered: %s: %s", terminal.Clean(i.Summary), terminal.Clean(i.Answer.Label))
	if i.Subject().Kind == protocol.KindQuestion && i.Opened > 1 && !i.Opening.IsZero() {
		p.Line("  it was asked again at %s, after it had been settled; this answers the question of then", p.Clock(i.Opening))
	}
	if i.Answer.Stop {
		p.Line("  the agent is told to stop")
	} else if i.Answer.Option == "" {
		p.Line("  your own words settle the incident")
	}
	for _, requirement := range i.Answer.Requirements {
		p.Line("  new requirement: %s", terminal.Clean(requirement))
	}
	if i.Answer.Problem != "" {
		p.Line("  nobody waits for it any more: %s", terminal.Clean(i.Answer.Problem))
	}
}
