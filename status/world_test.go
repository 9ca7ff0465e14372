package status

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/escalate"
	"github.com/livhana/steward/escalate/rules"
	"github.com/livhana/steward/heartbeat"
	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor"
	"github.com/livhana/steward/supervisor/decide"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// noon has a non-UTC zone, so that a time that is not converted to UTC is detected.
var noon = time.Date(2026, 3, 1, 14, 0, 0, 0, time.FixedZone("east", 2*3600))

// world is a daemon on a real socket: the State consists of literals; ledger and journal are real.
type world struct {
	server  *Server
	client  *Client
	socket  string
	ledger  *escalate.Incidents
	journal *supervisor.Journal
	stop    func() // ends the server and waits for it

	mu       sync.Mutex
	picture  *supervisor.State
	commands []supervisor.Command
	answer   error // what Do and Reload return
}

func newWorld(tb testing.TB, p *supervisor.State) *world {
	tb.Helper()
	dir, err := os.MkdirTemp("", "st") // short: a test's own folder may exceed the length limit of a socket path
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { os.RemoveAll(dir) })
	w := &world{picture: p, socket: filepath.Join(dir, "run", "s.sock")}
	ledger, faults, err := escalate.Open(filepath.Join(dir, "incidents"))
	if err != nil || len(faults) > 0 {
		tb.Fatal(err, faults)
	}
	w.ledger = ledger
	if w.journal, err = supervisor.OpenJournal(filepath.Join(dir, "journal.jsonl")); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { w.journal.Close() })
	w.server = &Server{State: w.look, Incidents: ledger, Journal: w.journal, Do: w.do, Reload: func(context.Context) ([]string, error) { return nil, w.answer },
		Escalate: func() escalate.Config { return escalate.Config{Ack: time.Hour, AckBlocking: time.Hour} },
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintln(w, "steward_build_info 1")
		}),
		Self: Self{Version: "1.2.3"}, Now: func() time.Time { return noon.Add(time.Minute) }}
	w.stop = w.serve(tb)
	tb.Cleanup(w.stop)
	w.client = NewClient(w.socket)
	return w
}

func (w *world) serve(tb testing.TB) func() {
	l, err := platform.Listen(w.socket)
	if err != nil {
		tb.Fatal(err)
	}
	l = platform.PeerListener(l, func(uid int) bool { return uid == os.Geteuid() })
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- w.server.Serve(ctx, l) }()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-served; err != nil {
			tb.Error(err)
		}
	})
}

func (w *world) look() *supervisor.State {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.picture
}

func (w *world) do(_ context.Context, c supervisor.Command) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.commands = append(w.commands, c)
	return w.answer
}

func (w *world) raise(tb testing.TB, a rules.Alert) escalate.Incident {
	tb.Helper()
	i, _, err := w.ledger.Raise(a, noon)
	if err != nil {
		tb.Fatal(err)
	}
	return i
}

func (w *world) note(tb testing.TB, e supervisor.Entry) {
	tb.Helper()
	if err := w.journal.Write(e); err != nil {
		tb.Fatal(err)
	}
}

// raw sends bytes over a separate connection.
func (w *world) raw(tb testing.TB, text string) net.Conn {
	tb.Helper()
	c, err := net.Dial("unix", w.socket)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { c.Close() })
	if _, err := c.Write([]byte(text)); err != nil {
		tb.Fatal(err)
	}
	return c
}

func subject(kind protocol.Kind, id string) protocol.Subject {
	return protocol.Subject{Project: "shop", Protocol: "agentstatus", Kind: kind, ID: id}
}

// scene is a State with one of everything: a live agent and a dead one, a running task and a held one, a fault, a
// finding, a completed change. The project "site" has an agent of the same name.
func scene() *supervisor.State {
	codex, planner := subject(protocol.KindAgent, "codex-cursor"), subject(protocol.KindAgent, "planner")
	running, held := subject(protocol.KindTask, "T-1"), subject(protocol.KindTask, "T-2")
	snap := protocol.Snapshot{Project: "shop", Protocol: "agentstatus", At: noon, Act: true,
		Agents: []protocol.Agent{
			{Name: "codex-cursor", Status: "busy", Beat: protocol.Beat{Mark: "m", At: noon.Add(-3 * time.Second)}, Tasks: []string{"T-1"}, Recorded: "active"},
			{Name: "planner", Processes: protocol.Processes{PID: 4242}},
		},
		Tasks: []protocol.Task{
			{Request: protocol.Request{ID: "T-1", Agent: "codex-cursor", Type: "code", Priority: protocol.PriorityHigh, Timeout: 5 * time.Minute}, Flight: protocol.Flight{
				Named:    "active_tasks",
				Progress: protocol.Progress{Percent: 40, Step: "tests", At: noon.Add(-time.Second)},
			},
				Record: protocol.Record{Attempts: []protocol.Attempt{{N: 1, Action: protocol.ActionRetry, Rule: "timeout", Code: "TIMEOUT", Due: noon, Committed: true}}}},
			{Request: protocol.Request{ID: "T-2", Agent: "codex-cursor", Priority: protocol.PriorityLow},
				Hold: &protocol.Hold{Reason: protocol.HoldCapacity, Since: noon.Add(-time.Minute), ReleaseBy: noon.Add(2 * time.Minute)}},
		},
		Locks:    []protocol.Lock{{Resource: "deploy", Holder: "planner", Expires: noon.Add(time.Hour)}},
		Faults:   []protocol.Fault{{Path: "tmp/x.json", Problem: "it ends in the middle", Since: noon}},
		Findings: []protocol.Finding{{Subject: codex, Code: "schema", Severity: protocol.Low, Text: "status is missing"}},
	}
	p := &supervisor.State{Started: noon.Add(-time.Hour), Looks: 7,
		View: decide.View{Now: noon, Snapshots: []protocol.Snapshot{snap,
			{Project: "site", Protocol: "mailbox", At: noon, Agents: []protocol.Agent{{Name: "codex-cursor"}}}},
			Load: capacity.Load{CPU: protocol.Used(0.3), Memory: protocol.Used(0.91), Files: protocol.Used(0.02), At: noon,
				Consumers: []protocol.Consumer{{PID: 99, Name: "chrome", CPU: 1.5, Memory: 4 << 30}}}},
		Plan: decide.Plan{
			Agents: decide.BookOf(map[protocol.Subject]heartbeat.Verdict{
				codex:   {State: protocol.AgentAlive, Cause: quoted(protocol.ReasonBeats, "it beat 3 s ago"), Silent: 3100 * time.Millisecond, Since: noon.Add(-time.Hour)},
				planner: {State: protocol.AgentDead, Cause: quoted(protocol.ReasonGone, "its process is gone"), Proof: true},
			}),
			Tasks: decide.BookOf(map[protocol.Subject]decide.TaskVerdict{
				running: {State: protocol.TaskRunning, Cause: quoted("", "in flight")},
				held:    {State: protocol.TaskDeferred, Cause: quoted("", "memory is at 91 %"), NotBefore: noon.Add(time.Minute)},
			}),
			Memory: decide.Memory{LastLook: noon,
				Agents: decide.BookOf(map[protocol.Subject]heartbeat.Memory{codex: {Uptime: heartbeat.Uptime{Beats: 9, LastGap: 30 * time.Second, Observed: time.Hour, Covered: time.Hour}}}),
				Tasks:  decide.BookOf(map[protocol.Subject]decide.TaskMemory{running: {TaskFlight: decide.TaskFlight{Running: noon.Add(-time.Minute), Visible: 20 * time.Second}}}),
				Gate: capacity.Memory{At: noon, Held: map[protocol.Subject]capacity.Held{held: {Since: noon.Add(-time.Minute), Limit: 0.8,
					Shut: []capacity.Shut{{Dimension: capacity.DimMemory, Since: noon.Add(-time.Minute)}}}}}},
		},
		Config: decide.Config{LookEvery: 5 * time.Second, Capacity: capacity.Config{Threshold: 0.8},
			Heartbeat: heartbeat.Config{Late: 45 * time.Second, Dead: 90 * time.Second}},
		Projects: []supervisor.ProjectStatus{{Name: "shop", Path: "/srv/shop"}, {Name: "site", Path: "/srv/site", Paused: "a long lunch"}},
		Done:     []supervisor.Done{{At: noon, Verb: "hold", Subject: held.String(), Why: "memory is at 91 %"}},
	}
	p.Projects[0].Speaks = longer(p.Projects[0].Speaks)
	p.Projects[0].Speaks[0].Protocol, p.Projects[0].Speaks[0].Mode = "agentstatus", protocol.ModeAct
	return p
}

func quoted(r protocol.Reason, text string) protocol.Cause {
	return protocol.Cause{Reason: r, Phrase: protocol.PhraseQuote, Facts: protocol.Facts{Text: text}}
}

// longer adds an element of a type that is unnamed outside its package.
func longer[T any](list []T) []T {
	var one T
	return append(list, one)
}
