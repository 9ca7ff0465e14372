package mailbox

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
	"github.com/livhana/steward/protocol/protocoltest"
)

// bothLayouts runs a test in the program's layout and in the document's.
func bothLayouts(t *testing.T, test func(t *testing.T, r *testProject, base string)) {
	for _, dir := range []string{"", "/tasks"} {
		t.Run(strings.TrimPrefix(dir+"/layout", "/"), func(t *testing.T) {
			base := Base + dir
			files := ""
			for _, doc := range [][2]string{{"/queue.json", emptyQueue}, {"/status.json", idleStatus}, {"/messages/to-developer.json", emptyBox}, {"/messages/to-team-lead.json", emptyBox}} {
				files += file(base+doc[0], strings.ReplaceAll(doc[1], "NOW", "{{now-1h}}"))
			}
			test(t, newTestProject(t, files), base)
		})
	}
}

// client acts one second later than the last action.
type client struct {
	*testProject
	c *Client
}

func (r *testProject) client() client {
	c := client{r, Connect(r.Dir, limits)}
	r.T.Cleanup(c.c.Close)
	return c
}

func (c client) now() time.Time {
	c.Now = c.Now.Add(time.Second)
	return c.Now
}

func (c client) submit(o protocol.Order) (protocol.Receipt, error) {
	return c.c.Submit(c.T.Context(), o, c.now())
}

func (c client) accept(id, agent string) (protocol.Receipt, error) {
	return c.c.Accept(c.T.Context(), id, protocol.Acceptance{Agent: agent}, c.now())
}

func (c client) report(id, agent string, kind protocol.ReportKind, rep protocol.Report) (protocol.Receipt, error) {
	rep.Kind, rep.Agent = kind, agent
	return c.c.Report(c.T.Context(), id, rep, c.now())
}

// must ends the test if an action failed or left the task in another state.
func (c client) must(want protocol.TaskState) func(protocol.Receipt, error) {
	return func(got protocol.Receipt, err error) {
		c.T.Helper()
		if err != nil || got.State != want {
			c.T.Fatalf("%+v, %v; want %s", got, err, want)
		}
	}
}

// fails ends the test unless an action failed with that error and changed no file of the protocol.
func (c client) fails(want error, words string, act func() (protocol.Receipt, error)) {
	c.T.Helper()
	before := c.texts()
	_, err := act()
	var invalid *protocol.InvalidError
	if err == nil || want != nil && !errors.Is(err, want) || want == nil && !errors.As(err, &invalid) || !strings.Contains(err.Error(), words) {
		c.T.Errorf("%v; want %q, %v", err, words, want)
	}
	if after := c.texts(); after != before {
		c.T.Errorf("%v changed the files:\n%s\nwere:\n%s", err, after, before)
	}
}

func (c client) pending(agent string) string {
	c.T.Helper()
	list, err := c.c.Pending(c.T.Context(), agent, c.now())
	c.Do(err)
	words := []string{}
	for _, a := range list {
		words = append(words, a.ID+" "+a.Agent+" "+a.Type+" "+string(a.State))
	}
	return strings.Join(words, ", ")
}

// texts are the protocol's files, without steward's own.
func (c client) texts() (all string) {
	c.T.Helper()
	c.Do(filepath.WalkDir(c.Path(Base), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == own {
			return fs.SkipDir
		}
		if err == nil && !d.IsDir() {
			text, _ := os.ReadFile(path)
			all += path + "\n" + string(text) + "\n"
		}
		return err
	}))
	return all
}

// queued reads queue.json.
func (c client) queued(base string) (q struct {
	Tasks, Completed []map[string]any
	Current          *string
}) {
	c.T.Helper()
	c.Do(json.Unmarshal([]byte(c.Read(base+"/queue.json")), &q))
	return q
}

func (c client) box(file string) (m struct {
	Messages []map[string]any
	LastRead *string
}) {
	c.T.Helper()
	c.Do(json.Unmarshal([]byte(c.Read(file)), &m))
	return m
}

func login() protocol.Order {
	return protocol.Order{ID: "task-007", From: "team-lead", To: developer, Title: "Login", Text: "Build a login page", Priority: "high",
		Fields: map[string]any{"filesToCreate": []any{"login.ts"}, "architecture": "MVC", "apiEndpoints": []any{"POST /login"}}}
}

// The whole flow of the document: assignment, acceptance, report, rejection, second report, approval, clearing.
func TestFlowOfTheDocument(t *testing.T) {
	bothLayouts(t, func(t *testing.T, r *testProject, base string) {
		c := r.client()
		dev, leads := base+"/messages/to-developer.json", base+"/messages/to-team-lead.json"
		c.must(protocol.TaskPending)(c.submit(login()))
		m := c.box(dev).Messages[0]
		for key, want := range map[string]any{"type": "task_assignment", "taskId": "task-007", "platform": "custom", "title": "Login", "architecture": "MVC", "instructions": "Build a login page", "timestamp": jsonfile.FormatTime(c.Now)} {
			if m[key] != want {
				t.Errorf("%s is %v, want %v", key, m[key], want)
			}
		}
		if got := c.pending("developer"); got != "task-007 developer task_assignment pending" || c.pending("team-lead") != "" {
			t.Errorf("pending: %s", got)
		}
		if c.box(dev).LastRead != nil {
			t.Error("lastRead was set before the developer has read")
		}

		c.must(protocol.TaskRunning)(c.accept("task-007", "developer"))
		q := c.queued(base)
		if q.Tasks[0]["status"] != inProgress || q.Current == nil || *q.Current != "task-007" || q.Tasks[0]["updatedAt"] != jsonfile.FormatTime(c.Now) {
			t.Errorf("%+v", q)
		}
		if *c.box(dev).LastRead != jsonfile.FormatTime(c.Now) || !strings.Contains(c.Read(base+"/status.json"), `"currentTask": "task-007"`) {
			t.Errorf("accepted: %s %s", c.Read(dev), c.Read(base+"/status.json"))
		}
		c.must(protocol.TaskRunning)(c.report("task-007", "developer", protocol.ReportProgress, protocol.Report{Percent: 40}))
		c.must(protocol.TaskWaiting)(c.report("task-007", "developer", protocol.ReportDone, protocol.Report{Summary: "it is there", Created: []string{"login.ts"},
			Fields: map[string]any{"buildResult.status": "success", "buildResult.command": "npm run build"}}))
		if m := c.box(leads).Messages[0]; m["status"] != awaitingReview || m["filesModified"] == nil || m["buildResult"].(map[string]any)["errors"] != 0.0 {
			t.Errorf("report %v", m)
		}
		if got := c.pending("team-lead"); got != "task-007 team-lead completion_report waiting" || c.pending("developer") != "" {
			t.Errorf("pending: %s", got)
		}

		c.must(protocol.TaskWaiting)(c.accept("task-007", "tech-lead"))
		if q := c.queued(base); q.Tasks[0]["status"] != awaitingReview || c.pending("") != "" {
			t.Errorf("in review: %+v, %s", q, c.pending(""))
		}
		c.must(protocol.TaskPending)(c.report("task-007", "tech-lead", protocol.ReportRejected, protocol.Report{Summary: "no tests"}))
		if q := c.queued(base); q.Tasks[0]["status"] != pending || q.Tasks[0]["rejectionReason"] != "no tests" || q.Current != nil {
			t.Errorf("rejected: %+v", q)
		}
		if a, err := c.c.Show(t.Context(), "task-007", c.now()); err != nil || a.Attempt != 2 || len(a.Feedback) != 1 || !strings.Contains(string(a.Feedback[0]), `"rejectionReason": "no tests"`) {
			t.Errorf("%+v %s %v", a, a.Message, err)
		}

		c.must(protocol.TaskRunning)(c.accept("task-007", "developer"))
		c.must(protocol.TaskWaiting)(c.report("task-007", "developer", protocol.ReportDone, protocol.Report{Summary: "with tests"}))
		if m := c.box(leads).Messages[1]; m["buildResult"].(map[string]any)["status"] != buildNotVerified {
			t.Errorf("a build that nobody ran: %v", m)
		}
		c.must(protocol.TaskDone)(c.report("task-007", "team-lead", protocol.ReportApproved, protocol.Report{}))
		q = c.queued(base)
		if len(q.Tasks) != 0 || len(q.Completed) != 1 || q.Completed[0]["status"] != completed || q.Current != nil {
			t.Errorf("approved: %+v", q)
		}
		for _, box := range []string{dev, leads} {
			if m := c.box(box); len(m.Messages) != 0 || *m.LastRead != jsonfile.FormatTime(c.Now) {
				t.Errorf("%s was not cleared: %+v", box, m)
			}
		}
		c.fails(protocol.ErrEnded, "", func() (protocol.Receipt, error) {
			return c.report("task-007", "team-lead", protocol.ReportApproved, protocol.Report{})
		})
		if s := r.look(); len(s.Findings)+len(s.Faults) > 0 {
			t.Errorf("the daemon finds fault: %+v %+v", s.Findings, s.Faults)
		}
	})
}

// A user's task goes through the team lead, who analyses it first. The lead's last words are the instructions and the verdict.
func TestFlowOfAUsersTask(t *testing.T) {
	bothLayouts(t, func(t *testing.T, r *testProject, base string) {
		c := r.client()
		done, err := c.submit(protocol.Order{Title: "Logout", Text: "a logout button"})
		if err != nil || done.ID != "task-001" {
			t.Fatalf("%+v %v", done, err)
		}
		if got := c.pending("team-lead"); got != "task-001 team-lead task pending" || c.pending("developer") != "" {
			t.Errorf("pending: %s", got)
		}
		c.fails(nil, "must assign it first", func() (protocol.Receipt, error) { return c.accept("task-001", "developer") })
		c.must(protocol.TaskRunning)(c.accept("task-001", "team-lead"))
		if s := r.look(); taskOf(t, s, "task-001").Named == "" || taskOf(t, s, "task-001").Agent != lead {
			t.Errorf("%+v", taskOf(t, s, "task-001"))
		}
		c.must(protocol.TaskPending)(c.report("task-001", "team-lead", protocol.ReportDone, protocol.Report{Summary: "put a button into the header"}))
		if m := c.box(base + "/messages/to-developer.json").Messages[0]; m["instructions"] != "put a button into the header" || m["title"] != "Logout" {
			t.Errorf("%v", m)
		}
		if got := c.pending(""); got != "task-001 developer task_assignment pending" {
			t.Errorf("pending: %s", got)
		}
		c.must(protocol.TaskRunning)(c.accept("task-001", "developer"))
		c.must(protocol.TaskWaiting)(c.report("task-001", "developer", protocol.ReportFailed, protocol.Report{Failure: &protocol.Failure{Code: "TYPE_ERROR", Message: "it does not compile"}}))
		build := c.box(base + "/messages/to-team-lead.json").Messages[0]["buildResult"].(map[string]any)
		if build["status"] != buildNotVerified || build["errors"] != 1.0 || build["output"] != "TYPE_ERROR: it does not compile" {
			t.Errorf("%v", build)
		}
		c.fails(nil, "no verdict", func() (protocol.Receipt, error) {
			return c.report("task-001", "team-lead", protocol.ReportDone, protocol.Report{Summary: "I cannot approve this"})
		})
		c.must(protocol.TaskPending)(c.report("task-001", "team-lead", protocol.ReportDone, protocol.Report{Summary: "See below.\n**REJECT: it does not compile"}))
		if q := c.queued(base); q.Tasks[0]["rejectionReason"] != "it does not compile" {
			t.Errorf("%+v", q)
		}
	})
}

// What the document's state diagram does not have is refused, and nothing is written.
func TestIllegalSteps(t *testing.T) {
	r := newTestProject(t, around)
	c := r.client()
	report := func(id, agent string, kind protocol.ReportKind) func() (protocol.Receipt, error) {
		return func() (protocol.Receipt, error) { return c.report(id, agent, kind, protocol.Report{Summary: "words"}) }
	}
	order := func(o protocol.Order) func() (protocol.Receipt, error) {
		return func() (protocol.Receipt, error) { return c.submit(o) }
	}
	accept := func(id, agent string) func() (protocol.Receipt, error) {
		return func() (protocol.Receipt, error) { return c.accept(id, agent) }
	}
	for _, no := range []struct {
		want  error
		words string
		act   func() (protocol.Receipt, error)
	}{
		{nil, "is pending: only a task in progress", report("task-004", "developer", protocol.ReportDone)},
		{nil, "is pending: only a task that awaits", report("task-004", "team-lead", protocol.ReportApproved)},
		{nil, "is pending: only a task in progress", report("task-004", "team-lead", protocol.ReportRejected)},
		{nil, "is rejected: only", report("task-002", "team-lead", protocol.ReportApproved)},
		{nil, "in_progress: only", report("task-001", "team-lead", protocol.ReportApproved)},
		{nil, "awaiting_review: only", report("task-003", "developer", protocol.ReportDone)},
		{nil, "developer cannot report \"approved\"", report("task-003", "developer", protocol.ReportApproved)},
		{nil, "awaiting_review: approve or reject", order(protocol.Order{ID: "task-003", To: developer, Title: "T", Text: "t"})},
		{protocol.ErrEnded, "", report("task-000", "developer", protocol.ReportDone)},
		{protocol.ErrEnded, "", accept("task-000", "developer")},
		{protocol.ErrEnded, "", order(protocol.Order{ID: "task-000", To: developer, Title: "T", Text: "t"})},
		{protocol.ErrTaken, "does not say", accept("task-001", "developer")},
		{protocol.ErrNoTask, "task-099", accept("task-099", "developer")},
		{jsonfile.ErrExist, "task-004", order(protocol.Order{ID: "task-004", Title: "T", Text: "t"})},
		{protocol.ErrUnsupported, "completed", order(protocol.Order{To: developer, Title: "T", Text: "t", After: []string{"task-001"}})},
		{protocol.ErrUnsupported, "has no cancellation", report("task-001", "team-lead", protocol.ReportCancel)},
		{nil, "not an agent", accept("task-004", "cook")},
		{nil, "not a task id", order(protocol.Order{ID: "../x", To: developer, Title: "T", Text: "t"})},
		{nil, "instructions is empty", order(protocol.Order{To: developer, Title: "T"})},
		{nil, "platform", order(protocol.Order{To: developer, Title: "T", Text: "t", Fields: map[string]any{"platform": "windows"}})},
		{nil, "filesToCreate must be an array", order(protocol.Order{To: developer, Title: "T", Text: "t", Fields: map[string]any{"filesToCreate": "x"}})},
		{nil, "architecture is missing", order(protocol.Order{To: developer, Document: json.RawMessage(`{"type":"task_assignment","taskId":"t-1","platform":"web","title":"T","instructions":"i","filesToCreate":[],"timestamp":"2026-01-02T03:04:05Z"}`)})},
		{nil, "not a JSON document", order(protocol.Order{To: developer, Document: json.RawMessage(`{"type":`)})},
		{nil, "priority", order(protocol.Order{Title: "T", Priority: "urgent"})},
		{nil, "title is empty", order(protocol.Order{})},
	} {
		c.fails(no.want, no.words, no.act)
	}
}

// A task that the developer gives back, or rejects, is no attempt; a question is one that the user can answer.
func TestReturnedRefusedAsked(t *testing.T) {
	bothLayouts(t, func(t *testing.T, r *testProject, base string) {
		c := r.client()
		c.must(protocol.TaskPending)(c.submit(login()))
		c.must(protocol.TaskRunning)(c.accept("task-007", "developer"))
		c.must(protocol.TaskWaiting)(c.report("task-007", "developer", protocol.ReportBlocked, protocol.Report{Summary: "Which colour?", Options: []string{"red", "blue"}}))
		if s := r.look(); len(s.Questions) != 1 || s.Questions[0].Text != "Which colour?" || !s.Questions[0].Blocking || s.Questions[0].Agent != developer || len(s.Questions[0].Options) != 2 {
			t.Errorf("%+v", s.Questions)
		}
		c.must(protocol.TaskPending)(c.report("task-007", "developer", protocol.ReportReturned, protocol.Report{}))
		if s := r.look(); !taskOf(t, s, "task-007").Visible || taskOf(t, s, "task-007").Attempt() != 1 || strings.Contains(protocoltest.Codes(s, "task-007"), "transition") {
			t.Errorf("%+v %s", taskOf(t, s, "task-007"), protocoltest.Codes(s, "task-007"))
		}
		c.must(protocol.TaskRunning)(c.accept("task-007", "developer"))
		c.must(protocol.TaskWaiting)(c.report("task-007", "developer", protocol.ReportRejected, protocol.Report{Summary: "it is not possible"}))
		if q := c.queued(base); q.Tasks[0]["status"] != rejected || q.Tasks[0]["rejectionReason"] != "it is not possible" || c.pending("") != "" {
			t.Errorf("%+v", q)
		}
		o := login()
		o.Text = "Then build a simpler one"
		c.must(protocol.TaskPending)(c.submit(o))
		if got := c.pending("developer"); got != "task-007 developer task_assignment pending" {
			t.Error(got)
		}
	})
}

// The third rejection is final until the lead assigns the task again.
func TestRejectionsAreBounded(t *testing.T) {
	bothLayouts(t, func(t *testing.T, r *testProject, base string) {
		c := r.client()
		c.must(protocol.TaskPending)(c.submit(login()))
		for _, want := range []protocol.TaskState{protocol.TaskPending, protocol.TaskPending, protocol.TaskFailed} {
			c.must(protocol.TaskRunning)(c.accept("task-007", "developer"))
			c.must(protocol.TaskWaiting)(c.report("task-007", "developer", protocol.ReportDone, protocol.Report{Summary: "done"}))
			c.must(want)(c.report("task-007", "team-lead", protocol.ReportRejected, protocol.Report{Summary: "no"}))
		}
	})
}
