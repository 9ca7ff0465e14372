package escalate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the machine may lack time zone data

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
)

// TestHoursWhereTheClockIsSet checks that the end returned by On is the first minute outside the hours.
func TestHoursWhereTheClockIsSet(t *testing.T) {
	for _, c := range []struct {
		zone, begin string
		hours       []rules.Hours
	}{
		{"America/New_York", "2026-03-08T00:00:00-05:00", []rules.Hours{"22:00-02:00", "22:00-02:30", "02:15-02:45", "01:30-03:30"}},
		{"America/New_York", "2026-11-01T00:00:00-04:00", []rules.Hours{"22:00-01:30", "01:15-01:45", "00:30-02:00"}},
		{"Europe/Berlin", "2026-03-29T00:00:00+01:00", []rules.Hours{"22:00-02:30", "02:30-08:00"}},
		{"Europe/Berlin", "2026-10-25T00:00:00+02:00", []rules.Hours{"22:00-02:30", "02:10-02:50"}},
	} {
		zone, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		begin, _ := time.Parse(time.RFC3339, c.begin)
		for _, h := range c.hours {
			for m := range 5 * 6 {
				at := begin.Add(time.Duration(m) * 10 * time.Minute).In(zone)
				on, change := h.On(at)
				next := at.Add(time.Minute)
				for still, _ := h.On(next); still == on && next.Sub(at) < 25*time.Hour; still, _ = h.On(next) {
					next = next.Add(time.Minute)
				}
				if on && !change.Equal(next) {
					t.Fatalf("%s: %s is on at %s until %s, and says %s", c.zone, h, at, next, change)
				}
			}
		}
	}
}

func TestHours(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		hours  rules.Hours
		at     string
		on     bool
		change string
	}{
		{"22:00-07:00", "2026-01-05 21:59", false, "2026-01-05 22:00"},
		{"22:00-07:00", "2026-01-05 22:00", true, "2026-01-06 07:00"},
		{"22:00-07:00", "2026-01-06 03:00", true, "2026-01-06 07:00"},
		{"22:00-07:00", "2026-01-06 07:00", false, "2026-01-06 22:00"},
		{"12:00 - 13:30", "2026-01-06 12:10", true, "2026-01-06 13:30"},
		{"12:00-13:30", "2026-01-06 13:30", false, "2026-01-07 12:00"},
		{"22:00-07:00", "2026-03-29 01:59", true, "2026-03-29 07:00"}, // a night that is one hour shorter
		{"02:30-03:30", "2026-10-25 02:45", true, "2026-10-25 03:30"}, // the hour that occurs twice
		{"", "2026-01-06 03:00", false, ""},
		{"nonsense", "2026-01-06 03:00", false, ""},
	} {
		at, _ := time.ParseInLocation("2006-01-02 15:04", c.at, berlin)
		on, change := c.hours.On(at)
		text := ""
		if !change.IsZero() {
			text = change.Format("2006-01-02 15:04")
		}
		if on != c.on || text != c.change {
			t.Errorf("%s at %s: %v until %s, want %v until %s", c.hours, c.at, on, text, c.on, c.change)
		}
	}
}

// atClock waits until the wall clock shows that time.
func (r *room) atClock(hour, minute int) {
	now := time.Now()
	r.after(rules.NextAt(now, hour*60+minute).Sub(now))
}

func TestQuietHours(t *testing.T) {
	cfg := fullLadders()
	cfg.QuietHours = "22:00-07:00"
	inRoomWith(t, cfg, func(t *testing.T, r *room) {
		r.atClock(23, 0)
		for n := range 5 {
			r.raise(trouble(fmt.Sprint("task", n), protocol.High))
			r.after(time.Second)
		}
		start := time.Now()
		r.raise(trouble("other", protocol.Medium))
		night := r.raise(trouble("grave", protocol.Critical))
		r.after(4 * time.Minute)
		want(t, "a critical one comes through, without a voice", r.diary(start), "D 0s, P 3m")
		want(t, "without a sound", r.desktop.notices[0].Hushed, true)
		r.restart()
		if _, err := r.incidents.Ack(night.Key, Config{Ack: 100 * time.Hour}, time.Now()); err != nil {
			t.Fatal(err)
		}
		r.incidents.Resolve(r.incident(trouble("other", protocol.Medium).Tidy().Key).Key, rules.ByFiles, "", time.Now())
		r.after(7*time.Hour + 50*time.Minute)
		want(t, "nothing else in the night", r.desktop.count(), 1)
		r.atClock(7, 0)
		r.after(time.Second)
		want(t, "one notice in the morning", strings.Join(r.desktop.titles()[1:], ", "), "While it was quiet: 5 incidents")
		want(t, "its first line", strings.Split(r.desktop.notices[1].Text, "\n")[0], "high: p: task0 failed (458a23ae)")
		want(t, "its lines", strings.Count(r.desktop.notices[1].Text, "\n")+1, 5)
		r.after(2*time.Minute + time.Second)
		want(t, "the ladder counts from then", strings.Join(r.speech.said(), ", "), "5 more incidents: task0 failed; task1 failed; task2 failed; and 2 others.")
		want(t, "a window", r.desktop.up(), 1)
	})
	inRoomWith(t, cfg, func(t *testing.T, r *room) {
		r.atClock(23, 0)
		i := r.raise(trouble("7", protocol.High))
		r.atClock(7, 0)
		r.after(time.Second)
		want(t, "one alone is told as ever", strings.Join(r.desktop.titles(), ", "), i.Summary)
	})
	cfg.Channels = cfg.Channels[:1]
	inRoomWith(t, cfg, func(t *testing.T, r *room) { // steward was down when the quiet hours ended
		r.atClock(23, 0)
		r.raise(trouble("7", protocol.High))
		r.raise(trouble("8", protocol.High))
		r.after(time.Hour)
		r.stop()
		r.atClock(9, 0)
		r.start()
		r.after(time.Second)
		want(t, "notices", strings.Join(r.desktop.titles(), ", "), "While it was quiet: 2 incidents")
	})
}

func TestInhibition(t *testing.T) {
	stalled := func(agent string) rules.Alert {
		return rules.Alert{Kind: "stalled", Severity: protocol.Medium, Agent: agent, Summary: "No progress of " + agent, Occurrence: "1",
			Subject: protocol.Subject{Project: "p", Protocol: "agentstatus", Kind: protocol.KindTask, ID: "t" + agent}}
	}
	inRoom(t, func(t *testing.T, r *room) {
		r.raise(dead("a"))
		r.after(time.Minute)
		i := r.raise(stalled("a"))
		r.raise(stalled("b"))
		r.after(time.Hour)
		want(t, "told", strings.Join(r.desktop.titles(), ", "), "a is dead, No progress of b")
		want(t, "listed", r.incident(i.Key).State, rules.Raised)
		want(t, "why", r.results(i.Key), "none inhibited")
		r.restart()
		r.after(time.Hour)
		want(t, "told", r.desktop.count(), 2)
		r.raise(over(dead("a")))
		r.after(time.Minute)
		want(t, "told once its cause is over", strings.Join(r.desktop.titles()[2:], ", "), "No progress of a, a is back")
	})
	inRoom(t, func(t *testing.T, r *room) { // a consequence that is over is never announced
		r.raise(dead("a"))
		r.raise(stalled("a"))
		r.after(time.Minute)
		r.raise(over(stalled("a")))
		r.raise(over(dead("a")))
		r.after(time.Hour)
		want(t, "told", strings.Join(r.desktop.titles(), ", "), "a is dead, a is back")
	})
}

func TestDigest(t *testing.T) {
	cfg := Config{Ladder: plainLadders(), Digest: "09:00"}
	inRoomWith(t, cfg, func(t *testing.T, r *room) {
		r.atClock(8, 0)
		r.raise(trouble("7", protocol.Low))
		r.atClock(9, 0)
		r.after(time.Second)
		want(t, "digest", strings.Join(r.desktop.titles(), ", "), "1 incident open")
		want(t, "its line", r.desktop.notices[0].Text, "low, open: 7 failed")
		r.restart()
		r.after(23 * time.Hour)
		want(t, "once a day", r.desktop.count(), 1)
		r.stop()
		r.atClock(10, 0)
		r.start()
		r.after(time.Second)
		want(t, "made up for after a start", r.desktop.count(), 2)
		r.incidents.Resolve(trouble("7", protocol.Low).Tidy().Key, rules.ByFiles, "", time.Now())
		r.after(72 * time.Hour)
		want(t, "nothing open, nothing said", r.desktop.count(), 2)
	})
	inRoomWith(t, cfg, func(t *testing.T, r *room) { // after a failure the next channel is used, but a voice never reads the list
		r.desktop.set(refuse)
		r.raise(trouble("7", protocol.Low))
		r.after(25 * time.Hour)
		want(t, "said", r.speech.count(), 0)
	})
}

func TestMark(t *testing.T) {
	c := Config{Dangerous: []string{"production", "give_up", "drop table"}}
	options := []rules.Option{{ID: "1", Label: "Use Production!"}, {ID: "give_up", Label: "x"}, {ID: "3", Label: "DROP  TABLE users"}, {ID: "4", Label: "productions"},
		{ID: "5", Label: "drop the table"}, {ID: "6", Label: "y", Dangerous: true}}
	var got []string
	for _, o := range c.Mark(options) {
		if o.Dangerous {
			got = append(got, o.ID)
		}
	}
	want(t, "dangerous", strings.Join(got, " "), "1 give_up 3 6")
	want(t, "the original", options[0].Dangerous, false)
}

// A sentence that is no incident is spoken, the newest of those about one subject; never in the quiet hours.
func TestSaying(t *testing.T) {
	cfg := Config{Channels: []string{ChannelDesktop, ChannelSpeech}, Ladder: plainLadders()}
	inRoomWith(t, cfg, func(t *testing.T, r *room) {
		release := make(chan struct{})
		r.speech.set(func(ctx context.Context, _ Notice) (string, error) { <-release; return "", nil })
		r.courier.Say("p:task/a", "p", "a: 25 percent complete.")
		r.after(time.Second)
		r.courier.Say("p:task/b", "p", "b: 25 percent complete.")
		r.courier.Say("p:task/b", "p", "b: 50 percent complete.")
		r.after(time.Second)
		close(release)
		r.after(time.Minute)
		if got := r.speech.said(); !slices.Equal(got, []string{"a: 25 percent complete.", "b: 50 percent complete."}) || r.desktop.count() != 0 {
			t.Errorf("said %q, shown %d", got, r.desktop.count())
		}
	})
	cfg.QuietHours = "00:00-23:59"
	inRoomWith(t, cfg, func(t *testing.T, r *room) {
		r.courier.Say("p:task/a", "p", "a: 25 percent complete.")
		r.after(time.Minute)
		if got := r.speech.said(); len(got) != 0 {
			t.Errorf("in the quiet hours: %q", got)
		}
	})
}
