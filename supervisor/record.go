package supervisor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status/words"
	"github.com/livhana/steward/supervisor/decide"
)

// recorder puts what the loop does on record: in the journal, in the log, and in the list of changes on the status page.
type recorder struct {
	note     func(Entry)
	log      *slog.Logger
	done     []Done
	overflow map[string]time.Time // when lost hints of a project were last reported
}

// keptDone is how many changes the status page shows.
const keptDone = 50

// results records the outcome of changes.
func (w *recorder) results(results []result, now time.Time) {
	for _, res := range results {
		c, renewal := res.change, res.change.Verb == protocol.VerbRenew
		entry := Entry{At: now, Kind: "change", Subject: c.Subject, Verb: string(c.Verb), Reason: string(c.Reason), Text: c.Why, Change: &c}
		if res.err != nil {
			entry.Error = res.err.Error()
			text, level := "change", slog.LevelError
			switch {
			case errors.Is(res.err, protocol.ErrUnsupported) && c.Reason == protocol.ReasonOperator:
				text, level = "the protocol has no such command", slog.LevelInfo
			case errors.Is(res.err, protocol.ErrConflict):
				text, level = "the files moved on before the change", slog.LevelInfo
			}
			w.log.Log(context.Background(), level, text, "verb", c.Verb, "subject", c.Subject.String(), "error", res.err)
			w.note(entry)
			continue
		}
		if renewal { // it changes nothing that people see
			continue
		}
		if c.Verb != protocol.VerbLog && c.Verb != protocol.VerbRecord { // log lines and records are not listed as work done
			w.done = slices.Concat(w.done[max(0, len(w.done)+1-keptDone):], []Done{{At: now, Verb: string(c.Verb), Subject: c.Subject.String(), Why: c.Why}})
		}
		w.log.Info("changed", "verb", c.Verb, "subject", c.Subject.String(), "reason", c.Reason, "why", c.Why, "took", res.took)
		w.note(entry)
	}
}

// verdicts records every change in the state of an agent, a task or a lock, with its evidence.
func (w *recorder) verdicts(old, plan *decide.Plan, memory *decide.Memory, now time.Time) {
	var entries []Entry
	add := func(subject protocol.Subject, state, reason, why string) {
		entries = append(entries, Entry{At: now, Kind: "verdict", Subject: subject, State: state, Reason: reason, Text: why})
	}
	for subject, turn := range plan.Agents.Since(old.Agents) {
		if v := turn.Is; v.Changed {
			add(subject, string(v.State), string(v.Reason), words.Sentence(v.Cause, now))
		}
	}
	for subject, turn := range plan.Tasks.Since(old.Tasks) {
		if v := turn.Is; (turn.Was == nil || turn.Was.State != v.State) && memory.Tasks.Of(subject).State != v.State {
			add(subject, string(v.State), string(v.Reason), words.Sentence(v.Cause, now))
		}
	}
	for subject, turn := range plan.Locks.Since(old.Locks) {
		if v := turn.Is; v.Changed {
			add(subject, string(v.State), string(v.Reason), words.Sentence(v.Cause, now))
		}
	}
	slices.SortFunc(entries, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Subject.Kind, b.Subject.Kind), cmp.Compare(a.Subject.Project, b.Subject.Project), cmp.Compare(a.Subject.ID, b.Subject.ID))
	})
	for _, e := range entries {
		w.log.Info(string(e.Subject.Kind), "subject", e.Subject.String(), "state", e.State, "reason", e.Reason, "why", e.Text)
		w.note(e)
	}
}

// alert records that an incident was raised or resolved; err is why it could not be written.
func (w *recorder) alert(a rules.Alert, err error, now time.Time) {
	verb := "alert"
	if a.Resolve {
		verb = "resolve"
	}
	entry := Entry{At: now, Kind: verb, Subject: a.Subject, Verb: verb, Reason: a.Kind, Text: strings.TrimSpace(a.Summary + "\n" + a.Detail), Incident: a.Key}
	if err != nil {
		entry.Error = err.Error()
		w.log.Error("write incident", "key", a.Key, "error", err)
	}
	w.note(entry)
}

// ending records the order to end a hung process.
func (w *recorder) ending(e decide.End, pid int, now time.Time) {
	w.log.Warn("ending a hung agent", "subject", e.Subject.String(), "pid", pid, "why", e.Why)
	w.note(Entry{At: now, Kind: "change", Subject: e.Subject, Verb: "end", State: string(protocol.AgentHung), Reason: string(protocol.ReasonSilent),
		Text: fmt.Sprintf("process %d and all below it are ended: %s", pid, e.Why)})
}

// overflowEvery limits how often lost hints of one project are reported.
const overflowEvery = time.Minute

// hintsLost records that the kernel dropped hints of a project; the full scan that follows replaces them.
func (w *recorder) hintsLost(project string, now time.Time) {
	if since := now.Sub(w.overflow[project]); since >= 0 && since < overflowEvery {
		return
	}
	w.overflow[project] = now
	w.log.Warn("more changes than the kernel keeps; looking at everything instead", "project", project)
	w.note(Entry{At: now, Kind: "note", Subject: decide.ProjectOf(project),
		Text: "more changes came at once than the kernel keeps (fs.inotify.max_queued_events): the whole project is scanned instead"})
}

// slept records that the machine slept or that its clock was set.
func (w *recorder) slept(before, now time.Time, cfg heartbeat.Config) {
	w.log.Info("the machine slept, or its clock was set", "before", before, "now", now)
	w.note(Entry{At: now, Kind: "note", Subject: protocol.Subject{Kind: protocol.KindMachine, ID: "clock"},
		Text: "the machine slept, or its clock was set: no agent is declared dead by silence for " + cfg.ResumeGrace.String()})
}
