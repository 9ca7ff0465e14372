package ralph

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
)

// ErrResume means that the resume command could not be started, or failed at once. It is not run again for the same
// answer.
var ErrResume = errors.New("the resume command failed")

const (
	moment   = 2 * time.Second // a command may fail within this time; after it, the command counts as started
	maxLog   = 1 << 20         // bytes of a resume command's output; of a longer one, the end is kept
	keptLog  = 64 << 10
	maxArgs  = 64
	taskWord = "{task}"
	workWord = "{worker}"
)

var (
	braced     = folder.Pattern(`\{[A-Za-z_]*\}`)
	safeWorker = folder.Pattern(`^worker-[A-Za-z]{2,10}-[0-9]{1,4}-[A-Za-z0-9_-]{1,100}$`)
)

// CheckResume returns what is wrong with a resume command. An empty command is valid.
func CheckResume(command []string) error {
	if len(command) == 0 {
		return nil
	}
	if strings.TrimSpace(command[0]) == "" || braced().MatchString(command[0]) {
		return fmt.Errorf("resume: %q is not a program: the first word names it as it is", command[0])
	}
	if len(command) > maxArgs {
		return fmt.Errorf("resume: %d words; %d at most", len(command), maxArgs)
	}
	named := false
	for _, word := range command {
		if strings.ContainsRune(word, 0) {
			return fmt.Errorf("resume: %q holds a zero byte", word)
		}
		for _, word := range braced().FindAllString(word, -1) {
			if word != taskWord && word != workWord {
				return fmt.Errorf("resume: %s means nothing; there are %s and %s", word, taskWord, workWord)
			}
			named = true
		}
	}
	if !named {
		return fmt.Errorf("resume: it contains neither %s nor %s, so nothing says what to resume", taskWord, workWord)
	}
	return nil
}

// resumer starts the resume command and follows what becomes of it.
type resumer struct {
	*reader
	moment  time.Duration // how long run waits for the command to fail
	listing folder.Listing
	answers map[string]*jsonfile.Reading[answers]
}

func newResumer(r *reader) resumer {
	return resumer{reader: r, moment: moment, answers: map[string]*jsonfile.Reading[answers]{}}
}

// words returns the words of the resume command for one task. Ids and folder names have a form that no program mistakes
// for an option, and no shell reads them.
func (r *resumer) words(id string) ([]string, error) {
	if err := CheckResume(r.opts.Resume); err != nil {
		return nil, err
	}
	words, worker := slices.Clone(r.opts.Resume), ""
	if w := r.workers.newest(id); w != nil {
		worker = w.name
	}
	for i, word := range words {
		if strings.Contains(word, workWord) && !safeWorker().MatchString(worker) {
			return nil, fmt.Errorf("no worker's folder is there for %s", id)
		}
		words[i] = strings.NewReplacer(taskWord, id, workWord, worker).Replace(word)
	}
	return words, nil
}

func resumeLog(id string) string { return own + "/resume-" + id + ".log" }

// run starts the command in its own session and waits for a moment, so that it can report an immediate failure. A
// command that runs longer is not waited for and outlives steward.
func (r *resumer) run(ctx context.Context, id string) error {
	words, err := r.words(id)
	if err != nil {
		return err
	}
	log, err := r.freshLog(id)
	if err != nil {
		return err
	}
	cmd := exec.Command(words[0], words[1:]...)
	// A program's name with a slash is relative to the project's folder.
	cmd.Dir, cmd.Stdout, cmd.Stderr = r.dir, log, log
	cmd.Env = append(inherited(os.Environ()), "STEWARD_ANSWER="+filepath.Join(r.dir, Base, filepath.FromSlash(answersFile(id))))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // it must not receive the signals meant for steward
	err = cmd.Start()
	_ = log.Close() // the command and its children now hold the lock on it
	if err != nil {
		return err
	}
	over := make(chan error, 1)
	go func() { over <- cmd.Wait() }() // reap the process when it ends
	wait := time.NewTimer(r.moment)
	defer wait.Stop()
	select {
	case err = <-over:
	case <-wait.C:
	case <-ctx.Done():
	}
	if err != nil {
		return fmt.Errorf("%s: %w%s", filepath.Base(words[0]), err, r.lastWords(id))
	}
	return nil
}

// freshLog creates and locks the file for the command's output. The command, and all processes that share its output,
// inherit the lock: it is held as long as one of them lives.
func (r *resumer) freshLog(id string) (*os.File, error) {
	file := resumeLog(id)
	if err := r.Root.Remove(file); err != nil && !folder.Missing(err) {
		return nil, err
	}
	if err := r.Root.Create(file, nil, 0o600); err != nil {
		return nil, err
	}
	log, err := jsonfile.OpenAppend(r.Root, file)
	if err != nil {
		return nil, err
	}
	if err := lockLog(log); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	return log, nil
}

// busy reports whether the task's resume command, or a process that it started, still runs. The log is steward's
// own, so trying its lock disturbs no other program.
func (r *resumer) busy(id string) (bool, error) {
	log, err := jsonfile.OpenAppend(r.Root, resumeLog(id))
	if err != nil {
		return false, folder.IgnoreMissing(err)
	}
	defer log.Close()
	err = lockLog(log)
	if errors.Is(err, protocol.ErrConflict) {
		return true, nil
	}
	return false, err
}

// lastWords returns the last line of the command's output, for an error message.
func (r *resumer) lastWords(id string) string {
	text := bytes.TrimSpace(folder.Files{Folder: r.Folder}.End(resumeLog(id), 4<<10))
	if len(text) == 0 {
		return ""
	}
	return " (" + folder.Line(string(text[bytes.LastIndexByte(text, '\n')+1:]), 200) + ")"
}

// inheritedNames lists the environment variables that a resume command inherits, in addition to LC_…. Variables that the service
// manager sets for steward alone (NOTIFY_SOCKET, WATCHDOG_…), and variables that may be secret, are not passed on.
var inheritedNames = []string{"PATH", "HOME", "USER", "LANG", "TERM", "SHELL", "XDG_RUNTIME_DIR", "TMPDIR"}

func inherited(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return !strings.HasPrefix(name, "LC_") && !slices.Contains(inheritedNames, name)
	})
}

// findings reports the resume commands that failed, or that ended while their task is still marked as failed. It also keeps
// their logs short.
func (r *resumer) findings() (list []protocol.Finding) {
	for _, name := range r.listing.Names { // underWay has read it
		id, isAnswer := strings.CutSuffix(name, ".json")
		if !isAnswer || !isTaskID(id) {
			continue
		}
		r.shorten(id)
		if e := r.board.byID[id]; e != nil && e.marker == failed {
			if text := r.ineffective(e); text != "" {
				list = append(list, protocol.Finding{Subject: task(id), Code: "resume", Severity: protocol.High, Text: text, Settle: "Taken care of"})
			}
		}
	}
	return list
}

// underWay lists the tasks in progress whose newest resume command still runs, or was started within the grace.
func (r *resumer) underWay() map[string]bool {
	r.listing.Read(r.Folder, answersDir)
	list := map[string]bool{}
	for _, name := range r.listing.Names {
		id, _ := strings.CutSuffix(name, ".json")
		if e := r.board.byID[id]; e == nil || e.marker != working {
			continue
		}
		if a, ok := r.newestAnswer(id); ok && (a.State == stateStarted || a.State == stateTaken) {
			busy, err := r.busy(id)
			list[id] = busy || err != nil || r.Wait(jsonfile.ParseStated(a.Since).At.Add(r.opts.grace()))
		}
	}
	return list
}

// newestAnswer returns the newest record of answers about a task.
func (r *resumer) newestAnswer(id string) (recordedAnswer, bool) {
	known := r.answers[id]
	if known == nil {
		known = &jsonfile.Reading[answers]{}
		r.answers[id] = known
	}
	jsonfile.LoadText(r.Root, &r.Patience, known, answersFile(id), maxFile, decodeAnswers)
	list := known.Value.Answers
	if len(list) == 0 {
		return recordedAnswer{}, false
	}
	return list[len(list)-1], true
}

// ineffective says why the newest resume command of a failed task did not help; "" while it still may.
func (r *resumer) ineffective(e *entry) string {
	a, there := r.newestAnswer(e.id)
	since := jsonfile.ParseStated(a.Since).At
	if !there || a.Sum != e.sum || since.IsZero() || e.ended.After(since) {
		return "" // the task failed again, and that failure is reported instead
	}
	log := Base + "/" + resumeLog(e.id)
	switch {
	case a.State == stateFailed:
		return fmt.Sprintf("%v; what it said: %s", a.failure(), log)
	case a.State != stateStarted || r.Wait(since.Add(r.opts.grace())):
		return ""
	}
	if busy, err := r.busy(e.id); busy || err != nil {
		return ""
	}
	return "the resume command has ended, and the task is still marked [*]; what it said: " + log
}

// shorten keeps the end of a log that has grown too long. Output written at that very moment is lost.
func (r *resumer) shorten(id string) {
	file := resumeLog(id)
	st, err := r.Root.Stat(file)
	if err != nil || st.Size <= maxLog {
		return
	}
	end := folder.Files{Folder: r.Folder}.End(file, keptLog)
	log, err := jsonfile.OpenAppend(r.Root, file)
	if err != nil {
		return
	}
	defer log.Close()
	if log.Truncate(0) == nil {
		_, _ = log.Write(end)
	}
}

func lockLog(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return folder.Moved("another resume command has just been started")
	}
	return err
}
