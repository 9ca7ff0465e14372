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

// scanEvery is the minimum interval of scans: reading a process takes some µs.
const scanEvery = 2 * time.Second

// row is one process. It is reused from scan to scan, so that a scan does not allocate.
type row struct {
	reading
	// origin is the process that started this one: the parent at first sight, not a process that adopted it later. An
	// ended origin is replaced by its own origin, so all origins are alive.
	origin *row
	scan   uint64 // the last scan that saw it
	ended  bool
	known  bool // read at least once

	readAt    time.Time     // time of the last full reading
	spentThen time.Duration // processor time at that reading
	due       bool          // must be read in this scan
	fresh     bool          // first seen in this scan
	lost      time.Duration // processor time of children that have ended since the reading

	cores float64 // its own, since the previous scan; over its life at first sight
	rate  float64 // cores including its ended children

	followed  uint64        // the last scan in which it belonged to a root
	files     trend         // descriptors against their limit; followed processes only
	filesRan  time.Duration // spent when they were counted
	limitAt   time.Time
	written   uint64
	writtenAt time.Time
	mark      int // 1 + its index among the roots
}

// reading is what the system reports about a process.
type reading struct {
	pid, parent, session int
	start                uint64 // the start token of package proc on Linux
	spent, children      time.Duration
	rss                  uint64
	zombie               bool
	comm                 string // the name on Linux
}

// scanner is the state of all processes. The current use of a process is known only from two scans.
type scanner struct {
	at      time.Time
	before  time.Time // time of the previous scan
	number  uint64    // of scans
	rows    map[int]*row
	alive   []*row
	suspect []*row // followed, and nearest their descriptor limit
	boot    string
	dir     *os.File // the open /proc
	// clock returns cheaply the processor time that a process has used so far.
	clock func(pid int) (time.Duration, clockState)
	gap   float64 // seconds since the previous scan; 0 at the first
	// missed is why existing processes could not be read; nil if all were read.
	missed error
}

type clockState int

const (
	clockUnknown clockState = iota
	clockRuns
	clockGone // no such process
)

// refresh updates the table, at most every two seconds.
func (s *scanner) refresh(procfs string, roots []capacity.Identity, now time.Time) error {
	// A caller that passes the time of a sample may pass a time before a scan that this sample triggered.
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

// bury removes processes that this scan did not see. Their processor time now appears in their parents, which must be
// read again and must not be charged with it as recent use.
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

// take records a full reading of a process, and reports whether the pid now belongs to another process.
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
	now.spent = max(now.spent, r.spent) // the clock, if available, is more precise
	r.reading, r.readAt, r.spentThen, r.lost, r.due = now, at, now.spent, 0, false
	return false
}

// begin sets the use of a process at first sight from its life so far. Its processor time counts for this scan if it
// began since the last scan.
func (r *row) begin(now reading, age, gap float64) {
	if age > 0 {
		r.cores = now.spent.Seconds() / age
	}
	if r.rate = r.cores; gap > 0 && age <= gap {
		r.rate = (now.spent + now.children).Seconds() / gap
	}
}

// spend records the processor use of a process since the previous scan.
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

// link finds the origins of new processes, and skips origins that have ended.
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

// originOf returns the parent, unless it is evidently an adopter. Then it returns the leader of the session, from which
// all processes of the session descend: a child stays in the session of its parent unless it creates its own.
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

// older reports whether a process may be an ancestor. Processes that began in the same tick are ordered by pid.
func (r *row) older(than *row) bool {
	return r != than && cmp.Or(cmp.Compare(r.start, than.start), cmp.Compare(r.pid, than.pid)) < 0
}

// mark sets the roots' indexes on their rows. A root is exactly the process of its identity; otherwise it is gone. A
// root named twice counts once.
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

// follow reads more about the processes of the roots: their descriptors, and what they write.
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

// mostSuspects is the number of processes that are read again between scans.
const mostSuspects = 4

func (r *row) below() bool {
	for a := r; a != nil; a = a.origin {
		if a.mark > 0 {
			return true
		}
	}
	return false
}

// worst returns the followed processes that may run out of descriptors, with current counts: a leak can be faster than
// the interval of the scans.
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
