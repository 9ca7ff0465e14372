package doctor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/livhana/steward/cmd/steward/daemon"
	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/status"
	"github.com/livhana/steward/status/terminal"
	"github.com/livhana/steward/status/views"
)

// daemonFacts are what the socket and the state folder reveal about the daemon.
type daemonFacts struct {
	socket string
	system bool              // the daemon is the machine's unit
	doc    *status.Document  // nil: it did not answer
	err    error             // why not
	run    *daemon.RunRecord // the content of run.json; nil: none
	lives  bool              // the process of run exists
	crash  string            // the report that a crashed run left
	beat   daemon.Heartbeat
	now    time.Time
}

func (d *facts) daemonState(context.Context) []Finding {
	f := d.daemon
	f.socket, f.now, f.run = d.paths.Socket, d.now, daemon.ReadRun(d.paths.State)
	f.system = platform.IsMachineState(d.paths.State)
	if f.run != nil {
		id, err := proc.Inspect(f.run.PID)
		f.lives = err == nil && id == f.run.Process
	}
	f.beat, f.crash = d.beat, daemon.CrashLeft(d.paths.State)
	all := append(judgeDaemon(f), judgeEnd(f)...)
	if f.doc != nil && folderAt(d.paths.State).missing {
		return append(all, broken("state folder", serviceCommand("restart", f.system), "%s was taken away while steward runs", d.paths.State))
	}
	all = append(all, judgeFolder("state folder", d.paths.State, folderAt(d.paths.State), d.uid)...)
	if dir := filepath.Dir(f.socket); dir != d.paths.State {
		all = append(all, judgeFolder("socket folder", dir, folderAt(dir), d.uid)...)
	}
	return all
}

// judgeDaemon says whether a daemon supervises the projects now.
func judgeDaemon(f daemonFacts) []Finding {
	const name = "socket"
	if err := platform.CheckSocketPath(f.socket); err != nil {
		return []Finding{broken(name, "set socket under [status] to a shorter path", "%v", err)}
	}
	switch {
	case f.doc != nil:
		return []Finding{working(name, "steward %s answers on %s, up %s", f.doc.Version, f.socket, terminal.Short(f.now.Sub(f.doc.Started))), judgeBeat(f)}
	case isTimeout(f.err):
		return []Finding{broken(name, serviceCommand("restart", f.system)+"; if it was started by hand, end it and start it again",
			"a process listens on %s and does not answer", f.socket)}
	case errors.Is(f.err, status.ErrNoDaemon) && f.lives:
		return []Finding{broken(name, serviceCommand("restart", f.system)+" (or end it, if it was started by hand); if its folder goes with your last session: steward service install --linger",
			"process %d runs as steward, but does not answer on %s", f.run.PID, f.socket)}
	case errors.Is(f.err, status.ErrNoDaemon):
		return []Finding{warning(name, serviceCommand("install", f.system)+" (start, if it is installed), or in the foreground: steward run",
			"no steward is running, so nothing is supervised (no answer on %s)", f.socket)}
	}
	return []Finding{broken(name, "use the socket of your own steward, see --socket", "%v", f.err)}
}

// staleAfter is the maximum age of steward's own heartbeat: it is written every 15 s, and later while the disk is slow.
const staleAfter = 4 * daemon.HeartbeatEvery

func judgeBeat(f daemonFacts) Finding {
	const name = "heartbeat"
	age := f.now.Sub(f.beat.Beat)
	switch {
	case f.beat.Beat.IsZero():
		return warning(name, "look for errors: steward log", "steward runs, but its own heartbeat is not there or cannot be read")
	case age > staleAfter:
		return broken(name, "look what it waits for (steward log), then: "+serviceCommand("restart", f.system), "the last one was %s ago: its loop stands still", terminal.Short(age))
	}
	return working(name, "%s ago", terminal.Short(age))
}

// judgeEnd says how the last finished run ended.
func judgeEnd(f daemonFacts) []Finding {
	const name = "last end"
	end := lastEnd(f)
	if end == nil {
		return nil
	}
	text := views.Ending(&terminal.Page{Now: f.now}, end)
	failed := 0
	if f.doc == nil && !f.lives {
		failed = f.run.FailedStarts(f.now, f.crash != "")
	}
	switch {
	case failed > 1:
		return []Finding{broken(name, "read its log (journalctl), then: "+serviceCommand("start", f.system), "%s; %d starts in a row came to nothing", text, failed)}
	case !end.Wanted():
		return []Finding{warning(name, "see the log of that time; crash reports lie in the state folder", "%s", text)}
	}
	return []Finding{working(name, "%s", text)}
}

func lastEnd(f daemonFacts) *status.Ending {
	switch {
	case f.doc != nil:
		return f.doc.LastEnd
	case f.run == nil:
		return nil
	case f.lives:
		return f.run.Last
	}
	me, _ := proc.Inspect(os.Getpid())
	end := f.run.Ending(me, f.crash)
	if end.At.IsZero() {
		end.At = f.beat.Beat
	}
	return end
}

// unreachable returns the summary of the daemon's own incident that no channel works; "" if none exists.
func unreachable(doc *status.Document) string {
	if doc == nil {
		return ""
	}
	for _, i := range doc.Incidents {
		if i.Kind == "notifier_broken" && i.State != rules.Resolved {
			return i.Summary
		}
	}
	return ""
}

// isTimeout reports whether a process listens but does not answer.
func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}
