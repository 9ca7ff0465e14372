package capacity

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/livhana/steward/protocol"
)

// Config is the [capacity] table of the configuration, and values without a key that config.Defaults sets. This package has
// no defaults.
type Config struct {
	// Dimensions are the dimensions that hold tasks (Dim…); nil: all of them.
	Dimensions []string `toml:"dimensions"`
	// Threshold is the used share above which tasks wait, unless a task states its own.
	Threshold float64 `toml:"threshold"`
	// DiskLimit is the used share of the disk above which tasks wait, unless a task's own limit is higher.
	DiskLimit float64 `toml:"disk_limit"`
	// DiskFree is the free space below which a disk is full, once DiskLimit is exceeded too. On a small disk 5 % of its
	// size applies if that is less.
	DiskFree Size `toml:"disk_free"`
	// RetryAfter is the wait that a waiting task is told, and how long an unreadable dimension holds a task.
	RetryAfter time.Duration `toml:"retry_after"`
	// Hysteresis is how far below its limit a dimension must fall before a held task is released.
	Hysteresis float64 `toml:"hysteresis"`
	// Calm is how long the dimension must stay there; CalmMemory is the same for memory, whose use rises again in
	// waves.
	Calm       time.Duration `toml:"calm"`
	CalmMemory time.Duration `toml:"-"`
	// ClaimCores and ClaimMemoryMB (MiB) are the expected cost of a task of which nothing was learnt yet.
	ClaimCores    float64 `toml:"claim_cores"`
	ClaimMemoryMB int     `toml:"claim_memory_mb"`
	// ClaimDecays is how long it takes until the readings fully show the processor use of new work. ClaimLapses is how
	// long admitted work keeps its claim without being taken.
	ClaimDecays time.Duration `toml:"-"`
	ClaimLapses time.Duration `toml:"-"`
	// StarveAfter is how long one task may wait for capacity, whatever other tasks are admitted, before the operator is
	// alerted.
	StarveAfter time.Duration `toml:"starve_after"`
	// PromoteAfter is the wait that raises a task by one priority.
	PromoteAfter time.Duration `toml:"-"`
	// AlarmAfter is how long a gate may stay shut before the operator is alerted.
	AlarmAfter time.Duration `toml:"alarm_after"`
	// Near is how close to Threshold counts as near the limit.
	Near float64 `toml:"-"`
	// SampleEvery, SampleNear and SampleIdle are the intervals between samples: normally, near the limit, and while
	// nothing depends on the reading.
	SampleEvery time.Duration `toml:"-"`
	SampleNear  time.Duration `toml:"-"`
	SampleIdle  time.Duration `toml:"-"`
}

// Validate reports every invalid value, one per line.
func (c Config) Validate() error {
	var errs []error
	// The comparisons are written so that they also reject NaN, for which every comparison is false.
	if !(c.Threshold > 0 && c.Threshold <= 1) {
		errs = append(errs, fmt.Errorf("[capacity] threshold = %v: must be above 0 and at most 1", c.Threshold))
	}
	for _, d := range c.Dimensions {
		if d != DimAgent && !slices.Contains(machine[:], d) {
			errs = append(errs, fmt.Errorf("[capacity] dimensions: there is no %q; there are cpu, memory, files, disk, agent", d))
		}
	}
	if !(c.DiskLimit >= 0 && c.DiskLimit <= 1) {
		errs = append(errs, fmt.Errorf("[capacity] disk_limit = %v: must be from 0 to 1", c.DiskLimit))
	}
	if !(c.Hysteresis >= 0 && c.Hysteresis < c.Threshold) {
		errs = append(errs, fmt.Errorf("[capacity] hysteresis = %v: must be at least 0 and below threshold", c.Hysteresis))
	}
	if !(c.ClaimCores >= 0 && c.ClaimCores <= 1024) {
		errs = append(errs, fmt.Errorf("[capacity] claim_cores = %v: must be from 0 to 1024", c.ClaimCores))
	}
	if c.ClaimMemoryMB < 0 || c.ClaimMemoryMB > 1<<24 {
		errs = append(errs, fmt.Errorf("[capacity] claim_memory_mb = %d: must be from 0 to %d", c.ClaimMemoryMB, 1<<24))
	}
	for _, d := range c.durations() {
		if d.value < d.least || d.value > d.most {
			errs = append(errs, fmt.Errorf("[capacity] %s = %q: must be from %v to %v", d.key, d.value, d.least, d.most))
		}
	}
	return errors.Join(errs...)
}

type bounded struct {
	key                string
	value, least, most time.Duration
}

func (c Config) durations() []bounded {
	const week = 7 * 24 * time.Hour
	return []bounded{
		{"retry_after", c.RetryAfter, 2 * time.Second, time.Hour},
		{"calm", c.Calm, 0, time.Hour},
		{"starve_after", c.StarveAfter, time.Second, week},
		{"alarm_after", c.AlarmAfter, time.Second, week},
	}
}

// IsNear reports whether the load is at most Near below Threshold, or above it. From then on the largest consumers are
// worth looking up. Disk does not count: it is near the limit on many healthy machines, and changes slowly.
func (c Config) IsNear(load Load) bool {
	load.Disk = protocol.Share{}
	used, known := load.Used().Value()
	return known && used >= c.Threshold-c.Near-tiny
}

// SampleIn returns the interval until the next sample. idle: no task is open and no agent process is recorded, so
// nothing depends on the reading.
func (c Config) SampleIn(load Load, idle bool) time.Duration {
	switch {
	case idle:
		return c.SampleIdle
	case c.IsNear(load):
		return c.SampleNear
	}
	return c.SampleEvery
}
