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

// catchCrash has a crash leave its report in the state folder.
func (h *Daemon) catchCrash() {
	f, err := os.OpenFile(filepath.Join(h.paths.State, CrashFile), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err == nil {
		err = errors.Join(debug.SetCrashOutput(f, debug.CrashOptions{}), f.Close())
	}
	if err != nil {
		h.log.Error("prepare the crash report", "error", err)
	}
}

// crashLeft is the report that a crash has left and no run has taken up yet.
func CrashLeft(state string) string {
	data, _ := os.ReadFile(filepath.Join(state, CrashFile))
	return string(data)
}

// hasCrashed reports whether a crash has left its report.
func HasCrashed(state string) bool {
	info, err := os.Stat(filepath.Join(state, CrashFile))
	return err == nil && info.Size() > 0
}

func crashAlert() rules.Alert {
	return rules.Alert{Kind: "steward_ended", Severity: protocol.Medium, Foreign: true,
		Subject: protocol.Subject{Kind: protocol.KindMachine, ID: "steward"}}
}

// tellOfCrash raises an incident when the last run ended by a defect.
func (h *Daemon) tellOfCrash() {
	last := h.tenure.Last
	if last == nil || last.How != EndCrashed && last.How != endWatchdog && last.How != endMemory {
		return
	}
	alert := crashAlert()
	alert.Summary = "steward itself ended unexpectedly (" + last.How + ") and was started again"
	alert.Detail, alert.Occurrence = last.Why, h.tenure.Started.Format(time.RFC3339)
	if err := h.tell(alert); err != nil {
		h.log.Error("write incident", "error", err)
	}
}

// healthyAfter is how long a run must last for the crash of an earlier one to be settled.
const healthyAfter = 10 * time.Minute

// recover settles the incident of a crash once this run has lasted.
func (h *Daemon) recover(now time.Time) {
	if h.recovered || now.Sub(h.tenure.Started) < healthyAfter {
		return
	}
	h.recovered = true
	alert := crashAlert()
	alert.Resolve, alert.Detail = true, "it has run for "+terminal.Short(healthyAfter)+" since"
	_ = h.tell(alert)
}

// keptCrashes is how many reports of crashes are kept.
const keptCrashes = 5

// setCrashAside gives the report that a crashed run left, and keeps it under a name with its time.
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
