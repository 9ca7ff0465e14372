package decide

import (
	"fmt"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/status/words"
)

// locks judges every lock of a snapshot: a lock that outlived its holder is released; a lock that is over its time while its
// holder lives is reported and left alone.
func (d *decision) locks(s *protocol.Snapshot, at source, agents map[string]*agentCase, was remembered) {
	clock := d.clock(s)
	clock.Watched = d.watched(s)
	known, verdicts := writer[heartbeat.LockMemory]{old: was.locks, same: equal[heartbeat.LockMemory]}, make([]heartbeat.LockVerdict, 0, len(s.Locks))
	for i := range s.Locks {
		l := &s.Locks[i]
		subject := s.Subject(protocol.KindLock, l.Resource)
		var holder *heartbeat.Verdict
		if a := agents[l.Holder]; a != nil {
			holder = &a.verdict
		}
		v, m := heartbeat.JudgeLock(*l, holder, d.processes[l.Process], known.value(l.Resource), clock, d.cfg.Locks)
		verdicts = set(verdicts, known.write(l.Resource, &m), v)
		var r ruling
		r.rescanAt(v.Deadline, d.now)
		switch {
		case v.Release:
			r.change(s, protocol.Change{Verb: protocol.VerbUnlock, Subject: subject, Reason: v.Reason, Why: words.Sentence(v.Cause, d.now), Judged: protocol.Judged{Ref: l.Ref}, Agent: l.Holder})
			if !mayChange(s) {
				r.tell(lockOverdue(subject, l, v, d.now))
			}
		case v.State == protocol.LockOverdue && v.Deadline.IsZero(): // else it is about to be released
			r.tell(lockOverdue(subject, l, v, d.now))
		}
		d.merge(s, &r)
	}
	here, judged := bookKey{at, protocol.KindLock}, known.done()
	replace(&d.plan.Memory.Locks, &d.own.locks, here, judged)
	replace(&d.plan.Locks, &d.own.lockVerdicts, here, aligned(judged, verdicts))
}

// lockOverdue tells the user of a lock over its time: taking it from a living holder would do harm.
func lockOverdue(subject protocol.Subject, l *protocol.Lock, v heartbeat.LockVerdict, now time.Time) condition {
	return condition{Alert: rules.Alert{Kind: "lock_overdue", Severity: protocol.Medium, Subject: subject, Agent: l.Holder,
		Summary:    fmt.Sprintf("%s holds the lock on %s over its time", l.Holder, l.Resource),
		Detail:     fmt.Sprintf("It ended at %s: %s.", v.Expires.UTC().Format(time.RFC3339), words.Sentence(v.Cause, now)),
		Spoken:     fmt.Sprintf("%s holds the lock on %s over its time.", l.Holder, l.Resource),
		Occurrence: v.Expires.UTC().Format(time.RFC3339)}}
}
