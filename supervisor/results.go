package supervisor

import (
	"errors"
	"slices"
	"time"

	"github.com/livhana/steward/protocol"
)

// report records a scanner's report and decides on it. Reports for a project that is gone are ignored.
func (s *loop) report(r report) {
	d := r.project
	if d.gone {
		return
	}
	now := s.now()
	was, inTurn := d.snapshots, d.inTurn
	s.applyReport(d, r, now)
	if d.removal != nil {
		s.removed.reported(d, r, now, s.cfg.Tasks.Lease)
		return
	}
	if r.full {
		s.followAgents(d)
	}
	d.changes = append(d.changes, s.failOpen(d, was, now)...)
	s.sampleForWork(now)
	if inTurn && s.waitsForOthers(now) {
		return
	}
	s.decide()
	s.saveIdle(now) // saves at once for a new project
}

// applyReport stores a report in the project's state.
func (s *loop) applyReport(d *projectState, r report, now time.Time) {
	if r.released {
		d.busy = false
		s.recordResults(d, r.results, now)
		d.full = false
		return
	}
	s.selfWatch(d, &r, now)
	d.busy, d.scannedAt, d.problem = false, now, r.problem
	if r.full {
		d.fullScanAt = now
	}
	if r.problem != nil {
		s.log.Error("looker panicked", "project", d.project.Name, "problem", r.problem.Problem, "stack", r.stack)
	}
	if r.full {
		s.identified(d, &r)
		d.setWatch(r.watchErr, now, s.cfg.LookUnwatched(), s.log)
	}
	s.scans++
	s.metrics.look(r.took)
	d.snapshots, d.speaks, d.again = r.snapshots, r.speaks, time.Time{}
	for i := range r.snapshots {
		if at := r.snapshots[i].Again; !at.IsZero() && (d.again.IsZero() || at.Before(d.again)) {
			d.again = at
		}
	}
	s.recordResults(d, r.results, now)
}

// recordResults journals and counts the outcome of each change.
func (s *loop) recordResults(d *projectState, results []result, now time.Time) {
	for _, res := range results {
		c := res.change
		s.metrics.change(c, res.err)
		entry := Entry{At: now, Kind: "change", Subject: c.Subject, Verb: string(c.Verb), Reason: string(c.Reason), Text: c.Why, Change: &c}
		switch {
		case res.err == nil && c.Verb == protocol.VerbRenew: // a renewal changes nothing that people see
		case res.err == nil:
			if c.Verb != protocol.VerbLog && c.Verb != protocol.VerbRecord { // log lines and records are not listed as work done
				s.addRecent(Done{At: now, Verb: string(c.Verb), Subject: c.Subject.String(), Why: c.Why})
			}
			s.log.Info("changed", "verb", c.Verb, "subject", c.Subject.String(), "reason", c.Reason, "why", c.Why, "took", res.took)
		case errors.Is(res.err, protocol.ErrUnsupported) && c.Reason == protocol.ReasonOperator:
			entry.Error = res.err.Error()
			s.log.Info("the protocol has no such command", "verb", c.Verb, "subject", c.Subject.String())
		case errors.Is(res.err, protocol.ErrConflict):
			entry.Error = res.err.Error()
			s.log.Info("the files moved on before the change", "verb", c.Verb, "subject", c.Subject.String(), "error", res.err)
		default:
			entry.Error = res.err.Error()
			s.log.Error("change", "verb", c.Verb, "subject", c.Subject.String(), "error", res.err)
		}
		if res.err != nil || c.Verb != protocol.VerbRenew {
			s.deps.Note(entry)
		}
		if again := d.recordTry(c, res.err, now); res.err != nil && again {
			d.full = true
		}
	}
	d.forgetEfforts(now)
}

func (s *loop) addRecent(d Done) {
	const kept = 50
	s.recent = append(s.recent, d)
	if len(s.recent) > kept {
		s.recent = slices.Clone(s.recent[len(s.recent)-kept:])
	}
}

// failOpen releases holds in a project that is only observed from now on: it was paused while a hold was on its way, or
// its mode changed.
func (s *loop) failOpen(d *projectState, was []protocol.Snapshot, now time.Time) []protocol.Change {
	var changes []protocol.Change
	for i := range d.snapshots {
		snap := d.snapshots[i]
		paused := s.pausedWhy(d) != ""
		observed := !snap.Act && slices.ContainsFunc(was, func(old protocol.Snapshot) bool { return old.Protocol == snap.Protocol && old.Act })
		if !(paused && snap.Act) && !observed {
			continue
		}
		snap.Act = true
		for _, c := range releases(&snap) {
			if !d.backsOff(c, now) {
				c.Reason, c.Why = protocol.ReasonOperator, "steward only observes here now; nothing stays held"
				changes = append(changes, c)
			}
		}
	}
	return changes
}
