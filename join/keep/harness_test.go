package keep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
)

// TestMain lets this binary run a keeper in a separate process: only then a kill is real, and the orphans get another
// parent.
func TestMain(m *testing.M) {
	if plan := os.Getenv("KEEP_TEST_PLAN"); plan != "" {
		keeperMain(plan)
		return
	}
	os.Exit(m.Run())
}

// plan is what a keeper in a separate process does.
type plan struct {
	State   string
	Rows    []Row
	Aside   []Row
	Config  Config
	DieAt   string // the step at which it kills itself
	DieTurn int    // on which occurrence of that step
}

// note is a line that the keeper process writes when one of its Deps is called.
type note struct {
	What, Agent, Why string
	PID              int
	Failed           bool
	Ending           Ending
	At               time.Time
}

func keeperMain(file string) {
	raw, err := os.ReadFile(file)
	var p plan
	if err == nil {
		err = json.Unmarshal(raw, &p)
	}
	alone, e1 := platform.LockQueue(context.Background(), filepath.Join(p.State, "lock"), 0o600) // as the daemon does
	root, e2 := jsonfile.Open(p.State)
	if err = errors.Join(err, e1, e2); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	defer alone.Unlock()
	os.Unsetenv("KEEP_TEST_PLAN") // the agents are not keepers
	k := New(Options{State: p.State, Root: root, Deps: scribe(p.State), Now: time.Now, Environ: os.Environ(), Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	turns := 0
	k.hook = func(step string) {
		if step == p.DieAt {
			if turns++; turns == p.DieTurn {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				time.Sleep(time.Minute)
			}
		}
	}
	k.Set(p.Config, p.Rows, p.Aside)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		for range hangups { // reread the plan
			k.Wake()
			var p plan
			if raw, err := os.ReadFile(file); err == nil && json.Unmarshal(raw, &p) == nil {
				k.Set(p.Config, p.Rows, p.Aside)
			}
		}
	}()
	if err := k.Run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// scribe records the calls of Deps, and answers them from files in the state folder.
func scribe(state string) Deps {
	var mu sync.Mutex
	write := func(n note) error {
		mu.Lock()
		defer mu.Unlock()
		n.At = time.Now()
		line, _ := json.Marshal(n)
		f, err := os.OpenFile(filepath.Join(state, "notes"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.Write(append(line, '\n'))
		return err
	}
	there := func(name string) bool { _, err := os.Stat(filepath.Join(state, name)); return err == nil }
	return Deps{
		Enroll: func(_ context.Context, r Row, id protocol.Identity) error {
			return write(note{What: "enroll", Agent: r.Name, PID: id.PID})
		},
		Leave: func(_ context.Context, r Row, id protocol.Identity, e Ending, failed bool, why string) error {
			return write(note{What: "leave", Agent: r.Name, PID: id.PID, Failed: failed, Why: why, Ending: e})
		},
		Admit: func(r Row, _ *Ending) (bool, string) {
			if r.Restart == WhenDue && !there("due-"+r.Name) {
				return false, "no work waits for it"
			}
			return !there("full"), "the machine is too full"
		},
		Unfinished: func(r Row) string {
			if there("left-" + r.Name) {
				return "1 task is in progress"
			}
			return ""
		},
		Held: func(r Row) bool { return there("held-" + r.Name) },
		Failed: func(r Row, why string, life int) error {
			return write(note{What: "failed", Agent: r.Name, Why: why, PID: life})
		},
		Again: func(r Row, _ time.Time) bool {
			return there("again-" + r.Name)
		},
		Recovered: func(r Row) { _ = write(note{What: "recovered", Agent: r.Name}) },
	}
}

// site is a state folder and the keepers that use it in turn.
type site struct {
	testing.TB
	state, dir string
	plan       plan
	keeper     *exec.Cmd
}

const patience = 30 * time.Second

func newSite(t testing.TB, rows ...Row) *site {
	t.Helper()
	s := &site{TB: t, state: t.TempDir(), dir: t.TempDir()}
	s.plan = plan{State: s.state, Config: Config{Place: PlaceSession, Backoff: 50 * time.Millisecond, MaxBackoff: time.Second, Burst: 5, Within: time.Minute,
		Ready: time.Second, Stop: 2 * time.Second}}
	for _, r := range rows {
		s.plan.Rows = append(s.plan.Rows, s.complete(r))
	}
	t.Cleanup(s.clear)
	return s
}

func (s *site) complete(r Row) Row {
	r.Project, r.Dir = "shop", s.dir
	if r.Restart == "" {
		r.Restart = OnFailure
	}
	return r
}

// clear ends everything that the test has left, found by the marks of its state folder.
func (s *site) clear() {
	if s.keeper != nil {
		s.kill()
	}
	for range 100 {
		left, err := proc.Marked(envKeeper, stateMark(s.state))
		if err != nil || len(left) == 0 {
			return
		}
		for _, p := range left {
			_ = proc.Signal(p.Identity, "SIGKILL")
		}
		time.Sleep(20 * time.Millisecond)
	}
	s.Error("some agents would not end")
}

func (s *site) write() string {
	s.Helper()
	file := filepath.Join(s.state, "plan.json")
	raw, _ := json.Marshal(s.plan)
	if err := errors.Join(os.WriteFile(file+".new", raw, 0o600), os.Rename(file+".new", file)); err != nil {
		s.Fatal(err)
	}
	return file
}

// start starts a keeper.
func (s *site) start() {
	s.Helper()
	s.keeper = exec.Command(os.Args[0])
	s.keeper.Env = append(os.Environ(), "KEEP_TEST_PLAN="+s.write(), "GORACE=atexit_sleep_ms=0")
	log, err := os.OpenFile(filepath.Join(s.state, "keeper.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.Fatal(err)
	}
	defer log.Close()
	s.keeper.Stderr = log
	if err := s.keeper.Start(); err != nil {
		s.Fatal(err)
	}
}

// reload makes the keeper reread the plan.
func (s *site) reload() {
	s.write()
	_ = s.keeper.Process.Signal(syscall.SIGHUP)
}

// stop ends the keeper as the daemon does; kill sends SIGKILL; died waits for its end.
func (s *site) stop() { _ = s.keeper.Process.Signal(syscall.SIGTERM); s.died() }
func (s *site) kill() { _ = s.keeper.Process.Kill(); s.died() }
func (s *site) died() { _ = s.keeper.Wait(); s.keeper = nil }

// mains are the main processes of an agent: those that lead a session.
func (s *site) mains(agent string) (found []proc.Process) {
	s.Helper()
	for _, p := range s.all(agent) {
		if p.Session == p.PID {
			found = append(found, p)
		}
	}
	return found
}

func (s *site) all(agent string) []proc.Process {
	s.Helper()
	row := s.complete(Row{Name: agent})
	found, err := proc.Marked(envKept, newMark(s.state, row))
	if err != nil {
		s.Skip("skipped: ", err)
	}
	return found
}

// pid waits for the one main process of an agent, other than the given one.
func (s *site) pid(agent string, not int) int {
	s.Helper()
	var found []proc.Process
	s.until(fmt.Sprintf("one process of %s, and not %d", agent, not), func() bool {
		found = s.mains(agent)
		return len(found) == 1 && found[0].PID != not && s.record(agent).Process.PID == found[0].PID
	})
	return found[0].PID
}

func (s *site) record(agent string) Record {
	raw, _ := os.ReadFile(filepath.Join(s.state, Folder, s.complete(Row{Name: agent}).fileName()+".json"))
	var r Record
	_ = json.Unmarshal(raw, &r)
	return r
}

func (s *site) notes(what, agent string) (found []note) {
	raw, _ := os.ReadFile(filepath.Join(s.state, "notes"))
	for line := range strings.Lines(string(raw)) {
		var n note
		if json.Unmarshal([]byte(line), &n) == nil && n.What == what && n.Agent == agent {
			found = append(found, n)
		}
	}
	return found
}

// until polls; its deadline is a watchdog, not a measure of speed.
func (s *site) until(what string, ok func() bool) {
	s.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			s.tell()
			s.Fatalf("never came: %s", what)
		}
	}
}

func (s *site) tell() {
	for _, file := range []string{"keeper.log", "notes"} {
		f, err := os.Open(filepath.Join(s.state, file))
		if err == nil {
			raw, _ := io.ReadAll(io.LimitReader(f, 8000))
			s.Logf("%s:\n%s", file, raw)
			f.Close()
		}
	}
}

func (s *site) touch(name string) {
	if err := os.WriteFile(filepath.Join(s.state, name), nil, 0o600); err != nil {
		s.Fatal(err)
	}
}
