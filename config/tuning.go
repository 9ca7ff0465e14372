package config

import (
	"fmt"
	"slices"
	"time"
)

// tune sets the constants that no user has to choose. They are fields of Config so that tests can vary them.
func (c *Config) tune() {
	p := &c.Capacity
	p.CalmMemory = 10 * time.Second  // longer than for other dimensions: the use of memory comes back in waves
	p.ClaimDecays = 10 * time.Second // how long the processor time of an admitted task may take to show in the readings
	p.ClaimLapses = 30 * time.Second // no agent has taken the admitted task: its room goes to others
	p.PromoteAfter, p.StarveAfter = 10*time.Minute, 30*time.Minute
	// Close to the threshold, samples are more frequent. While nothing depends on the reading they are rare, but no rarer
	// than capacity.MaxAge, after which a reading counts as unknown.
	p.Near, p.SampleEvery, p.SampleNear, p.SampleIdle = 0.1, time.Second, 250*time.Millisecond, 4*time.Second

	c.Tasks.LogAfter = 2 * time.Second // a client logs its own event first

	c.Worker.Beat = 30 * time.Second
	c.Envelope.Acknowledge = 10 * time.Minute
	c.Envelope.CallsPerDay = 5 // protocol 004 counts more calls for the human as a failure of the protocol itself
}

// gone are the keys of former versions. A file that still has one is accepted, and the line has no effect.
var gone = []keyPath{
	"capacity.calm_memory", "capacity.claim_decays", "capacity.claim_lapses", "capacity.promote_after", "capacity.starve_after", "capacity.near",
	"capacity.sample_every", "capacity.sample_near", "capacity.sample_idle", "tasks.log_after",
	"worker.beat", "envelope.calls_per_day", "envelope.acknowledge",
}

// dropped reports whether the key is gone, and records a note about its line.
func (s *decoder) dropped(at keyPath) bool {
	if !slices.Contains(gone, at) {
		return false
	}
	s.gone = append(s.gone, Problem{File: s.name, Line: at.line(s.lines), Text: fmt.Sprintf("%s is no longer a setting and has no effect; remove the line", at)})
	return true
}
