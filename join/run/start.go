package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/livhana/steward/platform/proc"
)

// shimCommand is the hidden steward command that calls Shim.
const shimCommand = "run-task"

// reportSlack is how far a shim may exceed its limits before it counts as broken: EndTree's own wait after the kill, and a
// reserve for a loaded machine.
const reportSlack = 30 * time.Second

// Running is a running command.
type Running struct {
	spec   Spec // without Stdin
	cmd    *exec.Cmd
	id     proc.Identity
	stderr excerpt // the shim's own error output
	// slack is how long after Limit or Stop a shim may take to report.
	slack time.Duration

	input    io.WriteCloser
	sent     chan struct{} // closed when the Spec is written
	deadline *time.Timer   // kills a shim that has not reported in time: a stopped or hanging shim would block Wait
	stop     sync.Once
	ended    chan struct{}
	outcome  Ended
	err      error
}

// Start starts the shim (the program self with its hidden command) and through it the command. Ended tells whether the
// command could be started. When ctx ends the run is stopped, as with Stop. The error is about an invalid Spec, or the
// shim. The caller must call Wait.
func Start(ctx context.Context, self string, s Spec) (*Running, error) {
	return start(ctx, exec.Command(self, shimCommand), s, reportSlack)
}

// start lets a test replace the shim and shorten the patience.
func start(ctx context.Context, shim *exec.Cmd, s Spec, patience time.Duration) (*Running, error) {
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("run a command: %w", err)
	}
	text, err := s.encode()
	if err != nil {
		return nil, fmt.Errorf("run a command: %w", err)
	}
	r := &Running{spec: s, cmd: shim, slack: s.Grace + patience, stderr: excerpt{keep: 8 << 10}, sent: make(chan struct{}), ended: make(chan struct{})}
	r.spec.Stdin = nil // may be large, and text contains it
	out, err := r.launch()
	if err != nil {
		return nil, fmt.Errorf("start the run's shim: %w", err)
	}
	go r.sendSpec(text)
	go r.follow(out, context.AfterFunc(ctx, r.Stop))
	return r, nil
}

// launch starts the shim. The shim does nothing until it has its Spec, so its identity can be read reliably.
func (r *Running) launch() (io.Reader, error) {
	detach(r.cmd)
	r.cmd.Stderr = &r.stderr
	r.cmd.WaitDelay = time.Second
	var err error
	if r.input, err = r.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := r.cmd.Start(); err != nil {
		return nil, err
	}
	if r.id, err = proc.Inspect(r.cmd.Process.Pid); err != nil {
		r.cmd.Process.Kill()
		return nil, errors.Join(err, r.cmd.Wait())
	}
	r.deadline = time.AfterFunc(r.spec.Limit+r.slack, func() { r.cmd.Process.Kill() })
	if r.spec.Limit == 0 {
		r.deadline.Stop()
	}
	return out, nil
}

// sendSpec writes the Spec. It leaves the input open: the shim would take a close for the death of this process.
func (r *Running) sendSpec(text []byte) {
	defer close(r.sent)
	r.input.Write(text) // a shim that does not read it ends without a report
}

// Shim is the shim process: while it lives, it supervises the tree.
func (r *Running) Shim() proc.Identity { return r.id }

// Stop requests the end of the whole tree and does not wait for it. A second call, or a call after the end, does
// nothing.
func (r *Running) Stop() {
	r.stop.Do(func() {
		r.deadline.Reset(r.slack)
		go func() {
			<-r.sent
			r.input.Write([]byte{stopByte})
		}()
	})
}

// Wait returns when nothing of the tree is left, except the processes that Ended.Unended counts. An error means that
// the shim ended without a report. Wait has then ended the processes that bear the mark, and only Ended.Unended is
// valid. All callers get the same result.
func (r *Running) Wait() (Ended, error) {
	<-r.ended
	return r.outcome, r.err
}

func (r *Running) follow(out io.Reader, unbind func() bool) {
	defer close(r.ended)
	defer unbind()
	var command proc.Identity
	var ended *Ended
	for d := json.NewDecoder(out); ended == nil; {
		var told report
		if err := d.Decode(&told); err != nil {
			break
		}
		if told.Command != nil {
			command = *told.Command
		}
		ended = told.Ended
	}
	err := r.cmd.Wait()
	r.deadline.Stop()
	if ended != nil {
		r.outcome = *ended
		return
	}
	r.outcome = Ended{Code: -1}
	_, r.outcome.Unended, _ = proc.EndTree(context.Background(), command, r.spec.Mark, r.spec.Grace)
	r.err = fmt.Errorf("the run's shim (process %d) ended without a report: %w", r.id.PID, r.withStderr(err))
}

func (r *Running) withStderr(err error) error {
	if err == nil {
		err = errors.New("exit status 0")
	}
	if words := strings.TrimSpace(r.stderr.output().Text); words != "" {
		return fmt.Errorf("%w: %s", err, words)
	}
	return err
}
