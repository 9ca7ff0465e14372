package envelope

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/livhana/steward/platform"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
	"github.com/livhana/steward/protocol/protocoltest"
)

// team is a project in which any number of clients act.
type team struct {
	*site
	gone     sync.Map // identities that are proved dead
	validate bool
}

func newTeam(t testing.TB, archive string) *team {
	t.Helper()
	s := &team{site: newSite(t, archive)}
	if archive == "" {
		s.Do(s.p.Prepare(t.Context(), protocol.Boot{Agent: "DEVELOPER", Now: s.Now}))
	}
	return s
}

func (s *team) client() *Client {
	o := testOptions
	lock := filepath.Join(OwnDir(s.Dir), "guard.lock")
	o.Guard = func(ctx context.Context, _ *jsonfile.Root) (func(), error) {
		l, err := platform.LockQueue(ctx, lock, 0o600)
		if err != nil {
			return nil, err
		}
		return func() { _ = l.Unlock() }, nil
	}
	o.Alive = func(id protocol.Identity) bool { _, gone := s.gone.Load(id); return !gone }
	o.Validate = s.validate
	c := Connect(s.Dir, o)
	s.T.Cleanup(c.Close)
	return c
}

func worker(n int) protocol.Identity {
	return protocol.Identity{PID: 1000 + n, Start: 1<<60 + uint64(n), Boot: "b"}
}

// newOrder is a complete piece of work.
func newOrder(id, to string) protocol.Order {
	return protocol.Order{ID: id, To: to, Title: "Do " + id, Text: "- one\n- two\n✓ it works\n✓ it is tested"}
}

func (s *team) submit(o protocol.Order) protocol.Receipt {
	s.T.Helper()
	r, err := s.client().Submit(s.T.Context(), o, time.Now())
	if err != nil {
		s.T.Fatalf("submit %s: %v", o.ID, err)
	}
	return r
}

func (s *team) accept(id, agent string, n int) error {
	_, err := s.client().Accept(s.T.Context(), id, protocol.Acceptance{Agent: agent, Worker: worker(n)}, time.Now())
	return err
}

func (s *team) report(id string, r protocol.Report) error {
	_, err := s.client().Report(s.T.Context(), id, r, time.Now())
	return err
}

func (s *team) show(id string) protocol.Assignment {
	s.T.Helper()
	a, err := s.client().Show(s.T.Context(), id, time.Now())
	if err != nil {
		s.T.Fatalf("show %s: %v", id, err)
	}
	return a
}

// scan is what a new daemon sees.
func (s *team) scan() *protocol.Snapshot {
	o := testOptions
	o.Validate = s.validate
	p := New(s.Dir, o)
	defer p.Close()
	snap := p.Observe(s.T.Context(), protocol.ScanOrder{Now: time.Now().Add(time.Second)})
	return &snap
}

// clean fails if the adapter finds anything wrong with what the clients wrote.
func (s *team) clean() {
	s.T.Helper()
	snap := s.scan()
	for _, f := range snap.Findings {
		s.T.Errorf("finding: %+v", f)
	}
	for _, f := range snap.Faults {
		s.T.Errorf("fault: %+v", f)
	}
}

// The flow of the document's example: each message has all its fields, and the adapter finds nothing wrong.
func TestBothSidesOfATask(t *testing.T) {
	s := newTeam(t, "")
	o := newOrder("", "DEVELOPER")
	o.Fields = map[string]any{"context.project": "Shop", "deadline": "2 hours"}
	id := s.submit(o).ID
	list, err := s.client().Pending(t.Context(), "developer", time.Now())
	if err != nil || len(list) != 1 || list[0].ID != id || list[0].State != protocol.TaskPending || !strings.Contains(string(list[0].Message), "it is tested") {
		t.Fatalf("pending: %v %+v", err, list)
	}
	s.Do(s.accept(id, "DEVELOPER", 1))
	if k := taskOf(s.scan(), id); k.Named != "acknowledged" || len(k.Workers) != 1 || k.Workers[0] != worker(1) {
		t.Errorf("in hand: %+v", k)
	}
	s.Do(s.report(id, protocol.Report{Kind: protocol.ReportProgress, Agent: "DEVELOPER", Percent: 40, Summary: "half"}))
	if k := taskOf(s.scan(), id); k.Progress.Percent != 40 || k.Progress.Step != "half" || len(k.Workers) != 1 {
		t.Errorf("progress: %+v", k.Progress)
	}
	s.Do(s.report(id, protocol.Report{Kind: protocol.ReportDone, Agent: "DEVELOPER", Summary: "did it", Created: []string{"a.ts"}, Modified: []string{"b.ts"}}))
	done := s.show(id)
	if k := taskOf(s.scan(), id); k.Outcome == nil || !k.Outcome.Succeeded() || done.State != protocol.TaskDone || s.has(workFile(id)) {
		t.Errorf("done: %+v, %+v", k, done)
	}
	s.Do(s.report(id, protocol.Report{Kind: protocol.ReportRejected, Agent: "ORCHESTRATOR", Summary: "console.log is left", Issues: []string{"a.ts, line 3"}}))
	list, _ = s.client().Pending(t.Context(), "DEVELOPER", time.Now())
	if len(list) != 1 || len(list[0].Feedback) != 1 || !strings.Contains(string(list[0].Feedback[0]), "a.ts, line 3") {
		t.Fatalf("rejected: %+v", list)
	}
	s.Do(s.accept(id, "DEVELOPER", 2))
	s.Do(s.report(id, protocol.Report{Kind: protocol.ReportDone, Agent: "DEVELOPER", Summary: "removed it"}))
	if err := s.report(id, protocol.Report{Kind: protocol.ReportDone, Agent: "DEVELOPER", Summary: "again"}); !errors.Is(err, protocol.ErrEnded) {
		t.Errorf("done twice: %v", err)
	}
	s.clean()
}

// A project that keeps its messages in a log gets lines, and the same states.
func TestBothSidesInALog(t *testing.T) {
	s := newTeam(t, file(logFile, "\n"))
	id := s.submit(newOrder("t", "DEVELOPER")).ID
	s.Do(s.accept(id, "DEVELOPER", 1))
	s.Do(s.report(id, protocol.Report{Kind: protocol.ReportDone, Agent: "DEVELOPER", Summary: "did it"}))
	if n := strings.Count(s.Read(logFile), "\n"); n != 4 || s.has(messagesDir) || s.show(id).State != protocol.TaskDone {
		t.Errorf("%d lines:\n%s", n, s.Read(logFile))
	}
	s.clean()
}

// A message that breaks the document is not written, and the error lists every problem.
func TestInvalidMessages(t *testing.T) {
	s := newTeam(t, "")
	s.submit(newOrder("t", "DEVELOPER"))
	s.submit(newOrder("sec", "SECURITY_AUDITOR"))
	before := s.messages()
	submit := func(o protocol.Order) error { _, err := s.client().Submit(t.Context(), o, time.Now()); return err }
	bad := newOrder("x", "DEVELOPER")
	bad.Fields = map[string]any{"requirements": "", "acceptance_criteria": []string{}, "deadline": "soon", "task_id": "y"}
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"fields":     {submit(bad), "requirements, acceptance_criteria, deadline, task_id"},
		"no one":     {submit(newOrder("x", "")), "to_agent"},
		"no words":   {submit(protocol.Order{To: "DEVELOPER"}), "task_name, requirements, acceptance_criteria"},
		"name":       {submit(newOrder("../x", "DEVELOPER")), "task_id"},
		"type":       {submit(protocol.Order{To: "DEVELOPER", Type: "poem"}), "poem"},
		"half":       {submit(protocol.Order{To: "DEVELOPER", Document: json.RawMessage(`{"task_name":`)}), "document"},
		"percent":    {s.report("t", protocol.Report{Kind: protocol.ReportProgress, Agent: "DEVELOPER", Percent: 101}), "percent"},
		"agent":      {s.report("t", protocol.Report{Kind: protocol.ReportDone, Agent: "a/b"}), "name"},
		"criteria":   {s.report("t", protocol.Report{Kind: protocol.ReportDone, Agent: "DEVELOPER", Fields: map[string]any{"validation.acceptance_criteria_met": []bool{true}}}), "1 entries for 2"},
		"liar":       {s.report("t", protocol.Report{Kind: protocol.ReportDone, Agent: "DEVELOPER", Issues: []string{"broken"}, Fields: map[string]any{"validation.all_passed": true}}), "all_passed contradicts"},
		"kind":       {s.report("t", protocol.Report{Kind: protocol.ReportDone, Agent: "DEVELOPER", Fields: map[string]any{"message_type": "TASK_REJECTION"}}), "message_type"},
		"id":         {s.report("t", protocol.Report{Kind: protocol.ReportDone, Agent: "DEVELOPER", Fields: map[string]any{"task_id": "u"}}), "task_id"},
		"no verdict": {s.report("sec", protocol.Report{Kind: protocol.ReportDone, Agent: "SECURITY_AUDITOR"}), "approval_status"},
		"verdict": {s.report("sec", protocol.Report{Kind: protocol.ReportDone, Agent: "SECURITY_AUDITOR", Issues: []string{"SQL injection"},
			Fields: map[string]any{"approval_status": "APPROVED"}}), "contradicts itself"},
		"question": {s.report("t", protocol.Report{Kind: protocol.ReportBlocked, Agent: "DEVELOPER"}), "description"},
		"own work": {s.report("t", protocol.Report{Kind: protocol.ReportApproved, Agent: "DEVELOPER"}), "another agent"},
	} {
		var invalid *protocol.InvalidError
		if !errors.As(c.err, &invalid) {
			t.Errorf("%s: %v", name, c.err)
			continue
		}
		for _, word := range strings.Split(c.want, ", ") {
			if !strings.Contains(c.err.Error(), word) {
				t.Errorf("%s: %v; want %s", name, c.err, word)
			}
		}
	}
	for name, c := range map[string]struct{ err, want error }{
		"unknown task":     {s.accept("u", "DEVELOPER", 1), protocol.ErrNoTask},
		"no id":            {s.accept("", "DEVELOPER", 1), protocol.ErrNoTask},
		"another's":        {s.accept("t", "DESIGNER", 1), protocol.ErrTaken},
		"another's report": {s.report("t", protocol.Report{Kind: protocol.ReportDone, Agent: "DESIGNER", Summary: "x"}), protocol.ErrTaken},
		"again":            {submit(newOrder("t", "DEVELOPER")), jsonfile.ErrExist},
		"after":            {submit(protocol.Order{To: "DEVELOPER", After: []string{"../u"}}), protocol.ErrNoTask},
		"no kind":          {s.report("t", protocol.Report{Kind: "sing", Agent: "DEVELOPER"}), protocol.ErrUnsupported},
		"nothing to judge": {s.report("t", protocol.Report{Kind: protocol.ReportRejected, Agent: "ORCHESTRATOR", Summary: "no"}), protocol.ErrUnsupported},
		"not taken":        {s.report("t", protocol.Report{Kind: protocol.ReportReturned, Agent: "DEVELOPER"}), protocol.ErrUnsupported},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v; want %v", name, c.err, c.want)
		}
	}
	if after := s.messages(); !slices.Equal(before, after) {
		t.Errorf("written all the same: %v", after)
	}
	if _, err := Connect(t.TempDir(), testOptions).Pending(t.Context(), "", time.Now()); !errors.Is(err, protocol.ErrAbsent) {
		t.Errorf("no folder: %v", err)
	}
}

// messages lists the message files.
func (s *team) messages() (names []string) {
	list, err := os.ReadDir(s.Path(messagesDir))
	s.Do(err)
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// However many processes accept a task at the same time, one gets it, and each task gets one acknowledgement.
func TestOneOfManyAccepts(t *testing.T) {
	s := newTeam(t, "")
	const tasks, workers = 6, 5
	for range tasks {
		s.submit(newOrder("", "DEVELOPER"))
	}
	var won atomic.Int32
	var crowd sync.WaitGroup
	for n := range workers {
		me := s.client()
		crowd.Go(func() {
			list, err := me.Pending(t.Context(), "DEVELOPER", time.Now())
			if err != nil {
				t.Error(err)
			}
			for _, a := range list {
				id := protocol.Identity{}
				if n%2 == 0 {
					id = worker(n)
				}
				switch _, err := me.Accept(t.Context(), a.ID, protocol.Acceptance{Agent: "DEVELOPER", Worker: id}, time.Now()); {
				case err == nil:
					won.Add(1)
				case !errors.Is(err, protocol.ErrTaken):
					t.Error(err)
				}
			}
		})
	}
	crowd.Wait()
	if n := len(s.messages()); won.Load() != tasks || n != 2*tasks {
		t.Errorf("%d of %d accepted, %d messages", won.Load(), tasks, n)
	}
}

// Work that must wait is listed with its reason, and cannot be accepted: a dependency, the security gate, a hold.
func TestWaitingWorkIsNotAccepted(t *testing.T) {
	s := newTeam(t, "")
	s.submit(newOrder("dev", "DEVELOPER"))
	after := newOrder("tests", "TESTING")
	after.After = []string{"dev"}
	s.submit(after)
	s.submit(protocol.Order{ID: "dep", Type: "deployment", Title: "Deploy to staging", Text: "✓ it answers"})
	held := s.submit(newOrder("held", "TESTING"))
	s.Do(os.Rename(held.Path, held.Path+".held"))
	for id, want := range map[string]string{"tests": "waits for dev", "dep": "no approval by SECURITY_AUDITOR", "held": "steward release held"} {
		a := s.show(id)
		if a.State != protocol.TaskWaiting || !strings.Contains(a.Waits, want) {
			t.Errorf("%s: %+v", id, a)
		}
		if err := s.accept(id, a.Agent, 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("accept %s: %v", id, err)
		}
	}
	s.Do(s.accept("dev", "DEVELOPER", 1))
	s.Do(s.report("dev", protocol.Report{Kind: protocol.ReportDone, Agent: "DEVELOPER", Summary: "did it"}))
	s.submit(protocol.Order{ID: "sec", Type: "security_review"})
	s.Do(s.report("sec", protocol.Report{Kind: protocol.ReportDone, Agent: "SECURITY_AUDITOR", Summary: "fine", Fields: map[string]any{"approval_status": "APPROVED"}}))
	s.Do(s.accept("tests", "TESTING", 1))
	s.Do(s.accept("dep", "DEPLOYMENT", 1))
}

// A question is put to the orchestrator or the human, its task waits, and the answer makes it free once the process that
// asked is gone.
func TestBlockedTask(t *testing.T) {
	s := newTeam(t, "")
	s.submit(newOrder("t", "DEVELOPER"))
	s.Do(s.accept("t", "DEVELOPER", 1))
	s.Do(s.report("t", protocol.Report{Kind: protocol.ReportBlocked, Agent: "DEVELOPER", Summary: "Which database?", Options: []string{"A", "B"}}))
	snap := s.scan()
	if k := taskOf(snap, "t"); len(snap.Questions) != 1 || snap.Questions[0].Text != "Which database?" || k.Awaits == "" || len(k.Workers) != 0 {
		t.Fatalf("asked: %+v, %+v", snap.Questions, k)
	}
	if err := s.accept("t", "DEVELOPER", 2); err == nil {
		t.Error("accepted while its question is open")
	}
	s.send(resolve("t"))
	if err := s.accept("t", "DEVELOPER", 2); !errors.Is(err, protocol.ErrTaken) {
		t.Errorf("the process that asked lives: %v", err)
	}
	s.gone.Store(worker(1), true)
	if a := s.show("t"); a.State != protocol.TaskPending || len(a.Feedback) != 1 {
		t.Errorf("answered: %+v", a)
	}
	s.Do(s.accept("t", "DEVELOPER", 2))
	for kind, want := range map[string]string{"scope_change": "human", "dependency_missing": "ORCHESTRATOR"} {
		r, err := s.client().Report(t.Context(), "t", protocol.Report{Kind: protocol.ReportBlocked, Agent: "DEVELOPER", Summary: "new",
			Fields: map[string]any{"blocker_type": kind}}, time.Now())
		if s.Do(err); !strings.Contains(s.Read(r.Path[len(s.Dir)+1:]), `"escalate_to": "`+want+`"`) {
			t.Errorf("%s: %s", kind, s.Read(r.Path[len(s.Dir)+1:]))
		}
	}
}

// An acknowledgement may ask first. The task waits for the answer.
func TestAcknowledgeWithQuestions(t *testing.T) {
	s := newTeam(t, "")
	s.submit(newOrder("t", "DEVELOPER"))
	_, err := s.client().Accept(t.Context(), "t", protocol.Acceptance{Agent: "DEVELOPER", Worker: worker(1), Estimate: "2 hours", Questions: []string{"Which users?"}}, time.Now())
	s.Do(err)
	snap := s.scan()
	if len(snap.Questions) != 1 || !snap.Questions[0].Blocking || snap.Questions[0].Text != "Which users?" {
		t.Fatalf("asked: %+v", snap.Questions)
	}
	s.gone.Store(worker(1), true)
	if err := s.accept("t", "DEVELOPER", 2); err == nil || !strings.Contains(err.Error(), "question") {
		t.Errorf("accepted while its question is open: %v", err)
	}
	s.send(resolve("t"))
	s.Do(s.accept("t", "DEVELOPER", 2))
}

// A failed run is a blocker, or a completion with the results so far. A refusal goes to the human; a cancelled task has
// ended.
func TestOtherEnds(t *testing.T) {
	s := newTeam(t, "")
	for _, id := range []string{"crash", "part", "refused", "off", "back"} {
		s.submit(newOrder(id, "DEVELOPER"))
		s.Do(s.accept(id, "DEVELOPER", 1))
	}
	s.Do(s.report("crash", protocol.Report{Kind: protocol.ReportFailed, Agent: "DEVELOPER", Failure: &protocol.Failure{Code: "TIMEOUT", Message: "30 min are over"}}))
	s.Do(s.report("part", protocol.Report{Kind: protocol.ReportFailed, Agent: "DEVELOPER", Summary: "half", Modified: []string{"a.ts"}, Issues: []string{"the test fails"}}))
	s.Do(s.report("refused", protocol.Report{Kind: protocol.ReportRejected, Agent: "DEVELOPER", Summary: "OAuth2 was not asked for"}))
	s.Do(s.report("off", protocol.Report{Kind: protocol.ReportCancel, Agent: "human", Summary: "the customer left"}))
	s.Do(s.report("back", protocol.Report{Kind: protocol.ReportReturned, Agent: "DEVELOPER"}))
	snap := s.scan()
	for id, want := range map[string]string{"crash": "blocked", "refused": "blocked", "part": "awaiting review", "off": "", "back": ""} {
		if k := taskOf(snap, id); k.Named != want {
			t.Errorf("%s: %q", id, k.Named)
		}
	}
	if off := taskOf(snap, "off"); !off.Cancelled || off.Outcome == nil || !s.show("off").Cancelled {
		t.Errorf("cancelled: %+v", off)
	}
	if err := s.report("off", protocol.Report{Kind: protocol.ReportDone, Agent: "DEVELOPER", Summary: "late"}); !errors.Is(err, protocol.ErrEnded) {
		t.Errorf("done after the end: %v", err)
	}
	s.Do(s.accept("back", "DEVELOPER", 2))
	if codes := protocoltest.Codes(snap, "part"); codes != "criteria medium" {
		t.Error(codes)
	}
}

// The proved end of a run makes its task free again, with the attempt counted. A crash between the steps counts it once.
func TestLostRun(t *testing.T) {
	s := newTeam(t, "")
	s.submit(newOrder("t", "DEVELOPER"))
	s.Do(s.accept("t", "DEVELOPER", 1))
	lost := func() protocol.Change {
		k := taskOf(s.scan(), "t")
		return protocol.Change{Verb: protocol.VerbRequeue, Subject: protocol.Subject{Kind: protocol.KindTask, ID: "t"}, Agent: k.Agent,
			Entry: protocol.Entry{Action: protocol.ActionRetry, Rule: "code=AGENT_LOST", Code: "AGENT_LOST", Attempt: len(k.Committed()) + 1}, Judged: protocol.Judged{Ref: k.Ref, Claim: k.Claim}}
	}
	first := lost()
	s.reopen()
	s.Do(s.apply(first))
	k := taskOf(s.scan(), "t")
	if k.Named != "" || len(k.Workers) != 0 || k.Attempt() != 2 || !k.Visible {
		t.Fatalf("lost: %+v", k)
	}
	s.Do(s.accept("t", "DEVELOPER", 2))
	if a := s.show("t"); a.Attempt != 2 || a.Worker != worker(2) {
		t.Errorf("taken again: %+v", a)
	}
	s.Do(s.apply(first)) // a late repetition changes nothing
	if a := s.show("t"); a.Worker != worker(2) {
		t.Errorf("the second run lost its task: %+v", a)
	}
	stale := lost()
	s.Do(s.report("t", protocol.Report{Kind: protocol.ReportReturned, Agent: "DEVELOPER"}))
	s.Do(s.accept("t", "DEVELOPER", 3))
	if err := s.apply(stale); !errors.Is(err, protocol.ErrConflict) || s.show("t").Worker != worker(3) {
		t.Errorf("judged for another run: %v", err)
	}
}

// A damaged record of steward's own is a fault, and the messages count as they stand. Nothing is lost, and a new record
// replaces it.
func TestDamagedRecords(t *testing.T) {
	for _, text := range []string{"", "{", "[]", `{"version": 99, "task_id": "t"}`, `{"version": 1, "task_id": "u"}`, `{"version": 1, "task_id": 7}`,
		`{"version": 1, "task_id": "t", "agent": [], "withdrawn": "x"}`} {
		s := newTeam(t, "")
		s.submit(newOrder("t", "DEVELOPER"))
		s.Do(s.accept("t", "DEVELOPER", 1))
		s.Write(workFile("t"), text)
		s.Write(workDir+"/../x.json", "{}")
		s.Write(approvedFile, "half\n{\"task_id\": 7}\n")
		o := testOptions
		o.Validate = true
		p := New(s.Dir, o)
		_ = p.Observe(t.Context(), protocol.ScanOrder{Now: time.Now()})
		snap := p.Observe(t.Context(), protocol.ScanOrder{Now: time.Now().Add(time.Minute)})
		p.Close()
		if k := taskOf(&snap, "t"); k.Named != "acknowledged" || len(k.Workers) > 0 || protocoltest.FaultAt(&snap, workFile("t")) == nil {
			t.Errorf("%s: %+v, %+v", text, k, snap.Faults)
		}
		s.Do(s.report("t", protocol.Report{Kind: protocol.ReportDone, Agent: "DEVELOPER", Summary: "did it"}))
		if s.has(workFile("t")) || s.show("t").State != protocol.TaskDone {
			t.Errorf("%s: still there", text)
		}
	}
}
