package escalate

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
)

// TestWithdrawalThatWaits checks that a queued withdrawal is carried out even if the incident changes meanwhile.
func TestWithdrawalThatWaits(t *testing.T) {
	for name, change := range map[string]func(r *room, a rules.Alert){
		"resolved by files": func(r *room, a rules.Alert) { r.raise(over(a)) },
		"risen, then resolved": func(r *room, a rules.Alert) {
			a.Severity = protocol.Critical
			r.raise(a)
			r.after(time.Minute)
			r.raise(over(a))
		},
	} {
		t.Run(name, func(t *testing.T) {
			inRoom(t, func(t *testing.T, r *room) {
				a := dead("a")
				i := r.raise(a)
				r.after(3 * time.Second)
				r.desktop.set(takes(4 * time.Second))
				r.raise(trouble("other", protocol.High))
				r.after(time.Second)
				if _, err := r.incidents.Ack(i.Key, Config{Ack: time.Hour}, time.Now()); err != nil {
					t.Fatal(err)
				}
				r.after(500 * time.Millisecond)
				change(r, a)
				r.after(10 * time.Minute)
				want(t, "its bad news still stands", r.desktop.open(i.Key) && !r.desktop.shown(i.Key).Over, false)
				want(t, "owed", len(r.incidents.owed()), 0)
			})
		})
	}
}

// TestMorningWithStandingPopups checks that popups on screen at the start of the quiet hours are still known at their
// end.
func TestMorningWithStandingPopups(t *testing.T) {
	cfg := fullLadders()
	cfg.QuietHours = "22:00-07:00"
	for _, c := range []struct{ first, windows int }{{2, 2}, {6, 4}} {
		inRoomWith(t, cfg, func(t *testing.T, r *room) {
			r.atClock(20, 0)
			var keys []string
			for n := range c.first {
				keys = append(keys, r.raise(trouble(string(rune('a'+n)), protocol.High)).Key)
			}
			r.after(30 * time.Second)
			want(t, "windows in the evening", r.desktop.up(), c.windows)
			r.atClock(8, 0) // a reminder became due at 0:10
			want(t, "windows in the morning", r.desktop.up(), c.windows)
			for _, key := range keys {
				r.incidents.Resolve(key, rules.ByOperator, "", time.Now())
			}
			r.after(time.Hour)
			want(t, "windows when all is over", r.desktop.up(), 0)
		})
	}
}

// TestMorningIsOneCall checks that two rungs that become due during the quiet hours are one call after them.
func TestMorningIsOneCall(t *testing.T) {
	cfg := fullLadders()
	cfg.QuietHours = "22:00-07:00"
	inRoomWith(t, cfg, func(t *testing.T, r *room) {
		r.atClock(18, 30)
		r.raise(trouble("7", protocol.High))
		r.atClock(6, 59)
		before := r.desktop.count()
		r.after(11 * time.Minute)
		want(t, "popups at seven", r.desktop.count()-before, 1)
	})
}

// TestSleepOverQuietHours checks that the quiet hours end by the wall clock, even if the machine sleeps through them
// and timers stop.
func TestSleepOverQuietHours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slept atomic.Int64
		now := func() time.Time { return time.Now().Add(time.Duration(slept.Load())) }
		l, _, err := Open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		screen := &fake{windows: map[string]Notice{}, word: "shown"}
		cfg := fullLadders()
		cfg.QuietHours = "22:00-07:00"
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		c := NewDispatcher(l, cfg, []Channel{{Name: ChannelDesktop, Deliver: screen.deliver, Deadline: 5 * time.Second}}, now, slog.New(slog.DiscardHandler))
		go func() { defer close(ended); c.Run(ctx) }()
		defer func() { cancel(); <-ended }()
		time.Sleep(time.Until(rules.NextAt(time.Now(), 22*60+30)))
		l.Raise(trouble("7", protocol.High), now())
		time.Sleep(time.Minute)
		want(t, "shown at night", screen.count(), 0)
		slept.Store(int64(10 * time.Hour))
		time.Sleep(time.Minute)
		want(t, "shown a minute after the lid was opened", screen.count(), 1)
	})
}

// TestPressOfAnEarlierOpening checks that a resolved question that is raised again with the same text is a new one:
// an answer to the earlier one is stale.
func TestPressOfAnEarlierOpening(t *testing.T) {
	l, i := asked(t, question("a", twoOptions()...))
	rev := i.Rev
	a := question("a", twoOptions()...)
	a.Resolve = true
	if _, _, err := l.Raise(a, askedAt.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	a.Resolve = false
	again, _, err := l.Raise(a, askedAt.Add(2*time.Hour))
	if err != nil || again.State != rules.Raised {
		t.Fatalf("%+v %v", again, err)
	}
	if _, err := l.Answer(i.Key, Reply{Option: i.Options[0].ID, Rev: rev, Via: ViaPush}, askedAt.Add(3*time.Hour)); err == nil {
		t.Error("a press of the first time answered the second")
	}
	if _, err := l.Answer(i.Key, Reply{Option: i.Options[0].ID, Rev: again.Rev, Via: ViaPush}, askedAt.Add(3*time.Hour)); err != nil {
		t.Error(err)
	}
}

// TestManyDeliveriesKeepThePopup checks that the record of a popup on screen survives years of reminders.
func TestManyDeliveriesKeepThePopup(t *testing.T) {
	i := Incident{Key: "k", Revisions: Revisions{Notice: 1}, State: rules.Raised}
	i = deliver(i, Delivery{Channel: ChannelDesktop, Result: "shown", OK: true, Rev: 1, Popup: "summary"}, true)
	for n := range 100 {
		i = deliver(i, Delivery{Channel: ChannelSpeech, Result: "spoken", OK: true, Rev: n}, false)
	}
	want(t, "deliveries", len(i.Deliveries), maxDeliveries)
	want(t, "the popup is known", i.showsPopup("summary"), true)
}

// TestSummaryIsKeptTrue checks that a summary is updated when some of its incidents are resolved.
func TestSummaryIsKeptTrue(t *testing.T) {
	inRoom(t, func(t *testing.T, r *room) {
		for n := range 8 {
			r.raise(trouble(string(rune('a'+n)), protocol.Medium))
			synctest.Wait()
		}
		r.after(time.Minute)
		summary := rules.Key("", "", "", "", "summary", "news")
		want(t, "its title", r.desktop.shown(summary).Title, "5 more incidents")
		r.incidents.Resolve(trouble("e", protocol.Medium).Tidy().Key, rules.ByOperator, "", time.Now())
		r.incidents.Resolve(trouble("f", protocol.Medium).Tidy().Key, rules.ByOperator, "", time.Now())
		shown := r.desktop.count()
		r.after(3 * time.Second)
		want(t, "its title", r.desktop.shown(summary).Title, "3 more incidents")
		want(t, "shown", r.desktop.count()-shown, 1)
		want(t, "without a sound", r.desktop.shown(summary).Hushed, true)
		for _, name := range []string{"d", "g", "h"} {
			r.incidents.Resolve(trouble(name, protocol.Medium).Tidy().Key, rules.ByOperator, "", time.Now())
		}
		r.after(time.Minute)
		want(t, "it stands", r.desktop.open(summary), false)
		want(t, "windows", r.desktop.up(), 3)
	})
}
