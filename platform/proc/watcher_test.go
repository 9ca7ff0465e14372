package proc

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// run starts the watcher, and stops it at the end of the test and checks for leaks.
func run(t testing.TB, w *Watcher) {
	t.Helper()
	others := goleak.IgnoreCurrent()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		goleak.VerifyNone(t, others)
	})
}

func next(t testing.TB, w *Watcher) Identity {
	t.Helper()
	select {
	case id := <-w.Exits():
		return id
	case <-time.After(20 * time.Second):
		t.Fatal("no exit reported")
		return Identity{}
	}
}

func quiet(t *testing.T, w *Watcher) {
	t.Helper()
	select {
	case id := <-w.Exits():
		t.Fatalf("unexpected exit of %+v", id)
	case <-time.After(30 * time.Millisecond):
	}
}

// polling returns a watcher without kernel events.
func polling() *Watcher {
	w := NewWatcher()
	w.open = func(Identity) (*handle, error) { return nil, errors.ErrUnsupported }
	w.every = 5 * time.Millisecond
	return w
}

// both runs a test with kernel events and with polling.
func both(t *testing.T, test func(t *testing.T, w *Watcher)) {
	t.Run("kernel", func(t *testing.T) { test(t, NewWatcher()) })
	t.Run("polling", func(t *testing.T) { test(t, polling()) })
}

func add(t testing.TB, w *Watcher, id Identity) {
	t.Helper()
	if err := w.Add(id); err != nil {
		t.Fatal(err)
	}
}

func TestExitIsReportedOnce(t *testing.T) {
	both(t, func(t *testing.T, w *Watcher) {
		c, other := start(t, "quiet"), start(t, "quiet")
		id := inspectChild(t, c)
		run(t, w)
		add(t, w, inspectChild(t, other))
		add(t, w, id)
		add(t, w, id)
		quiet(t, w)
		c.kill() // not reaped: a zombie counts as ended
		if got := next(t, w); got != id {
			t.Fatalf("got %+v, want %+v", got, id)
		}
		quiet(t, w)
	})
}

func TestAddBeforeRun(t *testing.T) {
	both(t, func(t *testing.T, w *Watcher) {
		c := start(t, "quiet")
		id := inspectChild(t, c)
		add(t, w, id)
		run(t, w)
		c.kill()
		if got := next(t, w); got != id {
			t.Fatalf("got %+v", got)
		}
	})
}

func TestEndedBeforeAdd(t *testing.T) {
	both(t, func(t *testing.T, w *Watcher) {
		c := start(t, "quiet")
		id := inspectChild(t, c)
		c.kill()
		eventually(t, id, Gone)
		run(t, w)
		add(t, w, id) // the zombie
		if got := next(t, w); got != id {
			t.Fatalf("got %+v", got)
		}
		c.reap()
		add(t, w, id) // no such process
		if got := next(t, w); got != id {
			t.Fatalf("got %+v", got)
		}
	})
}

func TestNumberOfAnotherProcess(t *testing.T) {
	both(t, func(t *testing.T, w *Watcher) {
		c := start(t, "quiet")
		former := inspectChild(t, c)
		former.Start--
		run(t, w)
		add(t, w, former)
		if got := next(t, w); got != former {
			t.Fatalf("got %+v", got)
		}
		if got := Check(inspectChild(t, c)); got != Alive {
			t.Fatalf("the one with the number now: %v", got)
		}
	})
}

func TestManyExitsAndASlowReceiver(t *testing.T) {
	both(t, func(t *testing.T, w *Watcher) {
		run(t, w)
		var want []Identity
		var children []*child
		for range 20 {
			c := start(t, "quiet")
			children = append(children, c)
			want = append(want, inspectChild(t, c))
			add(t, w, want[len(want)-1])
		}
		for i, c := range children {
			c.kill()
			eventually(t, want[i], Gone)
		}
		var got []Identity
		for range want {
			got = append(got, next(t, w))
		}
		byPID := func(a, b Identity) int { return a.PID - b.PID }
		slices.SortFunc(got, byPID)
		slices.SortFunc(want, byPID)
		if !slices.Equal(got, want) {
			t.Fatalf("got  %+v\nwant %+v", got, want)
		}
		quiet(t, w)
	})
}

func TestAddRefusesWhatProvesNothing(t *testing.T) {
	w := NewWatcher()
	for _, id := range []Identity{{}, {PID: 7, Start: 1}, {PID: 7, Boot: "b"}, {PID: -1, Start: 1, Boot: "b"}} {
		if w.Add(id) == nil {
			t.Errorf("%+v: no error", id)
		}
	}
}

func BenchmarkExitNotice(b *testing.B) {
	w := NewWatcher()
	run(b, w)
	nobody, err := Inspect(os.Getpid())
	if err != nil {
		b.Fatal(err)
	}
	nobody.Start--
	var took []time.Duration
	for b.Loop() {
		b.StopTimer()
		c := start(b, "quiet")
		id := inspectChild(b, c)
		add(b, w, id)
		add(b, w, nobody) // its report shows that Run has seen all earlier additions
		next(b, w)
		b.StartTimer()
		at := time.Now()
		c.kill()
		if got := next(b, w); got != id {
			b.Fatal(got)
		}
		took = append(took, time.Since(at))
		b.StopTimer()
		c.reap()
		b.StartTimer()
	}
	slices.Sort(took)
	ms := func(share float64) float64 {
		return took[int(share*float64(len(took)-1))].Seconds() * 1000
	}
	b.ReportMetric(ms(0.5), "p50-ms")
	b.ReportMetric(ms(0.99), "p99-ms")
}
