package capacity

import (
	"time"

	"github.com/livhana/steward/protocol"
)

// Claim is work that was admitted and has not ended: what it will take may not show in the readings yet. The caller lists
// only work of living agents, whatever the project or vendor.
type Claim struct {
	Subject protocol.Subject `json:"subject"`
	// Agent is who is to do it; zero when nobody is named.
	Agent protocol.Subject `json:"agent,omitzero"`
	// Kind is under what its cost is learnt: work that is alike bears the same word.
	Kind string `json:"kind,omitempty"`
	// Since is when it was admitted, Taken when it was first seen in flight; a zero Taken means that nobody has it in hand.
	Since time.Time `json:"since"`
	Taken time.Time `json:"taken,omitzero"`
	// Measured is what its own processes take, where they can be told from others.
	Measured *Measured `json:"measured,omitempty"`
	// Told: its agent says what it has in hand, so that work which was not taken is surely in no reading.
	Told bool `json:"told,omitempty"`
	// Overdue: it is over its time. What cannot be measured of such work counts no more, or one claim that never ends would
	// keep others out for ever.
	Overdue bool `json:"overdue,omitempty"`
	// Absent: nobody looks at its project at present.
	Absent bool `json:"absent,omitempty"`
}

// Measured is what the processes of one piece of work take by the last scan.
type Measured struct {
	Cores  float64 `json:"cores"`  // in use now; below zero: not known yet
	Memory uint64  `json:"memory"` // bytes
	// CPU is the processor time spent so far, 0 if unknown; At is when that was read.
	CPU time.Duration `json:"cpu,omitempty"`
	At  time.Time     `json:"at,omitzero"`
	// Whole: the processes do nothing but this work, and have since it was taken.
	Whole bool `json:"whole,omitempty"`
}

// Claimed is what is remembered of a claim from one judgement to the next.
type Claimed struct {
	Agent protocol.Subject `json:"agent,omitzero"`
	Kind  string           `json:"kind,omitempty"`
	Since time.Time        `json:"since"`
	Taken time.Time        `json:"taken,omitzero"`
	// Absent is since when nobody looks at its project.
	Absent time.Time `json:"absent,omitzero"`
	// Cores is what its end is expected to set free.
	Cores float64 `json:"cores"`
	// Mature: it is old enough to stand in the readings.
	Mature bool `json:"mature,omitempty"`
	// Peak (bytes) is the most that was measured of it. From First to Last its processes went from one time spent to another.
	Peak     uint64        `json:"peak,omitempty"`
	First    time.Time     `json:"first,omitzero"`
	Last     time.Time     `json:"last,omitzero"`
	CPUFirst time.Duration `json:"cpu_first,omitempty"`
	CPU      time.Duration `json:"cpu,omitempty"`
}

// lapsed reports whether nobody took the work in time. Then it may never be taken, and promises nothing.
func (c Claim) lapsed(now time.Time, cfg Config) bool {
	return c.Taken.IsZero() && now.Sub(c.Since) >= cfg.ClaimLapses
}

// fresh is how much of the expected cost is not in the readings yet, 1 to 0.
func (c Claim) fresh(now time.Time, cfg Config) float64 {
	if c.Taken.IsZero() {
		return 1
	}
	age := now.Sub(c.Taken)
	if age < 0 || cfg.ClaimDecays <= 0 {
		return 0
	}
	return max(0, 1-float64(age)/float64(cfg.ClaimDecays))
}

// with brings what is remembered of a claim up to date.
func (k Claimed) with(c Claim) Claimed {
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
	if m.CPU >= k.CPU { // else processes have left, and what they spent with them
		k.Last, k.CPU = m.At, m.CPU
	}
	k.Peak = max(k.Peak, m.Memory)
	return k
}

func (k Claimed) absentSince(now time.Time) time.Time {
	if k.Absent.IsZero() {
		return now
	}
	return k.Absent
}

func (c Claim) cores() float64 {
	if c.Measured == nil {
		return -1
	}
	return c.Measured.Cores
}
