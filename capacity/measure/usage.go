package measure

import (
	"slices"
	"strconv"
	"time"

	"github.com/livhana/steward/capacity"
)

// Usage returns the use of the process trees below the roots. It omits trees whose root is gone or from another boot.
// All processes are scanned at most every two seconds, and only on demand; in between it uses the last scan. If the
// scan fails it also uses the last one (see At), and Problems states the reason under "consumers". While Usage is
// queried, Sample counts the limits of these processes as well.
func (g *Gauge) Usage(roots []capacity.Identity, now time.Time) []capacity.Usage {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(roots) > 0 {
		g.roots, g.followed = append(g.roots[:0], roots...), now
	}
	g.refresh(now)
	return g.scan.usage(roots)
}

// refresh scans if the last scan is old enough; a scan for other queries keeps following the roots.
func (g *Gauge) refresh(now time.Time) bool {
	if !g.follows(now) {
		g.roots = g.roots[:0]
	}
	err := g.scan.refresh(g.proc, g.roots, now)
	if err == nil {
		err = g.scan.missed
	}
	delete(g.problems, "consumers")
	if err != nil {
		g.problems["consumers"] = err.Error()
	}
	return !g.scan.at.IsZero()
}

// follows reports whether the usage of agents was queried recently.
func (g *Gauge) follows(now time.Time) bool {
	age := now.Sub(g.followed)
	return !g.followed.IsZero() && age >= 0 && age < followedFor
}

// usage sums the rows below each root. A process below nested roots counts for each of them.
func (s *scanner) usage(roots []capacity.Identity) []capacity.Usage {
	if s.at.IsZero() || len(roots) == 0 {
		return nil
	}
	s.mark(roots)
	all := make([]capacity.Usage, len(roots))
	prints := make([]uint64, len(roots))
	for i, id := range roots {
		all[i] = capacity.Usage{Identity: id, At: s.at}
		if s.before.IsZero() {
			all[i].Cores = -1
		}
	}
	for _, r := range s.alive {
		for a := r; a != nil; a = a.origin {
			if a.mark > 0 {
				s.add(&all[a.mark-1], r)
				if !r.zombie {
					prints[a.mark-1] += r.print()
				}
			}
		}
	}
	s.unmark(roots)
	for i := range all {
		if all[i].Processes > 0 {
			all[i].Tree = strconv.FormatUint(prints[i], 16)
		}
	}
	return slices.DeleteFunc(all, func(u capacity.Usage) bool { return u.Processes == 0 })
}

// add adds one process to the sum. A zombie only has processor time.
func (s *scanner) add(u *capacity.Usage, r *row) {
	u.CPU += r.spent + r.children
	if !s.before.IsZero() {
		u.Cores += r.rate
	}
	if r.zombie {
		return
	}
	u.Processes++
	u.Memory += r.rss
	u.Written += r.written
	if r.files.limit > 0 && (u.FileLimit == 0 || r.files.used() > float64(u.Files)/float64(u.FileLimit)) {
		u.Files, u.FileLimit, u.FilesPID = int(r.files.open), int(min(r.files.limit, 1<<31-1)), r.pid
	}
}

// print is one process's part of an order-independent fingerprint (mixed as in splitmix64).
func (r *row) print() uint64 {
	x := uint64(r.pid)<<40 ^ r.start
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
