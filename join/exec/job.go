// Package exec runs a program in the foreground as an agent: registered, with a heartbeat, restarted on request.
package exec

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/livhana/steward/join/keep"
	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/agentstatus"
	"github.com/livhana/steward/status/terminal"
)

// The exit codes of a shell: for a command that cannot be executed, for a command that is not found, and the base for
// commands ended by a signal.
const (
	ExitNotRunnable = 126
	ExitNotFound    = 127
	ExitSignal      = 128
)

// StartError reports a command that could not be started.
type StartError struct{ Err error }

func (e *StartError) Error() string { return e.Err.Error() }
func (e *StartError) Unwrap() error { return e.Err }

// TakenError reports that another living process has the agent's name.
type TakenError struct{ Name string }

func (e *TakenError) Error() string { return e.Name + " is taken by another living process" }

// Options say what to run, and as which agent.
type Options struct {
	Path     string   // the program
	Argv     []string // its name and arguments
	Dir      string   // the project
	Name     string   // the agent's name
	Numbered bool     // the name was not given by the user: if it is taken, a number is appended
	Restart  string   // keep.Never, keep.OnFailure or keep.Always
	Leave    bool     // leave the processes alone that the command leaves behind
	Keep     keep.Config
	Keeper   protocol.Identity // this process
	// Client enters the agent in the registry of protocol 000; Registers is false where it is not entered.
	Client    *agentstatus.Client
	Registers bool
	// Pace is the interval between heartbeats of the named agent. Beat writes one, unless a daemon keeps the agent's heartbeat.
	Pace     func(name string) time.Duration
	Beat     func(ctx context.Context, name string, uptime time.Duration)
	Say      func(text string) // tells the user
	Now      func() time.Time
	Terminal bool // the user sees the command end
}

// job is a command that runs as an agent. One goroutine uses it.
type job struct {
	Options
	name     string
	fixed    bool // the agent keeps its name in the next life
	prepared bool // the project's folder was set up for this agent
}

// Run runs the command, restarts it if requested, and returns its last exit code.
func Run(o Options) (int, error) {
	return (&job{Options: o, name: o.Name, fixed: !o.Numbered}).run()
}

// life is one run of the command.
type life struct {
	*front
	began  time.Time
	mark   string
	asked  bool // the user had signaled the command shortly before its end
	ending keep.Ending
}

func (j *job) run() (int, error) {
	if !j.Leave {
		if err := proc.BecomeSubreaper(); err != nil && !errors.Is(err, errors.ErrUnsupported) {
			j.Say("exec: " + terminal.ErrorText(err) + "; some of what it leaves behind may stay")
		}
	}
	// From here on signals are forwarded to the command; they must not end this process first.
	signals := catchSignals()
	defer signals.stop()
	var history keep.History
	for {
		l, err := j.live(signals)
		if err != nil {
			return 0, err
		}
		d := keep.Next(j.name, j.Restart, history, l.ending, j.Now(), j.Keep)
		history = d.History
		if l.asked || d.Action != keep.Start || !j.pauseBefore(d, signals) {
			return j.depart(l, d), nil
		}
	}
}

// live runs one life, from the start of the command to the end of its leftover processes.
func (j *job) live(signals *signalSet) (*life, error) {
	l := &life{mark: fmt.Sprintf("exec-%d-%d", os.Getpid(), j.Now().UnixNano())}
	// Remove only the marks of a kept agent: the command still belongs to a surrounding task, rehearsal or lock.
	env := keep.Unmarked(os.Environ())
	for name, value := range map[string]string{proc.MarkName: l.mark, "STEWARD_AGENT": j.name, "STEWARD_PROJECT": j.Dir} {
		env = WithVariable(env, name, value)
	}
	var err error
	if l.front, err = startFront(j.Path, j.Argv, env, j.Now); err != nil {
		return nil, &StartError{fmt.Errorf("exec: %s", terminal.ErrorText(err))}
	}
	if err := j.enroll(l); err != nil {
		l.abandon()
		if errors.Is(err, agentstatus.ErrTaken) {
			return nil, &TakenError{j.name}
		}
		return nil, fmt.Errorf("exec: %w", err)
	}
	l.began = j.Now()
	l.release(j.name)
	j.attend(l, signals)
	if !j.Leave {
		j.clearUp(l, signals)
	}
	return l, nil
}

// enroll registers the agent under the given name, or under the first free numbered name.
func (j *job) enroll(l *life) error {
	if !j.Registers {
		return nil
	}
	// While this process lives, it reports the end of the command: the daemon sees the end before we can report its success.
	post := agentstatus.Registration{Process: protocol.Identity(l.id), Keeper: j.Keeper, Kept: true, Lay: !j.prepared}
	base := j.name
	for n := 1; ; n++ {
		post.Agent = j.name
		ctx, cancel := context.WithTimeout(context.Background(), enrollTime)
		err := j.Client.Enroll(ctx, post, j.Now())
		cancel()
		if j.prepared && errors.Is(err, agentstatus.ErrNotInitialized) {
			return nil // the folder was removed since the first life: do not recreate it, and let the agent run on
		}
		if j.fixed || !errors.Is(err, agentstatus.ErrTaken) || n > 1000 {
			if err == nil {
				j.fixed, j.prepared = true, true // the next life uses the same name
			}
			return err
		}
		j.name = base + "-" + strconv.Itoa(n+1)
	}
}

// enrollTime bounds an update of the registry: other processes may be writing it.
const enrollTime = 30 * time.Second

// attend waits for the end of the command, forwards signals, and keeps the agent's heartbeat.
func (j *job) attend(l *life, signals *signalSet) {
	beat := time.NewTicker(j.Pace(j.name)) // used where no daemon keeps the heartbeat
	defer beat.Stop()
	var beats sync.WaitGroup
	defer beats.Wait()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for {
		select {
		case s := <-signals.heard:
			l.forward(s)
		case <-beat.C:
			if j.Registers {
				beats.Go(func() { j.Beat(ctx, j.name, j.Now().Sub(l.began)) })
			}
		case <-l.changes():
			if e, over := l.look(); over {
				e.At = j.Now()
				if lived := e.At.Sub(l.began); lived >= j.Keep.Ready {
					e.Ready = l.began.Add(j.Keep.Ready)
				}
				l.ending = e
				l.drainSignals(signals)
				l.asked = l.signaledLately(e)
				return
			}
		}
	}
}

// clearUp ends the processes that the command left behind. Another signal shortens the grace period.
func (j *job) clearUp(l *life, signals *signalSet) {
	grace := j.Keep.Stop
	for {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			select {
			case <-signals.heard:
				cancel()
			case <-done:
			}
		}()
		root, _ := proc.Inspect(os.Getpid())
		_, left, err := proc.EndTree(ctx, root, l.mark, grace)
		close(done)
		again := ctx.Err() != nil && grace > 0
		cancel()
		l.reap()
		switch {
		case again:
			grace = 0
			continue
		case errors.Is(err, errors.ErrUnsupported):
		case err != nil || left > 0:
			j.Say(fmt.Sprintf("exec: %d processes that the command left behind would not end", left))
		}
		return
	}
}

// pauseBefore waits until the next life may begin; it returns false if the user interrupts.
func (j *job) pauseBefore(d keep.Decision, signals *signalSet) bool {
	j.Say(j.name + ": " + d.Why)
	told := false
	for wait := d.At.Sub(j.Now()); ; wait = heldEvery {
		timer := time.NewTimer(wait)
		select {
		case <-signals.heard:
			timer.Stop()
			return false
		case <-timer.C:
		}
		why := j.Client.Held(j.name, j.Now())
		if why == "" {
			return true
		}
		if !told {
			j.Say(fmt.Sprintf("%s is held (%s); it is started again after: steward release %s", j.name, terminal.OneWord(why), j.name))
			told = true
		}
	}
}

// heldEvery is the interval for polling whether the operator's hold has ended.
const heldEvery = time.Second

// depart records the agent's end in the registry, and returns the command's exit code.
func (j *job) depart(l *life, d keep.Decision) int {
	e := l.ending
	failed := !e.Well() && !l.asked
	why := e.String()
	if d.Action == keep.Fail {
		why = d.Why
		j.Say(j.name + " is given up: " + d.Why)
	}
	// At a terminal the user saw the command end, and it is not restarted: do not record its end as a failure.
	failed = failed && !(j.Restart == keep.Never && j.Terminal)
	if j.Registers {
		j.leaveRegistry(l, agentstatus.Leaving{Failed: failed, Why: why, Once: j.Numbered})
	}
	return codeOf(e)
}

// leaveRegistry records in the registry how the agent left.
func (j *job) leaveRegistry(l *life, how agentstatus.Leaving) {
	ctx, cancel := context.WithTimeout(context.Background(), enrollTime)
	defer cancel()
	err := j.Client.Leave(ctx, j.name, protocol.Identity(l.id), how, j.Now())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		j.Say("exec: say that " + j.name + " has left: " + terminal.ErrorText(err))
	}
}

// codeOf is the exit code that a shell would return.
func codeOf(e keep.Ending) int {
	if e.Signal == "" {
		return max(e.Code, 0)
	}
	return ExitSignal + signalNumber(e.Signal)
}

// signalSet receives the signals sent to this process.
type signalSet struct {
	heard chan os.Signal
	stop  func()
}

// goMessage tells the waiting child to execute the command. The agent's name follows it: the name may have got a number.
const goMessage = "go "

// cutGo parses the go message.
func cutGo(line string) (name string, ok bool) {
	name, ok = strings.CutPrefix(strings.TrimSuffix(line, "\n"), goMessage)
	return name, ok && name != ""
}

// WithVariable sets one variable of an environment.
func WithVariable(env []string, name, value string) []string {
	env = slices.DeleteFunc(slices.Clone(env), func(e string) bool { return strings.HasPrefix(e, name+"=") })
	return append(env, name+"="+value)
}

// signalBefore is the longest time between a signal and the end of a command that the signal is taken to have caused,
// when the exit status names no signal: many programs catch the signal, clean up and exit.
const signalBefore = 10 * time.Second

// drainSignals records the signals that arrived together with the end. The terminal interrupts the command and us at the same
// time, and we may see the command end before we receive our own signal.
func (l *life) drainSignals(signals *signalSet) {
	patience := time.NewTimer(signalAfter)
	defer patience.Stop()
	for {
		select {
		case s := <-signals.heard:
			l.noteSignal(s)
			continue
		default:
		}
		if !l.tty || l.ending.Well() || l.signaledLately(l.ending) {
			return
		}
		select {
		case s := <-signals.heard:
			l.noteSignal(s)
		case <-patience.C:
			return
		}
	}
}

// signalAfter is how long after the command's end the interrupt that ended it may arrive here, on a busy machine.
const signalAfter = 200 * time.Millisecond

// signaledLately reports whether a signal from the user ended the command.
func (l *life) signaledLately(e keep.Ending) bool {
	if l.lastSignal == nil || e.At.Sub(l.signalAt) > signalBefore {
		return false
	}
	s, ok := l.lastSignal.(syscall.Signal)
	return e.Signal == "" || ok && signalNumber(e.Signal) == int(s)
}
