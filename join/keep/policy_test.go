package keep

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

var usual = Config{Backoff: time.Second, MaxBackoff: 30 * time.Second, Burst: 5, Within: time.Minute, Ready: time.Second, Stop: 10 * time.Second}

// play simulates lives of one agent in virtual time: each entry is the length of a life and how it ends. It returns the
// waits before the following lives, and the last decision.
func play(t *testing.T, restart string, cfg Config, lives ...string) (waits []time.Duration, last Decision) {
	t.Helper()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var h History
	for _, text := range lives {
		var lasts, how string
		if _, err := fmt.Sscanf(text, "%s %s", &lasts, &how); err != nil {
			t.Fatal(err)
		}
		span, err := time.ParseDuration(lasts)
		if err != nil {
			t.Fatal(err)
		}
		e := Ending{At: now.Add(span)}
		if span >= cfg.Ready {
			e.Ready = now.Add(cfg.Ready)
		}
		switch how {
		case "ok":
		case "kill":
			e.Code, e.Signal = -1, "SIGKILL"
		case "unknown":
			e.Code, e.Unknown = -1, true
		case "missing":
			e.Code, e.Fault = -1, "there is no such program"
		case "asked":
			e.Code, e.Signal, e.Asked = -1, "SIGTERM", true
		default:
			fmt.Sscanf(how, "exit%d", &e.Code)
		}
		now = e.At
		last = Next("shop.codex", restart, h, e, now, cfg)
		if last.Action != Start {
			return waits, last
		}
		waits = append(waits, last.At.Sub(now).Round(time.Second))
		now, h = last.At, last.History
	}
	return waits, last
}

func TestWhatFollowsAnEnding(t *testing.T) {
	for name, c := range map[string]struct {
		restart string
		lives   []string
		action  Action
		says    string
	}{
		"exit 0 is on purpose":                {OnFailure, []string{"5m ok"}, Rest, "it exited with code 0"},
		"exit 0 at once is on purpose too":    {OnFailure, []string{"0s ok"}, Rest, "it exited with code 0"},
		"always means exit 0 too":             {Always, []string{"5m ok"}, Start, "code 0"},
		"never means never":                   {Never, []string{"5m kill"}, Rest, "SIGKILL"},
		"never and on purpose":                {Never, []string{"5m ok"}, Rest, "it exited with code 0"},
		"asked to end":                        {Always, []string{"5m asked"}, Rest, "asked"},
		"killed":                              {OnFailure, []string{"5m kill"}, Start, "SIGKILL"},
		"exit 3":                              {OnFailure, []string{"5m exit3"}, Start, "code 3"},
		"unseen is a failure and says so":     {OnFailure, []string{"5m unknown"}, Start, "is not known"},
		"twice":                               {OnFailure, []string{"2s kill", "2s kill"}, Start, "restart 2"},
		"six at once":                         {OnFailure, []string{"0s kill", "0s kill", "0s kill", "0s kill", "0s kill", "0s kill"}, Fail, "after 5 restarts within 1m0s"},
		"five at once":                        {OnFailure, []string{"0s kill", "0s kill", "0s kill", "0s kill", "0s kill"}, Start, "restart 5"},
		"always gives up too":                 {Always, []string{"0s ok", "0s ok", "0s ok", "0s ok", "0s ok", "0s ok"}, Fail, "code 0"},
		"not to be started, with its words":   {OnFailure, []string{"0s missing", "0s missing", "0s missing", "0s missing", "0s missing", "0s missing"}, Fail, "no such program"},
		"a long life is a clean slate":        {OnFailure, []string{"0s kill", "0s kill", "0s kill", "0s kill", "0s kill", "62s kill"}, Start, "first"},
		"a life of just the time is none":     {OnFailure, []string{"0s kill", "61s kill"}, Start, "restart 2"},
		"slowly and without end is no burst":  {OnFailure, []string{"50s kill", "50s kill", "50s kill", "50s kill", "50s kill", "50s kill", "50s kill", "50s kill"}, Start, "restart 8"},
		"long, but it never became ready":     {OnFailure, []string{"900ms kill", "900ms kill"}, Start, "restart 2"},
		"exit 0 after failures ends it":       {OnFailure, []string{"0s kill", "0s kill", "0s ok"}, Rest, "it exited with code 0"},
		"a long life after a burst's makings": {OnFailure, []string{"0s kill", "0s kill", "0s kill", "0s kill", "5m kill", "0s kill", "0s kill"}, Start, "restart 3"},
	} {
		t.Run(name, func(t *testing.T) {
			_, d := play(t, c.restart, usual, c.lives...)
			if d.Action != c.action || !strings.Contains(d.Why, c.says) {
				t.Errorf("%s: %s", d.Action, d.Why)
			}
		})
	}
}

func TestBackoffDoublesUpToItsMost(t *testing.T) {
	cfg := usual
	cfg.Burst = 100
	waits, _ := play(t, OnFailure, cfg, "2s kill", "2s kill", "2s kill", "2s kill", "2s kill", "2s kill", "2s kill", "2s kill")
	for i, want := range []time.Duration{0, 1, 2, 4, 8, 16, 30, 30} {
		want *= time.Second
		if got := waits[i]; got < want*4/5-time.Second/2 || got > want*6/5+time.Second/2 {
			t.Errorf("wait %d is %v, want about %v", i+1, got, want)
		}
	}
}

// TestJitterIsOfTheNameAndTheCount: agents that failed together must not restart together, and the same arguments give
// the same answer.
func TestJitterIsOfTheNameAndTheCount(t *testing.T) {
	e, now := Ending{Code: 1}, time.Now()
	seen := map[time.Duration]bool{}
	for i := range 50 {
		name := fmt.Sprintf("agent-%d", i)
		h := History{Count: 3}
		a, b := Next(name, OnFailure, h, e, now, usual), Next(name, OnFailure, h, e, now, usual)
		if !a.At.Equal(b.At) {
			t.Fatal("two answers to one question")
		}
		wait := a.At.Sub(now)
		if seen[wait] = true; wait < 3200*time.Millisecond || wait > 4800*time.Millisecond {
			t.Errorf("wait %v, want 4 s within a fifth", wait)
		}
	}
	if len(seen) < 25 {
		t.Errorf("only %d different waits of 50 agents", len(seen))
	}
}

// TestAClockThatIsSetBack: restarts that a clock set back has moved into the future no longer count.
func TestAClockThatIsSetBack(t *testing.T) {
	now := time.Now()
	h := History{Count: 5}
	for range 5 {
		h.Times = append(h.Times, now.Add(time.Hour))
	}
	if d := Next("a", OnFailure, h, Ending{Code: 1}, now, usual); d.Action != Start {
		t.Errorf("%s: %s", d.Action, d.Why)
	}
}
