package keep

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/livhana/steward/platform/service"
	"github.com/livhana/steward/protocol/jsonfile"
)

// asked runs a keeper in this process, and counts the attempts to reach the service manager, which does not exist.
func (s *site) asked(managed bool) (k *Keeper, count *atomic.Int32) {
	s.Helper()
	root, err := jsonfile.Open(s.state)
	if err != nil {
		s.Fatal(err)
	}
	count = &atomic.Int32{}
	k = New(Options{State: s.state, Root: root, Deps: scribe(s.state), Now: time.Now, Environ: []string{"PATH=/usr/bin:/bin"}, Log: slog.New(slog.DiscardHandler), Managed: managed,
		OpenUnits: func(context.Context) (*service.Units, error) { count.Add(1); return nil, errors.New("no bus") }})
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- k.Run(ctx) }()
	s.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			s.Error(err)
		}
		root.Close()
	})
	return k, count
}

func TestTheServiceManagerIsReachedOnceItIsNeeded(t *testing.T) {
	sleeps := script("a", "exec sleep 600")
	for _, c := range []struct {
		name           string
		managed        bool
		before, after  string // place
		rows           []Row  // added by a reload
		unit           string // of a record whose row is gone
		atOnce, reload int32
	}{
		{name: "no rows, no records", managed: true, before: PlaceAuto},
		{name: "by hand", before: PlaceAuto, after: PlaceAuto, rows: []Row{sleeps}},
		{name: "the first row", managed: true, before: PlaceAuto, after: PlaceAuto, rows: []Row{sleeps}, reload: 1},
		{name: "the first row, all in sessions", managed: true, before: PlaceSession, after: PlaceSession, rows: []Row{sleeps}},
		{name: "a record whose row went while no keeper ran", before: PlaceSession, unit: "steward-agent-shop-a-1.service", atOnce: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t)
			if c.unit != "" {
				r := s.complete(sleeps)
				s.Helper()
				root, err := jsonfile.Open(s.state)
				if err != nil {
					t.Fatal(err)
				}
				defer root.Close()
				rec := &Record{Project: r.Project, Agent: r.Name, Dir: r.Dir, Mark: newMark(s.state, r), Generation: 1, Intent: 2, Unit: c.unit}
				if err := (store{root}).save(r, rec, false); err != nil {
					t.Fatal(err)
				}
			}
			k, count := s.asked(c.managed)
			cfg := s.plan.Config
			cfg.Place = c.before
			k.Set(cfg, nil, nil)
			s.until("all lives are settled", func() bool { return len(k.wake) == 0 && len(k.List()) == 0 && s.record("a").Mark == "" })
			if n := count.Load(); n != c.atOnce {
				t.Errorf("asked %d times at the start, want %d", n, c.atOnce)
			}
			if len(c.rows) == 0 {
				return
			}
			cfg.Place = c.after
			k.Set(cfg, []Row{s.complete(c.rows[0])}, nil)
			s.until("the agent lives, in a session", func() bool { return len(s.mains("a")) == 1 })
			if n := count.Load() - c.atOnce; n != c.reload {
				t.Errorf("asked %d times at the reload, want %d", n, c.reload)
			}
		})
	}
}

func TestAServiceThatCannotBe(t *testing.T) {
	s := newSite(t)
	k, _ := s.asked(false)
	cfg := s.plan.Config
	cfg.Place, cfg.Burst = PlaceService, 1
	k.Set(cfg, []Row{s.complete(script("a", "exec sleep 600"))}, nil)
	s.until("it is given up", func() bool { return len(s.notes("failed", "a")) == 1 })
	if found := s.all("a"); len(found) > 0 {
		t.Errorf("it was started elsewhere: %v", found)
	}
}

func TestAManagerThatIsNotThereIsNotAskedAllTheTime(t *testing.T) {
	now, count := time.Now(), 0
	k := New(Options{Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler), OpenUnits: func(context.Context) (*service.Units, error) {
		count++
		return nil, errors.New("no bus")
	}})
	for range 3 {
		k.units(t.Context(), "a.service")
	}
	if count != 1 {
		t.Errorf("asked %d times", count)
	}
	now = now.Add(unitsAgain)
	if k.units(t.Context(), "a.service"); count != 2 {
		t.Errorf("asked %d times", count)
	}
}
