package tasks

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/join/task"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/agentstatus"
	"github.com/spf13/cobra"
)

// reporter is a verb that says one thing about a task.
type reporter struct {
	place
	messageKeys
	kind   protocol.ReportKind
	report protocol.Report
	agent  string
	// says is the flag of the report's words; "" if they are an argument.
	says string
	// agentstatus carries the verb out in protocol 000.
	agentstatus func(c *cobra.Command, f *found, r protocol.Report, doing string) error
}

func (v *reporter) command(a *cli.App, c *cobra.Command) *cobra.Command {
	n := len(strings.Fields(c.Use)) - 1
	c.Args, c.ValidArgsFunction = cobra.ExactArgs(n), cli.CompleteNames(a, "task")
	c.RunE = func(c *cobra.Command, args []string) error {
		if n > 1 {
			v.report.Summary = args[1]
		}
		return v.run(a, c, args[0])
	}
	v.place.flags(c)
	v.messageKeys.flags(c)
	agentFlag(c, &v.agent)
	c.Flags().StringVar(&v.report.To, "to", "", "the `AGENT` that gets it (default: as the protocol implies)")
	if v.says != "" {
		c.Flags().StringVar(&v.report.Summary, v.says, "", "the text of it: `TEXT`")
	}
	return c
}

func (v *reporter) run(a *cli.App, c *cobra.Command, id string) error {
	ctx, doing := c.Context(), c.Name()+" task "+id
	f, err := v.find(ctx, a, id, doing)
	if err != nil {
		return err
	}
	defer f.close()
	r := v.report
	r.Kind = v.kind
	if f.other == nil {
		return v.agentstatus(c, f, r, doing)
	}
	if err := reportFits.check(c, f.protocol(), doing); err != nil {
		return err
	}
	if err := v.alone(c, doing, nil, "summary", "reason", "issue", "next", "option"); err != nil {
		return err
	}
	if r.Fields, r.Document, err = v.messageKeys.read(); err != nil {
		return taskError(err, doing)
	}
	r.Agent = role(v.agent, "")
	return f.other.report(ctx, f.task, r, doing)
}

// without is a verb that protocol 000 does not have.
func without(instead string) func(*cobra.Command, *found, protocol.Report, string) error {
	return func(_ *cobra.Command, f *found, _ protocol.Report, doing string) error {
		return taskError(fmt.Errorf("%w: protocol agentstatus has no such message; %s", protocol.ErrUnsupported, fmt.Sprintf(instead, f.detail.ID)), doing)
	}
}

func newRejectCommand(a *cli.App) *cobra.Command {
	v := &reporter{kind: protocol.ReportRejected, says: "reason",
		agentstatus: without("an executor that cannot do it uses: steward task fail %s; an author who refuses a result submits a new task")}
	c := v.command(a, &cobra.Command{
		Use:   "reject TASK",
		Short: "Refuse a task, or the result of a task",
		Long: "reject says that an agent refuses its task, or that the author of a task refuses its result: with the reason, and what is\n" +
			"wrong. The agent then fixes the issues and reports again. Protocol agentstatus has no such message.",
		Example: "  steward task reject dev_chat_msg_001 --reason \"criterion 2 is not met\" --issue \"markdown tables do not render\"",
	})
	c.Flags().StringArrayVar(&v.report.Issues, "issue", nil, "what is wrong: `TEXT` (may be repeated)")
	c.Flags().StringArrayVar(&v.report.Next, "next", nil, "envelope: what must be done: `TEXT` (may be repeated)")
	return c
}

func newApproveCommand(a *cli.App) *cobra.Command {
	v := &reporter{kind: protocol.ReportApproved, says: "summary",
		agentstatus: without("a completed result needs no approval; see: steward task show %s")}
	return v.command(a, &cobra.Command{
		Use:   "approve TASK",
		Short: "Accept the result of a task",
		Long: "approve says that the author of a task accepts its result, where the protocol has a review: handoffs, mailbox and\n" +
			"envelope. What comes after the task may then begin.",
		Example: "  steward task approve task-001\n  steward task approve dev_chat_msg_001 --protocol envelope",
	})
}

func newBlockCommand(a *cli.App) *cobra.Command {
	v := &reporter{kind: protocol.ReportBlocked, agentstatus: blockHere}
	c := v.command(a, &cobra.Command{
		Use:   "block TASK QUESTION",
		Short: "Report a question that must be answered before a task can continue",
		Long: "block reports a question, as the protocol's escalation (handoffs), blocker (envelope) or question; in agentstatus it is a\n" +
			"result with the status blocked. Steward tells the human, and writes the answer where the agent reads it.",
		Example: "  steward task block handoff-7 \"Which auth method?\" --option JWT --option Session",
	})
	c.Flags().StringArrayVar(&v.report.Options, "option", nil, "a possible answer: `TEXT` (may be repeated)")
	return c
}

func newReturnCommand(a *cli.App) *cobra.Command {
	v := &reporter{kind: protocol.ReportReturned, says: "reason", agentstatus: returnHere}
	return v.command(a, &cobra.Command{
		Use:     "return TASK",
		Short:   "Give back a task without having done anything",
		Long:    "return ends the claim of an agent on its task, so that the task waits for an agent again. Nothing counts as done or failed.",
		Example: "  steward task return handoff-7 --reason \"I have no access to the server\"",
	})
}

// blockHere reports a question in protocol 000: a result whose status is blocked, with the question for the human.
func blockHere(c *cobra.Command, f *found, r protocol.Report, doing string) error {
	if err := reportFits.check(c, agentstatus.Name, doing); err != nil {
		return err
	}
	question := r.Summary
	if len(r.Options) > 0 {
		question += " (" + strings.Join(r.Options, " / ") + ")"
	}
	document, _ := json.Marshal(map[string]string{"status": "blocked"})
	h := &handEnd{ending: task.Ending{Summary: r.Summary, ForHuman: []string{question}, Document: document}}
	result, err := h.resultDocument(f.taskClient, f.detail, time.Now())
	if err == nil {
		err = f.Files.Finish(c.Context(), f.detail.ID, result, time.Now())
	}
	if err != nil {
		return taskError(err, doing)
	}
	return acknowledge(f.app, "block", f.detail.ID, result.Status)
}

// returnHere removes the claim of a task in protocol 000.
func returnHere(c *cobra.Command, f *found, _ protocol.Report, doing string) error {
	if err := reportFits.check(c, agentstatus.Name, doing); err != nil {
		return err
	}
	if err := f.Files.Unclaim(c.Context(), f.detail.ID, time.Now()); err != nil {
		return taskError(err, doing)
	}
	return acknowledge(f.app, "return", f.detail.ID, agentstatus.StatePending)
}
