package capacity

import (
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
)

// TestDiskOfItsOwnProject: a full disk holds the tasks of its own project only, and a disk is full only if its share is
// above the limit and little is free.
func TestDiskOfItsOwnProject(t *testing.T) {
	const gib = 1 << 30
	now := time.Now()
	cfg := limitsConfig()
	cfg.DiskFree = 5 * gib
	for _, c := range []struct {
		name  string
		disk  Disk
		admit bool
	}{
		{"a small disk at 97 %", Disk{Used: 0.97, Free: 3 * gib}, false},
		{"a stick at 97 %", Disk{Used: 0.97, Free: 100 << 20}, false},
		{"a stick at 94 %", Disk{Used: 0.94, Free: 200 << 20}, true},
		{"20 TB at 97 %", Disk{Used: 0.97, Free: 600 * gib}, true},
		{"20 TB with 4 GiB left", Disk{Used: 1 - 4.0/20480, Free: 4 * gib}, false},
		{"nothing left", Disk{Used: 1}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			load := Load{CPU: protocol.Used(0.1), Disk: protocol.Used(c.disk.Used), At: now, Disks: map[string]Disk{"full": c.disk, "well": {Used: 0.18, Free: 80 * gib}}}
			task := func(project string, since time.Time) Waiter {
				return Waiter{Subject: protocol.Subject{Project: project, Kind: protocol.KindTask, ID: "t"}, Since: since, Throttle: protocol.Used(0.8)}
			}
			verdicts, mem, _ := Admit(Work{Waiters: []Waiter{task("full", now.Add(-time.Minute)), task("well", now)}}, load, Memory{}, now, cfg)
			for _, v := range verdicts {
				want := c.admit || v.Subject.Project == "well"
				if v.Admit != want {
					t.Errorf("%s: admit %v: %+v", v.Subject, v.Admit, v.Cause)
				}
			}
			if closed := mem.Closed(cfg); len(closed) > 0 == c.admit || len(closed) > 0 && closed[0].Project != "full" {
				t.Errorf("gates: %+v", closed)
			}
		})
	}
}

// TestDiskOpensAgain: a large disk that was full has room again at twice the required free space, not at a share of its
// size.
func TestDiskOpensAgain(t *testing.T) {
	now := time.Now()
	cfg := limitsConfig()
	cfg.DiskFree = 5 << 30
	w := Waiter{Subject: protocol.Subject{Project: "p", Kind: protocol.KindTask, ID: "t"}}
	load := Load{At: now, Disks: map[string]Disk{"p": {Used: 0.998, Free: 4 << 30}}}
	verdicts, mem, _ := Admit(Work{Waiters: []Waiter{w}}, load, Memory{}, now, cfg)
	if verdicts[0].Admit {
		t.Fatal(verdicts[0].Cause)
	}
	w.Held = true
	for range 3 {
		now = now.Add(2 * time.Second)
		load = Load{At: now, Disks: map[string]Disk{"p": {Used: 0.99, Free: 20 << 30}}}
		verdicts, mem, _ = Admit(Work{Waiters: []Waiter{w}}, load, mem, now, cfg)
	}
	if !verdicts[0].Admit {
		t.Error(verdicts[0].Cause)
	}
}

func TestSize(t *testing.T) {
	var s Size
	for text, want := range map[string]Size{"5GiB": 5 << 30, "500 MiB": 500 << 20, "0": 0, "1.5TiB": 3 << 39} {
		if err := s.UnmarshalText([]byte(text)); err != nil || s != want {
			t.Errorf("%s: %d, %v", text, s, err)
		}
	}
	for _, text := range []string{"", "5", "-1GiB", "NaN GiB", "5 GB", "99999999999TiB"} {
		if err := s.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was accepted: %d", text, s)
		}
	}
}

func TestSizeIsWrittenAsItIsRead(t *testing.T) {
	for size, want := range map[Size]string{5 << 30: "5GiB", 500 << 20: "500MiB", 0: "0MiB", 3 << 29: "1536MiB", 1 << 50: "1048576GiB"} {
		var back Size
		if err := back.UnmarshalText([]byte(size.String())); size.String() != want || err != nil || back != size {
			t.Errorf("%d: %q, want %q; read back: %d, %v", size, size.String(), want, back, err)
		}
	}
}
