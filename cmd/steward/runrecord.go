package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/livhana/steward/status/terminal"

	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/protocol/jsonfile"
	"github.com/livhana/steward/status"
)

// The files in the state folder that tell of this run and of how the last one ended.
const (
	runFile   = "run.json"
	crashFile = "crash.txt"
	maxRun    = 1 << 20
)

// How a run ended.
const (
	endStopped  = "clean"       // it was asked to, and released everything
	endHanded   = "handed over" // it was asked to, and left the holds to the next one
	endFailed   = "failed"      // with an error of its own
	endCrashed  = "crash"       // by a defect
	endKilled   = "killed"      // by a signal that leaves no time
	endWatchdog = "watchdog"    // it hung, and the service manager ended it
	endMemory   = "out of memory"
	endRebooted = "reboot" // the machine went down under it
)

// runRecord is one run of the daemon, as run.json tells of it.
type runRecord struct {
	// Format is the version of the file; "version" is the program's.
	Format  int           `json:"format,omitempty"`
	PID     int           `json:"pid"`
	Process proc.Identity `json:"process"`
	Version string        `json:"version"`
	Manager string        `json:"manager,omitempty"` // systemd, launchd …; "" by hand
	Started time.Time     `json:"started"`
	Ready   time.Time     `json:"ready,omitzero"`
	// Failed counts the starts in a row that came to nothing, up to the one before this.
	Failed int `json:"failed_starts"`
	// Ended, How and Why are written at the end; a run that could not leaves them open.
	Ended time.Time `json:"ended,omitzero"`
	How   string    `json:"how,omitempty"`
	Why   string    `json:"why,omitempty"`
	// Verdict is the service manager's own word about the end.
	Verdict string `json:"verdict,omitempty"`
	// Last is how the run before this one ended.
	Last *status.Ending `json:"last,omitempty"`
}

// soundAfter is how long a run must have been ready for its end not to count as a failed start.
const soundAfter = 10 * time.Second

// readTenure gives what run.json tells; nil when there is none, or none that can be read.
func readTenure(state string) *runRecord {
	data, err := os.ReadFile(filepath.Join(state, runFile))
	var t runRecord
	if err != nil || len(data) > maxRun || json.Unmarshal(data, &t) != nil || t.Started.IsZero() {
		return nil
	}
	return &t
}

// write stores it. It is a report for people: losing it loses nothing else.
func (t *runRecord) write(root *jsonfile.Root) error {
	t.Format = stateVersion
	data, err := json.MarshalIndent(t, "", "  ")
	if err != nil {
		return err
	}
	late, err := root.Replace(runFile, append(data, '\n'), jsonfile.Any)
	_ = late.Close()
	return err
}

// ending says how a run ended that is over. crash is what the program wrote when it broke, or "".
func (t *runRecord) ending(now proc.Identity, crash string) *status.Ending {
	e := &status.Ending{How: t.How, Why: t.Why, At: t.Ended, Version: t.Version}
	switch {
	case t.How != "":
	case strings.HasPrefix(t.Verdict, "watchdog"):
		e.How, e.Why = endWatchdog, "it stopped responding, and the service manager ended it"
	case strings.HasPrefix(t.Verdict, "oom-kill"):
		e.How, e.Why = endMemory, "the kernel ended it for want of memory"
	case t.Process.Boot != "" && now.Boot != "" && t.Process.Boot != now.Boot:
		e.How, e.Why = endRebooted, "the machine was restarted"
	case crash != "":
		e.How, e.Why = endCrashed, firstLine(crash)
	default:
		e.How, e.Why = endKilled, cmp.Or(verdictWords(t.Verdict), "it ended without a word: killed, or the machine lost power")
	}
	return e
}

// whoRuns names the steward that has the state folder.
func whoRuns(state string) string {
	t := readTenure(state)
	switch {
	case t == nil || !t.lives():
		return ""
	case t.Manager == "":
		return fmt.Sprintf("; it was started by hand, process %d: end that one first", t.PID)
	}
	return fmt.Sprintf("; it runs under %s, process %d", t.Manager, t.PID)
}

// lockWait is how long a lock is waited for whose holder nobody knows.
const lockWait = 5 * time.Second

// takeState takes the state folder for this process alone; platform.ErrLocked when a steward is at work in it. A steward
// that was killed while it started a program has its lock last until that program runs: a child has all that is open
// here, up to its exec. So a lock that no living run holds is waited for, a moment of a full machine. That is not only
// so that the next steward is not turned away: such a child bears no mark yet, and whoever has the lock knows that there
// is none any more.
func takeState(state string) (*platform.FileLock, error) {
	for end := time.Now().Add(lockWait); ; time.Sleep(5 * time.Millisecond) {
		lock, err := platform.Lock(filepath.Join(state, "steward.lock"), 0o600)
		if !errors.Is(err, platform.ErrLocked) || time.Now().After(end) {
			return lock, err
		}
		if t := readTenure(state); t != nil && t.lives() {
			return nil, err
		}
	}
}

// lives reports whether the process of the run is still there.
func (t *runRecord) lives() bool {
	return t.Ended.IsZero() && t.Process.PID != 0 && proc.Check(t.Process) != proc.Gone
}

// sound reports whether the run was more than a failed start. One that was ready and then killed by somebody's signal
// has not failed.
func (t *runRecord) sound(at time.Time, crashed bool) bool {
	switch {
	case t.How == endStopped || t.How == endHanded:
		return true
	case t.Ready.IsZero():
		return false
	case t.How == "" && !crashed && (t.Verdict == "" || strings.HasPrefix(t.Verdict, "signal")):
		return true
	}
	if !t.Ended.IsZero() {
		at = t.Ended
	}
	return at.Sub(t.Ready) >= soundAfter
}

// forgiveAfter is how long ago a failed start may be to count still.
const forgiveAfter = time.Hour

// failedStarts counts the starts in a row, up to this one, that came to nothing.
func (t *runRecord) failedStarts(now time.Time, crashed bool) int {
	if t == nil || t.sound(now, crashed) || now.Sub(t.Started) > forgiveAfter {
		return 0
	}
	return t.Failed + 1
}

// verdictWords puts systemd's $SERVICE_RESULT, $EXIT_CODE and $EXIT_STATUS, as `service ended` notes them, into words.
func verdictWords(verdict string) string {
	if verdict == "" {
		return ""
	}
	return "the service manager says: " + verdict
}

func firstLine(text string) string {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			return terminal.OneWord(line)
		}
	}
	return ""
}

// assume begins this run's runRecord: it finds out how the last one ended, and takes its place.
func (h *daemon) startRun(now time.Time) error {
	_ = os.Remove(filepath.Join(h.paths.State, noteFile)) // it was for the one before
	read, err := takeUp[runRecord](h, runFile)
	if err != nil {
		return err
	}
	before := &read
	if read.Started.IsZero() {
		before = nil
	}
	crash := h.saveCrashLog(now)
	me, _ := proc.Inspect(os.Getpid())
	t := &runRecord{PID: os.Getpid(), Process: me, Version: version(), Manager: h.manager, Started: now.UTC()}
	if before != nil {
		t.Last = before.ending(me, crash)
		t.Failed = before.failedStarts(now, crash != "")
	}
	h.tenure = t
	if err := t.write(h.state); err != nil {
		h.log.Error("write run.json", "error", err)
	}
	if t.Last != nil {
		h.log.Info("the last run ended: "+t.Last.How, "why", cmp.Or(t.Last.Why, "it was asked to"), "version", t.Last.Version)
	}
	return nil
}

// conclude notes how this run ends.
func (h *daemon) endRun(err error) {
	t := h.tenure
	if t == nil {
		return
	}
	t.Ended, t.How = time.Now().UTC(), endStopped
	switch {
	case err != nil:
		t.How, t.Why = endFailed, terminal.OneWord(oneLine(err))
	case h.handsOver():
		t.How = endHanded
	}
	if err := t.write(h.state); err != nil {
		h.log.Error("write run.json", "error", err)
	}
	_ = os.Remove(filepath.Join(h.paths.State, crashFile))
}

// noteVerdict adds to run.json what the service manager says about the end of the run that it tells of.
func noteVerdict(state, verdict string) error {
	root, err := jsonfile.Open(state)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open the state folder: %w", err)
	}
	defer root.Close()
	t := readTenure(state)
	if t == nil || !t.Ended.IsZero() {
		return nil
	}
	t.Verdict, t.Ended = verdict, time.Now().UTC()
	return t.write(root)
}
