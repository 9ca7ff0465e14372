package supervisor_test

import (
	"testing"
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor"
	"github.com/livhana/steward/supervisor/decide"
)

// TestSampleAfterSleep: the first step after a sleep of the machine reads the gauges before anything is decided. The readings
// from before it say nothing, and without readings the gate keeps nothing waiting.
func TestSampleAfterSleep(t *testing.T) {
	wall, samples := midnight, 0
	deps := supervisor.Deps{
		Measure:   func(now time.Time) capacity.Load { samples++; return capacity.Load{At: now} },
		Incidents: func() map[string]rules.Head { return nil },
		Tell:      func(rules.Alert) error { return nil },
		Save:      func(decide.Memory) error { return nil },
		Note:      func(supervisor.Entry) {},
	}
	d := supervisor.NewDriver(settings(), nil, decide.Memory{}, deps, func() time.Time { return withMonotonic(wall, time.Second) }, decide.Decide)
	d.Start()
	before := samples
	d.Exited(protocol.Identity{PID: 7, Start: 8, Boot: "b"})
	if samples != before {
		t.Error("a process exits, and the gauges are read")
	}
	wall = wall.Add(time.Hour) // the monotonic clock stands still
	d.Exited(protocol.Identity{PID: 7, Start: 8, Boot: "b"})
	if samples != before+1 {
		t.Errorf("after a sleep of an hour the gauges are read %d times", samples-before)
	}
}
