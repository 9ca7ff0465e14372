package heartbeat

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
)

// pen is how another program writes the times of its actions.
type pen struct {
	name  string
	skew  time.Duration  // how far its clock is ahead of steward's
	zone  *time.Location // writes local time in this zone, without stating it; nil: states the zone
	mtime bool           // its files have an mtime by its own clock
}

// pens returns all zones and skews of up to a day, with and without mtimes.
func pens() (list []pen) {
	for _, mtime := range []bool{false, true} {
		for hours := -12; hours <= 14; hours++ {
			zone := time.FixedZone("", hours*3600)
			list = append(list, pen{fmt.Sprintf("zone %+d, mtime %v", hours, mtime), 0, zone, mtime})
			list = append(list, pen{fmt.Sprintf("zone %+d, a day slow, mtime %v", hours, mtime), -24 * time.Hour, zone, mtime})
		}
		for _, skew := range []time.Duration{-24 * time.Hour, -3 * time.Hour, -10 * time.Minute, -3 * time.Minute, -time.Minute, 0,
			time.Minute, 10 * time.Minute, 3 * time.Hour, 24 * time.Hour} {
			list = append(list, pen{fmt.Sprintf("skew %v, mtime %v", skew, mtime), skew, nil, mtime})
		}
	}
	return list
}

// stated is the time as a reader finds it, in whole seconds.
func (p pen) stated(at time.Time) time.Time {
	at = at.Add(p.skew).Truncate(time.Second)
	if p.zone == nil {
		return at
	}
	_, offset := at.In(p.zone).Zone()
	return at.Add(time.Duration(offset) * time.Second)
}

// beat is the Beat that an adapter builds from a heartbeat written now.
func (p pen) beat(n int, now time.Time) protocol.Beat {
	b := protocol.Beat{Mark: fmt.Sprint("beat ", n), Stated: p.stated(now), Zoneless: p.zone != nil}
	b.At = b.Stated
	if b.Zoneless {
		b.At = b.At.Add(12 * time.Hour)
	}
	if p.mtime {
		b.Touched = now.Add(p.skew)
	}
	for _, at := range []*time.Time{&b.At, &b.Touched} {
		if at.After(now) {
			*at = now
		}
	}
	return b
}

// TestBeatsOfAnyClock: an agent that beats in sight is alive and never late, whatever its clock and zone, even if it
// registered by a correct clock. When it stops, it is dead as soon as any other agent.
func TestBeatsOfAnyClock(t *testing.T) {
	for _, p := range pens() {
		t.Run(p.name, func(t *testing.T) {
			cfg, m, v, now := document(), Memory{}, Verdict{}, epoch
			a := protocol.Agent{Name: "codex", Registered: epoch, Recorded: "active"}
			look := func() {
				v, m = Judge(Facts{Agent: a}, m, Clock{Now: now, LookEvery: lookEvery}, cfg.For("", "codex"), cfg)
				m = restored(t, m)
			}
			for n := range 10 {
				a.Beat = p.beat(n, now)
				for range 6 {
					if look(); n > 0 && v.State != protocol.AgentAlive && v.State != protocol.AgentStarting || v.State == protocol.AgentDead {
						t.Fatalf("beat %d: %s, %s", n, v.State, said(v.Cause))
					}
					now = now.Add(lookEvery)
				}
				if n == 5 {
					a.Registered, a.Recorded = now, "active" // steward records by its own clock that the agent was seen
				}
			}
			if off := p.stated(epoch).Sub(epoch).Abs(); (off > 2*time.Minute) != (v.Clock != (protocol.Cause{})) {
				t.Errorf("its times are off by %v: %q", off, said(v.Clock))
			}
			for range 14 { // until 100 s after the last beat
				look()
				now = now.Add(lookEvery)
			}
			if v.State != protocol.AgentDead {
				t.Errorf("silent for over 90 s: %s, %s", v.State, said(v.Cause))
			}
		})
	}
}

// TestBeatsBetweenSlowLooks: a beat in sight counts even if the limit is shorter than the scan interval.
func TestBeatsBetweenSlowLooks(t *testing.T) {
	cfg, m, now := document(), Memory{}, epoch
	cfg.Late, cfg.Dead, cfg.StartGrace = 2*time.Second, 3*time.Second, 3*time.Second
	p := pen{skew: -10 * time.Minute, mtime: true}
	a := protocol.Agent{Name: "codex", Registered: epoch, Recorded: "active"}
	for n := range 5 {
		a.Beat = p.beat(n, now)
		var v Verdict
		if v, m = Judge(Facts{Agent: a}, m, Clock{Now: now, LookEvery: lookEvery}, cfg.For("", "codex"), cfg); n > 0 && v.State != protocol.AgentAlive {
			t.Errorf("beat %d: %s, %s", n, v.State, said(v.Cause))
		}
		now = now.Add(lookEvery)
	}
}

// TestLocksOfAnyClock: a lock that is taken in sight, or exists when steward starts, belongs to its holder for its
// whole length, whatever clock wrote it; and it ends in time.
func TestLocksOfAnyClock(t *testing.T) {
	cfg := LockConfig{TTL: 30 * time.Minute, Watch: 15 * time.Second}
	const length = 30 * time.Minute
	for _, p := range pens() {
		for _, form := range []string{"both", "no end", "renewed"} {
			for _, watched := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s, %s, watched %v", p.name, form, watched), func(t *testing.T) {
					l := protocol.Lock{Resource: "r", Holder: "builder", Zoneless: p.zone != nil, Acquired: p.stated(epoch), Ref: protocol.Ref{Sum: "1"}}
					if form != "no end" {
						l.Expires = p.stated(epoch.Add(length))
					}
					var m LockMemory
					var v LockVerdict
					first, end := epoch, epoch.Add(length)
					if !watched { // steward starts when the lock is ten minutes old
						first = epoch.Add(10 * time.Minute)
					}
					for now := first; ; now = now.Add(lookEvery) {
						v, m = JudgeLock(l, nil, ProcessUnknown, m, Clock{Now: now, LookEvery: lookEvery, Watched: watched}, cfg)
						if v.Release && now.Before(end.Add(-clockSlack)) {
							t.Fatalf("released after %v of %v: %s", now.Sub(epoch), end.Sub(epoch), said(v.Cause))
						}
						if v.Release {
							if late := now.Sub(end); late > 13*time.Minute {
								t.Errorf("released %v after its end: %s", late, said(v.Cause))
							}
							break
						}
						if now.Sub(epoch) > 5*time.Hour {
							t.Fatalf("never released: %s", said(v.Cause))
						}
						if form == "renewed" && now.Sub(epoch) == 20*time.Minute {
							end = epoch.Add(20*time.Minute + length)
							l.Expires, l.Ref.Sum = p.stated(end), "2"
						}
						if age := now.Sub(v.Acquired); watched && (age < -clockSlack || age > now.Sub(epoch)+clockSlack) {
							t.Fatalf("acquired %v ago, %v after it was taken", age, now.Sub(epoch))
						}
						if off := p.stated(epoch).Sub(epoch).Abs(); watched && (off > 2*time.Minute) != (v.Clock != (protocol.Cause{})) {
							t.Fatalf("its times are off by %v: %q", off, said(v.Clock))
						}
					}
				})
			}
		}
	}
}

// TestLocksWithoutStart: a lock that states only its end.
func TestLocksWithoutStart(t *testing.T) {
	cfg := LockConfig{TTL: 30 * time.Minute, Watch: 15 * time.Second}
	for _, tc := range []struct {
		name string
		lock protocol.Lock
		want time.Duration
	}{
		{"a short one", protocol.Lock{Expires: epoch.Add(5 * time.Minute)}, 5 * time.Minute},
		{"a long one", protocol.Lock{Expires: epoch.Add(4 * time.Hour)}, 4 * time.Hour},
		{"over when it appears", protocol.Lock{Expires: epoch.Add(-5 * time.Hour)}, 30 * time.Minute},
		{"local time in the east", protocol.Lock{Expires: epoch.Add(8 * time.Hour), Zoneless: true}, 30 * time.Minute},
		{"local time in the west", protocol.Lock{Expires: epoch.Add(-5 * time.Hour), Zoneless: true}, 30 * time.Minute},
	} {
		tc.lock.Holder, tc.lock.Ref.Sum = "builder", "s"
		v, _ := JudgeLock(tc.lock, nil, ProcessUnknown, LockMemory{}, Clock{Now: epoch, LookEvery: lookEvery, Watched: true}, cfg)
		if got := v.Expires.Sub(epoch); got != tc.want {
			t.Errorf("%s: ends after %v, want %v", tc.name, got, tc.want)
		}
		if odd := tc.want == cfg.TTL; odd != strings.Contains(said(v.Clock), "steward's clock") {
			t.Errorf("%s: %q", tc.name, said(v.Clock))
		}
	}
}
