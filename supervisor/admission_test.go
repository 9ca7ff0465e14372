package supervisor_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/livhana/steward/capacity"
	"github.com/livhana/steward/protocol"
	"github.com/livhana/steward/supervisor"
)

// A burst of programs that ask before they start does not all get in by the one reading that shows none of them.
func TestAdmissionsCountWhatTheyLetIn(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	p := &supervisor.Picture{}
	p.View.Load = capacity.Load{At: now, CPU: protocol.Used(0.1), Memory: protocol.Used(0.2), Files: protocol.Used(0), Disk: protocol.Used(0.1), Cores: 2, MemoryTotal: 16 << 30}
	p.Config.Capacity = capacity.Config{Dimensions: []string{"cpu", "memory"}, Threshold: 0.8, RetryAfter: time.Minute, Calm: time.Second, Hysteresis: 0.05,
		ClaimCores: 1, ClaimMemoryMB: 1024, ClaimDecays: 10 * time.Second, ClaimLapses: 30 * time.Second}
	p.Desks = []supervisor.DeskPicture{{Name: "p", Path: "/p"}}
	a := &supervisor.Admissions{Picture: func() *supervisor.Picture { return p }}
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
		t.Errorf("%d of 30 were let in on an idle machine of two cores", in)
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
	a.Picture = func() *supervisor.Picture { return nil }
	if a.Ask(supervisor.Admission{}, now) != nil {
		t.Error("an answer before the first look")
	}
}

// Work that was let in long ago and that nobody took starts when its workers come, as far as there is room: not all of it by
// one picture.
func TestAdmissionsOfABacklog(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	p := &supervisor.Picture{}
	p.View.Load = capacity.Load{At: now, CPU: protocol.Used(0.05), Memory: protocol.Used(0.1), Files: protocol.Used(0), Disk: protocol.Used(0.1), Cores: 2, MemoryTotal: 64 << 30}
	p.Config = settings()
	p.Desks = []supervisor.DeskPicture{{Name: "p", Path: "/p"}}
	s := protocol.Snapshot{Project: "p", Protocol: "agentstatus"}
	p.Plan.Memory.Tasks = supervisor.Book[supervisor.TaskMemory]{}
	for i := range 50 {
		id := fmt.Sprintf("t%02d", i)
		s.Tasks = append(s.Tasks, protocol.Task{ID: id, Agent: "a", Visible: true})
		at := s.Subject(protocol.KindTask, id)
		p.Plan.Memory.Tasks = p.Plan.Memory.Tasks.With(at, supervisor.TaskMemory{Admitted: now.Add(-time.Hour), Judged: true})
		p.Plan.Claims = append(p.Plan.Claims, capacity.Claim{Subject: at, Since: now.Add(-time.Hour), Told: true})
	}
	p.View.Snapshots = []protocol.Snapshot{s}
	a := &supervisor.Admissions{Picture: func() *supervisor.Picture { return p }}
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
	p.Plan.Memory.Tasks = p.Plan.Memory.Tasks.With(at, supervisor.TaskMemory{Judged: true, ByHand: true})
	if v := a.Ask(supervisor.Admission{Project: "/p", Task: "t49"}, now); !v.Admit {
		t.Errorf("released by hand, and refused: %s", v.Why)
	}
}

// Who was told to wait is listed until it is let in, has gone, or what it asked for waits no more.
func TestAdmissionsTellWhoWaits(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	p := &supervisor.Picture{}
	p.View.Load = capacity.Load{At: now, CPU: protocol.Used(0.99), Memory: protocol.Used(0.1), Files: protocol.Used(0), Disk: protocol.Used(0.1), Cores: 2, MemoryTotal: 64 << 30}
	p.Config = settings()
	p.Desks = []supervisor.DeskPicture{{Name: "p", Path: "/p"}}
	s := protocol.Snapshot{Project: "p", Protocol: "agentstatus", Tasks: []protocol.Task{{ID: "t", Agent: "a", Visible: true}}}
	p.View.Snapshots = []protocol.Snapshot{s}
	p.Plan.Tasks = supervisor.BookOf(map[protocol.Subject]supervisor.TaskVerdict{s.Subject(protocol.KindTask, "t"): {State: protocol.TaskPending}})
	a := &supervisor.Admissions{Picture: func() *supervisor.Picture { return p }}
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
	p.Plan.Tasks = supervisor.Book[supervisor.TaskVerdict]{}
	expect(5*time.Second, "claude 7 since 0s") // somebody has the task by now
	p.View.Load.CPU, p.View.Load.At = protocol.Used(0.1), now.Add(6*time.Second)
	a.Ask(supervisor.Admission{Project: "/elsewhere", Who: "claude", PID: 7}, now.Add(6*time.Second))
	expect(7 * time.Second)
}
