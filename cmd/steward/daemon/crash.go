package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"time"

	"github.com/livhana/steward/status/terminal"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
)

// catchCrash makes the runtime write its crash report into the state folder.
func (h *Daemon) catchCrash() {
	f, err := os.OpenFile(filepath.Join(h.paths.State, CrashFile), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err == nil {
		err = errors.Join(debug.SetCrashOutput(f, debug.CrashOptions{}), f.Close())
	}
	if err != nil {
		h.log.Error("prepare the crash report", "error", err)
	}
}

// CrashLeft returns the report of a crash that no later run has renamed yet.
func CrashLeft(state string) string {
	data, _ := os.ReadFile(filepath.Join(state, CrashFile))
	return string(data)
}

// HasCrashed reports whether there is such a report.
func HasCrashed(state string) bool {
	info, err := os.Stat(filepath.Join(state, CrashFile))
	return err == nil && info.Size() > 0
}

func crashAlert() rules.Alert {
	return rules.Alert{Kind: "steward_ended", Severity: protocol.Medium, Foreign: true,
		Subject: protocol.Subject{Kind: protocol.KindMachine, ID: "steward"}}
}

// tellOfCrash raises an incident if the last run crashed, hung or ran out of memory.
func (h *Daemon) tellOfCrash() {
	last := h.record.Last
	if last == nil || last.How != EndCrashed && last.How != endWatchdog && last.How != endMemory {
		return
	}
	alert := crashAlert()
	alert.Summary = "steward itself ended unexpectedly (" + last.How + ") and was started again"
	alert.Detail, alert.Occurrence = last.Why, h.record.Started.Format(time.RFC3339)
	if err := h.tell(alert); err != nil {
		h.log.Error("write incident", "error", err)
	}
}

// healthyAfter is how long a run must last before the incident about an earlier crash is resolved.
const healthyAfter = 10 * time.Minute

// recover resolves the incident about an earlier crash once this run has lasted healthyAfter.
func (h *Daemon) recover(now time.Time) {
	if h.recovered || now.Sub(h.record.Started) < healthyAfter {
		return
	}
	h.recovered = true
	alert := crashAlert()
	alert.Resolve, alert.Detail = true, "it has run for "+terminal.Short(healthyAfter)+" since"
	_ = h.tell(alert)
}

// keptCrashes is the number of crash reports that are kept.
const keptCrashes = 5

// saveCrashLog returns the report that a crashed run left, and renames it to a name with the time.
func (h *Daemon) saveCrashLog(now time.Time) string {
	path := filepath.Join(h.paths.State, CrashFile)
	report := CrashLeft(h.paths.State)
	if report == "" {
		return ""
	}
	if err := os.Rename(path, filepath.Join(h.paths.State, "crash-"+now.UTC().Format("20060102T150405Z")+".txt")); err != nil {
		h.log.Error("keep the crash report", "error", err)
	}
	old, _ := filepath.Glob(filepath.Join(h.paths.State, "crash-*.txt"))
	slices.Sort(old)
	for _, path := range old[:max(0, len(old)-keptCrashes)] {
		_ = os.Remove(path)
	}
	return report
}
