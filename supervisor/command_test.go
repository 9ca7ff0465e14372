package supervisor_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor"
)

func do(t *testing.T, s *supervisor.Supervisor, verb, subject string) error {
	t.Helper()
	err := s.Do(t.Context(), supervisor.Command{Verb: verb, Subject: protocol.ParseQuery(subject), Why: "because"})
	synctest.Wait()
	return err
}

// TestCommands: what each of the operator's words does to a task or an agent in a given state.
func TestCommands(t *testing.T) {
	ended := func(f *folder, id string, o protocol.Outcome) {
		f.submit(request(id), time.Now())
		f.finish(id, o, time.Now())
	}
	for name, c := range map[string]struct {
		full    bool
		given   func(*world, *folder)
		command [2]string
		refused error
		says    string
		check   func(*testing.T, protocol.Task)
	}{
		"retry a failed task": {
			given:   func(_ *world, f *folder) { ended(f, "t1", failure("GIT_CONFLICT")) },
			command: [2]string{"retry", "t1"},
			check: func(t *testing.T, task protocol.Task) {
				if !task.Visible || task.Attempt() != 2 {
					t.Errorf("%+v", task)
				}
			}},
		"retry a dead letter": {
			given: func(_ *world, f *folder) {
				ended(f, "t1", failure("GIT_CONFLICT"))
				f.cards["t1"].buried = true
			},
			command: [2]string{"retry", "demo:task/t1"},
			check: func(t *testing.T, task protocol.Task) {
				if !task.Visible || task.Buried {
					t.Errorf("%+v", task)
				}
			}},
		"retry a task that waits for its retry": {
			given:   func(_ *world, f *folder) { ended(f, "t1", failure("FILE_NOT_FOUND")) },
			command: [2]string{"retry", "t1"},
			check: func(t *testing.T, task protocol.Task) {
				if !task.Visible || task.Attempt() != 2 {
					t.Errorf("%+v", task)
				}
			}},
		"retry a completed task": {
			given:   func(_ *world, f *folder) { ended(f, "t1", protocol.Outcome{Status: "completed"}) },
			command: [2]string{"retry", "t1"}, refused: supervisor.ErrRefused, says: "done"},
		"retry a running task": {
			given: func(_ *world, f *folder) {
				f.submit(request("t1"), time.Now())
				f.cards["t1"].named = "active_tasks"
			},
			command: [2]string{"retry", "t1"}, refused: supervisor.ErrRefused, says: "in flight"},
		"cancel a running task": {
			given: func(_ *world, f *folder) {
				f.submit(request("t1"), time.Now())
				f.cards["t1"].named = "active_tasks"
			},
			command: [2]string{"cancel", "t1"},
			check: func(t *testing.T, task protocol.Task) {
				if !task.Cancelled || task.Outcome == nil {
					t.Errorf("%+v", task)
				}
			}},
		"release a held task for good": {
			full:    true,
			given:   func(_ *world, f *folder) { f.submit(request("t1"), time.Now()) },
			command: [2]string{"release", "t1"},
			check: func(t *testing.T, task protocol.Task) {
				if task.Hold != nil || !task.Visible {
					t.Errorf("%+v", task)
				}
			}},
		"release all": {
			full:    true,
			given:   func(_ *world, f *folder) { f.submit(request("t1"), time.Now()) },
			command: [2]string{"release", ""},
			check: func(t *testing.T, task protocol.Task) {
				if task.Hold != nil {
					t.Errorf("%+v", task)
				}
			}},
		"release what is not held": {
			given:   func(_ *world, f *folder) { f.submit(request("t1"), time.Now()) },
			command: [2]string{"release", "t1"}, refused: supervisor.ErrRefused, says: "not held"},
		"hold a task":                 {given: func(_ *world, f *folder) { f.submit(request("t1"), time.Now()) }, command: [2]string{"hold", "t1"}, refused: supervisor.ErrRefused, says: "capacity gate"},
		"retry an agent":              {given: func(*world, *folder) {}, command: [2]string{"retry", "codex"}, refused: supervisor.ErrRefused, says: "is an agent"},
		"nobody of that name":         {given: func(*world, *folder) {}, command: [2]string{"retry", "nobody"}, refused: supervisor.ErrNoSubject},
		"no name at all":              {given: func(*world, *folder) {}, command: [2]string{"cancel", ""}, refused: supervisor.ErrNoSubject},
		"an agent with a task's name": {given: func(_ *world, f *folder) { ended(f, "codex", failure("GIT_CONFLICT")) }, command: [2]string{"retry", "codex"}},
		"pause a project that is not": {given: func(*world, *folder) {}, command: [2]string{"pause", "nobody"}, refused: supervisor.ErrNoSubject},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "demo")
				w.folders["demo"].sims = []*sim{agentOf("codex")}
				if c.full {
					w.fill(0.95)
				}
				s, stop := w.start()
				defer stop()
				time.Sleep(7 * time.Second)
				w.at("demo", func(f *folder) { c.given(w, f) })
				time.Sleep(time.Second)
				if held := len(s.State().Plan.Memory.Gate.Held) > 0; held != c.full {
					t.Fatalf("held before: %t", held)
				}
				err := do(t, s, c.command[0], c.command[1])
				if !errors.Is(err, c.refused) || c.refused != nil && !strings.Contains(err.Error(), c.says) {
					t.Fatalf("got %v", err)
				}
				if c.check != nil {
					c.check(t, w.read("demo", "t1"))
					time.Sleep(6 * time.Second)
					c.check(t, w.read("demo", "t1"))
				}
			})
		})
	}
}

func TestAmbiguousSubject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "one", "two")
		s, stop := w.start()
		defer stop()
		time.Sleep(time.Second)
		for _, name := range []string{"one", "two"} {
			w.at(name, func(f *folder) {
				f.submit(request("t1"), time.Now())
				f.finish("t1", failure("GIT_CONFLICT"), time.Now())
			})
		}
		if err := do(t, s, "retry", "t1"); !errors.Is(err, supervisor.ErrRefused) || !strings.Contains(err.Error(), "several match") {
			t.Fatalf("got %v", err)
		}
		if err := do(t, s, "retry", "two:task/t1"); err != nil {
			t.Fatal(err)
		}
		if w.read("one", "t1").Visible || !w.read("two", "t1").Visible {
			t.Fatal("the wrong one was issued")
		}
	})
}

// TestRetryOfALostTask: the operator does not wait for the deadline of a task whose agent is silent.
func TestRetryOfALostTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "demo")
		a := agentOf("codex")
		w.folders["demo"].sims = []*sim{a}
		s, stop := w.start()
		defer stop()
		time.Sleep(7 * time.Second)
		long := request("t1")
		long.Timeout = time.Hour
		w.at("demo", func(f *folder) {
			f.submit(long, time.Now())
			f.cards["t1"].named = "active_tasks"
			a.silent = true
		})
		time.Sleep(3 * time.Minute)
		if got := stateOf(s, "demo", protocol.KindTask, "t1"); got != "running" {
			t.Fatalf("before: %s", got)
		}
		if err := do(t, s, "retry", "t1"); err != nil {
			t.Fatal(err)
		}
		task := w.read("demo", "t1")
		if !task.Visible || task.Attempt() != 2 || !task.Attempts[0].Twice || !task.Attempts[0].Ours {
			t.Fatalf("%+v", task)
		}
	})
}

func TestHoldAndReleaseAnAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "demo")
		a := agentOf("codex")
		w.folders["demo"].sims = []*sim{a}
		s, stop := w.start()
		defer stop()
		time.Sleep(7 * time.Second)
		for _, step := range [][2]string{{"hold", "paused"}, {"release", "alive"}} {
			if err := do(t, s, step[0], "codex"); err != nil {
				t.Fatal(err)
			}
			if got := stateOf(s, "demo", protocol.KindAgent, "codex"); got != step[1] {
				t.Fatalf("after %s: %s", step[0], got)
			}
		}
	})
}

// TestPause: a paused project is only observed, also after a restart, and nothing stays held in it.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "demo", "other")
		for _, f := range w.folders {
			f.sims = []*sim{agentOf("codex")}
		}
		w.fill(0.95)
		s, stop := w.start()
		time.Sleep(7 * time.Second)
		w.at("demo", func(f *folder) { f.submit(request("t1"), time.Now()) })
		w.at("other", func(f *folder) { f.submit(request("t1"), time.Now()) })
		if err := do(t, s, "pause", "demo"); err != nil {
			t.Fatal(err)
		}
		if w.read("demo", "t1").Hold != nil || w.read("other", "t1").Hold == nil {
			t.Fatal("the pause released the wrong tasks")
		}
		stop()
		s, stop = w.start()
		defer stop()
		time.Sleep(7 * time.Second)
		w.at("demo", func(f *folder) {
			f.submit(request("t2"), time.Now())
			f.finish("t2", failure("FILE_NOT_FOUND"), time.Now())
		})
		if n := len(w.read("demo", "t2").Attempts); n != 0 {
			t.Fatal("a paused project was changed")
		}
		if err := do(t, s, "resume", ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if n := len(w.read("demo", "t2").Attempts); n != 1 {
			t.Fatal("a resumed project is not looked after")
		}
	})
}

// TestReload: projects come and go, settings and modes change, nothing stays held in a project that goes.
func TestReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "old", "kept", "new")
		for _, f := range w.folders {
			f.sims = []*sim{agentOf("codex")}
		}
		w.fill(0.95)
		fresh := w.folders["new"]
		delete(w.folders, "new")
		s, stop := w.start()
		defer stop()
		time.Sleep(7 * time.Second)
		w.at("old", func(f *folder) { f.submit(request("t1"), time.Now()) })
		w.at("kept", func(f *folder) { f.submit(request("t1"), time.Now()) })
		gone := w.folders["old"]
		delete(w.folders, "old")
		w.folders["new"], w.mode["kept"] = fresh, protocol.ModeObserve
		cfg := w.cfg
		cfg.LookEvery = time.Second
		if err := s.Reload(t.Context(), cfg, w.projects()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		w.folders["old"] = gone
		if w.read("old", "t1").Hold != nil {
			t.Fatal("a task stays held in a project that is gone")
		}
		if w.read("kept", "t1").Hold != nil {
			t.Fatal("a task stays held in a project that is only observed now")
		}
		looks := w.looks("old")
		time.Sleep(10 * time.Second)
		if w.looks("old") != looks || w.looks("new") < 9 {
			t.Fatalf("looks: old %d, new %d", w.looks("old")-looks, w.looks("new"))
		}
		names := ""
		for _, d := range s.State().Projects {
			names += fmt.Sprint(d.Name, " ", d.Speaks[0].Protocol, " ", d.Speaks[0].Mode, "; ")
		}
		if names != "kept agentstatus observe; new agentstatus act; " {
			t.Fatalf("desks: %s", names)
		}
	})
}

func TestStoppedLoopAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "demo")
		s, stop := w.start()
		time.Sleep(time.Second)
		stop()
		if err := do(t, s, "release", ""); !errors.Is(err, supervisor.ErrStopped) {
			t.Fatalf("got %v", err)
		}
	})
}

// TestOnce: one look that acts, and leaves nothing held.
func TestOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "demo")
		w.fill(0.99)
		f := w.folders["demo"]
		f.submit(request("t1"), time.Now())
		f.submit(request("t2"), time.Now())
		f.finish("t2", failure("FILE_NOT_FOUND"), time.Now())
		a, id := agentOf("codex"), protocol.Identity{PID: 7, Start: 7, Boot: "b"}
		a.agent.Process, w.processes[id] = id, heartbeat.ProcessGone
		f.sims = []*sim{a}
		if err := w.loop().Once(t.Context()); err != nil {
			t.Fatal(err)
		}
		if w.read("demo", "t1").Hold != nil || w.read("demo", "t2").Hold != nil {
			t.Fatal("something stays held")
		}
		if len(w.read("demo", "t2").Attempts) != 1 || a.agent.Recorded != "error" {
			t.Fatal("it did not act")
		}
	})
}
