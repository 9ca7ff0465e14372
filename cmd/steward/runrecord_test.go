package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/platform/service"
	"github.com/livhana/steward/protocol/jsonfile"
)

// TestEnding: each way for a run to end is told from the others.
func TestEnding(t *testing.T) {
	boot1, boot2 := proc.Identity{Boot: "1"}, proc.Identity{Boot: "2"}
	for name, c := range map[string]struct {
		t     runRecord
		now   proc.Identity
		crash string
		how   string
		why   string
	}{
		"asked to stop":                         {runRecord{How: endStopped, Process: boot1}, boot2, "old words", "clean", ""},
		"handed over":                           {runRecord{How: endHanded}, boot1, "", "handed over", ""},
		"own error":                             {runRecord{How: endFailed, Why: "disk full"}, boot1, "", "failed", "disk full"},
		"killed":                                {runRecord{Process: boot1}, boot1, "", "killed", "without a word"},
		"killed, says systemd":                  {runRecord{Process: boot1, Verdict: "signal killed KILL"}, boot1, "", "killed", "signal killed KILL"},
		"crashed":                               {runRecord{Process: boot1}, boot1, "\npanic: oh\n\ngoroutine 1", "crash", "panic: oh"},
		"watchdog, with the words of its abort": {runRecord{Process: boot1, Verdict: "watchdog killed ABRT"}, boot1, "SIGABRT: abort", "watchdog", "stopped responding"},
		"memory":                                {runRecord{Verdict: "oom-kill killed KILL"}, boot1, "", "out of memory", "memory"},
		"the machine went down":                 {runRecord{Process: boot1}, boot2, "", "reboot", "restarted"},
		"boot unknown":                          {runRecord{}, boot2, "", "killed", ""},
		"crash words with escapes":              {runRecord{}, boot1, "panic: \x1b[2J\u202eoh", "crash", "panic: ?[2Joh"},
	} {
		e := c.t.ending(c.now, c.crash)
		if e.How != c.how || !strings.Contains(e.Why, c.why) {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

// TestFailedStarts: what counts as a start that came to nothing.
func TestFailedStarts(t *testing.T) {
	now := time.Now()
	ready := now.Add(-5 * time.Second)
	for name, c := range map[string]struct {
		t       *runRecord
		crashed bool
		want    int
	}{
		"none before":                {nil, false, 0},
		"stopped":                    {&runRecord{Started: ready, How: endStopped, Failed: 3}, false, 0},
		"never ready":                {&runRecord{Started: ready, Failed: 3}, false, 4},
		"crashed at once":            {&runRecord{Started: ready, Ready: ready, Ended: ready.Add(time.Second), Failed: 1}, true, 2},
		"crashed after an hour":      {&runRecord{Started: now.Add(-time.Hour), Ready: now.Add(-time.Hour), Failed: 1}, true, 0},
		"killed when it was ready":   {&runRecord{Started: ready, Ready: ready, Failed: 1, Verdict: "signal killed KILL"}, false, 0},
		"hung":                       {&runRecord{Started: ready, Ready: ready, Ended: ready.Add(time.Second), Verdict: "watchdog killed ABRT"}, false, 1},
		"failed long ago":            {&runRecord{Started: now.Add(-2 * time.Hour), How: endFailed, Failed: 7}, false, 0},
		"failed":                     {&runRecord{Started: ready, How: endFailed, Ended: ready, Failed: 7}, false, 8},
		"forgiven by the operator":   {&runRecord{Started: ready, How: endFailed, Ended: ready, Failed: -1}, false, 0},
		"killed before it was ready": {&runRecord{Started: ready, Verdict: "signal killed KILL"}, false, 1},
	} {
		if got := c.t.failedStarts(now, c.crashed); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	var total time.Duration
	for n := range mostFailedStarts {
		total += paceAfter(n)
	}
	if paceAfter(0) != 0 || paceAfter(1) != 0 || paceAfter(1000) > time.Minute || total < 30*time.Second {
		t.Errorf("pace: %v after one, %v after many, %v in all", paceAfter(1), paceAfter(1000), total)
	}
}

func TestForgive(t *testing.T) {
	dir := t.TempDir()
	forgive(dir, service.Account{UID: os.Getuid()}) // nothing to forgive
	root, err := jsonfile.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	failed := &runRecord{Started: time.Now(), How: endFailed, Failed: 6, Why: "x"}
	if err := failed.write(root); err != nil {
		t.Fatal(err)
	}
	forgive(dir, service.Account{UID: os.Getuid()})
	got := readTenure(dir)
	if n := got.failedStarts(time.Now(), false); n != 0 || got.Why != "x" {
		t.Errorf("%d failed starts, %+v", n, got)
	}
}

// TestReadTenure: what cannot be read is as good as nothing, whatever it is.
func TestReadTenure(t *testing.T) {
	for _, text := range []string{"", "{", "[]", `{"started": 5}`, `{}`, `{"pid": "x", "started": "2026-01-01T00:00:00Z"}`, strings.Repeat("x", maxRun+1)} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, runFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := readTenure(dir); got != nil {
			t.Errorf("%.40q: %+v", text, got)
		}
	}
}

func TestHandOverNote(t *testing.T) {
	dir, me, now := t.TempDir(), service.Account{UID: os.Getuid()}, time.Now()
	if takeNote(dir, now) {
		t.Error("no note is one")
	}
	for _, c := range []struct {
		age  time.Duration
		want bool
	}{{time.Second, true}, {29 * time.Second, true}, {31 * time.Second, false}, {-time.Hour, false}} {
		if err := leaveNote(dir, now.Add(-c.age), me); err != nil {
			t.Fatal(err)
		}
		if got := takeNote(dir, now); got != c.want {
			t.Errorf("a note %v old: %v", c.age, got)
		}
		if takeNote(dir, now) {
			t.Error("a note counts twice")
		}
	}
}
