package supervisor

import (
	"time"

	"github.com/livhana/steward/capacity"
)

// sampleDue is when the gauges are read next. While a reading decides on nothing it waits for a full look that comes soon
// after, as long as the one before still counts.
func (s *loop) sampleDue() time.Time {
	every := s.sampleEvery()
	at := s.sampled.Add(every)
	if s.watches {
		return at
	}
	wait := at.Add(every / 2)
	for _, d := range s.projects {
		last := d.fullScanAt
		if d.busy { // it will have looked by then, and a timer that is put off wakes all the same
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

// sampleMargin is how long before it counts no more a reading is replaced at the latest.
const sampleMargin = 50 * time.Millisecond

// pace is the interval of full looks at a project. One whose folders are not watched is looked at so often that its
// requests are still judged in time.
func (s *loop) scanInterval(d *projectState) time.Duration {
	if d.unwatched != nil {
		return s.cfg.LookUnwatched()
	}
	return s.cfg.LookEvery
}

// turn is when the next full look is due by the clock.
func (s *loop) nextFullScan(d *projectState) time.Time { return d.fullScanAt.Add(s.scanInterval(d)) }

// hurry is together for the projects that are not watched. They have a turn of their own, or the others would be drawn into
// their quicker pace.
func (s *loop) unwatchedSlack(now time.Time) time.Duration {
	for _, d := range s.projects {
		if d.unwatched != nil && !d.busy && !now.Before(s.nextFullScan(d)) {
			return s.cfg.LookUnwatched() / 2
		}
	}
	return 0
}

// together is by how much what comes by the clock alone may come early, so that a quiet machine is woken once and not once
// for each. When a sample or a full look is due, what would be due within half a sample's time goes with it. A look that is
// due takes along those of the other projects that would follow within half a turn: from then on all have one turn, however
// far apart they once were. Each project on its own would be decided on twice, for a decision must show at the next one,
// whoever that is for, that nothing is left to do.
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
		case sample > 0 && !now.Before(turn.Add(-half)): // it goes with the sample, and the others go with it
			look = s.cfg.LookEvery / 2
		}
	}
	return sample, max(sample, look)
}

// callUp has a project look when its time has come. What an adapter asks for it finds without being told where: a torn
// file, a moment that has come.
func (s *loop) scheduleScan(d *projectState, now time.Time, slack time.Duration) {
	due, turn := s.nextScan(d), s.nextFullScan(d)
	inTurn := due.Equal(turn) && !now.Before(turn.Add(-slack)) // a wish is for its very moment
	if d.busy || !inTurn && now.Before(due) {
		return
	}
	d.hintScan = !inTurn && d.hintScans < mostHintScans && !d.again.IsZero() && !now.Before(d.again) && now.Before(turn)
	d.full, d.byClock = d.full || !d.hintScan, inTurn
}

// turnTakes is how long a look that the clock alone asked for waits for those that began with it: one decision serves
// all projects.
const turnLasts = 50 * time.Millisecond

// waitsForOthers reports whether the decision on a look may wait for the others of its turn. It is taken with the last
// of them, or when turnTakes is over.
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

// wakes reports whether the moment for a decision has come.
func (s *loop) decisionDue(now time.Time) bool {
	return !s.plan.Wake.IsZero() && !now.Before(s.plan.Wake) || !s.decideBy.IsZero() && !now.Before(s.decideBy)
}

// alarms is the kernel's word that the machine is in need. It is not heard while a reading decides on nothing.
func (s *loop) alarms() <-chan struct{} {
	if !s.watches {
		return nil
	}
	return s.deps.Alarms
}

// freshen takes a sample for work, or a process, that a look has shown while the readings decided on nothing.
func (s *loop) sampleForWork(now time.Time) {
	if s.watches || now.Sub(s.sampled) < s.cfg.Capacity.SampleEvery {
		return
	}
	s.watches = s.hasRecorded()
	for _, d := range s.projects {
		s.watches = s.watches || d.hasWork()
	}
	if s.watches {
		s.sample()
	}
}
