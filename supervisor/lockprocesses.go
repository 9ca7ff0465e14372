package supervisor

import (
	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/protocol"
)

// followLocks keeps the watch on the processes that hold locks which steward has granted: their end frees the lock at
// once. Locks of the kernel alone are only shown.
func (s *Supervisor) followLocks(d *desk, wanted map[protocol.Identity]heartbeat.ProcessState) {
	for i := range d.snapshots {
		for _, l := range d.snapshots[i].Locks {
			if l.Kernel || !l.Process.Proves() {
				continue
			}
			if _, known := wanted[l.Process]; !known {
				wanted[l.Process] = s.lookAfter(d, l.Process)
			}
		}
	}
}
