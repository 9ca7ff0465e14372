package handoffs

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/jsonfile"
	"github.com/livhana/steward/protocol/protocoltest"
)

var gone = protocol.Identity{PID: 4711, Start: 99, Boot: "boot", UID: 1}

// inHand is a project in which builder works on handoff 1, as the process gone.
func inHand(t testing.TB, dir string, now time.Time) {
	protocoltest.Write(t, dir, file(boxPath(pending, "1"), task("1", "pending")), now)
	act(t, dir, func(c *Client) error {
		if err := c.p.Prepare(t.Context(), protocol.Boot{Agent: "builder", Now: now}); err != nil {
			return err
		}
		_, err := c.Accept(t.Context(), "1", protocol.Acceptance{Worker: gone}, now)
		return err
	})
}

func act(t testing.TB, dir string, do func(c *Client) error) {
	t.Helper()
	c := Connect(dir, Options{})
	defer c.Close()
	if err := do(c); err != nil {
		t.Error(err)
	}
}

// restart does what the daemon and the next command do: a handoff whose process is gone is requeued.
func restart(t testing.TB, dir string, now time.Time) (snap protocol.Snapshot) {
	t.Helper()
	p := New(dir, Options{})
	defer p.Close()
	for range 4 {
		snap = p.Observe(t.Context(), protocol.ScanOrder{Now: now})
		k := taskOf(&snap, "1")
		if k == nil || k.Named == "" {
			break
		}
		if len(k.Workers) != 1 || k.Workers[0] != gone {
			t.Errorf("accepted, with the workers %v", k.Workers)
			break
		}
		err := p.Apply(t.Context(), protocol.Change{Verb: protocol.VerbRequeue, Subject: snap.Subject(protocol.KindTask, "1"), Agent: "builder",
			Judged: protocol.Judged{Ref: k.Ref, Claim: k.Claim}, Entry: protocol.Entry{Code: "AGENT_LOST", Attempt: 1}}, now)
		if err != nil {
			t.Error(err)
		}
	}
	act(t, dir, func(c *Client) error {
		_, err := c.Pending(context.Background(), "", now)
		return err
	})
	snap = p.Observe(t.Context(), protocol.ScanOrder{Now: now})
	if len(snap.Faults) > 0 {
		t.Error(snap.Faults)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, Base, claimsDir, "*.json")); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
	if a, _ := snap.Agent("builder"); a != nil && !a.Idle {
		t.Errorf("builder is %s", a.Status)
	}
	return snap
}

// messages lists the messages of a project as "type box status", without those that were there before.
func messages(t testing.TB, dir string) string {
	t.Helper()
	var list []string
	for _, at := range places {
		files, _ := filepath.Glob(filepath.Join(dir, Base, at.dir(), "*.json"))
		for _, name := range files {
			doc, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			o, err := jsonfile.Parse(doc)
			if err != nil {
				t.Fatalf("%s: %v\n%s", name, err, doc)
			}
			m := decodeMessage(o, name)
			list = append(list, m.kind+" "+at.String()+" "+m.status)
		}
	}
	return strings.Join(list, ", ")
}

// A process that ends between any two writes of a report leaves either the report or the work, once, with its attempt
// counted.
func TestReportsSurviveKills(t *testing.T) {
	type report struct {
		name   string
		report protocol.Report
		want   string
	}
	var acts []protocoltest.Act
	for _, r := range []report{
		{"done", protocol.Report{Kind: protocol.ReportDone}, "completion pending pending, review_request pending pending, task_handoff completed completed"},
		{"failed", protocol.Report{Kind: protocol.ReportFailed, Summary: "x", Failure: &protocol.Failure{Severity: "fatal"}}, "escalation pending pending, task_handoff accepted failed"},
		{"rejected", protocol.Report{Kind: protocol.ReportRejected}, "task_handoff accepted rejected"},
		{"cancelled", protocol.Report{Kind: protocol.ReportCancel}, "task_handoff completed cancelled"},
		{"blocked", protocol.Report{Kind: protocol.ReportBlocked, Summary: "which?"}, "escalation pending pending, task_handoff pending pending"},
		{"returned", protocol.Report{Kind: protocol.ReportReturned}, "task_handoff pending pending"},
	} {
		acts = append(acts, protocoltest.Act{Name: r.name, Lay: inHand,
			Do: func(dir string, now time.Time) error {
				c := Connect(dir, Options{})
				defer c.Close()
				_, err := c.Report(context.Background(), "1", r.report, now)
				return err
			},
			After: func(t testing.TB, dir string, now time.Time, killed bool) {
				snap := restart(t, dir, now)
				got := strings.Join(sorted(strings.Split(messages(t, dir), ", ")), ", ")
				if requeued := len(taskOf(&snap, "1").Attempts) == 1; killed && requeued && !strings.Contains(got, ",") && got == "task_handoff pending accepted" {
					return // the report was not recorded yet: the work runs again
				}
				if got != r.want {
					t.Errorf("got %s", got)
				}
			}})
	}
	protocoltest.KillActs(t, time.Now, acts)
}

// A process that ends between any two writes of an acceptance leaves the handoff pending, or as lost as its process.
func TestAcceptSurvivesKills(t *testing.T) {
	protocoltest.KillActs(t, time.Now, []protocoltest.Act{{Name: "accept",
		Lay: func(t testing.TB, dir string, now time.Time) {
			protocoltest.Write(t, dir, file(boxPath(pending, "1"), task("1", "pending")), now)
			act(t, dir, func(c *Client) error { return c.p.Prepare(t.Context(), protocol.Boot{Agent: "builder", Now: now}) })
		},
		Do: func(dir string, now time.Time) error {
			c := Connect(dir, Options{})
			defer c.Close()
			_, err := c.Accept(context.Background(), "1", protocol.Acceptance{Worker: gone}, now)
			return err
		},
		After: func(t testing.TB, dir string, now time.Time, _ bool) {
			restart(t, dir, now)
			act(t, dir, func(c *Client) error {
				_, err := c.Accept(context.Background(), "1", protocol.Acceptance{}, now)
				return err
			})
			if got := messages(t, dir); got != "task_handoff accepted accepted" {
				t.Errorf("got %s", got)
			}
		}}})
}

// The orchestrator takes each step of the flow once, also if it is killed between any two writes.
func TestOrchestratorSurvivesKills(t *testing.T) {
	orchestrate := func(dir string, now time.Time) error {
		c := Connect(dir, Options{})
		defer c.Close()
		_, err := c.Orchestrate(context.Background(), now)
		return err
	}
	step := func(name, message, want, last string) protocoltest.Act {
		return protocoltest.Act{Name: name, Do: orchestrate,
			Lay: func(t testing.TB, dir string, now time.Time) {
				protocoltest.Write(t, dir, message, now)
				act(t, dir, func(c *Client) error { return c.p.Prepare(t.Context(), protocol.Boot{Agent: "builder", Now: now}) })
			},
			After: func(t testing.TB, dir string, now time.Time, _ bool) {
				if err := orchestrate(dir, now); err != nil {
					t.Error(err)
				}
				restart(t, dir, now)
				if got := strings.Join(sorted(strings.Split(messages(t, dir), ", ")), ", "); got != want {
					t.Errorf("got %s", got)
				}
				if state, _ := os.ReadFile(filepath.Join(dir, Base, stateFile)); !strings.Contains(string(state), fmt.Sprintf("%q: %q", "last_handoff", last)) {
					t.Errorf("state %s", state)
				}
			}}
	}
	protocoltest.KillActs(t, time.Now, []protocoltest.Act{
		step("begin", file(boxPath(pending, "r"), handoffText("r", human, orchestrator, typeTask, "pending")),
			"task_handoff accepted accepted, task_handoff pending pending", idAfter("next", "r")),
		step("hand on", file(boxPath(pending, "c"), handoffText("c", "builder", orchestrator, typeCompletion, "pending"))+
			file(boxPath(completed, "1"), task("1", "completed")),
			"completion completed completed, review_request pending pending, task_handoff completed completed", idAfter("next", "1")),
	})
}

func sorted(list []string) []string {
	m := map[string]bool{}
	for i, s := range list {
		m[fmt.Sprint(s, "\x00", i)] = true
	}
	out := sortedKeys(m)
	for i := range out {
		out[i], _, _ = strings.Cut(out[i], "\x00")
	}
	return out
}
