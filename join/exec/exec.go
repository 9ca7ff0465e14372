// Package exec runs a program in the foreground as an agent: registered, with a heartbeat, restarted on request.
package exec

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/livhana/steward/join/keep"
	"github.com/livhana/steward/join/run"
	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/agentstatus"
	"github.com/livhana/steward/status/terminal"
)

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
	// Other is the project's protocol where it is another one: it lists the agent where it has a place for that. nil: none.
	Other protocol.Participant
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
	fixed    bool             // the agent keeps its name in the next life
	prepared bool             // the project's folder was set up for this agent
	heard    <-chan os.Signal // the signals to forward
}

// life is one run of the command.
type life struct {
	*front
	began  time.Time
	mark   string
	asked  bool // the user had signaled the command shortly before its end
	ending keep.Ending
}

// Run runs the command, restarts it if requested, and returns its last exit code. Errors: *run.StartError, *TakenError.
func Run(o Options) (int, error) {
	j := &job{Options: o, name: o.Name, fixed: !o.Numbered}
	if !j.Leave {
		if err := proc.BecomeSubreaper(); err != nil && !errors.Is(err, errors.ErrUnsupported) {
			j.Say("exec: " + terminal.ErrorText(err) + "; some of what it leaves behind may stay")
		}
	}
	// From here on signals are forwarded to the command; they must not end this process first.
	heard, stop := run.ForwardSignals()
	defer stop()
	j.heard = heard
	var history keep.History
	for {
		l, err := j.live()
		if err != nil {
			return 0, err
		}
		d := keep.Next(j.name, j.Restart, history, l.ending, j.Now(), j.Keep)
		history = d.History
		if l.asked || d.Action != keep.Start || !j.pauseBefore(d) {
			return j.depart(l, d), nil
		}
	}
}

// live runs one life, from the start of the command to the end of its leftover processes.
func (j *job) live() (*life, error) {
	l := &life{mark: fmt.Sprintf("exec-%d-%d", os.Getpid(), j.Now().UnixNano())}
	// Remove only the marks of a kept agent: the command still belongs to a surrounding task, rehearsal or lock.
	env := keep.Unmarked(os.Environ())
	for name, value := range map[string]string{proc.MarkName: l.mark, agentVariable: j.name, "STEWARD_PROJECT": j.Dir} {
		env = run.WithVariable(env, name, value)
	}
	var err error
	if l.front, err = startFront(j.Path, j.Argv, env); err != nil {
		return nil, &run.StartError{Code: run.CodeNotRunnable, Err: fmt.Errorf("exec: %s", terminal.ErrorText(err))}
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
	j.attend(l)
	if !j.Leave {
		j.clearUp(l)
	}
	return l, nil
}

// enroll registers the agent under the given name, or under the first free numbered name.
func (j *job) enroll(l *life) error {
	if !j.Registers {
		j.join(l)
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

// join registers the agent in a protocol other than 000, or renews its sign of life there. The program runs even if that fails.
func (j *job) join(l *life) {
	if j.Other == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), enrollTime)
	defer cancel()
	if err := j.Other.Join(ctx, j.agentRun(l), j.Now()); err != nil && !errors.Is(err, protocol.ErrAbsent) {
		j.Say("exec: register " + j.name + ": " + terminal.ErrorText(err))
	}
}

func (j *job) agentRun(l *life) protocol.AgentRun {
	return protocol.AgentRun{Agent: j.name, Process: protocol.Identity(l.id)}
}

// enrollTime bounds an update of the registry: other processes may be writing it.
const enrollTime = 30 * time.Second

// attend waits for the end of the command, forwards signals, and keeps the agent's heartbeat.
func (j *job) attend(l *life) {
	beat := time.NewTicker(j.Pace(j.name)) // used where no daemon keeps the heartbeat
	defer beat.Stop()
	var beats sync.WaitGroup
	defer beats.Wait()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for {
		select {
		case s := <-j.heard:
			l.forward(s, j.Now())
		case <-beat.C:
			if j.Registers {
				beats.Go(func() { j.Beat(ctx, j.name, j.Now().Sub(l.began)) })
			} else {
				j.join(l)
			}
		case <-l.children:
			e, over := l.look()
			if !over {
				continue
			}
			l.ending = e
			l.ending.At = j.Now()
			if ready := l.began.Add(j.Keep.Ready); !l.ending.At.Before(ready) {
				l.ending.Ready = ready
			}
			l.asked = j.wasAsked(l)
			return
		}
	}
}

// signalAfter is how long after the command's end the interrupt that ended it may arrive here, on a busy machine.
const signalAfter = 200 * time.Millisecond

// wasAsked reports whether a signal of the user ended the command. The terminal interrupts the command and us at the
// same time, and we may see the command end before we receive our own signal.
func (j *job) wasAsked(l *life) bool {
	patience := time.NewTimer(signalAfter)
	defer patience.Stop()
	for {
		select {
		case s := <-j.heard:
			l.noteSignal(s, j.Now())
			continue
		default:
		}
		asked := l.signaledBefore(l.ending)
		if asked || !l.tty || l.ending.Well() {
			return asked
		}
		select {
		case s := <-j.heard:
			l.noteSignal(s, j.Now())
		case <-patience.C:
			return false
		}
	}
}

// clearUp ends the processes that the command left behind. Another signal ends the grace period.
func (j *job) clearUp(l *life) {
	root, _ := proc.Inspect(os.Getpid())
	for grace := j.Keep.Stop; ; grace = 0 {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			select {
			case <-j.heard:
				cancel()
			case <-done:
			}
		}()
		_, left, err := proc.EndTree(ctx, root, l.mark, grace)
		close(done)
		again := ctx.Err() != nil && grace > 0
		cancel()
		reap()
		if again {
			continue
		}
		if err != nil || left > 0 {
			j.Say(fmt.Sprintf("exec: %d processes that the command left behind would not end", left))
		}
		return
	}
}

// heldEvery is the interval for polling whether the operator's hold has ended.
const heldEvery = time.Second

// pauseBefore waits until the next life may begin; it returns false if the user interrupts.
func (j *job) pauseBefore(d keep.Decision) bool {
	j.Say(j.name + ": " + d.Why)
	told := false
	for wait := d.At.Sub(j.Now()); ; wait = heldEvery {
		timer := time.NewTimer(wait)
		select {
		case <-j.heard:
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

// depart records the agent's end in the registry, and returns the command's exit code.
func (j *job) depart(l *life, d keep.Decision) int {
	how := agentstatus.Leaving{Failed: !l.ending.Well() && !l.asked, Why: l.ending.String(), Once: j.Numbered}
	if d.Action == keep.Fail {
		how.Why = d.Why
		j.Say(j.name + " is given up: " + d.Why)
	}
	// At a terminal the user saw the command end, and it is not restarted: do not record its end as a failure.
	how.Failed = how.Failed && !(j.Restart == keep.Never && j.Terminal)
	if j.Registers {
		ctx, cancel := context.WithTimeout(context.Background(), enrollTime)
		defer cancel()
		if err := j.Client.Leave(ctx, j.name, protocol.Identity(l.id), how, j.Now()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			j.Say("exec: take " + j.name + " off the list of agents: " + terminal.ErrorText(err))
		}
	}
	if j.Other != nil {
		ctx, cancel := context.WithTimeout(context.Background(), enrollTime)
		defer cancel()
		if err := j.Other.Leave(ctx, j.agentRun(l), j.Now()); err != nil && !errors.Is(err, protocol.ErrAbsent) {
			j.Say("exec: take " + j.name + " off the list of agents: " + terminal.ErrorText(err))
		}
	}
	return run.ShellCode(l.ending.Code, l.ending.Signal)
}
