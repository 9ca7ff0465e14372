package worker

import (
	"math"
	"time"

	"github.com/livhana/steward/join/run"
	"github.com/livhana/steward/protocol/agentstatus"
)

// machine is the size of the machine; 0 is unknown.
type machine struct {
	cores  int
	memory uint64 // bytes
}

// measure adds what the run consumed to its result (protocol 000: capacity_used, result.metrics).
func (m machine) measure(e *run.Ended, p *plan, r *agentstatus.Result) {
	wall := max(e.End.Sub(e.Start), 0)
	cpu := e.User + e.System
	r.Seconds = seconds(wall)
	r.Capacity = m.used(wall, cpu, e.MaxRSS)
	add := map[string]any{
		"exit_code": e.Code, "wall_seconds": seconds(wall), "cpu_seconds": seconds(cpu), "max_rss_mb": math.Round(float64(e.MaxRSS)/(1<<20)*10) / 10,
		"output_bytes": e.Stdout.Bytes + e.Stderr.Bytes, "survivors": e.Survivors,
	}
	if e.Signal != "" {
		add["signal"] = e.Signal
	}
	if e.Confined {
		add["confined"] = true
	}
	if p.dry {
		add["dry_run"] = true
	}
	for key, v := range add {
		r.Body.Metrics[key] = v
	}
}

// used is the share of the machine that the run took: the larger of its share of the processors and of the memory.
func (m machine) used(wall, cpu time.Duration, rss int64) float64 {
	var share float64
	if wall > 0 && m.cores > 0 {
		share = cpu.Seconds() / (wall.Seconds() * float64(m.cores))
	}
	if m.memory > 0 {
		share = max(share, float64(rss)/float64(m.memory))
	}
	return math.Round(min(max(share, 0), 1)*1000) / 1000
}

// seconds rounds to milliseconds.
func seconds(d time.Duration) float64 { return math.Round(d.Seconds()*1000) / 1000 }
