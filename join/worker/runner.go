package worker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/livhana/steward/join/run"
	"github.com/livhana/steward/join/task"
	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/protocol/jsonfile"
)

// runner runs commands. It never changes, so that the goroutines of all tasks can use it.
type runner struct {
	o       Options
	confine bool // commands may write only to allowed folders
}

// leastKept is the least output, in bytes, that is kept to find out why a command failed, even if less of it goes into
// the result.
const leastKept = 16 << 10

// spec is the command with its limits.
func (r *runner) spec(j *job, log string) run.Spec {
	about := append([]string{"STEWARD_TASK_ID=" + j.task.TaskID, "STEWARD_PROJECT=" + r.o.Project}, j.plan.about...)
	s := run.Spec{Argv: j.plan.argv, Dir: j.plan.dir, Env: environment(r.o.Environ, r.o.Environment, about, r.o.Confine), Limit: j.plan.limit,
		Grace: r.o.Stop, Keep: max(r.o.Output, leastKept), Log: log, Onto: j.plan.onto, Mark: j.mark}
	if j.plan.kind != task.Execute {
		s.Stdin = j.plan.stdin
	}
	return s
}

// execute runs a job's command with its own temporary folder, and waits for its end. The error is about that folder's
// removal.
func (r *runner) execute(j *job, log string, started func(shim proc.Identity)) (ended run.Ended, leftover error) {
	begin := r.o.Now()
	failed := func(fault string, err error) run.Ended {
		return run.Ended{Start: begin, End: r.o.Now(), Code: -1, Fault: fault, Problem: err.Error()}
	}
	temp, err := r.temporary(j.mark)
	if err != nil {
		return failed(faultOf(err), err), nil
	}
	defer func() { leftover = removeAll(temp) }()
	s := r.spec(j, log)
	for _, name := range tempVariables {
		s.Env = append(s.Env, name+"="+temp)
	}
	if r.confine {
		s.Write = slices.Concat([]string{r.o.Project, temp}, r.o.Paths, r.o.Writable)
	}
	running, err := run.Start(j.ctx, r.o.Program, s)
	if err != nil {
		return failed(faultOf(err), err), nil
	}
	started(running.Shim())
	e, err := running.Wait()
	if err != nil {
		unended := e.Unended
		e = failed(faultBroken, err)
		e.Unended = unended
	}
	return e, nil
}

func faultOf(err error) string {
	for _, short := range []error{syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE, syscall.ENOSPC} {
		if errors.Is(err, short) {
			return run.Resources
		}
	}
	return run.Other
}

// endOlder ends what is left of older runs of the task: the processes that carry the marks of both the task and the
// project.
func (r *runner) endOlder(ctx context.Context, id string) error {
	mark := "STEWARD_TASK_ID=" + id
	if slices.Contains(r.o.Environ, mark) {
		return nil // this worker runs inside the task: the processes with the mark are its own parents
	}
	ofTask, err := proc.Marked("STEWARD_TASK_ID", id)
	if err == nil && len(ofTask) == 0 {
		return nil
	}
	ofProject, err2 := proc.Marked("STEWARD_PROJECT", r.o.Project)
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	for _, p := range ofTask {
		same := func(q proc.Process) bool { return q.Identity == p.Identity }
		if !slices.ContainsFunc(ofProject, same) {
			continue
		}
		_, left, err := proc.EndTree(ctx, p.Identity, "", r.o.Stop)
		if err != nil {
			return err
		}
		if left > 0 {
			return fmt.Errorf("process %d does not end", p.PID)
		}
	}
	return nil
}

// temporary creates a folder for one run's temporary files, accessible only to this user. Write access to the whole
// system temporary folder would be too much: it holds sockets and files of other programs.
func (r *runner) temporary(mark string) (string, error) {
	dir, err := filepath.Abs(r.tempOf(mark))
	if err == nil {
		err = os.Mkdir(dir, 0o700) // an existing folder belongs to another process, so it is an error
	}
	if err != nil {
		return "", fmt.Errorf("make a folder for temporary files: %w", err)
	}
	return dir, nil
}

// tempOf is the temporary folder of the run with that mark. The name is derived from the mark so that another worker
// can clean up after a dead one.
func (r *runner) tempOf(mark string) string { return filepath.Join(r.o.Temp, "steward-"+mark) }

// clearTemp removes the temporary folder that a dead worker's run has left.
func (r *runner) clearTemp(mark string) {
	if !jsonfile.PlainName("steward-" + mark) {
		return // the mark comes from a file that any program may have written
	}
	if st, err := os.Lstat(r.tempOf(mark)); err == nil && st.IsDir() {
		_ = removeAll(r.tempOf(mark))
	}
}

// removeAll removes a run's temporary files, including those in folders that the command made read-only (Go's module
// cache).
func removeAll(dir string) error {
	err := os.RemoveAll(dir)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	_ = fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			err = root.Chmod(path, 0o700) // before WalkDir reads it
		}
		return err
	})
	return os.RemoveAll(dir)
}
