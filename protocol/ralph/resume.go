package ralph

import (
	"bytes"
	"cmp"
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
	probing  = 5 * time.Millisecond // wait for the lock on steward's own log, which is either free or held for hours
	maxArgs  = 64
	taskWord = "{task}"
	workWord = "{worker}"
)

var (
	braced     = lazily(`\{[A-Za-z_]*\}`)
	safeWorker = lazily(`^worker-[A-Za-z]{2,10}-[0-9]{1,4}-[A-Za-z0-9_-]{1,100}$`)
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
		for _, place := range braced().FindAllString(word, -1) {
			if place != taskWord && place != workWord {
				return fmt.Errorf("resume: %s means nothing; there are %s and %s", place, taskWord, workWord)
			}
			named = true
		}
	}
	if !named {
		return fmt.Errorf("resume: neither %s nor %s stands in it, so it would not know what to resume", taskWord, workWord)
	}
	return nil
}

// resumeWords returns the words of the resume command for one task. Ids and folder names have a form that no program
// mistakes for an option, and no shell reads them.
func (p *Project) resumeWords(id string) ([]string, error) {
	if err := CheckResume(p.opts.Resume); err != nil {
		return nil, err
	}
	words, worker := slices.Clone(p.opts.Resume), ""
	if w := p.newest[id]; w != nil {
		worker = w.name
	}
	for i, word := range words {
		if strings.Contains(word, workWord) && !safeWorker().MatchString(worker) {
			return nil, fmt.Errorf("no worker's folder is there for %s", id)
		}
		words[i] = strings.NewReplacer(taskWord, id, workWord, worker).Replace(word)
	}
	if strings.ContainsRune(words[0], filepath.Separator) {
		if !filepath.IsAbs(words[0]) {
			words[0] = filepath.Join(p.dir, words[0])
		}
		return words, nil
	}
	path, err := exec.LookPath(words[0])
	if err != nil {
		return nil, err
	}
	words[0] = path
	return words, nil
}

// resumeTask lets the program itself resume a failed or lost task. It records the answer before it starts the command.
// After a crash it is unknown whether the command started: it counts as started if it still runs, or if the task's marker
// has changed. Otherwise it had no effect and is run.
func (p *Project) resumeTask(ctx context.Context, c protocol.Change, n, old note) error {
	id := c.Subject.ID
	busy, err := p.resumeRuns(ctx, id)
	switch {
	case err != nil:
		return err
	case busy && old.State == stateTaken:
		return p.note(id, n.in(stateStarted, p.Now))
	case busy:
		return folder.Moved("a resume command for %s still runs", id)
	}
	blob, err := p.Root.Read(kanbanFile, maxKanban)
	if err != nil {
		return err
	}
	it, err := itemOf(blob.Data, id)
	switch {
	case err != nil:
		return err
	case it.marker == todo: // the task is already to be done
		return p.note(id, n.in(stateWritten, p.Now))
	case old.State == stateTaken && old.Marker != string(rune(it.marker)):
		return p.note(id, n.in(stateStarted, p.Now))
	case it.sum != c.Ref.Sum:
		return folder.Moved("the line of %s is not the one that was judged", id)
	case it.marker != failed && it.marker != working:
		return folder.Moved("%s is marked [%c]", id, it.marker)
	}
	if err := p.atRest(blob.Data, c); err != nil {
		return err
	}
	n.Marker = string(rune(it.marker))
	if err := p.note(id, n.in(stateTaken, p.Now)); err != nil {
		return err
	}
	if err := p.runResume(ctx, id); err != nil {
		if errors.Is(err, protocol.ErrConflict) {
			return err
		}
		n.Error = folder.Line(err.Error(), 400)
		return errors.Join(p.note(id, n.in(stateFailed, p.Now)), n.failure())
	}
	return p.note(id, n.in(stateStarted, p.Now))
}

func (n *note) failure() error { return fmt.Errorf("%w: %s", ErrResume, n.Error) }

func resumeLog(id string) string { return own + "/resume-" + id + ".log" }

// runResume starts the command in its own session and waits for a moment, so that it can report an immediate failure. A
// command that runs longer is not waited for and outlives steward.
func (p *Project) runResume(ctx context.Context, id string) error {
	words, err := p.resumeWords(id)
	if err != nil {
		return err
	}
	log, err := p.freshLog(id)
	if err != nil {
		return err
	}
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.dir, log, log
	cmd.Env = append(inherited(os.Environ()), "STEWARD_ANSWER="+filepath.Join(p.dir, Base, filepath.FromSlash(notesFile(id))))
	ownSession(cmd)
	err = cmd.Start()
	_ = log.Close() // the command and its children now hold the lock on it
	if err != nil {
		return err
	}
	over := make(chan error, 1)
	go func() { over <- cmd.Wait() }() // reap the process when it ends
	wait := time.NewTimer(p.moment)
	defer wait.Stop()
	select {
	case err = <-over:
	case <-wait.C:
	case <-ctx.Done():
	}
	if err != nil {
		return fmt.Errorf("%s: %w%s", filepath.Base(words[0]), err, p.lastWords(id))
	}
	return nil
}

// freshLog creates and locks the file for the command's output. The command, and all processes that share its output,
// inherit the lock: it is held as long as one of them lives.
func (p *Project) freshLog(id string) (*os.File, error) {
	file := resumeLog(id)
	if err := p.Root.Remove(file); err != nil && !folder.Missing(err) {
		return nil, err
	}
	if err := p.Root.Create(file, nil, 0o600); err != nil {
		return nil, err
	}
	log, err := p.openLog(file)
	if err != nil {
		return nil, err
	}
	if err := lockLog(log); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	return log, nil
}

// openLog opens a resume command's log for appending. The opened file must be the file that Root shows under that name.
func (p *Project) openLog(file string) (*os.File, error) {
	want, err := p.Root.Stat(file)
	if err != nil {
		return nil, err
	}
	return openSeen(filepath.Join(p.Root.Dir(), filepath.FromSlash(file)), want)
}

// resumeRuns reports whether the task's resume command, or a process that it started, still runs. The log is steward's
// own, so trying its lock disturbs no other program.
func (p *Project) resumeRuns(ctx context.Context, id string) (bool, error) {
	if p.opts.Flock == nil {
		return false, ErrNoFlock
	}
	st, err := p.Root.Stat(resumeLog(id))
	switch {
	case folder.Missing(err):
		return false, nil
	case err != nil:
		return false, err
	case !st.Mode.IsRegular():
		return false, fmt.Errorf("%s: %w", resumeLog(id), jsonfile.ErrHostile)
	}
	try, cancel := context.WithTimeout(ctx, probing)
	defer cancel()
	log, err := p.Root.OpenLock(resumeLog(id))
	if err != nil {
		return false, err
	}
	release, err := p.opts.Flock(try, log)
	switch {
	case err == nil:
		release()
		return false, nil
	case ctx.Err() != nil:
		return false, ctx.Err()
	case try.Err() != nil:
		return true, nil
	}
	return false, fmt.Errorf("ask whether a resume command runs: %w", err)
}

// lastWords returns the last line of the command's output, for an error message.
func (p *Project) lastWords(id string) string {
	st, err := p.Root.Stat(resumeLog(id))
	if err != nil {
		return ""
	}
	text, _, err := p.Root.ReadAt(resumeLog(id), max(0, st.Size-4<<10), 4<<10)
	text = bytes.TrimSpace(text)
	if err != nil || len(text) == 0 {
		return ""
	}
	return " (" + folder.Line(string(text[bytes.LastIndexByte(text, '\n')+1:]), 200) + ")"
}

// handedOn lists the environment variables that a resume command inherits, in addition to LC_…. Variables that the service
// manager sets for steward alone (NOTIFY_SOCKET, WATCHDOG_…), and variables that may be secret, are not passed on.
var handedOn = []string{"PATH", "HOME", "USER", "LANG", "TERM", "SHELL", "XDG_RUNTIME_DIR", "TMPDIR"}

func inherited(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return !strings.HasPrefix(name, "LC_") && !slices.Contains(handedOn, name)
	})
}

// followResumes reports the resume commands that failed, or that ended while their task is still marked as failed. It also
// keeps their logs short.
func (p *Project) followResumes(ctx context.Context) []protocol.Finding {
	names, _ := p.list(answersDir)
	var list []protocol.Finding
	for _, name := range names {
		id, isNote := strings.CutSuffix(name, ".json")
		if !isNote || !isTaskID(id) {
			continue
		}
		p.shorten(id)
		i, known := p.board.where[id]
		if !known || p.board.file.Value[i].marker != failed {
			continue
		}
		if text := p.fruitless(ctx, i); text != "" {
			list = append(list, protocol.Finding{Subject: task(id), Code: "resume", Severity: protocol.High, Text: text, Settle: "Taken care of"})
		}
	}
	return list
}

// fruitless says why the newest resume command of a failed task did not help; "" while it still may.
func (p *Project) fruitless(ctx context.Context, i int) string {
	it := &p.board.file.Value[i]
	r := p.answers[it.id]
	if r == nil {
		r = &jsonfile.Reading[answers]{}
		p.answers[it.id] = r
	}
	jsonfile.Load(p.Root, &p.Patience, r, notesFile(it.id), maxFile, decodeNotes)
	list := r.Value.Answers
	if len(list) == 0 {
		return ""
	}
	n := list[len(list)-1]
	since, dated := jsonfile.ParseTime(n.Since)
	if n.Sum != it.sum || !dated || p.board.state[i].ended.After(since) {
		return "" // the task failed again, and that failure is reported instead
	}
	log := Base + "/" + resumeLog(it.id)
	switch {
	case n.State == stateFailed:
		return fmt.Sprintf("%v: %s; what it said: %s", ErrResume, n.Error, log)
	case n.State != stateStarted || p.wait(since.Add(cmp.Or(p.opts.Grace, setUp))):
		return ""
	}
	if busy, err := p.resumeRuns(ctx, it.id); busy || err != nil {
		return ""
	}
	return "the resume command has ended, and the task is still marked [*]; what it said: " + log
}

// shorten keeps the end of a log that has grown too long. Output written at that very moment is lost.
func (p *Project) shorten(id string) {
	file := resumeLog(id)
	st, err := p.Root.Stat(file)
	if err != nil || st.Size <= maxLog {
		return
	}
	end, _, err := p.Root.ReadAt(file, st.Size-keptLog, keptLog)
	if err != nil {
		return
	}
	log, err := p.openLog(file)
	if err != nil {
		return
	}
	defer log.Close()
	if log.Truncate(0) == nil {
		_, _ = log.Write(end)
	}
}

// ownSession makes a command the leader of its own session, so that it does not receive the signals meant for steward,
// from its terminal or at the end of its unit.
func ownSession(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// openSeen opens a file for appending, follows no link, and accepts only the file that want describes.
func openSeen(path string, want jsonfile.Stamp) (*os.File, error) {
	fd, err := syscall.Open(path, syscall.O_WRONLY|syscall.O_APPEND|syscall.O_CLOEXEC|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	f := os.NewFile(uintptr(fd), path)
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if uint64(st.Dev) != want.Dev || uint64(st.Ino) != want.Inode || st.Mode&syscall.S_IFMT != syscall.S_IFREG || st.Nlink != 1 {
		return nil, errors.Join(fmt.Errorf("open %s: %w", path, jsonfile.ErrHostile), f.Close())
	}
	return f, nil
}

func lockLog(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return folder.Moved("another resume command has just been started")
	}
	return err
}
