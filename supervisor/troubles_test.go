package supervisor_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
	"github.com/livhana/steward/supervisor"
	"github.com/livhana/steward/supervisor/decide"
)

// openFaults lists the incidents about faults that are open, as "severity summary".
func (w *world) openFaults() string {
	var list []string
	for _, i := range w.ledger.List() {
		if i.Kind == "fault" || i.Kind == "faults" {
			list = append(list, fmt.Sprintf("%s %s", i.Severity, i.Summary))
		}
	}
	return strings.Join(list, "; ")
}

// TestHangingFolderIsTold: nobody reports on it, and still it is told, once it has hung for long enough, and until it
// answers. It speaks no protocol, so nothing but the look itself says that it is there again.
func TestHangingFolderIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "bad")
		hang := make(chan struct{})
		p := w.project("bad")
		p.Detect = func() []string { <-hang; return nil }
		s := supervisor.New(w.cfg, []supervisor.Project{p}, decide.Memory{}, w.doors(), slog.New(slog.DiscardHandler), nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		time.Sleep(59 * time.Second)
		synctest.Wait()
		if got := w.openFaults(); got != "" {
			t.Errorf("after 59 s: %s", got)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := w.openFaults(); got != "high bad: the folder does not answer" {
			t.Errorf("after 61 s: %q", got)
		}
		close(hang)
		time.Sleep(time.Second)
		synctest.Wait()
		if got := w.openFaults(); got != "" {
			t.Errorf("when it answers: %s", got)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestMissingProjectIsTold: the folder itself is gone, and comes back without any protocol in it.
func TestMissingProjectIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "demo")
		var gone atomic.Bool
		p := w.project("demo")
		p.Detect = func() []string {
			if gone.Load() {
				return nil
			}
			return []string{"agentstatus"}
		}
		p.Missing = func() error {
			if gone.Load() {
				return errors.New("no such folder")
			}
			return nil
		}
		s := supervisor.New(w.cfg, []supervisor.Project{p}, decide.Memory{}, w.doors(), slog.New(slog.DiscardHandler), nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		time.Sleep(7 * time.Second)
		gone.Store(true)
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if got := w.openFaults(); got != "high demo: the project cannot be scanned: no such folder" {
			t.Errorf("gone: %q", got)
		}
		if f := s.State().View.Snapshots[0].Faults[0]; time.Since(f.Since) < 2*time.Minute {
			t.Errorf("since %v", f.Since)
		}
		gone.Store(false)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if got := w.openFaults(); got != "" {
			t.Errorf("back: %s", got)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestImpossibleChangesAreTold: a full disk is one incident however many changes it prevents, and over when one works.
func TestImpossibleChangesAreTold(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"full disk":      {jsonfile.ErrNoSpace, "high demo: the disk is full, so nothing can be changed"},
		"read-only disk": {jsonfile.ErrReadOnly, "high demo: the disk is read-only, so nothing can be changed"},
		"no permission":  {jsonfile.ErrPermission, "medium demo: registry of b: mark demo:agent/b: permission denied; medium demo: registry of a: mark demo:agent/a: permission denied"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "demo")
				f := w.folders["demo"]
				var broken atomic.Bool
				broken.Store(true)
				f.beforeChange = func(protocol.Change) error {
					if broken.Load() {
						return c.err
					}
					return nil
				}
				for _, name := range []string{"a", "b"} {
					a := agentOf(name)
					a.agent.Recorded, a.agent.Ref.Path = "error", "registry of "+name // it beats, so the registry is to say so
					f.sims = append(f.sims, a)
				}
				_, stop := w.start()
				defer stop()
				time.Sleep(50 * time.Second)
				synctest.Wait()
				if got := w.openFaults(); got != "" {
					t.Errorf("too soon: %s", got)
				}
				time.Sleep(5 * time.Minute)
				synctest.Wait()
				if got := w.openFaults(); got != c.want {
					t.Errorf("%q, want %q", got, c.want)
				}
				broken.Store(false)
				time.Sleep(3 * time.Minute)
				synctest.Wait()
				if got := w.openFaults(); got != "" {
					t.Errorf("mended: %s", got)
				}
			})
		})
	}
}

// TestWantOfFilesIsToldOnce: descriptors are free again between any two looks, and it is one incident all the same, over
// once there were enough for a while. Who is silent meanwhile is only not heard; who still is afterwards is dead.
func TestWantOfFilesIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "demo")
		f := w.folders["demo"]
		f.sims = []*sim{agentOf("codex")}
		_, stop := w.start()
		defer stop()
		short := func(path string) {
			var list []protocol.Fault
			if path != "" {
				list = []protocol.Fault{{Path: path, Problem: "read " + path + ": too many open files", Hint: jsonfile.HintManyFiles, Since: time.Now()}}
			}
			w.at("demo", func(f *folder) { f.foreign.faults = list })
		}
		for i := range 12 {
			short(fmt.Sprintf("file %d", i))
			time.Sleep(12 * time.Second)
			short("")
			time.Sleep(6 * time.Second)
		}
		short("file")
		w.at("demo", func(f *folder) { f.sims[0].silent = true })
		time.Sleep(10 * time.Minute)
		w.at("demo", func(f *folder) { f.sims[0].silent = false })
		short("")
		time.Sleep(6 * time.Second)
		short("file")
		time.Sleep(2 * time.Minute)
		w.at("demo", func(f *folder) { f.sims[0].silent = true })
		synctest.Wait()
		want := "high demo: too many open files, so steward cannot see or change some of what is there"
		if got := w.openFaults(); got != want {
			t.Errorf("open: %q", got)
		}
		for _, i := range w.ledger.List() {
			if i.Kind == "agent_dead" {
				t.Errorf("%s while it could not be heard", i.Summary)
			}
			if i.Count > 1 {
				t.Errorf("told %d times: %s", i.Count, i.Summary)
			}
		}
		short("")
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if got := w.openFaults(); got != want {
			t.Errorf("20 s after the last sign: %q", got)
		}
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if got := w.openFaults(); got != "" {
			t.Errorf("40 s after the last sign: %q", got)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if !slices.ContainsFunc(w.ledger.List(), func(i escalate.Incident) bool { return i.Summary == "codex is dead" }) {
			t.Errorf("nobody is dead: %+v", w.ledger.List())
		}
	})
}
