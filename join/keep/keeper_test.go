package keep

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/livhana/steward/platform/proc"
)

func sleeper(name string) Row { return Row{Name: name, Command: []string{"sleep", "600"}} }

func script(name, text string) Row { return Row{Name: name, Command: []string{"sh", "-c", text}} }

// TestAgentsOutliveTheirKeeper: the agents survive any end of the keeper, and the next keeper adopts them.
func TestAgentsOutliveTheirKeeper(t *testing.T) {
	s := newSite(t, sleeper("a"), sleeper("b"), sleeper("c"))
	s.start()
	pids := []int{s.pid("a", 0), s.pid("b", 0), s.pid("c", 0)}
	for _, end := range []func(){s.stop, s.kill} {
		end()
		s.start()
		s.until("all are adopted", func() bool {
			raw, _ := os.ReadFile(filepath.Join(s.state, "keeper.log"))
			return strings.Count(string(raw), "agent adopted") >= 3
		})
		if got := []int{s.pid("a", 0), s.pid("b", 0), s.pid("c", 0)}; !slices.Equal(got, pids) {
			t.Fatalf("the agents were %v, and are %v", pids, got)
		}
		_ = os.Truncate(filepath.Join(s.state, "keeper.log"), 0)
	}
	s.until("each is enrolled by each keeper", func() bool { return len(s.notes("enroll", "a")) == 3 })
	// An adopted process is watched like a child.
	_ = syscall.Kill(pids[1], syscall.SIGKILL)
	again := s.pid("b", pids[1])
	_ = syscall.Kill(again, syscall.SIGKILL)
	s.pid("b", again)
	if r := s.record("b"); r.Generation != 3 || r.History.Count != 2 {
		t.Errorf("after two deaths: life %d, %d restarts", r.Generation, r.History.Count)
	}
}

// TestAgentEndsWhileNobodyLooks: an agent that ended without a keeper counts as failed, and is started once.
func TestAgentEndsWhileNobodyLooks(t *testing.T) {
	s := newSite(t, sleeper("a"))
	s.start()
	first := s.pid("a", 0)
	s.kill()
	_ = syscall.Kill(first, syscall.SIGKILL)
	s.until("it is gone", func() bool { return len(s.all("a")) == 0 })
	s.start()
	s.pid("a", first)
	if r := s.record("a"); r.History.Count != 1 || r.Last == nil || !r.Last.Unknown || r.Generation != 2 {
		t.Errorf("the record: %+v", r)
	}
}

// TestAdoptedAgentsExitCode: the exit status of an adopted agent is known where the kernel reports it, and an intended
// exit is not taken for a failure.
func TestAdoptedAgentsExitCode(t *testing.T) {
	// The kernel reports the status to others only after the parent has reaped, and process 1 of some test machines
	// does not.
	if err := proc.BecomeSubreaper(); err != nil {
		t.Skip("only Linux lets this test reap what it orphans: ", err)
	}
	s := newSite(t, script("a", "while [ ! -e go ]; do sleep 0.05; done; exit 0"), script("b", "while [ ! -e go ]; do sleep 0.05; done; exit 7"))
	s.plan.Rows[1].Restart = Never
	s.start()
	for _, pid := range []int{s.pid("a", 0), s.pid("b", 0)} {
		done := make(chan struct{})
		defer func() { <-done }()
		defer s.clear()
		go func() {
			defer close(done)
			for { // ECHILD until its keeper is gone and this process adopts it
				if _, err := syscall.Wait4(pid, nil, 0, nil); err != syscall.ECHILD {
					return
				}
				time.Sleep(time.Millisecond)
			}
		}()
	}
	s.kill()
	s.start()
	s.until("both are adopted", func() bool { return len(s.notes("enroll", "a")) == 2 && len(s.notes("enroll", "b")) == 2 })
	if err := os.WriteFile(filepath.Join(s.dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.until("both have left", func() bool {
		return len(s.notes("leave", "b")) == 1 && (len(s.notes("leave", "a")) == 1 || s.record("a").Generation > 1)
	})
	if b := s.notes("leave", "b")[0]; b.Ending.Unknown && !tellsOthers() {
		t.Skip("skipped: this kernel tells only the parent how a process ended (Linux before 6.15)")
	} else if b.Ending.Code != 7 || !b.Failed {
		t.Errorf("b left with %+v", b)
	}
	if r := s.record("a"); r.Generation != 1 || r.State != rested {
		t.Errorf("exit 0 was taken for a failure: %+v", r)
	}
}

// tellsOthers reports whether the kernel reports an exit status to processes other than the parent.
func tellsOthers() bool {
	raw, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	var major, minor int
	_, _ = fmt.Sscanf(string(raw), "%d.%d", &major, &minor)
	return major > 6 || major == 6 && minor >= 15
}

// TestWhatFailsAgainAndAgain: after five quick restarts the agent stays down with one alert, also across keepers, until
// the answer.
func TestWhatFailsAgainAndAgain(t *testing.T) {
	s := newSite(t, script("a", "echo life >>lives; exit 3"))
	s.plan.Config.Backoff, s.plan.Config.MaxBackoff = 10*time.Millisecond, 20*time.Millisecond
	s.start()
	s.until("it is given up", func() bool { return len(s.notes("failed", "a")) == 1 })
	if n := s.lives(); n != 6 {
		t.Errorf("%d lives, want 1 and 5 restarts", n)
	}
	if why := s.notes("failed", "a")[0].Why; !strings.Contains(why, "code 3, after 5 restarts") {
		t.Errorf("the call says %q", why)
	}
	s.until("it has left, as failed", func() bool { l := s.notes("leave", "a"); return len(l) == 1 && l[0].Failed })
	s.kill()
	s.start()
	s.until("the next keeper calls again, for the ledger to know it as the same", func() bool { return len(s.notes("failed", "a")) == 2 })
	if n := s.lives(); n != 6 {
		t.Errorf("%d lives after another keeper has come", n)
	}
	if calls := s.notes("failed", "a"); calls[0].PID != calls[1].PID || calls[0].Why != calls[1].Why {
		t.Errorf("it is not the same call: %+v", calls)
	}
	s.touch("again-a")
	s.until("it is started again, with all its restarts", func() bool { return s.lives() >= 12 }) // the answer stays valid
}

func (s *site) lives() int {
	raw, _ := os.ReadFile(filepath.Join(s.dir, "lives"))
	return strings.Count(string(raw), "life")
}

func TestWhatCannotBeStarted(t *testing.T) {
	s := newSite(t, Row{Name: "missing", Command: []string{"no-such-program-at-all"}}, Row{Name: "data", Command: []string{"./data"}},
		Row{Name: "nowhere", Command: []string{"sleep", "1"}, Directory: "/no/such/folder"}, Row{Name: "garbage", Command: []string{"./garbage"}})
	for name, mode := range map[string]os.FileMode{"data": 0o644, "garbage": 0o755} {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte("\x01\x02"), mode); err != nil {
			t.Fatal(err)
		}
	}
	s.plan.Config.Backoff, s.plan.Config.MaxBackoff = 10*time.Millisecond, 20*time.Millisecond
	s.start()
	for agent, words := range map[string]string{"missing": "not found in the PATH", "data": "not executable", "nowhere": "/no/such/folder", "garbage": "neither a program of this machine nor a script"} {
		s.until(agent+" is given up", func() bool { return len(s.notes("failed", agent)) == 1 })
		if why := s.notes("failed", agent)[0].Why; !strings.Contains(why, words) {
			t.Errorf("%s: %q does not say %q", agent, why, words)
		}
	}
}

func TestHoldGateAndRest(t *testing.T) {
	s := newSite(t, sleeper("a"), script("b", "echo life >>lives"))
	s.touch("full")
	s.start()
	s.until("they wait for room", func() bool { return s.says("the machine is too full") })
	if n := len(s.all("a")) + s.lives(); n != 0 {
		t.Fatal("started although the machine is full")
	}
	s.remove("full")
	first := s.pid("a", 0)
	s.until("b has left on purpose", func() bool { return s.record("b").State == rested })
	s.touch("held-a")
	s.touch("held-b")
	_ = syscall.Kill(first, syscall.SIGKILL)
	s.until("it is held", func() bool { return s.says("the operator holds it") })
	time.Sleep(1500 * time.Millisecond) // one check of the keeper passes, which must not start the agent
	if len(s.all("a")) != 0 || s.lives() != 1 {
		t.Error("a held agent was started")
	}
	s.remove("held-a")
	s.remove("held-b")
	s.pid("a", first)
	s.until("a hold that ends starts what rests", func() bool { return s.lives() == 2 })
}

func (s *site) remove(name string) { _ = os.Remove(filepath.Join(s.state, name)) }

func (s *site) says(words string) bool {
	raw, _ := os.ReadFile(filepath.Join(s.state, "keeper.log"))
	return strings.Contains(string(raw), words)
}

// TestRowsComeAndGo: a removed row ends its agent with its whole tree; a changed row restarts its agent; the others
// stay.
func TestRowsComeAndGo(t *testing.T) {
	tree := script("a", `sh -c 'trap "" TERM; while :; do sleep 0.1; done' & exec sleep 600`)
	s := newSite(t, tree, sleeper("b"), sleeper("c"))
	s.plan.Config.Stop = 300 * time.Millisecond
	s.start()
	a, b, c := s.pid("a", 0), s.pid("b", 0), s.pid("c", 0)
	s.until("a has a child", func() bool { return len(s.all("a")) >= 2 })
	s.plan.Rows = []Row{s.complete(Row{Name: "b", Command: []string{"sleep", "601"}}), s.plan.Rows[2], s.complete(sleeper("d"))}
	s.reload()
	s.until("a is gone with its child", func() bool { return len(s.all("a")) == 0 })
	s.until("its record too", func() bool { return s.record("a").Mark == "" })
	s.until("a has left in peace", func() bool { l := s.notes("leave", "a"); return len(l) == 1 && !l[0].Failed && l[0].PID == a })
	s.pid("b", b)
	s.pid("d", 0)
	if now := s.pid("c", 0); now != c {
		t.Errorf("c was %d and is %d, although its row did not change", c, now)
	}
	// The same while no keeper runs.
	s.kill()
	s.plan.Rows = s.plan.Rows[:1]
	s.plan.Aside = []Row{s.complete(sleeper("d"))}
	s.start()
	s.until("c is gone", func() bool { return len(s.all("c")) == 0 })
	if len(s.all("d")) != 1 {
		t.Error("a row that was set aside lost its agent")
	}
}

// TestLeftoversAreReaped: processes that an ended life has left are ended, and processes of the next life stay.
func TestLeftoversAreReaped(t *testing.T) {
	s := newSite(t, script("a", `sleep 601 & setsid sleep 602 & exec sleep 600`))
	s.start()
	first := s.pidOf("a", "600", 0)
	s.until("it has two others", func() bool { return len(s.all("a")) == 3 })
	old := s.all("a")
	_ = syscall.Kill(first, syscall.SIGKILL)
	s.pidOf("a", "600", first)
	s.until("the old ones are gone, and three new ones there", func() bool {
		for _, p := range old {
			if proc.Check(p.Identity) != proc.Gone {
				return false
			}
		}
		return len(s.all("a")) == 3
	})
}

// pidOf waits for the agent's process that sleeps for this time.
func (s *site) pidOf(agent, arg string, not int) (pid int) {
	s.Helper()
	s.until("the sleeper of "+arg+" s", func() bool {
		for _, p := range s.all(agent) {
			if argv, _ := proc.Command(p.PID); slices.Contains(argv, arg) && p.PID != not && len(argv) == 2 && s.record(agent).Process.PID == p.PID {
				pid = p.PID
			}
		}
		return pid != 0
	})
	return pid
}

// TestWhatAnAgentInherits: the environment is the daemon's without its private variables, and standard input is empty.
func TestWhatAnAgentInherits(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "/run/x")
	t.Setenv("WATCHDOG_USEC", "1")
	t.Setenv("LISTEN_FDS", "1")
	t.Setenv("JOURNAL_STREAM", "8:1")
	for _, name := range []string{"RUN", "KEPT", "KEEPER", "TASK_ID", "TASK_TYPE", "REQUEST", "DRY_RUN", "PROJECT", "AGENT", "LOCK", "LOCK_FENCE"} {
		t.Setenv("STEWARD_"+name, "another's") // the daemon was started by hand within an agent's task
	}
	t.Setenv("KEEP_INHERITED", "yes")
	r := script("a", `env >env; cat >in; echo out; echo err >&2; ls -l /proc/$$/fd >fds 2>/dev/null; echo $PWD >done; exec sleep 600`)
	r.Environment = []string{"OWN=of the row", "KEEP_OVER=new"}
	t.Setenv("KEEP_OVER", "old")
	s := newSite(t, r)
	s.start()
	s.until("it is done", func() bool { raw, _ := os.ReadFile(filepath.Join(s.dir, "done")); return len(raw) > 1 })
	raw, _ := os.ReadFile(filepath.Join(s.dir, "env"))
	env := strings.Split(string(raw), "\n")
	for _, want := range []string{"KEEP_INHERITED=yes", "OWN=of the row", "KEEP_OVER=new", "STEWARD_AGENT=a", "STEWARD_PROJECT=" + s.dir, "PWD=" + s.dir} {
		if !slices.Contains(env, want) {
			t.Errorf("no %s in %q", want, env)
		}
	}
	for _, e := range env {
		for _, not := range []string{"NOTIFY_SOCKET=", "WATCHDOG_", "LISTEN_", "JOURNAL_STREAM=", "KEEP_OVER=old"} {
			if strings.HasPrefix(e, not) || strings.HasSuffix(e, "=another's") {
				t.Errorf("it got %s", e)
			}
		}
	}
	log, _ := os.ReadFile(filepath.Join(s.state, Folder, "shop.a.log"))
	if string(log) != "out\nerr\n" {
		t.Errorf("its log: %q", log)
	}
}

// TestLogsAreBounded: a flood of output does not fill the disk, and the agent survives the truncation.
func TestLogsAreBounded(t *testing.T) {
	s := newSite(t, script("a", `i=0; while :; do i=$((i+1)); head -c 200000 /dev/zero | tr '\0' x; echo; done`))
	s.start()
	pid := s.pid("a", 0)
	file := filepath.Join(s.state, Folder, "shop.a.log")
	size := func(name string) int64 {
		st, err := os.Stat(name)
		if err != nil {
			return 0
		}
		return st.Size()
	}
	s.until("the log was cut", func() bool { return size(file+".1") == maxLog })
	before := size(file)
	s.until("it goes on", func() bool { return size(file) != before })
	if proc.Check(s.record("a").Process) == proc.Gone || s.pid("a", 0) != pid {
		t.Error("the agent did not live through it")
	}
}

// TestBrokenRecord: an unreadable record must not lead to a second agent.
func TestBrokenRecord(t *testing.T) {
	s := newSite(t, sleeper("a"))
	s.start()
	first := s.pid("a", 0)
	for _, broken := range []string{"", "{", `{"mark":1}`, strconv.Quote(strings.Repeat("x", 100<<10))} {
		s.kill()
		if err := os.WriteFile(filepath.Join(s.state, Folder, "shop.a.json"), []byte(broken), 0o600); err != nil {
			t.Fatal(err)
		}
		s.start()
		if again := s.pid("a", 0); again != first {
			s.tell()
			t.Fatalf("with the record %.10q: it was %d and is %d", broken, first, again)
		}
	}
}

// TestBrokenRecordOfADeadAgent: without a record, processes that an agent has left behind are not taken for the agent.
func TestBrokenRecordOfADeadAgent(t *testing.T) {
	s := newSite(t, script("a", `sleep 601 & exec sleep 600`))
	s.start()
	first := s.pidOf("a", "600", 0)
	old := s.pidOfAny("a", "601")
	s.kill()
	if err := os.WriteFile(filepath.Join(s.state, Folder, "shop.a.json"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_ = syscall.Kill(first, syscall.SIGKILL)
	s.until("it is gone", func() bool { return !s.has("a", first) })
	s.start()
	s.pidOf("a", "600", first)
	s.until("what was left behind is gone", func() bool { return len(s.all("a")) == 2 && s.pidOfAny("a", "601") != old })
}

func (s *site) pidOfAny(agent, arg string) (pid int) {
	s.until("the sleeper of "+arg+" s", func() bool {
		for _, p := range s.all(agent) {
			if argv, _ := proc.Command(p.PID); slices.Contains(argv, arg) && len(argv) == 2 {
				pid = p.PID
			}
		}
		return pid != 0
	})
	return pid
}
