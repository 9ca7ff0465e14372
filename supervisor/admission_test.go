package supervisor_test

import (
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
	p.View.Load = capacity.Load{At: now, CPU: protocol.Used(0.1), Memory: protocol.Used(0.2), Files: protocol.Used(0), Disk: protocol.Used(0.1)}
	p.Config.Capacity = capacity.Config{Dimensions: []string{"cpu", "memory"}, Threshold: 0.8, RetryAfter: time.Minute, Calm: time.Second, Hysteresis: 0.05}
	p.Desks = []supervisor.DeskPicture{{Name: "p", Path: "/p"}}
	a := &supervisor.Admissions{Picture: func() *supervisor.Picture { return p }, Cores: 2}
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
