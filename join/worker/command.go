package worker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"time"

	"github.com/livhana/steward/join/task"
	"github.com/livhana/steward/platform/confine"
	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/protocol/agentstatus"
)

// Command is a run for a task of another protocol. It runs as the commands of protocol 000 do: confined, with a folder of
// its own for temporary files, below a shim that ends the whole tree.
type Command struct {
	Task  string   // its id
	Argv  []string // complete: no placeholders are replaced
	Dir   string   // working folder, absolute
	Stdin []byte   // nil: no input
	Env   []string // KEY=value, in addition to the allowed variables of Options.Environ and those of the task
	Limit time.Duration
	Log   string // absolute path of the file that gets the output, appended; "" for none
}

// Ended is how a Command ended.
type Ended struct {
	// Result judges the exit: completed, failed or timeout, with the errors of protocol 000 and of steward (RATE_LIMITED).
	Result agentstatus.Result
	// Output is what the command wrote to its standard output: all of it, or its beginning and end.
	Output string
}

// ErrStopped is the cause with which ctx ends a Command whose worker ends, ErrDisowned where another worker may have the
// task now.
var (
	ErrStopped  = errStopping
	ErrDisowned = errDisowned
)

// Run runs a command until its whole tree has ended. What is left of an older run of the task is ended first.
func (o *Options) Run(ctx context.Context, c Command) Ended {
	r := &runner{o: *o, confine: o.Confine && confine.Supported()}
	sum := sha256.Sum256([]byte(o.Project + "\x00" + o.Agent + "\x00" + c.Task))
	j := &job{mark: "role-" + hex.EncodeToString(sum[:8]), ctx: ctx, plan: plan{task: c.Task, kind: task.Research, name: filepath.Base(c.Argv[0]),
		argv: c.Argv, dir: c.Dir, stdin: c.Stdin, limit: c.Limit, about: c.Env, onto: true, capture: true}}
	j.task.TaskID = c.Task
	if err := r.endOlder(context.WithoutCancel(ctx), c.Task); err != nil {
		return Ended{Result: withError(statusFailed, newError(codeStillRunning, severityError, "%s was not started because an older run of the task has not ended: %v", j.plan.name, err))}
	}
	r.clearTemp(j.mark) // the mark is the same for all runs of the task
	e, err := r.execute(j, c.Log, func(proc.Identity) {})
	if err != nil {
		o.Say("remove a run's temporary files: " + err.Error())
	}
	a := attempt{plan: j.plan, ended: e, asked: j.halted(), paths: allow(o.Project, o.Paths), output: o.Output}
	return Ended{a.result(), e.Stdout.Text}
}

// Limited returns a usage limit message in a text, with the time of its end where it is known; "" if the text has none.
func Limited(text string) string { return limited(text) }
