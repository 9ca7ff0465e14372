package capacity

import (
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
)

func limitsConfig() Config {
	return Config{Threshold: 0.8, DiskLimit: 0.95, RetryAfter: time.Minute, Hysteresis: 0.05, Calm: 3 * time.Second, CalmMemory: 10 * time.Second, PromoteAfter: 10 * time.Minute}
}

// TestDiskHasItsOwnLimit distinguishes a disk that is 85 % full from a load of 85 %.
func TestDiskHasItsOwnLimit(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		name       string
		cpu, disk  float64
		throttle   protocol.Share
		dimensions []string
		admit      bool
		binds      string
	}{
		{name: "a full-ish disk is no load", cpu: 0.1, disk: 0.85, admit: true},
		{name: "a full disk is", cpu: 0.1, disk: 0.96, binds: DimDisk},
		{name: "the task's own limit may be higher", cpu: 0.1, disk: 0.96, throttle: protocol.Used(0.99), admit: true},
		{name: "a busy processor", cpu: 0.9, disk: 0.1, binds: DimCPU},
		{name: "a busy processor that does not count", cpu: 0.9, disk: 0.1, dimensions: []string{DimMemory}, admit: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := limitsConfig()
			cfg.Dimensions = c.dimensions
			load := Load{CPU: protocol.Used(c.cpu), Disk: protocol.Used(c.disk), At: now}
			w := Waiter{Subject: protocol.Subject{Kind: protocol.KindTask, ID: "t"}, Throttle: c.throttle}
			v, _, _ := Admit(Work{Waiters: []Waiter{w}}, load, Memory{}, now, cfg)
			if v[0].Admit != c.admit || v[0].Gate.Dimension != c.binds {
				t.Fatalf("admit %v, bound by %q (%+v); want %v, %q", v[0].Admit, v[0].Gate.Dimension, v[0].Cause, c.admit, c.binds)
			}
		})
	}
}
