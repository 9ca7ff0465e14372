package escalate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
	"pgregory.net/rapid"
)

// fullLadders returns the shipped ladders (see TestLaddersAreTheShippedOnes in the root).
func fullLadders() Config {
	at := func(d ...time.Duration) []time.Duration { return d }
	return Config{Channels: []string{ChannelDesktop, ChannelSpeech, ChannelNtfy}, Ack: 4 * time.Hour, AckBlocking: 30 * time.Minute, Ladder: map[string]Ladder{
		"critical": {Desktop: at(0), Speech: at(0, time.Minute), Ntfy: at(3 * time.Minute), Every: 15 * time.Minute, Times: 8, Then: time.Hour},
		"high":     {Desktop: at(0), Speech: at(2 * time.Minute), Ntfy: at(10 * time.Minute), Every: 4 * time.Hour},
		"medium":   {Desktop: at(0, 30*time.Minute)},
	}}
}

// diary lists when each channel was called, relative to since.
func (r *room) diary(since time.Time) string {
	var all []string
	for _, f := range []struct {
		name string
		*fake
	}{{"D", r.desktop}, {"S", r.speech}, {"P", r.push}} {
		f.mu.Lock()
		var times []string
		for _, at := range f.at {
			times = append(times, brief(at.Sub(since)))
		}
		f.mu.Unlock()
		if len(times) > 0 {
			all = append(all, f.name+" "+strings.Join(times, " "))
		}
	}
	return strings.Join(all, ", ")
}

// brief formats a duration without zero units: 1m, 4h30s.
func brief(d time.Duration) string {
	s := d.Round(time.Second).String()
	if m, ok := strings.CutSuffix(s, "m0s"); ok {
		s = m + "m"
	}
	return strings.ReplaceAll(s, "h0m", "h")
}

func TestLadder(t *testing.T) {
	for _, c := range []struct {
		severity protocol.Severity
		silent   bool
		hours    int
		want     string
	}{
		{protocol.Critical, false, 3, "D 0s 18m 33m 48m 1h3m 1h18m 1h33m 1h48m 2h3m, S 0s 1m 18m 33m 48m 1h3m 1h18m 1h33m 1h48m 2h3m, P 3m 18m 33m 48m 1h3m 1h18m 1h33m 1h48m 2h3m"},
		{protocol.Critical, true, 1, "D 0s 18m 33m 48m, P 3m 18m 33m 48m"},
		{protocol.High, false, 9, "D 0s 4h10m 8h10m, S 2m 4h10m 8h10m, P 10m 4h10m 8h10m"},
		{protocol.Medium, false, 24, "D 0s 30m"},
		{protocol.Low, false, 24, ""},
	} {
		t.Run(fmt.Sprint(c.severity, c.silent), func(t *testing.T) {
			inRoomWith(t, fullLadders(), func(t *testing.T, r *room) {
				a := trouble("7", c.severity)
				a.Silent = c.silent
				start := time.Now()
				r.raise(a)
				r.after(time.Duration(c.hours) * time.Hour)
				want(t, "calls", r.diary(start), c.want)
				want(t, "windows", r.desktop.up() <= 1, true)
			})
		})
	}
}

// TestLadderOverRestarts checks the reminders across restarts: those that became due while steward was not running
// are one call.
func TestLadderOverRestarts(t *testing.T) {
	inRoomWith(t, fullLadders(), func(t *testing.T, r *room) {
		start := time.Now()
		r.raise(trouble("7", protocol.Critical))
		r.after(30 * time.Second)
		r.restart()
		r.after(time.Minute)
		want(t, "the voice keeps its time", r.diary(start), "D 0s, S 0s 1m")
		r.stop()
		r.after(30 * time.Minute)
		r.start()
		r.after(5 * time.Minute)
		want(t, "one call for all that was missed", r.diary(start), "D 0s 31m30s 33m, S 0s 1m 31m30s 33m, P 31m30s 33m")
		r.stop()
		r.after(10 * 24 * time.Hour)
		r.start()
		r.after(2 * time.Minute)
		want(t, "popups after ten days", r.desktop.count(), 4)
	})
}

func TestLadderEnds(t *testing.T) {
	for name, end := range map[string]func(r *room, key string) error{
		"resolved by files": func(r *room, key string) error {
			_, err := r.incidents.Resolve(key, rules.ByFiles, "", time.Now())
			return err
		},
		"answered": func(r *room, key string) error {
			_, err := r.incidents.Answer(key, Reply{Option: "as you like", Via: ViaCommand}, time.Now())
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			inRoomWith(t, fullLadders(), func(t *testing.T, r *room) {
				i := r.raise(trouble("7", protocol.Critical))
				r.after(50 * time.Second)
				if err := end(r, i.Key); err != nil {
					t.Fatal(err)
				}
				r.after(time.Second)
				popups, voices, pushes := r.desktop.count(), r.speech.count(), r.push.count()
				r.after(24 * time.Hour)
				want(t, "notices in 24 h", r.desktop.count()+r.speech.count()+r.push.count(), popups+voices+pushes)
				want(t, "sentences", voices, 1)
			})
		})
	}
}

func TestAckStopsTheLadder(t *testing.T) {
	inRoomWith(t, fullLadders(), func(t *testing.T, r *room) {
		start := time.Now()
		i := r.raise(trouble("7", protocol.Critical))
		r.after(30 * time.Second)
		if _, err := r.incidents.Ack(i.Key, r.cfg, time.Now()); err != nil {
			t.Fatal(err)
		}
		r.after(4*time.Hour + 2*time.Minute)
		want(t, "the ladder begins anew", r.diary(start), "D 0s 4h30s, S 0s 4h30s 4h1m30s")
	})
}

// TestRungThatFails checks that a failed rung falls back to the next channel, is retried a few times and delays no
// other rung.
func TestRungThatFails(t *testing.T) {
	inRoomWith(t, fullLadders(), func(t *testing.T, r *room) {
		r.speech.set(refuse)
		start := time.Now()
		r.raise(trouble("7", protocol.High))
		r.after(3 * time.Minute)
		want(t, "the push comes in its place", r.diary(start), "D 0s, P 2m")
	})
	inRoomWith(t, fullLadders(), func(t *testing.T, r *room) {
		tried := 0
		r.push.set(func(ctx context.Context, n Notice) (string, error) { tried++; return "", errors.New("no net") })
		i := r.raise(trouble("7", protocol.High))
		r.after(time.Hour)
		want(t, "tries", tried, remindMost)
		want(t, "owed", len(r.incidents.owed()), 0)
		want(t, "incidents", len(r.incidents.List()), 1) // the operator was reached: the notifier is not broken
		r.push.set(nil)
		r.after(4 * time.Hour)
		want(t, "pushes", r.push.count(), 1)
		want(t, "state", r.incident(i.Key).State, rules.Raised)
	})
}

// TestRecoveryGoesWhereTheNewsWent checks that a recovery goes to the channels that delivered the incident.
func TestRecoveryGoesWhereTheNewsWent(t *testing.T) {
	inRoomWith(t, fullLadders(), func(t *testing.T, r *room) {
		r.raise(dead("a"))
		r.after(11 * time.Minute)
		r.raise(over(dead("a")))
		r.after(time.Minute)
		want(t, "pushed", strings.Join(r.push.titles(), ", "), "a is dead, a is back")
		want(t, "shown", strings.Join(r.desktop.titles(), ", "), "a is dead, a is back")
		want(t, "said", len(r.speech.said()), 1)
		r.raise(dead("b"))
		r.after(time.Second)
		r.raise(over(dead("b")))
		r.after(time.Hour)
		want(t, "pushed", r.push.count(), 2)
	})
}

func TestManyClimbTogether(t *testing.T) {
	inRoomWith(t, fullLadders(), func(t *testing.T, r *room) {
		for n := range 100 {
			r.raise(trouble(fmt.Sprint("task", n), protocol.Critical))
			r.after(100 * time.Millisecond)
		}
		r.after(40 * time.Second)
		want(t, "popups", r.desktop.count(), 4)
		want(t, "sentences", r.speech.count(), 2)
		r.after(time.Minute)
		want(t, "windows", r.desktop.up(), 4)
		if n := r.speech.count(); n > 4 {
			t.Errorf("%d sentences after the second round: %q", n, r.speech.said())
		}
		r.after(10 * time.Minute)
		if n := r.push.count(); n > 8 {
			t.Errorf("%d pushes: %q", n, r.push.titles())
		}
	})
}

// TestFullDiskIsToldOfAnyway checks that a full disk does not suppress the notice, and that the incident is written
// once there is space.
func TestFullDiskIsToldOfAnyway(t *testing.T) {
	inRoom(t, func(t *testing.T, r *room) {
		var full atomic.Bool
		full.Store(true)
		r.incidents.put = func(dir, name string, b []byte) error {
			if full.Load() {
				return errors.New("no space left on device")
			}
			return put(dir, name, b)
		}
		i, _, err := r.incidents.Raise(trouble("7", protocol.High), time.Now())
		if err == nil {
			t.Error("no error")
		}
		r.after(time.Minute)
		want(t, "popups", r.desktop.count(), 1)
		full.Store(false)
		r.after(time.Minute)
		if _, err := os.Stat(filepath.Join(r.dir, i.Key+".json")); err != nil {
			t.Error(err)
		}
	})
}

// TestAnswerSilencesTheVoice checks that an answer withdraws the popup and cuts off a sentence, however long it is.
func TestAnswerSilencesTheVoice(t *testing.T) {
	inRoom(t, func(t *testing.T, r *room) {
		r.speech.set(takes(30 * time.Second))
		i := r.raise(trouble("7", protocol.Critical))
		r.after(3 * time.Second)
		if _, err := r.incidents.Answer(i.Key, Reply{Option: "as you like", Via: ViaCommand}, time.Now()); err != nil {
			t.Fatal(err)
		}
		r.after(time.Millisecond)
		want(t, "windows", r.desktop.up(), 0)
		for _, part := range []string{"desktop withdrawn", "speech dropped"} { // in any order
			want(t, part, strings.Contains(r.results(i.Key), part), true)
		}
		r.raise(trouble("8", protocol.Critical))
		r.after(31 * time.Second)
		want(t, "the voice is free for the next", strings.Join(r.speech.said(), ", "), "Jesse, 8 failed.")
		want(t, "owed", len(r.incidents.owed()), 0)
	})
}

// die ends the run like a kill: nothing more is written.
func (r *room) die() {
	r.incidents.writing.Lock()
	r.incidents.put = func(string, string, []byte) error { return errors.New("dead") }
	r.incidents.writing.Unlock()
	r.restart()
}

// TestKilledInTheMidstOfASentence checks that a sentence interrupted by a kill is repeated once only, because its
// popup is on screen.
func TestKilledInTheMidstOfASentence(t *testing.T) {
	inRoom(t, func(t *testing.T, r *room) {
		begun := 0
		r.speech.set(func(ctx context.Context, n Notice) (string, error) { begun++; return hang(ctx, n) })
		i := r.raise(trouble("7", protocol.Critical))
		for range 4 {
			r.after(5 * time.Second)
			r.die()
		}
		r.after(time.Minute)
		want(t, "begun", begun, 2)
		want(t, "owed", len(r.incidents.owed()), 0)
		want(t, "popups", r.desktop.count(), 1)
		want(t, "deliveries", r.results(i.Key), "desktop shown, speech begun again")
	})
	inRoom(t, func(t *testing.T, r *room) { // without a popup, only the voice can reach the operator
		r.desktop.set(refuse)
		begun := 0
		r.speech.set(func(ctx context.Context, n Notice) (string, error) { begun++; return hang(ctx, n) })
		r.raise(trouble("7", protocol.Critical))
		for range 4 {
			r.after(5 * time.Second)
			r.die()
		}
		r.speech.set(nil)
		r.after(10 * time.Minute)
		want(t, "said in the end", r.speech.count(), 1)
	})
}

// TestLastAgreesWithNext checks that the last call until a time is the one that is reached by going from call to call.
func TestLastAgreesWithNext(t *testing.T) {
	channels := []string{ChannelDesktop, ChannelSpeech}
	rapid.Check(t, func(t *rapid.T) {
		times := rapid.SliceOfN(rapid.Map(rapid.IntRange(0, 20), func(n int) time.Duration { return time.Duration(n) }), 0, 3)
		span := func(most int, name string) time.Duration { return time.Duration(rapid.IntRange(0, most).Draw(t, name)) }
		l := Ladder{Desktop: times.Draw(t, "desktop"), Speech: times.Draw(t, "speech"), Every: span(9, "every"), Times: int(span(4, "times"))}
		if l.Every > 0 {
			l.Then = span(12, "then")
		}
		until := span(120, "until")
		at := time.Duration(-1)
		for {
			d, ok := l.next(channels, at)
			if !ok || d > until {
				break
			}
			at = d
		}
		if got := l.last(channels, until); got != at {
			t.Fatalf("%+v until %d: %d, want %d", l, until, got, at)
		}
	})
}
