package capacity

import (
	"time"

	"github.com/livhana/steward/protocol"
)

// Reservation is work that was admitted and has not ended. Its cost may not show in the readings yet. The caller lists only
// work of living agents, whatever the project or vendor.
type Reservation struct {
	Subject protocol.Subject `json:"subject"`
	// Agent is the agent that is to do the work; zero if none is named.
	Agent protocol.Subject `json:"agent,omitzero"`
	// Kind is the key under which its cost is learnt: similar work has the same Kind.
	Kind string `json:"kind,omitempty"`
	// Since is when the work was admitted; Taken is when it was first seen in flight. A zero Taken means that no agent
	// has taken it.
	Since time.Time `json:"since"`
	Taken time.Time `json:"taken,omitzero"`
	// Measured is what its own processes use, if they can be told from others.
	Measured *Measured `json:"measured,omitempty"`
	// Told: its agent reports the tasks that it has taken, so work that was not taken is certainly not in the readings.
	Told bool `json:"told,omitempty"`
	// Overdue: the work is past its timeout. Unmeasured overdue work no longer counts, or one reservation that never ends
	// would block other tasks forever.
	Overdue bool `json:"overdue,omitempty"`
	// Absent: its project is not being scanned at present.
	Absent bool `json:"absent,omitempty"`
}

// Measured is what the processes of one reservation used at the last scan.
type Measured struct {
	Cores  float64 `json:"cores"`  // in use now; negative: not known yet
	Memory uint64  `json:"memory"` // bytes
	// CPU is the processor time used so far, 0 if unknown; At is when it was read.
	CPU time.Duration `json:"cpu,omitempty"`
	At  time.Time     `json:"at,omitzero"`
	// Whole: the processes do only this work, and have done so since it was taken.
	Whole bool `json:"whole,omitempty"`
}

// Reserved is what is remembered of a reservation from one judgement to the next.
type Reserved struct {
	Agent protocol.Subject `json:"agent,omitzero"`
	Kind  string           `json:"kind,omitempty"`
	Since time.Time        `json:"since"`
	Taken time.Time        `json:"taken,omitzero"`
	// Absent is since when its project has not been scanned.
	Absent time.Time `json:"absent,omitzero"`
	// Cores is the capacity that its end is expected to free.
	Cores float64 `json:"cores"`
	// Mature: the reservation is old enough to show fully in the readings.
	Mature bool `json:"mature,omitempty"`
	// Peak (bytes) is the highest memory measured. From First to Last the processor time of its processes went from
	// CPUFirst to CPU.
	Peak     uint64        `json:"peak,omitempty"`
	First    time.Time     `json:"first,omitzero"`
	Last     time.Time     `json:"last,omitzero"`
	CPUFirst time.Duration `json:"cpu_first,omitempty"`
	CPU      time.Duration `json:"cpu,omitempty"`
}

// lapsed reports whether the work was not taken in time. It may never be taken, so it reserves nothing.
func (c Reservation) lapsed(now time.Time, cfg Config) bool {
	return c.Taken.IsZero() && now.Sub(c.Since) >= cfg.ClaimLapses
}

// fresh is the part of the expected cost that is not in the readings yet, from 1 to 0.
func (c Reservation) fresh(now time.Time, cfg Config) float64 {
	if c.Taken.IsZero() {
		return 1
	}
	age := now.Sub(c.Taken)
	if age < 0 || cfg.ClaimDecays <= 0 {
		return 0
	}
	return max(0, 1-float64(age)/float64(cfg.ClaimDecays))
}

// with updates what is remembered of a reservation.
func (k Reserved) with(c Reservation) Reserved {
	k.Agent, k.Kind, k.Since, k.Taken = c.Agent, c.Kind, c.Since, c.Taken
	m := c.Measured
	if m == nil {
		return k
	}
	if k.First.IsZero() {
		k.First, k.CPUFirst = m.At, m.CPU
		if m.Whole {
			k.First, k.CPUFirst = c.Taken, 0
		}
	}
	if m.CPU >= k.CPU { // otherwise processes have exited, and their processor time is no longer counted
		k.Last, k.CPU = m.At, m.CPU
	}
	k.Peak = max(k.Peak, m.Memory)
	return k
}

func (k Reserved) absentSince(now time.Time) time.Time {
	if k.Absent.IsZero() {
		return now
	}
	return k.Absent
}

func (c Reservation) cores() float64 {
	if c.Measured == nil {
		return -1
	}
	return c.Measured.Cores
}
