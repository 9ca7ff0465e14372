package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/protocol/jsonfile"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/status/terminal"
)

// The files in the state folder that describe this run and how the last one ended.
const (
	RunFile   = "run.json"
	CrashFile = "crash.txt"
	maxRun    = 1 << 20
)

// How a run ended.
const (
	EndStopped  = status.EndStopped // on request; it released everything
	EndHanded   = status.EndHanded  // on request; it left the holds to the next run
	EndFailed   = "failed"          // with an error of its own
	EndCrashed  = "crash"           // because of a defect
	endKilled   = "killed"          // by a signal that cannot be caught
	endWatchdog = "watchdog"        // it hung, and the service manager killed it
	endMemory   = "out of memory"
	endRebooted = "reboot" // the machine went down
)

// RunRecord is one run of the daemon, as recorded in run.json.
type RunRecord struct {
	// Format is the version of the file; "version" is the program's.
	Format  int           `json:"format,omitempty"`
	PID     int           `json:"pid"`
	Process proc.Identity `json:"process"`
	Version string        `json:"version"`
	Manager string        `json:"manager,omitempty"` // systemd, launchd …; "" by hand
	Started time.Time     `json:"started"`
	Ready   time.Time     `json:"ready,omitzero"`
	// Failed counts the consecutive failed starts before this one.
	Failed int `json:"failed_starts"`
	// Ended, How and Why are written at the end; a run that was killed leaves them empty.
	Ended time.Time `json:"ended,omitzero"`
	How   string    `json:"how,omitempty"`
	Why   string    `json:"why,omitempty"`
	// Verdict is what the service manager reported about the end.
	Verdict string `json:"verdict,omitempty"`
	// Last is how the run before this one ended.
	Last *status.Ending `json:"last,omitempty"`
}

// soundAfter is how long a run must have been ready for its end not to count as a failed start.
const soundAfter = 10 * time.Second

// ReadRun reads run.json; nil if the file is missing or cannot be used.
func ReadRun(state string) *RunRecord {
	data, err := os.ReadFile(filepath.Join(state, RunFile))
	var t RunRecord
	if err != nil || len(data) > maxRun || json.Unmarshal(data, &t) != nil || t.Started.IsZero() {
		return nil
	}
	return &t
}

// Write stores the record in run.json. The file is a report for people: losing it loses nothing else.
func (t *RunRecord) Write(root *jsonfile.Root) error {
	t.Format = stateVersion
	data, err := json.MarshalIndent(t, "", "  ")
	if err != nil {
		return err
	}
	late, err := root.Replace(RunFile, append(data, '\n'), jsonfile.Any)
	_ = late.Close()
	return err
}

// Ending says how a finished run ended. crash is its crash report, or "".
func (t *RunRecord) Ending(now proc.Identity, crash string) *status.Ending {
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
		e.How, e.Why = EndCrashed, firstLine(crash)
	case t.Verdict != "": // systemd's $SERVICE_RESULT, $EXIT_CODE and $EXIT_STATUS, as `service ended` records them
		e.How, e.Why = endKilled, "the service manager says: "+t.Verdict
	default:
		e.How, e.Why = endKilled, "it ended without a word: killed, or the machine lost power"
	}
	return e
}

// WhoRuns describes the steward that holds the state folder.
func WhoRuns(state string) string {
	t := ReadRun(state)
	switch {
	case t == nil || !t.Lives():
		return ""
	case t.Manager == "":
		return fmt.Sprintf("; it was started by hand, process %d: end that one first", t.PID)
	}
	return fmt.Sprintf("; it runs under %s, process %d", t.Manager, t.PID)
}

// lockWait is how long LockState waits for a lock whose holder is unknown.
const lockWait = 5 * time.Second

// LockState locks the state folder for this process; platform.ErrLocked if a steward is running in it. If a steward is
// killed while it starts a program, its lock lasts until that program runs, because until its exec the child shares
// every open file. LockState therefore waits for a lock that no living run holds; even on a busy machine the wait is
// short. The wait does more than let the next steward start: such a child carries no mark yet by which it could be
// found, and once the lock is acquired, no such child is left.
func LockState(state string) (*platform.FileLock, error) {
	for end := time.Now().Add(lockWait); ; time.Sleep(5 * time.Millisecond) {
		lock, err := platform.Lock(filepath.Join(state, "steward.lock"), 0o600)
		if !errors.Is(err, platform.ErrLocked) || time.Now().After(end) {
			return lock, err
		}
		if t := ReadRun(state); t != nil && t.Lives() {
			return nil, err
		}
	}
}

// Lives reports whether the process of the run may still exist.
func (t *RunRecord) Lives() bool {
	return t.Ended.IsZero() && t.Process.PID != 0 && proc.Check(t.Process) != proc.Gone
}

// sound reports whether the run was more than a failed start. A run that was ready and was then killed by a signal has
// not failed.
func (t *RunRecord) sound(at time.Time, crashed bool) bool {
	switch {
	case t.How == EndStopped || t.How == EndHanded:
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

// forgiveAfter is the age from which a failed start no longer counts.
const forgiveAfter = time.Hour

// FailedStarts counts the consecutive failed starts up to this run, and including it.
func (t *RunRecord) FailedStarts(now time.Time, crashed bool) int {
	if t == nil || t.sound(now, crashed) || now.Sub(t.Started) > forgiveAfter {
		return 0
	}
	return t.Failed + 1
}

func firstLine(text string) string {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			return terminal.OneWord(line)
		}
	}
	return ""
}

// NoteVerdict adds to run.json what the service manager reports about the end of that run, unless the run has recorded
// its end itself.
func NoteVerdict(state, verdict string) error {
	root, err := jsonfile.Open(state)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open the state folder: %w", err)
	}
	defer root.Close()
	t := ReadRun(state)
	if t == nil || !t.Ended.IsZero() {
		return nil
	}
	t.Verdict, t.Ended = verdict, time.Now().UTC()
	return t.Write(root)
}

// MostFailedStarts is the number of failed starts after which steward stays down and reports it.
const MostFailedStarts = 12

// PaceAfter returns the wait before the next start.
func PaceAfter(failed int) time.Duration {
	if failed < 2 {
		return 0
	}
	return min(time.Second<<min(failed-2, 10), 30*time.Second)
}

// A hand-over note tells the running steward that another one starts immediately after it.
const (
	HandOverFile = "handover.json"
	noteLife     = 30 * time.Second
)

type handOver struct {
	At time.Time `json:"at"`
	By string    `json:"by"`
}

// takeNote reads and removes the note. An old note, or one from the future, does not count.
func takeNote(state string, now time.Time) bool {
	path := filepath.Join(state, HandOverFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	_ = os.Remove(path)
	var n handOver
	return json.Unmarshal(data, &n) == nil && now.Sub(n.At).Abs() <= noteLife
}

// HandOverNote returns the note that announces a restart to the running steward.
func HandOverNote(now time.Time, version string) ([]byte, error) {
	return json.Marshal(handOver{At: now.UTC(), By: "steward service, version " + version})
}

// The service managers, as units name them in STEWARD_SERVICE.
const (
	managerSystemd = "systemd"
	ManagerLaunchd = "launchd"
)
