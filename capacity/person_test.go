package capacity

import (
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
)

// TestPersonWaitsForMemoryAndFilesOnly: a full processor, disk or agent does not hold a task that a user starts at a
// terminal.
func TestPersonWaitsForMemoryAndFilesOnly(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	cfg := Config{Threshold: 0.8, DiskLimit: 0.95, RetryAfter: time.Minute, Hysteresis: 0.05, Calm: 3 * time.Second, ClaimCores: 1, ClaimMemoryMB: 1024,
		ClaimDecays: 10 * time.Second, ClaimLapses: 30 * time.Second}
	for _, c := range []struct {
		full   string
		person bool
		admit  bool
	}{
		{DimCPU, true, true}, {DimCPU, false, false}, {DimDisk, true, true}, {DimDisk, false, false},
		{DimMemory, true, false}, {DimFiles, true, false},
	} {
		share := func(d string) Share {
			if d == c.full {
				return Used(1)
			}
			return Used(0.1)
		}
		load := Load{CPU: share(DimCPU), Memory: share(DimMemory), Files: share(DimFiles), Disk: share(DimDisk), At: now, Cores: 2, MemoryTotal: 8 << 30}
		w := Waiter{Subject: protocol.Subject{Kind: protocol.KindMachine, ID: "admission"}, Since: now, Person: c.person}
		// The reservations of recently admitted work exceed the machine.
		claims := []Reservation{{Subject: protocol.Subject{Kind: protocol.KindTask, ID: "t"}, Since: now}}
		verdicts, _, _ := Admit(Work{Waiters: []Waiter{w}, Reservations: claims}, load, Memory{At: now}, now, cfg)
		if verdicts[0].Admit != c.admit {
			t.Errorf("%s full, person %v: %+v", c.full, c.person, verdicts[0])
		}
	}
}
