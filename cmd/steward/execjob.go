package main

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

	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/status/terminal"

	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/join/keep"
	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/agentstatus"
	"github.com/livhana/steward/supervisor"
)

// job is a command that runs as an agent.
type job struct {
	app *app
	execOptions
	dir, path string
	argv      []string
	name      string
	madeUp    bool // the name was not given by the user
	cfg       keep.Config
	limits    heartbeat.Config
	laid      bool                // the project's folder was set up for this agent
	client    *agentstatus.Client // used only by the goroutine that runs the job
	registers bool                // the agent is entered in the registry of protocol 000
}

// life is one run of the command.
type life struct {
	*front
	began  time.Time
	mark   string
	asked  bool // the user had signaled the command shortly before its end
	ending keep.Ending
}

// run runs the command, restarts it if requested, and returns its last exit code.
func (j *job) run(ctx context.Context) error {
	if !j.leave {
		if err := proc.BecomeSubreaper(); err != nil && !errors.Is(err, errors.ErrUnsupported) {
			fmt.Fprintln(j.app.err, "steward: exec: "+terminal.ErrorText(err)+"; some of what it leaves behind may stay")
		}
	}
	// From here on signals are forwarded to the command; they must not end this process first.
	signals := hearSignals()
	defer signals.stop()
	var history keep.History
	for {
		l, err := j.live(signals)
		if err != nil {
			return err
		}
		d := keep.Next(j.name, j.restart, history, l.ending, time.Now(), j.cfg)
		history = d.History
		if l.asked || d.Action != keep.Start || !j.pauseBefore(d, signals) {
			return j.depart(l, d)
		}
	}
}

// live runs one life, from the start of the command to the end of its leftover processes.
func (j *job) live(signals *signalEar) (*life, error) {
	l := &life{mark: fmt.Sprintf("exec-%d-%d", os.Getpid(), time.Now().UnixNano())}
	// Remove only the marks of a kept agent: the command still belongs to a surrounding task, rehearsal or lock.
	env := keep.Unmarked(os.Environ())
	for name, value := range map[string]string{proc.MarkName: l.mark, "STEWARD_AGENT": j.name, "STEWARD_PROJECT": j.dir} {
		env = withVariable(env, name, value)
	}
	var err error
	if l.front, err = startFront(j.path, j.argv, env); err != nil {
		return nil, notStarted(fmt.Errorf("exec: %s", terminal.ErrorText(err)), exitNotRunnable)
	}
	if err := j.enroll(l); err != nil {
		l.dismiss()
		if errors.Is(err, agentstatus.ErrTaken) {
			return nil, terminal.Report(supervisor.ErrRefused, "exec: %s is taken by another living process; use another name with --agent", j.name)
		}
		return nil, fmt.Errorf("exec: %w", err)
	}
	l.began = time.Now()
	l.release(j.name)
	j.attend(l, signals)
	if !j.leave {
		j.clearUp(l, signals)
	}
	return l, nil
}

// enroll registers the agent under the given name, or under the first free numbered name.
func (j *job) enroll(l *life) error {
	if !j.registers {
		return nil
	}
	// While this process lives, it reports the end of the command: the daemon sees the end before we can report its success.
	post := agentstatus.Registration{Process: protocol.Identity(l.id), Keeper: daemon.SelfIdentity(), Kept: true, Lay: !j.laid}
	base := j.name
	for n := 1; ; n++ {
		post.Agent = j.name
		ctx, cancel := context.WithTimeout(context.Background(), enrollTime)
		err := j.client.Enroll(ctx, post, time.Now())
		cancel()
		if j.laid && errors.Is(err, agentstatus.ErrNotInitialized) {
			return nil // the folder was removed since the first life: do not recreate it, and let the agent run on
		}
		if j.agent != "" || !errors.Is(err, agentstatus.ErrTaken) || n > 1000 {
			if err == nil {
				j.agent, j.laid = j.name, true // the next life uses the same name
			}
			return err
		}
		j.name = base + "-" + strconv.Itoa(n+1)
	}
}

// enrollTime bounds an update of the registry: other processes may be writing it.
const enrollTime = 30 * time.Second

// attend waits for the end of the command, forwards signals, and keeps the agent's heartbeat.
func (j *job) attend(l *life, signals *signalEar) {
	beat := time.NewTicker(j.limits.For(agentstatus.Name, j.name).Pace()) // used where no daemon keeps the heartbeat
	defer beat.Stop()
	var beats sync.WaitGroup
	defer beats.Wait()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for {
		select {
		case s := <-signals.heard:
			l.hear(s)
		case <-beat.C:
			beats.Go(func() { j.beat(ctx, l) })
		case <-l.changes():
			if e, over := l.look(); over {
				e.At = time.Now()
				if lived := e.At.Sub(l.began); lived >= j.cfg.Ready {
					e.Ready = l.began.Add(j.cfg.Ready)
				}
				l.ending = e
				l.hearLast(signals)
				l.asked = l.heardLately(e)
				return
			}
		}
	}
}

// beat keeps the heartbeat as the daemon does, unless a daemon keeps it or the agent writes its own.
func (j *job) beat(ctx context.Context, l *life) {
	if !j.registers || j.app.supervised(ctx, j.dir) {
		return
	}
	p := agentstatus.New(j.dir, agentstatus.Options{Guard: daemon.GuardLock})
	defer p.Close()
	_ = p.Keep(map[string]time.Duration{j.name: time.Since(l.began)}, time.Now()) // the next beat may succeed
}

// clearUp ends the processes that the command left behind. Another signal shortens the grace period.
func (j *job) clearUp(l *life, signals *signalEar) {
	grace := j.cfg.Stop
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
			fmt.Fprintf(j.app.err, "steward: exec: %d processes that the command left behind would not end\n", left)
		}
		return
	}
}

// pauseBefore waits until the next life may begin; it returns false if the user interrupts.
func (j *job) pauseBefore(d keep.Decision, signals *signalEar) bool {
	fmt.Fprintln(j.app.err, "steward: "+j.name+": "+d.Why)
	told := false
	for wait := time.Until(d.At); ; wait = heldEvery {
		timer := time.NewTimer(wait)
		select {
		case <-signals.heard:
			timer.Stop()
			return false
		case <-timer.C:
		}
		why := j.client.Held(j.name, time.Now())
		if why == "" {
			return true
		}
		if !told {
			fmt.Fprintf(j.app.err, "steward: %s is held (%s); it is started again after: steward release %s\n", j.name, terminal.OneWord(why), j.name)
			told = true
		}
	}
}

// heldEvery is the interval for polling whether the operator's hold has ended.
const heldEvery = time.Second

// depart records the agent's end in the registry, and returns the command's exit code.
func (j *job) depart(l *life, d keep.Decision) error {
	e := l.ending
	failed := !e.Well() && !l.asked
	why := e.String()
	if d.Action == keep.Fail {
		why = d.Why
		fmt.Fprintln(j.app.err, "steward: "+j.name+" is given up: "+d.Why)
	}
	// At a terminal the user saw the command end, and it is not restarted: do not record its end as a failure.
	failed = failed && !(j.restart == keep.Never && terminal.IsTerminal(j.app.err))
	if j.registers {
		j.leaveRegistry(l, agentstatus.Leaving{Failed: failed, Why: why, Once: j.madeUp})
	}
	if code := codeOf(e); code != 0 {
		return quiet{code}
	}
	return nil
}

// leaveRegistry records in the registry how the agent left.
func (j *job) leaveRegistry(l *life, how agentstatus.Leaving) {
	ctx, cancel := context.WithTimeout(context.Background(), enrollTime)
	defer cancel()
	err := j.client.Leave(ctx, j.name, protocol.Identity(l.id), how, time.Now())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintln(j.app.err, "steward: exec: say that "+j.name+" has left: "+terminal.ErrorText(err))
	}
}

// codeOf is the exit code that a shell would return.
func codeOf(e keep.Ending) int {
	if e.Signal == "" {
		return max(e.Code, 0)
	}
	return exitSignal + signalNumber(e.Signal)
}

// signalEar receives the signals sent to this process.
type signalEar struct {
	heard chan os.Signal
	stop  func()
}

// theWord tells the waiting child to execute the command. The agent's name follows it: the name may have got a number.
const theWord = "go "

// cutWord parses the go message.
func cutWord(line string) (name string, ok bool) {
	name, ok = strings.CutPrefix(strings.TrimSuffix(line, "\n"), theWord)
	return name, ok && name != ""
}

// withVariable sets one variable of an environment.
func withVariable(env []string, name, value string) []string {
	env = slices.DeleteFunc(slices.Clone(env), func(e string) bool { return strings.HasPrefix(e, name+"=") })
	return append(env, name+"="+value)
}

// heardBefore is the longest time between a signal and the end of a command that the signal is taken to have caused,
// when the exit status names no signal: many programs catch the signal, clean up and exit.
const heardBefore = 10 * time.Second

// hearLast records the signals that arrived together with the end. The terminal interrupts the command and us at the same
// time, and we may see the command end before we receive our own signal.
func (l *life) hearLast(signals *signalEar) {
	patience := time.NewTimer(heardAfter)
	defer patience.Stop()
	for {
		select {
		case s := <-signals.heard:
			l.lastSignal, l.signalAt = s, time.Now()
			continue
		default:
		}
		if !l.tty || l.ending.Well() || l.heardLately(l.ending) {
			return
		}
		select {
		case s := <-signals.heard:
			l.lastSignal, l.signalAt = s, time.Now()
		case <-patience.C:
			return
		}
	}
}

// heardAfter is how long after the command's end the interrupt that ended it may arrive here, on a busy machine.
const heardAfter = 200 * time.Millisecond

// heardLately reports whether a signal from the user ended the command.
func (l *life) heardLately(e keep.Ending) bool {
	if l.lastSignal == nil || e.At.Sub(l.signalAt) > heardBefore {
		return false
	}
	s, ok := l.lastSignal.(syscall.Signal)
	return e.Signal == "" || ok && signalNumber(e.Signal) == int(s)
}
