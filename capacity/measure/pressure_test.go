package measure

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/livhana/steward/capacity"
)

// Readings are (seconds, µs of stalls so far): only the last two seconds count, and a shorter spike does not.
func TestWaiting(t *testing.T) {
	type at struct {
		second float64
		some   uint64
		want   float64 // -1: unknown
	}
	for _, c := range []struct {
		name string
		list []at
	}{
		{"at 1 Hz", []at{{0, 0, -1}, {1, 500_000, -1}, {2, 600_000, 0.3}, {3, 600_000, 0.05}, {4, 600_000, 0}}},
		{"a spike in the first half second", []at{{0, 0, -1}, {0.25, 250_000, -1}, {0.5, 500_000, -1}}},
		{"at 4 Hz", []at{{0, 0, -1}, {1.75, 0, -1}, {2, 100_000, 0.05}, {2.25, 100_000, 0.1 / 2.25}, {2.5, 200_000, 0.08}, {3.75, 300_000, 0.15}, {4, 300_000, 0.1}}},
		{"at 0.2 Hz", []at{{0, 0, -1}, {5, 1_000_000, 0.2}, {10, 1_000_000, 0}}},
		{"all the time", []at{{0, 0, -1}, {2, 2_100_000, 1}}},
		{"after a suspend", []at{{0, 0, -1}, {3600, 60_000_000, -1}, {3602, 60_000_000, 0}}},
		{"a clock set back", []at{{100, 0, -1}, {50, 900_000, -1}, {52, 900_000, 0}}},
		{"a counter that runs backwards", []at{{0, 900, -1}, {2, 0, -1}}},
		{"the same moment again", []at{{0, 0, -1}, {2, 200_000, 0.1}, {2, 200_000, 0.1}, {2.05, 200_000, 0.2 / 2.05}}},
	} {
		var g waiting
		for _, r := range c.list {
			some, _, known := g.add(waited{some: r.some}, noon.Add(time.Duration(r.second*float64(time.Second))))
			if known != (r.want >= 0) || known && (some < r.want-1e-6 || some > r.want+1e-6) {
				t.Errorf("%s, at %v s: %v %v, want %v", c.name, r.second, some, known, r.want)
			}
		}
	}
}

func TestNeed(t *testing.T) {
	for _, c := range []struct{ some, full, want float64 }{{0, 0, 0}, {0.09, 0.04, 0}, {0.1, 0, 0.9}, {0.1, 0.05, 1}, {1, 1, 1}} {
		if got := need(c.some, c.full); got != c.want {
			t.Errorf("some %v, full %v: %v", c.some, c.full, got)
		}
	}
}

// If the kernel provides no events, Run reports that and waits.
func TestRunWithoutPressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New()
		g.proc = t.TempDir()
		ctx, stop := context.WithCancel(t.Context())
		over := make(chan error, 1)
		go func() { over <- g.Run(ctx) }()
		synctest.Wait()
		if g.Problems()["pressure"] == "" || len(over) > 0 {
			t.Errorf("problems: %v; it ended: %v", g.Problems(), len(over) > 0)
		}
		stop()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
}

// A leak is detected by its rate; a program start is not a leak.
func TestTrend(t *testing.T) {
	type at struct {
		second float64
		open   uint64
		want   bool
	}
	for _, c := range []struct {
		name  string
		limit uint64
		list  []at
	}{
		{"200 a second", 1024, []at{{0, 20, false}, {2, 420, false}, {3, 620, true}, {4, 820, true}, {5.1, 1024, true}}},
		{"less than half, but for the second time", 1024, []at{{0, 260, false}, {2, 320, false}, {4, 380, true}}},
		{"seen late", 1024, []at{{0, 100, false}, {2, 600, true}}},
		{"a program starts", 1024, []at{{0, 3, false}, {2, 300, false}, {4, 310, false}, {6, 310, false}}},
		{"little of a small limit", 256, []at{{0, 3, false}, {2, 60, false}, {4, 61, false}}},
		{"slowly", 1024, []at{{0, 600, false}, {2, 602, false}, {4, 604, false}}},
		{"it goes back", 1024, []at{{0, 100, false}, {2, 700, true}, {4, 100, false}}},
		{"too close together", 1024, []at{{0, 100, false}, {0.1, 900, false}, {0.5, 900, true}}},
		{"no limit to speak of", 1<<63 - 1, []at{{0, 100, false}, {2, 1e9, false}, {4, 1e12, false}}},
		{"a long pause", 1024, []at{{0, 100, false}, {60, 900, false}}},
	} {
		var g trend
		for _, r := range c.list {
			g.add(files{r.open, c.limit}, noon.Add(time.Duration(r.second*float64(time.Second))))
			if g.closing() != r.want {
				t.Errorf("%s, at %v s: %v (%+v)", c.name, r.second, g.closing(), g)
			}
		}
	}
}

func TestTrendInTheLoad(t *testing.T) {
	node := func() string { return "node (pid 7)" }
	g := trend{files: files{700, 1024}, at: noon.Add(-2 * time.Second)}
	load := capacity.Load{Files: capacity.Used(0.1)}
	g.count(&load, node)
	if v, _ := load.Files.Value(); v != 700.0/1024 || load.Because["files"] != "node (pid 7)" || load.Exhausted != 0 {
		t.Errorf("at rest: %+v", load)
	}
	g.add(files{764, 1024}, noon)
	load = capacity.Load{Files: capacity.Used(0.1)}
	if g.count(&load, node); load.Files.Or(0) != 1 || load.Exhausted != 8*time.Second {
		t.Errorf("32 a second, 260 left: %+v", load)
	}
	g = trend{files: files{10, 1024}, at: noon}
	load = capacity.Load{Files: capacity.Used(0.1)}
	if g.count(&load, node); load.Files.Or(0) != 0.1 || load.Because != nil {
		t.Errorf("the table is fuller: %+v", load)
	}
}
