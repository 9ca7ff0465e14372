package capacity

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
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
	// long admitted work keeps its reservation without being taken.
	ClaimDecays time.Duration `toml:"-"`
	ClaimLapses time.Duration `toml:"-"`
	// StarveAfter is how long one task may wait for capacity, whatever other tasks are admitted, before the operator is
	// alerted.
	StarveAfter time.Duration `toml:"-"`
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
	refuse := func(key string, value any, must string) {
		errs = append(errs, fmt.Errorf("[capacity] %s = %v: must be %s", key, value, must))
	}
	for _, d := range c.Dimensions {
		if d != DimAgent && !slices.Contains(machine[:], d) {
			errs = append(errs, fmt.Errorf("[capacity] dimensions: there is no %q; there are cpu, memory, files, disk, agent", d))
		}
	}
	// The comparisons are written so that they also reject NaN, for which every comparison is false.
	for _, v := range []struct {
		key   string
		value float64
		fits  bool
		must  string
	}{
		{"threshold", c.Threshold, c.Threshold > 0 && c.Threshold <= 1, "above 0 and at most 1"},
		{"disk_limit", c.DiskLimit, c.DiskLimit >= 0 && c.DiskLimit <= 1, "from 0 to 1"},
		{"hysteresis", c.Hysteresis, c.Hysteresis >= 0 && c.Hysteresis < c.Threshold, "at least 0 and below threshold"},
		{"near", c.Near, c.Near >= 0 && c.Near <= 1, "from 0 to 1"},
		{"claim_cores", c.ClaimCores, c.ClaimCores >= 0 && c.ClaimCores <= mostCores, "from 0 to 1024"},
	} {
		if !v.fits {
			refuse(v.key, v.value, v.must)
		}
	}
	if c.ClaimMemoryMB < 0 || c.ClaimMemoryMB > 1<<24 {
		refuse("claim_memory_mb", c.ClaimMemoryMB, fmt.Sprintf("from 0 to %d", 1<<24))
	}
	for _, d := range c.durations() {
		if d.value < d.least || d.value > d.most {
			refuse(d.key, strconv.Quote(d.value.String()), fmt.Sprintf("from %v to %v", d.least, d.most))
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
