package supervisor

import (
	"time"

	"github.com/livhana/steward/capacity"
)

// sampleDue is when the gauges are read next. While readings decide nothing, the sample waits for a full scan that is
// due soon after, as long as the last sample is still valid.
func (s *loop) sampleDue() time.Time {
	every := s.sampleEvery()
	at := s.sampled.Add(every)
	if s.watches {
		return at
	}
	wait := at.Add(every / 2)
	for _, d := range s.projects {
		last := d.fullScanAt
		if d.busy { // its scan ends before that; putting the timer off would wake the process anyway
			last = d.since
		}
		if turn := last.Add(s.scanInterval(d)); !turn.Before(at) && turn.Before(wait) {
			wait = turn
		}
	}
	if wait.Equal(at.Add(every / 2)) {
		return at
	}
	if latest := s.sampled.Add(capacity.MaxAge - sampleMargin); latest.Before(wait) {
		wait = latest
	}
	if wait.Before(at) {
		return at
	}
	return wait
}

// sampleMargin is how long before it expires a reading is replaced.
const sampleMargin = 50 * time.Millisecond

// scanInterval is the interval of full scans. A project whose folders cannot be watched is scanned often enough for its
// requests to be judged in time.
func (s *loop) scanInterval(d *projectState) time.Duration {
	if d.unwatched != nil {
		return s.cfg.LookUnwatched()
	}
	return s.cfg.LookEvery
}

// nextFullScan is when the next full scan is due.
func (s *loop) nextFullScan(d *projectState) time.Time { return d.fullScanAt.Add(s.scanInterval(d)) }

// unwatchedSlack is slack for the projects whose folders are not watched. They have a schedule of their own, so that
// they do not speed up the others.
func (s *loop) unwatchedSlack(now time.Time) time.Duration {
	for _, d := range s.projects {
		if d.unwatched != nil && !d.busy && !now.Before(s.nextFullScan(d)) {
			return s.cfg.LookUnwatched() / 2
		}
	}
	return 0
}

// slack is how early a sample and a full scan may come, so that a quiet machine wakes once instead of once for each. A
// sample and a scan that fall due within half an interval of each other go together. A full scan takes along the other
// projects that would follow within half an interval; from then on they share one schedule. Otherwise each project
// would cause two decisions, because the decision after a scan has to find that nothing is left to do.
func (s *loop) slack(now time.Time) (sample, look time.Duration) {
	half := min(s.sampleEvery(), s.cfg.LookEvery) / 2
	if !now.Before(s.sampled.Add(s.sampleEvery())) {
		sample = half
	}
	for _, d := range s.projects {
		if d.unwatched != nil || d.busy {
			continue
		}
		switch turn := s.nextFullScan(d); {
		case !now.Before(turn):
			return half, s.cfg.LookEvery / 2
		case sample > 0 && !now.Before(turn.Add(-half)): // scan it with the sample, and the others with it
			look = s.cfg.LookEvery / 2
		}
	}
	return sample, max(sample, look)
}

// scheduleScan marks a project for a scan when one is due. An adapter's own wish (a torn file, a known moment) needs no
// hint.
func (s *loop) scheduleScan(d *projectState, now time.Time, slack time.Duration) {
	due, turn := s.nextScan(d, now), s.nextFullScan(d)
	inTurn := due.Equal(turn) && !now.Before(turn.Add(-slack)) // a wish is exact and never early
	if d.busy || !inTurn && now.Before(due) {
		return
	}
	d.hintScan = !inTurn && d.hintScans < mostHintScans && !d.again.IsZero() && !now.Before(d.again) && now.Before(turn)
	d.full, d.byClock = d.full || !d.hintScan, inTurn
}

// turnLasts is how long the decision on a scheduled scan waits for the other scans of the same turn.
const turnLasts = 50 * time.Millisecond

// waitsForOthers reports whether the decision can wait for other scans of the same turn. It is made with the last of
// them, or after turnLasts.
func (s *loop) waitsForOthers(now time.Time) bool {
	for _, d := range s.projects {
		if d.busy && d.inTurn {
			if s.decideBy.IsZero() {
				s.decideBy = now.Add(turnLasts)
			}
			return true
		}
	}
	return false
}

// decisionDue reports whether a decision is due by time.
func (s *loop) decisionDue(now time.Time) bool {
	return !s.plan.Wake.IsZero() && !now.Before(s.plan.Wake) || !s.decideBy.IsZero() && !now.Before(s.decideBy)
}

// alarms is the kernel's pressure alarm. It is ignored while readings decide nothing.
func (s *loop) alarms() <-chan struct{} {
	if !s.watches {
		return nil
	}
	return s.deps.Alarms
}

// sampleForWork takes a sample when a scan has found work or a process while readings decided nothing.
func (s *loop) sampleForWork(now time.Time) {
	if s.watches || now.Sub(s.sampled) < s.cfg.Capacity.SampleEvery {
		return
	}
	s.watches = hasRecorded(s.scanned())
	for _, d := range s.projects {
		s.watches = s.watches || d.hasWork()
	}
	if s.watches {
		s.sample()
	}
}
