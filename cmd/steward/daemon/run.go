package daemon

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/platform/service"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/status/terminal"
)

// run is this run of the daemon: its record, how it began, and how it ends.
type run struct {
	*store
	options   Options
	record    *RunRecord    // nil in a single scan
	recovered bool          // an earlier crash is settled; only the loop uses this
	hands     *bool         // the answer of handsOver
	order     service.Order // systemd's queued job when steward is asked to stop
}

// start begins this run's RunRecord: it finds out how the last run ended, and replaces its record.
func (r *run) start(now time.Time) {
	_ = os.Remove(filepath.Join(r.dir, HandOverFile)) // it was meant for the previous run
	before, crash := ReadRun(r.dir), r.saveCrashLog(now)
	me, _ := proc.Inspect(os.Getpid())
	r.record = &RunRecord{PID: os.Getpid(), Process: me, Version: r.options.Version, Manager: r.options.Manager, Started: now.UTC()}
	if before != nil {
		last := before.Ending(me, crash)
		r.record.Last, r.record.Failed = last, before.FailedStarts(now, crash != "")
		r.log.Info("the last run ended: "+last.How, "why", cmp.Or(last.Why, "it was asked to"), "version", last.Version)
	}
	r.write()
	r.catchCrash()
}

// end records how this run ends.
func (r *run) end(err error) {
	t := r.record
	if t == nil {
		return
	}
	t.Ended, t.How = time.Now().UTC(), EndStopped
	switch {
	case err != nil:
		t.How, t.Why = EndFailed, terminal.OneWord(terminal.ErrorText(err))
	case r.handsOver():
		t.How = EndHanded
	}
	r.write()
	_ = os.Remove(filepath.Join(r.dir, CrashFile))
}

// handsOver reports whether the requested stop is part of a restart or an upgrade. The first answer is final.
// See docs/decisions.md, "A restart hands over, a stop releases".
func (r *run) handsOver() bool {
	if r.hands != nil {
		return *r.hands
	}
	hands := takeNote(r.dir, time.Now())
	if r.options.Manager == managerSystemd && !hands {
		r.order = service.Ordered(context.Background(), platform.IsMachineState(r.dir))
		// OrderNone also ends in a restart: see errNotOrdered.
		hands = r.order == service.OrderRestart || r.order == service.OrderNone
	}
	if hands {
		r.log.Info("another steward follows; what is held stays held")
	}
	r.hands = &hands
	return hands
}

// self describes the running steward for the status.
func (r *run) self() status.Self {
	s := status.Self{Version: r.options.Version, Manager: r.options.Manager}
	if r.record != nil {
		s.LastEnd = r.record.Last
	}
	return s
}

// ready records that the first scans are over.
func (r *run) ready() {
	r.record.Ready = time.Now().UTC()
	r.write()
	if r.options.Manager != "" {
		r.tellOfCrash()
	}
	r.resolve(DownAlert(), "steward runs again")
}

func (r *run) write() {
	if err := r.record.Write(r.root); err != nil {
		r.log.Error("write run.json", "error", err)
	}
}

// catchCrash makes the runtime write its crash report into the state folder.
func (r *run) catchCrash() {
	f, err := os.OpenFile(filepath.Join(r.dir, CrashFile), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err == nil {
		err = errors.Join(debug.SetCrashOutput(f, debug.CrashOptions{}), f.Close())
	}
	if err != nil {
		r.log.Error("prepare the crash report", "error", err)
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
	return ownAlert("steward_ended", protocol.Medium, "steward")
}

// tellOfCrash raises an incident if the last run crashed, hung or ran out of memory.
func (r *run) tellOfCrash() {
	last := r.record.Last
	if last == nil || last.How != EndCrashed && last.How != endWatchdog && last.How != endMemory {
		return
	}
	alert := crashAlert()
	alert.Summary = "steward itself ended unexpectedly (" + last.How + ") and was started again"
	alert.Detail, alert.Occurrence = last.Why, r.record.Started.Format(time.RFC3339)
	r.raise(alert)
}

// healthyAfter is how long a run must last before the incident about an earlier crash is resolved.
const healthyAfter = 10 * time.Minute

// recover resolves the incident about an earlier crash once this run has lasted healthyAfter.
func (r *run) recover(now time.Time) {
	if r.recovered || now.Sub(r.record.Started) < healthyAfter {
		return
	}
	r.recovered = true
	r.resolve(crashAlert(), "it has run for "+terminal.Short(healthyAfter)+" since")
}

// keptCrashes is the number of crash reports that are kept.
const keptCrashes = 5

// saveCrashLog returns the report that a crashed run left, and renames it to a name with the time.
func (r *run) saveCrashLog(now time.Time) string {
	path := filepath.Join(r.dir, CrashFile)
	report := CrashLeft(r.dir)
	if report == "" {
		return ""
	}
	if err := os.Rename(path, filepath.Join(r.dir, "crash-"+now.UTC().Format("20060102T150405Z")+".txt")); err != nil {
		r.log.Error("keep the crash report", "error", err)
	}
	old, _ := filepath.Glob(filepath.Join(r.dir, "crash-*.txt"))
	slices.Sort(old)
	for _, path := range old[:max(0, len(old)-keptCrashes)] {
		_ = os.Remove(path)
	}
	return report
}

// DownAlert is the alert about a steward that is down.
func DownAlert() rules.Alert {
	a := ownAlert("steward_down", protocol.High, "steward")
	a.Summary = "steward has stopped, and is not started again"
	a.Spoken = "Steward has stopped. Your agents are not supervised. Your input needed."
	return a
}
