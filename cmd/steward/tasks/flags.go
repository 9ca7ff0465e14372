package tasks

import (
	"fmt"
	"time"

	"github.com/livhana/steward/join/task"
	"github.com/spf13/cobra"
)

// submission holds the flags of `steward task submit`.
type submission struct {
	place
	instructions
	order            task.Order
	parameters       []string
	payload, request string
	after            []string
	nextOf           string
	approved, wait   bool
	throttle         float64
}

func (s *submission) flags(c *cobra.Command) {
	o, f := &s.order, c.Flags()
	s.place.flags(c)
	s.instructionFlags(c)
	f.StringVar(&o.To, "to", executor, "the agent that is to do it: `NAME` (in other protocols: as the protocol implies)")
	f.StringVar(&o.From, "from", orchestrator, "the agent that asks: `NAME` (in other protocols: as the protocol implies)")
	f.StringVar(&o.ID, "id", "", "the task's `ID`, in agentstatus a UUID (default: a new one)")
	f.StringVar(&o.Priority, "priority", "", "`WORD`: critical, high, medium or low (default medium)")
	f.DurationVar(&o.Timeout, "timeout", 300*time.Second, "how long one run may take: `DURATION`, an hour at most")
	f.Float64Var(&s.throttle, "throttle", 0, "wait while the agent or the machine is fuller than this `SHARE`, 0 to 1 (default: as configured)")
	f.BoolVar(&o.Blocking, "blocking", false, "say that the orchestrator waits for it (--wait says so too)")
	f.DurationVar(&o.Progress, "progress", 0, "ask for progress reports at this `INTERVAL` (--progress alone: 30s)")
	f.Lookup("progress").NoOptDefVal = "30s"
	f.StringVar(&o.Directive, "directive", "", "what the human asked for, as `TEXT`")
	f.StringVar(&o.Session, "session", "", "the orchestrator's session: `UUID`")
	f.BoolVar(&o.Voice, "voice", true, "speak of the task when it needs the human; --voice=false: never")
	f.StringArrayVar(&o.Related, "related", nil, "a related task's `ID` (may be repeated)")
	f.StringArrayVar(&o.Modify, "modify", nil, "a `FILE` that it is to change (may be repeated)")
	f.StringArrayVar(&o.Read, "read", nil, "a `FILE` that it is to read (may be repeated)")
	f.StringArrayVar(&o.Artifacts, "artifact", nil, "a `FILE` that must be there at the end (may be repeated)")
	f.StringArrayVar(&s.parameters, "param", nil, "a further parameter `KEY=VALUE`; JSON where it parses, else text (may be repeated)")
	f.StringVar(&s.payload, "payload", "", "a `FILE` with the payload object, or with its parameters alone; - for standard input")
	f.StringVar(&s.request, "request", "", "a `FILE` with a whole request; - for standard input")
	f.BoolVar(&o.DryRun, "dry-run", false, "only say what would be done")
	f.StringArrayVar(&s.after, "after", nil, "do it after this `TASK` is completed (may be repeated)")
	f.StringVar(&s.nextOf, "next-of", "", "take up the next action `TASK[:N]` of a task's result")
	f.BoolVar(&s.approved, "approved", false, "the human agrees to a next action that needs a decision")
	f.BoolVar(&s.wait, "wait", false, "wait for the end, show progress, exit with the task's exit code")
	s.typeFlags(c)
}

// typeFlags adds the flags that apply to one task type only.
func (s *submission) typeFlags(c *cobra.Command) {
	for _, own := range task.OwnFlags {
		usage := own.Type + ": " + own.Usage
		switch v := own.Default.(type) {
		case string:
			c.Flags().String(own.Name, v, usage)
		case []string:
			c.Flags().StringArray(own.Name, v, usage)
		case bool:
			c.Flags().Bool(own.Name, v, usage)
		}
	}
}

// own reads the flags that apply to one task type only.
func (s *submission) own(c *cobra.Command) error {
	f := c.Flags()
	s.order.Own = map[string]any{}
	for _, own := range task.OwnFlags {
		if !f.Changed(own.Name) {
			continue
		}
		if own.Type != s.order.Type {
			return fmt.Errorf("--%s belongs to %s, not to %s", own.Name, own.Type, s.order.Type)
		}
		if own.Key == "" {
			continue // part of the command
		}
		switch own.Default.(type) {
		case string:
			s.order.Own[own.Key], _ = f.GetString(own.Name)
		case []string:
			s.order.Own[own.Key], _ = f.GetStringArray(own.Name)
		case bool:
			s.order.Own[own.Key], _ = f.GetBool(own.Name)
		}
	}
	return nil
}
