package role

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/livhana/steward/join/run"
	"github.com/livhana/steward/join/worker"
	"github.com/livhana/steward/platform/proc"
	"github.com/livhana/steward/protocol"
)

// TestMain lets the test binary replace steward's hidden command.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "run-task" {
		if err := run.Shim(os.Stdin, os.Stdout, time.Now); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// patience allows for a loaded machine; no test waits that long to pass.
const patience = 60 * time.Second

// board is a protocol that lives in memory: tasks of one agent, and the reports about them.
type board struct {
	mu      sync.Mutex
	tasks   map[string]protocol.Assignment
	reports []protocol.Report
	joined  []protocol.AgentRun
	left    int
	refuse  error // of the next report
	steps   []int // how many steps each call of Orchestrate has left
}

func newBoard(ids ...string) *board {
	b := &board{tasks: map[string]protocol.Assignment{}}
	for _, id := range ids {
		b.tasks[id] = protocol.Assignment{ID: id, Agent: "builder", Title: "build " + id, State: protocol.TaskPending, Message: []byte(`{"do":"` + id + `"}`)}
	}
	return b
}

func (b *board) Submit(context.Context, protocol.Order, time.Time) (protocol.Receipt, error) {
	return protocol.Receipt{}, protocol.ErrUnsupported
}

func (b *board) Pending(_ context.Context, agent string, _ time.Time) (list []protocol.Assignment, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range b.tasks {
		if t.Agent == agent && t.State == protocol.TaskPending {
			list = append(list, t)
		}
	}
	slices.SortFunc(list, func(a, b protocol.Assignment) int { return strings.Compare(a.ID, b.ID) })
	return list, nil
}

func (b *board) Show(_ context.Context, id string, _ time.Time) (protocol.Assignment, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t, there := b.tasks[id]
	if !there {
		return t, protocol.ErrNoTask
	}
	return t, nil
}

func (b *board) set(id string, change func(*protocol.Assignment)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.tasks[id]
	change(&t)
	b.tasks[id] = t
}

func (b *board) Accept(_ context.Context, id string, a protocol.Acceptance, _ time.Time) (protocol.Receipt, error) {
	b.set(id, func(t *protocol.Assignment) { t.State, t.Worker = protocol.TaskRunning, a.Worker })
	return protocol.Receipt{ID: id, State: protocol.TaskRunning, Note: "mind the gap"}, nil
}

func (b *board) Report(_ context.Context, id string, r protocol.Report, _ time.Time) (protocol.Receipt, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.refuse; err != nil {
		b.refuse = nil
		return protocol.Receipt{}, err
	}
	b.reports = append(b.reports, r)
	t := b.tasks[id]
	t.State = map[protocol.ReportKind]protocol.TaskState{protocol.ReportDone: protocol.TaskDone, protocol.ReportFailed: protocol.TaskFailed}[r.Kind]
	b.tasks[id] = t
	return protocol.Receipt{ID: id, State: t.State}, nil
}

func (b *board) Join(_ context.Context, a protocol.AgentRun, _ time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.joined = append(b.joined, a)
	return nil
}

func (b *board) Leave(context.Context, protocol.AgentRun, time.Time) error { b.left++; return nil }
func (b *board) Close()                                                    {}

// site plays a role on a board.
type site struct {
	*testing.T
	board *board
	o     Options
	dir   string
	hints chan struct{}
	mu    sync.Mutex
	said  []string
}

func newSite(t *testing.T, b *board, script string) *site {
	t.Helper()
	s := &site{T: t, board: b, dir: t.TempDir(), hints: make(chan struct{}, 1)}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	self, err := proc.Inspect(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	say := func(text string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.said = append(s.said, text)
	}
	w := worker.Options{Project: s.dir, Agent: "builder", Program: program, Environ: os.Environ(), Temp: t.TempDir(), Now: time.Now, Say: say,
		Settings: worker.Settings{Stop: 2 * time.Second, Output: 4096, Environment: []string{"PATH"}}}
	s.o = Options{Part: Part{Role: "builder", Protocol: "board", Project: s.dir, Program: program}, Command: []string{"sh", "-c", script}, Dir: s.dir, Limit: patience, Jobs: 1, Drain: true,
		Returns: "payload.", Pace: Pace{Poll: patience, Beat: patience, Stop: 2 * time.Second}, Process: protocol.Identity(self), Participant: b,
		Execute: w.Run, Hints: s.hints, Now: time.Now, Say: say,
		Gate: func(context.Context, string) (bool, string, time.Duration) { return true, "", 0 }}
	return s
}

func (s *site) play() Tally {
	s.Helper()
	tally, err := New(s.o).Run(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	return tally
}

// report is the only report.
func (s *site) report() protocol.Report {
	s.Helper()
	if len(s.board.reports) != 1 {
		s.Fatalf("%d reports: %+v\n%s", len(s.board.reports), s.board.reports, s.text())
	}
	return s.board.reports[0]
}

func (s *site) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.said, "\n")
}

func (s *site) until(what string, ok func() bool) {
	s.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			s.Fatalf("never came: %s\n%s", what, s.text())
		}
	}
}
