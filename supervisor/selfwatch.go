package supervisor

import (
	"maps"
	"time"

	"github.com/livhana/steward/protocol"
)

// ownTrouble records recent signs that steward itself is impaired: late scans and files that could not be read.
type ownTrouble struct {
	looked time.Time        // the last full scan of any project
	late   time.Time        // the last late scan
	unread time.Time        // the last time files could not be read
	failed map[unread]spell // unreadable files and panics
}

// unread identifies a file that cannot be used or, without protocol and path, a project whose scanner panicked.
type unread struct{ project, protocol, path string }

// spell is a trouble from its first occurrence until it has been absent for failedMost.
type spell struct {
	since, last time.Time
	on          bool // at the last scan
}

// Several files that become unreadable in one scan, or a panic of the scanner, point to steward's own trouble. After
// failedMost the faults themselves have been reported.
const (
	failTogether = 2
	failedMost   = 5 * time.Minute
)

// selfWatch records how well a scan went. It is called before the report is stored in the project's state.
func (s *loop) selfWatch(d *projectState, r *report, now time.Time) {
	o := &s.own
	if r.full {
		gap := now.Sub(o.looked)
		woken := s.resumed || now.Before(s.memory.ResumeUntil) // the resume grace covers this
		if !o.looked.IsZero() && gap > 2*s.cfg.LookEvery && !woken {
			o.late = now
		}
		o.looked = now
	}
	o.compare(d, r, now)
	for _, f := range o.failed {
		if lasted := now.Sub(f.since); f.on && lasted >= 0 && lasted < failedMost {
			o.unread = now
		}
	}
}

// compare finds files of a project that became unreadable together, and files that can be read again.
func (o *ownTrouble) compare(d *projectState, r *report, now time.Time) {
	project := d.project.Name
	before, after := faultsOf(project, d.snapshots), faultsOf(project, r.snapshots)
	var fresh []unread
	for key := range after {
		if _, known := o.failed[key]; !known && !before[key] {
			fresh = append(fresh, key)
		}
	}
	if len(fresh) < failTogether || d.scannedAt.IsZero() {
		fresh = nil
	}
	broken := unread{project: project}
	if _, known := o.failed[broken]; !known && r.problem != nil {
		fresh = append(fresh, broken)
	}
	if len(fresh) > 0 && o.failed == nil {
		o.failed = map[unread]spell{}
	}
	for _, key := range fresh {
		o.failed[key] = spell{since: now}
	}
	for key, f := range o.failed {
		if key.project != project {
			continue
		}
		if f.on = after[key] || key == broken && r.problem != nil; f.on {
			f.last = now
		}
		if o.failed[key] = f; !f.on && now.Sub(f.last).Abs() >= failedMost {
			delete(o.failed, key)
		}
	}
}

// forget drops the records of a removed project.
func (o *ownTrouble) forget(project string) {
	maps.DeleteFunc(o.failed, func(key unread, _ spell) bool { return key.project == project })
}

// faultsOf returns the unusable paths of a project, nil if there are none.
func faultsOf(project string, snapshots []protocol.Snapshot) map[unread]bool {
	var all map[unread]bool
	for i := range snapshots {
		for _, f := range snapshots[i].Faults {
			if all == nil {
				all = map[unread]bool{}
			}
			all[unread{project, snapshots[i].Protocol, f.Path}] = true
		}
	}
	return all
}

// doubt counts the recent signs against steward's own observations: 0, 1 or 2.
func (s *loop) doubt(now time.Time) int {
	n := 0
	for _, at := range [...]time.Time{s.own.late, s.own.unread} {
		if since := now.Sub(at); !at.IsZero() && since >= 0 && since < s.cfg.Heartbeat.ResumeGrace {
			n++
		}
	}
	return n
}
