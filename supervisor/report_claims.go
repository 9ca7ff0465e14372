package supervisor

import (
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/protocol"
)

// Promised are used shares, null when unknown.
type Promised struct {
	CPU    protocol.Share `json:"cpu"`
	Memory protocol.Share `json:"memory"`
}

// ClaimReport is work that was admitted and has not ended, with what it is expected to take.
type ClaimReport struct {
	Subject     string     `json:"subject"`
	Since       time.Time  `json:"since"`
	Taken       *time.Time `json:"taken"` // null while nobody has it in hand
	Cores       float64    `json:"cores"`
	MemoryBytes uint64     `json:"memory_bytes"`
	Learnt      bool       `json:"learnt"` // from work of its kind; else it is assumed
	// The measured ones are absent where the processes of the work cannot be told from others.
	MeasuredCores  *float64 `json:"measured_cores,omitempty"`
	MeasuredMemory *uint64  `json:"measured_memory_bytes,omitempty"`
}

// Claims lists what has room or was promised it, and how full the machine is with that.
func (p *Picture) Claims() ([]ClaimReport, Promised) {
	list := []ClaimReport{}
	entries, cpu, memory := capacity.Statement(p.Plan.Claims, p.View.Load, p.Plan.Memory.Gate, p.View.Now, p.Config.Capacity)
	for _, e := range entries {
		c := ClaimReport{Subject: e.Subject.String(), Since: e.Since.UTC(), Taken: instant(e.Taken), Cores: e.Cores, MemoryBytes: e.Memory, Learnt: e.Learnt}
		if m := e.Measured; m != nil {
			c.MeasuredMemory = &m.Memory
			if m.Cores >= 0 {
				c.MeasuredCores = &m.Cores
			}
		}
		list = append(list, c)
	}
	return list, Promised{CPU: cpu, Memory: memory}
}
