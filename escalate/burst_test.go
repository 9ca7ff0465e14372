package escalate

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/protocol"
)

func TestManyDifferentAreGathered(t *testing.T) {
	for _, c := range []struct {
		name    string
		gap     func(n int) time.Duration
		speaks  time.Duration
		popups  int
		voices  int
		windows int
	}{
		{"in one moment", func(int) time.Duration { return 0 }, 0, 4, 2, 4},
		{"in one moment, real voice", func(int) time.Duration { return 0 }, 3 * time.Second, 4, 2, 4},
		{"evenly over ten seconds", func(int) time.Duration { return 99 * time.Millisecond }, 0, 4, 2, 4},
		{"in two heaps", func(n int) time.Duration {
			if n == 49 {
				return 5 * time.Second
			}
			return 0
		}, 0, 5, 2, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			inRoom(t, func(t *testing.T, r *room) {
				r.speech.set(takes(c.speaks))
				for n := range 100 {
					r.raise(trouble(fmt.Sprint("task", n), protocol.Critical))
					r.after(c.gap(n))
				}
				r.after(time.Minute)
				want(t, "popups", r.desktop.count(), c.popups)
				want(t, "windows", len(r.desktop.keys()), c.windows)
				want(t, "sentences", r.speech.count(), c.voices)
				want(t, "incidents", len(r.incidents.List()), 100)
				want(t, "owed", len(r.incidents.owed()), 0)
				t.Log(r.desktop.titles(), r.speech.said())
				for _, i := range r.incidents.List() {
					if !i.reached(ChannelDesktop) || !i.reached(ChannelSpeech) {
						t.Fatalf("%s is not marked as delivered: %+v", i.Summary, i.Deliveries)
					}
				}
			})
		})
	}
}

func TestSummary(t *testing.T) {
	inRoom(t, func(t *testing.T, r *room) {
		for n := range 8 {
			r.raise(trouble(fmt.Sprint("task", n), protocol.Critical))
			synctest.Wait()
		}
		r.after(time.Minute)
		want(t, "last popup", r.desktop.titles()[3], "5 more incidents")
		want(t, "last sentence", r.speech.said()[1], "7 more incidents: task1 failed; task2 failed; task3 failed; and 4 others.")
	})
}

// TestSilentInSummary checks that a silent incident is in the summary, but not in its sentence.
func TestSilentInSummary(t *testing.T) {
	inRoom(t, func(t *testing.T, r *room) {
		for n := range 8 {
			a := trouble(fmt.Sprint("task", n), protocol.Critical)
			a.Silent = n == 5
			r.raise(a)
			synctest.Wait()
		}
		r.after(time.Hour)
		want(t, "last popup", r.desktop.titles()[3], "5 more incidents")
		want(t, "popups", r.desktop.count(), 4)
		want(t, "last sentence", r.speech.said()[1], "6 more incidents: task1 failed; task2 failed; task3 failed; and 3 others.")
		want(t, "owed", len(r.incidents.owed()), 0)
	})
}

// TestSummaryIsWithdrawnWithItsLastIncident checks that the summary stays while one of its incidents is open and is
// withdrawn with the last one.
func TestSummaryIsWithdrawnWithItsLastIncident(t *testing.T) {
	inRoom(t, func(t *testing.T, r *room) {
		for n := range 8 {
			r.raise(trouble(fmt.Sprint("task", n), protocol.Medium))
		}
		r.after(time.Minute)
		want(t, "windows", r.desktop.up(), 4)
		summary := rules.Key("", "", "", "", "summary", "news")
		stands := func() bool { return r.desktop.open(summary) }
		for left := 5; left > 0; left-- {
			want(t, fmt.Sprint("the summary stands with ", left, " left"), stands(), true)
			for _, i := range r.incidents.List() {
				if i.showsPopup(summary) {
					r.incidents.Resolve(i.Key, rules.ByFiles, "done", time.Now())
					break
				}
			}
			r.after(time.Second)
		}
		want(t, "the summary stands", stands(), false)
		want(t, "windows", r.desktop.up(), 3)
		want(t, "owed", len(r.incidents.owed()), 0)
	})
}

// TestRisingInABurst checks that an incident that rises during a burst replaces its own popup, which would otherwise
// show the old severity beside a summary.
func TestRisingInABurst(t *testing.T) {
	inRoom(t, func(t *testing.T, r *room) {
		for n := range 8 {
			r.raise(trouble(fmt.Sprint("task", n), protocol.Medium))
			synctest.Wait()
		}
		i := r.raise(trouble("task0", protocol.Critical))
		r.after(time.Minute)
		want(t, "its popup says", r.desktop.shown(i.Key).Severity, protocol.Critical)
		want(t, "windows", r.desktop.up(), 4)
		want(t, "sentences", strings.Join(r.speech.said(), " "), "Jesse, task0 failed.")
	})
}

func TestManyRecoveriesAreGathered(t *testing.T) {
	inRoom(t, func(t *testing.T, r *room) {
		for n := range 20 {
			r.raise(dead(fmt.Sprint("agent", n)))
		}
		r.after(time.Minute)
		for n := range 20 {
			r.raise(over(dead(fmt.Sprint("agent", n))))
		}
		r.after(time.Minute)
		titles := r.desktop.titles()
		want(t, "notices", len(titles), 8)
		want(t, "the summary", titles[7], "17 more incidents over")
		want(t, "windows: one quiet one each, and their summary", r.desktop.up(), 4)
		want(t, "owed", len(r.incidents.owed()), 0)
	})
}

func TestManyUndeliveredAreGatheredAtTheirRetry(t *testing.T) {
	inRoom(t, func(t *testing.T, r *room) {
		r.desktop.set(refuse)
		r.speech.set(refuse)
		for n := range 50 {
			r.raise(trouble(fmt.Sprint("task", n), protocol.High))
		}
		r.after(20 * time.Minute)
		r.desktop.set(nil)
		r.after(20 * time.Minute)
		want(t, "few windows", r.desktop.up() <= 7, true)
		want(t, "owed", len(r.incidents.owed()), 0)
	})
}
