package mailbox

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/folder"
	"github.com/livhana/steward/protocol/jsonfile"
	"github.com/livhana/steward/protocol/protocoltest"
)

// stage is one action of the document's flow, with what the files show after it.
type stage struct {
	name    string
	do      func(c *Client, now time.Time) error
	state   protocol.TaskState
	letters string // the numbers of assignments and reports
}

// flow is the whole flow: each action follows on the one before.
var flow = []stage{
	{"submit", func(c *Client, now time.Time) error {
		_, err := c.Submit(context.Background(), login(), now)
		return err
	}, protocol.TaskPending, "1 0"},
	{"accept", acts(developer), protocol.TaskRunning, "1 0"},
	{"done", reports(developer, protocol.ReportDone), protocol.TaskWaiting, "1 1"},
	{"review", acts(lead), protocol.TaskWaiting, "1 1"},
	{"reject", reports(lead, protocol.ReportRejected), protocol.TaskPending, "1 1"},
	{"accept again", acts(developer), protocol.TaskRunning, "1 1"},
	{"return", reports(developer, protocol.ReportReturned), protocol.TaskPending, "1 1"},
	{"accept once more", acts(developer), protocol.TaskRunning, "1 1"},
	{"done again", reports(developer, protocol.ReportDone), protocol.TaskWaiting, "1 2"},
	{"approve", reports(lead, protocol.ReportApproved), protocol.TaskDone, "0 0"},
}

func acts(agent string) func(*Client, time.Time) error {
	return func(c *Client, now time.Time) error {
		_, err := c.Accept(context.Background(), "task-007", protocol.Acceptance{Agent: agent}, now)
		return err
	}
}

func reports(agent string, kind protocol.ReportKind) func(*Client, time.Time) error {
	return func(c *Client, now time.Time) error {
		_, err := c.Report(context.Background(), "task-007", protocol.Report{Kind: kind, Agent: agent, Summary: "words"}, now)
		return err
	}
}

// shows checks what the files show after a stage.
func (s *stage) shows(t testing.TB, dir string, now time.Time) {
	t.Helper()
	c := Connect(dir, limits)
	defer c.Close()
	a, err := c.Show(t.Context(), "task-007", now)
	if err != nil || a.State != s.state {
		t.Errorf("%s: %+v, %v", s.name, a, err)
	}
	assignments, rest := 0, 0
	for _, m := range c.mail() {
		for _, l := range m.Value.messages {
			if l.kind == taskAssignment {
				assignments++
			} else {
				rest++
			}
		}
	}
	if got, _ := json.Marshal([]int{assignments, rest}); strings.Trim(strings.ReplaceAll(string(got), ",", " "), "[]") != s.letters {
		t.Errorf("%s: messages %s, want %s", s.name, got, s.letters)
	}
	p := New(dir, limits)
	defer p.Close()
	if snap := p.Observe(t.Context(), protocol.ScanOrder{Now: now}); len(snap.Faults) > 0 || len(snap.Tasks) != 1 || snap.Tasks[0].Lost != "" {
		t.Errorf("%s: %s", s.name, protocoltest.Describe(&snap))
	}
}

// After a kill between any two steps of an action, the action can be repeated: nothing is lost, and nothing is there twice.
func TestKilledActions(t *testing.T) {
	var all []protocoltest.Act
	for i := range flow {
		s, before := &flow[i], flow[:i]
		at := func(now time.Time, n int) time.Time { return now.Add(time.Duration(n-len(flow)) * time.Second) }
		with := func(dir string, now time.Time, n int) error {
			c := Connect(dir, limits)
			defer c.Close()
			return flow[n].do(c, at(now, n))
		}
		all = append(all, protocoltest.Act{Name: s.name,
			Lay: func(t testing.TB, dir string, now time.Time) {
				protocoltest.Write(t, dir, file(queuePath, strings.ReplaceAll(emptyQueue, "NOW", "{{now-1h}}"))+file(boardPath, strings.ReplaceAll(idleStatus, "NOW", "{{now-1h}}"))+
					file(devPath, emptyBox)+file(Base+"/messages/to-team-lead.json", emptyBox), now)
				for n := range before {
					if err := with(dir, now, n); err != nil {
						t.Fatalf("%s: %v", flow[n].name, err)
					}
				}
			},
			Do: func(dir string, now time.Time) error { return with(dir, now, i) },
			After: func(t testing.TB, dir string, now time.Time, killed bool) {
				if killed {
					_ = with(dir, now, i) // it fails if the kill came after the last write
				}
				s.shows(t, dir, at(now, i))
			}})
	}
	protocoltest.KillActs(t, time.Now, all)
}

// Without kills the stages show the same.
func TestStages(t *testing.T) {
	bothLayouts(t, func(t *testing.T, r *testProject, base string) {
		c := r.client()
		for i := range flow {
			r.Do(flow[i].do(c.c, c.now()))
			flow[i].shows(t, r.Dir, r.Now)
		}
	})
}

// Of several processes that accept at the same time, one gets the task; of several that submit, each gets an id of its own.
func TestContention(t *testing.T) {
	r := newTestProject(t, around)
	var guard sync.Mutex
	opts := limits
	opts.Guard = heldBy(&guard)
	var wg sync.WaitGroup
	var mu sync.Mutex
	ids, won := map[string]int{}, 0
	setup := r.client()
	setup.must(protocol.TaskPending)(setup.submit(login()))
	now := setup.now()
	for range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			c := Connect(r.Dir, opts)
			defer c.Close()
			done, err := c.Submit(context.Background(), protocol.Order{Title: "T"}, now)
			_, taken := c.Accept(context.Background(), "task-007", protocol.Acceptance{Agent: developer}, now)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			if ids[done.ID]++; taken == nil {
				won++
			}
		}()
	}
	wg.Wait()
	if len(ids) != 8 || won != 1 {
		t.Errorf("%v, and %d have the task", ids, won)
	}
	if _, err := os.Stat(filepath.Join(r.Dir, Base, claimFile("task-007"))); err != nil {
		t.Error(err)
	}
}

// heldBy is a guard lock within this process.
func heldBy(m *sync.Mutex) folder.Guard {
	return func(context.Context, *jsonfile.Root) (func(), error) { m.Lock(); return m.Unlock, nil }
}
