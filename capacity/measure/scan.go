package measure

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/platform/proc"
)

// scanEvery: a look at every process costs some µs each, so there is one in this time at most.
const scanEvery = 2 * time.Second

// row is one process. It stays the same row from scan to scan, so that a scan makes no garbage.
type row struct {
	reading
	// origin is the process from which this one comes: the parent at first sight, not the one that adopted it later. One
	// that has ended is replaced by its own origin, so these are all alive.
	origin *row
	scan   uint64 // the last scan that saw it
	ended  bool
	known  bool // it was read at least once

	readAt    time.Time     // when all of it was read last
	spentThen time.Duration // of the processor, at that time
	due       bool          // must be read in this scan
	fresh     bool          // first seen in this scan
	lost      time.Duration // what children had spent that have ended since it was read

	cores float64 // its own, since the scan before; over its life at first sight
	rate  float64 // cores with what its ended children took

	followed  uint64        // the last scan in which it belonged to a root
	files     trend         // descriptors against their limit; followed processes only
	filesRan  time.Duration // spent when they were counted
	limitAt   time.Time
	written   uint64
	writtenAt time.Time
	mark      int // 1 + the index of the root that it is
}

// reading is what the system says about a process.
type reading struct {
	pid, parent, session int
	start                uint64 // the start token of package proc on Linux
	spent, children      time.Duration
	rss                  uint64
	zombie               bool
	comm                 [16]byte // the name on Linux
	commLen              int
}

// scanner keeps what is known of all processes. What a process does now shows only between two scans.
type scanner struct {
	at      time.Time
	before  time.Time // of the scan before
	number  uint64    // of scans
	rows    map[int]*row
	alive   []*row
	suspect []*row // followed, and nearest their limit of descriptors
	boot    string
	table   processTable
	buf     []byte
	// clock tells cheaply what a process has spent so far.
	clock func(pid int) (time.Duration, clockState)
	gap   float64 // seconds since the scan before; 0 at the first
	// missed says why processes could not be read that are there; nil when all could.
	missed error
}

type clockState int

const (
	clockUnknown clockState = iota
	clockRuns
	clockGone // there is no such process
)

// refresh brings the table up to date, at most every two seconds.
func (s *scanner) refresh(procfs string, roots []capacity.Identity, now time.Time) error {
	// Who asks with the time of a sample asks for a moment that may lie before a scan which that very sample led to.
	if age := now.Sub(s.at); !s.at.IsZero() && age > -scanEvery && age < scanEvery {
		return nil
	}
	if s.rows == nil {
		s.rows = map[int]*row{}
		if me, err := proc.Inspect(os.Getpid()); err == nil {
			s.boot = me.Boot
		}
	}
	s.gap = 0
	if !s.at.IsZero() {
		s.gap = max(now.Sub(s.at).Seconds(), 0)
	}
	s.number++
	if err := s.look(procfs, now); err != nil {
		return fmt.Errorf("read processes: %w", err)
	}
	s.before, s.at = s.at, now
	s.link()
	s.follow(procfs, roots, now)
	return nil
}

// bury takes out what this scan did not see. What the dead had spent is about to show with their parents, who must
// therefore be read again, and not be taken to have spent it just now.
func (s *scanner) bury() {
	for _, r := range s.alive {
		if r.scan == s.number {
			continue
		}
		r.ended = true
		if s.rows[r.pid] == r {
			delete(s.rows, r.pid)
		}
		if parent := s.rows[r.parent]; parent != nil {
			parent.due = true
			parent.lost += r.spent + r.children
		}
	}
	s.alive = slices.DeleteFunc(s.alive, func(r *row) bool { return r.ended })
}

// take enters a full reading of a process, and reports whether it is another process than before.
func (s *scanner) take(r *row, now reading, age time.Duration, at time.Time) (another bool) {
	if r.known && r.start != now.start {
		return true
	}
	if !r.known {
		r.known, r.fresh = true, true
		r.begin(now, age.Seconds(), s.gap)
	} else {
		r.spend(now.spent, s.gap)
		if s.gap > 0 {
			r.rate += max(now.children-r.children-r.lost, 0).Seconds() / s.gap
		}
	}
	now.spent = max(now.spent, r.spent) // the clock, where there is one, is finer
	r.reading, r.readAt, r.spentThen, r.lost, r.due = now, at, now.spent, 0, false
	return false
}

// begin judges a process at first sight: by its life. What it spent belongs to this scan if it began since the last.
func (r *row) begin(now reading, age, gap float64) {
	if age > 0 {
		r.cores = now.spent.Seconds() / age
	}
	if r.rate = r.cores; gap > 0 && age <= gap {
		r.rate = (now.spent + now.children).Seconds() / gap
	}
}

// spend notes how far a process has got since the scan before.
func (r *row) spend(now time.Duration, gap float64) {
	if now <= r.spent {
		return
	}
	if gap > 0 {
		cores := (now - r.spent).Seconds() / gap
		r.cores, r.rate = r.cores+cores, r.rate+cores
	}
	r.spent = now
}

// link finds where new processes come from, and passes over those that have ended.
func (s *scanner) link() {
	for _, r := range s.alive {
		if r.fresh {
			r.origin, r.fresh = s.originOf(r), false
		}
	}
	for _, r := range s.alive {
		for r.origin != nil && r.origin.ended {
			r.origin = r.origin.origin
		}
	}
}

// originOf is the parent; but where that is plainly one that adopted it, the leader of its session, from whom all in it
// descend: a child stays in the session of its parent unless it founds its own.
func (s *scanner) originOf(r *row) *row {
	parent, leader := s.rows[r.parent], s.rows[r.session]
	if parent != nil && !parent.older(r) {
		parent = nil
	}
	if leader == nil || leader == r || r.session == 0 || !leader.older(r) || parent != nil && parent.session == r.session {
		return parent
	}
	return leader
}

// older reports whether it may be an ancestor. Two that began within one tick may be, in the order of their numbers.
func (r *row) older(than *row) bool {
	return r != than && cmp.Or(cmp.Compare(r.start, than.start), cmp.Compare(r.pid, than.pid)) < 0
}

// mark puts the roots' indices on their rows. A root is the very process of its identity, or it is gone; one named
// twice counts once.
func (s *scanner) mark(roots []capacity.Identity) {
	for i, id := range roots {
		r := s.rows[id.PID]
		if r != nil && r.mark == 0 && !r.zombie && id.Proves() && id.Boot == s.boot && s.same(r, id) {
			r.mark = i + 1
		}
	}
}

func (s *scanner) unmark(roots []capacity.Identity) {
	for _, id := range roots {
		if r := s.rows[id.PID]; r != nil {
			r.mark = 0
		}
	}
}

// follow looks closer at the processes of the roots: their descriptors, and what they write.
func (s *scanner) follow(procfs string, roots []capacity.Identity, now time.Time) {
	s.suspect = s.suspect[:0]
	if len(roots) == 0 {
		return
	}
	s.mark(roots)
	defer s.unmark(roots)
	for _, r := range s.alive {
		if r.zombie || !r.below() {
			continue
		}
		r.followed = s.number
		s.lookCloser(procfs, r, now)
		if r.files.limit > 0 {
			s.suspect = append(s.suspect, r)
		}
	}
	slices.SortFunc(s.suspect, func(a, b *row) int {
		return cmp.Or(cmp.Compare(b.files.hot, a.files.hot), cmp.Compare(b.files.used(), a.files.used()), cmp.Compare(a.pid, b.pid))
	})
	s.suspect = s.suspect[:min(len(s.suspect), mostSuspects)]
}

// mostSuspects are looked at again between the scans.
const mostSuspects = 4

func (r *row) below() bool {
	for a := r; a != nil; a = a.origin {
		if a.mark > 0 {
			return true
		}
	}
	return false
}

// worst are the followed processes that may run out of descriptors, as they are now: a leak can be too fast for the pace
// of the scans.
func (s *scanner) worst(procfs string, now time.Time) []*row {
	if age := now.Sub(s.at); s.at.IsZero() || age < 0 || age > longest {
		return nil
	}
	for i, r := range s.suspect {
		if (i == 0 || r.files.pace > 0 || r.files.used() >= 0.25) && now.Sub(r.files.at) >= step {
			r.countFiles(procfs, now)
		}
	}
	return s.suspect
}

func (r *row) countFiles(procfs string, now time.Time) {
	n, ok := openFiles(procfs, r.pid)
	if !ok {
		r.files = trend{}
		return
	}
	r.files.add(files{uint64(n), r.files.limit}, now)
}
