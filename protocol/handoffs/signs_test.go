package handoffs

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/livhana/steward/protocol"
)

func signsOf(t *testing.T, snap *protocol.Snapshot, name string) string {
	t.Helper()
	a, ok := snap.Agent(name)
	if !ok {
		t.Fatalf("no agent %s", name)
	}
	return a.Signs
}

const flatHandoff = Base + "/" + boxDir + "/one.json"

// nextSecond waits until file times fall into another second.
func nextSecond() { time.Sleep(1050 * time.Millisecond) }

// Protocol 001, Retry Protocol: accepting a handoff is a sign of life, even one that steward requeued. A requeue or a
// completion is not, even after a restart of steward.
func TestAcceptanceIsASignOfLife(t *testing.T) {
	agents := stateDocOf(`"builder": {"status": "active", "last_active": "{{now-1h}}"}, "reviewer": {"status": "active", "last_active": "{{now-1h}}"}`, "")
	for name, c := range map[string]struct {
		lay            string
		accept, finish func(s *site)
	}{
		"folders": {boxPath(pending, id), func(s *site) { s.move(boxPath(pending, id), boxPath(accepted, id)) }, func(s *site) { s.move(boxPath(accepted, id), boxPath(completed, id)) }},
		"flat": {flatHandoff, func(s *site) {
			s.Write(flatHandoff, strings.Replace(s.Read(flatHandoff), `"pending"`, `"accepted"`, 1))
		},
			func(s *site) {
				s.Write(flatHandoff, strings.Replace(s.Read(flatHandoff), `"accepted"`, `"completed"`, 1))
			}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, file(statePath, agents)+file(c.lay, task(id, "pending")))
			last, other := signsOf(t, s.look(), "builder"), signsOf(t, s.look(), "reviewer")
			step := func(what string, sign bool, snap *protocol.Snapshot) {
				t.Helper()
				now := signsOf(t, snap, "builder")
				if (now != last) != sign {
					t.Errorf("%s: a sign of life: %v, want %v", what, now != last, sign)
				}
				if signsOf(t, snap, "reviewer") != other {
					t.Errorf("%s: a sign of another's life", what)
				}
				last = now
			}
			for round := range 2 {
				nextSecond()
				c.accept(s)
				snap := s.look()
				step(fmt.Sprint("accepted ", round), true, snap)
				s.Do(s.apply(requeueChange(snap, id)))
				step("put back", false, s.look())
				s.reopen()
				step("put back, and a restart", false, s.look())
				if n := strings.Count(s.Read(Base+"/"+releasesFile), `"accepted"`); n != round+1 {
					t.Errorf("%d lines on record", n)
				}
			}
			nextSecond()
			c.accept(s)
			step("accepted at last", true, s.look())
			s.log(s.after(5 * time.Second))
			step("on record", false, s.look())
			c.finish(s)
			step("completed", false, s.look())
			s.reopen()
			step("completed, and a restart", false, s.look())
		})
	}
}

// An agent that is active when steward starts has not just become active: its start is reported once, if the agent has
// just set its status, and never again by steward. A start after an end in the meantime is reported.
func TestNoFalseStartAtARestart(t *testing.T) {
	doc := func(status string) string {
		return stateDocOf(fmt.Sprintf(`"builder": {"status": %q, "last_active": "{{now}}"}, "old": {"status": "active", "last_active": "{{now-1m}}"}`, status), "")
	}
	s := newSite(t, file(statePath, doc("active")))
	restart := func(status, want string) {
		t.Helper()
		s.Now = s.Now.Add(time.Minute)
		s.Write(statePath, doc(status))
		s.reopen()
		s.after(0)
		snap := s.after(4 * time.Second)
		if got := eventNames(snap); got != want {
			t.Errorf("%s: %q, want %q", status, got, want)
		}
		s.log(snap)
	}
	const started = "agent_started builder builder"
	restart("active", started)
	restart("active", "")
	restart("working", "")
	restart("completed", "agent_completed builder builder")
	restart("active", started)
	restart("active", "")
	restart("error", "error_occurred builder builder")
	restart("error", "")
	restart("active", started)
	restart("active", "")
	s.Now = s.Now.Add(time.Minute)
	s.Write(statePath, doc("idle"))
	s.after(0)
	s.Now = s.Now.Add(time.Minute)
	s.Write(statePath, doc("active"))
	s.after(0)
	snap := s.after(4 * time.Second)
	if got := eventNames(snap); got != started {
		t.Errorf("it turned in our sight: %q", got)
	}
	s.log(snap)
	restart("active", "")
}

// A state file that was being written at startup makes no agent appear to start.
func TestNoFalseStartAfterATornState(t *testing.T) {
	for name, torn := range map[string]string{"half": `{"agents": {"buil`, "empty": "", "none": "\x00"} {
		s := newSite(t, file(boxPath(pending, id), task(id, "pending")))
		if torn != "\x00" {
			s.Write(statePath, torn)
		}
		s.look()
		s.Write(statePath, stateDocOf(`"builder": {"status": "active", "last_active": "{{now-1m}}"}, "reviewer": {"status": "active"}`, ""))
		s.look()
		if got := eventNames(s.after(5 * time.Second)); strings.Contains(got, eventStarted) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// A handoff is created before it is accepted, even if the agents' clocks disagree, and within one second.
func TestCreatedComesBeforeAccepted(t *testing.T) {
	for name, more := range map[string]string{"at once": "", "its clock is behind": `, "accepted_at": "{{now-6s}}"`} {
		for range 4 { // map order is random
			s := newSite(t, file(statePath, stateDocOf("", "")))
			s.look()
			for _, id := range []string{"a", "b"} {
				s.Write(boxPath(pending, id), strings.Replace(task(id, "pending"), `, "status"`, more+`, "status"`, 1))
			}
			s.at(nil)
			for _, id := range []string{"a", "b"} {
				s.move(boxPath(pending, id), boxPath(accepted, id))
			}
			var told []string
			for range 9 {
				snap := s.look()
				for _, e := range snap.Events {
					told = append(told, e.Name+" "+e.Subject.ID)
				}
				s.log(snap)
			}
			for _, id := range []string{"a", "b"} {
				created, taken := slices.Index(told, eventCreated+" "+id), slices.Index(told, eventAccepted+" "+id)
				if len(told) != 4 || created < 0 || taken < created {
					t.Fatalf("%s: %q", name, told)
				}
			}
		}
	}
}

// A file in handoffs/ itself without any of the envelope's keys belongs to another tool, until it becomes a message.
func TestForeignFileAmongFlatMessages(t *testing.T) {
	s := newSite(t, file(statePath, stateDocOf("", ""))+file(flatHandoff, `{"hello": 1, "status": "done"}`+"\n")+file(Base+"/"+boxDir+"/index.json", "{}\n"))
	for range 3 {
		if snap := s.after(time.Hour); len(snap.Tasks)+len(snap.Findings)+len(snap.Faults)+len(snap.Events)+len(snap.Measures) > 0 {
			t.Errorf("%+v %+v %+v %+v %+v", snap.Tasks, snap.Findings, snap.Faults, snap.Events, snap.Measures)
		}
	}
	c := protocol.Change{Verb: protocol.VerbRequeue, Subject: protocol.Subject{Kind: protocol.KindTask, ID: "one"}, Entry: protocol.Entry{Attempt: 1}, Judged: protocol.Judged{Ref: protocol.Ref{Path: boxDir + "/one.json", Sum: "x"}}}
	if err := s.apply(c); err == nil {
		t.Error("it was put back")
	}
	s.Now = time.Now().Add(time.Second)
	s.Write(flatHandoff, task(id, "pending"))
	if snap := s.look(); taskOf(snap, id) == nil {
		t.Error("a message by now, and not seen")
	}
	if got := eventNames(s.after(5 * time.Second)); got != "handoff_created "+id+" planner" {
		t.Errorf("events %q", got)
	}
}
