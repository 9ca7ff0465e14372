package supervisor_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/livhana/steward/supervisor"
	"github.com/livhana/steward/supervisor/decide"
)

// TestUnwatchedIsJudgedInTime: where no folder can be watched nobody says that a request has come, and it is held all the
// same; a project that is watched keeps the pace of the settings beside it.
func TestUnwatchedIsJudgedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "blind", "seen")
		w.fill(0.95)
		for name := range w.folders {
			w.folders[name].sims = []*sim{agentOf("codex")}
		}
		doors := w.doors()
		doors.Watch = func(project, _ string, _ []string) error {
			if project == "blind" {
				return errors.New("no watches left")
			}
			return nil
		}
		s := supervisor.New(w.cfg, w.projects(), w.memory, doors, slog.New(slog.DiscardHandler), nil)
		defer w.run(s)()
		time.Sleep(10*time.Second + 100*time.Millisecond)
		blind, seen := w.looks("blind"), w.looks("seen")
		time.Sleep(time.Minute)
		if n := w.looks("blind") - blind; n < 55 || n > 70 {
			t.Errorf("%d looks in a minute at what cannot be watched, want one each second", n)
		}
		if n := w.looks("seen") - seen; n < 11 || n > 14 {
			t.Errorf("%d looks in a minute at what is watched, want one every five seconds", n)
		}
		for n := range 20 { // at all moments between two looks
			id := fmt.Sprintf("t%02d", n)
			f := w.folders["blind"]
			f.mu.Lock()
			f.submit(request(id), time.Now())
			f.mu.Unlock()
			time.Sleep(w.cfg.Tasks.Judge)
			synctest.Wait()
			if w.read("blind", id).Hold == nil {
				t.Errorf("%s was not held: it was seen too late", id)
			}
			time.Sleep(270 * time.Millisecond)
		}
		for _, d := range s.State().Projects {
			if d.Name == "blind" && (len(d.Failing) != 1 || !strings.Contains(d.Failing[0].Problem, "cannot be watched, so changes are seen late, at a look every 1s")) {
				t.Errorf("the status page says %v", d.Failing)
			}
		}
	})
}

// TestLookUnwatched: half the time in which a request may be held, never often for that, and never more seldom than asked for.
func TestLookUnwatched(t *testing.T) {
	for _, c := range []struct{ every, judge, want time.Duration }{
		{5 * time.Second, 2 * time.Second, time.Second},
		{5 * time.Second, 30 * time.Second, 5 * time.Second},
		{5 * time.Second, 100 * time.Millisecond, 500 * time.Millisecond},
		{200 * time.Millisecond, 2 * time.Second, 200 * time.Millisecond},
	} {
		cfg := decide.Config{LookEvery: c.every, Tasks: decide.TaskConfig{Judge: c.judge}}
		if got := cfg.LookUnwatched(); got != c.want {
			t.Errorf("look_every %v, judge %v: every %v, want %v", c.every, c.judge, got, c.want)
		}
	}
}

// TestOverflowIsSaid: when the kernel has lost hints, everything is looked at, and log, journal and metric say so; a storm
// that goes on is spoken of once a minute for each project, and counted each time.
func TestOverflowIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a", "b")
		var log bytes.Buffer
		reg := prometheus.NewPedanticRegistry()
		s := supervisor.New(w.cfg, w.projects(), w.memory, w.doors(), slog.New(slog.NewTextHandler(&log, nil)), supervisor.NewMetrics(reg, "v"))
		stop := w.run(s)
		defer stop()
		time.Sleep(7 * time.Second)
		looks := w.looks("a")
		for range 30 { // for a minute and a half
			w.hints <- supervisor.Hint{Project: "a", Lost: true}
			time.Sleep(3 * time.Second)
		}
		w.hints <- supervisor.Hint{Project: "b", Lost: true}
		w.hints <- supervisor.Hint{Project: "b"} // anything may have changed, and nothing was lost
		synctest.Wait()
		if n := w.looks("a") - looks; n < 30 {
			t.Errorf("%d looks followed 30 overflows", n)
		}
		stop()
		for project, want := range map[string]int{"a": 2, "b": 1} {
			said, noted := 0, 0
			for line := range strings.Lines(log.String()) {
				if strings.Contains(line, "level=WARN") && strings.Contains(line, "more changes than the kernel keeps") && strings.Contains(line, "project="+project) {
					said++
				}
			}
			for _, e := range w.notes {
				if e.Kind == "note" && e.Subject.ID == project && strings.Contains(e.Text, "more changes came at once") {
					noted++
				}
			}
			if said != want || noted != want {
				t.Errorf("%s: the log says it %d times, the journal %d, want %d", project, said, noted, want)
			}
		}
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == "steward_watch_overflows_total" {
				if n := f.GetMetric()[0].GetCounter().GetValue(); n != 31 {
					t.Errorf("%v overflows counted, want 31", n)
				}
				return
			}
		}
		t.Error("there is no metric of it")
	})
}
