package supervisor

import (
	"maps"
	"time"

	"github.com/livhana/steward/protocol"
)

// ownTrouble is what has spoken against our own eyes lately: looks that came late, files that could not be read.
type ownTrouble struct {
	looked time.Time        // the last full look at any project
	late   time.Time        // when one came late, the last time
	unread time.Time        // when files could not be read, the last time
	failed map[unread]spell // the files that could not, and scanners that broke down
}

// unread is a file that cannot be used, or, without protocol and path, a project whose scanner broke down.
type unread struct{ project, protocol, path string }

// spell is a trouble from its first time on, until it has not come back for failedMost.
type spell struct {
	since, last time.Time
	on          bool // at the last look
}

// The files of one look that begin to fail together are our own trouble rather than theirs, and so is a scanner that breaks
// down; for failedMost: by then somebody has learnt of the faults themselves.
const (
	failTogether = 2
	failedMost   = 5 * time.Minute
)

// selfWatch takes note of how well the look went that the report is about. It is called before the report becomes the
// project's state.
func (s *loop) selfWatch(d *projectState, r *report, now time.Time) {
	o := &s.own
	if r.full {
		gap := now.Sub(o.looked)
		woken := s.resumed || now.Before(s.memory.ResumeUntil) // that is a grace of its own
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

// compare finds the files of a project that have begun to fail together, and those that can be read again.
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

// forget drops what is remembered of a project that is gone.
func (o *ownTrouble) forget(project string) {
	maps.DeleteFunc(o.failed, func(key unread, _ spell) bool { return key.project == project })
}

// faultsOf gives the paths of a project that cannot be used, nil if there are none.
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

// doubt counts what has spoken against our own eyes for as long as agents may take to be heard of again: 0, 1 or 2.
func (s *loop) doubt(now time.Time) int {
	n := 0
	for _, at := range [...]time.Time{s.own.late, s.own.unread} {
		if since := now.Sub(at); !at.IsZero() && since >= 0 && since < s.cfg.Heartbeat.ResumeGrace {
			n++
		}
	}
	return n
}
