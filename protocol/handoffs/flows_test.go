package handoffs

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/protocol/protocoltest"
)

func stateDocOf(agents, rest string) string {
	return `{"schema_version": "1.0.0", "locks": {}, "agents": {` + agents + `}` + rest + "}\n"
}

// log records every open event, as the supervisor does.
func (s *site) log(snap *protocol.Snapshot) {
	s.T.Helper()
	for _, e := range snap.Events {
		s.Do(s.apply(protocol.Change{Verb: protocol.VerbLog, Subject: e.Subject, Entry: protocol.Entry{Event: e.Name}, Agent: e.Agent, Until: e.At, Why: e.Text, Judged: protocol.Judged{Ref: e.Ref}}))
	}
}

// Protocol 001, Agent Events Log: each step of a handoff is reported once, the client's own lines count, and a restart
// repeats nothing.
func TestEventsOfAHandoff(t *testing.T) {
	s := newSite(t, file(statePath, stateDocOf("", ""))+file(boxPath(completed, "old"), strings.Replace(task("old", "completed"), "{{now}}", "{{now-60s}}", 1)))
	s.look()
	s.Write(boxPath(pending, id), task(id, "pending"))
	if snap := s.after(0); len(snap.Events) > 0 || snap.Again.IsZero() || snap.Again.After(s.Now.Add(clientsTime)) {
		t.Errorf("told at once: %s; again %v", eventNames(snap), snap.Again)
	}
	snap := s.after(4 * time.Second)
	if got, want := eventNames(snap), "handoff_created "+id+" planner"; got != want {
		t.Fatalf("events %q, want %q", got, want)
	}
	s.log(snap)
	s.log(snap)
	if snap := s.look(); len(snap.Events) > 0 {
		t.Errorf("told again: %s", eventNames(snap))
	}
	line := s.Read(logPath)
	if strings.Count(line, "\n") != 1 || !strings.Contains(line, `"event":"handoff_created","agent":"planner"`) || !strings.Contains(line, `"context":{"workflow":"feature","spec":"specs/a.md","handoff":"`+id) {
		t.Errorf("the log is %s", line)
	}
	s.move(boxPath(pending, id), boxPath(accepted, id))
	s.after(0)
	snap = s.after(4 * time.Second)
	if got, want := eventNames(snap), "handoff_accepted "+id+" builder"; got != want {
		t.Fatalf("events %q, want %q", got, want)
	}
	s.log(snap)
	s.reopen()
	if snap := s.after(time.Second); len(snap.Events) > 0 {
		t.Errorf("told again after a restart: %s", eventNames(snap))
	}
	s.move(boxPath(accepted, id), boxPath(completed, id))
	if snap := s.after(5 * time.Second); len(snap.Events) > 0 || taskOf(snap, id).Outcome == nil || !taskOf(snap, id).Outcome.Succeeded() {
		t.Errorf("completed: %s, %+v", eventNames(snap), taskOf(snap, id))
	}
	if strings.Contains(s.Read(logPath), "old") {
		t.Error("history was told")
	}
}

func TestEventsOfAClientThatLogs(t *testing.T) {
	s := newSite(t, file(statePath, stateDocOf("", "")))
	s.look()
	s.Write(boxPath(pending, id), task(id, "pending"))
	s.Write(logPath, `{"event": "handoff_created", "agent": "planner", "timestamp": "{{now}}", "context": {"workflow": "feature"}}`+"\n")
	s.after(0)
	if snap := s.after(5 * time.Second); len(snap.Events) > 0 {
		t.Errorf("told although the client did: %s", eventNames(snap))
	}
}

// A handoff that passed two stages between scans has both events. A closed handoff that is rewritten has none, and
// neither has a handoff that steward requeued, even after a restart.
func TestEventsBetweenTheLooks(t *testing.T) {
	s := newSite(t, file(statePath, stateDocOf("", ""))+file(Base+"/handoffs/pending/.keep", ""))
	s.look()
	s.Write(boxPath(accepted, "quick"), task("quick", "accepted"))
	s.Write(boxPath(completed, "done"), task("done", "completed"))
	s.at(nil)
	snap := s.after(5 * time.Second)
	want := "handoff_accepted done builder, handoff_accepted quick builder, handoff_created done planner, handoff_created quick planner"
	if got := strings.Split(eventNames(snap), ", "); len(got) != 4 || strings.Join(slices.Sorted(slices.Values(got)), ", ") != want {
		t.Errorf("events %q", got)
	}
	s.Do(s.apply(requeueChange(snap, "quick")))
	s.Do(os.Remove(s.Path(boxPath(completed, "done"))))
	s.reopen()
	if snap := s.at(nil); len(snap.Tasks) != 1 || len(snap.Events) > 0 {
		t.Errorf("put back by us: %s", eventNames(snap))
	}
	s.Write(boxPath(completed, "old"), task("old", "completed"))
	s.at(nil)
	s.log(s.after(5 * time.Second))
	s.Do(os.Remove(s.Path(logPath)))
	s.Now = time.Now().Add(time.Second)
	s.reopen()
	s.p.Observe(t.Context(), protocol.ScanOrder{Now: s.Now, Since: s.Now})
	s.Write(boxPath(completed, "old"), strings.Replace(task("old", "completed"), "do it", "done", 1))
	s.at([]string{boxPath(completed, "old")})
	if snap := s.after(5 * time.Second); len(snap.Events) > 0 || taskOf(snap, "old") == nil {
		t.Errorf("written anew when it was over: %s", eventNames(snap))
	}
}

// Protocol 001, Agent Events Log, through the states of an agent, with a log that is truncated in between.
func TestEventsOfAgents(t *testing.T) {
	s := newSite(t, file(statePath, stateDocOf(`"builder": {"status": "idle"}`, "")))
	s.after(time.Minute)
	for _, c := range []struct{ status, want string }{
		{"active", "agent_started builder builder"}, {"active", ""}, {"completed", "agent_completed builder builder"},
		{"active", "agent_started builder builder"}, {"error", "error_occurred builder builder"}, {"idle", ""},
	} {
		s.Now = s.Now.Add(time.Minute)
		s.Write(statePath, stateDocOf(fmt.Sprintf(`"builder": {"status": %q, "last_active": "{{now}}"}`, c.status), ""))
		s.after(0)
		snap := s.after(4 * time.Second)
		if got := eventNames(snap); got != c.want {
			t.Errorf("%s: %q, want %q", c.status, got, c.want)
		}
		s.log(snap)
		if snap := s.after(0); len(snap.Events) > 0 {
			t.Errorf("%s: told again: %s", c.status, eventNames(snap))
		}
		s.Do(os.Truncate(s.Path(logPath), 0))
	}
}

// Protocol 001, Error Handling, Retry Protocol: each accepted handoff of a lost agent is requeued and recorded. The
// requeue is no new handoff, but the next acceptance is a new one.
func TestRetryProtocol(t *testing.T) {
	s := newSite(t, file(statePath, stateDocOf(`"builder": {"status": "active", "last_active": "{{now}}"}`, ""))+file(boxPath(pending, id), task(id, "pending")))
	s.log(s.after(4 * time.Second))
	for n := 1; n <= 3; n++ {
		s.move(boxPath(pending, id), boxPath(accepted, id))
		s.Now = s.Now.Add(time.Minute)
		s.Do(os.Chtimes(s.Path(boxPath(accepted, id)), s.Now, s.Now))
		s.after(0)
		s.log(s.after(5 * time.Second))
		snap := s.after(time.Minute)
		if k := taskOf(snap, id); k == nil || k.Named != "accepted" || len(k.Attempts) != n-1 || !k.Requeue || !k.Foreign || k.Timeout != protocol.NoTimeout {
			t.Fatalf("round %d: %+v", n, k)
		}
		c := requeueChange(snap, id)
		s.Do(s.apply(c))
		if err := s.apply(c); err != nil {
			t.Errorf("again: %v", err)
		}
		snap = s.at([]string{})
		if k := taskOf(snap, id); k == nil || !k.Visible || len(k.Attempts) != n || !k.Attempts[n-1].Committed || k.Attempt() != n+1 {
			t.Fatalf("back %d: %+v", n, k)
		}
		s.after(5 * time.Second)
	}
	if got := strings.Count(s.Read(logPath), eventCreated); got != 1 {
		t.Errorf("created %d times:\n%s", got, s.Read(logPath))
	}
	s.Do(os.Remove(s.Path(logPath)))
	s.reopen()
	s.look()
	if snap := s.after(5 * time.Second); len(snap.Events) > 0 {
		t.Errorf("what went back is told as new after a restart: %s", eventNames(snap))
	}
	s.move(boxPath(pending, id), boxPath(completed, id))
	c := protocol.Change{Verb: protocol.VerbRequeue, Subject: protocol.Subject{Kind: protocol.KindTask, ID: id}, Entry: protocol.Entry{Attempt: 4}, Judged: protocol.Judged{Ref: protocol.Ref{Path: boxDir + "/accepted/handoff-" + id + ".json", Sum: "x"}}}
	if err := s.apply(c); !errors.Is(err, protocol.ErrConflict) {
		t.Errorf("one that is completed: %v", err)
	}
	if _, err := os.Stat(s.Path(boxPath(completed, id))); err != nil {
		t.Error(err)
	}
}

// A change that names an invalid place moves nothing.
func TestRequeueOfHostilePlaces(t *testing.T) {
	s := newSite(t, file(statePath, stateDocOf("", ""))+file(Base+"/settings.json", "{}"))
	s.look()
	for _, place := range []string{"", "settings.json", "handoffs/accepted/../../settings.json", "/etc/passwd", "handoffs/completed/x.json", "handoffs/accepted/.json"} {
		c := protocol.Change{Verb: protocol.VerbRequeue, Subject: protocol.Subject{Kind: protocol.KindTask, ID: id}, Entry: protocol.Entry{Attempt: 1}, Judged: protocol.Judged{Ref: protocol.Ref{Path: place, Sum: "x"}}}
		if err := s.apply(c); !errors.Is(err, protocol.ErrConflict) {
			t.Errorf("%q: %v", place, err)
		}
	}
	c := protocol.Change{Verb: protocol.VerbRequeue, Subject: protocol.Subject{Kind: protocol.KindTask, ID: "../x"}, Entry: protocol.Entry{Attempt: 1}}
	if err := s.apply(c); err == nil {
		t.Error("a hostile id was taken")
	}
}

// Protocol 001, Error Handling, Escalation: an escalation stays open until it is answered or closed.
func TestEscalation(t *testing.T) {
	ask := func(id string) string {
		return strings.Replace(handoffText(id, "builder", "orchestrator", typeEscalation, "pending"), `{"title": "do it"}`, `{"reason": "no_db", "details": "which?", "options": ["A", " b ", 3], "blocking": false}`, 1)
	}
	s := newSite(t, file(statePath, stateDocOf("", ""))+file(boxPath(pending, "e1"), ask("e1"))+file(boxPath(accepted, "e2"), ask("e2")))
	snap := s.look()
	if len(snap.Questions) != 2 || snap.Questions[0].Text != "no db: which?" || strings.Join(snap.Questions[0].Options, "|") != "A| b |3" || snap.Questions[0].Severity != protocol.Medium || len(snap.Tasks) > 0 {
		t.Fatalf("%+v", snap.Questions)
	}
	s.Write(boxPath(pending, "r1"), strings.Replace(handoffText("r1", "human", "builder", typeAnswer, "pending"), `{"title": "do it"}`, `{"escalation_id": "e1"}`, 1))
	s.move(boxPath(accepted, "e2"), boxPath(completed, "e2"))
	if snap := s.look(); len(snap.Questions) > 0 {
		t.Errorf("answered and closed: %+v", snap.Questions)
	}
	s.move(boxPath(pending, "r1"), boxPath(completed, "r1"))
	if snap := s.look(); len(snap.Questions) > 0 {
		t.Errorf("its answer is done: %+v", snap.Questions)
	}
}

// Protocol 001, Conflict Resolution, Workflow Conflicts: agents write one file after another, so only a contradiction
// that persists is reported.
func TestWorkflowConflicts(t *testing.T) {
	s := newSite(t, file(statePath, stateDocOf(`"a": {"status": "active", "last_active": "{{now}}"}, "b": {"status": "active", "last_active": "{{now}}"}, "c": {"status": "idle"}`,
		`, "current_agent": "c", "last_handoff": "h1"`)))
	snap := s.look()
	if got := found(snap, codeWorkflow); len(got) > 0 || snap.Again.IsZero() || snap.Again.After(s.Now.Add(contradictsFor)) {
		t.Errorf("at once: %v, again %v", got, snap.Again)
	}
	before := s.Read(statePath)
	snap = s.after(31 * time.Second)
	want := "high project/state.json agents,high project/state.json current_agent,high project/state.json last_handoff"
	if got := strings.Join(found(snap, codeWorkflow), ","); got != want {
		t.Errorf("after 31 s: %s", got)
	}
	if got := s.at([]string{}); protocoltest.Describe(got) != protocoltest.Describe(snap) {
		t.Errorf("without hints %s", protocoltest.Describe(got))
	}
	if s.Read(statePath) != before {
		t.Error("the state was written")
	}
	s.Write(boxPath(pending, "x"), task("h1", "pending"))
	s.Write(statePath, stateDocOf(`"a": {"status": "active", "last_active": "{{now}}"}, "b": {"status": "completed"}`, `, "current_agent": "a", "last_handoff": "h1"`))
	if got := found(s.look(), codeWorkflow); len(got) > 0 {
		t.Errorf("mended: %v", got)
	}
	s.after(5 * time.Minute)
	s.Do(os.Remove(s.Path(boxPath(pending, "x"))))
	if got := found(s.look(), codeWorkflow); len(got) > 0 {
		t.Errorf("its handoff is on its way somewhere: %v", got)
	}
	if got := found(s.after(31*time.Second), codeWorkflow); len(got) != 1 {
		t.Errorf("its handoff is gone: %v", got)
	}
}

func TestUnclaimedAndAbandoned(t *testing.T) {
	s := newSite(t, file(statePath, stateDocOf(`"builder": {"status": "idle"}`, ""))+file(boxPath(pending, "p"), task("p", "pending"))+file(boxPath(accepted, "a"), task("a", "accepted")))
	snap := s.look()
	if len(found(snap, codeUnclaimed))+len(found(snap, codeAbandoned)) > 0 || snap.Again.IsZero() {
		t.Errorf("at once: %+v", snap.Findings)
	}
	snap = s.after(11 * time.Minute)
	if len(found(snap, codeUnclaimed)) != 1 || len(found(snap, codeAbandoned)) != 1 {
		t.Errorf("after 11 min: %+v", snap.Findings)
	}
	if f := found(snap, codeUnclaimed); !strings.HasPrefix(f[0], "low ") { // protocol 001, Activation
		t.Errorf("an idle agent waits for its activation: %+v", f)
	}
	s.Write(statePath, stateDocOf(`"builder": {"status": "stopped"}`, ""))
	if f := found(s.look(), codeUnclaimed); len(f) != 1 || !strings.HasPrefix(f[0], "medium ") {
		t.Errorf("a stopped agent takes nothing: %+v", f)
	}
	s.Write(statePath, stateDocOf(`"builder": {"status": "active", "last_active": "{{now}}"}`, ""))
	if snap := s.look(); len(snap.Findings) > 0 {
		t.Errorf("somebody is there: %+v", snap.Findings)
	}
}

func TestDuplicates(t *testing.T) {
	s := newSite(t, file(statePath, stateDocOf(`"builder": {"status": "active", "last_active": "{{now}}"}`, ""))+file(boxPath(pending, "x"), task("x", "pending"))+file(boxPath(completed, "x"), task("x", "completed")))
	if snap := s.look(); len(found(snap, codeDuplicate)) > 0 || taskOf(snap, "x").Outcome == nil {
		t.Errorf("at once: %+v", snap.Findings)
	}
	if snap := s.after(6 * time.Second); len(found(snap, codeDuplicate)) != 1 || len(snap.Tasks) != 1 {
		t.Errorf("after 6 s: %+v", snap.Findings)
	}
	s.Do(os.Remove(s.Path(boxPath(pending, "x"))))
	if snap := s.look(); len(found(snap, codeDuplicate)) > 0 {
		t.Errorf("gone: %+v", snap.Findings)
	}
}

// Whatever happens to the files, a hinted scan sees what a full scan sees.
func TestHintsSeeWhatAFullLookSees(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			s := newSite(t, file(statePath, stateDocOf(`"builder": {"status": "active", "last_active": "{{now}}"}`, `, "current_workflow": {"id": "w", "type": "feature"}`)))
			s.look()
			words := []string{"pending", "accepted", "completed"}
			for range 60 {
				name := fmt.Sprint("h", r.IntN(6))
				from, to := places[1+r.IntN(3)], places[1+r.IntN(3)]
				hints := []string{boxPath(from, name), boxPath(to, name)}
				switch r.IntN(6) {
				case 0, 1:
					s.Write(boxPath(from, name), task(name, words[r.IntN(3)]))
				case 2, 3:
					if _, err := os.Stat(s.Path(boxPath(from, name))); err == nil {
						s.move(boxPath(from, name), boxPath(to, name))
					}
				case 4:
					_ = os.Remove(s.Path(boxPath(from, name)))
				case 5:
					flat := filepath.Join(Base, boxDir, name+".json")
					s.Write(flat, task(name, words[r.IntN(3)]))
					hints = []string{flat}
				}
				s.Now = s.Now.Add(time.Second)
				quick := protocoltest.Describe(s.at(hints))
				if full := protocoltest.Describe(s.at(nil)); quick != full {
					t.Fatalf("by hints\n%s\nin full\n%s", quick, full)
				}
			}
			s.Now = s.Now.Add(time.Hour)
			old := s.at(nil)
			s.reopen()
			anew := s.at(nil)
			if len(old.Tasks) != len(anew.Tasks) {
				t.Errorf("a new adapter sees\n%s\nan old one\n%s", protocoltest.Describe(anew), protocoltest.Describe(old))
			}
		})
	}
}

// A handoff that moves during a scan is seen by every scan.
func TestNobodyVanishes(t *testing.T) {
	s := newSite(t, file(statePath, stateDocOf("", ""))+file(boxPath(pending, id), task(id, "pending")))
	s.Do(os.MkdirAll(s.Path(Base+"/handoffs/accepted"), 0o755))
	s.Do(os.MkdirAll(s.Path(Base+"/handoffs/completed"), 0o755))
	s.look()
	for round := range 60 {
		moved := make(chan error)
		go func() {
			time.Sleep(time.Duration(round%20) * 20 * time.Microsecond)
			err := os.Rename(s.Path(boxPath(pending, id)), s.Path(boxPath(accepted, id)))
			time.Sleep(200 * time.Microsecond)
			moved <- errors.Join(err, os.Rename(s.Path(boxPath(accepted, id)), s.Path(boxPath(completed, id))))
		}()
		var err error
		for i, done := 0, false; !done; i++ {
			select {
			case err = <-moved:
				done = true
			default:
			}
			s.Now = time.Now().Add(time.Second)
			hints := [][]string{nil, {}, {boxPath(pending, id)}}[i%3]
			if snap := s.at(hints); taskOf(snap, id) == nil {
				t.Fatalf("round %d: it vanished from a look with hints %q", round, hints)
			}
		}
		s.Do(err)
		s.move(boxPath(completed, id), boxPath(pending, id))
		s.look()
	}
}

// An ended handoff stays listed for a while, and then costs nothing; the figures keep it.
func TestHistoryIsBounded(t *testing.T) {
	s := newSite(t, file(statePath, stateDocOf(`"builder": {"status": "active", "last_active": "{{now}}"}`, ""))+file(boxPath(pending, "p"), task("p", "pending")))
	for i := range 300 {
		s.Write(boxPath(completed, fmt.Sprint("c", i)), task(fmt.Sprint("c", i), "completed"))
	}
	s.Write(boxPath(completed, "e"), handoffText("e", "builder", "orchestrator", typeEscalation, "completed"))
	s.look()
	snap := s.look()
	if len(snap.Tasks) > keepEnded+1 || len(s.p.boxes.listed) > keepEnded+1 || len(s.p.boxes.closed) != 302-len(s.p.boxes.listed) {
		t.Errorf("%d tasks, %d notes, %d closed", len(snap.Tasks), len(s.p.boxes.listed), len(s.p.boxes.closed))
	}
	rate := snap.Measures[len(snap.Measures)-1]
	if want := 1.0 / 302; rate.Name != "escalation_rate" || rate.Value != want {
		t.Errorf("%+v, want %v", rate, want)
	}
	s.Now = s.Now.Add(time.Hour)
	late := s.p.Observe(t.Context(), protocol.ScanOrder{Now: s.Now, Since: s.Now.Add(-time.Minute)})
	if len(late.Tasks) != 1 {
		t.Errorf("%d tasks an hour later", len(late.Tasks))
	}
	s.Do(os.Remove(s.Path(boxPath(completed, "e"))))
	if rate := s.look().Measures; rate[len(rate)-1].Value != 0 {
		t.Errorf("the escalation is gone: %+v", rate)
	}
}

func TestFolderComesAndGoes(t *testing.T) {
	s := newSite(t, file("x", ""))
	if snap := s.look(); Detect(s.Dir) || len(snap.Agents)+len(snap.Faults) > 0 {
		t.Errorf("nothing is there: %+v", snap)
	}
	s.Write(statePath, stateText)
	s.Write(boxPath(pending, id), task(id, "pending"))
	if snap := s.look(); !Detect(s.Dir) || len(snap.Agents) != 2 || len(snap.Tasks) != 1 {
		t.Errorf("it came: %+v", snap)
	}
	s.Do(os.RemoveAll(s.Path(Base)))
	if snap := s.look(); len(snap.Agents)+len(snap.Tasks)+len(snap.Locks)+len(snap.Faults) > 0 {
		t.Errorf("it went: %+v", snap)
	}
	s.Write(boxPath(pending, id), task(id, "pending"))
	if snap := s.look(); len(snap.Tasks) != 1 {
		t.Errorf("it came back: %+v", snap)
	}
}
