package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/agentstatus"
)

// Settings come from the configuration: [worker], and the limits of [tasks].
type Settings struct {
	Poll, Beat  time.Duration // between scans without a hint; between heartbeats
	Stop        time.Duration // between stopping and killing a command; at shutdown, for writing results
	Output      int           // bytes kept of each of stdout and stderr
	Keep        time.Duration // how long output files are kept
	Programs    []string      // absolute: programs outside the project that execute may run, or folders of such programs
	Paths       []string      // absolute: where the paths of requests may lie, besides the project
	Writable    []string      // absolute: where else commands may write
	Confine     bool          // confine writing where the kernel supports it
	Environment []string      // names of variables that commands see; a trailing * matches anything

	Research, Validate, Deploy, DeployDryRun []string // the commands; empty: the task is blocked
	// Prompt is what {prompt} in a command stands for, of a task and the file of its request; nil: nothing.
	Prompt func(w agentstatus.Work, request string) string

	Timeout, MaxTimeout time.Duration // of tasks that name none; the upper bound
}

// Options are the worker's identity, settings and dependencies.
type Options struct {
	Settings
	Project     string            // absolute
	Agent       string            // the agent whose tasks it takes
	Process     protocol.Identity // this process
	Program     string            // the path of steward itself, the shim between the worker and a command
	Environ     []string          // the worker's own environment
	Temp        string            // the folder for temporary files
	Jobs        int               // the most tasks at once
	Once, Drain bool              // end after one task; end when no task is left
	Cores       int               // of the machine; 0: unknown
	Memory      uint64            // of the machine, in bytes; 0: unknown

	Client *agentstatus.Client
	// Gate says whether the machine has room for the task; if not, why, and when to ask again (0: at the next scan).
	Gate func(ctx context.Context, task string, throttle *float64) (ok bool, why string, wait time.Duration)
	// Supervised reports whether a daemon supervises the project.
	Supervised func() bool
	// Hints arrive when task files may have changed.
	Hints <-chan struct{}
	Now   func() time.Time // also called by the goroutines of tasks
	Say   func(text string)
}

// Tally counts what a worker has done.
type Tally struct {
	Taken   int
	Last    *agentstatus.Result // the last result; nil without one
	Unsaved []string            // tasks whose result could not be written
}

// Worker takes tasks. The goroutine of Run owns the Client and every field here. Each running task has one more
// goroutine, which sends functions to events for Run's goroutine to call.
type Worker struct {
	o       Options
	planner planner
	runner  *runner
	log     log
	events  chan func()

	jobs    map[string]*job // by task: running, or finished with a result that is not written yet
	tally   Tally
	started time.Time
	orphans map[string]bool // tasks of dead workers that are being concluded, each in its own goroutine

	scanNow   bool // scan for tasks at once
	nothing   bool // the last scan left no task to take
	diskFull  bool
	lastError string // the last write error

	stopping                                bool
	pollAt, beatAt, gateAt, sweepAt, stopBy time.Time
}

// job is one task in hand. The worker's goroutine owns it, except plan, which never changes, and ctx.
type job struct {
	task  agentstatus.Work
	plan  plan
	mark  string
	name  string // for messages
	began time.Time

	reported agentstatus.TaskProgress // the progress that this worker wrote last
	reportAt time.Time                // zero: no progress is requested

	result *agentstatus.Result // set when the run is over
	saveAt time.Time
	tries  int

	ctx  context.Context // ends when the run is to end; its cause says why
	halt context.CancelCauseFunc
}

// The reasons to end a run.
var (
	errCancelled = errors.New("the task was cancelled")
	errStopping  = errors.New("the worker ends")
	errDisowned  = errors.New("its claim is gone")
)

func newJob(ctx context.Context, task agentstatus.Work, p plan, mark string, now time.Time) *job {
	j := &job{task: task, plan: p, mark: mark, began: now, name: shortID(task.TaskID)}
	j.ctx, j.halt = context.WithCancelCause(context.WithoutCancel(ctx))
	return j
}

// halted returns why the run is to end; nil when it may go on.
func (j *job) halted() error { return context.Cause(j.ctx) }

// shortID shortens an id for messages.
func shortID(id string) string { return id[:min(8, len(id))] }

// inHand lists the jobs, the oldest first.
func (w *Worker) inHand() []*job {
	return slices.SortedFunc(maps.Values(w.jobs), func(a, b *job) int {
		return cmp.Or(a.began.Compare(b.began), cmp.Compare(a.task.TaskID, b.task.TaskID))
	})
}

// failed logs a failure that will be retried.
func (w *Worker) failed(doing string, err error) {
	w.log.once(doing, doing+": "+err.Error())
	w.lastError = err.Error()
	if outOfSpace(err) != w.diskFull {
		w.diskFull = !w.diskFull
		w.beatAt = w.o.Now()
	}
}

func outOfSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// log prints the worker's messages.
type log struct {
	print func(text string)
	told  map[string]string // the last message about each matter
}

func (l log) say(format string, args ...any) {
	l.print(line(fmt.Sprintf(format, args...), longestMessage))
}

// once prints a message about a matter, unless it has the Gist of the last message about it.
func (l log) once(matter, text string) {
	key := Gist(text)
	if l.told[matter] == key {
		return
	}
	if len(l.told) > 1000 {
		clear(l.told) // drops tasks that other workers have taken meanwhile
	}
	l.told[matter] = key
	l.say("%s", text)
}

// settled forgets the last message about a matter.
func (l log) settled(matter string) { delete(l.told, matter) }

// Largest precedes, in a gate's reason, the names of the largest consumers.
const Largest = "; largest: "

// Gist is what two messages have in common that say the same at different times: numbers and the largest consumers
// change all the time.
func Gist(text string) string {
	same, _, _ := strings.Cut(text, Largest)
	return digits().ReplaceAllString(same, "#")
}

var digits = lazily(`[0-9]+(?:\.[0-9]+)?`)

// lazily compiles a pattern on first use: a short steward command needs none.
func lazily(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}
