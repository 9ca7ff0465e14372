package tasks

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/livhana/steward/cmd/steward/cli"
	"github.com/livhana/steward/join/task"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/agentstatus"
	"github.com/livhana/steward/status/terminal"
	"github.com/spf13/cobra"
)

// handEnd holds the flags of done and fail.
type handEnd struct {
	place
	messageKeys
	ending  task.Ending
	agent   string
	to      string
	issues  []string
	spec    string
	metrics []string
	result  string
	failure agentstatus.TaskError
}

func (h *handEnd) flags(c *cobra.Command) {
	f := c.Flags()
	h.place.flags(c)
	h.messageKeys.flags(c)
	agentFlag(c, &h.agent)
	f.StringVar(&h.to, "to", "", "the `AGENT` that gets the report (default: as the protocol implies)")
	f.StringVar(&h.spec, "spec", "", "handoffs: the specification that the next agent follows, a `FILE`")
	f.StringArrayVar(&h.issues, "issue", nil, "what is wrong: `TEXT` (may be repeated)")
	f.StringVar(&h.ending.Summary, "summary", "", "what was done, for people: `TEXT`")
	f.StringArrayVar(&h.ending.Artifacts, "artifact", nil, "a `FILE` that was made (may be repeated)")
	f.StringArrayVar(&h.ending.Modified, "modified", nil, "a `FILE` that was changed (may be repeated)")
	f.StringArrayVar(&h.metrics, "metric", nil, "a figure `KEY=VALUE`; JSON where it parses, else text (may be repeated)")
	f.StringArrayVar(&h.ending.Next, "next", nil, "what should be done next: `TEXT` (may be repeated)")
	f.StringArrayVar(&h.ending.ForHuman, "next-for-human", nil, "what a human must decide: `TEXT` (may be repeated)")
	f.StringVar(&h.result, "result", "", "a `FILE` with the result document; - for standard input. Other flags override it")
}

func newDoneCommand(a *cli.App) *cobra.Command {
	h := &handEnd{}
	c := &cobra.Command{
		Use:   "done TASK",
		Short: "Say that a task is completed that you worked on by hand",
		Long: "done writes the task's result, ends your claim, and tells the log. The first result of a task stands; a later one is\n" +
			"put on record and refused (5), also while steward keeps back the next run of a task that failed.",
		Example: "  steward task done 7c0e --summary \"all checks pass\" --artifact report.md --metric tests=412\n" +
			"  steward task done 7c0e --next \"Run the smoke test\" --next-for-human \"Approve the DNS switch\"\n" +
			"  steward task done 7c0e --result result.json",
		Args: cobra.ExactArgs(1), ValidArgsFunction: cli.CompleteNames(a, "task"),
		RunE: func(c *cobra.Command, args []string) error {
			return endByHand(c, a, h, args[0], "end task "+args[0])
		},
	}
	h.flags(c)
	return c
}

func newFailCommand(a *cli.App) *cobra.Command {
	h := &handEnd{}
	c := &cobra.Command{
		Use:   "fail TASK --code CODE --message TEXT",
		Short: "Say that a task has failed that you worked on by hand",
		Long: "fail writes a result with an error, ends your claim, and tells the log. The codes of the protocol are CAPACITY_EXCEEDED,\n" +
			"FILE_NOT_FOUND, PERMISSION_DENIED, TIMEOUT, EXECUTION_FAILED, VALIDATION_FAILED, GIT_CONFLICT and UNKNOWN_ERROR;\n" +
			"steward's rules say which of them are retried.",
		Example: "  steward task fail 7c0e --code FILE_NOT_FOUND --message \"the report is missing\" --file report.md\n" +
			"  steward task fail 7c0e --code GIT_CONFLICT --message \"merge by hand\" --file main.go --line 12",
		Args: cobra.ExactArgs(1), ValidArgsFunction: cli.CompleteNames(a, "task"),
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case strings.TrimSpace(h.failure.Message) == "":
				return cli.Usagef("fail task %s: missing --message TEXT", terminal.OneWord(args[0]))
			case h.failure.Line < 0:
				return cli.Usagef("fail task %s: --line %d: lines count from 1", terminal.OneWord(args[0]), h.failure.Line)
			}
			h.ending.Failure = &h.failure
			return endByHand(c, a, h, args[0], "fail task "+args[0])
		},
	}
	h.flags(c)
	f := c.Flags()
	f.StringVar(&h.failure.Code, "code", "", "the error's `CODE`")
	f.StringVar(&h.failure.Message, "message", "", "error message `TEXT`")
	f.StringVar(&h.failure.Severity, "severity", "", "`WORD`: fatal, error or warning (default: the code's)")
	f.StringVar(&h.failure.File, "file", "", "the `FILE` that it is about")
	f.IntVar(&h.failure.Line, "line", 0, "line `NUMBER` in the file")
	return c
}

// endByHand writes the result that the command line describes.
func endByHand(c *cobra.Command, a *cli.App, h *handEnd, id, doing string) error {
	ctx := c.Context()
	f, err := h.find(ctx, a, id, doing)
	if err != nil {
		return err
	}
	defer f.close()
	if err := endFits.check(c, f.protocol(), doing); err != nil {
		return err
	}
	if f.other != nil {
		if err := h.alone(c, doing, nil, "summary", "artifact", "modified", "issue", "next"); err != nil {
			return err
		}
		r, err := h.report()
		if err != nil {
			return taskError(err, doing)
		}
		return f.other.report(ctx, f.task, r, doing)
	}
	if h.ending.Failure != nil && strings.TrimSpace(h.failure.Code) == "" {
		return cli.Usagef("%s: missing --code CODE", doing)
	}
	h.failure.Severity = cmp.Or(h.failure.Severity, task.Severity(h.failure.Code))
	now := time.Now()
	r, err := h.resultDocument(f.taskClient, f.detail, now)
	if err != nil {
		return taskError(err, doing)
	}
	if err := f.Files.Finish(ctx, f.detail.ID, r, now); err != nil {
		return taskError(err, doing)
	}
	return acknowledge(a, "finish", f.detail.ID, r.Status)
}

// report is the report of the command line for the protocols 001 to 004.
func (h *handEnd) report() (r protocol.Report, err error) {
	e := h.ending
	r = protocol.Report{Kind: protocol.ReportDone, Agent: role(h.agent, ""), To: h.to, Summary: e.Summary, Created: e.Artifacts, Modified: e.Modified, Issues: h.issues, Next: e.Next}
	if e.Failure != nil {
		r.Kind, r.Failure = protocol.ReportFailed, &protocol.Failure{Code: h.failure.Code, Message: h.failure.Message, Severity: h.failure.Severity}
		r.Summary = cmp.Or(r.Summary, h.failure.Message)
	}
	r.Fields, r.Document, err = h.messageKeys.read()
	if _, set := r.Fields["payload.spec"]; err == nil && h.spec != "" && !set {
		r.Fields["payload.spec"] = h.spec
	}
	return r, err
}

func (h *handEnd) resultDocument(d *taskClient, detail agentstatus.Detail, now time.Time) (r agentstatus.Result, err error) {
	e := &h.ending
	e.Agent = executor
	if detail.Request != nil && detail.Request.Target != "" {
		e.Agent = detail.Request.Target
	}
	if k := detail.Claim; k != nil {
		e.Agent, e.Took = k.Agent, now.Sub(k.At)
	}
	e.Artifacts, e.Modified = absolute(d.Dir, e.Artifacts), absolute(d.Dir, e.Modified)
	if h.failure.File != "" {
		h.failure.File = absolute(d.Dir, []string{h.failure.File})[0]
	}
	if e.Metrics, err = task.ParseParameters("--metric", h.metrics); err != nil {
		return r, err
	}
	if name := cmp.Or(h.result, h.document); name != "" {
		if e.Document, err = input(name); err != nil {
			return r, fmt.Errorf("read the result: %w", err)
		}
	}
	return e.Result(now)
}
