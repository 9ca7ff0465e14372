package supervisor

import (
	"maps"
	"time"

	"github.com/livhana/steward/protocol"
)

// doubts are the recent signs that steward itself is impaired. See docs/decisions.md, "steward doubts itself first".
type doubts struct {
	scanned time.Time // the last full scan of any project
	late    time.Time // the last late scan
	unread  time.Time // the last scan that could not read several files
}

// count is the number of signs that are not older than the grace after a sleep: 0, 1 or 2.
func (o *doubts) count(now time.Time, grace time.Duration) (n int) {
	for _, at := range [...]time.Time{o.late, o.unread} {
		if since := now.Sub(at); !at.IsZero() && since >= 0 && since < grace {
			n++
		}
	}
	return n
}

// fullScan records a full scan. It is late after more than two intervals, unless the machine slept.
func (o *doubts) fullScan(now time.Time, every time.Duration, slept bool) {
	if !o.scanned.IsZero() && now.Sub(o.scanned) > 2*every && !slept {
		o.late = now
	}
	o.scanned = now
}

// filePath is a file that cannot be used; without protocol and path, all that a scanner which panicked could not read.
type filePath struct{ protocol, path string }

// unreadable are the files of a project that became unusable together.
type unreadable struct {
	files       map[filePath]bool
	since, last time.Time
}

// Several files that become unusable in one scan, or a panic of the scanner, point to steward's own trouble. After
// unreadMost the faults themselves have been reported.
const (
	unreadTogether = 2
	unreadMost     = 5 * time.Minute
)

// compare takes the faults of two scans, and reports whether the later one points to steward's own trouble.
func (u *unreadable) compare(before, after map[filePath]bool, now time.Time) bool {
	fresh := maps.Clone(after)
	maps.DeleteFunc(fresh, func(f filePath, _ bool) bool { return before[f] })
	maps.DeleteFunc(u.files, func(f filePath, _ bool) bool { return !after[f] })
	if len(fresh) >= unreadTogether || fresh[filePath{}] {
		if now.Sub(u.last).Abs() >= unreadMost { // files that come and go are one trouble
			u.since, u.files = now, map[filePath]bool{}
		}
		maps.Copy(u.files, fresh)
	}
	if len(u.files) == 0 {
		return false
	}
	u.last = now
	lasted := now.Sub(u.since)
	return lasted >= 0 && lasted < unreadMost
}

// faultsOf returns the files that a scan could not use. panicked: it was cut short.
func faultsOf(snapshots []protocol.Snapshot, panicked bool) map[filePath]bool {
	all := map[filePath]bool{}
	if panicked {
		all[filePath{}] = true
	}
	for i := range snapshots {
		for _, f := range snapshots[i].Faults {
			all[filePath{snapshots[i].Protocol, f.Path}] = true
		}
	}
	return all
}
