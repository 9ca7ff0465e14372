package supervisor

import (
	"time"

	"github.com/livhana/steward/capacity"
)

// schedule says when the gauges are read and when projects are scanned by time. The projects share one round of full scans,
// so that a quiet machine is woken once for all of them, and one decision serves the whole round. Projects whose folders
// cannot be watched have a faster round of their own.
type schedule struct {
	sampled   time.Time // the last sample
	round     time.Time // the next round of projects whose folders are watched
	unwatched time.Time // the next round of the others
	decideBy  time.Time // deadline for the decision on a round that is under way; zero: none is pending
}

// intervals are how often things are due. quiet: readings decide nothing.
type intervals struct {
	sample, round, unwatched time.Duration
	quiet                    bool
}

// begin sets the first rounds after all projects are scanned now.
func (s *schedule) begin(now time.Time, every intervals) {
	s.round, s.unwatched = now.Add(every.round), now.Add(every.unwatched)
}

// sampleMargin is how long before it expires a reading is replaced.
const sampleMargin = 50 * time.Millisecond

// sampleDue is when the gauges are read next. A sample that decides nothing waits for the round that follows soon, as long
// as the last reading is valid.
func (s *schedule) sampleDue(every intervals) time.Time {
	at := s.sampled.Add(every.sample)
	if !every.quiet || s.round.Before(at) || !s.round.Before(at.Add(every.sample/2)) {
		return at
	}
	if latest := s.sampled.Add(capacity.MaxAge - sampleMargin); latest.Before(s.round) {
		return latest
	}
	return s.round
}

// due is what time has brought.
type due struct{ sample, round, unwatched bool }

// advance returns what is due, and sets the rounds that begin now to their next time. A sample and a round that are due
// within half an interval of each other come together.
func (s *schedule) advance(now time.Time, every intervals) due {
	sample := s.sampleDue(every)
	d := due{sample: !now.Before(sample), round: !now.Before(s.round), unwatched: !now.Before(s.unwatched)}
	if d.sample || d.round {
		soon := now.Add(min(every.sample, every.round) / 2)
		d.sample, d.round = d.sample || !soon.Before(s.sampled.Add(every.sample)), d.round || !soon.Before(s.round)
	}
	if d.round {
		s.round = now.Add(every.round)
	}
	if d.unwatched {
		s.unwatched = now.Add(every.unwatched)
	}
	return d
}

// roundLasts is how long the decision on a scan of a round waits for the other scans of the round.
const roundLasts = 50 * time.Millisecond

// scanGap is the least time between two scans of a project without a hint.
const scanGap = 25 * time.Millisecond

// wish is when a project must be scanned apart from hints and rounds: when its adapter asks for it, or when the plan does,
// because an agent's silence will have lasted too long. Zero: never.
func (d *projectState) wish(planned, now time.Time) (at time.Time) {
	for _, t := range [...]time.Time{planned, d.again} {
		if !t.IsZero() && (at.IsZero() || t.Sub(now) < at.Sub(now)) {
			at = t
		}
	}
	if earliest := d.scannedAt.Add(scanGap); !at.IsZero() && at.Sub(now) < earliest.Sub(now) {
		at = earliest
	}
	return at
}
