package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/platform/proc"
)

// TestEnding: every way for a run to end is distinguished from the others.
func TestEnding(t *testing.T) {
	boot1, boot2 := proc.Identity{Boot: "1"}, proc.Identity{Boot: "2"}
	for name, c := range map[string]struct {
		t     RunRecord
		now   proc.Identity
		crash string
		how   string
		why   string
	}{
		"asked to stop":                         {RunRecord{How: EndStopped, Process: boot1}, boot2, "old words", "clean", ""},
		"handed over":                           {RunRecord{How: EndHanded}, boot1, "", "handed over", ""},
		"own error":                             {RunRecord{How: EndFailed, Why: "disk full"}, boot1, "", "failed", "disk full"},
		"killed":                                {RunRecord{Process: boot1}, boot1, "", "killed", "without a word"},
		"killed, says systemd":                  {RunRecord{Process: boot1, Verdict: "signal killed KILL"}, boot1, "", "killed", "signal killed KILL"},
		"crashed":                               {RunRecord{Process: boot1}, boot1, "\npanic: oh\n\ngoroutine 1", "crash", "panic: oh"},
		"watchdog, with the words of its abort": {RunRecord{Process: boot1, Verdict: "watchdog killed ABRT"}, boot1, "SIGABRT: abort", "watchdog", "stopped responding"},
		"memory":                                {RunRecord{Verdict: "oom-kill killed KILL"}, boot1, "", "out of memory", "memory"},
		"the machine went down":                 {RunRecord{Process: boot1}, boot2, "", "reboot", "restarted"},
		"boot unknown":                          {RunRecord{}, boot2, "", "killed", ""},
		"crash words with escapes":              {RunRecord{}, boot1, "panic: \x1b[2J\u202eoh", "crash", "panic: ?[2Joh"},
	} {
		e := c.t.Ending(c.now, c.crash)
		if e.How != c.how || !strings.Contains(e.Why, c.why) {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

// TestFailedStarts: which runs count as failed starts.
func TestFailedStarts(t *testing.T) {
	now := time.Now()
	ready := now.Add(-5 * time.Second)
	for name, c := range map[string]struct {
		t       *RunRecord
		crashed bool
		want    int
	}{
		"none before":                {nil, false, 0},
		"stopped":                    {&RunRecord{Started: ready, How: EndStopped, Failed: 3}, false, 0},
		"never ready":                {&RunRecord{Started: ready, Failed: 3}, false, 4},
		"crashed at once":            {&RunRecord{Started: ready, Ready: ready, Ended: ready.Add(time.Second), Failed: 1}, true, 2},
		"crashed after an hour":      {&RunRecord{Started: now.Add(-time.Hour), Ready: now.Add(-time.Hour), Failed: 1}, true, 0},
		"killed when it was ready":   {&RunRecord{Started: ready, Ready: ready, Failed: 1, Verdict: "signal killed KILL"}, false, 0},
		"hung":                       {&RunRecord{Started: ready, Ready: ready, Ended: ready.Add(time.Second), Verdict: "watchdog killed ABRT"}, false, 1},
		"failed long ago":            {&RunRecord{Started: now.Add(-2 * time.Hour), How: EndFailed, Failed: 7}, false, 0},
		"failed":                     {&RunRecord{Started: ready, How: EndFailed, Ended: ready, Failed: 7}, false, 8},
		"forgiven by the operator":   {&RunRecord{Started: ready, How: EndFailed, Ended: ready, Failed: -1}, false, 0},
		"killed before it was ready": {&RunRecord{Started: ready, Verdict: "signal killed KILL"}, false, 1},
	} {
		if got := c.t.FailedStarts(now, c.crashed); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	var total time.Duration
	for n := range MostFailedStarts {
		total += PaceAfter(n)
	}
	if PaceAfter(0) != 0 || PaceAfter(1) != 0 || PaceAfter(1000) > time.Minute || total < 30*time.Second {
		t.Errorf("pace: %v after one, %v after many, %v in all", PaceAfter(1), PaceAfter(1000), total)
	}
}

// TestReadTenure: an unusable file counts as missing, whatever it contains.
func TestReadRun(t *testing.T) {
	for _, text := range []string{"", "{", "[]", `{"started": 5}`, `{}`, `{"pid": "x", "started": "2026-01-01T00:00:00Z"}`, strings.Repeat("x", maxRun+1)} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, RunFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := ReadRun(dir); got != nil {
			t.Errorf("%.40q: %+v", text, got)
		}
	}
}

func TestHandOverNote(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	if takeNote(dir, now) {
		t.Error("no note is one")
	}
	for _, c := range []struct {
		age  time.Duration
		want bool
	}{{time.Second, true}, {29 * time.Second, true}, {31 * time.Second, false}, {-time.Hour, false}} {
		note, err := HandOverNote(now.Add(-c.age), "1.2.3")
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, HandOverFile), note, 0o600)
		}
		if err != nil {
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
