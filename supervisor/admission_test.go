package supervisor_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor"
	"github.com/livhana/steward/supervisor/decide"
)

// A burst of programs that ask before they start does not all get in by the one reading that shows none of them.
func TestAdmissionsCountWhatTheyLetIn(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	p := &supervisor.State{}
	p.View.Load = capacity.Load{At: now, CPU: protocol.Used(0.1), Memory: protocol.Used(0.2), Files: protocol.Used(0), Disk: protocol.Used(0.1), Cores: 2, MemoryTotal: 16 << 30}
	p.Config.Capacity = capacity.Config{Dimensions: []string{"cpu", "memory"}, Threshold: 0.8, RetryAfter: time.Minute, Calm: time.Second, Hysteresis: 0.05,
		ClaimCores: 1, ClaimMemoryMB: 1024, ClaimDecays: 10 * time.Second, ClaimLapses: 30 * time.Second}
	p.Projects = []supervisor.ProjectStatus{{Name: "p", Path: "/p"}}
	a := &supervisor.Admissions{State: func() *supervisor.State { return p }}
	burst := func(at time.Time) (in int) {
		p.View.Load.At = at
		for range 30 {
			if a.Ask(supervisor.Admission{}, at).Admit {
				in++
			}
		}
		return in
	}
	if in := burst(now); in != 2 {
		t.Errorf("%d of 30 were admitted on an idle machine of two cores", in)
	}
	if in := burst(now.Add(time.Second)); in > 1 {
		t.Errorf("%d more after a second", in)
	}
	if in := burst(now.Add(20 * time.Second)); in != 2 {
		t.Errorf("%d once the readings show what there is", in)
	}
	if v := a.Ask(supervisor.Admission{Project: "/p", Task: "unseen"}, now); v.Admit || v.Known || !v.Supervised {
		t.Errorf("a task that was not looked at: %+v", v)
	}
	a.State = func() *supervisor.State { return nil }
	if a.Ask(supervisor.Admission{}, now) != nil {
		t.Error("an answer before the first look")
	}
}

// Work that was admitted long ago and that nobody took starts when its workers come, as far as there is room: not all of it by
// one state.
func TestAdmissionsOfABacklog(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	p := &supervisor.State{}
	p.View.Load = capacity.Load{At: now, CPU: protocol.Used(0.05), Memory: protocol.Used(0.1), Files: protocol.Used(0), Disk: protocol.Used(0.1), Cores: 2, MemoryTotal: 64 << 30}
	p.Config = settings()
	p.Projects = []supervisor.ProjectStatus{{Name: "p", Path: "/p"}}
	s := protocol.Snapshot{Project: "p", Protocol: "agentstatus"}
	p.Plan.Memory.Tasks = decide.Book[decide.TaskMemory]{}
	for i := range 50 {
		id := fmt.Sprintf("t%02d", i)
		s.Tasks = append(s.Tasks, protocol.Task{Request: protocol.Request{ID: id, Agent: "a"}, Visible: true})
		at := s.Subject(protocol.KindTask, id)
		p.Plan.Memory.Tasks = p.Plan.Memory.Tasks.With(at, decide.TaskMemory{TaskGate: decide.TaskGate{Admitted: now.Add(-time.Hour), Judged: true}})
		p.Plan.Claims = append(p.Plan.Claims, capacity.Reservation{Subject: at, Since: now.Add(-time.Hour), Told: true})
	}
	p.View.Snapshots = []protocol.Snapshot{s}
	a := &supervisor.Admissions{State: func() *supervisor.State { return p }}
	in := 0
	for i := range 50 {
		if a.Ask(supervisor.Admission{Project: "/p", Task: fmt.Sprintf("t%02d", i)}, now).Admit {
			in++
		}
	}
	if in != 2 || len(a.Promised(now)) != 2 {
		t.Errorf("%d of 50 workers begin at once on two idle cores, %d are told to the loop", in, len(a.Promised(now)))
	}
	// What the operator released is asked about by no gate.
	at := s.Subject(protocol.KindTask, "t49")
	p.Plan.Memory.Tasks = p.Plan.Memory.Tasks.With(at, decide.TaskMemory{TaskGate: decide.TaskGate{Judged: true, ByHand: true}})
	if v := a.Ask(supervisor.Admission{Project: "/p", Task: "t49"}, now); !v.Admit {
		t.Errorf("released by hand, and refused: %s", v.Why)
	}
}

// Who was told to wait is listed until it is admitted, has gone, or what it asked for waits no more.
func TestAdmissionsTellWhoWaits(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	p := &supervisor.State{}
	p.View.Load = capacity.Load{At: now, CPU: protocol.Used(0.99), Memory: protocol.Used(0.1), Files: protocol.Used(0), Disk: protocol.Used(0.1), Cores: 2, MemoryTotal: 64 << 30}
	p.Config = settings()
	p.Projects = []supervisor.ProjectStatus{{Name: "p", Path: "/p"}}
	s := protocol.Snapshot{Project: "p", Protocol: "agentstatus", Tasks: []protocol.Task{{Request: protocol.Request{ID: "t", Agent: "a"}, Visible: true}}}
	p.View.Snapshots = []protocol.Snapshot{s}
	p.Plan.Tasks = decide.BookOf(map[protocol.Subject]decide.TaskVerdict{s.Subject(protocol.KindTask, "t"): {State: protocol.TaskPending}})
	a := &supervisor.Admissions{State: func() *supervisor.State { return p }}
	list := func(at time.Time) (names []string) {
		for _, w := range a.Asking(at) {
			names = append(names, fmt.Sprintf("%s%s %d since %s", w.Who, w.Task, w.PID, w.Since.Sub(now)))
		}
		return names
	}
	expect := func(at time.Duration, want ...string) {
		t.Helper()
		if got := list(now.Add(at)); !slices.Equal(got, want) {
			t.Errorf("at %s: %q, want %q", at, got, want)
		}
	}
	a.Ask(supervisor.Admission{Project: "/elsewhere", Who: "claude", PID: 7}, now)
	a.Ask(supervisor.Admission{Project: "/p", Task: "t", PID: 8}, now.Add(time.Second))
	a.Ask(supervisor.Admission{Project: "/p", Task: "t", PID: 9}, now.Add(2*time.Second)) // another worker asks for the same one
	a.Ask(supervisor.Admission{Project: "/p", Who: "looks", Look: true}, now)
	a.Ask(supervisor.Admission{}, now)
	expect(3*time.Second, "claude 7 since 0s", "t 9 since 1s")
	v := a.Ask(supervisor.Admission{Project: "/elsewhere", Who: "claude", PID: 7}, now.Add(4*time.Second))
	expect(5*time.Second, "claude 7 since 0s", "t 9 since 1s")
	expect(5*time.Second + v.RetryAfter + 10*time.Second) // neither asked again
	p.Plan.Tasks = decide.Book[decide.TaskVerdict]{}
	expect(5*time.Second, "claude 7 since 0s") // somebody has the task by now
	p.View.Load.CPU, p.View.Load.At = protocol.Used(0.1), now.Add(6*time.Second)
	a.Ask(supervisor.Admission{Project: "/elsewhere", Who: "claude", PID: 7}, now.Add(6*time.Second))
	expect(7 * time.Second)
}

// picture is the state of a machine with two cores, one busy, and two projects that each have a task t, held or not.
func picture(t *testing.T, now time.Time, folder string) *supervisor.State {
	t.Helper()
	p := &supervisor.State{}
	p.View.Load = capacity.Load{At: now, CPU: protocol.Used(0.3), Memory: protocol.Used(0.1), Files: protocol.Used(0), Disk: protocol.Used(0.1), Cores: 2, MemoryTotal: 64 << 30}
	p.Config = settings()
	p.Projects = []supervisor.ProjectStatus{{Name: "p", Path: folder}, {Name: "q", Path: "/q"}}
	verdicts := map[protocol.Subject]decide.TaskVerdict{}
	for _, name := range []string{"q", "p"} {
		s := protocol.Snapshot{Project: name, Protocol: "agentstatus", Tasks: []protocol.Task{{Request: protocol.Request{ID: "t", Agent: "a"}, Visible: true}, {Request: protocol.Request{ID: "held", Agent: "a"}}, {Request: protocol.Request{ID: "freed", Agent: "a"}}, {Request: protocol.Request{ID: "other"}, Handling: protocol.Handling{Foreign: true}}}}
		for i := range s.Tasks[1:3] {
			s.Tasks[1+i].Hold = &protocol.Hold{Reason: protocol.HoldCapacity}
		}
		p.View.Snapshots = append(p.View.Snapshots, s)
		verdicts[s.Subject(protocol.KindTask, "t")] = decide.TaskVerdict{State: protocol.TaskPending}
		verdicts[s.Subject(protocol.KindTask, "held")] = decide.TaskVerdict{State: protocol.TaskDeferred, Cause: quoted("no room in " + name), NotBefore: now.Add(42 * time.Second)}
		verdicts[s.Subject(protocol.KindTask, "freed")] = decide.TaskVerdict{State: protocol.TaskPending, Cause: quoted("admitted")}
	}
	p.Plan.Tasks = decide.BookOf(verdicts)
	return p
}

func quoted(text string) protocol.Cause {
	return protocol.Cause{Phrase: protocol.PhraseQuote, Facts: protocol.Facts{Text: text}}
}

// What a worker or a program is told, by where it asks and for what.
func TestAdmissionAnswers(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	real := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(real, link); err != nil {
		t.Skip("no links here")
	}
	for _, c := range []struct {
		name        string
		q           supervisor.Admission
		admit       bool
		known, ours bool
		retry       time.Duration
		why         string
	}{
		{"no folder at all", supervisor.Admission{}, true, true, false, 0, "cpu highest: 30 % (limit 80 %)"},
		{"a folder of nobody", supervisor.Admission{Project: t.TempDir()}, true, true, false, 0, "cpu highest: 30 % (limit 80 %)"},
		{"a folder that is not there", supervisor.Admission{Project: filepath.Join(real, "gone"), Task: "t"}, true, true, false, 0, "cpu highest: 30 % (limit 80 %)"},
		{"a low limit of its own", supervisor.Admission{Throttle: protocol.Used(0.2)}, false, true, false, time.Minute, "cpu is at 30 %, over the limit of 20 %"},
		{"its project", supervisor.Admission{Project: real, Task: "t"}, true, true, true, 0, "cpu highest: 30 % (limit 80 %)"},
		{"through a link", supervisor.Admission{Project: link, Task: "held"}, false, true, true, 42 * time.Second, "no room in p"},
		{"with a slash", supervisor.Admission{Project: real + "/", Task: "held"}, false, true, true, 42 * time.Second, "no room in p"},
		{"the other project's", supervisor.Admission{Project: "/q", Task: "held"}, false, true, true, 42 * time.Second, "no room in q"},
		{"on its way to be seen", supervisor.Admission{Project: real, Task: "freed"}, false, true, true, 50 * time.Millisecond, "it is being admitted"},
		{"of a protocol whose work steward does not hold for lack of room", supervisor.Admission{Project: real, Task: "other"}, true, true, true, 0, "cpu highest: 30 % (limit 80 %)"},
		{"for a role that is held", supervisor.Admission{Project: link, Task: "other", Role: "builder"}, false, true, true, supervisor.AskAgain, "builder of p is held"},
		{"for another role", supervisor.Admission{Project: link, Task: "other", Role: "fixer"}, true, true, true, 0, "cpu highest: 30 % (limit 80 %)"},
	} {
		p := picture(t, now, real)
		a := &supervisor.Admissions{State: func() *supervisor.State { return p }, Stops: func(project, role string) string {
			if role == "builder" {
				return role + " of " + project + " is held"
			}
			return ""
		}}
		got := a.Ask(c.q, now)
		if got.Admit != c.admit || got.Known != c.known || got.Supervised != c.ours || got.RetryAfter != c.retry || got.Why != c.why {
			t.Errorf("%s: %+v", c.name, *got)
		}
	}
	p := picture(t, now, link)
	for folder, want := range map[string]string{real: "p", link: "p", "/q": "q", "/elsewhere": "/elsewhere", "": ""} {
		if got := p.Named(folder); got != want {
			t.Errorf("%q is called %q, not %q", folder, got, want)
		}
	}
}

// What was admitted a moment ago counts until the readings show it, each piece of work once; and who only looks takes nothing.
func TestAdmissionsRemember(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	p := picture(t, now, "/p")
	p.Plan.Memory.Gate.BaseCores = 0.6
	a := &supervisor.Admissions{State: func() *supervisor.State { return p }}
	for range 5 {
		if v := a.Ask(supervisor.Admission{Look: true}, now); !v.Admit {
			t.Fatalf("a look took the room: %s", v.Why)
		}
	}
	for i := range 3 { // the worker asks again and again: one claim
		if v := a.Ask(supervisor.Admission{Project: "/p", Task: "t"}, now.Add(time.Duration(i)*time.Second)); !v.Admit {
			t.Fatalf("the same task, asked for the %d. time: %s", i+1, v.Why)
		}
	}
	later := now.Add(2 * time.Second)
	if n := len(a.Promised(later)); n != 1 {
		t.Errorf("%d promises for one task", n)
	}
	// 0.6 of two cores are in use and one is promised: half of what another one needs is not there. The place may come at any time.
	if v := a.Ask(supervisor.Admission{Who: "claude", PID: 7}, later); v.Admit || v.RetryAfter != 2500*time.Millisecond {
		t.Errorf("in beside a promise: %+v", *v)
	}
	// Once the loop lists it as a claim of its own it counts once, from the later of the two moments.
	id := p.View.Snapshots[1].Subject(protocol.KindTask, "t")
	p.Plan.Claims = []capacity.Reservation{{Subject: id, Since: now.Add(-time.Hour)}}
	if v := a.Ask(supervisor.Admission{Who: "claude", PID: 7}, later); v.Admit {
		t.Errorf("the claim that was renewed has lapsed: %s", v.Why)
	}
	again := now.Add(13 * time.Second)
	p.View.Load.At = again
	if v := a.Ask(supervisor.Admission{Who: "claude", PID: 7}, again); !v.Admit {
		t.Errorf("what was promised 11 s ago and lapsed an hour ago keeps others out: %s", v.Why)
	}
	if v := a.Ask(supervisor.Admission{Who: "gemini", PID: 8}, again); v.Admit {
		t.Errorf("two programs in one place: %s", v.Why)
	}
}
